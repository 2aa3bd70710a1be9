//! The policies that are compared, and the names that each of them uses.

use leasehold::{Confirm, Name, OnMissing};
use serde::{Deserialize, Serialize};

/// The rule by which a grant counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One server without failover.
    Single,
    /// The reply of the script.
    Replicated,
    /// Redisson's condition: one replica at least, and none while none is connected.
    Redisson,
    /// One replica at least.
    AtLeastOne,
    /// The majority of the servers.
    Majority,
    /// All connected replicas, and at least one.
    AllConnected,
    /// All replicas of the fleet.
    All,
    /// The majority of independent servers.
    Quorum,
    /// The reply of the script, and a resource that checks the tokens.
    Fenced,
}

impl Policy {
    /// All policies, in the order of the table.
    pub const ALL: [Self; 9] = [
        Self::Single,
        Self::Replicated,
        Self::Redisson,
        Self::AtLeastOne,
        Self::Majority,
        Self::AllConnected,
        Self::All,
        Self::Quorum,
        Self::Fenced,
    ];

    /// Returns the name in tables and in the names of locks.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Replicated => "replicated",
            Self::Redisson => "redisson",
            Self::AtLeastOne => "at-least-1",
            Self::Majority => "majority",
            Self::AllConnected => "all(1)",
            Self::All => "all(n)",
            Self::Quorum => "quorum",
            Self::Fenced => "fenced",
        }
    }

    /// Returns the replicas that must confirm, in a fleet with this number of replicas for each master.
    #[must_use]
    pub const fn confirm(self, replicas: u32) -> Option<Confirm> {
        match self {
            Self::AtLeastOne | Self::Redisson => Some(Confirm::AtLeast(1)),
            Self::Majority => Some(Confirm::majority(replicas)),
            Self::AllConnected => Some(Confirm::all(1)),
            Self::All => Some(Confirm::all(replicas)),
            Self::Single | Self::Replicated | Self::Quorum | Self::Fenced => None,
        }
    }

    /// Returns what a call does while fewer replicas are connected than the policy names.
    #[must_use]
    pub const fn on_missing(self) -> OnMissing {
        match self {
            Self::Redisson => OnMissing::Warn,
            _ => OnMissing::Fail,
        }
    }
}

/// A primitive of the laboratory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A lock.
    Lock,
    /// A fenced lock with hybrid tokens.
    Fenced,
    /// An expirable semaphore.
    Semaphore,
    /// A lock that one worker alone takes, to see when a fleet serves.
    Probe,
}

/// The beginning of the name of every lock and semaphore of the laboratory.
pub const PREFIX: &str = "lab:";
/// The permits of each semaphore.
pub const PERMITS: u32 = 2;
/// The hash tag of most names, so that a fault of one master of a cluster concerns most locks.
pub const TAG: &str = "lab";

/// Returns the name on the server: most names share a slot, and some are spread over the cluster.
///
/// # Panics
/// Panics if the name breaks a rule for names.
#[must_use]
pub fn on_server(name: &str) -> Name {
    let is_spread = name.ends_with(['0', '4', '8']);
    let made = if is_spread { Name::new(name) } else { Name::with_hash_tag(TAG, name) };
    made.expect("the laboratory's names are valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_names_share_a_slot() {
        assert_eq!(on_server("lab:x:5").as_str(), "{lab}lab:x:5");
        assert_eq!(on_server("lab:x:4").as_str(), "lab:x:4");
    }
}
