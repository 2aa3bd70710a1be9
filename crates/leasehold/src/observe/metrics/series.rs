//! The series of a process, and the handles by which a recorder counts them.
//!
//! Invariant: at most [`PAIRS_MAX`] pairs of a kind and a group have series of their own, beside the names that the program
//! has chosen. All others of a kind share the group `other`. A pair stays for as long as the process, so a hold adds to and
//! takes from one gauge.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use leasehold_proto::Verb;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

use super::names::{self, OTHER, place};
use crate::observe::fact::{Connection, Outcome};

/// The pairs of a kind and a group that have series of their own. With five kinds, their groups `other` make it 24 pairs,
/// each of at most 53 series, and with those of the calls at most 1,500.
pub(super) const PAIRS_MAX: usize = 19;

/// The series of a process.
#[derive(Default)]
pub(super) struct Registry {
    pairs: Pairs,
    /// The number of pairs that count towards [`PAIRS_MAX`].
    grouped: AtomicUsize,
    /// The age of the published values.
    age: AtomicU64,
    /// The open connections of each kind.
    connected: [Level; names::CONNECTIONS.len()],
    shared: Cached<OfProcess>,
}

/// The handles of series without a kind.
#[derive(Default)]
struct OfProcess {
    calls: [[OnceLock<Histogram>; names::CALL_OUTCOMES.len()]; names::VERBS.len()],
    renewals: [OnceLock<Counter>; names::RENEWAL_OUTCOMES.len()],
    lease_left: OnceLock<Histogram>,
    connected: [OnceLock<Gauge>; names::CONNECTIONS.len()],
    reconnects: [OnceLock<Counter>; names::CONNECTIONS.len()],
    unknown: OnceLock<Counter>,
    undone: OnceLock<Counter>,
    unconfirmed: OnceLock<Counter>,
}

impl OfProcess {
    fn connected(&self, at: usize) -> &Gauge {
        let new = || gauge!(names::CONNECTED, "connection" => names::CONNECTIONS[at]);
        self.connected[at].get_or_init(new)
    }

    fn reconnects(&self, at: usize) -> &Counter {
        let new = || counter!(names::RECONNECTS, "connection" => names::CONNECTIONS[at]);
        self.reconnects[at].get_or_init(new)
    }

    fn unknown(&self) -> &Counter {
        self.unknown.get_or_init(|| counter!(names::UNKNOWN, "verb" => names::ACQUIRE))
    }

    fn undone(&self) -> &Counter {
        self.undone.get_or_init(|| counter!(names::UNDONE, "verb" => names::ACQUIRE))
    }

    fn unconfirmed(&self) -> &Counter {
        self.unconfirmed.get_or_init(|| counter!(names::UNCONFIRMED, "verb" => names::RELEASE))
    }
}

