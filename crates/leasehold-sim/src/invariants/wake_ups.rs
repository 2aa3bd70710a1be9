//! L4: after a release the next waiter is granted within a round trip, or within the polling interval if a message was
//! lost.
//!
//! A reader waits for no other reader, so after the release of a writer each waiting reader is granted in that time.
//!
//! Also, a wake-up is lost only with its connection, and a waiter tries again over the next one. So soon after a fault of a
//! fleet no waiter is left with a free lock, whatever the polling interval.
//!
//! Invariant: judged only while no fault disturbs. A round trip is counted generously, and so are the turns that a client
//! leaves to others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::history::{By, Event, Op, Reply, What};
use crate::name_state::Side;
use crate::owner::Wire;
use crate::plan::UNITS_MAX;
use crate::primitive::Primitive;
use crate::recorder::view::View;

/// The time within which a gone waiter of a queue is passed over, which is the grace period of the server plus the time
/// until the next waiter polls.
const GONE_WITHIN: Duration = Duration::from_millis(6_600);
/// The time in which connections, subscriptions and attempts are made anew after a fault, besides the timeout of a call.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);
/// The pause of a client that no other client's release ends.
const STANDS_BACK: Duration = Duration::from_millis(4);
/// The longest pause of a spinning waiter.
const SPINS_WITHIN: Duration = Duration::from_millis(150);

/// The longest pause between two looks at a holder that sends no message, and what a look takes.
const POLLS_WITHIN: Duration = Duration::from_millis(260);

#[derive(Default)]
pub(super) struct WakeUps {
    waiting: BTreeMap<Op, (Arc<str>, Duration, usize)>,
    /// Those that want a read hold.
    reading: BTreeSet<Op>,
    /// The locks that a release has freed, each with the time.
    freed: BTreeMap<Arc<str>, Duration>,
    /// The time at which a lock was last freed without a message, by another library or by its expiry. Those that waited for
    /// it poll or sleep, even if another one has held the lock since and has released it without a mark.
    polled: BTreeMap<Arc<str>, Duration>,
    /// The read-write locks that a release has left to readers, each with the time.
    readable: BTreeMap<Arc<str>, Duration>,
    /// The expiry of a lock's key, by the server's clock.
    expires: BTreeMap<Arc<str>, Option<u64>>,
    /// The locks whose key has expired, each with the time.
    ran_out: BTreeMap<Arc<str>, Duration>,
    /// The last grant or renewal of each owner of a lock.
    confirmed: BTreeMap<(Arc<str>, Wire), Duration>,
    /// The longest time from a grant or renewal to the release, by lock.
    sections: BTreeMap<Arc<str>, Duration>,
    /// The last time at which a process trusted a hold of a lock that was free. A client whose hold was taken away while it
    /// was cut off lets its own waiters wait for the end of that hold.
    trusted: BTreeMap<(Arc<str>, usize), Duration>,
    /// The owners in the queue of a lock.
    queues: BTreeMap<Arc<str>, Vec<Wire>>,
    /// The owners whose last place in a queue came from the network's repetition of a request.
    copied: BTreeSet<Wire>,
    /// The marks of a read-write lock after its last call.
    marks: BTreeMap<Arc<str>, Vec<Wire>>,
    /// The marks of waiters that have left, which a stale replica has brought back.
    revived: BTreeMap<Arc<str>, Vec<Wire>>,
    /// The owners of living processes, with the process and the time of the first use.
    users: BTreeMap<Wire, (usize, Duration)>,
}

