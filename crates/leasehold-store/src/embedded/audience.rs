//! The numbers of subscribers, for the replies of PUBLISH and PUBSUB.
//!
//! Invariant: a channel without a subscriber has no entry.

use std::collections::BTreeMap;

use super::glob::matches;

/// The three ways to subscribe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ear {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

/// The number of subscribers by kind and channel or pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Audience(BTreeMap<(Ear, Vec<u8>), usize>);

impl Audience {
    pub(super) fn joins(&mut self, ear: Ear, channel: &[u8]) {
        *self.0.entry((ear, channel.to_vec())).or_default() += 1;
    }

    pub(super) fn leaves(&mut self, ear: Ear, channel: &[u8]) {
        let key = (ear, channel.to_vec());
        match self.0.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.0.remove(&key);
            }
        }
    }

    /// Returns the number of subscribers to exactly this channel or pattern.
    pub(super) fn count(&self, ear: Ear, channel: &[u8]) -> usize {
        if self.0.is_empty() {
            return 0;
        }
        self.0.get(&(ear, channel.to_vec())).copied().unwrap_or(0)
    }

    /// Returns the number of deliveries of a message; patterns count, too.
    pub(super) fn reached(&self, channel: &[u8], sharded: bool) -> usize {
        if sharded {
            return self.count(Ear::Shard, channel);
        }
        let patterns = self.of(Ear::Pattern).filter(|(pattern, _)| matches(pattern, channel));
        self.count(Ear::Channel, channel) + patterns.map(|(_, count)| count).sum::<usize>()
    }

    /// Returns all channels or patterns of this kind with the numbers of their subscribers.
    pub(super) fn of(&self, ear: Ear) -> impl Iterator<Item = (&[u8], usize)> {
        self.0
            .iter()
            .filter(move |((kind, _), _)| *kind == ear)
            .map(|((_, channel), count)| (channel.as_slice(), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reaches_channels_and_patterns_but_no_shards() {
        let mut audience = Audience::default();
        audience.joins(Ear::Channel, b"ab");
        audience.joins(Ear::Channel, b"ab");
        audience.joins(Ear::Pattern, b"a*");
        audience.joins(Ear::Shard, b"ab");
        assert_eq!((audience.reached(b"ab", false), audience.reached(b"ab", true)), (3, 1));
        audience.leaves(Ear::Channel, b"ab");
        audience.leaves(Ear::Channel, b"ab");
        assert_eq!(audience.reached(b"ab", false), 1);
        assert_eq!(audience.of(Ear::Channel).count(), 0);
    }
}
