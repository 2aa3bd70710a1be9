//! The settings of a client that concern its servers.

use std::time::Duration;

use leasehold_store::Confirm;

use super::ClientBuilder;

impl ClientBuilder {
    /// Sets the replicas that must acknowledge each acquire, each renewal and each fenced write (default: none).
    ///
    /// A replica that takes over after a failover then has every hold that a client trusts, if it acknowledged it. So
    /// use [`Confirm::all`] with at least one replica, and `min-replicas-to-write` on the servers. With fewer than all
    /// replicas, a replica without the hold can take over, and grant it twice.
    ///
    /// A call that too few replicas acknowledge fails. Its lock is not held, and a renewal does not prolong the trust in a
    /// hold. Each call takes a round trip to the replicas longer. Calls that run at the same time share that round trip.
    /// Releases need no replica.
    ///
    /// The server's user needs the right to `WAIT`, and `INFO` for [`Confirm::all`]. [The
    /// guarantees](https://github.com/leasehold-rs/leasehold/blob/main/docs/guarantees.md#tiers) say what remains
    /// possible.
    pub const fn replicas(mut self, policy: Confirm) -> Self {
        self.options.replicas.policy = Some(policy);
        self
    }

    /// Sets the longest time for the acknowledgments of replicas (default: a third of the timeout of a call, at least
    /// 1 ms).
    pub const fn replicas_within(mut self, within: Duration) -> Self {
        self.options.replicas.within = Some(within);
        self
    }
}
