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

mod min_hold;
mod operation;
mod queue;
mod reentry;
mod release;
mod renewal;
mod server_hold;
mod ticket;
mod timer;
mod wakeup;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::call::{Call, Reply};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::Channel;
use crate::outcome::StoreError;
use crate::owner::{ClientId, Owner, WireOwner};

pub use crate::id::{CallId, Id};
pub use crate::settings::Settings;
pub use crate::subject::Subject;

use min_hold::MinHold;
use operation::Operation;
use release::Release;
use server_hold::ServerHold;
use ticket::Ticket;
pub use ticket::{
    AcquireFailure, CloseReport, EnsureFailure, Grant, OperationFailure, Outcome, ReleaseFailure,
};
use timer::{Timer, Timers};
use wakeup::Listeners;

/// The terms of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The name to lock and its rules.
    pub subject: Subject,
    /// The owner of the hold.
    pub owner: Owner,
    /// The number of units: permits of a semaphore, 1 for every other primitive.
    pub units: u32,
    /// True if an owner that already holds the lock re-enters it. If false, that acquire is an error.
    pub reenters: bool,
    /// The lease: the time for which the server keeps the hold without a renewal.
    pub lease: Lease,
    /// True if the watchdog renews the hold.
    pub watchdog: bool,
    /// The number of renewals after which the watchdog stops, or `None` for no bound.
    pub max_renewals: Option<u32>,
    /// The longest duration of the hold, counted from the grant, or `None` for no bound.
    pub max_hold: Option<Duration>,
    /// The minimum hold time, or `None` for no bound. The server keeps the hold for at least this long after the grant,
    /// even if its guard is released earlier.
    pub min_hold: Option<Duration>,
    /// The uptime below which a server counts as recently restarted and its answer does not count.
    pub uptime: Duration,
    /// The bound of the wait.
    pub wait: Wait,
    /// The pauses between attempts of a primitive without wake-ups, or `None` for wake-ups and the polling interval.
    pub backoff: Option<Backoff>,
}

impl Request {
    /// Creates a request for one unit with the watchdog on, re-entry allowed and no bounds.
    #[must_use]
    pub const fn new(subject: Subject, owner: Owner, lease: Lease, wait: Wait) -> Self {
        Self {
            subject,
            owner,
            units: 1,
            reenters: true,
            lease,
            watchdog: true,
            max_renewals: None,
            max_hold: None,
            min_hold: None,
            uptime: Duration::ZERO,
            wait,
            backoff: None,
        }
    }
}

/// The bound of a caller's wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Makes exactly one attempt.
    Once,
    /// Waits until this deadline.
    Until(Moment),
    /// Waits without a bound.
    Forever,
}

/// An input of the engine: a request of a caller, or a report of the driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A caller requests a lock.
    Acquire(Id, Request),
    /// A caller polls its ticket for the outcome. A claim takes a grant.
    Claim(Id),
    /// A caller gave up its ticket, of any kind.
    Cancel(Id),
    /// A guard releases its hold.
    Release {
        /// The hold.
        hold: Id,
        /// The ticket that receives the outcome.
        report: Option<Id>,
    },
    /// A caller sets the minimum hold time of a hold, counted from now.
    SetMinHold(Id, Duration),
    /// A guard is detached, so the renewals stop and the lease runs out.
    Detach(Id),
    /// A caller needs at least this much validity of its hold.
    Ensure {
        /// The ticket.
        id: Id,
        /// The hold.
        hold: Id,
        /// The validity that the caller needs.
        least: Duration,
    },
    /// A caller runs an operation: a call that takes no hold, and that has the same effect when it runs twice.
    Perform(Id, Call),
    /// The client closes, so the engine releases every hold and refuses new requests.
    Close(Id),
    /// A store call returned.
    Replied(CallId, Result<Reply, StoreError>),
    /// The server confirmed a subscription, for the first time or after a reconnect.
    Listening(Channel),
    /// A wake-up arrived.
    Message(Channel),
    /// Time has passed.
    Tick,
}

/// An output of the engine: an effect that the driver carries out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends a call. The reply comes back as [`Event::Replied`]. The duration is the call's timeout.
    Run(CallId, Call, Duration),
    /// Subscribes to a channel.
    Subscribe(Channel),
    /// Unsubscribes from a channel.
    Unsubscribe(Channel),
    /// Notifies a ticket of its outcome, or the tasks that wait for the loss of a hold.
    Wake(Id),
    /// The outcome of the ticket that was just claimed. The engine reports it once.
    Complete(Id, Outcome),
}

/// The reason for the loss of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The fixed lease ended.
    Expired,
    /// The hold reached its own bound, `max_hold`.
    MaxHold,
    /// The watchdog made all its renewals, `max_renewals`, and the last lease ended.
    MaxRenewals,
    /// Another owner holds the lock, or the key has another type.
    TakenOver,
    /// The key was gone from the server: force-released, deleted, flushed, or lost with the server's memory.
    Deleted,
    /// The lease ended without a confirmed renewal.
    Unreachable,
    /// The client was closed.
    Closed,
}

impl LostReason {
    /// Returns true if the hold ended by terms that its own holder set, as planned.
    #[must_use]
    pub const fn is_by_own_terms(self) -> bool {
        matches!(self, Self::Expired | Self::MaxHold | Self::MaxRenewals)
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "its fixed lease ended",
            Self::MaxHold => "it reached its max_hold",
            Self::MaxRenewals => "it reached its max_renewals, and its last lease ended",
            Self::TakenOver => "another owner holds it, or another kind of object has its name",
            Self::Deleted => "it was deleted on the server",
            Self::Unreachable => "no renewal was confirmed before the lease ended",
            Self::Closed => "the client was closed",
        })
    }
}

/// The purpose of an in-flight call, which decides which part gets the reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Attempt(queue::Attempt),
    Count(WireOwner),
    Renew(WireOwner),
    Release(WireOwner),
    MinHold { wire: WireOwner, sent_at: Moment, lease: Lease },
    Perform(Id),
}

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
    closing: Option<release::Closing>,
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
        let reported = self.closing.as_ref().is_some_and(release::Closing::is_reported);
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
