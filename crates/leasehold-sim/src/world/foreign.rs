//! The commands of foreign clients: one stream for each command.
//!
//! Invariant: a command without a reply within the timeout may have been executed.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use futures_util::future::{Either, select};
use leasehold_store::embedded::Frame;

use super::net::Net;
use super::stream::{Happened, StreamId};

/// Runs a command, and returns its reply.
pub(super) async fn command(net: Net, process: usize, command: Vec<Vec<u8>>) -> Option<Frame> {
    let unwritten = Frame::Array(command.into_iter().map(Frame::Bulk).collect()).encode();
    let request = Request { stream: net.dial(process), is_connected: false, unwritten, reply: Vec::new() };
    let expiry = net.timeline.sleep(net.plan.timeout);
    let outcome = select(Box::pin(request.answered(&net)), expiry).await;
    match outcome {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => None,
    }
}

struct Request {
    stream: StreamId,
    is_connected: bool,
    unwritten: Vec<u8>,
    reply: Vec<u8>,
}

impl Request {
    async fn answered(mut self, net: &Net) -> Option<Frame> {
        let _end = HangUp { net, stream: self.stream };
        poll_fn(|cx| {
            while let Poll::Ready(happened) = net.poll_happened(self.stream, cx.waker()) {
                match happened {
                    Happened::Connected => self.is_connected = true,
                    Happened::Bytes(bytes) => self.reply.extend(bytes),
                    Happened::Refused | Happened::Closed => return Poll::Ready(None),
                }
            }
            if self.is_connected && !self.unwritten.is_empty() {
                let count = net.write(self.stream, &self.unwritten);
                self.unwritten.drain(..count);
            }
            match parse(&self.reply) {
                Ok(None) => Poll::Pending,
                Ok(Some((frame, _))) => Poll::Ready(Some(frame)),
                Err(_) => Poll::Ready(None),
            }
        })
        .await
    }
}

/// Closes a stream when its command ends.
struct HangUp<'a> {
    net: &'a Net,
    stream: StreamId,
}

impl Drop for HangUp<'_> {
    fn drop(&mut self) {
        self.net.hang_up(self.stream);
    }
}

/// Parses the first reply and its length in bytes, or returns `None` if the reply is incomplete.
fn parse(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
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
                let Some((item, length)) = parse(&bytes[taken..])? else { return Ok(None) };
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
        assert_eq!(parse(&bytes).unwrap(), Some((Frame::Array(items), bytes.len())));
        assert_eq!(parse(&bytes[..bytes.len() - 1]).unwrap(), None);
    }
}
