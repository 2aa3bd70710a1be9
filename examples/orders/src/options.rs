//! The settings of a copy, from arguments or environment variables.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// Takes payments for orders, each order once, side by side with other copies.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The address to listen on. With port 0 the system chooses the port, and the service prints it.
    #[arg(long, env = "ORDERS_LISTEN", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// The server of the locks.
    #[arg(long, env = "ORDERS_REDIS", default_value = "redis://127.0.0.1:6379")]
    pub(crate) redis: String,
    /// The database: `postgres://..` as `database.sh` prints it, or `sqlite:///path/to/file?mode=rwc`.
    #[arg(long, env = "ORDERS_DATABASE")]
    pub(crate) database: String,
    /// The name of this copy in its answers.
    #[arg(long, env = "ORDERS_NAME", default_value = "shop")]
    pub(crate) name: String,
    /// The time that the payment provider takes to answer.
    #[arg(long, env = "ORDERS_PROVIDER_DELAY", default_value = "200ms", value_parser = humantime::parse_duration)]
    pub(crate) provider_delay: Duration,
    /// The lease of the locks: the time that a dead copy blocks others.
    #[arg(long, env = "ORDERS_LEASE", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,
    /// The time that a payment waits for another payment of the same order.
    #[arg(long, env = "ORDERS_WAIT", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
    /// The minimum time between two settlements.
    #[arg(long, env = "ORDERS_SETTLE_EVERY", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) settle_every: Duration,
}
