//! Checks the replicas, their lag, and when a master without them stops accepting writes.

use crate::doctor::facts::{Facts, Fields, Known, Topology};
use crate::doctor::finding::{Check, Finding};

const REPLICAS: Check = Check {
    name: "replicas",
    why: "a failover needs a replica, and a lagging replica misses the newest locks",
    assumption: Some("A6"),
};
const MIN_REPLICAS: Check = Check {
    name: "min-replicas",
    why: "a master that is cut off from its replicas keeps granting locks after a replica has replaced it",
    assumption: Some("A6"),
};
/// The seconds of a replica's silence above which the check warns. A replica reports once a second.
const LAG_S: u64 = 2;

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    if facts.topology == Topology::Standalone && facts.field_number("connected_slaves") == Known::Answered(0)
    {
        return vec![REPLICAS.pass("a single server without replicas, so no failover")];
    }
    let mut findings = vec![replicas(facts)];
    if facts.topology != Topology::Standalone {
        findings.push(min_replicas(facts));
    }
    findings
}

fn replicas(facts: &Facts) -> Finding {
    let Known::Answered(info) = &facts.info else {
        return REPLICAS.unknown(facts.info.gap("INFO"), "INFO replication");
    };
    let replicas: Vec<Fields> = info
        .iter()
        .filter(|(name, _)| name.strip_prefix("slave").is_some_and(|rest| rest.parse::<u32>().is_ok()))
        .map(|(_, value)| replica(value))
        .collect();
    let count = replicas.len();
    let is = |name: &str, of: &Fields| of.get(name).cloned().unwrap_or_default();
    let offline = replicas.iter().filter(|of| is("state", of) != "online").count();
    let lag = replicas.iter().filter_map(|of| is("lag", of).parse::<u64>().ok()).max().unwrap_or_default();
    let run = "INFO replication, and check the replica's log";
    match (count, facts.topology) {
        (0, Topology::Standalone) => REPLICAS.unknown("INFO has no replicas section", "INFO replication"),
        (0, _) => {
            REPLICAS.fail("failover needs a replica, and none is connected", "REPLICAOF on another server")
        }
        _ if offline > 0 => REPLICAS.warn(format!("{offline} of {count} replicas are not online"), run),
        _ if lag > LAG_S => REPLICAS.warn(format!("a replica of {count} lags by {lag} s"), run),
        _ => REPLICAS.pass(format!("{count} online, largest lag {lag} s")),
    }
}

/// Reads the line of one replica: `ip=..,port=..,state=..,offset=..,lag=..`.
fn replica(line: &str) -> Fields {
    line.split(',').filter_map(|part| part.split_once('=')).map(|(k, v)| (k.into(), v.into())).collect()
}

fn min_replicas(facts: &Facts) -> Finding {
    let (to_write, lag_s) =
        match facts.number("min-replicas-to-write").zip(facts.number("min-replicas-max-lag")) {
            Known::Answered(both) => both,
            gap => return MIN_REPLICAS.unknown(gap.gap("CONFIG GET"), "CONFIG GET min-replicas-*"),
        };
    if to_write == 0 || lag_s == 0 {
        return MIN_REPLICAS.warn(
            format!("min-replicas-to-write is {to_write} and min-replicas-max-lag is {lag_s}, so the protection is \
                     off"),
            "CONFIG SET min-replicas-to-write 1, CONFIG SET min-replicas-max-lag 1",
        );
    }
    let detection = match facts.topology {
        Topology::Cluster => "cluster-node-timeout",
        _ => "down-after-milliseconds",
    };
    match &facts.replaced_after_ms {
        Some(Known::Answered(after_ms)) if (lag_s + 1) * 1000 < *after_ms => MIN_REPLICAS
            .pass(format!("min-replicas-max-lag {lag_s} s + 1 s is below {detection} {after_ms} ms")),
        Some(Known::Answered(after_ms)) => MIN_REPLICAS.warn(
            format!("min-replicas-max-lag {lag_s} s + 1 s is not below {detection} {after_ms} ms"),
            format!("set a smaller min-replicas-max-lag, or {detection} above {} ms", (lag_s + 1) * 1000),
        ),
        _ => MIN_REPLICAS.unknown(
            format!("min-replicas-max-lag is {lag_s} s, and {detection} is not known"),
            format!("compare it with {detection}, which must be above {} ms", (lag_s + 1) * 1000),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    fn fleet(line: &str, to_write: &str, lag: &str, down_after: u64) -> Facts {
        let facts = healthy().set("min-replicas-to-write", to_write).set("min-replicas-max-lag", lag);
        let facts = facts.info("slave0", line).info("connected_slaves", "1");
        let replaced_after_ms = Some(Known::Answered(down_after));
        Facts { topology: Topology::Sentinel, replaced_after_ms, ..facts }
    }

    const NEAR: &str = "ip=10.0.0.2,port=6379,state=online,offset=14,lag=0";

    #[test]
    fn replicas_must_be_online_and_near() {
        let of = |line| verdict(&check(&fleet(line, "1", "1", 5000)), "replicas");
        assert_eq!(of(NEAR), Verdict::Pass);
        assert_eq!(of("ip=10.0.0.2,port=6379,state=wait_bgsave,offset=0,lag=0"), Verdict::Warn);
        assert_eq!(of("ip=10.0.0.2,port=6379,state=online,offset=0,lag=9"), Verdict::Warn);
        let none = Facts { topology: Topology::Cluster, ..healthy() };
        assert_eq!(verdict(&check(&none), "replicas"), Verdict::Fail);
        assert_eq!(verdict(&check(&healthy()), "replicas"), Verdict::Pass);
        assert_eq!(verdict(&check(&denied()), "replicas"), Verdict::Unknown);
    }

    #[test]
    fn a_master_must_stop_before_it_is_replaced() {
        for (to_write, lag, down_after, expected) in [
            ("0", "10", 5000, Verdict::Warn),
            ("1", "10", 5000, Verdict::Warn),
            ("1", "1", 2000, Verdict::Warn),
            ("1", "1", 2001, Verdict::Pass),
        ] {
            let found = check(&fleet(NEAR, to_write, lag, down_after));
            assert_eq!(verdict(&found, "min-replicas"), expected, "{found:?}");
        }
        let unknown = Facts { topology: Topology::Cluster, ..denied() };
        assert_eq!(verdict(&check(&unknown), "min-replicas"), Verdict::Unknown);
    }
}
