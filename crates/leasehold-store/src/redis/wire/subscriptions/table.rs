//! The subscribers of each channel, and the state of each subscription on the server.
//!
//! Invariant: memory is bounded by the channels that have subscribers and the channels that were requested on the
//! present connection, however many subscriptions have come and gone.

use std::collections::{BTreeMap, BTreeSet};

use crate::redis::wire::ids::SubscriberId;
use crate::redis::wire::io::Output;
use crate::store::Heard;
use leasehold_proto::Channel;

/// The subscribers of all channels, in the channels' order, so that the order of the commands depends on nothing else.
#[derive(Debug, Default)]
pub(super) struct SubscriptionTable {
    entries: BTreeMap<Channel, Entry>,
    /// The channels about which the server needs a command.
    pending: BTreeSet<Channel>,
    /// The channels that the server has refused. The session requests them again later.
    refused: BTreeSet<Channel>,
    /// The channels of refused commands. Each is requested by itself, so that it disturbs no other channel.
    suspect: BTreeSet<Channel>,
    /// The subscribed channels that have lost their last subscriber since the last call of [`age`](Self::age), and
    /// before it.
    idle: [BTreeSet<Channel>; 2],
}

#[derive(Debug, Default)]
struct Entry {
    state: SubscriptionState,
    subscribers: Vec<SubscriberId>,
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
    /// A join that shares its command with no other channel.
    JoinAlone(Channel),
    Leave(Channel),
}

impl SubscriptionTable {
    /// Returns true if no channel has a subscriber and no channel is left to leave.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a subscriber.
    pub(super) fn add(&mut self, id: SubscriberId, channel: Channel, outputs: &mut Vec<Output>) {
        let entry = self.entries.entry(channel.clone()).or_default();
        if entry.state == SubscriptionState::Joined {
            outputs.push(Output::Heard(id, Heard::Listening(channel.clone())));
        }
        entry.subscribers.push(id);
        for idle in &mut self.idle {
            idle.remove(&channel);
        }
        if entry.state == SubscriptionState::Apart && !self.refused.contains(&channel) {
            self.pending.insert(channel);
        }
    }

