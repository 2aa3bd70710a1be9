//! The faults of servers without replicas.

use std::time::Duration;

use anyhow::{Result, bail};
use leasehold_testkit::servers::RedisServer;

use super::steps::{Served, last, reset_connections};
use crate::fault::Fault;

/// Injects a fault into one of the servers.
pub(super) fn inject(
    servers: &mut [RedisServer],
    lease: Duration,
    fault: Fault,
    random: &mut fastrand::Rng,
) -> Result<Option<Served>> {
    let server = random.usize(..servers.len());
    match fault {
        Fault::ServerKilled => {
            servers[server].kill();
            last(random, 50..900);
            servers[server].restart();
        }
        Fault::RestartedEmpty => {
            servers[server].restart_empty();
            let served = Served::now(&servers[server]);
            // The server does not count until the longest lease is over. A second empty server within that time would
            // leave no majority that remembers, which is beyond the tier.
            std::thread::sleep(lease + Duration::from_secs(1));
            return Ok(Some(served));
        }
        Fault::ServerFrozen => {
            servers[server].freeze();
            last(random, 300..1500);
            servers[server].thaw();
        }
        Fault::ServerFrozenLong => {
            servers[server].freeze();
            std::thread::sleep(lease);
            last(random, 300..1500);
            servers[server].thaw();
        }
        Fault::ConnectionsReset => reset_connections(servers.iter())?,
        other => bail!("servers without replicas cannot have the fault {other:?}"),
    }
    Ok(None)
}
