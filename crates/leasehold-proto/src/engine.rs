//! The engine: the one place that decides that something is held, waiting, renewed, lost or undone.
//!
//! Invariant: it is pure. `step(now, event) -> actions` does no I/O, reads no clock and draws no randomness, so
//! production, simulator and model checker run the same code.
//! Called by: whoever brings an event. A caller that locks, releases or drops steps it inline; the driver steps it
//! with replies, messages and timers, and carries out the actions.
//!
//! # How it works
//! Each [`step`](Engine::step) first fires every timer that is due and then takes its event, so what has passed by
//! the clock has passed for every event that follows. The parts:
//!
//! - a *ticket* (`ticket`) is one acquire until its caller has claimed the outcome;
//! - a *line* (`queue`) is the FIFO of local waiters of one name; only its head asks the store;
//! - a *server hold* (`server_hold`) is the time in which this client holds a name on the server, over the holds of one owner,
//!   who may take it again (`reentry`);
//! - `renewal` keeps server holds alive and ends them by the clock;
//! - `wakeup` keeps one subscription per channel;
//! - a *release* (`release`) takes a wire owner off the server: a release, or an undo that nobody waits for;
//! - a *rest* (`min_hold`) is a hold that was given back before its least time was over;
//! - an *operation* (`operation`) is a call that takes no hold, tried until it is answered.

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
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::call::{Call, Reply};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::{Channel, Name};
use crate::outcome::StoreError;
use crate::owner::{ClientId, Owner, WireOwner};
use crate::recipe::Recipe;

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

/// What a client's engine goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// How long one store call may take, connecting included; also how long a failing store is asked again before a
    /// waiter is told.
    pub timeout: Duration,
    /// How long a waiter sleeps at most before it asks again without having been woken.
    pub poll_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(3), poll_interval: Duration::from_secs(1) }
    }
}

/// One acquire, release or renewal that a caller waits for; a granted acquire's id is its hold's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// One call on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// What is locked, and by which rules.
#[derive(Clone)]
pub struct Subject {
    /// The name.
    pub name: Name,
    /// What is locked together with it, all or nothing.
    pub others: Arc<[Name]>,
    /// The primitive's rules.
    pub recipe: &'static dyn Recipe,
}

/// An acquire as the caller wants it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// What to lock.
    pub subject: Subject,
    /// For whom.
    pub owner: Owner,
    /// How many units: permits of a semaphore, 1 of everything else.
    pub units: u32,
    /// Whether an owner that holds it already takes it once more; if not, that is an error.
    pub reenters: bool,
    /// How long the server keeps it without renewal.
    pub lease: Lease,
    /// Whether the watchdog renews it.
    pub watchdog: bool,
    /// After how many renewals the watchdog stops; `None` for no bound.
    pub max_renewals: Option<u32>,
    /// How long after the grant the hold ends at the latest; `None` for no bound.
    pub max_hold: Option<Duration>,
    /// How long after the grant the server keeps it at least, though it be released before; `None` for no bound.
    pub min_hold: Option<Duration>,
    /// For how long the server must have been up for its word to count.
    pub uptime: Duration,
    /// How long to wait.
    pub wait: Wait,
    /// The pauses between attempts, where nothing wakes a waiter; `None` for wake-ups and the polling interval.
    pub backoff: Option<Backoff>,
}

impl Request {
    /// A watched acquire of one unit, which re-enters and has no bounds.
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

/// How long a caller is willing to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Ask exactly once.
    Once,
    /// Until this deadline.
    Until(Moment),
    /// For ever.
    Forever,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A caller wants a lock.
    Acquire(Id, Request),
    /// A caller looks for the outcome of its ticket; this takes a grant.
    Claim(Id),
    /// A caller gave up its ticket, whatever it was for.
    Cancel(Id),
    /// A guard is done; `report` is the ticket that wants to know how it went.
    Release {
        /// The hold.
        hold: Id,
        /// Who waits for the outcome.
        report: Option<Id>,
    },
    /// From now on a hold is to last at least so long, however soon it is released.
    AtLeast(Id, Duration),
    /// A guard is given up without a release: stop renewing and let the lease run out.
    Detach(Id),
    /// A guard wants at least this much validity.
    Ensure {
        /// The ticket.
        id: Id,
        /// The hold.
        hold: Id,
        /// How much.
        least: Duration,
    },
    /// A caller wants a call made that takes no hold, and that comes to the same when it is made twice.
    Perform(Id, Call),
    /// The client ends: release everything and refuse what comes.
    Close(Id),
    /// A call came back.
    Replied(CallId, Result<Reply, StoreError>),
    /// A subscription is confirmed, for the first time or again.
    Listening(Channel),
    /// A wake-up arrived.
    Message(Channel),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Send a call and bring its reply as [`Event::Replied`].
    Run(CallId, Call, Duration),
    /// Subscribe.
    Listen(Channel),
    /// Unsubscribe.
    Unlisten(Channel),
    /// There is news for a ticket, or for those who wait for the loss of a hold.
    Wake(Id),
    /// The outcome of the ticket that was just claimed. It is told once.
    Complete(Id, Outcome),
}

/// Why a hold is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The fixed lease ended.
    Expired,
    /// The hold reached its own bound, `max_hold`.
    MaxHold,
    /// The watchdog had made all its renewals, `max_renewals`, and the last lease ended.
    MaxRenewals,
    /// Somebody else holds the lock, or has put something else under its name.
    TakenOver,
    /// The key was gone from the server: forced free, deleted, flushed, or lost with the server's memory.
    Deleted,
    /// No renewal was confirmed until the lease ended.
    Unreachable,
    /// The client was closed.
    Closed,
}

