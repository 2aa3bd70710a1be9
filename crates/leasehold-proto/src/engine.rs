//! The engine: the pure state machine that decides what is held, waiting, renewed, lost or undone.
//!
//! `step(now, event) -> actions` does no I/O, reads no clock and draws no randomness, so production, the simulator and
//! the model checker run the same code. A caller that locks, releases or drops a guard steps the engine inline. The
//! driver steps it with replies, messages and timers, and carries out the actions.
//!
//! # How it works
//! Each [`step`](Engine::step) first fires due timers, a few of them on a caller's thread and more on the driver's, and
//! then takes its event. An event that is about a hold or a ticket sees the current time of that one, however many
//! timers are late. Five folders:
//!
//! - `tickets`: a *ticket* is one request of a caller, such as an acquire, until the caller claims the outcome. An
//!   *operation* is a call that takes no hold, tried until it is answered. The close is here too.
//! - `waits`: a *wait queue* has the local waiters of one name (`waiting`), and owns the attempts for them (`attempt`,
//!   `answers`, `tries`), or shows the server that they are alive where the server keeps the order (`keep_alive`).
//!   `withdrawals` takes a call back at the end of a wait, if it was not sent.
//! - `holds`: a *server hold* is what this client has on the server under one wire owner, from its grant until it is gone
//!   (`begin_end`). `renewal` and `reentry` keep it, `min_hold` keeps it after its guards, `release` takes it off, and
//!   `undone` remembers what a failover may bring back.
//! - `passing`: where waiting and holding meet. `hand_off` passes a hold to the next waiter of this client,
//!   `listener_probe` asks whether other clients wait, and `failover_checks` looks at what a server that took over lacks.
//! - `base`: ids, containers, timers, terms, subscriptions, and the *place*, which is what the client does with one name.
//!
//! `interface` has the events and actions, `facts` and `noting` what observers see.

mod base;
mod facts;
mod holds;
mod interface;
mod inventory;
mod noting;
mod passing;
mod tickets;
mod waits;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::confirm::Confirm;
use crate::lease::LEASE_MAX;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::{ClientId, Owner, WireOwner};
use crate::reply::Reply;

pub use crate::id::{CallId, Id};
pub use crate::settings::Settings;
pub use crate::subject::{Group, Subject};

use base::context::{Context, Purpose};
use base::keys::{PlaceId, Side};
use base::place::Places;
use base::subscriptions::Subscriptions;
use base::table::Table;
use base::terms::Terms;
use base::timers::Timer;
pub use facts::{Detail, Fact, GrantedBy, Told};
use holds::hold::ServerHold;
use holds::index::Holds;
pub use interface::{
    AcquireFailure, Action, CloseReport, EnsureFailure, Event, Grant, HoldInfo, LostReason, OperationFailure,
    Outcome, ReleaseFailure, Request, Wait, WaitInfo,
};
use passing::checks::Checks;
pub use tickets::closing::AFTER_CLOSE;
use tickets::closing::Closing;
use tickets::operations::Operations;
use tickets::ticket::Ticket;

/// The most timers that one step of a caller fires, so that a caller's thread does little for others.
const TIMERS_OF_A_CALLER: usize = 8;
/// The most timers that one step of the driver fires, so that a caller waits little for the driver.
const TIMERS_OF_THE_DRIVER: usize = 256;

/// The state of one client. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    cx: Context,
    tickets: Table<Id, Ticket>,
    places: Places,
    /// The acquires that wait for a counted hold, by what they wait to hold and for whom.
    waiters: BTreeSet<(PlaceId, Side, Owner, Id)>,
    holds: Holds,
    subscriptions: Subscriptions,
    operations: Operations,
    /// The holds and waiters of a replaced server that are still to be looked at.
    checks: Checks,
    /// The calls on their way that were asked for, each with the ticket that asks.
    withdrawals: Vec<(CallId, Id)>,
    closing: Option<Closing>,
    /// The terms of the last acquire, which those of the next one mostly equal.
    last_terms: Option<Arc<Terms>>,
}

impl Engine {
    /// Creates the engine of a new client. A timeout above the longest lease is cut to it, so that every engine ends.
    #[must_use]
    pub fn new(client: ClientId, settings: Settings) -> Self {
        let settings = Settings { timeout: settings.timeout.min(LEASE_MAX), ..settings };
        Self {
            cx: Context::new(client, settings),
            tickets: Table::default(),
            places: Places::default(),
            waiters: BTreeSet::new(),
            holds: Holds::default(),
            subscriptions: Subscriptions::default(),
            operations: Operations::default(),
            checks: Checks::default(),
            withdrawals: Vec::new(),
            closing: None,
            last_terms: None,
        }
    }

