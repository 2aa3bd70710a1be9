//! The number of replicas that must have a grant before it counts.
//!
//! Invariant: a policy never needs fewer replicas than it names.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

/// The replicas that must acknowledge an acquire, a renewal or a fenced write before it counts.
///
/// If all replicas of the fleet confirm, a failover loses no confirmed hold, unless the new master is a replica that was
/// restarted without its data, or that an operator promoted by force (docs/guarantees.md#tiers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Confirm {
    /// No replica. As the policy of one lock, it turns the confirmation of the client off, that of the disk included.
    None,
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

    /// Returns the number of acknowledgments that are necessary with this many connected replicas.
    #[must_use]
    pub fn wanted(self, connected: u32) -> u32 {
        match self {
            Self::None => 0,
            Self::AtLeast(replicas) => replicas,
            Self::All { at_least } => connected.max(at_least),
            // The master is a member of the majority.
            Self::Majority { replicas } => replicas.div_ceil(2),
        }
    }

    /// Returns true if the number depends on the connected replicas.
    #[must_use]
    pub const fn counts_connected(self) -> bool {
        matches!(self, Self::All { .. })
    }

    /// Returns the policy that needs as many replicas as the stricter of both does, whatever number is connected.
    pub(crate) fn stricter(self, other: Self) -> Self {
        let at_least = self.wanted(0).max(other.wanted(0));
        match (self, other) {
            (one, other) if one == other => one,
            (Self::None, policy) | (policy, Self::None) => policy,
            (Self::All { .. }, _) | (_, Self::All { .. }) => Self::All { at_least },
            _ => Self::AtLeast(at_least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_wants_its_replicas() {
        for (policy, connected, wanted) in [
            (Confirm::None, 5, 0),
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

    #[test]
    fn the_stricter_policy_wants_what_either_wants() {
        let policies = [
            Confirm::None,
            Confirm::AtLeast(0),
            Confirm::AtLeast(2),
            Confirm::all(0),
            Confirm::all(3),
            Confirm::majority(3),
            Confirm::majority(5),
        ];
        for (one, other) in policies.into_iter().flat_map(|one| policies.map(|other| (one, other))) {
            let both = one.stricter(other);
            for connected in 0..6 {
                let wanted = one.wanted(connected).max(other.wanted(connected));
                assert_eq!(both.wanted(connected), wanted, "{one:?} and {other:?} of {connected}");
            }
            assert_eq!(both == Confirm::None, one == other && one == Confirm::None, "{one:?} and {other:?}");
        }
    }
}