    /// Removes a subscriber. The channel of the last subscriber stays for a while, in case it is wanted again.
    pub(super) fn remove(&mut self, id: SubscriberId, channel: &Channel) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.subscribers.retain(|subscriber| *subscriber != id);
        if !entry.subscribers.is_empty() {
            return;
        }
        match entry.state {
            SubscriptionState::Apart => self.forget(channel),
            SubscriptionState::Joined => drop(self.idle[0].insert(channel.clone())),
            // The pending answer finds no subscriber.
            SubscriptionState::Joining | SubscriptionState::Leaving => {}
        }
    }

    /// Returns the next change for the server, and records it as sent.
    pub(super) fn next_change(&mut self) -> Option<Change> {
        while let Some(channel) = self.pending.pop_first() {
            let Some(entry) = self.entries.get_mut(&channel) else { continue };
            match (entry.state, entry.subscribers.is_empty()) {
                (SubscriptionState::Apart, false) => {
                    entry.state = SubscriptionState::Joining;
                    let alone = self.suspect.contains(&channel);
                    return Some(if alone { Change::JoinAlone(channel) } else { Change::Join(channel) });
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
        self.entries.retain(|_, entry| !entry.subscribers.is_empty());
        self.entries.values_mut().for_each(|entry| entry.state = SubscriptionState::Apart);
        self.refused.clear();
        self.suspect.clear();
        self.idle = Default::default();
        self.pending = self.entries.keys().cloned().collect();
    }

    /// Records that the server has confirmed a subscription, and notifies its subscribers.
    pub(super) fn confirm(&mut self, channel: &Channel, outputs: &mut Vec<Output>) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.state = SubscriptionState::Joined;
        let listening = |id: &SubscriberId| Output::Heard(*id, Heard::Listening(channel.clone()));
        outputs.extend(entry.subscribers.iter().map(listening));
        if entry.subscribers.is_empty() {
            self.idle[0].insert(channel.clone());
        }
        self.suspect.remove(channel);
    }

    /// Records that the server has refused a command. It does not say which of several channels was the reason, so each
    /// is requested by itself at once.
    pub(super) fn refuse(&mut self, channels: impl ExactSizeIterator<Item = Channel>) {
        let alone = channels.len() == 1;
        for channel in channels {
            let Some(entry) = self.entries.get_mut(&channel) else { continue };
            entry.state = SubscriptionState::Apart;
            if entry.subscribers.is_empty() {
                self.forget(&channel);
                continue;
            }
            self.suspect.insert(channel.clone());
            let next = if alone { &mut self.refused } else { &mut self.pending };
            next.insert(channel);
        }
    }

    /// Returns true if a subscribed channel has no subscriber any more.
    pub(super) fn has_idle(&self) -> bool {
        self.idle.iter().any(|idle| !idle.is_empty())
    }

    /// Ends the subscriptions that were idle at the last call already.
    pub(super) fn age(&mut self) {
        let [idle, before] = &mut self.idle;
        self.pending.append(before);
        std::mem::swap(idle, before);
    }

    /// Returns true if the server has refused a channel that still has a subscriber.
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
        if entry.subscribers.is_empty() {
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
    pub(super) fn deliver(&self, channel: &str, payload: &[u8], outputs: &mut Vec<Output>) {
        let Some((channel, entry)) = self.entries.get_key_value(channel) else { return };
        let message =
            |id: &SubscriberId| Output::Heard(*id, Heard::Message(channel.clone(), payload.to_vec()));
        outputs.extend(entry.subscribers.iter().map(message));
    }

    fn forget(&mut self, channel: &Channel) {
        self.entries.remove(channel);
        self.pending.remove(channel);
        self.refused.remove(channel);
        self.suspect.remove(channel);
        for idle in &mut self.idle {
            idle.remove(channel);
        }
    }

    /// Returns the number of channels in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let idle: usize = self.idle.iter().map(BTreeSet::len).sum();
        self.entries.len() + self.pending.len() + self.refused.len() + self.suspect.len() + idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn c() -> Channel {
        Channel::new("c")
    }

    fn add(table: &mut SubscriptionTable, id: u64) -> Vec<(u64, Heard)> {
        heard(|outputs| table.add(SubscriberId(id), c(), outputs))
    }

    fn remove(table: &mut SubscriptionTable, id: u64) {
        table.remove(SubscriberId(id), &c());
    }

    /// Returns the events that a change of the table causes.
    fn heard(change: impl FnOnce(&mut Vec<Output>)) -> Vec<(u64, Heard)> {
        let mut outputs = Vec::new();
        change(&mut outputs);
        let event = |output| match output {
            Output::Heard(id, heard) => (id.0, heard),
            other => panic!("{other:?} is no event"),
        };
        outputs.into_iter().map(event).collect()
    }

    fn confirm(table: &mut SubscriptionTable) -> Vec<(u64, Heard)> {
        heard(|outputs| table.confirm(&c(), outputs))
    }

    fn listening(ids: impl IntoIterator<Item = u64>) -> Vec<(u64, Heard)> {
        ids.into_iter().map(|id| (id, Heard::Listening(c()))).collect()
    }

    /// Lets idle subscriptions end, and returns the next change. No change is due before.
    fn next_after_idling(table: &mut SubscriptionTable) -> Option<Change> {
        for _ in 0..2 {
            assert_eq!(table.next_change(), None);
            assert!(table.has_idle());
            table.age();
        }
        assert!(!table.has_idle());
        table.next_change()
    }

    #[test]
    fn one_channel_is_joined_once_and_left_by_the_last() {
        let mut table = SubscriptionTable::default();
        assert_eq!(add(&mut table, 1), []);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        assert_eq!(confirm(&mut table), listening([1]));
        assert_eq!(add(&mut table, 2), listening([2]), "the channel is confirmed already");
        assert_eq!(table.next_change(), None);
        let message = Heard::Message(c(), b"0".to_vec());
        let both = [(1, message.clone()), (2, message)];
        assert_eq!(heard(|outputs| table.deliver("c", b"0", outputs)), both);
        assert_eq!(heard(|outputs| table.deliver("other", b"1", outputs)), []);
        remove(&mut table, 1);
        assert_eq!(table.next_change(), None);
        remove(&mut table, 2);
        assert_eq!(next_after_idling(&mut table), Some(Change::Leave(c())));
        table.left(&c());
        remove(&mut table, 2);
        assert!(table.is_empty());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_subscriber_is_notified_after_each_confirmation() {
        let mut table = SubscriptionTable::default();
        assert_eq!([add(&mut table, 1), add(&mut table, 2)], [[], []]);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        assert_eq!(confirm(&mut table), listening([1, 2]));
        table.start_over();
        assert_eq!(add(&mut table, 3), []);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        assert_eq!(confirm(&mut table), listening([1, 2, 3]));
    }

    #[test]
    fn a_channel_has_one_subscribe_command_in_flight() {
        let mut table = SubscriptionTable::default();
        add(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        remove(&mut table, 1);
        add(&mut table, 2);
        assert_eq!(table.next_change(), None, "the first command is not answered");
        assert_eq!(confirm(&mut table), listening([2]));

        remove(&mut table, 2);
        assert_eq!(next_after_idling(&mut table), Some(Change::Leave(c())));
        assert_eq!(add(&mut table, 3), []);
        assert_eq!(table.next_change(), None);
        table.left(&c());
        assert_eq!(table.next_change(), Some(Change::Join(c())), "the subscription has ended");
        remove(&mut table, 3);
        assert_eq!(confirm(&mut table), []);
        assert_eq!(next_after_idling(&mut table), Some(Change::Leave(c())));
        table.left(&c());
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn subscriptions_that_end_without_a_connection_leave_nothing() {
        let mut table = SubscriptionTable::default();
        add(&mut table, 0);
        for id in 1..1000 {
            let channel = Channel::new(&format!("channel {id}"));
            table.add(SubscriberId(id), channel.clone(), &mut Vec::new());
            table.remove(SubscriberId(id), &channel);
            add(&mut table, id);
            remove(&mut table, id);
            assert_eq!(table.len(), 2);
        }
    }

    #[test]
    fn a_refused_channel_is_retried_only_when_due_and_still_used() {
        let mut table = SubscriptionTable::default();
        add(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        table.refuse([c()].into_iter());
        add(&mut table, 2);
        assert_eq!((table.next_change(), table.has_refused()), (None, true));
        table.retry_refused();
        assert_eq!(table.next_change(), Some(Change::JoinAlone(c())));
        table.refuse([c()].into_iter());
        remove(&mut table, 1);
        remove(&mut table, 2);
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_channel_that_is_wanted_again_while_idle_stays_joined() {
        let mut table = SubscriptionTable::default();
        add(&mut table, 1);
        assert_eq!(table.next_change(), Some(Change::Join(c())));
        confirm(&mut table);
        for id in 1..10 {
            remove(&mut table, id);
            table.age();
            assert_eq!(add(&mut table, id + 1), listening([id + 1]));
            table.age();
            assert_eq!((table.next_change(), table.has_idle()), (None, false));
        }
        remove(&mut table, 10);
        table.start_over();
        assert_eq!((table.len(), table.next_change()), (0, None), "a new connection has no idle channels");
    }

    #[test]
    fn each_channel_of_a_refused_command_is_requested_alone_until_it_is_confirmed() {
        let mut table = SubscriptionTable::default();
        let channels = ["a", "b", "c"].map(Channel::new);
        for (id, channel) in (1..).zip(&channels) {
            table.add(SubscriberId(id), channel.clone(), &mut Vec::new());
            assert_eq!(table.next_change(), Some(Change::Join(channel.clone())));
        }
        remove(&mut table, 3);
        table.refuse(channels.clone().into_iter());
        assert!(!table.has_refused(), "each of them has a request of its own first");
        assert_eq!(table.next_change(), Some(Change::JoinAlone(channels[0].clone())));
        assert_eq!(table.next_change(), Some(Change::JoinAlone(channels[1].clone())));
        assert_eq!(table.next_change(), None);
        table.confirm(&channels[0], &mut Vec::new());
        table.refuse([channels[1].clone()].into_iter());
        assert!(table.has_refused());
        table.retry_refused();
        assert_eq!(table.next_change(), Some(Change::JoinAlone(channels[1].clone())));
        table.lose("a");
        assert_eq!(table.next_change(), Some(Change::Join(channels[0].clone())));
        table.start_over();
        assert_eq!(table.next_change(), Some(Change::Join(channels[0].clone())));
        assert_eq!(table.next_change(), Some(Change::Join(channels[1].clone())));
    }
}
