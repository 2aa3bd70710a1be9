//! The engine: the pure state machine that decides what is held, waiting, renewed, lost or undone.
//!
//! `step(now, event) -> actions` does no I/O, reads no clock and draws no randomness, so production, the simulator and
//! the model checker run the same code. A caller that locks, releases or drops a guard steps the engine inline. The
//! driver steps it with replies, messages and timers, and carries out the actions.
//!
//! # How it works
//! Each [`step`](Engine::step) first fires due timers, a few of them on a caller's thread and more on the driver's, and
//! then takes its event. An event that is about a hold or a ticket sees the current time of that one, however many
//! timers are late. Two machines stand above each other, with the engine on top:
//!
//! - `holds`, the lower one: a *server hold* is what this client has on the server under one wire owner, from its grant
//!   until it is gone (`begin_end`). `renewal` and `reentry` keep it, `min_hold` keeps it after its guards, `release` takes
//!   it off, and `undone` remembers what a failover may bring back. `listener_probe` asks whether other clients wait. The
//!   machine never sees a waiter.
//! - `waits`, above it: a *wait queue* has the local waiters of one name (`waiting`), and owns the attempts for them
//!   (`attempt`, `answers`, `tries`), or shows the server that they are alive where the server keeps the order
//!   (`keep_alive`). `yielding` leaves the name to other clients after a release, `granting` begins a hold, `leaving` ends a
//!   wait without one. `withdrawals` takes a call back at the end of a wait, if it was not sent.
//! - `passing`: where waiting and holding meet. `hand_off` passes a hold to the next waiter of this client, and
//!   `failover_checks` looks at what a server that took over lacks.
//! - `tickets`: a *ticket* is one request of a caller, such as an acquire, until the caller claims the outcome. An
//!   *operation* is a call that takes no hold, tried until it is answered. The close is here too.
//! - `lane`, in front of both machines: an uncontended request or hold is one short record, which `promotion` brings to the
//!   machines as soon as anything else happens to it.
//! - `base`: the context of all parts, ids, containers, timers, terms, subscriptions, and the *name state*, which is what the
//!   client does with one name.
//!
//! What a machine asks of the parts above it is an `Effect`. `carrying` carries effects in their order, before the step
//! ends.
//!
//! `interface` has the events and actions, `facts` and `noting` what observers see.

mod base;
mod carrying;
mod effect;
mod facts;
mod holds;
mod interface;
mod inventory;
mod lane;
mod noting;
mod passing;
mod tickets;
mod waits;

use std::time::Duration;

use crate::confirm::Confirm;
use crate::lease::LEASE_MAX;
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::{ClientId, Owner, WireOwner};
use crate::reply::Reply;

pub use crate::id::{CallId, Id};
pub use crate::name::Others;
pub use crate::settings::Settings;
pub use crate::subject::{Group, Subject};

use base::context::{Context, Purpose};
use base::keys::Sides;
use base::terms::Terms;
use base::timers::Timer;
pub use facts::{Detail, Fact, GrantedBy, Told};
use holds::Holds;
use holds::hold::ServerHold;
pub use interface::{
    AcquireFailure, Action, CloseReport, EnsureFailure, Event, Grant, HoldInfo, LostReason, Offer,
    OperationFailure, Outcome, ReleaseFailure, Request, Wait, WaitInfo,
};
use lane::{Lane, Record};
use passing::failover_checks::Checks;
pub use tickets::close::AFTER_CLOSE;
use tickets::close::Closing;
use tickets::operation::Operations;
use tickets::ticket::Ticket;
use waits::Waits;
use waits::acquire::{Asked, Stage};

/// The most timers that one step of a caller fires, so that a caller's thread does little for others.
const TIMERS_OF_A_CALLER: usize = 8;
/// The most timers that one step of the driver fires, so that a caller waits little for the driver.
const TIMERS_OF_THE_DRIVER: usize = 256;

/// The state of one client. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Engine {
    waits: Waits,
    lane: Lane,
    operations: Operations,
    /// The holds and waiters of a replaced server that are still to be looked at.
    checks: Checks,
    closing: Option<Closing>,
}

