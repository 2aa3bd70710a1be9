//! The configuration as serde reads it, once all layers are in one.
//!
//! Invariant: each field is one of the table of fields, which has checked its value's form and bounds before.
//! Called by: the reader, which makes it; the checks and the configuration, which read it.

use std::path::PathBuf;

use serde::Deserialize;

use super::secret::Secret;
use super::span::Span;
use crate::defaults::{HoldTerms, Primitive};

/// All of it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub(super) url: Option<Secret>,
    pub(super) standalone: Option<Standalone>,
    pub(super) sentinel: Option<Sentinel>,
    pub(super) cluster: Option<Cluster>,
    pub(super) quorum: Option<Quorum>,
    pub(super) timeout: Option<Span>,
    pub(super) poll_interval: Option<Span>,
    pub(super) sharded_pubsub: Option<Sharding>,
    pub(super) lazy: Option<bool>,
    pub(super) client_name: Option<String>,
    pub(super) key_prefix: Option<String>,
    pub(super) watchdog: Option<Span>,
    lock: Hold,
    fair_lock: Hold,
    fenced_lock: Hold,
    spin_lock: Hold,
    rw_lock: Hold,
    expirable_semaphore: Hold,
}

/// [`ShardedPubsub`](crate::ShardedPubsub).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sharding {
    Auto,
    On,
    Off,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Standalone {
    pub(super) address: String,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sentinel {
    pub(super) addresses: Vec<String>,
    pub(super) master: Option<String>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<Secret>,
    pub(super) sentinel_password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cluster {
    pub(super) addresses: Vec<String>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Quorum {
    pub(super) addresses: Vec<String>,
    pub(super) urls: Vec<Secret>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) node_timeout: Option<Span>,
    pub(super) longest_lease: Option<Span>,
    pub(super) persist_every_write: bool,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tls {
    pub(super) enabled: Option<bool>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
}

/// What holds of a primitive are like. Only spin locks have pauses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Hold {
    pub(super) watchdog: Option<Span>,
    pub(super) lease: Option<Span>,
    pub(super) max_hold: Option<Span>,
    pub(super) min_hold: Option<Span>,
    pub(super) max_renewals: Option<u32>,
    pub(super) backoff_first: Option<Span>,
    pub(super) backoff_longest: Option<Span>,
}

impl Raw {
    /// The sections of the primitives.
    pub(super) fn holds(&self) -> [(&'static str, Primitive, &Hold); 6] {
        [
            ("lock", Primitive::Lock, &self.lock),
            ("fair_lock", Primitive::FairLock, &self.fair_lock),
            ("fenced_lock", Primitive::FencedLock, &self.fenced_lock),
            ("spin_lock", Primitive::SpinLock, &self.spin_lock),
            ("rw_lock", Primitive::RwLock, &self.rw_lock),
            ("expirable_semaphore", Primitive::ExpirableSemaphore, &self.expirable_semaphore),
        ]
    }

    /// The pauses of spin locks.
    pub(super) fn pauses(&self) -> Option<(Span, Span)> {
        self.spin_lock.backoff_first.zip(self.spin_lock.backoff_longest)
    }
}

impl Hold {
    pub(super) fn terms(&self) -> HoldTerms {
        let mut terms = HoldTerms::new();
        if let Some(Span(lease)) = self.watchdog {
            terms = terms.watchdog(lease);
        }
        if let Some(Span(lease)) = self.lease {
            terms = terms.lease(lease);
        }
        if let Some(Span(most)) = self.max_hold {
            terms = terms.max_hold(most);
        }
        if let Some(Span(least)) = self.min_hold {
            terms = terms.min_hold(least);
        }
        if let Some(most) = self.max_renewals {
            terms = terms.max_renewals(most);
        }
        terms
    }
}

impl Tls {
    /// Whether connections are to be encrypted.
    pub(super) fn is_on(&self) -> bool {
        self.enabled.unwrap_or_else(|| self.files().next().is_some())
    }

    /// The files that are named, each with its key.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let named =
            [("ca_file", &self.ca_file), ("cert_file", &self.cert_file), ("key_file", &self.key_file)];
        named.into_iter().filter_map(|(key, path)| path.as_ref().map(|path| (key, path)))
    }
}
