//! Checks that the server runs scripts.

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Check, Finding};

const SCRIPTS: Check = Check {
    name: "scripts",
    why: "locks are acquired, renewed and released by Lua scripts; only an uncontended plain lock does without",
    assumption: None,
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    match &facts.script {
        None => Vec::new(),
        Some(Ok(())) => vec![SCRIPTS.pass("EVAL runs on a scratch name")],
        Some(Err(reason)) if reason.starts_with("NOPERM") => vec![SCRIPTS.fail(
            format!("the user may not run EVAL on the scratch name: {reason}"),
            format!("set --prefix to the beginning of the user's names, or {}", facts.acl_line),
        )],
        Some(Err(reason)) => vec![SCRIPTS.fail(reason.clone(), "use a server that runs EVAL and EVALSHA")],
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_server_must_run_scripts() {
        let of = |script| check(&Facts { script, ..healthy() });
        assert_eq!(verdict(&of(Some(Ok(()))), "scripts"), Verdict::Pass);
        assert_eq!(verdict(&of(Some(Err("ERR unknown command 'EVAL'".into()))), "scripts"), Verdict::Fail);
        let denied = of(Some(Err("NOPERM no key".into())));
        assert_eq!(denied[0].verdict, Verdict::Fail);
        assert!(denied[0].run.as_ref().unwrap().contains("ACL SETUSER"));
        assert!(of(None).is_empty());
    }
}
