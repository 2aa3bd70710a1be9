//! One connection as bytes in and bytes out, for a simulator that brings its own network.
//!
//! Invariant: the bytes of a session depend on the calls of its methods alone, and its subscriptions end with it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use resp_rs::resp2::Parser;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::connection::{Connection, Then};
use super::connection_hook::ConnectionHook;
use super::requests::next_request;
use crate::embedded::server::Server;

/// The server's end of one connection.
pub struct Session<W> {
    parser: Parser,
    connection: Connection<W>,
    letters: UnboundedReceiver<Vec<u8>>,
    has_ended: bool,
}

impl<W: ConnectionHook> Session<W> {
    /// Begins a connection.
    pub fn new(server: Arc<Server>, hook: W) -> Self {
        let (outbox, letters) = unbounded_channel();
        let connection = Connection::new(server, outbox, Arc::new(hook));
        Self { parser: Parser::new(), connection, letters, has_ended: false }
    }

    /// Lets the peer choose RESP3 by `HELLO 3`. Other servers of this crate speak RESP2 alone.
    #[must_use]
    pub const fn offering_resp3(mut self) -> Self {
        self.connection.offer_resp3();
        self
    }

    /// Takes bytes of the peer, in any pieces.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.parser.feed(Bytes::copy_from_slice(bytes));
    }

    /// Handles the next request. Returns false if no whole request has arrived, or if the session has ended.
    pub fn handle_next(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        let Some(request) = next_request(&mut self.parser) else { return false };
        self.has_ended = self.connection.handle(request) == Then::Close;
        true
    }

    /// Ends the subscriptions of these sharded channels, and tells the peer, as a node does whose slots have moved.
    pub fn leave_shards(&mut self, which: impl Fn(&[u8]) -> bool) {
        self.connection.leave_shards(which);
    }

    /// Returns the next bytes for the peer: a reply or a message.
    pub fn next_output(&mut self) -> Option<Vec<u8>> {
        self.letters.try_recv().ok()
    }

    /// Returns true if the server closes the connection behind the outputs.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }
}

impl<W> fmt::Debug for Session<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Session")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Frame;

    fn session(server: &Arc<Server>) -> Session<()> {
        Session::new(Arc::clone(server), ())
    }

    /// Feeds a command in two pieces, and returns the outputs.
    fn say(session: &mut Session<()>, words: &[&str], cut: usize) -> String {
        let words = words.iter().map(|word| Frame::bulk(*word)).collect();
        let bytes = Frame::Array(words).encode();
        session.feed(&bytes[..cut]);
        assert!(!session.handle_next(), "a part of a request is no request");
        session.feed(&bytes[cut..]);
        assert!(session.handle_next() && !session.handle_next());
        outputs(session)
    }

    fn outputs(session: &mut Session<()>) -> String {
        let outputs: Vec<_> = std::iter::from_fn(|| session.next_output()).flatten().collect();
        String::from_utf8(outputs).unwrap()
    }

    #[test]
    fn requests_come_in_any_pieces_and_messages_leave_behind_replies() {
        let server = Arc::new(Server::new(|| 0));
        let (mut near, mut far) = (session(&server), session(&server));
        assert_eq!(say(&mut near, &["SUBSCRIBE", "c"], 7), "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
        assert_eq!(say(&mut far, &["PUBLISH", "c", "m"], 1), ":1\r\n");
        assert_eq!(outputs(&mut near), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
        drop(near);
        assert_eq!(say(&mut far, &["PUBLISH", "c", "m"], 1), ":0\r\n", "the subscription ended");
    }

    #[test]
    fn a_peer_that_chooses_resp3_gets_its_nil_and_its_pushes() {
        let server = Arc::new(Server::new(|| 0));
        let mut session = session(&server).offering_resp3();
        assert_eq!(say(&mut session, &["GET", "k"], 3), "$-1\r\n");
        assert!(say(&mut session, &["HELLO", "3"], 3).starts_with("%7\r\n"));
        assert_eq!(say(&mut session, &["GET", "k"], 3), "_\r\n");
        let confirmed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        assert_eq!(say(&mut session, &["SUBSCRIBE", "c"], 3), confirmed);
        assert_eq!(
            say(&mut session, &["PUBLISH", "c", "m"], 3),
            ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n:1\r\n"
        );
        assert_eq!(say(&mut session, &["PING"], 3), "+PONG\r\n");
    }

    #[test]
    fn a_session_says_the_same_of_itself_in_both_protocols() {
        struct Node;
        impl ConnectionHook for Node {
            fn mode(&self) -> &'static str {
                "cluster"
            }
        }
        let greet = |words: &[&str]| {
            let mut session = Session::new(Arc::new(Server::new(|| 0)), Node).offering_resp3();
            let words = words.iter().map(|word| Frame::bulk(*word)).collect();
            session.feed(&Frame::Array(words).encode());
            assert!(session.handle_next());
            String::from_utf8(session.next_output().unwrap()).unwrap()
        };
        let (two, three) = (greet(&["HELLO"]), greet(&["HELLO", "3"]));
        assert!(two.contains("$4\r\nmode\r\n$7\r\ncluster\r\n"), "{two}");
        assert_eq!(three, two.replacen("*14", "%7", 1).replacen("proto\r\n:2", "proto\r\n:3", 1));
    }

    #[test]
    fn a_session_ends_the_sharded_subscriptions_of_slots_that_have_moved() {
        let server = Arc::new(Server::new(|| 0));
        let mut session = session(&server);
        say(&mut session, &["SSUBSCRIBE", "here", "there"], 3);
        session.leave_shards(|channel| channel == b"there");
        assert_eq!(outputs(&mut session), "*3\r\n$12\r\nsunsubscribe\r\n$5\r\nthere\r\n:1\r\n");
        session.leave_shards(|channel| channel == b"there");
        assert_eq!(outputs(&mut session), "");
    }

    #[test]
    fn a_session_that_offers_no_resp3_refuses_it() {
        let mut session = session(&Arc::new(Server::new(|| 0)));
        assert!(say(&mut session, &["HELLO", "3"], 3).starts_with("-NOPROTO"));
    }

    #[test]
    fn bytes_that_are_no_request_end_the_session() {
        let mut session = session(&Arc::new(Server::new(|| 0)));
        session.feed(b"+OK\r\n");
        assert!(session.handle_next() && session.has_ended() && !session.handle_next());
        assert!(outputs(&mut session).starts_with("-ERR Protocol error"));
    }
}
