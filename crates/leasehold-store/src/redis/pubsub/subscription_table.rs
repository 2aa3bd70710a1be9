//! The subscribers of each channel, and the state of each subscription on the server.
//!
//! Invariant: memory is bounded by the channels that have subscribers and the channels that were requested on the
//! present connection, however many subscriptions have come and gone.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::Channel;
use tokio::sync::mpsc::UnboundedSender;

use crate::store::Heard;

/// The subscribers of all channels, in the channels' order, so that the order of the commands depends on nothing else.
#[derive(Default)]
pub(super) struct SubscriptionTable {
    entries: BTreeMap<Channel, Entry>,
    /// The channels about which the server needs a command.
    pending: BTreeSet<Channel>,
    /// The channels that the server has refused. The session requests them again later.
    refused: BTreeSet<Channel>,
}

#[derive(Default)]
struct Entry {
    state: SubscriptionState,
    listeners: Vec<(u64, UnboundedSender<Heard>)>,
}

/// The state of a channel on the present connection. At most one command about a channel is in flight, so a subscriber
/// that comes and goes meanwhile changes only the next command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SubscriptionState {
    /// The server has received no request, or has refused it.
    #[default]
    Apart,
    Joining,
    Joined,
    Leaving,
}

/// A command that the server needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Join(Channel),
    Leave(Channel),
}

impl SubscriptionTable {
    /// Returns true if no channel has a subscriber and no channel is left to leave.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a subscriber, identified by a unique number.
    pub(super) fn add(&mut self, id: u64, channel: Channel, heard: UnboundedSender<Heard>) {
        let entry = self.entries.entry(channel.clone()).or_default();
        if entry.state == SubscriptionState::Joined {
            let _ = heard.send(Heard::Listening(channel.clone()));
        }
        entry.listeners.push((id, heard));
        if entry.state == SubscriptionState::Apart && !self.refused.contains(&channel) {
            self.pending.insert(channel);
        }
    }

