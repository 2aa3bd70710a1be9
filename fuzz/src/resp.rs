//! Redis's protocol (RESP2), parsed strictly.
//!
//! Invariant: the parser shares no code with the library, so that it can check it.

/// Returns the bytes after one whole reply, or `None` if these bytes do not begin with a reply.
pub(crate) fn after_one(bytes: &[u8]) -> Option<&[u8]> {
    let (kind, rest) = bytes.split_first()?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = (&rest[..end], &rest[end + 2..]);
    match kind {
        b'+' | b'-' => (!line.contains(&b'\r') && !line.contains(&b'\n')).then_some(rest),
        b':' => number(line).map(|_| rest),
        b'$' if line == b"-1" => Some(rest),
        b'$' => {
            let length = usize::try_from(number(line)?).ok()?;
            rest.get(length..)?.strip_prefix(b"\r\n")
        }
        b'*' if line == b"-1" => Some(rest),
        b'*' => (0..usize::try_from(number(line)?).ok()?).try_fold(rest, |rest, _| after_one(rest)),
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}
