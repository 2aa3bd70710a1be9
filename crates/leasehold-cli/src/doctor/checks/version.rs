//! Checks the server's version for known defects.

use crate::doctor::facts::{Facts, Known, Topology};
use crate::doctor::finding::{Check, Finding};

const VERSION: Check = Check {
    name: "version",
    why: "before 7.0 a replica receives the remaining time of a lease, and counts it from the arrival",
    assumption: Some("A1"),
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let valkey = facts.field("valkey_version");
    let (name, version) = match valkey {
        Known::Answered(version) => ("Valkey", Known::Answered(version)),
        _ => ("Redis", facts.field("redis_version")),
    };
    let Known::Answered(version) = version else {
        return vec![VERSION.unknown(version.gap("INFO"), "INFO server")];
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let finding = match major {
        Some(0..7) if facts.topology != Topology::Standalone => {
            let found = format!("{name} {version}; a promoted replica may hold a lock beyond its lease");
            VERSION.warn(found, "use a server of version 7.0 or later")
        }
        Some(_) => VERSION.pass(format!("{name} {version}")),
        None => VERSION.unknown(format!("{name} has the version {version:?}"), "INFO server"),
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_fleet_before_version_7_warns() {
        let of = |version, topology| {
            let facts = Facts { topology, ..healthy() }.info("redis_version", version);
            verdict(&check(&facts), "version")
        };
        assert_eq!(of("6.2.14", Topology::Sentinel), Verdict::Warn);
        assert_eq!(of("6.2.14", Topology::Standalone), Verdict::Pass);
        assert_eq!(of("7.0.0", Topology::Cluster), Verdict::Pass);
        assert_eq!(of("new", Topology::Cluster), Verdict::Unknown);
        assert_eq!(verdict(&check(&denied()), "version"), Verdict::Unknown);
        let valkey = healthy().info("valkey_version", "9.1.2");
        assert_eq!(check(&valkey)[0].found, "Valkey 9.1.2");
    }
}
