//! The observer that counts with the crate `metrics`.
//!
//! Invariant: a lock's name becomes a label only if the program has chosen it. All clients of a process share one
//! [`Registry`], so a series has one writer of its value and the limits hold for the process.
//!
//! # How it works
//! This observer never waits, so the client's own thread tells it directly, and its facts are never dropped. A recorder
//! hands out a handle for each series. The handles are kept for [`KEPT`], because a lookup costs more than the count, and
//! then taken anew. So a recorder that was installed after the client gets its series, and so does one that forgets idle
//! series. Gauges are set from values that are kept here, so they are right in a recorder that comes late.

mod names;
mod series;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use leasehold_proto::engine::GrantedBy;
use leasehold_store::Confirm;
use leasehold_store::url::Scheme;
use metrics::counter;

pub use self::names::BUCKETS;
use self::names::reason_label;
use self::series::{Pair, Registry};
use super::fact::{Fact, Observer, Outcome, What};

/// How long a handle of the recorder is used before it is looked up again, so a recorder that is installed later counts
/// within this time.
const KEPT: Duration = Duration::from_secs(10);
/// The same in nanoseconds, which is how the clock is read here.
const KEPT_NANOS: u64 = KEPT.as_secs() * 1_000_000_000;

/// The observer of one client.
pub(super) struct Metrics {
    registry: Arc<Registry>,
    /// The names that have labels of their own.
    chosen: Arc<BTreeSet<String>>,
    topology: &'static str,
    tier: &'static str,
    /// The dropped facts that are counted already.
    dropped: AtomicU64,
    /// The age of the labels of this client.
    age: AtomicU64,
}

impl Metrics {
    /// Returns the observer of a client of this server.
    pub(super) fn new(server: &str, confirm: Confirm, chosen: &Arc<BTreeSet<String>>) -> Self {
        /// The series of this process, which all its clients share.
        static REGISTRY: LazyLock<Arc<Registry>> = LazyLock::new(Arc::default);
        Self::counting_in(&REGISTRY, server, confirm, chosen)
    }

    fn counting_in(
        registry: &Arc<Registry>,
        server: &str,
        confirm: Confirm,
        chosen: &Arc<BTreeSet<String>>,
    ) -> Self {
        let topology = match Scheme::split(server) {
            Ok((Scheme::Redis { .. } | Scheme::Unix, _)) => "single",
            Ok((Scheme::Sentinel { .. }, _)) => "sentinel",
            Ok((Scheme::Cluster { .. }, _)) => "cluster",
            Ok((Scheme::Memory, _)) => "memory",
            Err(_) => "custom",
        };
        let tier = if confirm == Confirm::None { "unconfirmed" } else { "confirmed" };
        Self {
            registry: Arc::clone(registry),
            chosen: Arc::clone(chosen),
            topology,
            tier,
            dropped: AtomicU64::new(0),
            age: AtomicU64::new(0),
        }
    }

    /// Publishes what no fact changes, once per age.
    fn publish(&self, age: u64) {
        if self.age.load(Ordering::Relaxed) >= age || self.age.fetch_max(age, Ordering::Relaxed) >= age {
            return;
        }
        self.registry.publish(age);
        let version = env!("CARGO_PKG_VERSION");
        let (topology, tier) = (self.topology, self.tier);
        metrics::gauge!(names::INFO, "version" => version, "topology" => topology, "tier" => tier).set(1.0);
        // A series that begins at zero shows its first increase.
        counter!(names::DROPPED).increment(0);
    }

    fn count_dropped(&self, dropped: u64) {
        if dropped > self.dropped.load(Ordering::Relaxed) {
            let counted = self.dropped.fetch_max(dropped, Ordering::Relaxed);
            counter!(names::DROPPED).increment(dropped.saturating_sub(counted));
        }
    }

    /// Counts a fact about a lock.
    fn count(&self, pair: &Pair, what: &What<'_>, age: u64) {
        match *what {
            What::Waiting => pair.waiting(age, 1),
            What::Patient { again: false, .. } => pair.waiting_long(age, 1),
            What::Acquired { waited, by, was_waiting, was_patient, .. } => {
                pair.ended(age, was_waiting, was_patient);
                pair.acquired(age, waited, by != GrantedBy::Event);
            }
            What::NotAcquired { outcome, was_waiting, was_patient, .. } => {
                pair.ended(age, was_waiting, was_patient);
                pair.not_acquired(age, outcome);
                if outcome == Outcome::Unknown {
                    self.registry.unknown(age);
                }
            }
            What::Released { held, .. } => pair.hold_ended(age, held),
            What::Lost { held, reason, .. } => {
                pair.hold_ended(age, held);
                pair.lost(age, reason_label(reason));
            }
            What::Unconfirmed { .. } => self.registry.unconfirmed(age),
            What::Renewed { left, .. } => self.registry.renewed(age, Some(left)),
            What::NotRenewed { .. } => self.registry.renewed(age, None),
            What::Undone { settled: true } => self.registry.undone(age),
            _ => {}
        }
    }
}

impl Observer for Metrics {
    fn fact(&self, fact: &Fact<'_>) {
        let age = fact.at.as_nanos() / KEPT_NANOS + 1;
        self.publish(age);
        self.count_dropped(fact.dropped);
        if let What::Called { verb, took, error } = fact.what {
            self.registry.called(age, verb, took, error.is_none());
        } else if let What::Connected { connection, again, .. } = fact.what {
            self.registry.connected(age, connection, 1);
            if again {
                self.registry.reconnected(age, connection);
            }
        } else if let What::Disconnected { connection, .. } = fact.what {
            self.registry.connected(age, connection, -1);
        } else if let (Some(name), Some(kind), Some(group)) = (fact.name, fact.kind, fact.group) {
            let pair = self.registry.pair(kind, group, self.chosen.contains(name));
            self.count(pair, &fact.what, age);
        }
    }
}

#[cfg(test)]
mod tests;
