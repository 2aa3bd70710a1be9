//! What a copy is started with: arguments, or variables of the environment.
//!
//! Called by: `main`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Parser;

/// Takes payments for orders, each of them once, beside other copies of itself.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// Where to listen; port 0 lets the system choose, and the address is printed.
    #[arg(long, env = "ORDERS_LISTEN", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,
    /// The server of the locks.
    #[arg(long, env = "ORDERS_REDIS", default_value = "redis://127.0.0.1:6379")]
    pub(crate) redis: String,
    /// The database: `postgres://..`, as `database.sh` prints it, or `sqlite:///path/to/file?mode=rwc`.
    #[arg(long, env = "ORDERS_DATABASE")]
    pub(crate) database: String,
    /// The name of this copy, which it puts into its answers.
    #[arg(long, env = "ORDERS_NAME", default_value = "shop")]
    pub(crate) name: String,
    /// How long the payment provider takes to answer.
    #[arg(long, env = "ORDERS_PROVIDER_DELAY", default_value = "200ms", value_parser = humantime::parse_duration)]
    pub(crate) provider_delay: Duration,
    /// How long others wait for the lock of a copy that died.
    #[arg(long, env = "ORDERS_LEASE", default_value = "5s", value_parser = humantime::parse_duration)]
    pub(crate) lease: Duration,
    /// How long a payment waits for another one of the same order.
    #[arg(long, env = "ORDERS_WAIT", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) wait: Duration,
    /// For how long the settlement is not run again, however short the run was.
    #[arg(long, env = "ORDERS_SETTLE_EVERY", default_value = "10m", value_parser = humantime::parse_duration)]
    pub(crate) settle_every: Duration,
}