    /// Removes a subscriber.
    pub(super) fn remove(&mut self, id: u64, channel: &Channel) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.listeners.retain(|(listener, _)| *listener != id);
        if !entry.listeners.is_empty() {
            return;
        }
        match entry.state {
            SubscriptionState::Apart => self.forget(channel),
            SubscriptionState::Joined => drop(self.pending.insert(channel.clone())),
            // The pending answer finds no subscriber.
            SubscriptionState::Joining | SubscriptionState::Leaving => {}
        }
    }

    /// Returns the next change for the server, and records it as sent.
    pub(super) fn next_change(&mut self) -> Option<Change> {
        while let Some(channel) = self.pending.pop_first() {
            let Some(entry) = self.entries.get_mut(&channel) else { continue };
            match (entry.state, entry.listeners.is_empty()) {
                (SubscriptionState::Apart, false) => {
                    entry.state = SubscriptionState::Joining;
                    return Some(Change::Join(channel));
                }
                (SubscriptionState::Joined, true) => {
                    entry.state = SubscriptionState::Leaving;
                    return Some(Change::Leave(channel));
                }
                _ => {}
            }
        }
        None
    }

    /// Prepares for a new connection, on which no channel has been requested.
    pub(super) fn start_over(&mut self) {
        self.entries.retain(|_, entry| !entry.listeners.is_empty());
        self.entries.values_mut().for_each(|entry| entry.state = SubscriptionState::Apart);
        self.refused.clear();
        self.pending = self.entries.keys().cloned().collect();
    }

    /// Records that the server has confirmed a subscription, and notifies its subscribers.
    pub(super) fn confirm(&mut self, channel: &Channel) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.state = SubscriptionState::Joined;
        for (_, heard) in &entry.listeners {
            let _ = heard.send(Heard::Listening(channel.clone()));
        }
        if entry.listeners.is_empty() {
            self.pending.insert(channel.clone());
        }
    }

    /// Records that the server has refused a subscription.
    pub(super) fn refuse(&mut self, channel: Channel) {
        let Some(entry) = self.entries.get_mut(&channel) else { return };
        entry.state = SubscriptionState::Apart;
        if entry.listeners.is_empty() {
            self.forget(&channel);
        } else {
            self.refused.insert(channel);
        }
    }

    pub(super) fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Queues the refused channels for another request.
    pub(super) fn retry_refused(&mut self) {
        self.pending.append(&mut self.refused);
    }

    /// Records that the server has ended a subscription on request.
    pub(super) fn left(&mut self, channel: &Channel) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.state = SubscriptionState::Apart;
        if entry.listeners.is_empty() {
            self.forget(channel);
        } else {
            self.pending.insert(channel.clone());
        }
    }

    /// Records that the server has ended a subscription unasked. While a command about the channel is in flight, its
    /// answer decides.
    pub(super) fn lose(&mut self, channel: &str) {
        let Some((channel, entry)) = self.entries.get_key_value(channel) else { return };
        if entry.state == SubscriptionState::Joined {
            self.left(&channel.clone());
        }
    }

    /// Delivers a message to the subscribers of its channel.
    pub(super) fn deliver(&self, channel: &str, payload: &[u8]) {
        let Some((channel, entry)) = self.entries.get_key_value(channel) else {
            return;
        };
        for (_, heard) in &entry.listeners {
            let _ = heard.send(Heard::Message(channel.clone(), payload.to_vec()));
        }
    }

    fn forget(&mut self, channel: &Channel) {
        self.entries.remove(channel);
        self.pending.remove(channel);
        self.refused.remove(channel);
    }

    /// Returns the number of channels in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.pending.len() + self.refused.len()
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    fn c() -> Channel {
        Channel::new("c")
    }

    fn listen(table: &mut SubscriptionTable, id: u64) -> UnboundedReceiver<Heard> {
        let (heard, events) = unbounded_channel();
        table.add(id, c(), heard);
        events
    }

    fn listening() -> Heard {
        Heard::Listening(c())
    }

    #[test]
    fn one_channel_is_joined_once_and_left_by_the_last() {
        let mut table = SubscriptionTable::default();
        let mut first = listen(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.confirm(&c());
        let mut second = listen(&mut table, 2);
        assert_eq!(table.next_change(), None);
        table.deliver("c", b"0");
        table.deliver("other", b"1");
        for events in [&mut first, &mut second] {
            assert_eq!(events.try_recv().unwrap(), listening());
            assert_eq!(events.try_recv().unwrap(), Heard::Message(c(), b"0".to_vec()));
            assert!(events.try_recv().is_err());
        }
        table.remove(1, &c());
        assert_eq!(table.next_change(), None);
        table.remove(2, &c());
        assert_eq!(table.next_change(), Some(Change::Leave(c())));
        table.left(&c());
        table.remove(2, &c());
        assert!(table.is_empty());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_listener_is_notified_after_each_confirmation() {
        let mut table = SubscriptionTable::default();
        let (mut first, mut second) = (listen(&mut table, 1), listen(&mut table, 2));
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        assert!(first.try_recv().is_err());
        table.confirm(&c());
        assert_eq!(first.try_recv().unwrap(), listening());
        assert_eq!(second.try_recv().unwrap(), listening());
        table.start_over();
        let mut third = listen(&mut table, 3);
        assert!(third.try_recv().is_err());
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.confirm(&c());
        assert_eq!(first.try_recv().unwrap(), listening());
        assert_eq!(third.try_recv().unwrap(), listening());
    }

    #[test]
    fn a_channel_has_one_subscribe_command_in_flight() {
        let mut table = SubscriptionTable::default();
        let mut old = listen(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.remove(1, &c());
        let mut new = listen(&mut table, 2);
        assert_eq!(table.next_change(), None, "the first question is not answered");
        table.confirm(&c());
        assert_eq!(new.try_recv().unwrap(), listening());
        assert!(old.try_recv().is_err());

        table.remove(2, &c());
        assert_eq!(table.next_change(), Some(Change::Leave(c())));
        let mut newest = listen(&mut table, 3);
        assert_eq!(table.next_change(), None);
        table.left(&c());
        assert!(newest.try_recv().is_err(), "the subscription has ended");
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.remove(3, &c());
        table.confirm(&c());
        assert_eq!(table.next_change(), Some(Change::Leave(c())));
        table.left(&c());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn subscriptions_that_end_without_a_connection_leave_nothing() {
        let mut table = SubscriptionTable::default();
        let _wanted = listen(&mut table, 0);
        for id in 1..1000 {
            let (heard, _events) = unbounded_channel();
            let channel = Channel::new(&format!("channel {id}"));
            table.add(id, channel.clone(), heard.clone());
            table.remove(id, &channel);
            table.add(id, c(), heard);
            table.remove(id, &c());
            assert_eq!(table.len(), 2);
        }
    }

    #[test]
    fn a_refused_channel_is_retried_only_when_due_and_still_used() {
        let mut table = SubscriptionTable::default();
        let _events = listen(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.refuse(c());
        let _more = listen(&mut table, 2);
        assert_eq!((table.next_change(), table.has_refused()), (None, true));
        table.retry_refused();
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.refuse(c());
        table.remove(1, &c());
        table.remove(2, &c());
        assert_eq!(table.len(), 0);
    }
}
