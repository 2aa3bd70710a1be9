//! The number of replicas that must have a grant before it counts.
//!
//! Invariant: a policy never needs fewer replicas than it names.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::time::Duration;

/// The replicas that must acknowledge an acquire, a renewal or a fenced write before it counts.
///
/// If all replicas of the fleet confirm, a failover loses no confirmed hold, unless the new master is a replica that was
/// restarted without its data, or that an operator promoted by force (docs/guarantees.md#tiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Confirm {
    /// At least this many replicas. Fewer than all of them do not exclude a second grant after a failover.
    AtLeast(u32),
    /// All replicas that are connected to the master, and at least this many. Only with the number of replicas of the
    /// fleet does it exclude a second grant, because a replica that is away can take over when it comes back.
    #[non_exhaustive]
    All {
        /// The least number of connected replicas.
        at_least: u32,
    },
    /// More than half of the servers of the fleet, of which the master is one.
    #[non_exhaustive]
    Majority {
        /// The number of replicas of the fleet, those that are away included.
        replicas: u32,
    },
}

impl Confirm {
    /// Returns the policy of all connected replicas, and at least this many.
    #[must_use]
    pub const fn all(at_least: u32) -> Self {
        Self::All { at_least }
    }

    /// Returns the policy of more than half of a fleet with a master and this many replicas.
    #[must_use]
    pub const fn majority(replicas: u32) -> Self {
        Self::Majority { replicas }
    }
}

#[cfg(feature = "redis")]
impl Confirm {
    /// Returns the number of acknowledgments that are necessary with this many connected replicas.
    pub(crate) fn wanted(self, connected: u32) -> u32 {
        match self {
            Self::AtLeast(replicas) => replicas,
            Self::All { at_least } => connected.max(at_least),
            // The master is a member of the majority.
            Self::Majority { replicas } => replicas.div_ceil(2),
        }
    }

    /// Returns true if the number depends on the connected replicas.
    pub(crate) const fn counts_connected(self) -> bool {
        matches!(self, Self::All { .. })
    }
}

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
    /// The replicas that must acknowledge.
    pub replicas: Confirm,
    /// The longest time for the acknowledgments. It should be well below the timeout of a call.
    pub within: Duration,
    /// The choice while fewer replicas are connected.
    pub on_missing: OnMissing,
    /// True if the server and the replicas must have written the call to their disks.
    pub fsync: bool,
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

#[cfg(test)]
mod tests {
    #[cfg(feature = "redis")]
    use super::*;

    #[cfg(feature = "redis")]
    #[test]
    fn each_policy_wants_its_replicas() {
        for (policy, connected, wanted) in [
            (Confirm::AtLeast(1), 5, 1),
            (Confirm::All { at_least: 1 }, 0, 1),
            (Confirm::All { at_least: 1 }, 3, 3),
            (Confirm::Majority { replicas: 2 }, 0, 1),
            (Confirm::Majority { replicas: 3 }, 3, 2),
            (Confirm::Majority { replicas: 4 }, 3, 2),
            (Confirm::Majority { replicas: 5 }, 3, 3),
        ] {
            assert_eq!(policy.wanted(connected), wanted, "{policy:?} of {connected}");
        }
    }
}
