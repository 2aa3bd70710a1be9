//! The observers of a client, and how the engine's facts become theirs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_proto::engine::{self, Detail, Subject};
use leasehold_proto::recipe::{Holders, Holding};
use leasehold_proto::{ClientId, Engine, FreeWithin, Moment};
use leasehold_store::Confirm;

use super::fact::{Fact, Names, Observer, Outcome, What};
use super::groups::{self, Groups};
#[cfg(feature = "tracing")]
use super::log::Log;
#[cfg(feature = "metrics")]
use super::metrics::Metrics;
use crate::defaults::Defaults;

/// How long an acquire waits before this is a fact of its own, unless the program sets another time.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a user sets about observers, before the client connects.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) patience: Duration,
    pub(crate) group_by: fn(&str) -> Cow<'_, str>,
    /// The names that are groups of their own.
    pub(crate) per_name: Arc<BTreeSet<String>>,
    pub(crate) names: Names,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            observers: Vec::new(),
            patience: PATIENCE,
            group_by: groups::of_name,
            per_name: Arc::default(),
            names: Names::default(),
        }
    }
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (observers, patience) = (self.observers.len(), self.patience);
        f.debug_struct("Setup")
            .field("observers", &observers)
            .field("patience", &patience)
            .finish_non_exhaustive()
    }
}

/// The observers of a client.
pub(crate) struct Observers {
    entries: Vec<Entry>,
    detail: Detail,
    /// What the observers behind the queue are told, or `None` without any.
    queued: Option<Detail>,
    patience: Duration,
    groups: Groups,
    names: Names,
    defaults: Defaults,
    /// The number of facts that were dropped, because an observer stood still.
    dropped: AtomicU64,
    /// The time of the last facts, in nanoseconds of the client's clock.
    now: AtomicU64,
}

struct Entry {
    observer: Arc<dyn Observer>,
    detail: Detail,
    /// True for an observer of ours that never waits. The client's own thread tells it directly.
    is_inline: bool,
    /// True once it has panicked.
    failed: AtomicBool,
}

impl Entry {
    fn new(observer: Arc<dyn Observer>, detail: Detail) -> Self {
        Self { observer, detail, is_inline: false, failed: AtomicBool::new(false) }
    }
}

/// The observers that a thread tells.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    All,
    /// Those that never wait.
    Inline,
    /// Those behind the queue.
    Queued,
}

impl Audience {
    fn has(self, entry: &Entry) -> bool {
        self == Self::All || (self == Self::Inline) == entry.is_inline
    }
}

impl Observers {
    /// Returns the observers of a client of this server with these settings, if it has any.
    pub(crate) fn new(
        setup: &Setup,
        server: &str,
        confirm: Confirm,
        defaults: &Defaults,
    ) -> Option<Arc<Self>> {
        let of_user = setup.observers.iter().map(|observer| Entry::new(Arc::clone(observer), Detail::All));
        let entries: Vec<_> = of_user.chain(built_in(server, confirm, setup)).collect();
        let most = |entries: &mut dyn Iterator<Item = &Entry>| {
            let details = entries.map(|entry| entry.detail);
            details.reduce(|one, other| if one == Detail::All { one } else { other })
        };
        Some(Arc::new(Self {
            detail: most(&mut entries.iter())?,
            queued: most(&mut entries.iter().filter(|entry| !entry.is_inline)),
            entries,
            patience: setup.patience,
            groups: Groups::new(setup.group_by, &setup.per_name),
            names: setup.names,
            defaults: defaults.clone(),
            dropped: AtomicU64::new(0),
            now: AtomicU64::new(0),
        }))
    }

    /// Returns what the observers behind the queue are told, or `None` without any.
    pub(super) const fn queued(&self) -> Option<Detail> {
        self.queued
    }

    /// Returns true if an observer is behind the queue.
    pub(crate) const fn are_queued(&self) -> bool {
        self.queued.is_some()
    }

    /// Lets the engine note what these observers are told.
    pub(crate) fn observe(&self, engine: &mut Engine) {
        engine.observe(self.patience, self.detail);
    }

    /// Returns the number of observers that have panicked.
    pub(crate) fn failed(&self) -> usize {
        self.entries.iter().filter(|entry| entry.failed.load(Ordering::Relaxed)).count()
    }

