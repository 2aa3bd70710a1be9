//! Pauses between attempts.
//!
//! The jitter follows from a seed, not from a random source. So the same engine sleeps the same way twice, and two
//! clients do not sleep alike.

use std::time::Duration;

/// The first pause after a failure, many round trips of a near server. Half of it is jitter.
const FIRST: Duration = Duration::from_millis(10);
/// The longest pause after failures, which delays a caller at most that long when the server is back.
const LONGEST: Duration = Duration::from_millis(500);

/// The pauses between the attempts of a waiter without wake-ups. They double from the first to the longest, and half of
/// each is jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Backoff {
    /// The upper bound of the first pause.
    pub first: Duration,
    /// The upper bound of all pauses.
    pub longest: Duration,
}

impl Backoff {
    /// Returns the pause after this many refusals in a row.
    #[must_use]
    pub fn after(&self, refusals: u32, seed: u64) -> Duration {
        let full = self.first.saturating_mul(1 << refusals.min(16)).min(self.longest);
        full / 2 + spread(full / 2, seed.wrapping_add(u64::from(refusals)))
    }
}

/// Returns the pause after this many failures in a row. The pause doubles from 10 ms to at most 500 ms, and half of it
/// is jitter.
#[must_use]
pub fn after_failures(failures: u32, seed: u64) -> Duration {
    Backoff { first: FIRST, longest: LONGEST }.after(failures, seed)
}

/// The first and the longest span in which a waiter polls a holder that sends no message. Each refusal makes it half as
/// long again, so a short section is found free early and a long one costs about eight polls a second.
const POLL: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// Returns the pause between polls of a holder that sends no message, after this many refusals in a row. It is a part of a
/// span that grows by half from 20 ms to at most 250 ms, between nothing and all of it.
#[must_use]
pub fn between_polls(refusals: u32, seed: u64) -> Duration {
    let (first, longest) = POLL;
    let grown = (0..refusals.min(8)).fold(first, |span, _| span * 3 / 2);
    spread(grown.min(longest), seed.wrapping_add(u64::from(refusals)))
}

/// Returns a part of `span`, between nothing and all of it, which the seed decides.
#[must_use]
pub fn spread(span: Duration, seed: u64) -> Duration {
    span.mul_f64(f64::from(u32::try_from(mix(seed) >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX))
}

/// Mixes a seed with the finalizer of SplitMix64 (Steele, Lea, Flood 2014), so neighboring seeds give unrelated values.
fn mix(seed: u64) -> u64 {
    let z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_pause_is_at_least_half_and_at_most_all_of_its_step(failures in 0_u32..100, seed: u64) {
            let pause = after_failures(failures, seed);
            let full = FIRST.saturating_mul(1 << failures.min(16)).min(LONGEST);
            prop_assert!(pause >= full / 2 && pause <= full, "{pause:?} of {full:?}");
        }
    }

    #[test]
    fn neighboring_seeds_differ() {
        let span = Duration::from_secs(1);
        assert_ne!(spread(span, 1), spread(span, 2));
    }
}
