//! The checks, one family per file, each a function of facts.

mod clients;
mod clock;
mod cluster;
mod durability;
#[cfg(test)]
mod fixture;
mod latency;
mod memory;
mod one_server;
mod reachable;
mod replicas;
mod rights;
mod scripts;
mod sentinels;
mod transport;
mod version;

use super::facts::{Facts, Fleet, Role};
use super::finding::Finding;

/// The checks of each server.
const OF_EACH: [fn(&Facts) -> Vec<Finding>; 6] =
    [memory::check, durability::check, clients::check, transport::check, clock::check, version::check];
/// The further checks of a master, which alone runs scripts for clients.
const OF_MASTERS: [fn(&Facts) -> Vec<Finding>; 6] =
    [replicas::check, cluster::check, scripts::check, one_server::check, rights::check, latency::check];

/// Makes all checks. The findings are grouped by server.
pub(crate) fn all(fleet: &Fleet) -> Vec<Finding> {
    let mut findings = reachable::check(fleet);
    findings.extend(sentinels::check(fleet));
    for facts in &fleet.nodes {
        let masters = if facts.role == Role::Master { &OF_MASTERS[..] } else { &[] };
        let of_node = OF_EACH.iter().chain(masters).flat_map(|check| check(facts));
        findings.extend(of_node.map(|finding| finding.on(&facts.node)));
    }
    findings
}
