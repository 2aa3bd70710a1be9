//! Checks persistence: whether and when a write is on the disk.

use crate::doctor::facts::{Facts, Known};
use crate::doctor::finding::{Check, Finding};

const PERSISTENCE: Check = Check {
    name: "persistence",
    why: "a server that restarts without its data grants held locks again and repeats fencing tokens",
    assumption: Some("A6"),
};
const FSYNC: Check = Check {
    name: "fsync",
    why: "a power loss erases the writes since the last fsync, so locks granted since then are granted again",
    assumption: Some("A6"),
};
const STATE: Check = Check {
    name: "persistence-state",
    why: "a server whose last save failed refuses writes (MISCONF) or loses its locks when it restarts",
    assumption: Some("A6"),
};

pub(super) fn check(facts: &Facts) -> Vec<Finding> {
    let aof = aof(facts);
    let mut findings = vec![persistence(facts, &aof)];
    if aof == Known::Answered(true) {
        findings.push(fsync(facts));
    }
    findings.push(state(facts));
    findings
}

fn aof(facts: &Facts) -> Known<bool> {
    match facts.setting("appendonly") {
        Known::Answered(value) => Known::Answered(value == "yes"),
        _ => facts.field("aof_enabled").and_then(|value| Some(value == "1")),
    }
}

fn persistence(facts: &Facts, aof: &Known<bool>) -> Finding {
    let run = "CONFIG SET appendonly yes, then CONFIG REWRITE";
    match (aof, facts.setting("save")) {
        (Known::Answered(true), _) => PERSISTENCE.pass("the append-only file is on"),
        (Known::Answered(false), Known::Answered(save)) if !save.is_empty() => PERSISTENCE
            .warn(format!("snapshots only (save {save}); a crash loses every lock since the last one"), run),
        (Known::Answered(false), _) => PERSISTENCE
            .warn("the append-only file is off; keep a crashed server down for the longest lease", run),
        (gap, _) => PERSISTENCE.unknown(gap.gap("CONFIG GET or INFO"), "CONFIG GET appendonly"),
    }
}

fn fsync(facts: &Facts) -> Finding {
    let run = "CONFIG SET appendfsync always, then CONFIG REWRITE";
    match facts.setting("appendfsync") {
        Known::Answered(policy) if policy == "always" => FSYNC.pass("appendfsync is always"),
        Known::Answered(policy) if policy == "everysec" => {
            FSYNC.warn("appendfsync is everysec; a power loss erases up to a second of writes", run)
        }
        Known::Answered(policy) => FSYNC.warn(format!("appendfsync is {policy}"), run),
        gap => FSYNC.unknown(gap.gap("CONFIG GET"), "CONFIG GET appendfsync"),
    }
}

fn state(facts: &Facts) -> Finding {
    let fields = ["aof_last_write_status", "rdb_last_bgsave_status"];
    let values = fields.map(|field| (field, facts.field(field)));
    let failed = values.iter().find(|(_, value)| value.answered().is_some_and(|value| value != "ok"));
    match (failed, &values[0].1, &values[1].1) {
        (Some((field, value)), ..) => {
            let value = value.answered().map_or("", String::as_str);
            STATE.fail(format!("{field} is {value}"), "check the server's log and its disk")
        }
        (None, Known::Answered(_), _) | (None, _, Known::Answered(_)) => {
            STATE.pass("the last saves succeeded")
        }
        (None, gap, _) => STATE.unknown(gap.gap("INFO"), "INFO persistence"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{denied, healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn a_server_without_an_append_only_file_warns() {
        let of = |facts| verdict(&check(&facts), "persistence");
        assert_eq!(of(healthy()), Verdict::Pass);
        let off = healthy().set("appendonly", "no");
        assert_eq!(of(off.clone()), Verdict::Warn);
        assert!(check(&off.set("save", "60 1"))[0].found.contains("snapshots only (save 60 1)"));
        assert_eq!(of(denied()), Verdict::Unknown);
    }

    #[test]
    fn only_an_fsync_of_each_write_passes() {
        for (policy, expected) in
            [("always", Verdict::Pass), ("everysec", Verdict::Warn), ("no", Verdict::Warn)]
        {
            assert_eq!(verdict(&check(&healthy().set("appendfsync", policy)), "fsync"), expected, "{policy}");
        }
        assert!(check(&denied()).iter().all(|finding| finding.check != "fsync"));
    }

    #[test]
    fn a_failed_save_fails() {
        let of = |facts| verdict(&check(&facts), "persistence-state");
        assert_eq!(of(healthy()), Verdict::Pass);
        assert_eq!(of(healthy().info("rdb_last_bgsave_status", "err")), Verdict::Fail);
        assert_eq!(of(denied()), Verdict::Unknown);
    }
}
