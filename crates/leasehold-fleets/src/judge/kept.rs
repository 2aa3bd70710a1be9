//! Holds that a client gave up although the fleet had kept them.

use super::probes::probes;
use crate::attempt::{Attempt, Lost};
use crate::clock::SECOND;
use crate::fault::{Fault, Topology};
use crate::faults::{Course, cause};
use crate::policy::Policy;

/// The time in which a client renews a hold once the servers serve it again: a call that runs out of time, and another one.
const RENEWS_WITHIN: u64 = 2 * SECOND;

/// The age at which a client of several servers has the votes of all of them. A vote that is still on its way to the
/// client when another server loses its vote does not keep the hold.
const VOTES_WITHIN: u64 = SECOND;

/// A loss of a hold that the servers still had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptLoss {
    /// The policy of the holder.
    pub policy: Policy,
    /// The last fault before the loss.
    pub fault: Option<Fault>,
    /// The name of the lock.
    pub name: String,
    /// The time of the loss.
    pub at: u64,
    /// The reason that the client gave.
    pub reason: String,
}

/// Finds each hold that was lost while the server that serves its name after the fault still had it, other than by its
/// own terms. A hold that no renewal reached in time counts only if the servers had granted a lock to the probe of the same
/// client after the fault, and two seconds before the loss.
#[must_use]
pub fn kept_losses(attempts: &[Attempt], courses: &[Course], topology: Topology) -> Vec<KeptLoss> {
    let probes = probes(attempts);
    let is_served = |attempt: &Attempt, from: u64, to: u64| {
        let granted = probes.get(&(attempt.policy, attempt.worker));
        granted.is_some_and(|granted| granted.iter().any(|&at| from < at && at < to))
    };
    let mut found = Vec::new();
    for attempt in attempts {
        let Some(hold) = &attempt.hold else { continue };
        let Some(lost) = &hold.lost else { continue };
        let has_votes = topology != Topology::Independent || lost.at - hold.from > VOTES_WITHIN;
        let course = cause(courses, lost.at);
        let could_renew = match (lost.reason.as_str(), course) {
            ("TakenOver" | "Deleted", _) => true,
            ("Unreachable", Some(course)) => {
                is_served(attempt, course.ready(attempt.policy), lost.at.saturating_sub(RENEWS_WITHIN))
            }
            _ => false,
        };
        if has_votes && could_renew && is_kept(lost, course, topology) {
            found.push(KeptLoss {
                policy: attempt.policy,
                fault: course.map(|course| course.fault),
                name: attempt.name.clone(),
                at: lost.at,
                reason: lost.reason.clone(),
            });
        }
    }
    found
}

fn is_kept(lost: &Lost, course: Option<&Course>, topology: Topology) -> bool {
    let serves = |port: &&u16| course.is_none_or(|course| course.masters.contains(*port));
    let least = if topology == Topology::Independent { 2 } else { 1 };
    lost.kept_by.iter().filter(serves).count() >= least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Kind;

    fn course() -> Course {
        Course {
            fault: Fault::MasterKilled,
            began: 100,
            serves: 200,
            settled: 300,
            masters: vec![7902],
            in_flight: 0,
        }
    }

    fn lost(at: u64, reason: &str, kept_by: &[u16]) -> Attempt {
        let mut attempt = Attempt::example(0, 10, 50);
        attempt.example_hold().lost =
            Some(Lost { at, reason: reason.into(), still_valid: false, kept_by: kept_by.to_vec() });
        attempt
    }

    fn found(attempt: Attempt, topology: Topology) -> usize {
        kept_losses(&[attempt], &[course()], topology).len()
    }

    #[test]
    fn a_hold_that_the_new_master_has_must_not_be_lost() {
        assert_eq!(found(lost(250, "Deleted", &[7902]), Topology::Sentinel), 1);
        assert_eq!(found(lost(250, "TakenOver", &[7901, 7902]), Topology::Sentinel), 1);
        assert_eq!(
            found(lost(250, "Deleted", &[7901]), Topology::Sentinel),
            0,
            "the old master alone has it"
        );
        assert_eq!(found(lost(250, "MaxHold", &[7902]), Topology::Sentinel), 0, "its own terms");
    }

    #[test]
    fn a_hold_that_nothing_reached_counts_once_the_servers_have_served_its_client_for_long_enough() {
        let late = 260 + RENEWS_WITHIN;
        let found = |at, probed| {
            let mut probe = Attempt::example(0, probed, probed + 1);
            probe.kind = Kind::Probe;
            let attempts = [lost(at, "Unreachable", &[7902]), probe];
            kept_losses(&attempts, &[course()], Topology::Sentinel).len()
        };
        assert_eq!(found(late, 250), 1);
        assert_eq!(found(late, 190), 0, "the servers served before the fault alone");
        assert_eq!(found(late - 20, 250), 0, "a renewal may still be on its way");
    }

    #[test]
    fn one_server_of_a_majority_does_not_keep_a_hold() {
        let mut both = course();
        both.masters = vec![7901, 7902, 7903];
        let old = 250 + VOTES_WITHIN;
        let found = |at, ports: &[u16]| {
            kept_losses(&[lost(at, "Deleted", ports)], &[both.clone()], Topology::Independent).len()
        };
        assert_eq!(found(old, &[7902]), 0);
        assert_eq!(found(old, &[7902, 7903]), 1);
        assert_eq!(found(250, &[7902, 7903]), 0, "a vote may still be on its way");
    }
}
