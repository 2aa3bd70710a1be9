//! Checks that a cluster serves all slots and has sharded channels.

use crate::doctor::facts::{Facts, Known};
use crate::doctor::finding::{Check, Finding};

const COVERAGE: Check = Check {
    name: "cluster-coverage",
    why: "a lock in a slot that no master serves cannot be acquired, renewed or released",
    assumption: None,
};
const SHARDED: Check = Check {
    name: "sharded-pubsub",
    why: "before version 7 every node of the cluster receives every wake-up",
    assumption: None,
};
/// The slots of a cluster.
const SLOTS: u64 = 16384;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let Some(cluster) = &facts.cluster else { return Vec::new() };
    let Known::Answered(of) = cluster else {
        return vec![COVERAGE.unknown(cluster.gap("CLUSTER INFO"), "CLUSTER INFO"), sharded(facts)];
    };
    let number = |name: &str| of.get(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or_default();
    let (state, ok) = (of.get("cluster_state").map_or("unknown", String::as_str), number("cluster_slots_ok"));
    let stops_as_a_whole =
        facts.setting("cluster-require-full-coverage") == Known::Answered("yes".to_owned());
    let whole =
        if stops_as_a_whole { "; one slot without a master would stop the locks of all slots" } else { "" };
    let found = format!("cluster_state is {state}, {ok} of {SLOTS} slots are served{whole}");
    let coverage = if state == "ok" && ok == SLOTS {
        COVERAGE.pass(found)
    } else {
        COVERAGE.fail(found, "redis-cli --cluster check, then redis-cli --cluster fix")
    };
    vec![coverage, sharded(facts)]
}

fn sharded(facts: &Facts) -> Finding {
    let version = facts.field("redis_version");
    let major = version.clone().and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (major, version) {
        (Known::Answered(7..), _) => SHARDED.pass("the server has sharded channels"),
        (Known::Answered(_), Known::Answered(version)) => SHARDED.warn(
            format!("version {version} has no sharded channels"),
            "use a server of version 7.0 or later",
        ),
        (gap, _) => SHARDED.unknown(gap.gap("INFO"), "INFO server"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{fields, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    fn of(cluster: Known<&[(&str, &str)]>) -> Vec<Finding> {
        check(&Facts { cluster: Some(cluster.and_then(|pairs| Some(fields(pairs)))), ..healthy() })
    }

    #[test]
    fn every_slot_must_be_served() {
        let coverage = |cluster| verdict(&of(cluster), "cluster-coverage");
        let ok = Known::Answered(&[("cluster_state", "ok"), ("cluster_slots_ok", "16384")][..]);
        assert_eq!(coverage(ok), Verdict::Pass);
        let partial = Known::Answered(&[("cluster_state", "ok"), ("cluster_slots_ok", "16383")][..]);
        assert_eq!(coverage(partial), Verdict::Fail);
        assert_eq!(coverage(Known::Denied), Verdict::Unknown);
        assert!(check(&healthy()).is_empty());
    }

    #[test]
    fn a_cluster_that_stops_as_a_whole_is_told() {
        let ok = || Some(Known::Answered(fields(&[("cluster_state", "ok"), ("cluster_slots_ok", "16384")])));
        let found = |value| {
            let facts = healthy().set("cluster-require-full-coverage", value);
            check(&Facts { cluster: ok(), ..facts })[0].found.clone()
        };
        assert!(found("yes").ends_with("would stop the locks of all slots"), "{}", found("yes"));
        assert!(found("no").ends_with("slots are served"), "{}", found("no"));
    }

    #[test]
    fn channels_are_sharded_from_version_7() {
        let of = |version| {
            let facts = healthy().info("redis_version", version);
            verdict(&check(&Facts { cluster: Some(Known::Missing), ..facts }), "sharded-pubsub")
        };
        assert_eq!(of("7.0.15"), Verdict::Pass);
        assert_eq!(of("6.2.14"), Verdict::Warn);
        assert_eq!(of("?"), Verdict::Unknown);
    }
}
