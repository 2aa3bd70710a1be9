//! The lane: uncontended requests and holds, each kept as one short record.
//!
//! Invariant: a record is all that the engine has of its name. A record that leaves the lane leaves the engine exactly as
//! if there were no lane, because its events are then brought to the machines with their own times (`promotion`).
//!
//! # How it works
//! Most locks are acquired, held for a moment and released, and nobody else of the client asks for their names meanwhile.
//! The machines would build a name state, a queue, a waiter, a server hold and timers for each of them. The lane keeps one
//! record of what has happened, and sends the same calls (`passage`).
//!
//! Anything else promotes the record first: a second request for the name, a refusal, an error, a withdrawn call, a dropped
//! future, `ensure`, `extend`, `detach`, a minimum hold, a close, a server that takes over, and age. Requests whose deadline or lease
//! could end in the lane never enter it, so a record needs no timer of its own.
//!
//! The lane tells the facts that the machines would tell. A grant of the lane is an offer (`offers`).

mod offers;
mod passage;
mod promotion;
mod record;

use std::collections::VecDeque;
use std::hash::Hasher;
use std::time::Duration;

use crate::engine::base::table::{Fibonacci, Table};
use crate::engine::base::timers::{Alarm, Timer, Timers};
use crate::id::Id;
use crate::moment::Moment;
use crate::name::Name;
use crate::settings::Settings;
use crate::subject::Subject;

pub(in crate::engine) use record::Record;

/// A record leaves the lane after the client's timeout divided by this: much longer than a round trip, much shorter than the
/// time to the first renewal.
const RESIDENCE_DIVISOR: u32 = 32;
/// The most records in the lane. This bounds memory that is never given back, and more requests at once are rare.
const RECORDS_MAX: usize = 1_024;

/// The records of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Lane {
    /// The records by the ticket of their request, which is also their guard.
    records: Table<Id, Record>,
    /// The tickets by a hash of the name. A second name with the same hash has no place in the lane.
    names: Table<u64, Id>,
    /// The tickets in the order of their requests, with those whose record is gone.
    order: VecDeque<(Moment, Id)>,
    alarm: Alarm,
    /// True if no request enters.
    is_closed: bool,
}

impl Lane {
    /// Returns the time that a record stays in the lane at most.
    const fn residence(settings: &Settings) -> Duration {
        Duration::from_nanos(settings.timeout.as_nanos() as u64 / RESIDENCE_DIVISOR as u64)
    }

    /// Returns the ticket of the record that a subject has.
    fn find(&self, subject: &Subject, hash: u64) -> Option<Id> {
        let id = *self.names.get(hash)?;
        self.records.get(id).filter(|record| record.is_of(subject)).map(|_| id)
    }

    /// Returns true if the lane has a place for another name with this hash.
    fn has_place(&self, hash: u64) -> bool {
        !self.is_closed && self.records.len() < RECORDS_MAX && !self.names.contains(hash)
    }

    /// Returns the record of a grant, claimed or not, that is not released.
    pub(in crate::engine) fn of_guard(&self, guard: Id) -> Option<&Record> {
        self.records.get(guard).filter(|record| record.has_grant())
    }

    /// Returns the record of a request that is not answered.
    pub(in crate::engine) fn of_waiter(&self, ticket: Id) -> Option<&Record> {
        self.records.get(ticket).filter(|record| record.is_unanswered())
    }

    /// Returns the guarded record of a subject.
    pub(in crate::engine) fn held(&self, subject: &Subject) -> Option<&Record> {
        self.of_guard(self.find(subject, hash_of(&subject.name))?)
    }

    fn insert(&mut self, timers: &mut Timers, id: Id, record: Record) {
        while self.order.front().is_some_and(|(_, first)| !self.records.contains(*first)) {
            self.order.pop_front();
        }
        if self.order.len() >= 2 * RECORDS_MAX {
            // A record at the front that stays keeps the entries of removed records behind it.
            self.order.retain(|(_, id)| self.records.contains(*id));
        }
        self.order.push_back((record.leaves_at, id));
        self.names.insert(record.hash, id);
        self.records.insert(id, record);
        self.arm(timers);
    }

    fn remove(&mut self, id: Id) -> Option<Record> {
        let record = self.records.remove(id)?;
        self.names.remove(record.hash);
        Some(record)
    }

    /// Removes the next record whose time in the lane is over from the order, and returns its ticket.
    fn pop_due(&mut self, now: Moment) -> Option<Id> {
        while let Some((leaves_at, id)) = self.order.front().copied() {
            let is_there = self.records.contains(id);
            if is_there && leaves_at > now {
                return None;
            }
            self.order.pop_front();
            if is_there {
                return Some(id);
            }
        }
        None
    }

    /// Sets the timer to the first record, unless it is set.
    fn arm(&mut self, timers: &mut Timers) {
        if !self.alarm.is_set()
            && let Some((leaves_at, _)) = self.order.front()
        {
            self.alarm.set(timers, Timer::Lane, *leaves_at);
        }
    }
}

/// Returns the hash of a name. Names that collide cost no more than their place in the lane.
fn hash_of(name: &Name) -> u64 {
    let mut hasher = Fibonacci::default();
    hasher.write(name.as_str().as_bytes());
    hasher.finish()
}
