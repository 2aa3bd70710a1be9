//! The context of all parts: what the engine sends, its timers, and the numbers it gives out.
//!
//! Invariant: every call on its way has one purpose, and no call id or wire owner is used twice.

use std::time::Duration;

use super::asking::Asked;
use super::facts::Facts;
use super::hold::Renewing;
use super::interface::Action;
use super::keys::{Number, Numbers, QueueId};
use super::table::Table;
use super::terms::Terms;
use super::timers::Timers;
use crate::call::Call;
use crate::id::{CallId, Id};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::{ClientId, WireOwner};
use crate::settings::Settings;
use std::sync::Arc;

/// The purpose of a call on its way, which decides which part gets the reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Attempt(Attempt),
    Renew(Number, Renewing),
    Question(Number, Asked),
    /// The one call that changes what is on the server under a wire owner: the count of a hold, the lease of a minimum
    /// hold, or a release.
    Change(Number),
    KeepAlive(QueueId),
    Perform(Id),
}

/// An attempt on its way. Its answer is awaited even after its waiter is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    /// The queue for which the attempt is, or whose waiter makes it.
    pub(super) queue: QueueId,
    /// The waiter that makes the attempt, or for which the queue makes it.
    pub(super) waiter: Id,
    pub(super) by: By,
    pub(super) number: Number,
    /// The fencing tokens that it reserves.
    pub(super) tokens: u32,
    pub(super) terms: Arc<Terms>,
    pub(super) lease: Lease,
    pub(super) sent_at: Moment,
    /// True if an earlier attempt under the same wire owner has an unknown outcome.
    pub(super) uncertain: bool,
    /// True if an earlier attempt was refused.
    pub(super) is_repeated: bool,
    /// True if the last attempt told of a holder that sends no message.
    pub(super) polls: bool,
    /// True if a refused waiter enters a queue on the server.
    pub(super) queues: bool,
}

/// The maker of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum By {
    /// The queue, for its first waiter.
    Queue,
    /// The queue, for a further waiter.
    Extra,
    /// A waiter, for itself.
    Waiter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Context {
    pub(super) client: ClientId,
    pub(super) settings: Settings,
    pub(super) timers: Timers,
    pub(super) actions: Vec<Action>,
    /// The time of the server's last answer to any call, other than an error.
    pub(super) answered_at: Moment,
    /// The time from which holds that pass on ask whether other clients listen.
    pub(super) asks_from: Moment,
    /// The facts, if there are observers.
    pub(super) facts: Option<Box<Facts>>,
    calls: Table<CallId, Purpose>,
    numbers: Numbers,
}

impl Context {
    pub(super) fn new(client: ClientId, settings: Settings) -> Self {
        Self {
            client,
            settings,
            timers: Timers::default(),
            actions: Vec::new(),
            answered_at: Moment::default(),
            asks_from: Moment::default(),
            facts: None,
            calls: Table::default(),
            numbers: Numbers::default(),
        }
    }

    /// Returns the time for which a hold with these terms passes on inside this client, zero for never.
    pub(super) fn hand_off_bound(&self, terms: &Terms) -> Duration {
        terms.hand_off.unwrap_or(self.settings.hand_off)
    }

    /// Notes a fact, if there are observers.
    #[inline]
    pub(super) fn note(&mut self, note: impl FnOnce(&mut Facts)) {
        if let Some(facts) = &mut self.facts {
            note(facts);
        }
    }

    /// Sends a call.
    pub(super) fn send(&mut self, call: Call, purpose: Purpose) -> CallId {
        self.send_within(call, purpose, self.settings.timeout)
    }

    pub(super) fn send_within(&mut self, call: Call, purpose: Purpose, timeout: Duration) -> CallId {
        let id = self.numbers.call();
        self.calls.insert(id, purpose);
        self.note(|facts| facts.sent(id, call.verb()));
        self.actions.push(Action::Run(id, call, timeout));
        id
    }

    /// Returns the purpose of a call whose reply has come, once.
    pub(super) fn answered(&mut self, call: CallId) -> Option<Purpose> {
        self.calls.remove(call)
    }

    pub(super) fn is_on_its_way(&self, call: CallId) -> bool {
        self.calls.contains(call)
    }

    pub(super) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Returns a wire owner that was never used (docs/guarantees.md, rule 1), the first of `many` consecutive owners.
    pub(super) const fn next_number(&mut self, many: u64) -> Number {
        self.numbers.wire(many)
    }

    /// Returns the wire owner with this number, if it was given out.
    pub(super) fn given(&self, number: u64) -> Option<Number> {
        self.numbers.given(number)
    }

    /// Returns true if an attempt under this wire owner is on its way. Its cost grows with the calls on their way.
    pub(super) fn is_attempting(&self, number: Number) -> bool {
        let is_it =
            |purpose: &Purpose| matches!(purpose, Purpose::Attempt(attempt) if attempt.number == number);
        self.calls.sorted_keys().into_iter().any(|call| self.calls.get(call).is_some_and(is_it))
    }

    pub(super) const fn wire(&self, number: Number) -> WireOwner {
        WireOwner::new(self.client, number.get())
    }

    /// Returns the wire owner with the number 0, which no acquire has. A queue listens under it.
    pub(super) const fn no_wire(&self) -> WireOwner {
        WireOwner::new(self.client, 0)
    }

    /// Returns a number that differs between acquisitions, so that their pauses differ.
    pub(super) fn seed(&self, number: Number) -> u64 {
        self.wire(number).seed()
    }

    /// Returns a number that differs between waiters and times, so that their pauses differ.
    pub(super) fn varying_seed(&self, id: Id) -> u64 {
        self.numbers.salt().wrapping_mul(31).wrapping_add(id.0) ^ self.client.seed()
    }

    pub(super) fn wake(&mut self, id: Id) {
        self.actions.push(Action::Wake(id));
    }

    pub(super) fn subscribe(&mut self, channel: &Channel) {
        self.actions.push(Action::Subscribe(channel.clone()));
    }

    pub(super) fn unsubscribe(&mut self, channel: Channel) {
        self.actions.push(Action::Unsubscribe(channel));
    }

    /// Returns the time by which a call on its way has arrived or never will. While others are answered it may wait for
    /// its sending, and its connection is closed two timeouts after it was given to the store at the latest.
    pub(super) fn arrives_by(&self, now: Moment, on_its_way: bool) -> Moment {
        if on_its_way { now + self.settings.timeout.saturating_mul(2) } else { now }
    }
}
