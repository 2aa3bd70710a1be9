//! Suggestions for an unknown word.
//!
//! Invariant: a suggestion is one of the known words.

use strsim::levenshtein;

/// Words of other libraries and conventions, each with its word here, including all words that `docs/attribute.md`
/// translates.
const ELSEWHERE: [(&str, &str); 36] = [
    ("acquiretimeout", "wait"),
    ("atleast", "min_hold"),
    ("atmost", "lease"),
    ("autorelease", "on_finish"),
    ("customlocktimeoutstrategy", "on_busy"),
    ("customreleasetimeoutstrategy", "on_lost"),
    ("executor", "client"),
    ("expire", "lease"),
    ("expiretime", "lease"),
    ("failstrategy", "on_busy"),
    ("fallbackmethod", "on_busy"),
    ("fencing", "fence"),
    ("holdtime", "lease"),
    ("id", "name"),
    ("ifexpirewhenfinish", "on_finish"),
    ("key", "name"),
    ("keybuilderstrategy", "name"),
    ("keys", "name"),
    ("leasetime", "lease"),
    ("lockatleastfor", "min_hold"),
    ("lockatmostfor", "lease"),
    ("locktimeoutstrategy", "on_busy"),
    ("locktype", "kind"),
    ("lockwatchdogtimeout", "watchdog"),
    ("maxrenewtimes", "max_renewals"),
    ("path", "name"),
    ("prefix", "name"),
    ("releasetimeoutstrategy", "on_lost"),
    ("throwexceptioniffailed", "on_busy"),
    ("timeout", "wait"),
    ("timeunit", "wait"),
    ("token", "fence"),
    ("ttl", "lease"),
    ("type", "kind"),
    ("waittime", "wait"),
    ("waittimeout", "wait"),
];

/// Returns the word of `known` that is most likely meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let plain = written.to_lowercase().replace('_', "");
    let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours);
    if let Some(ours) = elsewhere {
        return known.into_iter().find(|word| *word == ours);
    }
    let near = known.into_iter().map(|word| (levenshtein(&plain, &word.replace('_', "")), word));
    let (letters, word) = near.min_by_key(|(letters, _)| *letters)?;
    (letters * 2 <= plain.chars().count()).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["name", "kind", "wait", "lease", "max_hold", "min_hold"];

    #[test]
    fn typos_are_corrected() {
        for (written, meant) in [
            ("nmae", "name"),
            ("leese", "lease"),
            ("maxhold", "max_hold"),
            ("waits", "wait"),
            ("Kind", "kind"),
        ] {
            assert_eq!(nearest(written, KNOWN), Some(meant), "{written}");
        }
    }

    #[test]
    fn words_of_other_libraries_are_translated() {
        for (written, meant) in [
            ("waitTime", "wait"),
            ("leaseTime", "lease"),
            ("lockAtLeastFor", "min_hold"),
            ("lockAtMostFor", "lease"),
            ("at_most", "lease"),
            ("keys", "name"),
            ("ttl", "lease"),
        ] {
            assert_eq!(nearest(written, KNOWN), Some(meant), "{written}");
        }
    }

    #[test]
    fn unrelated_words_get_no_suggestion() {
        for written in ["colour", "x", "", "executor"] {
            assert_eq!(nearest(written, KNOWN), None, "{written}");
        }
        assert_eq!(nearest("ttl", ["read", "write"]), None);
    }
}