impl Registry {
    /// Returns the series of a kind and a group. A chosen name is a group that has its own in any case.
    pub(super) fn pair(&self, kind: &'static str, group: &str, is_chosen: bool) -> &Pair {
        if let Some(pair) = self.pairs.find(kind, group) {
            return pair;
        }
        if is_chosen {
            return self.pairs.find_or_add(kind, group).0;
        }
        let more = |grouped: usize| (grouped < PAIRS_MAX && group != OTHER).then_some(grouped + 1);
        if self.grouped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return self.pairs.find_or_add(kind, OTHER).0;
        }
        let (pair, is_new) = self.pairs.find_or_add(kind, group);
        if !is_new {
            // Another thread was first.
            self.grouped.fetch_sub(1, Ordering::Relaxed);
        }
        pair
    }

    /// Tells the recorder the descriptions and all values that are kept here, once per age.
    pub(super) fn publish(&self, age: u64) {
        if self.age.fetch_max(age, Ordering::Relaxed) >= age {
            return;
        }
        names::describe();
        self.pairs.iter().for_each(|pair| pair.publish(age));
        self.shared.with(age, OfProcess::default, |shared| {
            // A series that begins at zero shows its first increase.
            shared.unknown().increment(0);
            shared.undone().increment(0);
            shared.unconfirmed().increment(0);
            for at in 0..names::CONNECTIONS.len() {
                self.connected[at].change(0, shared.connected(at));
                shared.reconnects(at).increment(0);
            }
        });
    }

    pub(super) fn called(&self, age: u64, verb: Verb, took: Duration, is_ok: bool) {
        let verb = names::verb_label(verb);
        let outcome = usize::from(!is_ok);
        self.shared.with(age, OfProcess::default, |shared| {
            let series = &shared.calls[place(&names::VERBS, verb)][outcome];
            let outcome = names::CALL_OUTCOMES[outcome];
            let new = || histogram!(names::CALL, "verb" => verb, "outcome" => outcome);
            series.get_or_init(new).record(took);
        });
    }

    /// Counts a renewal, with the part of the lease that was left if it was confirmed.
    pub(super) fn renewed(&self, age: u64, left: Option<f64>) {
        let outcome = usize::from(left.is_none());
        self.shared.with(age, OfProcess::default, |shared| {
            let new = || counter!(names::RENEWALS, "outcome" => names::RENEWAL_OUTCOMES[outcome]);
            shared.renewals[outcome].get_or_init(new).increment(1);
            if let Some(left) = left {
                shared.lease_left.get_or_init(|| histogram!(names::LEASE_LEFT)).record(left);
            }
        });
    }

    /// Counts a connection that serves, or that has ended.
    pub(super) fn connected(&self, age: u64, connection: Connection, by: i64) {
        let at = place(&names::CONNECTIONS, connection.label());
        self.shared
            .with(age, OfProcess::default, |shared| self.connected[at].change(by, shared.connected(at)));
    }

    pub(super) fn reconnected(&self, age: u64, connection: Connection) {
        let at = place(&names::CONNECTIONS, connection.label());
        self.shared.with(age, OfProcess::default, |shared| shared.reconnects(at).increment(1));
    }

    pub(super) fn unknown(&self, age: u64) {
        self.shared.with(age, OfProcess::default, |shared| shared.unknown().increment(1));
    }

    pub(super) fn undone(&self, age: u64) {
        self.shared.with(age, OfProcess::default, |shared| shared.undone().increment(1));
    }

    pub(super) fn unconfirmed(&self, age: u64) {
        self.shared.with(age, OfProcess::default, |shared| shared.unconfirmed().increment(1));
    }
}

/// The series of a kind and a group.
pub(super) struct Pair {
    kind: &'static str,
    group: Box<str>,
    held: Level,
    waiting: Level,
    waiting_long: Level,
    handles: Cached<OfPair>,
}

/// The handles of a pair.
#[derive(Default)]
struct OfPair {
    acquires: [OnceLock<Counter>; names::OUTCOMES.len()],
    lost: [OnceLock<Counter>; names::REASONS.len()],
    wait: OnceLock<Histogram>,
    hold: OnceLock<Histogram>,
    held: OnceLock<Gauge>,
    waiting: OnceLock<Gauge>,
    waiting_long: OnceLock<Gauge>,
}

impl Pair {
    fn new(kind: &'static str, group: &str) -> Self {
        Self {
            kind,
            group: group.into(),
            held: Level::default(),
            waiting: Level::default(),
            waiting_long: Level::default(),
            handles: Cached::default(),
        }
    }

    fn is(&self, kind: &str, group: &str) -> bool {
        *self.group == *group && self.kind == kind
    }

    fn with(&self, age: u64, count: impl Fn(&OfPair)) {
        self.handles.with(age, || self.handles(), count);
    }

    /// Returns new handles. The losses that an operator acts on begin at zero, so that an alert sees the first one.
    fn handles(&self) -> OfPair {
        let handles = OfPair::default();
        for reason in names::UNPLANNED {
            self.lost_series(&handles, reason).increment(0);
        }
        handles
    }

    fn lost_series<'a>(&self, handles: &'a OfPair, reason: &'static str) -> &'a Counter {
        let new = || counter!(names::LOST, "kind" => self.kind, "group" => self.group(), "reason" => reason);
        handles.lost[place(&names::REASONS, reason)].get_or_init(new)
    }

    fn group(&self) -> String {
        self.group.to_string()
    }

    fn gauge(&self, name: &'static str) -> Gauge {
        gauge!(name, "kind" => self.kind, "group" => self.group())
    }

    fn histogram(&self, name: &'static str) -> Histogram {
        histogram!(name, "kind" => self.kind, "group" => self.group())
    }

    fn publish(&self, age: u64) {
        self.with(age, |handles| self.held.change(0, self.held_gauge(handles)));
        self.waiting(age, 0);
        self.waiting_long(age, 0);
    }

    pub(super) fn waiting(&self, age: u64, by: i64) {
        self.with(age, |handles| {
            self.waiting.change(by, handles.waiting.get_or_init(|| self.gauge(names::WAITING)));
        });
    }

    pub(super) fn waiting_long(&self, age: u64, by: i64) {
        self.with(age, |handles| {
            let gauge = handles.waiting_long.get_or_init(|| self.gauge(names::WAITING_LONG));
            self.waiting_long.change(by, gauge);
        });
    }