    /// Takes one event and returns the actions that follow. `now` must not go back.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.step_into(now, event, &mut actions);
        actions
    }

    /// Takes one event and appends the actions that follow. `now` must not go back, and lies years before
    /// [`Moment::NEVER`], which is 584 years after the clock's zero.
    ///
    /// Timers that are due may be left for the next step, when there are many. [`next_timer`](Self::next_timer) is then
    /// in the past.
    pub fn step_into(&mut self, now: Moment, event: Event, actions: &mut Vec<Action>) {
        debug_assert!(self.cx.actions.is_empty(), "the actions of each step are taken");
        std::mem::swap(&mut self.cx.actions, actions);
        self.cx.note(|facts| facts.begin_step(now));
        let by_driver = event.is_of_the_driver();
        let most = if by_driver { TIMERS_OF_THE_DRIVER } else { TIMERS_OF_A_CALLER };
        let (mut renewed, mut slack) = (0, Duration::ZERO);
        for _ in 0..most {
            let Some(timer) = self.cx.timers.pop_due(now) else { break };
            if let Some(of_this) = self.fire(now, timer) {
                (renewed, slack) = (renewed + 1, slack.max(of_this));
            }
        }
        if by_driver && renewed > 0 {
            self.renew_neighbors(now, slack, renewed);
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
            Event::Kept(call) => self.kept(now, call),
            Event::Listening(channel) => self.listening(now, &channel),
            Event::Message(channel) => self.message(now, &channel),
            Event::Replaced(scope) => self.replaced(now, &scope),
            Event::Tick => {}
        }
        self.complete_close();
        std::mem::swap(&mut self.cx.actions, actions);
    }

    /// Returns the moment of the next timer, or [`Moment::NEVER`] when no timer is set. Nothing is due before. A timer
    /// that was moved to a later time may fire once at its earlier time and do nothing.
    #[must_use]
    pub fn next_timer(&self) -> Moment {
        let patience = self.cx.facts.as_ref().map_or(Moment::NEVER, |facts| facts.next_patience());
        self.cx.timers.next().min(patience)
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
        self.holds.of_guard(hold).map(|number| self.cx.wire(number))
    }

    /// Returns the subject and the owner of a hold.
    #[must_use]
    pub fn held(&self, hold: Id) -> Option<(Subject, Owner)> {
        self.server_hold_of(hold).map(|server_hold| (self.subject_of(server_hold), server_hold.owner))
    }

    /// Returns the wire owner under which this owner holds the subject now, if it does.
    #[must_use]
    pub fn wire_owner_of(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        let place = self.places.find(subject)?;
        let number = self.holder_of(place, subject.recipe.held_side(), owner)?;
        Some(self.cx.wire(number))
    }

    /// Returns the replicas that confirm a hold, or `None` for those of the client.
    #[must_use]
    pub fn replicas_of(&self, hold: Id) -> Option<Confirm> {
        self.holds.get(self.holds.of_guard(hold)?)?.replicas
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.cx.settings
    }

    /// Returns the client's identity on the wire.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.cx.client
    }

    /// Returns true if the client is closed, every close is reported, and no release, undo or call is outstanding.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let reported = self.closing.as_ref().is_some_and(Closing::is_reported);
        reported && self.holds.are_released() && !self.cx.is_calling()
    }

    /// Returns true if the engine took an [`Event::Close`].
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closing.is_some()
    }

    /// Does what is due for a timer. Returns the slack of the renewal that it sent, if it sent one.
    fn fire(&mut self, now: Moment, timer: Timer) -> Option<Duration> {
        match timer {
            Timer::Hold(number) => {
                let hold = self.holds.get_mut(number)?;
                hold.alarm.fired();
                let (renews, slack) = (hold.renew_at <= now, hold.slack());
                self.hold_due(now, number);
                self.arm(number);
                return renews.then_some(slack);
            }
            Timer::Deadline(id) => {
                if let Some(acquire) = self.acquire_of_mut(id) {
                    acquire.deadline.fired();
                }
                self.deadline_due(now, id);
            }
            Timer::Waiter(id) => self.waiter_due(now, id),
            Timer::Queue(id) => self.queue_due(now, id),
            Timer::KeepAlive(id) => self.keep_alive_due(now, id),
            Timer::Operation(id) => self.operation_due(now, id),
            Timer::Checks => self.checks_fired(now),
            Timer::Close => self.close_due(now),
            Timer::Never => {}
        }
        None
    }

    fn replied(&mut self, now: Moment, call: CallId, result: Result<Reply, StoreError>) {
        self.cx.note(|facts| facts.answered(call, result.as_ref().err().map(|error| error.kind)));
        let withdrawn = self.take_withdrawals(call);
        if result.is_ok() {
            self.cx.answered_at = now;
            withdrawn.iter().for_each(|id| self.deadline_is_over(now, *id));
        }
        match self.cx.answered(call) {
            Some(Purpose::Attempt(attempt)) => self.attempt_answered(now, call, &attempt, result),
            Some(Purpose::Renew(number, sent)) => self.renewed(now, call, (number, sent), result),
            Some(Purpose::Question(number, asked)) => {
                self.question_answered(now, call, (number, asked), result);
            }
            Some(Purpose::Change(number)) => self.changed(now, call, number, result),
            Some(Purpose::KeepAlive(id)) => self.kept_alive(now, call, id, result),
            Some(Purpose::Perform(id)) => self.performed(now, id, result),
            None => {}
        }
        // What a failed call leaves is known now.
        withdrawn.iter().for_each(|id| self.deadline_due(now, *id));
    }

    fn server_hold_of(&self, guard: Id) -> Option<&ServerHold> {
        self.holds.get(self.holds.of_guard(guard)?)
    }
}

impl Event {
    /// Returns true if the driver brings the event.
    const fn is_of_the_driver(&self) -> bool {
        matches!(
            self,
            Self::Replied(..) | Self::Listening(_) | Self::Message(_) | Self::Replaced(_) | Self::Tick
        )
    }
}
