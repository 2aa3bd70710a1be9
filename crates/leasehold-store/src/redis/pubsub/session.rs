//! One connection that carries subscriptions, from its opening to its end.
//!
//! Invariant: every command is answered once and in order, so the oldest question is the one that an answer is for; only
//! the end of a sharded subscription may come unasked.
//! Called by: the subscription task.

use std::collections::VecDeque;
use std::mem;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::stream::{self, Stream, StreamExt};
use leasehold_proto::{Applied, Channel, StoreErrorKind};
use redis::Value;
use tokio::io::{AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::UnboundedReceiver;

use super::Order;
use super::board::{Ask, Board, Change};
use crate::redis::channels::Channels;
use crate::redis::connect::{Opened, Reader};
use crate::redis::error::Failure;
use crate::redis::eval::{malformed, refusal};
use crate::redis::socket::Socket;
use crate::tokio_runtime::{pause, within};

/// How long the server may take to answer; the connection counts as dead after that.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often a connection that has nothing else to ask is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(10);
/// How long after a refused subscription it is asked for again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What was sent and is not answered.
enum Question {
    Join(Ask),
    Leave(Channel),
    Ping,
}

/// What the server sends.
enum News {
    /// The answer to the oldest question.
    Answer(Result<(), Failure>),
    /// A channel is left: as the oldest question asked for, or because the node has no say about it any more.
    Left {
        channel: Vec<u8>,
    },
    Message {
        channel: Vec<u8>,
        payload: Vec<u8>,
    },
}

/// What a session waits for.
enum Event {
    Reply(Result<Value, Failure>),
    Order(Order),
}

/// One connection and what is outstanding on it.
pub(super) struct Session<'a> {
    board: &'a mut Board,
    channels: Channels,
    outgoing: WriteHalf<Socket>,
    questions: VecDeque<Question>,
    refused: Vec<Ask>,
    was_useful: bool,
}

/// Serves the board on a connection until that breaks. Says whether it confirmed anything.
pub(super) async fn serve(
    opened: Opened,
    channels: Channels,
    board: &mut Board,
    orders: &mut UnboundedReceiver<Order>,
) -> bool {
    let (incoming, outgoing) = split(opened.socket);
    let mut session = Session {
        board,
        channels,
        outgoing,
        questions: VecDeque::new(),
        refused: Vec::new(),
        was_useful: false,
    };
    let events = stream::select(
        replies(opened.reader, incoming).map(Event::Reply),
        stream::poll_fn(|cx| orders.poll_recv(cx)).map(Event::Order),
    );
    // How it broke does not matter: what follows is another attempt.
    let _ = session.run(events).await;
    session.was_useful
}

fn replies(reader: Reader, socket: ReadHalf<Socket>) -> impl Stream<Item = Result<Value, Failure>> {
    stream::unfold((reader, socket), |(mut reader, mut socket)| async {
        Some((reader.next(&mut socket).await, (reader, socket)))
    })
}

