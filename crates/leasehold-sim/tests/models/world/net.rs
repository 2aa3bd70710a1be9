//! A network between engines and servers that is slow, loses, and delivers late.
//!
//! Invariant: a call that is not in flight any more was answered once, or its sender was told that it is lost.

use leasehold_proto::engine::CallId;
use leasehold_proto::{Applied, Call, Reply, StoreError, StoreErrorKind};

use super::memory::Shared;
use super::server::{BrokenVariant, Server};

/// A call between its sending and the arrival of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transit {
    /// The index of the engine that sent it.
    pub(crate) sender: usize,
    pub(crate) server: usize,
    id: CallId,
    pub(crate) call: Shared<Call>,
    /// The reply, or `None` while the request is on its way to the server.
    pub(crate) reply: Option<Result<Reply, StoreError>>,
}

/// An outcome that arrives.
pub(crate) struct Arrival {
    pub(crate) sender: usize,
    pub(crate) id: CallId,
    pub(crate) result: Result<Reply, StoreError>,
}

/// A call that was executed.
pub(crate) struct Seen {
    pub(crate) call: Shared<Call>,
    pub(crate) reply: Result<Reply, StoreError>,
    /// The server before the call.
    pub(crate) before: Server,
}

/// The calls that a network may still deliver after their senders have an answer or an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Requests that were lost on their way to the server.
    Late,
    /// Lost requests, and executed requests once more.
    All,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Net {
    pub(crate) servers: Vec<Server>,
    pub(crate) transits: Vec<Transit>,
    /// The requests that may still be delivered.
    repeatable: Vec<Transit>,
}

impl Net {
    pub(crate) const fn new(servers: Vec<Server>) -> Self {
        Self { servers, transits: Vec::new(), repeatable: Vec::new() }
    }

    pub(crate) fn send(&mut self, sender: usize, server: usize, id: CallId, call: Shared<Call>) {
        let transit = Transit { sender, server, id, call, reply: None };
        insert(&mut self.transits, transit);
    }

    /// Executes a call, and keeps its reply in flight.
    pub(crate) fn execute(&mut self, place: usize, now_ms: u64, variant: Option<BrokenVariant>) -> Seen {
        let Transit { server, call, .. } = self.transits[place].clone();
        let seen = self.run(server, call, now_ms, variant);
        self.transits[place].reply = Some(seen.reply.clone());
        seen
    }

    fn run(
        &mut self,
        server: usize,
        call: Shared<Call>,
        now_ms: u64,
        variant: Option<BrokenVariant>,
    ) -> Seen {
        let before = self.servers[server].clone();
        let reply = self.servers[server].run(&call, now_ms, variant);
        Seen { call, reply, before }
    }

    /// Delivers the reply of an executed call. With `Repeats::All`, the call may be executed once more.
    pub(crate) fn arrive(&mut self, place: usize, repeats: Option<Repeats>) -> Arrival {
        let mut transit = self.transits.remove(place);
        let (sender, id) = (transit.sender, transit.id);
        let result = transit.reply.take().expect("only what was executed has a reply");
        if repeats == Some(Repeats::All) {
            insert(&mut self.repeatable, transit);
        }
        Arrival { sender, id, result }
    }

    /// Loses a request, or the reply to it.
    pub(crate) fn lose(&mut self, place: usize, repeats: Option<Repeats>) -> Arrival {
        let mut transit = self.transits.remove(place);
        let (sender, id) = (transit.sender, transit.id);
        let (verb, subject) = (transit.call.verb(), transit.call.subject());
        let error = StoreError::new(StoreErrorKind::Timeout, verb, subject, Applied::Unknown);
        let executed = transit.reply.take().is_some();
        match repeats {
            Some(Repeats::Late) if executed => {}
            Some(_) => insert(&mut self.repeatable, transit),
            None => {}
        }
        Arrival { sender, id, result: Err(error) }
    }

    pub(crate) const fn repeatable(&self) -> usize {
        self.repeatable.len()
    }

    /// Delivers a lost request, or an executed request again.
    pub(crate) fn repeat(&mut self, place: usize, now_ms: u64, variant: Option<BrokenVariant>) -> Seen {
        let Transit { server, call, .. } = self.repeatable.remove(place);
        self.run(server, call, now_ms, variant)
    }

    pub(crate) fn forget_repeatable(&mut self) {
        self.repeatable.clear();
    }

    /// Drops the replies to a client that is gone.
    pub(crate) fn hang_up(&mut self, sender: usize) {
        self.transits.retain(|transit| transit.sender != sender || transit.reply.is_none());
    }

    pub(crate) fn pass_to(&mut self, now_ms: u64) {
        self.servers.iter_mut().for_each(|server| server.pass_to(now_ms));
    }
}

fn insert(transits: &mut Vec<Transit>, transit: Transit) {
    let place = transits.partition_point(|other| (other.sender, other.id) < (transit.sender, transit.id));
    transits.insert(place, transit);
}
