//! Checks that the user has the rights that the locks need.

use crate::doctor::facts::{Facts, Known, Native, Rights};
use crate::doctor::finding::{Check, Finding};

const RIGHTS: Check = Check {
    name: "rights",
    why: "a script that lacks a right fails half-way through, or its waiters are not woken",
    assumption: None,
};
const OPERATOR: Check = Check {
    name: "operator-rights",
    why: "an operator who lacks a right cannot see all locks or all holders",
    assumption: None,
};

const NATIVE: Check = Check {
    name: "native-release",
    why: "releasing a plain lock with a native command costs the server less than with a script",
    assumption: None,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let finding = match &facts.rights {
        Known::Answered(Rights { user, missing, .. }) if missing.is_empty() => {
            RIGHTS.pass(format!("the user {user} has all rights that locks need"))
        }
        Known::Answered(Rights { user, missing, optional }) => {
            let found = format!("the user {user} lacks {}", missing.join(" "));
            if missing == optional {
                RIGHTS.warn(found, facts.acl_line.clone())
            } else {
                RIGHTS.fail(found, facts.acl_line.clone())
            }
        }
        gap => RIGHTS.unknown(gap.gap("ACL WHOAMI and ACL DRYRUN"), facts.acl_line.clone()),
    };
    [finding].into_iter().chain(operator(facts)).chain(native(facts)).collect()
}

/// A server without such a command is as good as it can be, and has no finding.
fn native(facts: &Facts) -> Option<Finding> {
    let Native { user, allowed, denied } = facts.native.as_ref()?;
    if let Some(command) = allowed.first() {
        return Some(NATIVE.pass(format!("the user {user} may run {}", command.to_uppercase())));
    }
    let command = denied.first()?;
    let found = format!(
        "the user {user} may not run {}, so each connection falls back to a script",
        command.to_uppercase()
    );
    Some(NATIVE.warn(found, format!("ACL SETUSER {user} +{command}")))
}

fn operator(facts: &Facts) -> Option<Finding> {
    let (rights, line) = facts.operator.as_ref()?;
    Some(match rights {
        Known::Answered(Rights { user, missing, .. }) if missing.is_empty() => {
            OPERATOR.pass(format!("the operator {user} has all rights that the commands need"))
        }
        Known::Answered(Rights { user, missing, .. }) => {
            OPERATOR.warn(format!("the operator {user} lacks {}", missing.join(" ")), line.clone())
        }
        gap => OPERATOR.unknown(gap.gap("ACL DRYRUN"), line.clone()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn missing_rights_are_named_with_the_line_that_gives_them() {
        let lacking = |missing: &[&str]| {
            let missing: Vec<_> = missing.iter().map(|rule| (*rule).to_owned()).collect();
            let optional = missing.iter().filter(|rule| rule.starts_with('+')).cloned().collect();
            let rights = Known::Answered(Rights { user: "me".into(), missing, optional });
            check(&Facts { rights, ..healthy() }).remove(0)
        };
        assert_eq!(lacking(&[]).verdict, Verdict::Pass);
        assert_eq!(lacking(&["+pubsub|numsub"]).verdict, Verdict::Warn);
        let failed = lacking(&["+pubsub|numsub", "~app:*"]);
        assert_eq!(failed.verdict, Verdict::Fail);
        assert!(failed.found.contains("~app:*") && failed.run.unwrap().starts_with("ACL SETUSER"));
        assert_eq!(check(&denied())[0].verdict, Verdict::Unknown);
    }

    #[test]
    fn a_native_command_that_the_user_may_not_run_is_a_warning() {
        let of = |allowed: &[&'static str], denied: &[&'static str]| {
            let native = Native { user: "me".into(), allowed: allowed.into(), denied: denied.into() };
            check(&Facts { native: Some(native), ..healthy() }).into_iter().nth(1)
        };
        assert!(of(&[], &[]).is_none(), "the server has neither");
        assert_eq!(of(&["delex"], &["delifeq"]).unwrap().verdict, Verdict::Pass, "one of both is enough");
        let warned = of(&[], &["delifeq", "delex"]).unwrap();
        assert_eq!(warned.verdict, Verdict::Warn);
        assert!(warned.found.contains("falls back to a script"), "{}", warned.found);
        assert_eq!(warned.run.as_deref(), Some("ACL SETUSER me +delifeq"));
    }

    #[test]
    fn an_operator_is_checked_if_one_is_named() {
        let of = |rights| {
            let found = check(&Facts { operator: Some((rights, "ACL SETUSER op".into())), ..healthy() });
            found[1].verdict
        };
        let lacking = |missing: &[&str]| {
            let missing: Vec<_> = missing.iter().map(|rule| (*rule).to_owned()).collect();
            Known::Answered(Rights { user: "op".into(), missing, optional: Vec::new() })
        };
        assert_eq!(check(&healthy()).len(), 1);
        assert_eq!((of(lacking(&[])), of(lacking(&["+scan"]))), (Verdict::Pass, Verdict::Warn));
        assert_eq!(of(Known::Denied), Verdict::Unknown);
    }
}