impl Session<'_> {
    async fn run(&mut self, events: impl Stream<Item = Event>) -> Result<(), Failure> {
        let mut events = pin!(events);
        let everything = self.board.start_over();
        self.ask(everything.into_iter().map(Question::Join)).await?;
        let mut silence = pin!(pause(self.longest_silence()));
        loop {
            let outstanding = self.questions.len();
            match select(events.next(), silence.as_mut()).await {
                Either::Left((Some(Event::Reply(reply)), _)) => self.take(read(reply?)?).await?,
                Either::Left((Some(Event::Order(order)), _)) => match self.board.apply(order) {
                    Some(Change::Join(ask)) => self.ask([Question::Join(ask)]).await?,
                    Some(Change::Leave(channel)) => self.ask([Question::Leave(channel)]).await?,
                    None => {}
                },
                Either::Left((None, _)) => return Ok(()),
                Either::Right(_) => self.nothing_came().await?,
            }
            // The clock starts anew with the first question and with every answer; messages do not touch it.
            let now_outstanding = self.questions.len();
            if now_outstanding < outstanding || (outstanding == 0 && now_outstanding > 0) {
                silence.set(pause(self.longest_silence()));
            }
        }
    }

    /// How long nothing may come before something has to be done.
    fn longest_silence(&self) -> Duration {
        if !self.questions.is_empty() {
            ANSWER_WITHIN
        } else if !self.refused.is_empty() {
            ASK_AGAIN_AFTER
        } else {
            PING_EVERY
        }
    }

    async fn nothing_came(&mut self) -> Result<(), Failure> {
        if !self.questions.is_empty() {
            return Err(Failure::new(StoreErrorKind::Timeout, Applied::Unknown));
        }
        let refused = mem::take(&mut self.refused);
        let again: Vec<_> =
            refused.into_iter().filter(|ask| self.board.wants(ask)).map(Question::Join).collect();
        if again.is_empty() { self.ask([Question::Ping]).await } else { self.ask(again).await }
    }

    /// Sends questions, each as a command of its own with one channel.
    async fn ask(&mut self, questions: impl IntoIterator<Item = Question>) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        for question in questions {
            let command = match &question {
                Question::Join(ask) => {
                    redis::cmd(self.channels.subscribe()).arg(ask.channel.as_str()).get_packed_command()
                }
                Question::Leave(channel) => {
                    redis::cmd(self.channels.unsubscribe()).arg(channel.as_str()).get_packed_command()
                }
                Question::Ping => redis::cmd("PING").get_packed_command(),
            };
            bytes.extend(command);
            self.questions.push_back(question);
        }
        match within(ANSWER_WITHIN, self.outgoing.write_all(&bytes)).await {
            Some(Ok(())) => Ok(()),
            _ => Err(Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown)),
        }
    }

    async fn take(&mut self, news: News) -> Result<(), Failure> {
        let outcome = match news {
            News::Message { channel, payload } => {
                // Channels that were asked for are text; anything else is nobody's.
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    self.board.deliver(channel, &payload);
                }
                return Ok(());
            }
            News::Left { channel } if !self.asked_to_leave(&channel) => return self.rejoin(&channel).await,
            News::Left { .. } => Ok(()),
            News::Answer(outcome) => outcome,
        };
        match (self.questions.pop_front().ok_or(malformed())?, outcome) {
            (_, Err(failure)) if failure.spoils_connection() => return Err(failure),
            (Question::Join(ask), Ok(())) => {
                self.board.confirm(&ask);
                self.was_useful = true;
            }
            // Asked again later: the other channels are served meanwhile.
            (Question::Join(ask), Err(_)) => self.refused.push(ask),
            (Question::Leave(_) | Question::Ping, _) => {}
        }
        Ok(())
    }

    /// Whether the oldest question was to leave this channel.
    fn asked_to_leave(&self, left: &[u8]) -> bool {
        matches!(self.questions.front(), Some(Question::Leave(channel)) if channel.as_str().as_bytes() == left)
    }

    /// Asks again for a channel that the server took away. When a question for it is on its way, its answer is to come.
    async fn rejoin(&mut self, channel: &[u8]) -> Result<(), Failure> {
        let lost = std::str::from_utf8(channel).ok().and_then(|channel| self.board.lose(channel));
        self.ask(lost.map(Question::Join)).await
    }
}

