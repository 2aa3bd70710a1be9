//! Subscriptions: one per channel, as long as a queue or a waiter listens there.
//!
//! Invariant: a wake-up is a hint. It makes a waiter try again, and nothing is concluded from it.

use std::collections::{BTreeMap, BTreeSet};

use crate::engine::base::keys::QueueId;
use crate::id::Id;
use crate::name::Channel;

/// A listener of one or more channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum Listener {
    /// A wait queue, for its first waiters.
    Queue(QueueId),
    /// One waiter that makes its own attempts.
    Waiter(Id),
}

/// The subscriptions of all listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Subscriptions {
    channels: BTreeMap<Channel, Subscribed>,
    listeners: BTreeMap<Listener, Vec<Channel>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Subscribed {
    listeners: BTreeSet<Listener>,
    /// True once the server has confirmed the subscription.
    confirmed: bool,
}

impl Subscriptions {
    /// Returns all listeners, in their order.
    pub(in crate::engine) fn all_listeners(&self) -> impl Iterator<Item = Listener> {
        self.listeners.keys().copied()
    }

    /// Returns the number of channels.
    pub(in crate::engine) fn len(&self) -> usize {
        self.channels.len()
    }

    pub(in crate::engine) fn is_listening(&self, listener: Listener) -> bool {
        self.listeners.contains_key(&listener)
    }

    /// Adds a listener. `subscribe` gets each channel that nothing listened to. Returns true if one of the channels is
    /// subscribed already, since no confirmation will come then.
    pub(in crate::engine) fn listen(
        &mut self,
        listener: Listener,
        channels: Vec<Channel>,
        mut subscribe: impl FnMut(&Channel),
    ) -> bool {
        debug_assert!(!self.is_listening(listener), "{listener:?} listens already");
        let mut joins = false;
        for channel in &channels {
            let subscribed = self.channels.entry(channel.clone()).or_insert_with(|| {
                subscribe(channel);
                Subscribed::default()
            });
            subscribed.listeners.insert(listener);
            joins |= subscribed.confirmed;
        }
        self.listeners.insert(listener, channels);
        joins
    }

    /// Removes a listener. `unsubscribe` gets each channel to which nothing listens any more.
    pub(in crate::engine) fn unlisten(&mut self, listener: Listener, mut unsubscribe: impl FnMut(Channel)) {
        for channel in self.listeners.remove(&listener).unwrap_or_default() {
            let Some(subscribed) = self.channels.get_mut(&channel) else { continue };
            subscribed.listeners.remove(&listener);
            if subscribed.listeners.is_empty() {
                self.channels.remove(&channel);
                unsubscribe(channel);
            }
        }
    }

    /// Notes that the server has confirmed a subscription. Returns its listeners, and true if it was confirmed before,
    /// so that the connection was lost meanwhile.
    pub(in crate::engine) fn confirm(&mut self, channel: &Channel) -> (Vec<Listener>, bool) {
        let Some(subscribed) = self.channels.get_mut(channel) else { return (Vec::new(), false) };
        let again = std::mem::replace(&mut subscribed.confirmed, true);
        (subscribed.listeners.iter().copied().collect(), again)
    }

    /// Returns the listeners of a channel.
    pub(in crate::engine) fn listeners(&self, channel: &Channel) -> Vec<Listener> {
        self.channels.get(channel).into_iter().flat_map(|subscribed| &subscribed.listeners).copied().collect()
    }

    /// Returns the channels of a listener.
    pub(in crate::engine) fn channels_of(&self, listener: Listener) -> &[Channel] {
        self.listeners.get(&listener).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns true if another listener on these channels has the property.
    pub(in crate::engine) fn has_beside(
        &self,
        listener: Listener,
        channels: &[Channel],
        is: impl Fn(Listener) -> bool,
    ) -> bool {
        let subscribed = channels.iter().filter_map(|channel| self.channels.get(channel));
        let mut listeners = subscribed.flat_map(|subscribed| &subscribed.listeners).copied();
        listeners.any(|other| other != listener && is(other))
    }

    /// Returns true if the server delivers the listener's messages.
    pub(in crate::engine) fn hears(&self, listener: Listener) -> bool {
        let confirmed = |channel| self.channels.get(channel).is_some_and(|subscribed| subscribed.confirmed);
        self.listeners.get(&listener).is_some_and(|channels| channels.iter().any(confirmed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str) -> Channel {
        Channel::new(name)
    }

    #[test]
    fn a_channel_is_subscribed_once_for_all_its_listeners() {
        let mut subscriptions = Subscriptions::default();
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        let [one, other] = [Id(1), Id(2)].map(Listener::Waiter);
        let mut listen = |subscriptions: &mut Subscriptions, listener| {
            subscriptions.listen(listener, vec![channel("x")], |channel| begun.push(channel.clone()))
        };
        assert!(!listen(&mut subscriptions, one));
        assert_eq!(subscriptions.confirm(&channel("x")), (vec![one], false));
        assert!(listen(&mut subscriptions, other), "no confirmation will come for the second one");
        assert_eq!(subscriptions.listeners(&channel("x")), [one, other]);
        assert_eq!(begun, [channel("x")]);
        subscriptions.unlisten(one, |channel| ended.push(channel));
        assert!(ended.is_empty() && subscriptions.hears(other) && !subscriptions.hears(one));
        subscriptions.unlisten(other, |channel| ended.push(channel));
        assert_eq!(ended, [channel("x")]);
        assert_eq!(subscriptions, Subscriptions::default());
    }
}
