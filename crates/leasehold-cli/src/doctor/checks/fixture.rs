//! The facts of the unit tests: a healthy server, which each test changes.

use std::collections::BTreeMap;

use leasehold_store::redis::Reach;

use crate::doctor::facts::{
    Behind, Clock, Facts, Fields, Known, Latency, Link, Percentiles, Rights, Role, Topology,
};
use crate::doctor::finding::{Finding, Verdict};

/// Returns the facts of a healthy single server.
pub(super) fn healthy() -> Facts {
    let info = [
        ("redis_version", "7.4.1"),
        ("used_memory", "1000000"),
        ("maxmemory", "100000000"),
        ("maxmemory_policy", "noeviction"),
        ("connected_clients", "10"),
        ("connected_slaves", "0"),
        ("aof_enabled", "1"),
        ("aof_last_write_status", "ok"),
        ("rdb_last_bgsave_status", "ok"),
    ];
    let settings = [
        ("maxmemory", "100000000"),
        ("maxmemory-policy", "noeviction"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
        ("save", ""),
        ("min-replicas-to-write", "0"),
        ("min-replicas-max-lag", "10"),
        ("maxclients", "10000"),
        ("timeout", "0"),
        ("tcp-keepalive", "300"),
        ("client-output-buffer-limit", "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
    ];
    let percentiles = Percentiles { p50_us: 100, p99_us: 200, max_us: 300 };
    Facts {
        node: "127.0.0.1:6379".into(),
        topology: Topology::Standalone,
        role: Role::Master,
        link: Link { is_encrypted: false, has_password: true, reach: Reach::Loopback },
        info: Known::Answered(info.into_iter().map(|(name, value)| (name.into(), value.into())).collect()),
        settings: settings
            .into_iter()
            .map(|(name, value)| (name, Known::Answered(value.to_owned())))
            .collect(),
        replaced_after_ms: None,
        cluster: None,
        clock: Known::Answered(Clock { ahead_ms: 2, error_ms: 1 }),
        script: Some(Ok(())),
        behind: Some(Behind::One),
        rights: Known::Answered(Rights { user: "default".into(), missing: Vec::new(), optional: Vec::new() }),
        native: None,
        operator: None,
        acl_line: "ACL SETUSER leasehold reset".into(),
        latency: Some(Ok(Latency { acquire: percentiles, release: percentiles, rounds: 50 })),
    }
}

/// Returns facts whose user may ask nothing.
pub(super) fn denied() -> Facts {
    let mut facts = healthy();
    facts.settings = facts.settings.into_keys().map(|name| (name, Known::Denied)).collect();
    Facts { info: Known::Denied, clock: Known::Denied, rights: Known::Denied, ..facts }
}

impl Facts {
    pub(super) fn set(mut self, name: &'static str, value: &str) -> Self {
        self.settings.insert(name, Known::Answered(value.to_owned()));
        self
    }

    pub(super) fn info(mut self, name: &str, value: &str) -> Self {
        if let Known::Answered(info) = &mut self.info {
            info.insert(name.to_owned(), value.to_owned());
        }
        self
    }
}

/// Returns fields.
pub(super) fn fields(pairs: &[(&str, &str)]) -> Fields {
    pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect::<BTreeMap<_, _>>()
}

/// Returns the verdict of the only finding of a check.
#[track_caller]
pub(super) fn verdict(findings: &[Finding], check: &str) -> Verdict {
    let mut of_check = findings.iter().filter(|finding| finding.check == check);
    let verdict = of_check.next().unwrap_or_else(|| panic!("no {check} in {findings:?}")).verdict;
    assert!(of_check.next().is_none(), "one {check} in {findings:?}");
    verdict
}
