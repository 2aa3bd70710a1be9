//! A cluster of one server, which is a cluster to clients all the same: slots, redirections, sharded pub/sub.
//!
//! Invariant: a cluster that was returned serves every slot.
//! Called by: tests of what clients do in a cluster.

use std::time::Duration;

use super::RedisServer;
use crate::wait::eventually;

/// A new cluster waits two seconds, so that it may hear of others, before it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(30);

/// Its nodes tell clients this address; they know no other before they have met.
const ARGUMENTS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];

impl RedisServer {
    /// Starts a cluster of one server that has all slots. That takes two seconds, so share it between tests.
    ///
    /// # Panics
    /// As [`start`](Self::start), and when it does not become a cluster.
    #[must_use]
    #[track_caller]
    pub fn cluster() -> Self {
        let server = Self::with(&ARGUMENTS);
        assert_eq!(server.cli(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]), "OK");
        eventually(SERVES_WITHIN, "the cluster to serve its slots", || {
            server.cli(&["CLUSTER", "INFO"]).lines().any(|line| line.trim() == "cluster_state:ok")
        });
        server
    }
}
