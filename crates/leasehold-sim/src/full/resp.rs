//! Redis's protocol: the server's side of a connection, and the replies that a foreign client reads.
//!
//! Invariant: commands are executed in the order of their bytes, and answered in it.
//! Called by: the server, for each connection; the ground, for foreign clients.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use futures_util::future::select;
use leasehold_proto::Call;
use leasehold_store::embedded::Frame;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::gate::Gate;

/// A command: its name and its arguments.
pub(super) type Command = Vec<Vec<u8>>;

/// A call, as a command with its script's text.
pub(super) fn eval(call: &Call) -> Command {
    let mut command: Command = ["EVAL", call.script().source()].map(Into::into).to_vec();
    command.push(call.keys().len().to_string().into());
    command.extend(call.keys().iter().map(|key| key.as_bytes().to_vec()));
    command.extend(call.args().iter().map(|argument| argument.as_bytes().to_vec()));
    command
}

/// What stands behind the connections.
pub(super) trait Commands: 'static {
    /// Executes a command of a process.
    fn execute(&self, process: usize, command: Command) -> Frame;

    /// Sends what is published on a channel to `ear`, until it is dropped or left.
    fn join(&self, process: usize, channel: &[u8], ear: &UnboundedSender<Frame>);

    /// Ends that.
    fn leave(&self, channel: &[u8], ear: &UnboundedSender<Frame>);
}

/// Serves a connection of a process until it ends. While the gate is closed nothing is read or answered.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    process: usize,
    commands: Arc<impl Commands>,
    gate: Gate,
) -> io::Result<()> {
    let (mut incoming, mut outgoing) = split(stream);
    let (answer, answers) = unbounded_channel();
    let session = async {
        let mut session = Session { process, commands, answer, channels: Vec::new() };
        let mut bytes = Vec::with_capacity(1024);
        loop {
            gate.passed().await;
            while let Some((command, length)) = parse(&bytes)? {
                bytes.drain(..length);
                session.take(command);
            }
            if incoming.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
    };
    let written = write(&mut outgoing, answers, &gate);
    select(pin!(session), pin!(written)).await.factor_first().0
}

async fn write(
    outgoing: &mut (impl AsyncWrite + Unpin),
    mut answers: UnboundedReceiver<Frame>,
    gate: &Gate,
) -> io::Result<()> {
    let mut bytes = Vec::new();
    while let Some(frame) = answers.recv().await {
        gate.passed().await;
        frame.encode_into(&mut bytes);
        while let Ok(frame) = answers.try_recv() {
            frame.encode_into(&mut bytes);
        }
        outgoing.write_all(&bytes).await?;
        bytes.clear();
    }
    Ok(())
}

struct Session<C: Commands> {
    process: usize,
    commands: Arc<C>,
    answer: UnboundedSender<Frame>,
    channels: Vec<Vec<u8>>,
}

impl<C: Commands> Session<C> {
    fn take(&mut self, command: Command) {
        let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        match name.as_slice() {
            b"SUBSCRIBE" => self.each(&command, Self::subscribe),
            b"UNSUBSCRIBE" => self.each(&command, Self::unsubscribe),
            b"PING" if !self.channels.is_empty() => {
                self.say(Frame::Array(vec![Frame::bulk("pong"), Frame::bulk("")]));
            }
            b"PING" => self.say(Frame::Simple("PONG".to_owned())),
            _ => {
                let frame = self.commands.execute(self.process, command);
                self.say(frame);
            }
        }
    }

    fn each(&mut self, command: &Command, change: impl Fn(&mut Self, &[u8])) {
        for channel in &command[1..] {
            change(self, channel);
        }
    }

    fn subscribe(&mut self, channel: &[u8]) {
        if !self.channels.iter().any(|known| known == channel) {
            self.channels.push(channel.to_vec());
        }
        self.commands.join(self.process, channel, &self.answer);
        self.confirm("subscribe", channel);
    }

    fn unsubscribe(&mut self, channel: &[u8]) {
        self.channels.retain(|known| known != channel);
        self.commands.leave(channel, &self.answer);
        self.confirm("unsubscribe", channel);
    }

    fn confirm(&self, what: &str, channel: &[u8]) {
        let count = Frame::Int(i64::try_from(self.channels.len()).unwrap_or(i64::MAX));
        self.say(Frame::Array(vec![Frame::bulk(what), Frame::bulk(channel), count]));
    }

    fn say(&self, frame: Frame) {
        // Whoever asked may have gone.
        let _ = self.answer.send(frame);
    }
}

impl<C: Commands> Drop for Session<C> {
    fn drop(&mut self) {
        for channel in &self.channels {
            self.commands.leave(channel, &self.answer);
        }
    }
}

/// The first command, and its length in bytes; `None` when it is not whole yet.
fn parse(bytes: &[u8]) -> io::Result<Option<(Command, usize)>> {
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
pub(super) fn parse_reply(bytes: &[u8]) -> io::Result<Option<(Frame, usize)>> {
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
                let Some((item, length)) = parse_reply(&bytes[taken..])? else { return Ok(None) };
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
            assert_eq!(parse(&bytes[..cut]).unwrap(), None, "{cut}");
        }
        let command = vec![b"GET".to_vec(), b"k".to_vec()];
        assert_eq!(parse(bytes).unwrap(), Some((command, 20)));
        assert!(parse(b"GET k\r\n").is_err());
    }

    #[test]
    fn a_reply_reads_back() {
        let items = vec![Frame::ok(), Frame::Nil, Frame::Int(-2), Frame::bulk("a\r\nb"), Frame::NilArray];
        let bytes = Frame::Array(items.clone()).encode();
        assert_eq!(parse_reply(&bytes).unwrap(), Some((Frame::Array(items), bytes.len())));
        assert_eq!(parse_reply(&bytes[..bytes.len() - 1]).unwrap(), None);
    }
}
