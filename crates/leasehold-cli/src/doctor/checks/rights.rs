//! The rights of the user.

use crate::doctor::facts::{Facts, Known, Rights};
use crate::doctor::finding::{Check, Finding};

const RIGHTS: Check = Check {
    name: "rights",
    why: "a script that lacks a right fails half-way through, or its waiters are not woken",
    assumption: None,
};
pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let finding = match &facts.rights {
        Known::Answered(Rights { user, missing, .. }) if missing.is_empty() => {
            RIGHTS.pass(format!("the user {user} lacks no right"))
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
    vec![finding]
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
}
