//! Joins the lines of a log into attempts and holds.
//!
//! Invariant: a hold counts as valid from its `Granted` line to the last time at which its guard was seen valid. A guard
//! that was lost once is never valid again, so it was valid at each instant between.

use std::collections::HashMap;

use crate::event::{Event, Record};
use crate::policy::{Kind, Policy};

/// An attempt, from all lines of it.
#[derive(Debug, Clone)]
pub struct Attempt {
    /// The worker.
    pub worker: usize,
    /// The policy of the client.
    pub policy: Policy,
    /// The primitive.
    pub kind: Kind,
    /// The name of the lock.
    pub name: String,
    /// The time before the acquire.
    pub at: u64,
    /// The longest wait.
    pub wait: u64,
    /// The time of the outcome.
    pub answered: Option<u64>,
    /// True if the acquire failed.
    pub failed: bool,
    /// The hold, if there was one.
    pub hold: Option<Held>,
}

/// A hold, as its worker saw it.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// The time after the acquire returned.
    pub from: u64,
    /// The last time at which the guard was valid.
    pub seen: u64,
    /// The fencing token.
    pub token: Option<u64>,
    /// The loss.
    pub lost: Option<Lost>,
    /// The fenced writes: sent, answered, accepted.
    pub writes: Vec<(u64, u64, bool)>,
}

/// A loss, as its worker saw it.
#[derive(Debug, Clone, Default)]
pub struct Lost {
    /// The time of the loss.
    pub at: u64,
    /// The reason.
    pub reason: String,
    /// True if the guard still said that it is valid.
    pub still_valid: bool,
    /// The plain ports of the servers that still had the hold, asked after the loss.
    pub kept_by: Vec<u16>,
}

/// Joins the lines of one worker's log.
#[must_use]
pub fn attempts(worker: usize, records: Vec<Record>) -> Vec<Attempt> {
    let mut attempts: Vec<Attempt> = Vec::new();
    let mut places: HashMap<u64, usize> = HashMap::new();
    for Record { at, attempt, event } in records {
        if let Event::Attempt { policy, kind, name, wait } = event {
            places.insert(attempt, attempts.len());
            let answered = None;
            attempts.push(Attempt {
                worker,
                policy,
                kind,
                name,
                at,
                wait,
                answered,
                failed: false,
                hold: None,
            });
        } else if let Some(place) = places.get(&attempt) {
            attempts[*place].add(at, event);
        }
    }
    attempts
}

impl Attempt {
    fn add(&mut self, at: u64, event: Event) {
        match event {
            Event::Attempt { .. } | Event::Released { .. } => {}
            Event::Granted { token, .. } => {
                self.answered = Some(at);
                self.hold = Some(Held { from: at, seen: at, token, ..Held::default() });
            }
            Event::Refused => self.answered = Some(at),
            Event::Failed { .. } => (self.answered, self.failed) = (Some(at), true),
            Event::Write { sent, accepted } => self.held(|hold| hold.writes.push((sent, at, accepted))),
            Event::Lost { seen, reason, still_valid, kept_by } => self.held(|hold| {
                hold.seen = hold.seen.max(seen);
                hold.lost = Some(Lost { at, reason, still_valid, kept_by });
            }),
            Event::Releasing { seen } => self.held(|hold| hold.seen = hold.seen.max(seen)),
        }
    }

    fn held(&mut self, change: impl FnOnce(&mut Held)) {
        if let Some(hold) = &mut self.hold {
            change(hold);
        }
    }
}

#[cfg(test)]
impl Attempt {
    /// Returns a hold of one lock from one time to another.
    pub(crate) fn example(worker: usize, from: u64, seen: u64) -> Self {
        Self {
            worker,
            policy: Policy::Replicated,
            kind: Kind::Lock,
            name: "lab:x".into(),
            at: from.saturating_sub(1),
            wait: 10,
            answered: Some(from),
            failed: false,
            hold: Some(Held { from, seen, ..Held::default() }),
        }
    }

    /// Returns the hold of an example.
    pub(crate) fn example_hold(&mut self) -> &mut Held {
        self.hold.as_mut().expect("an example is held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_an_attempt_become_one_hold() {
        let line = |at, event| Record { at, attempt: 7, event };
        let attempt =
            Event::Attempt { policy: Policy::All, kind: Kind::Lock, name: "lab:x".into(), wait: 50 };
        let records = vec![
            line(1, attempt),
            line(4, Event::Granted { valid_until: 90, token: None }),
            line(9, Event::Releasing { seen: 8 }),
        ];
        let joined = attempts(3, records);
        let hold = joined[0].hold.as_ref().unwrap();
        assert_eq!((joined.len(), joined[0].worker, joined[0].answered), (1, 3, Some(4)));
        assert_eq!((hold.from, hold.seen), (4, 8));
    }
}
