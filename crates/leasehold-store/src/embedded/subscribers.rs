//! Counts the subscribers of each channel, for the replies of PUBLISH and PUBSUB.
//!
//! Invariant: a channel without a subscriber has no entry.

use std::collections::BTreeMap;

use super::glob::matches;

/// The three ways to subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubscriptionKind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// The number of subscribers by kind and channel or pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Subscribers(BTreeMap<(SubscriptionKind, Vec<u8>), usize>);

impl Subscribers {
    pub(super) fn joins(&mut self, kind: SubscriptionKind, channel: &[u8]) {
        *self.0.entry((kind, channel.to_vec())).or_default() += 1;
    }

    pub(super) fn leaves(&mut self, kind: SubscriptionKind, channel: &[u8]) {
        let key = (kind, channel.to_vec());
        match self.0.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.0.remove(&key);
            }
        }
    }

    /// Returns the number of subscribers to exactly this channel or pattern.
    pub(super) fn count(&self, kind: SubscriptionKind, channel: &[u8]) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(kind, channel.to_vec())).copied().unwrap_or(0)
    }

    /// Returns the number of deliveries of a message. Patterns count, too.
    pub(super) fn reached(&self, channel: &[u8], sharded: bool) -> usize {
        if sharded {
            return self.count(SubscriptionKind::Shard, channel);
        }
        let patterns = self.of(SubscriptionKind::Pattern).filter(|(pattern, _)| matches(pattern, channel));
        self.count(SubscriptionKind::Channel, channel) + patterns.map(|(_, count)| count).sum::<usize>()
    }

    /// Returns all channels or patterns of this kind with the numbers of their subscribers.
    pub(super) fn of(&self, kind: SubscriptionKind) -> impl Iterator<Item = (&[u8], usize)> {
        self.0
            .iter()
            .filter(move |((other, _), _)| *other == kind)
            .map(|((_, channel), count)| (channel.as_slice(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_channels_and_patterns_but_no_shards() {
        let mut subscribers = Subscribers::default();
        subscribers.joins(SubscriptionKind::Channel, b"ab");
        subscribers.joins(SubscriptionKind::Channel, b"ab");
        subscribers.joins(SubscriptionKind::Pattern, b"a*");
        subscribers.joins(SubscriptionKind::Shard, b"ab");
        assert_eq!((subscribers.reached(b"ab", false), subscribers.reached(b"ab", true)), (3, 1));
        subscribers.leaves(SubscriptionKind::Channel, b"ab");
        subscribers.leaves(SubscriptionKind::Channel, b"ab");
        assert_eq!(subscribers.reached(b"ab", false), 1);
        assert_eq!(subscribers.of(SubscriptionKind::Channel).count(), 0);
    }
}
