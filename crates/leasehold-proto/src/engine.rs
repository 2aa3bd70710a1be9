//! The engine: the pure state machine that decides what is held, waiting, renewed, lost or undone.
//!
//! `step(now, event) -> actions` does no I/O, reads no clock and draws no randomness, so production, the simulator and
//! the model checker run the same code. A caller that locks, releases or drops a guard steps the engine inline. The
//! driver steps it with replies, messages and timers, and carries out the actions.
//!
//! # How it works
//! Each [`step`](Engine::step) first fires every due timer and then takes its event, so every event sees the current
//! time. The parts:
//!
//! - a *ticket* (`ticket`) is one request of a caller, such as an acquire, until the caller claims the outcome;
//! - a *wait queue* (`queue`) is the FIFO of the local waiters of one name, of which the head polls, or each waiter
//!   does;
//! - a *server hold* (`server_hold`) is what this client holds on the server under one wire owner, shared by the guards
//!   of one owner, which may re-enter it (`reentry`);
//! - `renewal` keeps server holds alive and ends them by the clock;
//! - `wakeup` keeps one subscription per channel;
//! - a *release* (`release`) takes a wire owner off the server, and reports to its caller or, as an undo, to no caller;
//! - a *minimum hold* (`min_hold`) keeps a hold on the server that its guards released before its minimum hold time was
//!   over;
//! - an *operation* (`operation`) is a call that takes no hold, which the engine tries until it is answered.
//!
//! `interface` has the events and actions, and `state` what the parts remember. Both are data, below the engine. The
//! parts are functions of the engine, above it.

mod interface;
mod min_hold;
mod operation;
mod queue;
mod reentry;
mod release;
mod renewal;
mod server_hold;
mod state;
mod ticket;
mod timer;
mod wakeup;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::call::{Call, Reply};
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::{ClientId, Owner, WireOwner};

pub use crate::id::{CallId, Id};
pub use crate::settings::Settings;
pub use crate::subject::Subject;

pub use interface::{
    AcquireFailure, Action, CloseReport, EnsureFailure, Event, Grant, LostReason, OperationFailure, Outcome,
    ReleaseFailure, Request, Wait,
};
use state::{Closing, Listeners, MinHold, Operation, Purpose, Release, ServerHold, Ticket};
use timer::{Timer, Timers};

/// The state of one client. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    client: ClientId,
    settings: Settings,
    last_owner: u64,
    last_call: u64,
    tickets: BTreeMap<Id, Ticket>,
    queues: BTreeMap<Subject, VecDeque<Id>>,
    /// The acquires that wait for a counted hold, by the subject and the owner that they acquire for.
    waiters: BTreeSet<(Subject, Owner, Id)>,
    listeners: Listeners,
    operations: BTreeMap<Id, Operation>,
    server_holds: BTreeMap<WireOwner, ServerHold>,
    holds: BTreeMap<Id, WireOwner>,
    holders: BTreeMap<(Subject, Owner), WireOwner>,
    releases: BTreeMap<WireOwner, Release>,
    min_holds: BTreeMap<WireOwner, MinHold>,
    calls: BTreeMap<CallId, Purpose>,
    timers: Timers,
    closing: Option<Closing>,
    actions: Vec<Action>,
}

impl Engine {
    /// Creates the engine of a new client.
    #[must_use]
    pub fn new(client: ClientId, settings: Settings) -> Self {
        Self {
            client,
            settings,
            last_owner: 0,
            last_call: 0,
            tickets: BTreeMap::new(),
            queues: BTreeMap::new(),
            waiters: BTreeSet::new(),
            listeners: Listeners::default(),
            operations: BTreeMap::new(),
            server_holds: BTreeMap::new(),
            holds: BTreeMap::new(),
            holders: BTreeMap::new(),
            releases: BTreeMap::new(),
            min_holds: BTreeMap::new(),
            calls: BTreeMap::new(),
            timers: Timers::default(),
            closing: None,
            actions: Vec::new(),
        }
    }

