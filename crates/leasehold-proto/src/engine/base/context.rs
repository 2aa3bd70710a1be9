//! The context of all parts: what the engine sends, its timers, and the numbers it gives out.
//!
//! Invariant: every call on its way has one purpose, and no call id or wire owner is used twice.

use std::collections::VecDeque;
use std::time::Duration;

use crate::call::Call;
use crate::engine::base::keys::{Number, Numbers};
use crate::engine::base::name_state::NameStates;
use crate::engine::base::subscriptions::{Listener, Subscriptions};
use crate::engine::base::table::Table;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::Timers;
use crate::engine::effect::Effect;
use crate::engine::facts::Facts;
use crate::engine::holds::calls::HoldCall;
use crate::engine::interface::Action;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::calls::WaitCall;
use crate::id::{CallId, Id};
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::{ClientId, WireOwner};
use crate::settings::Settings;

/// The purpose of a call on its way, by the part that gets the reply.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Purpose {
    Wait(WaitCall),
    Hold(HoldCall),
    Perform(Id),
    /// The record of this ticket, in the lane.
    Lane(Id),
}

/// The numbers of a call that was sent already, and that is only brought to the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Replay {
    /// The wire owner, if the call is an attempt.
    pub(in crate::engine) number: Option<Number>,
    pub(in crate::engine) call: CallId,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Context {
    pub(in crate::engine) client: ClientId,
    pub(in crate::engine) settings: Settings,
    pub(in crate::engine) timers: Timers,
    pub(in crate::engine) actions: Vec<Action>,
    /// The time of the server's last answer to any call, other than an error.
    pub(in crate::engine) answered_at: Moment,
    /// The time from which holds that pass on probe for other listeners.
    pub(in crate::engine) probes_from: Moment,
    /// The facts, if there are observers.
    pub(in crate::engine) facts: Option<Box<Facts>>,
    pub(in crate::engine) tickets: Table<Id, Ticket>,
    pub(in crate::engine) names: NameStates,
    pub(in crate::engine) subscriptions: Subscriptions,
    /// The calls on their way that were asked for, each with the ticket that asks.
    pub(in crate::engine) withdrawals: Vec<(CallId, Id)>,
    /// True once the client is closed.
    pub(in crate::engine) closed: bool,
    /// What one machine asks of the parts above it.
    pub(in crate::engine) effects: VecDeque<Effect>,
    /// The next call, if it was sent already.
    pub(in crate::engine) replay: Option<Replay>,
    calls: Table<CallId, Purpose>,
    numbers: Numbers,
}

impl Context {
    pub(in crate::engine) fn new(client: ClientId, settings: Settings) -> Self {
        Self {
            client,
            settings,
            timers: Timers::default(),
            actions: Vec::new(),
            answered_at: Moment::default(),
            probes_from: Moment::default(),
            facts: None,
            tickets: Table::default(),
            names: NameStates::default(),
            subscriptions: Subscriptions::default(),
            withdrawals: Vec::new(),
            closed: false,
            // One step raises a few, so they never need more room.
            effects: VecDeque::with_capacity(8),
            replay: None,
            calls: Table::default(),
            numbers: Numbers::default(),
        }
    }

    /// Returns the time for which a hold with these terms passes on inside this client, zero for never.
    pub(in crate::engine) fn hand_off_bound(&self, terms: &Terms) -> Duration {
        terms.hand_off.unwrap_or(self.settings.hand_off)
    }

    /// Notes a fact, if there are observers.
    #[inline]
    pub(in crate::engine) fn note(&mut self, note: impl FnOnce(&mut Facts)) {
        if let Some(facts) = &mut self.facts {
            note(facts);
        }
    }

    /// Asks the parts above for something.
    pub(in crate::engine) fn raise(&mut self, effect: Effect) {
        self.effects.push_back(effect);
    }

    /// Sends a call.
    pub(in crate::engine) fn send(&mut self, call: Call, purpose: Purpose) -> CallId {
        self.send_within(call, purpose, self.settings.timeout)
    }

