//! A parser of Redis replies for foreign clients, from bytes to replies.
//!
//! Invariant: an incomplete reply consumes nothing.

use std::io;

use leasehold_store::embedded::Frame;

/// Parses the first reply and its length in bytes, or returns `None` if the reply is incomplete.
pub(super) fn reply(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let length = || text.parse::<i64>().map_err(|_| io::Error::from(io::ErrorKind::InvalidData));
    let mut taken = end + 2;
    let frame = match bytes[0] {
        b'+' => Frame::Simple(text),
        b'-' => Frame::Error(text),
        b':' => Frame::Int(length()?),
        b'$' => match usize::try_from(length()?) {
            Err(_) => Frame::Nil,
            Ok(length) if bytes.len() < taken + length + 2 => return Ok(None),
            Ok(length) => {
                taken += length + 2;
                Frame::Bulk(bytes[end + 2..end + 2 + length].to_vec())
            }
        },
        b'*' => {
            let Ok(count) = usize::try_from(length()?) else { return Ok(Some((Frame::NilArray, taken))) };
            let mut items = Vec::new();
            for _ in 0..count {
                let Some((item, length)) = reply(&bytes[taken..])? else { return Ok(None) };
                items.push(item);
                taken += length;
            }
            Frame::Array(items)
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(Some((frame, taken)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_round_trips() {
        let items = vec![Frame::ok(), Frame::Nil, Frame::Int(-2), Frame::bulk("a\r\nb"), Frame::NilArray];
        let bytes = Frame::Array(items.clone()).encode();
        assert_eq!(reply(&bytes).unwrap(), Some((Frame::Array(items), bytes.len())));
        assert_eq!(reply(&bytes[..bytes.len() - 1]).unwrap(), None);
    }
}
