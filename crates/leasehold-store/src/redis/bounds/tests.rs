//! Tests of the bounds, byte by byte and in one piece.

use std::iter;

use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::*;

/// Follows the bytes in chunks of this size. Returns the number of values, and whether a next value has begun.
fn follow(bytes: &[u8], chunk: usize) -> Result<(u64, bool), Breach> {
    let mut framing = Framing::default();
    bytes.chunks(chunk).try_for_each(|part| framing.follow(part))?;
    Ok((framing.complete, !framing.is_between()))
}

#[track_caller]
fn assert_follows(bytes: &[u8], expected: Result<(u64, bool), Breach>) {
    for chunk in [1, 2, 7, bytes.len()] {
        assert_eq!(follow(bytes, chunk), expected, "{:?} by {chunk}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn values_of_a_redis_are_counted() {
    for (bytes, complete) in [
        (&b"+OK\r\n"[..], 1),
        (b"-ERR \r of \n a kind\r\n", 1),
        (b":-9223372036854775808\r\n", 1),
        (b"$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n", 4),
        (b"$7\r\n\r\n$1\r\n*\r\n", 1),
        (b"*2\r\n*1\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n:7\r\n", 2),
        (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", 1),
    ] {
        assert_follows(bytes, Ok((complete, false)));
        let mut cut = bytes.to_vec();
        cut.pop();
        assert_follows(&cut, Ok((complete - 1, true)));
    }
}

#[test]
fn a_header_that_announces_too_much_is_refused_before_its_content() {
    for bytes in [
        &b"$4611686018427387904\r\n"[..],
        b"$1048577\r\n",
        b"*16385\r\n",
        b"*9223372036854775807\r\n",
        b"*2\r\n$1048500\r\n",
        b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    ] {
        assert_follows(bytes, Err(Breach::TooLarge));
        let (_, begun) = follow(&bytes[..bytes.len() - 1], 1).unwrap();
        assert!(begun, "not before the header is complete");
    }
    let many: Vec<u8> = b"*16000\r\n".iter().copied().chain(b":1\r\n".repeat(16_000)).collect();
    assert_follows(&many, Err(Breach::TooLarge));
    let line: Vec<u8> = iter::once(b'-').chain(iter::repeat_n(b'x', LINE_MAX + 1)).collect();
    assert_follows(&line, Err(Breach::TooLarge));
    assert_follows(&line[..LINE_MAX], Ok((0, true)));
}

#[test]
fn invalid_values_are_rejected_and_named() {
    for (bytes, breach) in [
        (&b"HTTP/1.1 400 Bad Request\r\n"[..], Breach::Http),
        (b"\x15\x03\x03\x00\x02\x02\x46", Breach::Tls),
        (b"220 mail.example ESMTP\r\n", Breach::Protocol),
        (b"%1\r\n", Breach::Protocol),
        (b">2\r\n", Breach::Protocol),
        (b"$-2\r\n", Breach::Protocol),
        (b"*-7\r\n", Breach::Protocol),
        (b"$ 1\r\n", Breach::Protocol),
        (b":hunter2\r\n", Breach::Protocol),
        (b":1\rx\n", Breach::Protocol),
        (b":99999999999999999999999\r\n", Breach::Protocol),
        (b"\n", Breach::Protocol),
    ] {
        assert_eq!(follow(bytes, bytes.len()), Err(breach), "{}", String::from_utf8_lossy(bytes));
    }
}

/// Returns a bounded stream on which a PING was written, and the server's end of it.
async fn after_a_ping() -> (Bounded, tokio::io::DuplexStream) {
    let (here, there) = duplex(1 << 12);
    let mut stream = Bounded::over(Box::pin(here));
    // Two writes, as a full buffer makes them.
    stream.write_all(b"*1\r\n$4\r\nPI").await.unwrap();
    stream.write_all(b"NG\r\n").await.unwrap();
    (stream, there)
}

#[tokio::test]
async fn a_reply_without_a_command_ends_the_stream() {
    for (says, breach) in [
        ("+PONG\r\n+PONG\r\n", Breach::Unasked),
        ("+PONG\r\n+", Breach::Unasked),
        ("+PONG\r\nHTTP", Breach::Http),
    ] {
        let (stream, mut server) = after_a_ping().await;
        let mut stream = Bounded { answers_only: true, ..stream };
        server.write_all(says.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        let error = stream.read_to_end(&mut heard).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(stream.breach().get(), Some(&breach));
        assert_eq!(heard, b"", "the parser sees none of it");
    }
}

#[tokio::test]
async fn a_stream_with_open_or_extra_replies_is_not_used_for_commands() {
    for (says, taken) in [("", false), ("+PONG\r\n", true), ("+PONG\r\n+", false), ("+PONG\r\n:1\r\n", false)]
    {
        let (mut stream, mut server) = after_a_ping().await;
        server.write_all(says.as_bytes()).await.unwrap();
        drop(server);
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(stream.answers_only().is_ok(), taken, "{says}");
    }
}

proptest! {
    #[test]
    fn chunk_boundaries_make_no_difference(bytes in prop::collection::vec(prop::sample::select(&b"+-:$*\r\n0123x"[..]), 0..60)) {
        let whole = follow(&bytes, bytes.len().max(1));
        for chunk in 1..4 {
            prop_assert_eq!(follow(&bytes, chunk), whole);
        }
    }
}
