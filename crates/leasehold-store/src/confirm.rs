//! The policy that says how many replicas must acknowledge a call before it counts.
//!
//! Invariant: a call with such a policy succeeds only after enough replicas have acknowledged it. Fewer are enough only
//! if the client has chosen to make do with those that are connected.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::time::Duration;

use leasehold_proto::Confirm;

/// The choice for a call while fewer replicas are connected than its policy needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissing {
    /// The call is unconfirmed, so no lock is granted until the replicas are back.
    #[default]
    Fail,
    /// The call counts once all connected replicas have acknowledged it, even if there are none. A failover can then lose
    /// it. The client warns when the first replica is missing, with the feature `tracing`.
    Warn,
}

/// The confirmation by replicas, as a client uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Confirmation {
    /// The replicas that must acknowledge the calls without a policy of their own.
    pub replicas: Confirm,
    /// The longest time for the acknowledgments. It should be well below the timeout of a call.
    pub within: Duration,
    /// The choice while fewer replicas are connected.
    pub on_missing: OnMissing,
    /// True if the server and the replicas must have written the call to their disks.
    pub fsync: bool,
}

impl Default for Confirmation {
    /// Returns the confirmation of calls with a policy of their own alone, within a second.
    fn default() -> Self {
        Self::new(Confirm::None, Duration::from_secs(1))
    }
}

impl Confirmation {
    /// Creates the confirmation by these replicas within a time.
    #[must_use]
    pub const fn new(replicas: Confirm, within: Duration) -> Self {
        Self { replicas, within, on_missing: OnMissing::Fail, fsync: false }
    }

    /// Chooses what a call does while fewer replicas are connected than the policy needs.
    #[must_use]
    pub const fn on_missing(mut self, on_missing: OnMissing) -> Self {
        self.on_missing = on_missing;
        self
    }

    /// Requires that the server and the replicas have written a call to their disks (`WAITAOF`).
    #[must_use]
    pub const fn fsync(mut self, fsync: bool) -> Self {
        self.fsync = fsync;
        self
    }
}

#[cfg(feature = "redis")]
impl Confirmation {
    /// Returns the confirmation of a call with this policy, if it has one of its own.
    pub(crate) fn of(self, policy: Option<Confirm>) -> Self {
        Self { replicas: policy.unwrap_or(self.replicas), ..self }
    }

    /// Returns true if the number of acknowledgments depends on the connected replicas.
    pub(crate) fn counts_connected(self) -> bool {
        self.replicas.counts_connected() || self.on_missing == OnMissing::Warn
    }

    /// Returns the number of necessary acknowledgments with this many connected replicas, and the number that the policy
    /// asks for if that is higher.
    pub(crate) fn wanted(self, connected: u32) -> (u32, Option<u32>) {
        let asked = self.replicas.wanted(connected);
        match self.on_missing {
            OnMissing::Warn if connected < asked => (connected, Some(asked)),
            _ => (asked, None),
        }
    }
}
