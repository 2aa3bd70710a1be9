//! Losses of holds, and their lateness.

use std::collections::BTreeMap;

use crate::attempt::Attempt;
use crate::policy::Policy;

/// The losses of one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// The number of losses by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The longest time from the last sight of a valid guard to the loss. Two looks are 5 ms apart.
    pub latest: u64,
    /// The number of losses of guards that were still valid.
    pub premature: u64,
}

/// Sums the losses of each policy up.
#[must_use]
pub fn losses(attempts: &[Attempt]) -> BTreeMap<Policy, Losses> {
    let mut all: BTreeMap<Policy, Losses> = BTreeMap::new();
    for attempt in attempts {
        let Some(hold) = &attempt.hold else { continue };
        let Some(lost) = &hold.lost else { continue };
        let losses = all.entry(attempt.policy).or_default();
        *losses.reasons.entry(lost.reason.clone()).or_default() += 1;
        losses.latest = losses.latest.max(lost.at - hold.seen);
        losses.premature += u64::from(lost.still_valid);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Lost;

    #[test]
    fn losses_are_summed_up() {
        let lost = |at, still_valid| {
            let mut attempt = Attempt::example(0, 10, 50);
            attempt.example_hold().lost =
                Some(Lost { at, reason: "Deleted".into(), still_valid, kept_by: vec![] });
            attempt
        };
        let all = losses(&[lost(52, false), lost(60, true), Attempt::example(1, 70, 80)]);
        let expected =
            Losses { reasons: BTreeMap::from([("Deleted".to_owned(), 2)]), latest: 10, premature: 1 };
        assert_eq!(all[&Policy::Replicated], expected);
    }
}
