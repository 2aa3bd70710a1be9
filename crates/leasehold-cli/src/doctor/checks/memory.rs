//! Checks eviction and free memory.

use crate::doctor::facts::{Facts, Known};
use crate::doctor::finding::{Check, Finding};

const EVICTION: Check = Check {
    name: "eviction",
    why: "a server that evicts keys deletes held locks and fencing counters when its memory is full",
    assumption: Some("A3"),
};
const HEADROOM: Check = Check {
    name: "memory",
    why: "a server that is out of memory refuses every acquire; renewals and releases still succeed",
    assumption: Some("A3"),
};
/// The percentage of the memory limit above which the check warns.
const FULL: u64 = 80;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    vec![eviction(facts), headroom(facts)]
}

fn eviction(facts: &Facts) -> Finding {
    let policy = facts.setting_or_info("maxmemory-policy", "maxmemory_policy");
    let limit = facts.setting_or_info("maxmemory", "maxmemory");
    let run = "CONFIG SET maxmemory-policy noeviction";
    match (policy, limit) {
        (Known::Answered(policy), _) if policy == "noeviction" => {
            EVICTION.pass("maxmemory-policy is noeviction")
        }
        (Known::Answered(policy), Known::Answered(limit)) if limit == "0" => {
            EVICTION.warn(format!("maxmemory-policy is {policy}, without effect while maxmemory is 0"), run)
        }
        (Known::Answered(policy), _) => EVICTION.fail(format!("maxmemory-policy is {policy}"), run),
        (gap, _) => EVICTION.unknown(gap.gap("CONFIG GET or INFO"), "CONFIG GET maxmemory-policy"),
    }
}

fn headroom(facts: &Facts) -> Finding {
    let limit = facts.setting_or_info("maxmemory", "maxmemory").and_then(|limit| limit.parse::<u64>().ok());
    if limit == Known::Answered(0) {
        return HEADROOM.pass("maxmemory is 0, so the host's memory is the limit");
    }
    match limit.zip(facts.field_number("used_memory")) {
        Known::Answered((limit, used)) => {
            let percent = used.saturating_mul(100) / limit;
            let found = format!("{percent} % of maxmemory is used");
            let run = "CONFIG SET maxmemory with a larger limit, or another server for the locks";
            match percent {
                100.. => HEADROOM.fail(found, run),
                FULL.. => HEADROOM.warn(found, run),
                _ => HEADROOM.pass(found),
            }
        }
        gap => HEADROOM.unknown(gap.gap("INFO"), "INFO memory"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_server_that_evicts_fails() {
        let policy = |facts| verdict(&check(&facts), "eviction");
        assert_eq!(policy(healthy()), Verdict::Pass);
        assert_eq!(policy(healthy().set("maxmemory-policy", "allkeys-lru")), Verdict::Fail);
        assert_eq!(
            policy(healthy().set("maxmemory-policy", "volatile-ttl").set("maxmemory", "0")),
            Verdict::Warn
        );
        assert_eq!(policy(denied()), Verdict::Unknown);
    }

    #[test]
    fn info_tells_the_policy_where_config_does_not() {
        let facts = Facts { info: healthy().info, ..denied() }.info("maxmemory_policy", "allkeys-lru");
        assert_eq!(verdict(&check(&facts), "eviction"), Verdict::Fail);
    }

    #[test]
    fn memory_is_compared_with_its_limit() {
        let used = |used| verdict(&check(&healthy().info("used_memory", used)), "memory");
        assert_eq!(used("79999999"), Verdict::Pass);
        assert_eq!(used("80000000"), Verdict::Warn);
        assert_eq!(used("100000000"), Verdict::Fail);
        assert_eq!(verdict(&check(&denied()), "memory"), Verdict::Unknown);
    }
}
