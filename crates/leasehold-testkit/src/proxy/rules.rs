//! The rules of the proxy, and its connections.
//!
//! Invariant: a cut connection is closed with a reset once all of its threads have dropped its sockets.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::socket::reset_on_close;

/// The direction of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Client to server.
    Request = 0,
    /// Server to client.
    Reply = 1,
}

/// The fate of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyAction {
    Deliver,
    Swallow,
    Cut,
}

/// The rules in force.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) hold_replies: bool,
    pub(super) refuse: bool,
    pub(super) stopped: bool,
    /// True if the proxy swallows messages to subscribers.
    pub(super) loses_messages: bool,
    loses: [bool; 2],
    nth_reply: Option<(u64, ReplyAction)>,
    links: BTreeMap<u64, Link>,
    links_made: u64,
}

/// A client's connection and its counterpart to the server.
#[derive(Debug)]
pub(super) struct Link {
    client: Arc<TcpStream>,
    server: Arc<TcpStream>,
    /// The threads that have the connection's sockets: two that carry bytes, and at first the accepting thread.
    threads: u8,
    has_lost: [bool; 2],
    /// True if `loses_messages` swallowed a message to it.
    was_deafened: bool,
    is_cut: bool,
}

/// The first bytes of a message to a subscriber.
const MESSAGE: &[u8] = b"*3\r\n$7\r\nmessage\r\n";

impl Rules {
    /// Orders a fate for the `n`th reply from now.
    pub(super) fn order(&mut self, n: u64, action: ReplyAction) {
        self.nth_reply = (n > 0).then_some((n, action));
    }

    fn action(&mut self, id: u64, direction: Direction, chunk: &[u8]) -> ReplyAction {
        let ended = chunk.is_empty();
        let is_lost_message =
            self.loses_messages && direction == Direction::Reply && chunk.starts_with(MESSAGE);
        let way = direction as usize;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else {
            return ReplyAction::Cut;
        };
        let is_deaf = self.loses_messages && link.was_deafened;
        link.was_deafened |= is_lost_message;
        let action = if self.loses[way] || is_lost_message || (is_deaf && direction == Direction::Reply) {
            ReplyAction::Swallow
        } else if link.has_lost[way] {
            ReplyAction::Cut
        } else if direction == Direction::Reply && !ended {
            count_down(&mut self.nth_reply)
        } else {
            ReplyAction::Deliver
        };
        match action {
            ReplyAction::Deliver => {}
            ReplyAction::Swallow => link.has_lost[way] = true,
            ReplyAction::Cut => link.cut(),
        }
        action
    }
}

/// Counts one reply. The reply that ends the count gets the ordered fate.
fn count_down(nth_reply: &mut Option<(u64, ReplyAction)>) -> ReplyAction {
    match nth_reply {
        None => ReplyAction::Deliver,
        Some((1, action)) => {
            let action = *action;
            *nth_reply = None;
            action
        }
        Some((left, _)) => {
            *left -= 1;
            ReplyAction::Deliver
        }
    }
}

impl Link {
    /// Ends the blocked reads of its threads. It shuts down only reading, because a shutdown of writing would be a
    /// regular end.
    fn cut(&mut self) {
        self.is_cut = true;
        for socket in [&self.client, &self.server] {
            reset_on_close(socket);
            // Fails only if the connection is already down.
            let _ = socket.shutdown(Shutdown::Read);
        }
    }
}

/// The rules, shared by all threads of a proxy.
#[derive(Debug, Default)]
pub(super) struct Shared {
    rules: Mutex<Rules>,
    changed: Condvar,
}

impl Shared {
    /// Changes or reads the rules, and wakes every thread that waits for a change.
    pub(super) fn set<T>(&self, change: impl FnOnce(&mut Rules) -> T) -> T {
        let outcome = change(&mut self.lock());
        self.changed.notify_all();
        outcome
    }

    /// Begins or ends the loss of everything in these directions.
    pub(super) fn set_loss(&self, directions: &[Direction], on: bool) {
        let ended: Vec<_> = self.set(|rules| {
            directions
                .iter()
                .map(|&direction| direction as usize)
                .filter(|&way| std::mem::replace(&mut rules.loses[way], on) && !on)
                .collect()
        });
        self.cut(|link| ended.iter().any(|&way| link.has_lost[way]));
    }

    /// Cuts the chosen connections and waits until they are closed.
    pub(super) fn cut(&self, chosen: impl Fn(&Link) -> bool) {
        let ids: Vec<_> = self.set(|rules| {
            let chosen = rules.links.iter_mut().filter(|(_, link)| chosen(link));
            chosen.map(|(id, link)| (link.cut(), *id).1).collect()
        });
        let mut rules = self.lock();
        while ids.iter().any(|id| rules.links.contains_key(id)) {
            rules = self.changed.wait(rules).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Registers a connection that two threads are about to carry. The caller has to report its own end too, with
    /// [`release_sockets`](Self::release_sockets).
    pub(super) fn add(&self, client: Arc<TcpStream>, server: Arc<TcpStream>) -> u64 {
        self.set(|rules| {
            rules.links_made += 1;
            let link =
                Link { client, server, threads: 3, has_lost: [false; 2], was_deafened: false, is_cut: false };
            rules.links.insert(rules.links_made, link);
            rules.links_made
        })
    }

    /// Cuts a connection, from one of its threads.
    pub(super) fn abort(&self, id: u64) {
        self.set(|rules| rules.links.get_mut(&id).map(Link::cut));
    }

    /// Judges a chunk that was just read, and waits while replies are held. An empty chunk is the end of the stream.
    pub(super) fn action_for(&self, id: u64, direction: Direction, chunk: &[u8]) -> ReplyAction {
        let mut rules = self.lock();
        while direction == Direction::Reply
            && rules.hold_replies
            && rules.links.get(&id).is_some_and(|link| !link.is_cut)
        {
            rules = self.changed.wait(rules).unwrap_or_else(PoisonError::into_inner);
        }
        let action = rules.action(id, direction, chunk);
        self.changed.notify_all();
        action
    }

    /// Records that a thread has dropped the sockets of a connection. The last such report closes the connection.
    pub(super) fn release_sockets(&self, id: u64) {
        self.set(|rules| {
            let Some(link) = rules.links.get_mut(&id) else {
                return;
            };
            link.threads -= 1;
            if link.threads == 0 {
                rules.links.remove(&id);
            }
        });
    }

    /// Returns true if a connection was cut.
    pub(super) fn is_cut(&self, id: u64) -> bool {
        self.lock().links.get(&id).is_none_or(|link| link.is_cut)
    }

    /// Returns the number of connections.
    pub(super) fn connections(&self) -> usize {
        self.lock().links.len()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_selected_reply_is_affected() {
        let mut rules = Rules::default();
        rules.order(3, ReplyAction::Swallow);
        let fates: Vec<_> = (0..4).map(|_| count_down(&mut rules.nth_reply)).collect();
        assert_eq!(
            fates,
            [ReplyAction::Deliver, ReplyAction::Deliver, ReplyAction::Swallow, ReplyAction::Deliver]
        );
    }

    #[test]
    fn the_zeroth_reply_never_comes() {
        let mut rules = Rules::default();
        rules.order(0, ReplyAction::Cut);
        assert_eq!(count_down(&mut rules.nth_reply), ReplyAction::Deliver);
    }
}
