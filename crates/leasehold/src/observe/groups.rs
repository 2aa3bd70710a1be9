//! The group of a name: what many names of one purpose have in common.
//!
//! A metric with a label per name would have as many series as there are orders. So labels have the group.

use std::borrow::Cow;

/// The most segments of a group.
const SEGMENTS: usize = 2;
/// The longest segment that stands for itself, in bytes.
const SEGMENT_MAX: usize = 24;
/// The characters between two segments.
const SEPARATORS: [char; 5] = [':', '/', '.', '_', '-'];

/// Returns the group of a name: its first segments, with `*` for each one that has a digit or is long, as such segments
/// tell one order from the next.
pub fn of_name(name: &str) -> Cow<'_, str> {
    // Stars make a group longer than its name by two bytes at most.
    let mut group = String::with_capacity(name.len() + SEGMENTS);
    let mut rest = name;
    for _ in 0..SEGMENTS {
        let end = rest.find(SEPARATORS).unwrap_or(rest.len());
        let (segment, behind) = rest.split_at(end);
        let varies = segment.len() > SEGMENT_MAX || segment.contains(|c: char| c.is_ascii_digit());
        group.push_str(if varies { "*" } else { segment });
        let Some(separator) = behind.chars().next() else { break };
        rest = &behind[separator.len_utf8()..];
        group.push(separator);
    }
    let group = group.trim_end_matches(SEPARATORS);
    if group == name { Cow::Borrowed(name) } else { Cow::Owned(group.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_vary_are_stars_and_two_stay() {
        for (name, group) in [
            ("order:42", "order:*"),
            ("order:42:lines", "order:*"),
            ("nightly-report", "nightly-report"),
            ("report", "report"),
            ("a/b/c", "a/b"),
            ("550e8400-e29b-41d4-a716-446655440000", "*-*"),
            ("user:abcdefghijklmnopqrstuvwxyz", "user:*"),
            ("q3", "*"),
            (":", ""),
            ("", ""),
        ] {
            assert_eq!(of_name(name), group, "{name}");
        }
    }
}
