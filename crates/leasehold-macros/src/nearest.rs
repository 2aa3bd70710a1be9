//! What somebody meant who wrote a word that we do not know.
//!
//! Invariant: a guess is one of the words that may be written, or none.
//! Called by: the options, for names of options and of choices.

/// Words of other libraries, and of house style elsewhere, for what is called otherwise here.
const ELSEWHERE: [(&str, &str); 24] = [
    ("acquiretimeout", "wait"),
    ("atleast", "min_hold"),
    ("atmost", "max_hold"),
    ("expire", "lease"),
    ("expiretime", "lease"),
    ("failstrategy", "on_busy"),
    ("fencing", "fence"),
    ("holdtime", "lease"),
    ("id", "name"),
    ("key", "name"),
    ("keys", "name"),
    ("leasetime", "lease"),
    ("lockatleastfor", "min_hold"),
    ("lockatmostfor", "max_hold"),
    ("locktype", "kind"),
    ("lockwatchdogtimeout", "watchdog"),
    ("path", "name"),
    ("prefix", "name"),
    ("timeout", "wait"),
    ("token", "fence"),
    ("ttl", "lease"),
    ("type", "kind"),
    ("waittime", "wait"),
    ("waittimeout", "wait"),
];

/// The word of `known` that was probably meant.
pub(crate) fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = known.into_iter().collect();
    let plain = written.to_lowercase().replace('_', "");
    let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == plain).map(|(_, ours)| *ours);
    if let Some(ours) = elsewhere {
        return known.into_iter().find(|word| *word == ours);
    }
    let near = known.into_iter().map(|word| (distance(&plain, &word.replace('_', "")), word));
    let (letters, word) = near.min_by_key(|(letters, _)| *letters)?;
    (letters * 2 <= plain.chars().count()).then_some(word)
}

/// How many letters have to be put in, left out or changed to make one word of the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut corner = line;
        row[0] = line + 1;
        for (column, against) in other.iter().enumerate() {
            let changed = corner + usize::from(letter != *against);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["name", "kind", "wait", "lease", "max_hold", "min_hold"];

    #[test]
    fn a_slip_of_the_pen_is_understood() {
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
    fn words_of_other_libraries_are_known() {
        for (written, meant) in [
            ("waitTime", "wait"),
            ("leaseTime", "lease"),
            ("lockAtLeastFor", "min_hold"),
            ("lockAtMostFor", "max_hold"),
            ("keys", "name"),
            ("ttl", "lease"),
        ] {
            assert_eq!(nearest(written, KNOWN), Some(meant), "{written}");
        }
    }

    #[test]
    fn what_resembles_nothing_is_not_guessed_at() {
        for written in ["colour", "x", "", "executor"] {
            assert_eq!(nearest(written, KNOWN), None, "{written}");
        }
        assert_eq!(nearest("ttl", ["read", "write"]), None);
    }
}
