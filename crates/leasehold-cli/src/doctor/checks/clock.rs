//! Checks the server's clock against the clock of this machine.

use crate::doctor::facts::{Clock, Facts, Known};
use crate::doctor::finding::{Check, Finding};

const CLOCK: Check = Check {
    name: "clock",
    why: "a lease runs by the server's wall clock, and after a failover by the clock of the promoted replica",
    assumption: Some("A1"),
};
/// The drift that the default lease of 30 s allows: 1 % and 2 ms.
const DRIFT_MS: i64 = 302;
/// The default lease. A replica that is ahead by this much has no lock after its promotion.
const LEASE_MS: i64 = 30_000;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Known::Answered(Clock { ahead_ms, error_ms }) = facts.clock else {
        return vec![CLOCK.unknown(facts.clock.gap("TIME"), "TIME, compared with the clock of this machine")];
    };
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    let found = format!("{} ms {side} this machine, give or take {error_ms} ms", ahead_ms.abs());
    let run = "time synchronization (chrony, NTP) on the server and on this machine";
    let least_ms = ahead_ms.abs() - error_ms;
    let finding = if least_ms >= LEASE_MS {
        CLOCK.fail(found, run)
    } else if least_ms > DRIFT_MS {
        CLOCK.warn(found, run)
    } else {
        CLOCK.pass(found)
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_clock_is_judged_beyond_the_error_of_the_measurement() {
        for (ahead_ms, expected) in [
            (302, Verdict::Pass),
            (-312, Verdict::Pass),
            (313, Verdict::Warn),
            (-30_009, Verdict::Warn),
            (30_010, Verdict::Fail),
        ] {
            let clock = Known::Answered(Clock { ahead_ms, error_ms: 10 });
            assert_eq!(verdict(&check(&Facts { clock, ..healthy() }), "clock"), expected, "{ahead_ms}");
        }
        assert_eq!(verdict(&check(&denied()), "clock"), Verdict::Unknown);
    }
}