impl Engine {
    /// Creates the engine of a new client. A timeout above the longest lease is cut to it, so that every engine ends.
    #[must_use]
    pub fn new(client: ClientId, settings: Settings) -> Self {
        let settings = Settings { timeout: settings.timeout.min(LEASE_MAX), ..settings };
        Self {
            waits: Waits::new(Holds::new(Context::new(client, settings))),
            lane: Lane::default(),
            operations: Operations::default(),
            checks: Checks::default(),
            closing: None,
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
        debug_assert!(self.waits.holds.cx.actions.is_empty(), "the actions of each step are taken");
        std::mem::swap(&mut self.waits.holds.cx.actions, actions);
        self.waits.holds.cx.note(|facts| facts.begin_step(now));
        self.fire_due(now, event.is_of_the_driver());
        match event {
            Event::Acquire(id, request) => self.acquire(now, id, request),
            Event::Claim(id) => {
                self.promote_if_due(now, id);
                if !self.claim_in_lane(now, id) {
                    self.catch_up(now, id);
                    self.claim(now, id);
                }
            }
            Event::Cancel(id) => {
                self.promote(id);
                self.cancel(now, id);
            }
            Event::Release { hold, report } => {
                self.promote_if_due(now, hold);
                if !self.release_in_lane(now, hold, report) {
                    self.catch_up(now, hold);
                    self.release(now, hold, report);
                }
            }
            Event::SetMinHold(hold, least) => {
                self.promote(hold);
                self.waits.holds.set_min_hold(now, hold, least);
            }
            Event::Detach(hold) => {
                self.catch_up(now, hold);
                self.waits.holds.detach(now, hold);
            }
            Event::Give { id, hold } => {
                self.catch_up(now, hold);
                self.waits.holds.give(now, id, hold);
            }
            Event::Ensure { id, hold, least } => {
                self.catch_up(now, hold);
                self.waits.holds.ensure(now, id, hold, least);
            }
            Event::Extend { id, hold, by } => {
                self.catch_up(now, hold);
                self.waits.holds.extend(now, id, hold, by);
            }
            Event::Beat(hold) => {
                self.catch_up(now, hold);
                self.waits.holds.beat(now, hold);
            }
            Event::Perform(id, call) => self.operations.perform(&mut self.waits.holds.cx, now, id, call),
            Event::Close(id) => self.close(now, id),
            Event::Replied(call, result) => self.replied(now, call, result),
            Event::Kept(call) => {
                self.promote_call(call);
                self.waits.kept(now, call);
            }
            Event::Listening(channel) => self.waits.listening(now, &channel),
            Event::Message(channel) => self.waits.message(now, &channel),
            Event::Replaced(scope) => {
                self.promote_all();
                self.checks.replaced(&mut self.waits, now, &scope);
            }
            Event::Tick => {}
        }
        self.carry(now);
        if let Some(closing) = &mut self.closing {
            closing.complete(&mut self.waits.holds);
        }
        std::mem::swap(&mut self.waits.holds.cx.actions, actions);
    }

    /// Returns the moment of the next timer, or [`Moment::NEVER`] when no timer is set. Nothing is due before. A timer
    /// that was moved to a later time may fire once at its earlier time and do nothing.
    #[must_use]
    pub fn next_timer(&self) -> Moment {
        let patience =
            self.waits.holds.cx.facts.as_ref().map_or(Moment::NEVER, |facts| facts.next_patience());
        self.waits.holds.cx.timers.next().min(patience)
    }

    /// Returns true if a hold may be trusted at this moment. The clock alone decides, and no flag has to be set first.
    #[must_use]
    pub fn is_held(&self, hold: Id, now: Moment) -> bool {
        self.remaining(hold, now) > Duration::ZERO
    }

    /// Returns the validity that a hold has left unless it is renewed, or zero when it is lost.
    #[must_use]
    pub fn remaining(&self, hold: Id, now: Moment) -> Duration {
        if let Some(record) = self.lane.of_guard(hold) {
            return record.valid_until().since(now);
        }
        self.server_hold_of(hold).map_or(Duration::ZERO, |server_hold| server_hold.remaining(now))
    }

    /// Returns the reason for the loss of a hold, or `None` while it may be trusted.
    #[must_use]
    pub fn lost(&self, hold: Id, now: Moment) -> Option<LostReason> {
        if let Some(record) = self.lane.of_guard(hold) {
            return record.lost(now);
        }
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
        let in_lane = self.lane.of_guard(hold).map(Record::number);
        in_lane.or_else(|| self.waits.holds.of_guard(hold)).map(|number| self.waits.holds.cx.wire(number))
    }

    /// Returns the subject and the owner of a hold.
    #[must_use]
    pub fn held(&self, hold: Id) -> Option<(Subject, Owner)> {
        if let Some(record) = self.lane.of_guard(hold) {
            return Some((record.asked().subject.clone(), record.asked().owner));
        }
        self.server_hold_of(hold)
            .map(|server_hold| (self.waits.holds.cx.subject_of(server_hold), server_hold.owner))
    }

    /// Returns the wire owner under which this owner holds the subject now, if it does.
    #[must_use]
    pub fn wire_owner_of(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        if let Some(record) = self.lane.held(subject).filter(|record| record.asked().owner == owner) {
            return Some(self.waits.holds.cx.wire(record.number()));
        }
        let name = self.waits.holds.cx.names.find(subject)?;
        let number = self.waits.holds.holder_of(name, subject.recipe.held_side(), owner)?;
        Some(self.waits.holds.cx.wire(number))
    }

    /// Returns the replicas that confirm a hold, or `None` for those of the client.
    #[must_use]
    pub fn replicas_of(&self, hold: Id) -> Option<Confirm> {
        if let Some(record) = self.lane.of_guard(hold) {
            return record.asked().terms.replicas;
        }
        self.waits.holds.get(self.waits.holds.of_guard(hold)?)?.replicas
    }

    /// Returns the settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.waits.holds.cx.settings
    }

