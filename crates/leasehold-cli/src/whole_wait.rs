//! The time of `--wait`, which also covers a server that cannot be reached yet.
//!
//! Invariant: without `--wait` the first failure ends the wait, and with it no retry goes beyond the given time.

use std::time::Duration;

use crate::clock::{Instant, after, now, reached};
use crate::duration::shown;
use crate::exit::Failure;
use crate::report::Report;

/// The pause between two attempts to reach the server.
const PAUSE: Duration = Duration::from_millis(250);

/// What is left of `--wait`.
#[derive(Debug)]
pub(crate) struct WholeWait {
    since: Instant,
    wait: Option<Duration>,
    has_told: bool,
    report: Report,
}

impl WholeWait {
    /// Begins the wait.
    pub(crate) fn new(wait: Option<Duration>, report: Report) -> Self {
        Self { since: now(), wait, has_told: false, report }
    }

    /// Returns the rest of the wait, or `None` without `--wait`.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.wait.map(|wait| wait.saturating_sub(now() - self.since))
    }

    /// Waits a little before the next attempt, or returns the failure if it does not pass by itself or the time is over. The
    /// first time it tells the operator, who would otherwise take the silence for a lock that another holder has.
    pub(crate) async fn go_on(&mut self, failure: Failure, may_pass: bool) -> Result<(), Failure> {
        let Some(left) = self.left().filter(|left| may_pass && !left.is_zero()) else { return Err(failure) };
        if !self.has_told {
            self.has_told = true;
            let left = shown(left);
            self.report.warn(format_args!("{:#}; waiting for the server for {left} at most", failure.reason));
        }
        reached(Some(after(PAUSE.min(left)))).await;
        Ok(())
    }
}
