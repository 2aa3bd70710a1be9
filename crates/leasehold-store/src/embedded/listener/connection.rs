//! One connection: its name, its subscriptions and its output.
//!
//! Invariant: the subscriptions of a connection end with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::UnboundedSender;

use super::connection_hook::ConnectionHook;
use super::requests::Request;
use crate::embedded::command::is;
use crate::embedded::fault::Fault;
use crate::embedded::frame::Frame;
use crate::embedded::greeting::greeting;
use crate::embedded::server::{Deliver, Server};
use crate::embedded::subscribers::SubscriptionKind;

/// The state of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Go,
    Close,
}

pub(super) struct Connection<W> {
    server: Arc<Server>,
    hook: Arc<W>,
    outbox: UnboundedSender<Vec<u8>>,
    name: Vec<u8>,
    /// True if the peer may choose RESP3.
    offers_resp3: bool,
    /// True if the peer has chosen RESP3.
    resp3: Arc<AtomicBool>,
    /// The number of each subscription at the server.
    subscriptions: BTreeMap<(SubscriptionKind, Vec<u8>), u64>,
}

impl<W> Connection<W> {
    pub(super) fn new(server: Arc<Server>, outbox: UnboundedSender<Vec<u8>>, hook: Arc<W>) -> Self {
        Self {
            server,
            hook,
            outbox,
            name: Vec::new(),
            offers_resp3: false,
            resp3: Arc::default(),
            subscriptions: BTreeMap::new(),
        }
    }

    /// Lets the peer choose RESP3.
    pub(super) const fn offer_resp3(&mut self) {
        self.offers_resp3 = true;
    }

    fn speaks_resp3(&self) -> bool {
        self.resp3.load(Ordering::Relaxed)
    }

    fn leave_all(&mut self) {
        for ((kind, channel), id) in std::mem::take(&mut self.subscriptions) {
            self.server.leave(kind, &channel, id, || {});
        }
    }
}

impl<W: ConnectionHook> Connection<W> {
    /// Handles a request.
    pub(super) fn handle(&mut self, request: Request) -> Then {
        match request {
            Request::Ended => Then::Close,
            Request::Broken(text) => {
                self.say(&Frame::Error(text));
                Then::Close
            }
            Request::Command(words) if words.is_empty() => Then::Go,
            Request::Command(words) => self.obey(&words),
        }
    }

    fn obey(&mut self, words: &[Vec<u8>]) -> Then {
        if let Some(reply) = self.hook.intercept(words) {
            self.say(&reply);
            return Then::Go;
        }
        let name = words[0].to_ascii_lowercase();
        match name.as_slice() {
            b"quit" => {
                self.say(&Frame::ok());
                return Then::Close;
            }
            b"reset" if words.len() == 1 => {
                self.leave_all();
                self.name.clear();
                self.resp3.store(false, Ordering::Relaxed);
                self.say(&Frame::Simple("RESET".to_owned()));
            }
            b"subscribe" if words.len() > 1 => self.subscribe(SubscriptionKind::Channel, &words[1..]),
            b"psubscribe" if words.len() > 1 => self.subscribe(SubscriptionKind::Pattern, &words[1..]),
            b"ssubscribe" if words.len() > 1 => self.subscribe(SubscriptionKind::Shard, &words[1..]),
            b"unsubscribe" => self.unsubscribe(SubscriptionKind::Channel, &words[1..]),
            b"punsubscribe" => self.unsubscribe(SubscriptionKind::Pattern, &words[1..]),
            b"sunsubscribe" => self.unsubscribe(SubscriptionKind::Shard, &words[1..]),
            b"hello" if self.offers_resp3 && words.len() == 2 && words[1] == b"3" => {
                self.resp3.store(true, Ordering::Relaxed);
                self.greet();
            }
            b"hello" if words.len() == 1 && (self.speaks_resp3() || self.subscriptions.is_empty()) => {
                self.greet();
            }
            _ if self.speaks_resp3() => self.execute(words),
            b"ping" if !self.subscriptions.is_empty() && words.len() <= 2 => {
                let text = words.get(1).cloned().unwrap_or_default();
                self.say(&Frame::Array(vec![Frame::bulk("pong"), Frame::Bulk(text)]));
            }
            _ if !self.subscriptions.is_empty() => {
                self.say(&Frame::Error(only_listening(&name).0.into_owned()));
            }
            _ => self.execute(words),
        }
        Then::Go
    }

    fn execute(&mut self, words: &[Vec<u8>]) {
        let is_client = is(&words[0], "client");
        if is_client && words.len() == 2 && is(&words[1], "getname") && !self.name.is_empty() {
            self.say(&Frame::Bulk(self.name.clone()));
            return;
        }
        let reply = self.server.execute_then(
            |database, now_ms| self.hook.execute(database, now_ms, words),
            || words.to_vec(),
            |reply| self.say(reply),
        );
        if is_client && words.len() == 3 && is(&words[1], "setname") && !reply.is_error() {
            self.name.clone_from(&words[2]);
        }
    }

