//! Redis's protocol, from bytes to commands and replies.
//!
//! Invariant: what is not whole yet is left as it is.
//! Called by: the server's connections; the ground, for the replies to foreign clients.

use std::io;

use leasehold_store::embedded::Frame;

/// A command: its name and its arguments.
pub(super) type Command = Vec<Vec<u8>>;

/// The first command, and its length in bytes; `None` when it is not whole yet.
pub(super) fn command(bytes: &[u8]) -> io::Result<Option<(Command, usize)>> {
    let mut rest = bytes;
    let Some(count) = number(&mut rest, b'*')? else { return Ok(None) };
    let mut command = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        let Some(length) = number(&mut rest, b'$')? else { return Ok(None) };
        if rest.len() < length + 2 {
            return Ok(None);
        }
        command.push(rest[..length].to_vec());
        rest = &rest[length + 2..];
    }
    Ok(Some((command, bytes.len() - rest.len())))
}

/// The first reply, and its length in bytes; `None` when it is not whole yet.
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

/// A line with a number, behind its mark.
fn number(rest: &mut &[u8], mark: u8) -> io::Result<Option<usize>> {
    let Some(end) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let digits = rest[..end].strip_prefix(&[mark]).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    *rest = &rest[end + 2..];
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_when_it_is_whole() {
        let bytes = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n";
        for cut in 0..20 {
            assert_eq!(command(&bytes[..cut]).unwrap(), None, "{cut}");
        }
        let get = vec![b"GET".to_vec(), b"k".to_vec()];
        assert_eq!(command(bytes).unwrap(), Some((get, 20)));
        assert!(command(b"GET k\r\n").is_err());
    }

    #[test]
    fn a_reply_reads_back() {
        let items = vec![Frame::ok(), Frame::Nil, Frame::Int(-2), Frame::bulk("a\r\nb"), Frame::NilArray];
        let bytes = Frame::Array(items.clone()).encode();
        assert_eq!(reply(&bytes).unwrap(), Some((Frame::Array(items), bytes.len())));
        assert_eq!(reply(&bytes[..bytes.len() - 1]).unwrap(), None);
    }
}
