//! A clock that runs at its own rate and can jump.
//!
//! Invariant: only a jump sets the clock back, and only a jump moves it by more than its rate allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A clock, as a function of the true time. Clones are the same clock.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    zero_ns: i64,
    /// The excess over the rate of the true time, in parts per million.
    rate_ppm: i64,
    jumped_ns: Arc<AtomicI64>,
}

impl Clock {
    /// Creates a clock that shows `zero` when the simulation begins.
    #[must_use]
    pub(crate) fn new(zero: Duration, rate_ppm: i64) -> Self {
        Self { zero_ns: nanos(zero), rate_ppm, jumped_ns: Arc::default() }
    }

    /// Returns the reading of the clock at a true time.
    #[must_use]
    pub(crate) fn reading(&self, truth: Duration) -> Duration {
        let truth = nanos(truth);
        // The product has room for weeks, and a world lasts minutes.
        let gained = truth.saturating_mul(self.rate_ppm).div_euclid(1_000_000);
        span(self.zero_ns + truth + gained + self.jumped_ns.load(Ordering::Relaxed))
    }

    /// Returns the first true time at which the clock shows at least `says`, unless it jumps.
    #[must_use]
    pub(crate) fn truth_of(&self, says: Duration) -> Duration {
        let passed = nanos(says).saturating_sub(self.zero_ns + self.jumped_ns.load(Ordering::Relaxed));
        let divisor = i128::from(1_000_000 + self.rate_ppm);
        let truth = (i128::from(passed.max(0)) * 1_000_000 + divisor - 1) / divisor;
        span(i64::try_from(truth).unwrap_or(i64::MAX))
    }

    /// Moves the clock at once.
    pub(crate) fn jump(&self, by_ns: i64) {
        self.jumped_ns.fetch_add(by_ns, Ordering::Relaxed);
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

fn span(nanos: i64) -> Duration {
    Duration::from_nanos(nanos.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_time_is_reached_at_its_true_time() {
        for rate in [-4_950, 0, 1, 4_950] {
            let clock = Clock::new(Duration::from_secs(1_000), rate);
            for says in [1_000_000_000_011_u64, 1_000_123_456_789, 2_000_000_000_000] {
                let says = Duration::from_nanos(says);
                let truth = clock.truth_of(says);
                assert!(clock.reading(truth) >= says);
                assert!(clock.reading(truth - Duration::from_nanos(2)) < says, "not later than need be");
            }
        }
    }

    #[test]
    fn a_jump_moves_every_clone() {
        let clock = Clock::new(Duration::from_secs(1), 0);
        clock.clone().jump(-500_000_000);
        assert_eq!(clock.reading(Duration::from_secs(1)), Duration::from_millis(1_500));
    }
}
