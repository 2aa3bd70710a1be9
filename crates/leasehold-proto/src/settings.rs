//! The settings of a client, which the engine and the recipes of counters share.

use std::time::Duration;

/// The settings of a client's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The timeout of one store call, connecting included. Also the time for which a waiter retries a failing store
    /// before its acquire fails.
    pub timeout: Duration,
    /// The longest time for which a waiter sleeps without a wake-up before its next attempt.
    pub poll_interval: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(3), poll_interval: Duration::from_secs(1) }
    }
}