    /// Takes one event and returns the actions that follow. `now` must not go back.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Action> {
        while let Some(timer) = self.timers.pop_due(now) {
            self.fire(now, timer);
        }
        match event {
            Event::Acquire(id, request) => self.acquire(now, id, request),
            Event::Claim(id) => self.claim(now, id),
            Event::Cancel(id) => self.cancel(now, id),
            Event::Release { hold, report } => self.release(now, hold, report),
            Event::SetMinHold(hold, least) => self.set_min_hold(now, hold, least),
            Event::Detach(hold) => self.detach(now, hold),
            Event::Ensure { id, hold, least } => self.ensure(now, id, hold, least),
            Event::Perform(id, call) => self.perform(now, id, call),
            Event::Close(id) => self.close(now, id),
            Event::Replied(call, result) => self.replied(now, call, result),
            Event::Listening(channel) => self.listening(now, &channel),
            Event::Message(channel) => self.message(now, &channel),
            Event::Tick => {}
        }
        self.complete_close();
        std::mem::take(&mut self.actions)
    }

    /// Returns the moment at which the next timer is due, or [`Moment::NEVER`] when no timer is set.
    #[must_use]
    pub fn next_timer(&self) -> Moment {
        self.timers.next()
    }

    /// Returns true if a hold may be trusted at this moment. The clock alone decides, and no flag has to be set first.
    #[must_use]
    pub fn is_held(&self, hold: Id, now: Moment) -> bool {
        self.remaining(hold, now) > Duration::ZERO
    }

    /// Returns the validity that a hold has left unless it is renewed, or zero when it is lost.
    #[must_use]
    pub fn remaining(&self, hold: Id, now: Moment) -> Duration {
        self.server_hold_of(hold).map_or(Duration::ZERO, |server_hold| server_hold.remaining(now))
    }

    /// Returns the reason for the loss of a hold, or `None` while it may be trusted.
    #[must_use]
    pub fn lost(&self, hold: Id, now: Moment) -> Option<LostReason> {
        let Some(server_hold) = self.server_hold_of(hold) else {
            return Some(LostReason::Closed);
        };
        server_hold
            .lost
            .or_else(|| (now >= server_hold.valid_until).then(|| server_hold.reason_by_the_clock()))
    }

    /// Returns the wire owner of a hold.
    #[must_use]
    pub fn wire_owner(&self, hold: Id) -> Option<WireOwner> {
        self.holds.get(&hold).copied()
    }

    /// Returns the subject and the owner of a hold.
    #[must_use]
    pub fn held(&self, hold: Id) -> Option<(Subject, Owner)> {
        self.server_hold_of(hold).map(|server_hold| (server_hold.subject.clone(), server_hold.owner))
    }

    /// Returns the wire owner under which this owner holds the subject now, if it does.
    #[must_use]
    pub fn wire_owner_of(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        self.holders.get(&(subject.clone(), owner)).copied()
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the client's identity on the wire.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// Returns true if the client is closed, every close is reported, and no release, undo or call is outstanding.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let reported = self.closing.as_ref().is_some_and(Closing::is_reported);
        reported && self.releases.is_empty() && self.calls.is_empty()
    }

    /// Returns true if the engine took an [`Event::Close`].
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closing.is_some()
    }

    fn fire(&mut self, now: Moment, timer: Timer) {
        match timer {
            Timer::Deadline(id) => self.deadline(now, id),
            Timer::Attempt(id) => self.attempt_after_sleep(now, id),
            Timer::Unclaimed(id) => self.expire_unclaimed(now, id),
            Timer::Expire(wire) => self.expire(now, wire),
            Timer::Renew(wire) => self.renew(now, wire),
            Timer::Count(wire) => self.set_count(now, wire),
            Timer::Release(wire) => self.send_release(now, wire),
            Timer::Report(wire) => self.report_overdue(now, wire),
            Timer::MinHold(wire) => self.advance_min_hold(now, wire),
            Timer::Perform(id) => self.perform_again(now, id),
            Timer::Close => self.close_overdue(now),
        }
    }

    fn replied(&mut self, now: Moment, call: CallId, result: Result<Reply, StoreError>) {
        match self.calls.remove(&call) {
            Some(Purpose::Attempt(attempt)) => self.attempt_answered(now, call, attempt, result),
            Some(Purpose::Count(wire)) => self.counted(now, call, wire, result),
            Some(Purpose::Renew(wire)) => self.renewed(now, call, wire, result),
            Some(Purpose::Release(wire)) => self.release_answered(now, call, wire, result),
            Some(Purpose::MinHold { wire, sent_at, lease }) => {
                self.min_hold_extended(now, call, (wire, sent_at, lease), result);
            }
            Some(Purpose::Perform(id)) => self.performed(now, id, result),
            None => {}
        }
    }

    /// Sends a call, whose purpose decides which part of the engine gets the reply.
    fn run(&mut self, call: Call, purpose: Purpose) -> CallId {
        self.run_within(call, purpose, self.settings.timeout)
    }

    fn run_within(&mut self, call: Call, purpose: Purpose, timeout: Duration) -> CallId {
        self.last_call += 1;
        let id = CallId(self.last_call);
        self.calls.insert(id, purpose);
        self.actions.push(Action::Run(id, call, timeout));
        id
    }

    /// Returns a wire owner that was never used (docs/guarantees.md, rule 1), the first of `many` consecutive owners.
    fn next_owner(&mut self, many: u64) -> WireOwner {
        let first = self.last_owner + 1;
        self.last_owner += many;
        WireOwner::new(self.client, first)
    }

    fn server_hold_of(&self, hold: Id) -> Option<&ServerHold> {
        self.server_holds.get(self.holds.get(&hold)?)
    }

    fn wake(&mut self, id: Id) {
        self.actions.push(Action::Wake(id));
    }
}
