//! Waiters without an outcome, and outcomes after the end of the wait.

use crate::attempt::Attempt;

/// The waits of all attempts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waits {
    /// The number of attempts.
    pub attempts: u64,
    /// The number of grants.
    pub grants: u64,
    /// The number of failed attempts.
    pub failed: u64,
    /// The number of attempts without an outcome, of workers that ended by themselves.
    pub stuck: u64,
    /// The longest time from the end of a wait to its outcome.
    pub latest: u64,
}

/// Sums the waits up.
#[must_use]
pub fn waits(attempts: &[Attempt]) -> Waits {
    let mut waits = Waits::default();
    for attempt in attempts {
        waits.attempts += 1;
        waits.grants += u64::from(attempt.hold.is_some());
        waits.failed += u64::from(attempt.failed);
        match attempt.answered {
            None => waits.stuck += 1,
            Some(answered) => {
                waits.latest = waits.latest.max(answered.saturating_sub(attempt.at + attempt.wait));
            }
        }
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_without_an_outcome_is_stuck() {
        let mut stuck = Attempt::example(0, 10, 20);
        (stuck.hold, stuck.answered) = (None, None);
        let mut late = Attempt::example(0, 10, 20);
        late.answered = Some(late.at + late.wait + 7);
        let expected = Waits { attempts: 2, grants: 1, failed: 0, stuck: 1, latest: 7 };
        assert_eq!(waits(&[stuck, late]), expected);
    }
}