    /// Returns the client's identity on the wire.
    #[must_use]
    pub const fn client(&self) -> ClientId {
        self.waits.holds.cx.client
    }

    /// Returns true if the client is closed, every close is reported, and no release, undo or call is outstanding.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        let reported = self.closing.as_ref().is_some_and(Closing::is_reported);
        reported && self.waits.holds.are_released() && !self.waits.holds.cx.is_calling()
    }

    /// Returns true if the engine took an [`Event::Close`].
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closing.is_some()
    }

    /// Does what is due, a bounded part of it.
    fn fire_due(&mut self, now: Moment, by_driver: bool) {
        let most = if by_driver { TIMERS_OF_THE_DRIVER } else { TIMERS_OF_A_CALLER };
        let (mut renewed, mut slack) = (0, Duration::ZERO);
        for _ in 0..most {
            let Some(timer) = self.waits.holds.cx.timers.pop_due(now) else { break };
            let fired = self.fire(now, timer);
            self.carry(now);
            if let Some(of_this) = fired {
                (renewed, slack) = (renewed + 1, slack.max(of_this));
            }
        }
        if by_driver && renewed > 0 {
            for number in self.waits.holds.neighbors(now, slack, renewed) {
                self.waits.holds.renew_early(now, number);
                self.carry(now);
            }
        }
    }

    /// Does what is due for a timer. Returns the slack of the renewal that it sent, if it sent one.
    fn fire(&mut self, now: Moment, timer: Timer) -> Option<Duration> {
        match timer {
            Timer::Hold(number) => {
                let hold = self.waits.holds.get_mut(number)?;
                hold.alarm.fired();
                let (renews, slack) = (hold.renew_at <= now, hold.slack());
                self.waits.holds.hold_due(now, number);
                self.waits.holds.arm(number);
                return renews.then_some(slack);
            }
            Timer::Deadline(id) => {
                if let Some(acquire) = self.waits.holds.cx.acquire_of_mut(id) {
                    acquire.deadline.fired();
                }
                self.waits.deadline_due(now, id);
            }
            Timer::Waiter(id) => self.waits.waiter_due(now, id),
            Timer::Queue(id) => self.waits.queue_due(now, id),
            Timer::KeepAlive(id) => self.waits.keep_alive_due(now, id),
            Timer::Operation(id) => self.operations.due(&mut self.waits.holds.cx, now, id),
            Timer::Checks => self.checks.checks_fired(&mut self.waits, now),
            Timer::Lane => self.lane_due(now),
            Timer::Close => {
                if let Some(closing) = &mut self.closing {
                    closing.due(&mut self.waits.holds, now);
                }
            }
            Timer::Never => {}
        }
        None
    }

    fn replied(&mut self, now: Moment, call: CallId, result: Result<Reply, StoreError>) {
        self.waits.holds.cx.note(|facts| facts.answered(call, result.as_ref().err().map(|error| error.kind)));
        let withdrawn = self.waits.take_withdrawals(call);
        if result.is_ok() {
            self.waits.holds.cx.answered_at = now;
            withdrawn.iter().for_each(|id| self.waits.deadline_is_over(now, *id));
            self.carry(now);
        }
        if let Some(purpose) = self.waits.holds.cx.answered(call) {
            self.answered(now, (call, purpose), result);
        }
        // All that follows from the answer comes before the waits that end with it. What a failed call leaves is known now.
        self.carry(now);
        withdrawn.iter().for_each(|id| self.waits.deadline_due(now, *id));
    }

    /// Brings the answer to a call to the part that has sent it.
    fn answered(
        &mut self,
        now: Moment,
        (call, purpose): (CallId, Purpose),
        result: Result<Reply, StoreError>,
    ) {
        match purpose {
            Purpose::Wait(wait) => self.waits.answered(now, call, wait, result),
            Purpose::Hold(hold) => self.waits.holds.answered(now, call, hold, result),
            Purpose::Perform(id) => self.operations.answered(&mut self.waits.holds.cx, now, id, result),
            Purpose::Lane(id) => {
                // A record that leaves the lane with the answer has left its call to the machines.
                let left = self.answered_in_lane(now, id, result);
                let purpose = left.as_ref().and_then(|_| self.waits.holds.cx.answered(call));
                if let (Some(result), Some(purpose)) = (left, purpose) {
                    self.answered(now, (call, purpose), result);
                }
            }
        }
    }

    /// Lets what is due for one ticket and its hold happen before an event that is about them. Other timers may be
    /// late, because one step fires only a few of them.
    fn catch_up(&mut self, now: Moment, id: Id) {
        self.promote(id);
        let hold = match self.waits.holds.cx.tickets.get(id) {
            Some(Ticket::Acquire(acquire)) => match acquire.stage {
                Stage::Granted(hold) | Stage::Entering { hold, .. } => Some(hold),
                Stage::Waiting(_) | Stage::Expired(_) => None,
            },
            Some(Ticket::Ensuring(hold)) => Some(*hold),
            Some(_) => None,
            None => self.waits.holds.of_guard(id),
        };
        if let Some(hold) = hold {
            self.waits.holds.hold_due(now, hold);
            self.carry(now);
        }
        self.waits.deadline_due(now, id);
    }

    /// Begins an acquire, in the lane or in the machine of the waiters.
    fn acquire(&mut self, now: Moment, id: Id, request: Request) {
        let (subject, owner, wait, terms) = Terms::of(request);
        self.waits.holds.cx.note_asked(id, &subject);
        if self.waits.holds.cx.closed {
            return self.waits.holds.cx.complete(id, Outcome::Acquired(Err(AcquireFailure::Closed)));
        }
        let terms = self.waits.shared_terms(terms);
        if let Some(asked) = self.enter_lane(now, id, Asked { subject, owner, wait, terms }) {
            self.waits.acquire(now, id, asked);
        }
    }

    /// Closes the client, fails its waiters, and loses and releases its holds.
    fn close(&mut self, now: Moment, id: Id) {
        self.promote_all();
        self.waits.holds.cx.tickets.insert(id, Ticket::Pending);
        let is_first = self.closing.is_none();
        self.closing.get_or_insert_default().join(&mut self.waits.holds, now, id);
        if !is_first {
            return;
        }
        self.waits.holds.cx.closed = true;
        for acquire in self.waits.holds.cx.tickets.sorted_keys() {
            if self.waits.holds.cx.acquire_of(acquire).is_some() {
                self.waits.fail(now, acquire, AcquireFailure::Closed);
                self.carry(now);
            }
        }
        self.operations.end_all(&mut self.waits.holds.cx);
        for hold in self.waits.holds.sorted() {
            self.waits.holds.lose(now, hold, LostReason::Closed);
            self.carry(now);
            self.waits.holds.close_min_hold(now, hold);
            self.waits.holds.close_undone(hold);
        }
    }

    fn server_hold_of(&self, guard: Id) -> Option<&ServerHold> {
        self.waits.holds.get(self.waits.holds.of_guard(guard)?)
    }
}
