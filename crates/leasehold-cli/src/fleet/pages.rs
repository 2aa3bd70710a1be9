//! The pages of what clients hold and wait for.
//!
//! Invariant: a client that does not answer delays one question at most. It counts as silent, and no later question
//! waits for it.
//!
//! # How it works
//! All clients hear each question, and each has cursors of its own. So the question is for the client that is furthest
//! behind, and what the others repeat is recognized.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_proto::ClientId;
use leasehold_proto::operate::Answer;

use super::rows::Rows;

/// What the pages tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Holds,
    Waits,
}

/// The pages of all clients.
#[derive(Debug)]
pub(super) struct Pages<'a> {
    told: Told,
    /// The name that the question is about, or `None` for all.
    name: Option<&'a str>,
    /// The cursor of the question, 0 for the first.
    cursor: u64,
    /// The clients with a further page, and its cursor.
    cursors: BTreeMap<ClientId, u64>,
    /// The clients whose answers are worth the wait.
    pub(super) awaited: BTreeSet<ClientId>,
}

impl<'a> Pages<'a> {
    /// Begins with the clients that have answered.
    pub(super) fn new(told: Told, name: Option<&'a str>, rows: &Rows) -> Self {
        let answering = rows.clients.iter().filter(|(_, known)| known.has_answered);
        let awaited = answering.map(|(client, _)| *client).collect();
        Self { told, name, cursor: 0, cursors: BTreeMap::new(), awaited }
    }

    /// Takes the answers, one of each client, and returns the cursor of the next question if there is one.
    pub(super) fn take(&mut self, answers: &[Answer], rows: &mut Rows) -> Option<u64> {
        for answer in answers {
            self.add(answer, rows);
        }
        for client in &self.awaited {
            if !answers.iter().any(|answer| answer.client == *client) {
                self.cursors.remove(client);
                rows.has_stopped(*client);
            }
        }
        self.awaited = self.cursors.keys().copied().collect();
        self.cursor = *self.cursors.values().min()?;
        Some(self.cursor)
    }

    fn add(&mut self, answer: &Answer, rows: &mut Rows) {
        let client = answer.client;
        let is_first = self.cursor == 0;
        let at = self.cursors.get(&client).copied();
        let is_ahead = !is_first && at != Some(self.cursor);
        // Waits are sums, in which a repeated page would count twice.
        if self.told == Told::Waits {
            if is_ahead {
                return;
            }
            if is_first {
                rows.forget_waits(client, self.name);
            }
        }
        rows.add(answer, self.told == Told::Waits);
        match answer.body.next {
            Some(next) if next > at.unwrap_or(self.cursor) && (is_first || at.is_some()) => {
                self.cursors.insert(client, next);
            }
            Some(_) if is_ahead => {}
            // Such a client would be asked for the same page for ever.
            Some(_) => {
                self.cursors.remove(&client);
                rows.miss(format!("the client {client} repeats a page"));
            }
            None => _ = self.cursors.remove(&client),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::operate::{AnswerText, Held, Waiting};

    use super::*;

    fn client(number: u8) -> ClientId {
        ClientId::from_random([number; 16])
    }

    /// Returns an answer with a hold and a wait for one name.
    fn answer(number: u8, name: &str, next: Option<u64>) -> Answer {
        let mut text = AnswerText::new(client(number));
        let owner = format!("{}:1", client(number));
        let held = Held { name: name.into(), kind: "lock".into(), owner, ..Held::default() };
        let waiting = Waiting { name: name.into(), kind: "lock".into(), waited_ms: 7, tasks: 3 };
        assert!(text.held(&held) && text.waiting(&waiting));
        Answer::read(text.end(next).as_bytes()).unwrap()
    }

    fn who(numbers: &[u8]) -> Rows {
        let mut rows = Rows::default();
        numbers.iter().for_each(|number| rows.add(&answer(*number, "a", None), false));
        rows
    }

    fn tasks(rows: &Rows, name: &str) -> u32 {
        rows.names[name].waiting.iter().map(|(_, waiting)| waiting.tasks).sum()
    }

    #[test]
    fn a_client_that_stops_is_not_waited_for_again() {
        let mut rows = who(&[1, 2]);
        let mut holds = Pages::new(Told::Holds, None, &rows);
        assert_eq!(holds.awaited, [client(1), client(2)].into());
        assert_eq!(holds.take(&[answer(1, "b", Some(5)), answer(2, "c", Some(9))], &mut rows), Some(5));
        assert_eq!(holds.take(&[answer(1, "d", Some(7))], &mut rows), Some(7));
        assert_eq!(holds.awaited, [client(1)].into());
        assert_eq!(Pages::new(Told::Waits, None, &rows).awaited, [client(1)].into());
        assert!(!rows.clients[&client(2)].has_answered, "it is silent, because rows of it are missing");
    }

    #[test]
    fn a_client_whose_cursor_does_not_grow_is_dropped() {
        let mut rows = who(&[1]);
        let mut holds = Pages::new(Told::Holds, None, &rows);
        assert_eq!(holds.take(&[answer(1, "b", Some(5))], &mut rows), Some(5));
        assert_eq!(holds.take(&[answer(1, "b", Some(5))], &mut rows), None);
        assert!(!rows.missing.is_empty());
        let mut waits = Pages::new(Told::Waits, None, &rows);
        assert_eq!(waits.take(&[answer(1, "b", Some(0))], &mut rows), None);
    }

    #[test]
    fn the_waits_of_all_pages_are_summed_once() {
        let mut rows = who(&[1]);
        let mut waits = Pages::new(Told::Waits, None, &rows);
        assert_eq!(waits.take(&[answer(1, "b", Some(5))], &mut rows), Some(5));
        assert_eq!(waits.take(&[answer(1, "a", None)], &mut rows), None);
        assert_eq!((tasks(&rows, "a"), tasks(&rows, "b")), (3, 3));
    }

    #[test]
    fn the_waits_for_one_name_leave_those_for_others() {
        let mut rows = who(&[1]);
        let mut waits = Pages::new(Told::Waits, Some("b"), &rows);
        assert_eq!(waits.take(&[answer(1, "b", None)], &mut rows), None);
        assert_eq!((tasks(&rows, "a"), tasks(&rows, "b")), (3, 3));
    }
}
