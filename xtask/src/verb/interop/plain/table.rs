//! The table of what each peer has shown.
//!
//! Invariant: a scenario without a row of this run is not called a success.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::peers::Peer;
use crate::toolchains::{Workshop, versions};

/// The scenarios in the order of the columns, with their titles.
const SCENARIOS: [(&str, &str); 10] = [
    ("a_peer_hands_over_to_rust", "peer to Rust"),
    ("rust_hands_over_to_a_peer", "Rust to peer"),
    ("a_killed_peer_blocks_rust_for_its_lease", "peer killed: Rust has it"),
    ("a_killed_rust_process_blocks_a_peer_for_its_lease", "Rust killed: peer has it"),
    ("rust_learns_that_its_key_was_deleted", "key deleted under Rust"),
    ("a_peer_whose_key_was_deleted_leaves_rust_alone", "key deleted under the peer: Rust has it"),
    ("rust_leaves_a_key_alone_that_a_peer_set_again", "key set again"),
    ("a_hold_without_expiry_is_awaited_or_reported", "key without an expiry"),
    ("a_poller_gets_its_share_beside_busy_clients", "grants of the peer beside two busy clients"),
    ("a_crowd_loses_no_count", "crowd: counts of the peers + Rust"),
];
/// The cell of a scenario that did not run, or failed.
const MISSING: &str = "-";

/// Returns the folder in which the tests leave a file for each scenario of a peer.
pub(super) fn folder(workshop: &Workshop) -> PathBuf {
    workshop.folder.join("rows")
}

/// Writes `target/plain-peers.md`, and returns its text.
pub(super) fn write(workshop: &Workshop, peers: &[&Peer]) -> Result<String> {
    let mut rows = Vec::new();
    for peer in peers {
        let version = versions::of(peer.language, peer.package, workshop)?;
        rows.push((format!("{} {version}", peer.title), seen(&folder(workshop), peer.name)));
    }
    let text = format(&rows);
    let path = workshop.root.join("target/plain-peers.md");
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(text)
}

/// Reads the cells of a peer.
fn seen(folder: &Path, name: &str) -> Vec<String> {
    let cell = |scenario: &str| fs::read_to_string(folder.join(format!("{name}.{scenario}")));
    SCENARIOS.iter().map(|(scenario, _)| cell(scenario).unwrap_or_else(|_| MISSING.to_owned())).collect()
}

fn format(rows: &[(String, Vec<String>)]) -> String {
    let titles: Vec<&str> = SCENARIOS.iter().map(|(_, title)| *title).collect();
    let mut text = format!("| peer | {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len() + 1));
    for (peer, cells) in rows {
        let _ = writeln!(text, "| {peer} | {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_did_not_run_has_a_dash() {
        let cells = seen(Path::new("/no such folder"), "redsync");
        let text = format(&[("redsync 4".to_owned(), cells)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("| peer | peer to Rust | "));
        assert_eq!(lines[1].matches("---").count(), SCENARIOS.len() + 1);
        assert_eq!(lines[2], format!("| redsync 4 |{}", " - |".repeat(SCENARIOS.len())));
    }
}
