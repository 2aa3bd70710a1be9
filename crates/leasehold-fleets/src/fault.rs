//! The faults, and the fleets that can have them.

use std::time::Duration;

use crate::policy::Policy;

/// The least time after a fault in which the workers run undisturbed, so that waiters are served.
pub(crate) const REST: Duration = Duration::from_millis(300);

/// A shape of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Topology {
    /// A master, two replicas and three sentinels.
    Sentinel,
    /// Three masters with a replica each.
    Cluster,
    /// Three independent servers.
    Independent,
    /// One server that writes each command to a file.
    Single,
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Fault {
    /// A master is killed, and restarted after the failover.
    MasterKilled,
    /// The master and a sentinel, as on one machine, are killed, and restarted after the failover.
    MachineKilled,
    /// A master is frozen, and resumed after the failover.
    MasterFrozen,
    /// A master is frozen with acquires on their way to it, its replica is promoted by hand, and the master resumes
    /// within the timeout.
    MasterThawed,
    /// The links to all replicas are cut, and then the master is killed.
    LagThenKilled,
    /// The links to all replicas are cut, and then the master is frozen, and resumed after the failover.
    LagThenFrozen,
    /// One replica of two, which the sentinels prefer, is cut off, and then the master is killed.
    OneLagsThenKilled,
    /// Packets from all other servers to the master are lost, but not packets from clients.
    MasterDeaf,
    /// The packets of the master to all other servers are lost, and not those to clients.
    MasterMute,
    /// A failover by hand, of a healthy master.
    FailoverByHand,
    /// A failover by hand that asks nobody.
    FailoverForced,
    /// A replica is made a master by hand, behind the back of the sentinels.
    PromotedByHand,
    /// The master restarts without its data.
    RestartedEmpty,
    /// A replica is killed and restarted.
    ReplicaKilled,
    /// All replicas are frozen for a moment.
    ReplicasFrozen,
    /// Each sentinel is killed and restarted, one after the other.
    SentinelsKilled,
    /// All connections of all nodes are closed.
    ConnectionsReset,
    /// All nodes restart, one after the other.
    RollingRestart,
    /// A slot with locks moves to another master and back, several times.
    SlotMoved,
    /// A node joins, gets a slot with locks, and leaves.
    NodeAddedAndRemoved,
    /// A server is killed and restarted with its data.
    ServerKilled,
    /// A server is frozen for a moment.
    ServerFrozen,
    /// A server is frozen for longer than a lease.
    ServerFrozenLong,
}

impl Topology {
    /// All topologies, each with its hundredths of the time of a campaign.
    pub const ALL: [(Self, u64); 4] =
        [(Self::Sentinel, 50), (Self::Cluster, 32), (Self::Independent, 10), (Self::Single, 8)];

    /// Returns the faults, those first that show that the laboratory is not too gentle.
    #[must_use]
    pub const fn faults(self) -> &'static [Fault] {
        match self {
            Self::Sentinel => &[
                Fault::LagThenKilled,
                Fault::OneLagsThenKilled,
                Fault::MasterDeaf,
                Fault::MasterMute,
                Fault::MasterFrozen,
                Fault::LagThenFrozen,
                Fault::MasterKilled,
                Fault::MachineKilled,
                Fault::FailoverByHand,
                Fault::ConnectionsReset,
                Fault::ReplicaKilled,
                Fault::ReplicasFrozen,
                Fault::SentinelsKilled,
                Fault::PromotedByHand,
                Fault::RestartedEmpty,
                Fault::RollingRestart,
            ],
            Self::Cluster => &[
                Fault::LagThenKilled,
                Fault::MasterDeaf,
                Fault::MasterMute,
                Fault::MasterThawed,
                Fault::SlotMoved,
                Fault::MasterFrozen,
                Fault::LagThenFrozen,
                Fault::MasterKilled,
                Fault::FailoverByHand,
                Fault::ConnectionsReset,
                Fault::FailoverForced,
                Fault::ReplicaKilled,
                Fault::NodeAddedAndRemoved,
                Fault::RestartedEmpty,
                Fault::RollingRestart,
            ],
            Self::Independent => &[
                Fault::ServerKilled,
                Fault::RestartedEmpty,
                Fault::ServerFrozen,
                Fault::ServerFrozenLong,
                Fault::ConnectionsReset,
            ],
            Self::Single => {
                &[Fault::ServerKilled, Fault::ServerFrozen, Fault::ServerFrozenLong, Fault::ConnectionsReset]
            }
        }
    }

    /// Returns the policies that the workers compare.
    #[must_use]
    pub const fn policies(self) -> &'static [Policy] {
        match self {
            Self::Sentinel => &[
                Policy::Replicated,
                Policy::Redisson,
                Policy::AtLeastOne,
                Policy::Majority,
                Policy::AllConnected,
                Policy::All,
                Policy::Fenced,
            ],
            Self::Cluster => {
                &[Policy::Replicated, Policy::Redisson, Policy::AtLeastOne, Policy::All, Policy::Fenced]
            }
            Self::Independent => &[Policy::Quorum],
            Self::Single => &[Policy::Single, Policy::Fenced],
        }
    }

    /// Returns the lease of each hold. Where replicas can take over, it is longer than a failover, or the holds would end
    /// before another server can grant again.
    #[must_use]
    pub const fn lease(self) -> Duration {
        match self {
            Self::Sentinel | Self::Cluster => Duration::from_secs(5),
            Self::Independent | Self::Single => Duration::from_secs(2),
        }
    }

    /// Returns the number of replicas of each master.
    #[must_use]
    pub const fn replicas(self) -> u32 {
        match self {
            Self::Sentinel => 2,
            Self::Cluster => 1,
            Self::Independent | Self::Single => 0,
        }
    }
}

