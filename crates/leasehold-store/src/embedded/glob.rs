//! The patterns that KEYS, PSUBSCRIBE and PUBSUB CHANNELS take.
//!
//! Invariant: matching does not recurse for each byte, so no pattern can exhaust the stack.

/// Returns true if `pattern` matches `text`. A pattern has `*`, `?`, `[a-c]`, `[^a]`, and `\` before a byte that means
/// itself.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut seen) = (0, 0);
    // The position to resume at when a star must take one more byte.
    let mut again: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            again = Some((at, seen));
            continue;
        }
        if at == pattern.len() && seen == text.len() {
            return true;
        }
        let step = match text.get(seen) {
            Some(&byte) if at < pattern.len() => one(&pattern[at..], byte),
            _ => None,
        };
        match (step, again) {
            (Some(length), _) => {
                at += length;
                seen += 1;
            }
            (None, Some((resume, taken))) if taken < text.len() => {
                again = Some((resume, taken + 1));
                (at, seen) = (resume, taken + 1);
            }
            _ => return false,
        }
    }
}

/// Returns the number of bytes at the beginning of the pattern that match this byte, or `None` if they do not match.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', rest @ ..] => class(rest, byte).map(|length| length + 1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

fn class(rest: &[u8], byte: u8) -> Option<usize> {
    let negated = rest.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match &rest[at.min(rest.len())..] {
            // A class that does not end takes the rest of the pattern.
            [] => break,
            [b'\\', escaped, ..] => {
                found |= *escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                let (low, high) = (*from.min(to), *from.max(to));
                found |= (low..=high).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                found |= *plain == byte;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_as_documented() {
        let yes = [
            ("*", ""),
            ("*", "abc"),
            ("a*c", "abbc"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[^a]x", "bx"),
            ("\\*", "*"),
            ("a**b*", "aab"),
            ("*[b]", "ab"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no =
            [("", "a"), ("a", ""), ("a*c", "abb"), ("[a-c]", "d"), ("[^a]", "a"), ("?", ""), ("\\*", "a")];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }
}
