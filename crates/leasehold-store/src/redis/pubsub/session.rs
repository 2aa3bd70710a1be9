//! One connection that carries subscriptions, from its opening to its end.
//!
//! Invariant: the server answers every command once and in order, so an answer belongs to the oldest pending command.
//! Only the end of a sharded subscription may come unasked.

use std::collections::VecDeque;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use leasehold_proto::{Applied, StoreErrorKind};
use redis::Value;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};

use super::subscription_table::Change;
use super::wanted::Wanted;
use crate::redis::bounds::Bounded;
use crate::redis::channels::Channels;
use crate::redis::connect::Opened;
use crate::redis::error::Failure;
use crate::redis::eval::{malformed, server_error};
use crate::redis::reader::Reader;
use crate::tokio_runtime::{pause, within};

/// The longest time for an answer. The connection counts as dead after that.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The interval of the pings on a connection without other commands.
const PING_EVERY: Duration = Duration::from_secs(10);
/// The time between a refused subscription and the next request for it.
const RETRY_REFUSED_AFTER: Duration = Duration::from_secs(1);
/// The maximum number of pending commands. Further changes wait in the subscription table, where they can be withdrawn.
const PENDING_MAX: usize = 1024;

/// A command that was sent and is not answered.
enum Pending {
    Change(Change),
    Ping,
}

/// A value from the server.
enum Incoming {
    /// The answer to the oldest pending command.
    Answer(Result<(), Failure>),
    /// The end of a subscription, on request of the oldest command, or because the node does not serve the channel any
    /// more.
    Left {
        channel: Vec<u8>,
    },
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
}

/// One connection and its pending commands.
pub(super) struct Session<'a> {
    wanted: &'a Wanted,
    channels: Channels,
    outgoing: WriteHalf<Bounded>,
    pending: VecDeque<Pending>,
    was_useful: bool,
}

/// Serves the subscription table on a connection until the connection breaks. Returns true if the server confirmed
/// anything.
pub(super) async fn serve(opened: Opened, channels: Channels, wanted: &Wanted) -> bool {
    let (incoming, outgoing) = split(opened.socket);
    let mut session = Session { wanted, channels, outgoing, pending: VecDeque::new(), was_useful: false };
    // The reason of the break does not matter, because the caller makes another attempt.
    let _ = session.run(replies(opened.reader, incoming)).await;
    session.was_useful
}

fn replies(reader: Reader, socket: ReadHalf<Bounded>) -> impl Stream<Item = Result<Value, Failure>> {
    stream::unfold((reader, socket), |(mut reader, mut socket)| async {
        Some((reader.next(&mut socket).await, (reader, socket)))
    })
}