    pub(in crate::engine) fn send_within(
        &mut self,
        call: Call,
        purpose: Purpose,
        timeout: Duration,
    ) -> CallId {
        if let Some(Replay { call, .. }) = self.replay.take() {
            self.calls.insert(call, purpose);
            return call;
        }
        let id = self.numbers.call();
        self.calls.insert(id, purpose);
        self.note(|facts| facts.sent(id, call.verb()));
        self.actions.push(Action::Run(id, call, timeout));
        id
    }

    /// Returns the purpose of a call whose reply has come, once.
    pub(in crate::engine) fn answered(&mut self, call: CallId) -> Option<Purpose> {
        self.calls.remove(call)
    }

    /// Returns the ticket of a call on its way, if its record is in the lane.
    pub(in crate::engine) fn call_in_lane(&self, call: CallId) -> Option<Id> {
        match self.calls.get(call) {
            Some(Purpose::Lane(id)) => Some(*id),
            _ => None,
        }
    }

    pub(in crate::engine) fn is_on_its_way(&self, call: CallId) -> bool {
        self.calls.contains(call)
    }

    pub(in crate::engine) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(in crate::engine) fn forget_calls(&mut self) {
        self.calls.clear();
    }

    /// Returns a wire owner that was never used (docs/guarantees.md, rule 1), the first of `many` consecutive owners.
    pub(in crate::engine) fn next_number(&mut self, many: u64) -> Number {
        let given = self.replay.as_mut().and_then(|replay| replay.number.take());
        given.unwrap_or_else(|| self.numbers.wire(many))
    }

    /// Returns the wire owner with this number, if it was given out.
    pub(in crate::engine) fn given(&self, number: u64) -> Option<Number> {
        self.numbers.given(number)
    }

    /// Returns true if a call with this property is on its way. Its cost grows with the calls on their way.
    pub(in crate::engine) fn has_call(&self, is_it: impl Fn(&Purpose) -> bool) -> bool {
        self.calls.sorted_keys().into_iter().any(|call| self.calls.get(call).is_some_and(&is_it))
    }

    pub(in crate::engine) const fn wire(&self, number: Number) -> WireOwner {
        WireOwner::new(self.client, number.get())
    }

    /// Returns the wire owner with the number 0, which no acquire has. A queue listens under it.
    pub(in crate::engine) const fn no_wire(&self) -> WireOwner {
        WireOwner::new(self.client, 0)
    }

    /// Returns a number that differs between acquisitions, so that their pauses differ.
    pub(in crate::engine) fn seed(&self, number: Number) -> u64 {
        self.wire(number).seed()
    }

    /// Returns a number that differs between waiters and times, so that their pauses differ.
    pub(in crate::engine) fn varying_seed(&self, id: Id) -> u64 {
        self.numbers.salt().wrapping_mul(31).wrapping_add(id.0) ^ self.client.seed()
    }

    pub(in crate::engine) fn wake(&mut self, id: Id) {
        self.actions.push(Action::Wake(id));
    }

    /// Subscribes a listener. Returns true if it joins a subscription that is confirmed already.
    pub(in crate::engine) fn listen(&mut self, listener: Listener, channels: Vec<Channel>) -> bool {
        let actions = &mut self.actions;
        self.subscriptions
            .listen(listener, channels, |channel| actions.push(Action::Subscribe(channel.clone())))
    }

    pub(in crate::engine) fn unlisten(&mut self, listener: Listener) {
        let actions = &mut self.actions;
        self.subscriptions.unlisten(listener, |channel| actions.push(Action::Unsubscribe(channel)));
    }

    /// Returns the time by which a call on its way has arrived or never will. While others are answered it may wait for
    /// its sending, and its connection is closed two timeouts after it was given to the store at the latest.
    pub(in crate::engine) fn arrives_by(&self, now: Moment, on_its_way: bool) -> Moment {
        if on_its_way { now + self.settings.timeout.saturating_mul(2) } else { now }
    }
}
