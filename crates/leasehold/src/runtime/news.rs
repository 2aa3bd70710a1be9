//! Messages that the client has received and the engine has not seen yet, one entry for each channel.
//!
//! Invariant: memory is bounded by the number of channels, however many messages a stranger sends. The latest message
//! of a channel is never dropped, unless [`HINTS_MAX`] others are still queued for it.

use std::collections::{BTreeMap, VecDeque};

use leasehold_proto::Channel;
use leasehold_proto::engine::Event;
use leasehold_store::Heard;

/// The most messages of a channel that wait for the engine. A message is a hint to try again, so one would be enough, but
/// the engine tells the echoes of its own calls from the messages of others by their number. It has at most as many calls
/// in flight on a connection.
const HINTS_MAX: usize = 1024;

/// The news of all channels.
#[derive(Debug, Default)]
pub(super) struct News {
    entries: BTreeMap<Channel, Entry>,
    /// The channels with news, in the order of their first one.
    order: VecDeque<Channel>,
}

#[derive(Debug, Default)]
struct Entry {
    is_listening: bool,
    messages: usize,
}

impl News {
    pub(super) fn add(&mut self, heard: Heard) {
        let (channel, is_message) = match heard {
            Heard::Listening(channel) => (channel, false),
            Heard::Message(channel, _) => (channel, true),
        };
        let entry = self.entries.entry(channel.clone()).or_insert_with(|| {
            self.order.push_back(channel);
            Entry::default()
        });
        entry.is_listening |= !is_message;
        entry.messages = (entry.messages + usize::from(is_message)).min(HINTS_MAX);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Takes the next events, at most this many. The rest of a channel comes behind the other channels.
    pub(super) fn take(&mut self, most: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < most
            && let Some(channel) = self.order.pop_front()
        {
            let Some(entry) = self.entries.get_mut(&channel) else { continue };
            if std::mem::take(&mut entry.is_listening) {
                events.push(Event::Listening(channel.clone()));
            } else if entry.messages > 0 {
                entry.messages -= 1;
                events.push(Event::Message(channel.clone()));
            }
            if entry.messages > 0 {
                self.order.push_back(channel);
            } else {
                self.entries.remove(&channel);
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(channel: &str) -> Heard {
        Heard::Message(Channel::new(channel), b"0".to_vec())
    }

    #[test]
    fn a_flood_on_one_channel_neither_grows_nor_delays_the_others() {
        let mut news = News::default();
        (0..1_000_000).for_each(|_| news.add(message("flood")));
        news.add(message("other"));
        news.add(Heard::Listening(Channel::new("third")));
        assert_eq!((news.entries.len(), news.order.len()), (3, 3));
        let [flood, other, third] = ["flood", "other", "third"].map(Channel::new);
        let first = news.take(3);
        assert_eq!(first, [Event::Message(flood), Event::Message(other), Event::Listening(third)]);
        assert_eq!(news.take(usize::MAX).len(), HINTS_MAX - 1);
        assert!(news.is_empty() && news.entries.is_empty());
    }

    #[test]
    fn each_message_of_a_few_counts_and_a_confirmation_comes_first() {
        let mut news = News::default();
        for heard in [message("c"), Heard::Listening(Channel::new("c")), message("c")] {
            news.add(heard);
        }
        let c = || Channel::new("c");
        assert_eq!(news.take(9), [Event::Listening(c()), Event::Message(c()), Event::Message(c())]);
    }
}