fn read(reply: Value) -> Result<News, Failure> {
    let mut parts = match reply {
        Value::Array(parts) => parts.into_iter(),
        Value::SimpleString(text) if text == "PONG" => return Ok(News::Answer(Ok(()))),
        Value::ServerError(error) => return Ok(News::Answer(Err(refusal(&error)))),
        _ => return Err(malformed()),
    };
    let Some(Value::BulkString(kind)) = parts.next() else {
        return Err(malformed());
    };
    match (kind.as_slice(), parts.next(), parts.next()) {
        (b"subscribe" | b"ssubscribe" | b"pong", ..) => Ok(News::Answer(Ok(()))),
        (b"unsubscribe" | b"sunsubscribe", Some(Value::BulkString(channel)), _) => Ok(News::Left { channel }),
        (b"message" | b"smessage", Some(Value::BulkString(channel)), Some(Value::BulkString(payload))) => {
            Ok(News::Message { channel, payload })
        }
        _ => Err(malformed()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::store::Heard;

    /// The server's side of a session that listens to `c`, on a clock that jumps to the next timer.
    struct Server(DuplexStream);

    impl Server {
        async fn is_told(&mut self, expected: &str) {
            let mut bytes = vec![0; expected.len()];
            self.0.read_exact(&mut bytes).await.unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }

        async fn says(&mut self, text: &str) {
            self.0.write_all(text.as_bytes()).await.unwrap();
        }
    }

    const SUBSCRIBE: &str = "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n";
    const SUBSCRIBED: &str = "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    const PING: &str = "*1\r\n$4\r\nPING\r\n";
    const PONG: &str = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";

    /// Runs a session against what `script` does as the server; says whether the session was useful.
    async fn session(script: impl AsyncFnOnce(&mut Server, UnboundedSender<Order>)) -> (bool, Vec<Heard>) {
        session_by(Channels::Plain, script).await
    }

    async fn session_by(
        channels: Channels,
        script: impl AsyncFnOnce(&mut Server, UnboundedSender<Order>),
    ) -> (bool, Vec<Heard>) {
        let (here, there) = duplex(1024);
        let opened = Opened { socket: Box::pin(here), reader: Reader::default(), greeting: Ok(()) };
        let (orders, mut received) = unbounded_channel();
        let (heard, mut news) = unbounded_channel();
        let mut board = Board::default();
        board.apply(Order::Listen { id: 1, channel: Channel::new("c"), heard });
        let mut server = Server(there);
        let (was_useful, ()) = tokio::join!(
            serve(opened, channels, &mut board, &mut received),
            script(&mut server, orders.clone())
        );
        drop(board);
        let mut all = Vec::new();
        while let Some(one) = news.recv().await {
            all.push(one);
        }
        (was_useful, all)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_asked_whether_it_is_there_and_given_up() {
        let (was_useful, heard) = session(async |server, _orders| {
            server.is_told(SUBSCRIBE).await;
            server.says(SUBSCRIBED).await;
            for _ in 0..3 {
                server.is_told(PING).await;
                server.says(PONG).await;
            }
            server.is_told(PING).await;
        })
        .await;
        assert!(was_useful);
        assert_eq!(heard, [Heard::Listening(Channel::new("c"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_is_not_confirmed_is_given_up_whatever_else_arrives() {
        let (was_useful, heard) = session(async |server, _orders| {
            server.is_told(SUBSCRIBE).await;
            server.says("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n").await;
        })
        .await;
        assert!(!was_useful);
        assert_eq!(heard, [Heard::Message(Channel::new("c"), b"0".to_vec())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_channel_is_asked_for_again_on_the_same_connection() {
        let (was_useful, heard) = session(async |server, _orders| {
            server.is_told(SUBSCRIBE).await;
            server.says("-NOPERM this user has no permissions to access one of the channels\r\n").await;
            server.is_told(SUBSCRIBE).await;
            server.says("-BUSY Redis is busy running a script.\r\n").await;
            server.is_told(SUBSCRIBE).await;
            server.says(SUBSCRIBED).await;
            server.is_told(PING).await;
        })
        .await;
        assert!(was_useful);
        assert_eq!(heard, [Heard::Listening(Channel::new("c"))]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_when_the_server_wants_a_password_or_talks_nonsense() {
        for nonsense in ["-NOAUTH Authentication required.\r\n", ":1\r\n", "HTTP/1.1 400\r\n", "*0\r\n"] {
            let (was_useful, heard) = session(async |server, _orders| {
                server.is_told(SUBSCRIBE).await;
                server.says(nonsense).await;
            })
            .await;
            assert!(!was_useful, "{nonsense}");
            assert!(heard.is_empty());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_listener_unsubscribes() {
        session(async |server, orders| {
            server.is_told(SUBSCRIBE).await;
            server.says(SUBSCRIBED).await;
            orders.send(Order::End { id: 1, channel: Channel::new("c") }).unwrap();
            server.is_told("*2\r\n$11\r\nUNSUBSCRIBE\r\n$1\r\nc\r\n").await;
            server.says("*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n").await;
            server.is_told(PING).await;
            server.says("+PONG\r\n").await;
            server.is_told(PING).await;
        })
        .await;
    }

    const SSUBSCRIBE: &str = "*2\r\n$10\r\nSSUBSCRIBE\r\n$1\r\nc\r\n";
    const SSUBSCRIBED: &str = "*3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
    const SUNSUBSCRIBE: &str = "*2\r\n$12\r\nSUNSUBSCRIBE\r\n$1\r\nc\r\n";
    const SUNSUBSCRIBED: &str = "*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n";

    #[tokio::test(start_paused = true)]
    async fn a_node_that_gives_a_channel_away_is_asked_for_it_until_it_has_it_again() {
        let (was_useful, heard) = session_by(Channels::Sharded, async |server, _orders| {
            server.is_told(SSUBSCRIBE).await;
            server.says(SSUBSCRIBED).await;
            server.says("*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\n0\r\n").await;
            server.says(SUNSUBSCRIBED).await;
            server.is_told(SSUBSCRIBE).await;
            server.says("-MOVED 7365 127.0.0.1:1\r\n").await;
            server.is_told(SSUBSCRIBE).await;
            server.says(SSUBSCRIBED).await;
            server.is_told(PING).await;
        })
        .await;
        assert!(was_useful);
        let listening = Heard::Listening(Channel::new("c"));
        assert_eq!(heard, [listening.clone(), Heard::Message(Channel::new("c"), b"0".to_vec()), listening]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_channel_that_is_left_and_taken_away_at_once_and_joined_again_is_confirmed_once() {
        session_by(Channels::Sharded, async |server, orders| {
            server.is_told(SSUBSCRIBE).await;
            server.says(SSUBSCRIBED).await;
            let (heard, mut news) = unbounded_channel();
            orders.send(Order::End { id: 1, channel: Channel::new("c") }).unwrap();
            orders.send(Order::Listen { id: 2, channel: Channel::new("c"), heard }).unwrap();
            server.is_told(SUNSUBSCRIBE).await;
            server.is_told(SSUBSCRIBE).await;
            // Taken away, and then the answers to both.
            server.says(SUNSUBSCRIBED).await;
            server.says(SUNSUBSCRIBED).await;
            server.says(SSUBSCRIBED).await;
            assert_eq!(news.recv().await, Some(Heard::Listening(Channel::new("c"))));
            // What nobody listens to may be taken away, too.
            server.says("*3\r\n$12\r\nsunsubscribe\r\n$1\r\nx\r\n:0\r\n").await;
            server.is_told(PING).await;
            assert!(news.try_recv().is_err());
        })
        .await;
    }
}