    fn subscribe(&mut self, kind: SubscriptionKind, channels: &[Vec<u8>]) {
        for channel in channels {
            let key = (kind, channel.clone());
            let confirm = |count| self.push(&confirmation(kind, "subscribe", Some(channel), count));
            if self.subscriptions.contains_key(&key) {
                confirm(self.count(kind));
                continue;
            }
            let count = self.count(kind) + 1;
            let id = self.server.join(kind, channel, self.deliver(kind, channel), || confirm(count));
            self.subscriptions.insert(key, id);
        }
    }

    fn unsubscribe(&mut self, kind: SubscriptionKind, channels: &[Vec<u8>]) {
        let mut leaving = channels.to_vec();
        if leaving.is_empty() {
            leaving = self
                .subscriptions
                .keys()
                .filter(|(other, _)| *other == kind)
                .map(|(_, name)| name.clone())
                .collect();
        }
        if leaving.is_empty() {
            self.push(&confirmation(kind, "unsubscribe", None, self.count(kind)));
        }
        for channel in leaving {
            let id = self.subscriptions.remove(&(kind, channel.clone()));
            let confirm = || self.push(&confirmation(kind, "unsubscribe", Some(&channel), self.count(kind)));
            match id {
                Some(id) => self.server.leave(kind, &channel, id, confirm),
                None => confirm(),
            }
        }
    }

    /// Ends the subscriptions of these sharded channels, and tells the peer, as a node does whose slots have moved.
    pub(super) fn leave_shards(&mut self, which: impl Fn(&[u8]) -> bool) {
        let is_left = |(kind, channel): &&(SubscriptionKind, Vec<u8>)| {
            *kind == SubscriptionKind::Shard && which(channel)
        };
        let left: Vec<Vec<u8>> =
            self.subscriptions.keys().filter(is_left).map(|(_, channel)| channel.clone()).collect();
        if !left.is_empty() {
            self.unsubscribe(SubscriptionKind::Shard, &left);
        }
    }

    /// Returns the count in a confirmation, with shards counted by themselves, and channels and patterns together.
    fn count(&self, kind: SubscriptionKind) -> usize {
        let same =
            |other: SubscriptionKind| (other == SubscriptionKind::Shard) == (kind == SubscriptionKind::Shard);
        self.subscriptions.keys().filter(|(other, _)| same(*other)).count()
    }

    fn deliver(&self, kind: SubscriptionKind, channel: &[u8]) -> Deliver {
        let (outbox, hook, pattern) = (self.outbox.clone(), Arc::clone(&self.hook), channel.to_vec());
        let resp3 = Arc::clone(&self.resp3);
        Box::new(move |message| {
            if !hook.lets_through(message) {
                return;
            }
            let mut items = match kind {
                SubscriptionKind::Channel => vec![Frame::bulk("message")],
                SubscriptionKind::Shard => vec![Frame::bulk("smessage")],
                SubscriptionKind::Pattern => vec![Frame::bulk("pmessage"), Frame::Bulk(pattern.clone())],
            };
            items.push(Frame::Bulk(message.channel.clone()));
            items.push(Frame::Bulk(message.payload.clone()));
            let _ = outbox.send(pushed(&Frame::Array(items), resp3.load(Ordering::Relaxed)));
        })
    }

    /// Says what the server is, in RESP3 by a map.
    fn greet(&self) {
        let mode = self.hook.mode();
        if !self.speaks_resp3() {
            return self.say(&Frame::Array(greeting(2, mode)));
        }
        let fields = greeting(3, mode);
        let mut bytes = format!("%{}\r\n", fields.len() / 2).into_bytes();
        fields.iter().for_each(|field| field.encode_into(&mut bytes));
        let _ = self.outbox.send(bytes);
    }

    fn say(&self, frame: &Frame) {
        // The receiver is gone when the connection ends, and the frame is then lost.
        let _ = self.outbox.send(if self.speaks_resp3() { frame.encode_resp3() } else { frame.encode() });
    }

    fn push(&self, frame: &Frame) {
        let _ = self.outbox.send(pushed(frame, self.speaks_resp3()));
    }
}

impl<W> Drop for Connection<W> {
    fn drop(&mut self) {
        self.leave_all();
    }
}

/// Returns the bytes of a message or confirmation, which RESP3 sends as a push.
fn pushed(frame: &Frame, resp3: bool) -> Vec<u8> {
    if !resp3 {
        return frame.encode();
    }
    let mut bytes = frame.encode_resp3();
    bytes[0] = b'>';
    bytes
}

fn confirmation(kind: SubscriptionKind, what: &str, channel: Option<&[u8]>, count: usize) -> Frame {
    let prefix = match kind {
        SubscriptionKind::Channel => "",
        SubscriptionKind::Pattern => "p",
        SubscriptionKind::Shard => "s",
    };
    let channel = channel.map_or(Frame::Nil, Frame::bulk);
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Frame::Array(vec![Frame::bulk(format!("{prefix}{what}")), channel, Frame::Int(count)])
}

fn only_listening(name: &[u8]) -> Fault {
    let name = String::from_utf8_lossy(name);
    Fault::of(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
         context"
    ))
}