impl LostReason {
    /// Whether the hold ended by the terms that its own holder had given it, as it was to end.
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
            Self::MaxRenewals => "it had all its max_renewals, and the last lease ended",
            Self::TakenOver => "another owner holds it, or its name was given to something else",
            Self::Deleted => "it was deleted on the server",
            Self::Unreachable => "no renewal was confirmed until the lease ended",
            Self::Closed => "the client was closed",
        })
    }
}

/// What a call on its way was for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Purpose {
    Attempt(queue::Attempt),
    Count(WireOwner),
    Renew(WireOwner),
    Release(WireOwner),
    MinHold { wire: WireOwner, sent_at: Moment, lease: Lease },
    Perform(Id),
}

/// The state of one client. See the module's page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    client: ClientId,
    settings: Settings,
    last_owner: u64,
    last_call: u64,
    tickets: BTreeMap<Id, Ticket>,
    queues: BTreeMap<Subject, VecDeque<Id>>,
    /// The acquires that wait for a counted hold, by the subject and the owner of that hold.
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
    /// The engine of a new client.
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

    /// Takes one event and says what is to be done. `now` must not go back.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Action> {
        while let Some(timer) = self.timers.pop_due(now) {
            self.fire(now, timer);
        }
        match event {
            Event::Acquire(id, request) => self.acquire(now, id, request),
            Event::Claim(id) => self.claim(now, id),
            Event::Cancel(id) => self.cancel(now, id),
            Event::Release { hold, report } => self.release(now, hold, report),
            Event::AtLeast(hold, least) => self.hold_at_least(now, hold, least),
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

    /// When the next timer is due; [`Moment::NEVER`] when none is set.
    #[must_use]
    pub fn next_timer(&self) -> Moment {
        self.timers.next()
    }

    /// Whether a hold may be trusted at this moment: by the clock, with no flag that somebody else must set.
    #[must_use]
    pub fn is_held(&self, hold: Id, now: Moment) -> bool {
        self.remaining(hold, now) > Duration::ZERO
    }

    /// For how long a hold may still be trusted unless it is renewed; zero when it is lost.
    #[must_use]
    pub fn remaining(&self, hold: Id, now: Moment) -> Duration {
        self.server_hold_of(hold).map_or(Duration::ZERO, |server_hold| server_hold.remaining(now))
    }

    /// Why a hold is gone; `None` while it may be trusted.
    #[must_use]
    pub fn lost(&self, hold: Id, now: Moment) -> Option<LostReason> {
        let Some(server_hold) = self.server_hold_of(hold) else {
            return Some(LostReason::Closed);
        };
        server_hold
            .lost
            .or_else(|| (now >= server_hold.valid_until).then(|| server_hold.reason_by_the_clock()))
    }

    /// What stands on the server for a hold.
    #[must_use]
    pub fn wire_owner(&self, hold: Id) -> Option<WireOwner> {
        self.holds.get(&hold).copied()
    }

    /// What a hold is of, and whose it is.
    #[must_use]
    pub fn held(&self, hold: Id) -> Option<(Subject, Owner)> {
        self.server_hold_of(hold).map(|server_hold| (server_hold.subject.clone(), server_hold.owner))
    }

    /// The wire owner under which this owner holds the subject now, if it does.
    #[must_use]
    pub fn wire_owner_of(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        self.holders.get(&(subject.clone(), owner)).copied()
    }

    /// What it goes by.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The client's identity on the wire.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// Whether the client is closed, and nothing is left to be released, undone, answered or told.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let told = self.closing.as_ref().is_some_and(release::Closing::is_told);
        told && self.releases.is_empty() && self.calls.is_empty()
    }

    /// Whether [`Event::Close`] was taken.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closing.is_some()
    }

    fn fire(&mut self, now: Moment, timer: Timer) {
        match timer {
            Timer::Deadline(id) => self.deadline(now, id),
            Timer::Attempt(id) => self.attempt_in_turn(now, id),
            Timer::Unclaimed(id) => self.expire_unclaimed(now, id),
            Timer::Expire(wire) => self.expire(now, wire),
            Timer::Renew(wire) => self.renew(now, wire),
            Timer::Count(wire) => self.set_count(now, wire),
            Timer::Release(wire) => self.send_release(now, wire),
            Timer::Report(wire) => self.report_overdue(now, wire),
            Timer::MinHold(wire) => self.rest(now, wire),
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

    /// Puts a call on its way; what it was for decides who gets the reply.
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

    /// A wire owner that was never used (docs/guarantees.md, rule 1), the first of so many.
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

impl Subject {
    /// One name, by these rules.
    #[must_use]
    pub fn new(name: &Name, recipe: &'static dyn Recipe) -> Self {
        Self { name: name.clone(), others: Arc::default(), recipe }
    }

    /// The same names by other rules.
    #[must_use]
    fn by(&self, recipe: &'static dyn Recipe) -> Self {
        Self { recipe, ..self.clone() }
    }

    /// The same names by the rules by which a grant is held.
    fn as_held(&self) -> Self {
        self.by(self.recipe.held_as().unwrap_or(self.recipe))
    }

    /// The order that equality goes by: a name under other rules is another subject.
    fn order(&self) -> (&Name, &'static str, &[Name]) {
        (&self.name, self.recipe.kind(), &self.others)
    }
}

impl PartialEq for Subject {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Subject {}

impl PartialOrd for Subject {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Subject {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl std::hash::Hash for Subject {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

impl fmt::Debug for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.recipe.kind(), self.name)
    }
}
