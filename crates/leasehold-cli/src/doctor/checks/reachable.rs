//! Checks that the servers answer.

use crate::doctor::facts::{Fleet, Role};
use crate::doctor::finding::{Check, Finding};

const REACHABLE: Check = Check {
    name: "reachable",
    why: "without its server a client cannot acquire locks, and loses those that it holds",
    assumption: None,
};
const MAP: Check = Check {
    name: "cluster-map",
    why: "clients find the master of a lock with CLUSTER SHARDS",
    assumption: None,
};

pub(super) fn check(fleet: &Fleet) -> Vec<Finding> {
    let run =
        "start the server, or correct the address, the encryption (`rediss`), the login or the certificate";
    let gone = fleet.unreachable.iter();
    let gone = gone.map(|(node, reason)| REACHABLE.fail(reason.clone(), run).on(node));
    let here = fleet.nodes.iter().map(|facts| {
        let role = if facts.role == Role::Master { "a master" } else { "a replica" };
        REACHABLE.pass(format!("answers as {role}")).on(&facts.node)
    });
    let mut findings: Vec<_> = gone.chain(here).collect();
    if fleet.is_map_unknown {
        let run = "set cluster-enabled yes, and let the user run CLUSTER SHARDS (version 7.0 or later)";
        findings.push(MAP.fail("no seed node lists the nodes of a cluster", run).on(&fleet.url));
    }
    if fleet.nodes.is_empty() && fleet.unreachable.is_empty() {
        findings.push(REACHABLE.fail("no server is known", run).on(&fleet.url));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{healthy, verdict};
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn servers_that_do_not_answer_fail() {
        let fleet = |nodes, unreachable| Fleet {
            url: "redis://h".into(),
            sentinels: Vec::new(),
            nodes,
            unreachable,
            is_map_unknown: false,
        };
        assert_eq!(verdict(&check(&fleet(vec![healthy()], Vec::new())), "reachable"), Verdict::Pass);
        assert_eq!(verdict(&check(&fleet(Vec::new(), Vec::new())), "reachable"), Verdict::Fail);
        let gone = check(&fleet(Vec::new(), vec![("h:1".into(), "refused".into())]));
        assert_eq!((gone[0].node.as_str(), gone[0].verdict), ("h:1", Verdict::Fail));
        let mapless = Fleet { is_map_unknown: true, ..fleet(vec![healthy()], Vec::new()) };
        assert_eq!(verdict(&check(&mapless), "cluster-map"), Verdict::Fail);
    }
}