impl Fault {
    /// Returns true if the policy promises at most one valid holder under this fault.
    #[must_use]
    pub fn is_covered_by(self, policy: Policy, topology: Topology) -> bool {
        match policy {
            Policy::All => !matches!(self, Self::FailoverForced | Self::MasterThawed | Self::RestartedEmpty),
            Policy::Quorum | Policy::Single => true,
            // Only the token protects the resource: the judge checks the writes.
            Policy::Fenced | Policy::Replicated => self.keeps_data(),
            // With one replica, one replica is all replicas.
            Policy::AtLeastOne => {
                self.keeps_data() || (topology.replicas() == 1 && self.is_covered_by(Policy::All, topology))
            }
            Policy::Redisson | Policy::Majority | Policy::AllConnected => self.keeps_data(),
        }
    }

    /// Returns true if no node loses data and no other node takes over.
    #[must_use]
    pub const fn keeps_data(self) -> bool {
        matches!(
            self,
            Self::ReplicaKilled
                | Self::ReplicasFrozen
                | Self::SentinelsKilled
                | Self::ConnectionsReset
                | Self::SlotMoved
                | Self::NodeAddedAndRemoved
                | Self::ServerKilled
                | Self::ServerFrozen
                | Self::ServerFrozenLong
        )
    }

    /// Returns true if a master is frozen until another one has taken over, and then serves again for a moment.
    #[must_use]
    pub const fn wakes_an_old_master(self) -> bool {
        matches!(self, Self::MasterFrozen | Self::LagThenFrozen | Self::MasterThawed)
    }

    /// Returns the longest time for which two guards of one lock may be valid at once where the policy allows it.
    ///
    /// Each client then looks for the servers after 0.3 s without a reply at the latest, again after an answer that came
    /// late, at most once a second, and checks its holds within 0.25 s. The other faults pause workers, or leave calls
    /// without an answer for their whole timeout.
    #[must_use]
    pub const fn longest_overlap(self) -> Duration {
        match self {
            Self::MasterThawed => Duration::from_millis(1500),
            _ => Duration::from_secs(4),
        }
    }

    /// Returns the least time to the next fault, whose change of masters would end an overlap of this one.
    #[must_use]
    pub(crate) const fn rest(self) -> Duration {
        match self {
            Self::MasterThawed => Duration::from_secs(2),
            _ => REST,
        }
    }

    /// Returns true if the fault needs a network of the laboratory's own.
    #[must_use]
    pub const fn loses_packets(self) -> bool {
        matches!(self, Self::MasterDeaf | Self::MasterMute)
    }

    /// Returns true if the data of the master can be missing on the node that takes over, so that *replicated* must show
    /// double grants.
    #[must_use]
    pub const fn loses_grants(self) -> bool {
        matches!(
            self,
            Self::LagThenKilled
                | Self::LagThenFrozen
                | Self::OneLagsThenKilled
                | Self::MasterDeaf
                | Self::MasterMute
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_campaign_is_shared_out() {
        assert_eq!(Topology::ALL.iter().map(|(_, share)| share).sum::<u64>(), 100);
    }

    #[test]
    fn a_forced_failover_is_beyond_every_policy_of_a_cluster() {
        for policy in Topology::Cluster.policies() {
            assert!(!Fault::FailoverForced.is_covered_by(*policy, Topology::Cluster), "{policy:?}");
        }
    }

    #[test]
    fn one_replica_of_two_does_not_cover_a_lagging_one() {
        let fault = Fault::OneLagsThenKilled;
        assert!(!fault.is_covered_by(Policy::AtLeastOne, Topology::Sentinel));
        assert!(fault.is_covered_by(Policy::All, Topology::Sentinel));
    }
}
