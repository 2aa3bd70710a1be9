//! The pauses between attempts to connect.
//!
//! Invariant: an attempt begins at least half a pause after the attempt before it has ended, unless a connection has
//! been useful in between. The pause doubles from one attempt to the next, up to its maximum.

use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::backoff::spread;

/// The first and the longest pause between attempts. The first is short because most failures pass quickly, and the
/// longest bounds how late a client finds a returning server.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(20);
pub(super) const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The pause before the next attempt, which all calls that wait for the connection share.
#[derive(Debug)]
pub(super) struct Backoff {
    pause: Duration,
    not_before: Moment,
    /// Decides the jitter, so that clients that failed together do not come back together.
    seed: u64,
}

impl Backoff {
    pub(super) fn new(seed: u64) -> Self {
        Self { pause: Duration::ZERO, not_before: Moment::default(), seed }
    }

    /// Returns the earliest time of the next attempt.
    pub(super) const fn not_before(&self) -> Moment {
        self.not_before
    }

    /// Notes the end of an attempt. A successful attempt counts too, because its connection has yet to prove useful.
    pub(super) fn attempted(&mut self, now: Moment) {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.seed = self.seed.wrapping_add(1);
        self.not_before = now + self.pause / 2 + spread(self.pause / 2, self.seed);
    }

    /// Notes that the connection is useful, so that the next attempt begins at once when the connection breaks.
    pub(super) fn forget(&mut self) {
        self.pause = Duration::ZERO;
        self.not_before = Moment::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_half_of_each_is_jitter() {
        let now = Moment::from_millis(1_000);
        let mut backoff = Backoff::new(7);
        assert!(backoff.not_before() <= now, "the first attempt needs no pause");
        for full in [20, 40, 80, 160, 320, 500, 500].map(Duration::from_millis) {
            backoff.attempted(now);
            let pause = backoff.not_before().since(now);
            assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
        }
        backoff.forget();
        assert!(backoff.not_before() <= now);
        backoff.attempted(now);
        assert!(backoff.not_before().since(now) <= PAUSE_MIN);
    }

    #[test]
    fn clients_of_different_seeds_do_not_come_back_together() {
        let pauses = [1, 1_000].map(|seed| {
            let mut backoff = Backoff::new(seed);
            backoff.attempted(Moment::default());
            backoff.not_before()
        });
        assert_ne!(pauses[0], pauses[1]);
    }
}
