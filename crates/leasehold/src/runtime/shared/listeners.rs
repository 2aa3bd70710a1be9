//! Futures that wait until something changes about one id, such as a hold.

use std::sync::Arc;
use std::task::Waker;

use leasehold_proto::engine::Id;
use leasehold_proto::{Engine, Moment};

use super::{Effects, Shared, State};
use crate::error::Forked;
use crate::runtime::signal::{Listener, Signal};

impl Shared {
    /// Reads the engine. The signal wakes the listener's task when this id changes.
    pub(crate) fn read_as<T>(
        &self,
        (id, listener): (Id, Id),
        signal: &Arc<Signal>,
        waker: &Waker,
        read: impl FnOnce(&Engine, Moment) -> T,
    ) -> Result<T, Forked> {
        self.check_process()?;
        signal.register(waker);
        let mut state = self.enter()?;
        state.listen((id, listener), signal, false);
        Ok(read(&state.engine, self.now()))
    }

    /// Returns who asked for a hold last. The signal wakes the listener's task when somebody does. The client is visible from
    /// then on, because nobody can ask it before.
    pub(crate) fn asked_as(
        &self,
        (hold, listener): (Id, Id),
        signal: &Arc<Signal>,
        waker: &Waker,
    ) -> Result<Option<Arc<str>>, Forked> {
        self.check_process()?;
        signal.register(waker);
        let mut state = self.enter()?;
        let asked = state.asked.get(&hold).cloned();
        if asked.is_none() {
            state.listen((hold, listener), signal, false);
            state.join_once();
        }
        self.leave(state, Effects::default());
        Ok(asked)
    }

    /// Notes that somebody asks for a hold, and wakes those who wait for that.
    pub(in crate::runtime) fn ask_back(&self, hold: Id, by: &str) {
        let (mut state, mut effects) = (self.lock(), Effects::default());
        if state.holds.contains_key(&hold) {
            state.asked.insert(hold, by.into());
            state.wake(hold, &mut effects);
        }
        self.leave(state, effects);
    }

    /// Removes one listener of this id.
    pub(crate) fn forget_listener(&self, id: Id, listener: Id) -> Result<(), Forked> {
        let forgotten = self.enter()?.listeners.remove(&(id, listener));
        drop(forgotten);
        Ok(())
    }

    /// Returns the listeners that were woken and have neither polled since nor been removed.
    #[cfg(feature = "embedded")]
    pub(crate) fn woken(&self) -> Vec<(Id, Id)> {
        let state = self.lock();
        state.listeners.iter().filter(|(_, listener)| listener.woken).map(|(who, _)| *who).collect()
    }
}

impl State {
    /// Adds a listener, or notes its present poll. `woken` is true if the listener has to poll again.
    pub(super) fn listen(&mut self, who: (Id, Id), signal: &Arc<Signal>, woken: bool) {
        let new = || Listener { signal: Arc::clone(signal), woken };
        self.listeners.entry(who).or_insert_with(new).woken = woken;
    }

    pub(super) fn take_listeners(&mut self, id: Id) -> Vec<Arc<Signal>> {
        let mut taken = Vec::new();
        while let Some((&key, _)) = self.listeners.range((id, Id(0))..=(id, Id(u64::MAX))).next() {
            taken.extend(self.listeners.remove(&key).map(|listener| listener.signal));
        }
        taken
    }

    /// Wakes the listeners of this id that have polled since they were last woken. The outcome of a release goes along,
    /// so its caller does not take the lock again.
    pub(super) fn wake(&mut self, id: Id, effects: &mut Effects) {
        if !self.is_watched
            && let Some(held) = self.engine.take_released(id)
        {
            let signals = self.take_listeners(id);
            signals.iter().for_each(|signal| signal.set_released(held));
            return effects.signals.extend(signals);
        }
        if let Some(offer) = self.engine.offer(id)
            && let Some(listener) = self.listeners.get(&(id, id))
        {
            listener.signal.offer(&offer);
        }
        for (_, listener) in self.listeners.range_mut((id, Id(0))..=(id, Id(u64::MAX))) {
            if !std::mem::replace(&mut listener.woken, true) {
                effects.signals.push(Arc::clone(&listener.signal));
            }
        }
    }

    /// Takes an offer back before a step that ends it. If the future was faster, its grant counts as claimed.
    pub(super) fn recall(&mut self, ticket: Id, effects: &mut Effects) {
        if self.listeners.get(&(ticket, ticket)).is_some_and(|listener| listener.signal.recall()) {
            self.settle_taken(ticket, effects);
        }
    }

    /// Notes that the future of a ticket has taken its offer, if it has.
    pub(super) fn settle_if_taken(&mut self, ticket: Id, effects: &mut Effects) {
        if self.listeners.get(&(ticket, ticket)).is_some_and(|listener| listener.signal.is_taken()) {
            self.settle_taken(ticket, effects);
        }
    }

    /// Notes all offers that futures have taken, for a question about all holds.
    pub(super) fn settle_all_taken(&mut self, effects: &mut Effects) {
        self.engine.offers().into_iter().for_each(|ticket| self.settle_if_taken(ticket, effects));
    }

    fn settle_taken(&mut self, ticket: Id, effects: &mut Effects) {
        self.engine.claim_taken(ticket);
        if let Some(signal) = self.take_listener(ticket) {
            effects.idle.extend(self.holds.insert(ticket, signal));
        }
    }

    /// Removes the listener of a ticket, if there is one.
    pub(super) fn take_listener(&mut self, ticket: Id) -> Option<Arc<Signal>> {
        self.listeners.remove(&(ticket, ticket)).map(|listener| listener.signal)
    }

    /// Takes the validity that the engine publishes. Zero is the last word about a hold.
    pub(super) fn trust(&mut self, hold: Id, until: Moment, effects: &mut Effects) {
        if let Some(signal) = self.holds.get(&hold) {
            signal.trust_until(until);
        } else if let Some((_, signal)) = effects.polled.as_ref().filter(|(polled, _)| *polled == hold) {
            signal.trust_until(until);
            self.holds.insert(hold, Arc::clone(signal));
        } else {
            debug_assert!(false, "{hold:?} is published, and is not held");
        }
        if until == Moment::default() {
            effects.idle.extend(self.holds.remove(&hold));
            self.notes.remove(&hold);
            self.asked.remove(&hold);
        }
    }
}
