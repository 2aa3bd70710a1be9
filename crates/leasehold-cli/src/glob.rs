//! Patterns of names: `*` is any text, `?` is one letter, and everything else is itself.
//!
//! Invariant: a match takes time in proportion to the lengths of the name and the pattern at most.

use std::convert::Infallible;
use std::str::FromStr;

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(Vec<char>);

impl FromStr for Glob {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(Self(text.chars().collect()))
    }
}

impl Glob {
    /// Returns true if the whole name fits the pattern.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (&self.0, name.chars().collect::<Vec<_>>());
        let (mut at, mut in_name) = (0, 0);
        // The last star, and the letters that it takes. Earlier stars need not take more.
        let mut star = None;
        while in_name < name.len() {
            match pattern.get(at) {
                Some('*') => {
                    star = Some((at, in_name));
                    at += 1;
                }
                Some(letter) if *letter == '?' || *letter == name[in_name] => {
                    (at, in_name) = (at + 1, in_name + 1);
                }
                _ => match star {
                    Some((place, taken)) => {
                        star = Some((place, taken + 1));
                        (at, in_name) = (place + 1, taken + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[at..].iter().all(|letter| *letter == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_the_whole_name() {
        for (pattern, name, fits) in [
            ("order:*", "order:42", true),
            ("order:*", "reorder:42", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("?", "ü", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[a]", "[a]", true),
            ("a**", "a", true),
            ("?*", "", false),
        ] {
            let glob: Glob = pattern.parse().unwrap_or_else(|never| match never {});
            assert_eq!(glob.matches(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_little_time() {
        let glob: Glob = "*a".repeat(500).parse().unwrap_or_else(|never| match never {});
        assert!(!glob.matches(&"a".repeat(400)));
        assert!(!glob.matches(&format!("{}b", "a".repeat(2000))));
    }
}
