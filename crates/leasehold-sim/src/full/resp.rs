//! Redis's protocol: the server's side of a connection.
//!
//! Invariant: commands are executed in the order of their bytes, and answered in it.
//! Called by: the server, for each connection.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::select;
use leasehold_proto::Call;
use leasehold_store::embedded::Frame;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::gate::Gate;
use super::parse::{Command, command};

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

/// Serves a connection of a process until it ends. While the gate is closed nothing is executed or answered, but what
/// arrives has been received.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite,
    process: usize,
    commands: Arc<impl Commands>,
    gate: Gate,
) -> io::Result<()> {
    let (mut incoming, mut outgoing) = split(stream);
    let (answer, answers) = unbounded_channel();
    let mut session = Session { process, commands, answer, channels: Vec::new() };
    let mut received = Received::default();
    let session = poll_fn(|cx| {
        received.poll_more(cx, Pin::new(&mut incoming));
        ready!(gate.poll_open(cx));
        while let Some(command) = received.command()? {
            session.take(command);
        }
        if received.ended { Poll::Ready(Ok(())) } else { Poll::Pending }
    });
    let written = write(&mut outgoing, answers, &gate);
    select(pin!(session), pin!(written)).await.factor_first().0
}

/// What the server's machine has received.
#[derive(Default)]
struct Received {
    bytes: Vec<u8>,
    ended: bool,
}

impl Received {
    /// Takes what has arrived; a stream that breaks takes back nothing that was received.
    fn poll_more(&mut self, cx: &mut Context<'_>, mut incoming: Pin<&mut impl AsyncRead>) {
        let mut space = [0; 4096];
        while !self.ended {
            let mut buffer = ReadBuf::new(&mut space);
            match incoming.as_mut().poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(read) => self.ended = read.is_err() || buffer.filled().is_empty(),
            }
            self.bytes.extend_from_slice(buffer.filled());
        }
    }

    fn command(&mut self) -> io::Result<Option<Command>> {
        let Some((command, length)) = command(&self.bytes)? else { return Ok(None) };
        self.bytes.drain(..length);
        Ok(Some(command))
    }
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
