//! A cluster of one server, which has everything that clients see of a cluster: slots, redirections, sharded pub/sub.
//!
//! Invariant: a returned cluster serves every slot.

use std::time::Duration;

use super::server::RedisServer;
use crate::wait::eventually;

/// The limit for a new cluster, which waits two seconds for other nodes before it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(30);

/// The node tells clients this address. It knows no other address before nodes meet.
const ARGUMENTS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];

impl RedisServer {
    /// Starts a cluster of one server that has all slots. The start takes two seconds, so share the cluster between
    /// tests.
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
