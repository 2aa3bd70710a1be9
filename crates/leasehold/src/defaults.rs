//! The default terms of a client's locks and semaphores.
//!
//! Invariant: the defaults are fixed when the client connects. A lock copies its terms from here once, when it is made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::{Confirm, Lease, LeaseError, Name, NameError};

use crate::terms::{HoldTerms, WATCHDOG_LEASE};

/// A primitive whose holds have terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Primitive {
    /// [`Client::lock`](crate::Client::lock), and the locks of a [`Redlock`](crate::Redlock).
    Lock,
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    FairLock,
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    FencedLock,
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    SpinLock,
    /// [`Client::plain_lock`](crate::Client::plain_lock), with fencing tokens or without.
    PlainLock,
    /// [`Client::rw_lock`](crate::Client::rw_lock), both sides.
    RwLock,
    /// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    ExpirableSemaphore,
}

/// The defaults of one client.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) watchdog: Duration,
    pub(crate) terms: BTreeMap<Primitive, HoldTerms>,
    /// The replicas that confirm the calls of the client, if they do.
    pub(crate) replicas: Option<Confirm>,
    /// The pauses of spin locks.
    pub(crate) backoff: Backoff,
    /// The prefix of every name.
    pub(crate) key_prefix: Arc<str>,
}

impl Default for Defaults {
    fn default() -> Self {
        let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(128) };
        Self {
            watchdog: WATCHDOG_LEASE,
            terms: BTreeMap::new(),
            replicas: None,
            backoff,
            key_prefix: "".into(),
        }
    }
}

impl Defaults {
    /// Returns the terms of the holds of a primitive.
    pub(crate) fn terms(&self, of: Primitive) -> HoldTerms {
        let terms = self.terms.get(&of).copied().unwrap_or_default();
        terms.or_watchdog(self.watchdog).or_replicas(self.replicas)
    }

    /// Returns the name on the server, which is the user's name behind the prefix.
    pub(crate) fn on_server(&self, name: Name) -> Result<Name, NameError> {
        if self.key_prefix.is_empty() { Ok(name) } else { name.behind(&self.key_prefix) }
    }

    /// Returns the name as the user wrote it.
    pub(crate) fn as_written<'a>(&self, name: &'a Name) -> &'a str {
        name.as_str().strip_prefix(&*self.key_prefix).unwrap_or(name.as_str())
    }

    /// Refuses leases outside their bounds.
    pub(crate) fn check_leases(&self) -> Result<(), LeaseError> {
        let own = self.terms.values().filter_map(HoldTerms::own_lease);
        own.chain([self.watchdog]).try_for_each(|lease| Lease::new(lease).map(drop))
    }
}

/// Refuses a prefix that makes every name invalid.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), NameError> {
    Name::new("x")?.behind(prefix).map(drop)
}
