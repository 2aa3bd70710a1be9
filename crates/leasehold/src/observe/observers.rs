//! The observers of a client, and how the engine's facts become theirs.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold_proto::engine::{self, Detail, Subject};
use leasehold_proto::recipe::Holders;
use leasehold_proto::{ClientId, Engine, FreeWithin, Moment};

use super::fact::{Fact, Observer, Outcome, What};
use super::groups;
#[cfg(feature = "tracing")]
use super::log::Log;
use crate::defaults::Defaults;

/// The wait after which a name has a fact of its own, unless the user sets another one.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a user sets about observers, before the client connects.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) observers: Vec<Arc<dyn Observer>>,
    pub(crate) patience: Duration,
    pub(crate) group_by: fn(&str) -> Cow<'_, str>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { observers: Vec::new(), patience: PATIENCE, group_by: groups::of_name }
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
    patience: Duration,
    group_by: fn(&str) -> Cow<'_, str>,
    defaults: Defaults,
    /// The number of facts that were dropped, because an observer stood still.
    dropped: AtomicU64,
    /// The time of the last facts, in nanoseconds of the client's clock.
    now: AtomicU64,
}

struct Entry {
    observer: Arc<dyn Observer>,
    /// True once it has panicked.
    failed: AtomicBool,
}

impl Observers {
    /// Returns the observers of a client with these settings, if it has any.
    pub(crate) fn new(setup: &Setup, defaults: &Defaults) -> Option<Arc<Self>> {
        let (own, detail) = built_in();
        let detail = if setup.observers.is_empty() { detail } else { Detail::All };
        let observers: Vec<_> = setup.observers.iter().cloned().chain(own).collect();
        if observers.is_empty() {
            return None;
        }
        let entry = |observer| Entry { observer, failed: AtomicBool::new(false) };
        Some(Arc::new(Self {
            entries: observers.into_iter().map(entry).collect(),
            detail,
            patience: setup.patience,
            group_by: setup.group_by,
            defaults: defaults.clone(),
            dropped: AtomicU64::new(0),
            now: AtomicU64::new(0),
        }))
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
    pub(super) fn tell(&self, facts: &[engine::Fact]) {
        for fact in facts {
            self.tell_one(fact);
        }
    }

    fn tell_one(&self, fact: &engine::Fact) {
        match fact {
            engine::Fact::Waiting { subject, .. } => self.about(subject, What::Waiting),
            engine::Fact::Patient { subject, waited, again, .. } => {
                let what = What::Patient { waited: *waited, holder: None, is_own: false, again: *again };
                self.about(subject, what);
            }
            engine::Fact::Acquired { subject, waited, attempts, by, told, grant, .. } => {
                let owner = grant.wire.to_string();
                let what = What::Acquired {
                    waited: *waited,
                    attempts: *attempts,
                    by: (*by).into(),
                    token: grant.token,
                    owner: &owner,
                    was_waiting: told.waiting,
                    was_patient: told.patient,
                };
                self.about(subject, what);
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
                self.about(subject, what);
            }
            engine::Fact::Released { subject, held, detached, .. } => {
                self.about(subject, What::Released { held: *held, detached: *detached });
            }
            engine::Fact::Unconfirmed { subject, failure } => {
                let free_within: FreeWithin = failure.free_within;
                self.about(subject, What::Unconfirmed { free_within, error: failure.error.kind });
            }
            engine::Fact::Lost { subject, held, reason, late, .. } => {
                self.about(subject, What::Lost { held: *held, reason: *reason, late: *late });
            }
            engine::Fact::Renewed { subject, left, took } => {
                self.about(subject, What::Renewed { left: part(*left), took: *took });
            }
            engine::Fact::NotRenewed { subject, left, failures, error, .. } => {
                let what = What::NotRenewed { left: part(*left), failures: *failures, error: *error };
                self.about(subject, what);
            }
            engine::Fact::Undone { subject, settled } => {
                self.about(subject, What::Undone { settled: *settled });
            }
            engine::Fact::Called { verb, took, error } => {
                self.about_none(What::Called { verb: *verb, took: *took, error: *error });
            }
            _ => {}
        }
    }

    /// Tells of a long wait, with those who hold what is waited for.
    pub(super) fn tell_patient(&self, fact: &engine::Fact, holders: &Holders, own: ClientId) {
        let engine::Fact::Patient { subject, waited, again, .. } = fact else { return };
        let holder = holders.holders.first().map(|holder| &*holder.owner);
        let is_own = holder.is_some_and(|holder| holder.starts_with(&own.to_string()));
        self.about(subject, What::Patient { waited: *waited, holder, is_own, again: *again });
    }

    fn about(&self, subject: &Subject, what: What<'_>) {
        let name = self.defaults.as_written(&subject.name);
        let group = (self.group_by)(name);
        let (name, kind, group) = (Some(name), Some(subject.recipe.kind), Some(&*group));
        self.tell_all(&Fact { name, kind, group, dropped: self.dropped(), at: self.at(), what });
    }

    pub(super) fn about_none(&self, what: What<'_>) {
        self.tell_all(&Fact {
            name: None,
            kind: None,
            group: None,
            dropped: self.dropped(),
            at: self.at(),
            what,
        });
    }

    fn tell_all(&self, fact: &Fact<'_>) {
        for entry in self.entries.iter().filter(|entry| !entry.failed.load(Ordering::Relaxed)) {
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

/// Returns the observer that each client has if the feature `tracing` is on, and the facts that it wants.
#[cfg(feature = "tracing")]
fn built_in() -> (Option<Arc<dyn Observer>>, Detail) {
    let detail = if Log::wants_all() { Detail::All } else { Detail::Rare };
    (Some(Arc::new(Log::default())), detail)
}

#[cfg(not(feature = "tracing"))]
fn built_in() -> (Option<Arc<dyn Observer>>, Detail) {
    (None, Detail::Rare)
}
