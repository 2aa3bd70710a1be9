//! Who listens to which channel.
//!
//! Invariant: a channel is on the board as long as somebody listens to it.
//! Called by: the subscription task and its session.

use std::collections::BTreeMap;

use leasehold_proto::Channel;
use tokio::sync::mpsc::UnboundedSender;

use super::Order;
use crate::store::Heard;

/// The listeners of all channels, in the channels' order, so that what is sent depends on nothing else.
#[derive(Default)]
pub(super) struct Board(BTreeMap<Channel, Entry>);

struct Entry {
    /// The first listener's number: a channel that was left and joined again has another one, so that a late
    /// confirmation of the old subscription is not taken for the new one's.
    ask: u64,
    confirmed: bool,
    listeners: Vec<(u64, UnboundedSender<Heard>)>,
}

/// What the server has to be told after an order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Join(Ask),
    Leave(Channel),
}

/// One wish to be subscribed to a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) channel: Channel,
    id: u64,
}

impl Board {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an order; says what follows from it for the server.
    pub(super) fn apply(&mut self, order: Order) -> Option<Change> {
        match order {
            Order::Listen { id, channel, heard } => self.join(id, channel, heard),
            Order::End { id, channel } => self.leave(id, channel),
        }
    }

    fn join(&mut self, id: u64, channel: Channel, heard: UnboundedSender<Heard>) -> Option<Change> {
        if let Some(entry) = self.0.get_mut(&channel) {
            if entry.confirmed {
                let _ = heard.send(Heard::Listening(channel));
            }
            entry.listeners.push((id, heard));
            return None;
        }
        let entry = Entry { ask: id, confirmed: false, listeners: vec![(id, heard)] };
        self.0.insert(channel.clone(), entry);
        Some(Change::Join(Ask { channel, id }))
    }

    fn leave(&mut self, id: u64, channel: Channel) -> Option<Change> {
        let entry = self.0.get_mut(&channel)?;
        entry.listeners.retain(|(listener, _)| *listener != id);
        if !entry.listeners.is_empty() {
            return None;
        }
        self.0.remove(&channel);
        Some(Change::Leave(channel))
    }

    /// All channels, to be asked for on a new connection, on which none is confirmed yet.
    pub(super) fn start_over(&mut self) -> Vec<Ask> {
        let ask = |(channel, entry): (&Channel, &mut Entry)| {
            entry.confirmed = false;
            Ask { channel: channel.clone(), id: entry.ask }
        };
        self.0.iter_mut().map(ask).collect()
    }

    /// Whether somebody still waits for this.
    pub(super) fn wants(&self, ask: &Ask) -> bool {
        self.0.get(&ask.channel).is_some_and(|entry| entry.ask == ask.id)
    }

    /// The server has confirmed: everybody who listens is told.
    pub(super) fn confirm(&mut self, ask: &Ask) {
        let Some(entry) = self.0.get_mut(&ask.channel).filter(|entry| entry.ask == ask.id) else {
            return;
        };
        entry.confirmed = true;
        for (_, heard) in &entry.listeners {
            let _ = heard.send(Heard::Listening(ask.channel.clone()));
        }
    }

    /// The server has ended a subscription; what to ask for if somebody counted on it.
    pub(super) fn lose(&mut self, channel: &str) -> Option<Ask> {
        let (channel, _) = self.0.get_key_value(channel)?;
        let channel = channel.clone();
        let entry = self.0.get_mut(&channel).filter(|entry| entry.confirmed)?;
        entry.confirmed = false;
        Some(Ask { channel, id: entry.ask })
    }

    /// A message came.
    pub(super) fn deliver(&self, channel: &str, payload: &[u8]) {
        let Some((channel, entry)) = self.0.get_key_value(channel) else {
            return;
        };
        for (_, heard) in &entry.listeners {
            let _ = heard.send(Heard::Message(channel.clone(), payload.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    fn listen(board: &mut Board, id: u64) -> (Option<Change>, UnboundedReceiver<Heard>) {
        let (heard, news) = unbounded_channel();
        let change = board.apply(Order::Listen { id, channel: Channel::new("c"), heard });
        (change, news)
    }

    fn end(board: &mut Board, id: u64) -> Option<Change> {
        board.apply(Order::End { id, channel: Channel::new("c") })
    }

    fn listening() -> Heard {
        Heard::Listening(Channel::new("c"))
    }

    #[test]
    fn one_channel_is_joined_once_and_left_by_the_last() {
        let mut board = Board::default();
        let (Some(Change::Join(ask)), mut first) = listen(&mut board, 1) else { panic!("joins") };
        board.confirm(&ask);
        let (change, mut second) = listen(&mut board, 2);
        assert_eq!(change, None);
        board.deliver("c", b"0");
        board.deliver("other", b"1");
        for news in [&mut first, &mut second] {
            assert_eq!(news.try_recv().unwrap(), listening());
            assert_eq!(news.try_recv().unwrap(), Heard::Message(Channel::new("c"), b"0".to_vec()));
            assert!(news.try_recv().is_err());
        }
        assert_eq!(end(&mut board, 1), None);
        assert_eq!(end(&mut board, 2), Some(Change::Leave(Channel::new("c"))));
        assert!(board.is_empty());
        assert_eq!(end(&mut board, 2), None);
    }

    #[test]
    fn nobody_is_told_before_the_server_confirmed_nor_after_the_connection_was_lost() {
        let mut board = Board::default();
        let (_, mut first) = listen(&mut board, 1);
        let (_, mut second) = listen(&mut board, 2);
        assert!(first.try_recv().is_err());
        let asks = board.start_over();
        board.confirm(&asks[0]);
        assert_eq!(first.try_recv().unwrap(), listening());
        assert_eq!(second.try_recv().unwrap(), listening());
        let again = board.start_over();
        let (_, mut third) = listen(&mut board, 3);
        assert!(third.try_recv().is_err());
        board.confirm(&again[0]);
        assert_eq!(first.try_recv().unwrap(), listening());
        assert_eq!(third.try_recv().unwrap(), listening());
    }

    #[test]
    fn a_late_confirmation_is_not_taken_for_that_of_a_channel_joined_again() {
        let mut board = Board::default();
        let (Some(Change::Join(old)), _) = listen(&mut board, 1) else { panic!("joins") };
        end(&mut board, 1);
        let (Some(Change::Join(new)), mut news) = listen(&mut board, 2) else { panic!("joins") };
        assert!(!board.wants(&old) && board.wants(&new));
        board.confirm(&old);
        assert!(news.try_recv().is_err());
        board.confirm(&new);
        assert_eq!(news.try_recv().unwrap(), listening());
    }
}
