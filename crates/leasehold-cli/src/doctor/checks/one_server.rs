//! Checks whether one server, or a proxy with several, is behind an address.

use leasehold_store::redis::wire::Answer;

use crate::doctor::facts::{Behind, Facts};
use crate::doctor::finding::{Check, Finding};

const ONE_SERVER: Check = Check {
    name: "one-server",
    why: "a proxy that routes a script by its first name locks the other names of the script on the wrong server",
    assumption: Some("A5"),
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let tag = "use the address of one server, if you lock several names together";
    match &facts.behind {
        None => Vec::new(),
        Some(Behind::One) => vec![ONE_SERVER.pass("one server is behind the address")],
        Some(Behind::Slots) => {
            let found = "the address refuses scripts with names of several slots, so only locks of a single name work";
            vec![ONE_SERVER.warn(found, tag)]
        }
        Some(Behind::Several) => {
            let found = "a proxy routes each script by its first name to one of several servers, so only locks of a \
                         single name work, and waiters may have to poll";
            vec![ONE_SERVER.warn(found, tag)]
        }
        Some(Behind::Unknown(reason)) => {
            let found = format!("{reason}, so calls on several names do not share a script");
            vec![ONE_SERVER.unknown(found, format!("{}, or {tag}", facts.acl_line))]
        }
    }
}

impl Behind {
    /// Reads the answers to the question which server runs a script, for all keys together and then for each alone.
    pub(crate) fn read(answers: &[Answer]) -> Self {
        let unknown = || Self::Unknown("the server does not say in a script which one it is".to_owned());
        match answers {
            [Answer::Error(text), ..] if text.starts_with("CROSSSLOT") => Self::Slots,
            [Answer::Error(text), ..] => Self::Unknown(format!("INFO in a script: {text}")),
            [Answer::Text(first), others @ ..] if !others.is_empty() => {
                let is_other = |other: &Answer| matches!(other, Answer::Text(other) if other != first);
                let is_same = |other: &Answer| matches!(other, Answer::Text(other) if other == first);
                match () {
                    () if others.iter().all(is_same) => Self::One,
                    () if others.iter().any(is_other) => Self::Several,
                    () => unknown(),
                }
            }
            _ => unknown(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn the_answers_tell_one_server_from_several() {
        let text = |text: &str| Answer::Text(text.to_owned());
        let error = |text: &str| Answer::Error(text.to_owned());
        for (answers, expected) in [
            (vec![text("a"), text("a"), text("a")], Verdict::Pass),
            (vec![text("a"), text("a"), text("b")], Verdict::Warn),
            (vec![error("CROSSSLOT Keys in request don't hash to the same slot"), text("a")], Verdict::Warn),
            (vec![error("NOPERM this user has no permissions to run 'info'"), text("a")], Verdict::Unknown),
            (vec![text("a"), error("ERR no"), text("a")], Verdict::Unknown),
            (vec![Answer::Nil, Answer::Nil], Verdict::Unknown),
            (vec![text("a")], Verdict::Unknown),
        ] {
            let facts = Facts { behind: Some(Behind::read(&answers)), ..healthy() };
            assert_eq!(verdict(&check(&facts), "one-server"), expected, "{answers:?}");
        }
        assert!(check(&Facts { behind: None, ..healthy() }).is_empty());
    }
}
