//! One connection: its name, its subscriptions and its output.
//!
//! Invariant: its subscriptions end with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc::UnboundedSender;

use super::requests::Request;
use super::watch::Watch;
use crate::embedded::audience::Ear;
use crate::embedded::command::is;
use crate::embedded::fault::Fault;
use crate::embedded::frame::Frame;
use crate::embedded::server::{Deliver, Server};

/// The state of a connection after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Go,
    Close,
}

pub(super) struct Connection<W> {
    server: Arc<Server>,
    watch: Arc<W>,
    outbox: UnboundedSender<Vec<u8>>,
    name: Vec<u8>,
    /// The number of each subscription at the server.
    seats: BTreeMap<(Ear, Vec<u8>), u64>,
}

impl<W> Connection<W> {
    pub(super) const fn new(server: Arc<Server>, outbox: UnboundedSender<Vec<u8>>, watch: Arc<W>) -> Self {
        Self { server, watch, outbox, name: Vec::new(), seats: BTreeMap::new() }
    }

    fn leave_all(&mut self) {
        for ((ear, channel), seat) in std::mem::take(&mut self.seats) {
            self.server.leave(ear, &channel, seat, || {});
        }
    }
}

impl<W: Watch> Connection<W> {
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
        let name = words[0].to_ascii_lowercase();
        match name.as_slice() {
            b"quit" => {
                self.say(&Frame::ok());
                return Then::Close;
            }
            b"reset" if words.len() == 1 => {
                self.leave_all();
                self.name.clear();
                self.say(&Frame::Simple("RESET".to_owned()));
            }
            b"subscribe" if words.len() > 1 => self.subscribe(Ear::Channel, &words[1..]),
            b"psubscribe" if words.len() > 1 => self.subscribe(Ear::Pattern, &words[1..]),
            b"ssubscribe" if words.len() > 1 => self.subscribe(Ear::Shard, &words[1..]),
            b"unsubscribe" => self.unsubscribe(Ear::Channel, &words[1..]),
            b"punsubscribe" => self.unsubscribe(Ear::Pattern, &words[1..]),
            b"sunsubscribe" => self.unsubscribe(Ear::Shard, &words[1..]),
            b"ping" if !self.seats.is_empty() && words.len() <= 2 => {
                let text = words.get(1).cloned().unwrap_or_default();
                self.say(&Frame::Array(vec![Frame::bulk("pong"), Frame::Bulk(text)]));
            }
            _ if !self.seats.is_empty() => self.say(&Frame::Error(only_listening(&name).0.into_owned())),
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
            |database, now_ms| self.watch.execute(database, now_ms, words),
            || words.to_vec(),
            |reply| self.say(reply),
        );
        if is_client && words.len() == 3 && is(&words[1], "setname") && !reply.is_error() {
            self.name.clone_from(&words[2]);
        }
    }

    fn subscribe(&mut self, ear: Ear, channels: &[Vec<u8>]) {
        for channel in channels {
            let key = (ear, channel.clone());
            let confirm = |count| self.say(&news(ear, "subscribe", Some(channel), count));
            if self.seats.contains_key(&key) {
                confirm(self.count(ear));
                continue;
            }
            let count = self.count(ear) + 1;
            let seat = self.server.join(ear, channel, self.deliver(ear, channel), || confirm(count));
            self.seats.insert(key, seat);
        }
    }

    fn unsubscribe(&mut self, ear: Ear, channels: &[Vec<u8>]) {
        let mut leaving = channels.to_vec();
        if leaving.is_empty() {
            leaving =
                self.seats.keys().filter(|(kind, _)| *kind == ear).map(|(_, name)| name.clone()).collect();
        }
        if leaving.is_empty() {
            self.say(&news(ear, "unsubscribe", None, self.count(ear)));
        }
        for channel in leaving {
            let seat = self.seats.remove(&(ear, channel.clone()));
            let confirm = || self.say(&news(ear, "unsubscribe", Some(&channel), self.count(ear)));
            match seat {
                Some(seat) => self.server.leave(ear, &channel, seat, confirm),
                None => confirm(),
            }
        }
    }

    /// Returns the count of a confirmation: shards by themselves, channels and patterns together.
    fn count(&self, ear: Ear) -> usize {
        let same = |kind: Ear| (kind == Ear::Shard) == (ear == Ear::Shard);
        self.seats.keys().filter(|(kind, _)| same(*kind)).count()
    }

    fn deliver(&self, ear: Ear, channel: &[u8]) -> Deliver {
        let (outbox, watch, pattern) = (self.outbox.clone(), Arc::clone(&self.watch), channel.to_vec());
        Box::new(move |message| {
            if !watch.lets_through(message) {
                return;
            }
            let mut items = match ear {
                Ear::Channel => vec![Frame::bulk("message")],
                Ear::Shard => vec![Frame::bulk("smessage")],
                Ear::Pattern => vec![Frame::bulk("pmessage"), Frame::Bulk(pattern.clone())],
            };
            items.push(Frame::Bulk(message.channel.clone()));
            items.push(Frame::Bulk(message.payload.clone()));
            let _ = outbox.send(Frame::Array(items).encode());
        })
    }

    fn say(&self, frame: &Frame) {
        // The receiver is gone when the connection ends; the frame is then lost.
        let _ = self.outbox.send(frame.encode());
    }
}

impl<W> Drop for Connection<W> {
    fn drop(&mut self) {
        self.leave_all();
    }
}

fn news(ear: Ear, what: &str, channel: Option<&[u8]>, count: usize) -> Frame {
    let prefix = match ear {
        Ear::Channel => "",
        Ear::Pattern => "p",
        Ear::Shard => "s",
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