    /// Returns the number of facts that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn note_time(&self, now: Moment) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn at(&self) -> Moment {
        Moment::from_nanos(self.now.load(Ordering::Relaxed))
    }

    pub(super) fn drop_facts(&self, many: usize) {
        self.dropped.fetch_add(many as u64, Ordering::Relaxed);
    }

    /// Tells facts of the engine, on this thread.
    pub(super) fn tell(&self, facts: &[engine::Fact], to: Audience) {
        for fact in facts {
            // The server is asked who holds what is waited for, and the observers behind the queue are told with its answer.
            if !has_holders(fact) {
                self.tell_one(fact, to);
            } else if to != Audience::Queued {
                self.tell_one(fact, Audience::Inline);
            }
        }
    }

    fn tell_one(&self, fact: &engine::Fact, to: Audience) {
        match fact {
            engine::Fact::Waiting { subject, .. } => self.about(subject, to, What::Waiting),
            engine::Fact::Patient { subject, waited, again, .. } => {
                let what = What::Patient { waited: *waited, holder: None, is_own: false, again: *again };
                self.about(subject, to, what);
            }
            engine::Fact::Acquired { subject, waited, attempts, by, told, grant, .. } => {
                // A text of the owner takes longer than all that metrics count of an acquire, and they have no use for it.
                let has_readers = self.are_queued() && to != Audience::Inline;
                let owner = if has_readers { grant.wire.to_string() } else { String::new() };
                let what = What::Acquired {
                    waited: *waited,
                    attempts: *attempts,
                    by: *by,
                    token: grant.token,
                    owner: &owner,
                    was_waiting: told.waiting,
                    was_patient: told.patient,
                };
                self.about(subject, to, what);
            }
            engine::Fact::NotAcquired { subject, waited, attempts, told, failure, .. } => {
                let free_within = match failure {
                    Some(engine::AcquireFailure::Unknown { free_within, .. }) => Some(*free_within),
                    _ => None,
                };
                let what = What::NotAcquired {
                    waited: *waited,
                    attempts: *attempts,
                    outcome: Outcome::of(failure.as_ref(), *told),
                    free_within,
                    was_waiting: told.waiting,
                    was_patient: told.patient,
                };
                self.about(subject, to, what);
            }
            engine::Fact::Released { subject, held, detached, .. } => {
                self.about(subject, to, What::Released { held: *held, detached: *detached });
            }
            engine::Fact::Unconfirmed { subject, failure } => {
                let free_within: FreeWithin = failure.free_within;
                self.about(subject, to, What::Unconfirmed { free_within, error: failure.error.kind });
            }
            engine::Fact::Lost { subject, held, reason, late, .. } => {
                self.about(subject, to, What::Lost { held: *held, reason: *reason, late: *late });
            }
            engine::Fact::Renewed { subject, left, took } => {
                self.about(subject, to, What::Renewed { left: part(*left), took: *took });
            }
            engine::Fact::NotRenewed { subject, left, failures, error, .. } => {
                let what = What::NotRenewed { left: part(*left), failures: *failures, error: *error };
                self.about(subject, to, what);
            }
            engine::Fact::Undone { subject, settled } => {
                self.about(subject, to, What::Undone { settled: *settled });
            }
            engine::Fact::Called { verb, took, error } => {
                self.about_none(to, What::Called { verb: *verb, took: *took, error: *error });
            }
            _ => {}
        }
    }

    /// Tells of a long wait, with those who hold what is waited for.
    pub(super) fn tell_patient(&self, fact: &engine::Fact, holders: &Holders, own: ClientId) {
        let engine::Fact::Patient { subject, waited, again, .. } = fact else { return };
        let holder = holders.holders.first().map(|holder| &*holder.owner);
        let is_own = holder.is_some_and(|holder| holder.starts_with(&own.to_string()));
        let what = What::Patient { waited: *waited, holder, is_own, again: *again };
        self.about(subject, Audience::Queued, what);
    }

    fn about(&self, subject: &Subject, to: Audience, what: What<'_>) {
        let name = self.defaults.as_written(&subject.name);
        let group = self.groups.of(name, subject.group);
        let shown = if self.names == Names::Hidden { &*group } else { name };
        let (name, kind, group) = (Some(shown), Some(subject.recipe.kind), Some(&*group));
        self.tell_each(to, &Fact { name, kind, group, dropped: self.dropped(), at: self.at(), what });
    }

    /// Returns what observers are told in place of this name, as the program writes it.
    pub(crate) fn shown<'a>(&self, name: &'a str, group: Option<&'static engine::Group>) -> Cow<'a, str> {
        match self.names {
            Names::Shown => Cow::Borrowed(name),
            Names::Hidden => Cow::Owned(self.groups.of(name, group).as_str().to_owned()),
        }
    }

    pub(super) fn about_none(&self, to: Audience, what: What<'_>) {
        let (name, kind, group) = (None, None, None);
        self.tell_each(to, &Fact { name, kind, group, dropped: self.dropped(), at: self.at(), what });
    }

    fn tell_each(&self, to: Audience, fact: &Fact<'_>) {
        let is_told = |entry: &&Entry| to.has(entry) && !entry.failed.load(Ordering::Relaxed);
        for entry in self.entries.iter().filter(is_told) {
            // Foreign code must not end the thread that renews the locks.
            if catch_unwind(AssertUnwindSafe(|| entry.observer.fact(fact))).is_err() {
                entry.failed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the part of a lease that is left.
fn part((left, lease): (Duration, Duration)) -> f64 {
    if lease.is_zero() { 0.0 } else { (left.as_secs_f64() / lease.as_secs_f64()).min(1.0) }
}

/// Returns true if the server can tell who holds what a waiter waits for.
pub(crate) fn has_holders(fact: &engine::Fact) -> bool {
    let engine::Fact::Patient { subject, .. } = fact else { return false };
    matches!(subject.recipe.holding, Holding::Exclusive | Holding::Shared)
}

/// Returns the observers that each client has by the features `tracing` and `metrics`.
#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "only metrics have labels"))]
fn built_in(server: &str, confirm: Confirm, setup: &Setup) -> impl Iterator<Item = Entry> {
    #[cfg(feature = "tracing")]
    let log = {
        let detail = if Log::wants_all() { Detail::All } else { Detail::Rare };
        Some(Entry::new(Arc::new(Log::default()), detail))
    };
    #[cfg(not(feature = "tracing"))]
    let log = None;
    #[cfg(feature = "metrics")]
    let metrics = {
        let metrics = Arc::new(Metrics::new(server, confirm, &setup.per_name));
        Some(Entry { is_inline: true, ..Entry::new(metrics, Detail::All) })
    };
    #[cfg(not(feature = "metrics"))]
    let metrics = None;
    log.into_iter().chain(metrics)
}
