//! The pace of attempts to connect.
//!
//! Invariant: an attempt that follows another one begins at least half a pause after that one has ended, unless a
//! connection has been useful in between. The pause doubles from one attempt to the next, up to its maximum.

use std::time::Duration;

use super::socket::Dial;
use crate::tokio_runtime::{Instant, after};

/// The pause after the first attempt, and the longest one: the client finds a returning server within it.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The pause before the next attempt; all calls that wait for the connection share it.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Duration,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Returns the earliest time of the next attempt; none when it may begin at once.
    pub(super) const fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Notes the end of an attempt. One that succeeded counts too: its connection has yet to prove useful.
    pub(super) fn attempted(&mut self, dialer: &dyn Dial) {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.not_before = Some(after(dialer.jitter(self.pause)));
    }

    /// Notes that the connection is useful: when it breaks, the next attempt begins at once.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
