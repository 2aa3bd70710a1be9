//! The shrinker, which finds a small set of faults that reproduces a violation.
//!
//! Invariant: the returned plan still breaks the same promise.

use std::sync::Arc;

use crate::plan::Plan;
use crate::runner::{Outcome, run_plan};

/// The largest number of runs.
const RUNS_MAX: usize = 200;

/// Returns the plan with as few faults as possible that still breaks the promise of `broken`.
#[must_use]
pub(crate) fn shrink(plan: &Plan, broken: &Outcome) -> Plan {
    let id = broken.violation.as_ref().map(|violation| violation.id.clone());
    let still_breaks = |plan: &Plan| {
        let outcome = run_plan(&Arc::new(plan.clone()));
        outcome.violation.map(|violation| violation.id) == id
    };
    let mut best = plan.clone();
    let mut runs = 0;
    let mut place = 0;
    while place < best.faults.len() && runs < RUNS_MAX {
        let mut fewer = best.clone();
        fewer.faults.remove(place);
        runs += 1;
        if still_breaks(&fewer) {
            best = fewer;
            place = 0;
        } else {
            place += 1;
        }
    }
    best
}

/// Returns a plan with only the faults of these numbers, as the report of a violation gives them.
#[must_use]
pub(crate) fn only(plan: &Plan, numbers: &[usize]) -> Plan {
    let mut plan = plan.clone();
    let mut index = 0;
    plan.faults.retain(|_| {
        index += 1;
        numbers.contains(&(index - 1))
    });
    plan
}

/// Returns the numbers, in the whole plan, of the faults that are left in a shrunk plan.
#[must_use]
pub(crate) fn numbers(whole: &Plan, shrunk: &Plan) -> Vec<usize> {
    let mut left = shrunk.faults.iter().peekable();
    let kept = |(number, fault)| (left.next_if(|next| *next == fault).is_some()).then_some(number);
    whole.faults.iter().enumerate().filter_map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::Mode;
    use crate::recorder::Violation;

    fn with_faults(at_least: usize) -> Plan {
        let plans = (1..).map(|seed| Plan::from_seed(seed, Mode::Single));
        plans.into_iter().find(|plan| plan.faults.len() >= at_least).expect("some seed has so many")
    }

    #[test]
    fn remaining_faults_keep_their_original_numbers() {
        let whole = with_faults(5);
        let few = only(&whole, &[1, 4]);
        assert_eq!((few.faults.len(), numbers(&whole, &few)), (2, vec![1, 4]));
        assert_eq!(numbers(&whole, &only(&whole, &[])), Vec::<usize>::new());
    }

    #[test]
    fn a_plan_that_breaks_another_promise_is_rejected() {
        let plan = with_faults(3);
        let mut broken = run_plan(&Arc::new(plan.clone()));
        assert_eq!(broken.violation, None);
        broken.violation = Some(Violation { at: broken.simulated, id: "M".into(), what: String::new() });
        assert_eq!(shrink(&plan, &broken).faults, plan.faults);
    }
}
