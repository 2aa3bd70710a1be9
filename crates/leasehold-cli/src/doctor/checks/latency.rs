//! Checks how long an acquire and a release take.

use crate::doctor::facts::{Facts, Latency, Percentiles};
use crate::doctor::finding::{Check, Finding};

const LATENCY: Check = Check {
    name: "latency",
    why: "each acquire, renewal and release waits for one reply, and a lease counts from before its call was sent",
    assumption: None,
};
/// The 99th percentile above which the check warns: a tenth of the shortest call timeout that is usual.
const SLOW_US: u128 = 100_000;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let finding = match &facts.latency {
        None => return Vec::new(),
        Some(Err(reason)) => LATENCY.fail(
            format!("the scratch lock failed: {reason}"),
            format!("see the checks scripts and rights; {}", facts.acl_line),
        ),
        Some(Ok(latency)) => {
            let found = shown(latency);
            if latency.acquire.p99_us.max(latency.release.p99_us) > SLOW_US {
                LATENCY.warn(
                    found,
                    "SLOWLOG GET and LATENCY DOCTOR on the server, and check the network in between",
                )
            } else {
                LATENCY.pass(found)
            }
        }
    };
    vec![finding]
}

fn shown(Latency { acquire, release, rounds }: &Latency) -> String {
    let of = |Percentiles { p50_us, p99_us, max_us }: &Percentiles| {
        format!("p50 {p50_us} us, p99 {p99_us} us, max {max_us} us")
    };
    format!("acquire {}; release {} ({rounds} rounds)", of(acquire), of(release))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn slow_scripts_warn_and_failing_ones_fail() {
        let of = |p99_us| {
            let release = Percentiles { p50_us: 1, p99_us, max_us: p99_us };
            let acquire = Percentiles { p99_us: 1, ..release };
            let latency = Some(Ok(Latency { acquire, release, rounds: 50 }));
            verdict(&check(&Facts { latency, ..healthy() }), "latency")
        };
        assert_eq!(of(SLOW_US), Verdict::Pass);
        assert_eq!(of(SLOW_US + 1), Verdict::Warn);
        let failed = check(&Facts { latency: Some(Err("timeout".into())), ..healthy() });
        assert_eq!(verdict(&failed, "latency"), Verdict::Fail);
    }
}
