//! A network between engines and servers that is slow, loses, and delivers late.
//!
//! Invariant: a call that is not in flight any more was answered once, or its sender was told that it is lost.

use leasehold_proto::engine::CallId;
use leasehold_proto::{Applied, Call, Reply, StoreError, StoreErrorKind};

use super::channels::Channels;
use super::memory::Shared;
use super::server::{BrokenVariant, Form, Server};

/// A call between its sending and the arrival of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transit {
    /// The index of the engine that sent it.
    pub(crate) sender: usize,
    pub(crate) server: usize,
    id: CallId,
    pub(crate) call: Shared<Call>,
    /// True if its native command has run, and its script has to.
    follows: bool,
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
    /// True if the servers have the native commands.
    pub(crate) has_native: bool,
    pub(crate) channels: Channels,
}

impl Net {
    pub(crate) fn new(servers: Vec<Server>) -> Self {
        let channels = Channels::default();
        Self { servers, transits: Vec::new(), repeatable: Vec::new(), has_native: false, channels }
    }

    pub(crate) fn send(&mut self, sender: usize, server: usize, id: CallId, call: Shared<Call>) {
        let transit = Transit { sender, server, id, call, follows: false, reply: None };
        insert(&mut self.transits, transit);
    }

    /// Executes a call, and keeps its reply in flight. Returns `None` if its script is still to follow a native command.
    pub(crate) fn execute(
        &mut self,
        place: usize,
        now_ms: u64,
        variant: Option<BrokenVariant>,
    ) -> Option<Seen> {
        let Transit { server, call, follows, .. } = self.transits[place].clone();
        let seen = self.run(server, call, now_ms, (self.form(follows), variant));
        self.transits[place].follows = seen.is_none();
        self.transits[place].reply = seen.as_ref().map(|seen| seen.reply.clone());
        seen
    }

    const fn form(&self, follows: bool) -> Form {
        if self.has_native && !follows { Form::Native } else { Form::Script }
    }

    fn run(
        &mut self,
        server: usize,
        call: Shared<Call>,
        now_ms: u64,
        how: (Form, Option<BrokenVariant>),
    ) -> Option<Seen> {
        let before = self.servers[server].clone();
        let executed = self.servers[server].run(&call, now_ms, how);
        executed.told.iter().for_each(|channel| self.channels.publish(channel));
        Some(Seen { call, reply: executed.reply?, before })
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
        let seen = self.run(server, call.clone(), now_ms, (self.form(false), variant));
        seen.or_else(|| self.run(server, call, now_ms, (Form::Script, variant)))
            .expect("a script settles its call")
    }

    pub(crate) fn forget_repeatable(&mut self) {
        self.repeatable.clear();
    }

    /// Drops the replies to a client that is gone.
    pub(crate) fn hang_up(&mut self, sender: usize) {
        self.transits.retain(|transit| transit.sender != sender || transit.reply.is_none());
        self.channels.hang_up(sender, &mut self.servers[0]);
    }

    /// Lets the server execute the next subscription command of a client.
    pub(crate) fn subscribe(&mut self, client: usize) {
        self.channels.execute(client, &mut self.servers[0]);
    }

    /// Breaks the subscription connection of a client.
    pub(crate) fn break_off(&mut self, client: usize) {
        self.channels.break_off(client, &mut self.servers[0]);
    }

    pub(crate) fn pass_to(&mut self, now_ms: u64) {
        self.servers.iter_mut().for_each(|server| server.pass_to(now_ms));
    }
}

fn insert(transits: &mut Vec<Transit>, transit: Transit) {
    let place = transits.partition_point(|other| (other.sender, other.id) < (transit.sender, transit.id));
    transits.insert(place, transit);
}
