//! Subscriptions: one per channel, for as long as somebody waits there.
//!
//! Invariant: a wake-up is a hint. It makes a waiter ask; nothing is concluded from it.
//! Called by: the engine's step, for messages; the queue, when a waiter goes to sleep, or its line is empty.

use std::collections::{BTreeMap, BTreeSet};

use super::{Action, Engine, Id, Subject};
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::WireOwner;

/// Who listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Listener {
    /// A line, whose head asks.
    Line(Subject),
    /// A waiter that asks for itself.
    One(Id),
}

/// Who listens where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Listeners {
    by_channel: BTreeMap<Channel, BTreeSet<Listener>>,
    by_listener: BTreeMap<Listener, Vec<Channel>>,
    /// Subscriptions that stand.
    confirmed: BTreeSet<Channel>,
}

impl Engine {
    /// Subscribes, unless this listener is subscribed already. One who joins others on a subscription that stands asks
    /// again at once: nobody will tell it that it stands, and what was sent while its attempt was on its way was told to
    /// the others.
    pub(super) fn listen(&mut self, now: Moment, listener: Listener, channels: Vec<Channel>) {
        if channels.is_empty() || self.listeners.by_listener.contains_key(&listener) {
            return;
        }
        let joins = channels.iter().any(|channel| self.listeners.confirmed.contains(channel));
        for channel in &channels {
            let listening = self.listeners.by_channel.entry(channel.clone()).or_default();
            listening.insert(listener.clone());
            if listening.len() == 1 {
                self.actions.push(Action::Listen(channel.clone()));
            }
        }
        self.listeners.by_listener.insert(listener.clone(), channels);
        if joins {
            self.wake_up(now, listener);
        }
    }

    /// Ends a listener's subscriptions.
    pub(super) fn unlisten(&mut self, listener: &Listener) {
        for channel in self.listeners.by_listener.remove(listener).unwrap_or_default() {
            let Some(listening) = self.listeners.by_channel.get_mut(&channel) else { continue };
            listening.remove(listener);
            if listening.is_empty() {
                self.listeners.by_channel.remove(&channel);
                self.listeners.confirmed.remove(&channel);
                self.actions.push(Action::Unlisten(channel));
            }
        }
    }

    /// A subscription stands, for the first time or again: what was sent before is lost, so whoever listens asks.
    pub(super) fn listening(&mut self, now: Moment, channel: &Channel) {
        if self.listeners.by_channel.contains_key(channel) {
            self.listeners.confirmed.insert(channel.clone());
        }
        for listener in self.listening_to(channel) {
            self.wake_up(now, listener);
        }
    }

    /// Somebody has released, or has freed the lock by force.
    pub(super) fn message(&mut self, now: Moment, channel: &Channel) {
        for listener in self.listening_to(channel) {
            if let Listener::Line(subject) = &listener {
                self.doubt(now, subject);
            }
            self.wake_up(now, listener);
        }
    }

    /// Until when a message on these channels may be older than a grant that arrives now. Only a subscription that was
    /// there before can still bring one, and hardly later than the polling interval.
    pub(super) fn echoes_until(&self, now: Moment, subject: &Subject, wire: WireOwner) -> Moment {
        let channels = subject.recipe.channels(subject, wire);
        let listens = channels.iter().any(|channel| self.listeners.by_channel.contains_key(channel));
        if listens { now + self.settings.poll_interval } else { now }
    }

    fn listening_to(&self, channel: &Channel) -> Vec<Listener> {
        self.listeners.by_channel.get(channel).into_iter().flatten().cloned().collect()
    }

    fn wake_up(&mut self, now: Moment, listener: Listener) {
        match listener {
            Listener::Line(subject) => self.attempt_unless_held_here(now, &subject),
            Listener::One(id) => self.attempt(now, id),
        }
    }
}