impl Invariant for WakeUps {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Requested { op, process, name, what: What::Lock | What::TryLockFor, .. } => {
                self.waiting.insert(*op, (Arc::clone(name), view.now, *process));
            }
            Event::Reads { op } => drop(self.reading.insert(*op)),
            Event::Completed { op, .. } | Event::Dropped { op } => {
                self.waiting.remove(op);
                self.reading.remove(op);
            }
            Event::Killed { process } => {
                self.waiting.retain(|_, (_, _, waits)| waits != process);
                self.users.retain(|_, (of, _)| of != process);
            }
            Event::Sent { process, verb: Verb::Acquire, wire, .. } => {
                self.users.entry(Arc::clone(wire)).or_insert((*process, view.now));
            }
            Event::Executed { verb, name, wire, by, reply, before, after, .. } => {
                self.note_section(view.now, *verb, (name, wire), after.is_held_by(wire));
                let had_end = self.expires.insert(Arc::clone(name), after.expires_at_ms).flatten().is_some();
                let is_grant = *verb == Verb::Acquire && after.is_held_by(wire) && !before.is_held_by(wire);
                // The hold before has run out, and no message told those that sleep until its end.
                if had_end && is_grant && Primitive::of(name).is_plain() {
                    self.polled.insert(Arc::clone(name), view.now);
                }
                self.queues.insert(Arc::clone(name), after.queue.clone());
                if after.queue.contains(wire) && !before.queue.contains(wire) {
                    match by {
                        By::Duplicate(_) => self.copied.insert(Arc::clone(wire)),
                        _ => self.copied.remove(wire),
                    };
                }
                let free = match Primitive::of(name).has_permits() {
                    true => after.value.is_some_and(|left| left >= i64::from(UNITS_MAX)),
                    false => after.is_free(),
                };
                let lets_readers_in = self.note_marks(name, &before.marks, &after.marks);
                // The time of the next waiter begins when it becomes the head, and that of a reader when no mark keeps it out.
                if free && (before.queue.first() != after.queue.first() || lets_readers_in) {
                    let times = [self.freed.get_mut(name), self.ran_out.get_mut(name)];
                    times.into_iter().flatten().for_each(|at| *at = view.now);
                }
                let gives_back = matches!(verb, Verb::Release | Verb::ForceRelease);
                let gives_back = gives_back && matches!(reply, Reply::Int(1..));
                if gives_back && Primitive::of(name).is_plain() && *by == By::Foreigner {
                    self.polled.insert(Arc::clone(name), view.now);
                }
                let readable = after.holders.iter().all(|holder| holder.side == Side::Reader)
                    && after.marks.is_empty()
                    && Primitive::of(name) == Primitive::ReadWrite;
                for (open, times) in [(free, &mut self.freed), (readable, &mut self.readable)] {
                    if !open {
                        times.remove(name);
                    } else if gives_back {
                        times.insert(Arc::clone(name), view.now);
                    }
                }
            }
            _ => {}
        }
        self.check_time(view)
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let says = u64::try_from(view.server_clock.reading(view.now).as_millis()).unwrap_or(u64::MAX);
        for (name, expires_at_ms) in &self.expires {
            if expires_at_ms.is_some_and(|at| at < says) {
                self.ran_out.entry(Arc::clone(name)).or_insert(view.now);
            } else if !self.ran_out.is_empty() {
                self.ran_out.remove(name);
            }
        }
        if self.freed.is_empty() && self.readable.is_empty() && self.ran_out.is_empty() {
            return Ok(());
        }
        let of_freed = view.holds.values().filter(|hold| self.freed.contains_key(&hold.name));
        for hold in of_freed.filter(|hold| view.seems_valid(hold)) {
            self.trusted.insert((Arc::clone(&hold.name), hold.process), view.now);
        }
        let trip = view.plan.latency_max * 12 + Duration::from_millis(40);
        let poll = trip + view.plan.poll_interval;
        let more = |name: &str| self.dead_in(name) * GONE_WITHIN;
        // Polling finds a release whose wake-up was lost.
        let within = |name: &str, freed_at: Duration| {
            let in_time = trip + self.turns(view, name, trip);
            if view.has_wake_ups_for(behind(view, freed_at)) { in_time.min(poll) } else { poll }
        };
        for (name, freed_at) in &self.readable {
            self.granted_within(view, name, *freed_at, within(name, *freed_at), |op| {
                self.reading.contains(&op)
            })?;
        }
        for (name, freed_at) in &self.freed {
            let polled = self.polled.get(name).is_some_and(|at| *freed_at <= *at + POLLS_WITHIN);
            let polled = if polled { POLLS_WITHIN } else { Duration::ZERO };
            let within = within(name, *freed_at) + polled;
            // A spinning waiter gets no wake-up.
            let spins = Primitive::of(name) == Primitive::Spin;
            let within = if spins { poll + SPINS_WITHIN } else { within };
            self.granted_within(view, name, *freed_at, within + more(name), |_| true)?;
            let settled = SETTLES_WITHIN + view.plan.timeout + self.turns(view, name, trip) + more(name);
            // It also learns of a forced release only when its own client's hold would have ended.
            let settled = if spins { settled + view.plan.longest_lease() + SPINS_WITHIN } else { settled };
            self.found_after_fault(view, name, *freed_at, settled)?;
        }
        self.ran_out.iter().try_for_each(|(name, at)| {
            self.granted_within(view, name, *at, poll + SPINS_WITHIN + more(name), |_| true)
        })
    }
}

impl WakeUps {
    /// Notes how long a hold was the server's last word before its release, or before the release of one of its entries.
    fn note_section(&mut self, now: Duration, verb: Verb, (name, wire): (&Arc<str>, &Wire), is_held: bool) {
        let key = (Arc::clone(name), Arc::clone(wire));
        match verb {
            Verb::Acquire | Verb::Renew | Verb::HandOff => drop(self.confirmed.insert(key, now)),
            Verb::Release => {
                let Some(confirmed_at) = self.confirmed.get(&key) else { return };
                let longest = self.sections.entry(Arc::clone(name)).or_default();
                *longest = (*longest).max(now - *confirmed_at);
                if !is_held {
                    self.confirmed.remove(&key);
                }
            }
            _ => {}
        }
    }