    /// Takes an acquire that has ended from those that wait.
    pub(super) fn ended(&self, age: u64, was_waiting: bool, was_waiting_long: bool) {
        if was_waiting {
            self.waiting(age, -1);
        }
        if was_waiting_long {
            self.waiting_long(age, -1);
        }
    }

    /// Counts a grant, which is a hold or an event.
    pub(super) fn acquired(&self, age: u64, waited: Duration, is_hold: bool) {
        self.with(age, |handles| {
            self.acquires(handles, 0).increment(1);
            handles.wait.get_or_init(|| self.histogram(names::WAIT)).record(waited);
            if is_hold {
                self.held.change(1, self.held_gauge(handles));
            }
        });
    }

    pub(super) fn not_acquired(&self, age: u64, outcome: Outcome) {
        let at = place(&names::OUTCOMES, outcome.label());
        self.with(age, |handles| self.acquires(handles, at).increment(1));
    }

    fn acquires<'a>(&self, handles: &'a OfPair, at: usize) -> &'a Counter {
        let outcome = names::OUTCOMES[at];
        let new =
            || counter!(names::ACQUIRES, "kind" => self.kind, "group" => self.group(), "outcome" => outcome);
        handles.acquires[at].get_or_init(new)
    }

    fn held_gauge<'a>(&self, handles: &'a OfPair) -> &'a Gauge {
        handles.held.get_or_init(|| self.gauge(names::HELD))
    }

    pub(super) fn hold_ended(&self, age: u64, held: Duration) {
        self.with(age, |handles| {
            self.held.change(-1, self.held_gauge(handles));
            handles.hold.get_or_init(|| self.histogram(names::HOLD)).record(held);
        });
    }

    pub(super) fn lost(&self, age: u64, reason: &'static str) {
        self.with(age, |handles| self.lost_series(handles, reason).increment(1));
    }
}

/// A value that goes up and down, and the gauge that shows it.
#[derive(Default)]
struct Level(AtomicI64);

impl Level {
    fn change(&self, by: i64, gauge: &Gauge) {
        self.0.fetch_add(by, Ordering::SeqCst);
        // Threads may set the gauge in another order than they change the value. The last one to set it sees that the value
        // has changed since, or that it has not.
        loop {
            let value = self.0.load(Ordering::SeqCst);
            #[expect(clippy::cast_precision_loss, reason = "no process has so many")]
            gauge.set(value as f64);
            if self.0.load(Ordering::SeqCst) == value {
                return;
            }
        }
    }
}

/// Handles of one age. Each one is taken from the recorder when it is first used, so a series exists once it has happened.
#[derive(Default)]
struct Cached<H>(RwLock<(u64, H)>);

impl<H> Cached<H> {
    /// Uses handles of this age or a later one. Nothing waits for a recorder while the lock is held for a change.
    fn with(&self, age: u64, new: impl FnOnce() -> H, count: impl Fn(&H)) {
        let handles = self.0.read().unwrap_or_else(PoisonError::into_inner);
        // Clients of a test may have clocks of their own, and the one behind must not take the handles anew each time.
        if handles.0 >= age {
            return count(&handles.1);
        }
        drop(handles);
        let new = new();
        let old = std::mem::replace(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner), (age, new));
        drop(old);
        count(&self.0.read().unwrap_or_else(PoisonError::into_inner).1);
    }
}

/// The pairs, which are only ever added. A reader takes no lock.
#[derive(Default)]
struct Pairs {
    first: OnceLock<Box<Link>>,
}

struct Link {
    pair: Pair,
    next: OnceLock<Box<Link>>,
}

impl Pairs {
    fn iter(&self) -> impl Iterator<Item = &Pair> {
        let links = std::iter::successors(self.first.get(), |link| link.next.get());
        links.map(|link| &link.pair)
    }

    fn find(&self, kind: &str, group: &str) -> Option<&Pair> {
        self.iter().find(|pair| pair.is(kind, group))
    }

    /// Returns a pair, and true if it was added.
    fn find_or_add(&self, kind: &'static str, group: &str) -> (&Pair, bool) {
        let mut end = &self.first;
        loop {
            let mut is_new = false;
            let link = end.get_or_init(|| {
                is_new = true;
                Box::new(Link { pair: Pair::new(kind, group), next: OnceLock::new() })
            });
            if link.pair.is(kind, group) {
                return (&link.pair, is_new);
            }
            end = &link.next;
        }
    }
}
