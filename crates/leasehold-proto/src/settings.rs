//! The settings of a client, which the engine and the recipes of counters share.

use std::time::Duration;

/// The settings of a client's engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// The timeout of one store call, connecting included, at most 365 days. A reply to another call shows that the server
    /// works and begins it anew, so a call behind others may take two timeouts. Also the time for which a waiter retries
    /// a failing store before its acquire fails.
    pub timeout: Duration,
    /// The longest time for which a waiter sleeps without a wake-up before its next attempt.
    pub poll_interval: Duration,
    /// The time after a grant of the server for which the hold passes from one waiter of this client to the next without
    /// a call. Zero turns that off.
    pub hand_off: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            poll_interval: Duration::from_secs(1),
            hand_off: Duration::from_millis(2),
        }
    }
}