    /// Notes the marks, and those that came back without a call. Returns true if the last mark is gone, or the last abandoned
    /// one.
    fn note_marks(&mut self, name: &Arc<str>, before: &[Wire], after: &[Wire]) -> bool {
        let known = self.marks.get(name).cloned().unwrap_or_default();
        let revived = self.revived.entry(Arc::clone(name)).or_default();
        revived.extend(before.iter().filter(|mark| !known.contains(mark)).cloned());
        let kept_readers_out = self.keeps_readers_out(name);
        self.marks.insert(Arc::clone(name), after.to_vec());
        if let Some(revived) = self.revived.get_mut(name) {
            revived.retain(|mark| after.contains(mark));
        }
        kept_readers_out && !self.keeps_readers_out(name) || !known.is_empty() && after.is_empty()
    }

    /// Returns true if an abandoned mark keeps readers out: a mark that has come back, or the mark of a killed process. It
    /// stays until it expires by the server's clock.
    fn keeps_readers_out(&self, name: &str) -> bool {
        let is_alone = |mark: &&Wire| {
            mark.rsplit(' ').next().is_none_or(|owner| !self.users.contains_key(&Wire::from(owner)))
        };
        let [revived, marks] =
            [&self.revived, &self.marks].map(|marks| marks.get(name).into_iter().flatten());
        revived.chain(marks.filter(is_alone)).next().is_some()
    }

    /// Returns the longest time for which a client stands back after its release. It leaves a turn, as long as its own
    /// section, to each other client that heard the release but one.
    fn turns(&self, view: &View, name: &str, trip: Duration) -> Duration {
        let turns = u32::try_from(view.plan.processes.saturating_sub(2)).unwrap_or(u32::MAX);
        let turn = self.sections.get(name).copied().unwrap_or_default() + trip;
        STANDS_BACK.max(turn * turns)
    }

    /// Returns the number of owners in a queue whose request has ended, or may have: a copy of a request gives a place to an
    /// owner that has left, which the signs of life of its client keep until it is the head.
    fn dead_in(&self, name: &str) -> u32 {
        let queue = self.queues.get(name).into_iter().flatten();
        let asks = |wire: &&Wire| {
            let user = self.users.get(*wire);
            user.is_some_and(|(of, since)| {
                let mut waiting = self.waiting.values();
                waiting.any(|(name_of, asked, process)| process == of && **name_of == *name && asked <= since)
            })
        };
        u32::try_from(queue.filter(|wire| self.copied.contains(*wire) || !asks(wire)).count())
            .unwrap_or(u32::MAX)
    }

    fn granted_within(
        &self,
        view: &View,
        name: &str,
        free_at: Duration,
        within: Duration,
        counts: impl Fn(Op) -> bool,
    ) -> Result<(), String> {
        let since = view.now - free_at;
        if since <= within || !view.is_quiet_for(behind(view, free_at)) {
            return Ok(());
        }
        self.nobody_waits(view, name, free_at, |op, _| counts(op))
    }

    /// Checks that a lock that a fault may have hidden is found soon after the fault.
    fn found_after_fault(
        &self,
        view: &View,
        name: &str,
        free_at: Duration,
        settled: Duration,
    ) -> Result<(), String> {
        let since = view.now - free_at;
        let is_judged = view.plan.fleet.is_some() && since > settled && view.is_quiet_for(settled);
        if !is_judged || !view.has_wake_ups_for(since + settled) {
            return Ok(());
        }
        let trusted_at = |process: usize| self.trusted.get(&(Arc::from(name), process));
        self.nobody_waits(view, name, free_at, |_, process| {
            trusted_at(process).is_none_or(|trusted_at| view.now - *trusted_at > settled)
        })
    }

    /// Checks that no waiter of an undisturbed process that counts waits for a lock since before it became free.
    fn nobody_waits(
        &self,
        view: &View,
        name: &str,
        free_at: Duration,
        counts: impl Fn(Op, usize) -> bool,
    ) -> Result<(), String> {
        let keeps_readers_out = self.keeps_readers_out(name);
        let waits = self.waiting.iter().find(|(op, (of, asked_at, process))| {
            let disturbed = !view.paused_since(*process, *asked_at).is_zero();
            let is_kept_out = keeps_readers_out && self.reading.contains(op);
            **of == *name && *asked_at < free_at && !disturbed && !is_kept_out && counts(**op, *process)
        });
        match waits {
            None => Ok(()),
            Some((op, (_, asked_at, _))) => {
                let (since, op) = (view.now - free_at, op.0);
                Err(format!(
                    "{name} has been free for {since:?}, and op {op} waits for it since {asked_at:?}"
                ))
            }
        }
    }
}

/// Returns the time for which no fault may have disturbed. A fault leaves undos, failures and pauses of a second behind.
fn behind(view: &View, free_at: Duration) -> Duration {
    view.now - free_at + Duration::from_secs(2) + view.plan.longest_lease()
}
