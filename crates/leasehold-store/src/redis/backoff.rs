//! The pace of attempts to connect.
//!
//! Invariant: an attempt begins at least half a pause after the attempt before it has ended, unless a connection has
//! been useful in between. The pause doubles from one attempt to the next, up to its maximum.

use std::time::Duration;

use super::socket::Dial;
use crate::tokio_runtime::{Instant, after};

/// The first and the longest pause between attempts. The client finds a returning server within the longest pause.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The pause before the next attempt, which all calls that wait for the connection share.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pause: Duration,
    not_before: Option<Instant>,
}

impl Backoff {
    /// Returns the earliest time of the next attempt, or `None` when the attempt may begin at once.
    pub(super) const fn not_before(&self) -> Option<Instant> {
        self.not_before
    }

    /// Notes the end of an attempt. A successful attempt counts too, because its connection has yet to prove useful.
    pub(super) fn attempted(&mut self, dialer: &dyn Dial) {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.not_before = Some(after(dialer.jitter(self.pause)));
    }

    /// Notes that the connection is useful, so that the next attempt begins at once when the connection breaks.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