impl Session<'_> {
    async fn run(&mut self, replies: impl Stream<Item = Result<Value, Failure>>) -> Result<(), Failure> {
        let mut replies = pin!(replies);
        self.wanted.table().start_over();
        self.send_changes().await?;
        let mut silence = pin!(pause(self.longest_silence()));
        loop {
            let outstanding = self.pending.len();
            let wanted = self.wanted;
            let changed = pin!(wanted.changed.notified());
            match select(replies.next(), select(changed, silence.as_mut())).await {
                Either::Left((Some(reply), _)) => self.take(read(reply?)?)?,
                Either::Left((None, _)) => return Ok(()),
                Either::Right((Either::Left(_), _)) => {}
                Either::Right((Either::Right(_), _)) => self.nothing_came().await?,
            }
            let answered = self.pending.len() < outstanding;
            self.send_changes().await?;
            // The clock starts anew with the first command and with every answer. Messages do not touch it.
            if answered || (outstanding == 0 && !self.pending.is_empty()) {
                silence.set(pause(self.longest_silence()));
            }
        }
    }

    /// Returns the longest silence before the session must act.
    fn longest_silence(&self) -> Duration {
        if !self.pending.is_empty() {
            ANSWER_WITHIN
        } else if self.wanted.table().has_refused() {
            RETRY_REFUSED_AFTER
        } else {
            PING_EVERY
        }
    }

    async fn nothing_came(&mut self) -> Result<(), Failure> {
        if !self.pending.is_empty() {
            return Err(Failure::new(StoreErrorKind::Timeout, Applied::Unknown));
        }
        if self.wanted.table().has_refused() {
            self.wanted.table().retry_refused();
            return Ok(());
        }
        self.send([Pending::Ping]).await
    }

    /// Sends the changes of the subscription table to the server, as far as there is room for pending commands.
    async fn send_changes(&mut self) -> Result<(), Failure> {
        let room = PENDING_MAX.saturating_sub(self.pending.len());
        let changes: Vec<_> = {
            let mut table = self.wanted.table();
            std::iter::from_fn(|| table.next_change()).take(room).map(Pending::Change).collect()
        };
        if changes.is_empty() { Ok(()) } else { self.send(changes).await }
    }

    /// Sends commands, each about one channel.
    async fn send(&mut self, pending: impl IntoIterator<Item = Pending>) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for request in pending {
            let command = match &request {
                Pending::Change(Change::Join(channel)) => {
                    redis::cmd(self.channels.subscribe()).arg(channel.as_str()).get_packed_command()
                }
                Pending::Change(Change::Leave(channel)) => {
                    redis::cmd(self.channels.unsubscribe()).arg(channel.as_str()).get_packed_command()
                }
                Pending::Ping => redis::cmd("PING").get_packed_command(),
            };
            bytes.extend(command);
            self.pending.push_back(request);
        }
        match within(ANSWER_WITHIN, self.outgoing.write_all(&bytes)).await {
            Some(Ok(())) => Ok(()),
            _ => Err(Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown)),
        }
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), Failure> {
        let mut table = self.wanted.table();
        let outcome = match incoming {
            Incoming::Message { channel, payload } => {
                // The channels of all subscribers are text, so bytes that are not text have no subscriber.
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    table.deliver(channel, &payload);
                }
                return Ok(());
            }
            Incoming::Left { channel } if !self.requested_leave(&channel) => {
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    table.lose(channel);
                }
                return Ok(());
            }
            Incoming::Left { .. } => Ok(()),
            Incoming::Answer(outcome) => outcome,
        };
        match (self.pending.pop_front().ok_or(malformed())?, outcome) {
            (_, Err(failure)) if failure.spoils_connection() => return Err(failure),
            (Pending::Change(Change::Join(channel)), Ok(())) => {
                table.confirm(&channel);
                self.was_useful = true;
            }
            // The session requests the channel again later, and serves the other channels meanwhile.
            (Pending::Change(Change::Join(channel)), Err(_)) => table.refuse(channel),
            (Pending::Change(Change::Leave(channel)), _) => table.left(&channel),
            (Pending::Ping, _) => {}
        }
        Ok(())
    }

    /// Returns true if the oldest command was to leave this channel.
    fn requested_leave(&self, left: &[u8]) -> bool {
        let oldest = self.pending.front();
        matches!(oldest, Some(Pending::Change(Change::Leave(channel))) if channel.as_str().as_bytes() == left)
    }
}

