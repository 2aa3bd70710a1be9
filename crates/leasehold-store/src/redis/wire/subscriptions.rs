//! Subscriptions: one connection for all of them, kept open as long as there are subscribers.
//!
//! Invariant: a subscriber receives [`Heard::Listening`](crate::store::Heard::Listening) only after the server has
//! confirmed, and again after every reconnect, for every channel.
//!
//! # How it works
//! The subscription table holds the subscribers of each channel, connected or not. So a subscription that has ended
//! again costs no command. A connection is one [`session`]. Between two sessions the wire pauses, longer after each
//! failure.

mod changes;
mod incoming;
mod session;
mod table;

use leasehold_proto::{Channel, Moment};

use self::session::Session;
use self::table::SubscriptionTable;
use super::dialing::Dialing;
use super::ids::{ConnId, SubscriberId};
use super::io::Output;
use super::report::Report;
use super::server::Step;
use crate::redis::error::Failure;
use crate::redis::notices::Carried;

/// The subscriptions of one server.
#[derive(Debug)]
pub(super) struct Subscriptions {
    table: SubscriptionTable,
    dialing: Dialing,
    session: Option<Session>,
    /// True once a session has begun.
    has_opened: bool,
    is_closed: bool,
}

impl Subscriptions {
    pub(super) fn new(seed: u64) -> Self {
        let dialing = Dialing::new(seed);
        Self {
            table: SubscriptionTable::default(),
            dialing,
            session: None,
            has_opened: false,
            is_closed: false,
        }
    }

    pub(super) fn subscribe(&mut self, step: &mut Step<'_>, id: SubscriberId, channel: Channel) {
        if !self.is_closed {
            self.table.add(id, channel, step.outputs);
            self.advance(step);
        }
    }

    /// Subscribes, unless the subscriber is there.
    pub(super) fn keep(&mut self, step: &mut Step<'_>, id: SubscriberId, channel: Channel) {
        if self.table.is_empty() {
            self.subscribe(step, id, channel);
        }
    }

    pub(super) fn unsubscribe(&mut self, step: &mut Step<'_>, id: SubscriberId, channel: &Channel) {
        self.table.remove(id, channel);
        self.advance(step);
    }

    /// Lets the session see the table and the time, or connects if there are subscribers.
    fn advance(&mut self, step: &mut Step<'_>) {
        match &mut self.session {
            Some(session) => match session.tick(step.now, &mut self.table) {
                Ok(()) => session.outgoing.announce(step, session.id),
                Err(_) => self.end_session(step),
            },
            None if self.table.is_empty() || self.is_closed => {}
            None => drop(self.dialing.begin(step)),
        }
    }

    /// Returns the attempts to connect.
    pub(super) const fn dialing_mut(&mut self) -> &mut Dialing {
        &mut self.dialing
    }

    pub(super) fn connected(&mut self, step: &mut Step<'_>, id: ConnId) {
        self.dialing.connected(step, id);
    }

    pub(super) fn closed(&mut self, step: &mut Step<'_>, id: ConnId, failure: &Failure) {
        if self.is_of_session(id) {
            self.end_session(step);
        } else if self.dialing.ended(step, id, failure).is_some() {
            self.failed(step);
        }
    }

    /// Takes the bytes of a connection.
    pub(super) fn receive(&mut self, step: &mut Step<'_>, id: ConnId, bytes: &[u8]) {
        match self.dialing.receive(step, id, bytes) {
            Some(Ok(opened)) => {
                let channels = step.server.channels();
                let again = std::mem::replace(&mut self.has_opened, true);
                step.serves(opened.id, Carried::Subscriptions, again);
                self.session = Some(Session::new(opened, channels, step.now, &mut self.table));
                self.log_in(step);
                return self.advance(step);
            }
            Some(Err(_)) => self.failed(step),
            None => {}
        }
        let Some(session) = self.session.as_mut().filter(|session| session.id == id) else { return };
        let received = session.receive(step.now, bytes, &mut self.table, step.outputs);
        for redirection in session.take_redirections() {
            step.report(Report::Moved(redirection));
        }
        for took in session.take_logins() {
            step.report(Report::LoggedIn(took));
        }
        match received {
            Ok(()) => session.outgoing.announce(step, id),
            // The reason of the break does not matter, because the next attempt begins anyway.
            Err(_) => self.end_session(step),
        }
    }

    /// Notes that an attempt to connect has failed. The next attempt does not depend on the reason.
    fn failed(&mut self, step: &mut Step<'_>) {
        self.table.start_over();
        step.report(Report::Deaf);
        self.advance(step);
    }

    /// Logs in again on the open connection, if there are later credentials. With RESP2, a connection with subscriptions
    /// takes no login, so another one replaces it.
    pub(super) fn log_in(&mut self, step: &mut Step<'_>) {
        let Some(session) = &mut self.session else { return };
        let Some(login) = step.server.login_after(session.login()) else { return };
        if session.log_in(step.now, login) {
            session.outgoing.announce(step, session.id);
        } else {
            self.end_session(step);
        }
    }

    /// Tells the subscribers of a channel of a change, as a message would.
    pub(super) fn tell(&self, step: &mut Step<'_>, channel: &Channel) {
        self.table.deliver(channel.as_str(), b"", step.outputs);
    }

    /// Returns true if a connection is open.
    pub(super) const fn is_open(&self) -> bool {
        self.session.is_some()
    }

    /// Goes on with another server under the same name.
    pub(super) fn move_on(&mut self, step: &mut Step<'_>) {
        self.end_session(step);
        self.dialing.stop(step);
        self.dialing.was_useful();
        self.advance(step);
    }

    /// Returns true if no channel has a subscriber and no channel is left to leave.
    pub(super) fn is_idle(&self) -> bool {
        self.table.is_empty()
    }

    /// Closes the connection, and pauses before the next one if this one was of no use.
    fn end_session(&mut self, step: &mut Step<'_>) {
        let Some(session) = self.session.take() else { return };
        step.output(Output::Reset(session.id));
        if session.was_useful() {
            self.dialing.was_useful();
        }
        self.dialing.was_useless(step.now);
        self.table.start_over();
        self.advance(step);
    }

    pub(super) fn wrote(&mut self, id: ConnId, count: usize) {
        if let Some(outgoing) = self.dialing.outgoing(id) {
            outgoing.wrote(count);
        } else if let Some(session) = self.session.as_mut().filter(|session| session.id == id) {
            session.outgoing.wrote(count);
        }
    }

    pub(super) fn tick(&mut self, step: &mut Step<'_>) {
        match self.dialing.tick(step) {
            Some(_) => self.failed(step),
            None => self.advance(step),
        }
    }

    pub(super) fn close(&mut self, step: &mut Step<'_>) {
        self.is_closed = true;
        self.table = SubscriptionTable::default();
        self.end_session(step);
        self.dialing.stop(step);
    }

    /// Returns the earliest time at which [`tick`](Self::tick) may have something to do.
    pub(super) fn timer(&self) -> Moment {
        self.session.as_ref().map_or(Moment::NEVER, Session::timer).min(self.dialing.timer())
    }

    pub(super) fn unwritten(&self, id: ConnId) -> Option<&[u8]> {
        let session = || {
            let session = self.session.as_ref().filter(|session| session.id == id);
            session.map(|session| session.outgoing.unwritten())
        };
        self.dialing.unwritten(id).or_else(session)
    }

    fn is_of_session(&self, id: ConnId) -> bool {
        self.session.as_ref().is_some_and(|session| session.id == id)
    }
}
