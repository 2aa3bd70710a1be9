//! Subscriptions: one per channel, as long as a waiter listens there.
//!
//! Invariant: a wake-up is a hint. It makes a waiter try again, and nothing is concluded from it.

use super::state::Listener;
use super::{Action, Engine, Subject};
use crate::moment::Moment;
use crate::name::Channel;
use crate::owner::WireOwner;

impl Engine {
    /// Subscribes a listener, unless it is subscribed already. A listener that joins a confirmed subscription tries
    /// again at once, because no confirmation will wake it, and a message that arrived while its attempt was in flight
    /// reached only the other listeners.
    pub(super) fn listen(&mut self, now: Moment, listener: Listener, channels: Vec<Channel>) {
        if channels.is_empty() || self.listeners.by_listener.contains_key(&listener) {
            return;
        }
        let joins = channels.iter().any(|channel| self.listeners.confirmed.contains(channel));
        for channel in &channels {
            let listening = self.listeners.by_channel.entry(channel.clone()).or_default();
            listening.insert(listener.clone());
            if listening.len() == 1 {
                self.actions.push(Action::Subscribe(channel.clone()));
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
                self.actions.push(Action::Unsubscribe(channel));
            }
        }
    }

    /// Handles the first or a later confirmation of a subscription. Messages sent before it are lost, so every listener
    /// tries again.
    pub(super) fn listening(&mut self, now: Moment, channel: &Channel) {
        if self.listeners.by_channel.contains_key(channel) {
            self.listeners.confirmed.insert(channel.clone());
        }
        for listener in self.listening_to(channel) {
            self.wake_up(now, listener);
        }
    }

    /// Handles a message, which says that a holder has released or that the lock was force-released.
    pub(super) fn message(&mut self, now: Moment, channel: &Channel) {
        for listener in self.listening_to(channel) {
            if let Listener::Queue(subject) = &listener {
                self.note_release_message(now, subject);
            }
            self.wake_up(now, listener);
        }
    }

    /// Returns the time until which a message on the subject's channels may be older than a grant that arrives now.
    /// Only a subscription from before the grant can still deliver such a message, and hardly later than the polling
    /// interval.
    pub(super) fn stale_messages_until(&self, now: Moment, subject: &Subject, wire: WireOwner) -> Moment {
        let channels = subject.channels(wire);
        let listens = channels.iter().any(|channel| self.listeners.by_channel.contains_key(channel));
        if listens { now + self.settings.poll_interval } else { now }
    }

    fn listening_to(&self, channel: &Channel) -> Vec<Listener> {
        self.listeners.by_channel.get(channel).into_iter().flatten().cloned().collect()
    }

    fn wake_up(&mut self, now: Moment, listener: Listener) {
        match listener {
            Listener::Queue(subject) => self.attempt_unless_held_here(now, &subject),
            Listener::Waiter(id) => self.attempt(now, id),
        }
    }
}