fn read(reply: Value) -> Result<Incoming, Failure> {
    let mut parts = match reply {
        Value::Array(parts) => parts.into_iter(),
        Value::SimpleString(text) if text == "PONG" => return Ok(Incoming::Answer(Ok(()))),
        Value::ServerError(error) => return Ok(Incoming::Answer(Err(server_error(&error)))),
        _ => return Err(malformed()),
    };
    let Some(Value::BulkString(kind)) = parts.next() else {
        return Err(malformed());
    };
    match (kind.as_slice(), parts.next(), parts.next()) {
        (b"subscribe" | b"ssubscribe" | b"pong", ..) => Ok(Incoming::Answer(Ok(()))),
        (b"unsubscribe" | b"sunsubscribe", Some(Value::BulkString(channel)), _) => {
            Ok(Incoming::Left { channel })
        }
        (b"message" | b"smessage", Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) => {
            Ok(Incoming::Message { channel, payload })
        }
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::Channel;
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;
    use crate::store::Heard;
    use crate::tokio_runtime::after;

    /// The server's side of a session that listens to `c`, on a clock that jumps to the next timer.
    struct Server(DuplexStream);

    impl Server {
        async fn expect_command(&mut self, expected: &str) {
            let mut bytes = vec![0; expected.len()];
            self.0.read_exact(&mut bytes).await.unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }

        async fn send_reply(&mut self, text: &str) {
            self.0.write_all(text.as_bytes()).await.unwrap();
        }
    }

    const SUBSCRIBE: &str = "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n";
    const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    const PING: &str = "*1\r\n$4\r\nPING\r\n";
    const PONG: &str = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";

    /// Runs a session against `script`, which acts as the server. Returns whether the session was useful.
    async fn session(script: impl AsyncFnOnce(&mut Server, &Wanted)) -> (bool, Vec<Heard>) {
        session_by(Channels::Plain, script).await
    }

    async fn session_by(
        channels: Channels,
        script: impl AsyncFnOnce(&mut Server, &Wanted),
    ) -> (bool, Vec<Heard>) {
        let (here, there) = duplex(1024);
        let opened =
            Opened { socket: Bounded::over(Box::pin(here)), reader: Reader::default(), greeting: Ok(()) };
        let (heard, mut events) = unbounded_channel();
        let wanted = Wanted::default();
        wanted.change(|table| table.add(1, Channel::new("c"), heard));
        let mut server = Server(there);
        let served = serve(opened, channels, &wanted);
        let (was_useful, ()) = tokio::join!(served, script(&mut server, &wanted));
        drop(wanted);
        let mut all = Vec::new();
        while let Some(one) = events.recv().await {
            all.push(one);
        }
        (was_useful, all)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_pinged_and_then_disconnected() {
        let (was_useful, heard) = session(async |server, _wanted| {
            server.expect_command(SUBSCRIBE).await;
            server.send_reply(SUBSCRIBED).await;
            for _ in 0..3 {
                server.expect_command(PING).await;
                server.send_reply(PONG).await;
            }
            server.expect_command(PING).await;
        })
        .await;
        assert!(was_useful);
        assert_eq!(heard, [Heard::Listening(Channel::new("c"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unconfirmed_subscription_times_out_despite_other_traffic() {
        let (was_useful, heard) = session(async |server, _wanted| {
            server.expect_command(SUBSCRIBE).await;
            server.send_reply("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n").await;
        })
        .await;
        assert!(!was_useful);
        assert_eq!(heard, [Heard::Message(Channel::new("c"), b"0".to_vec())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_channel_is_retried_on_the_same_connection() {
        let (was_useful, heard) = session(async |server, _wanted| {
            server.expect_command(SUBSCRIBE).await;
            server.send_reply("-NOPERM this user has no permissions to access one of the channels\r\n").await;
            server.expect_command(SUBSCRIBE).await;
            server.send_reply("-BUSY Redis is busy running a script.\r\n").await;
            server.expect_command(SUBSCRIBE).await;
            server.send_reply(SUBSCRIBED).await;
            server.expect_command(PING).await;
        })
        .await;
        assert!(was_useful);
        assert_eq!(heard, [Heard::Listening(Channel::new("c"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_on_a_password_request_or_a_malformed_reply() {
        for nonsense in ["-NOAUTH Authentication required.\r\n", ":1\r\n", "HTTP/1.1 400\r\n", "*0\r\n"] {
            let (was_useful, heard) = session(async |server, _wanted| {
                server.expect_command(SUBSCRIBE).await;
                server.send_reply(nonsense).await;
            })
            .await;
            assert!(!was_useful, "{nonsense}");
            assert!(heard.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_listener_unsubscribes() {
        session(async |server, wanted| {
            server.expect_command(SUBSCRIBE).await;
            server.send_reply(SUBSCRIBED).await;
            wanted.change(|table| table.remove(1, &Channel::new("c")));
            server.expect_command("*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\nc\r\n").await;
            server.send_reply("*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n").await;
            server.expect_command(PING).await;
            server.send_reply("+PONG\r\n").await;
            server.expect_command(PING).await;
        })
        .await;
    }

    const SSUBSCRIBE: &str = "*2\r\n$10\r\nSSUBSCRIBE\r\n$1\r\nc\r\n";
    const SSUBSCRIBED: &str = "*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
    const SUNSUBSCRIBE: &str = "*2\r\n$12\r\nSUNSUBSCRIBE\r\n$1\r\nc\r\n";
    const SUNSUBSCRIBED: &str = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_channel_whose_slot_moved_is_retried_until_the_node_serves_it() {
        let (was_useful, heard) = session_by(Channels::Sharded, async |server, _wanted| {
            server.expect_command(SSUBSCRIBE).await;
            server.send_reply(SSUBSCRIBED).await;
            server.send_reply("*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\n0\r\n").await;
            server.send_reply(SUNSUBSCRIBED).await;
            server.expect_command(SSUBSCRIBE).await;
            server.send_reply("-MOVED 7365 127.0.0.1:1\r\n").await;
            server.expect_command(SSUBSCRIBE).await;
            server.send_reply(SSUBSCRIBED).await;
            server.expect_command(PING).await;
        })
        .await;
        assert!(was_useful);
        let listening = Heard::Listening(Channel::new("c"));
        assert_eq!(heard, [listening.clone(), Heard::Message(Channel::new("c"), b"0".to_vec()), listening]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_channel_left_moved_and_rejoined_is_confirmed_once() {
        session_by(Channels::Sharded, async |server, wanted| {
            server.expect_command(SSUBSCRIBE).await;
            server.send_reply(SSUBSCRIBED).await;
            let (heard, mut events) = unbounded_channel();
            wanted.change(|table| table.remove(1, &Channel::new("c")));
            server.expect_command(SUNSUBSCRIBE).await;
            wanted.change(|table| table.add(2, Channel::new("c"), heard));
            // The server ends the subscription by itself, and then answers both commands.
            server.send_reply(SUNSUBSCRIBED).await;
            server.expect_command(SSUBSCRIBE).await;
            server.send_reply(SUNSUBSCRIBED).await;
            server.send_reply(SSUBSCRIBED).await;
            assert_eq!(events.recv().await, Some(Heard::Listening(Channel::new("c"))));
            // The server may also end the subscription of a channel without a subscriber.
            server.send_reply("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n").await;
            server.expect_command(PING).await;
            assert!(events.try_recv().is_err());
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn messages_do_not_delay_the_end_of_an_unresponsive_connection() {
        let message = "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n";
        for confirms in [false, true] {
            let begin = after(Duration::ZERO);
            let (was_useful, heard) = session(async |server, _wanted| {
                server.expect_command(SUBSCRIBE).await;
                if confirms {
                    server.send_reply(SUBSCRIBED).await;
                }
                // The server sends a message each second, until the session hangs up.
                while server.0.write_all(message.as_bytes()).await.is_ok() {
                    pause(Duration::from_secs(1)).await;
                }
            })
            .await;
            let expected = if confirms { PING_EVERY + ANSWER_WITHIN } else { ANSWER_WITHIN };
            let lasted = after(Duration::ZERO) - begin;
            assert!(lasted >= expected && lasted <= expected + Duration::from_secs(1), "{lasted:?}");
            assert_eq!(was_useful, confirms);
            assert!(heard.len() >= 5);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unresponsive_server_gets_a_bounded_number_of_commands() {
        session(async |server, wanted| {
            server.expect_command(SUBSCRIBE).await;
            server.send_reply(SUBSCRIBED).await;
            let (heard, _events) = unbounded_channel();
            for id in 2..20_000 {
                let channel = Channel::new(&format!("channel {id}"));
                wanted.change(|table| table.add(id, channel.clone(), heard.clone()));
                // Lets the session send the command, and takes it off the wire.
                let mut bytes = [0; 4096];
                tokio::task::yield_now().await;
                while let Some(Ok(1..)) = within(Duration::ZERO, server.0.read(&mut bytes)).await {}
                wanted.change(|table| table.remove(id, &channel));
            }
            assert!(wanted.table().len() <= PENDING_MAX + 1, "{}", wanted.table().len());
        })
        .await;
    }
}
