//! The transcripts of `README.md`, made anew and compared.
//!
//! Numbers, ids, ports and host names differ from run to run, so both sides have a word in place of each.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

const SOON: Duration = Duration::from_secs(30);

/// A process of an incident, which ends with its value.
struct Process(Child);

impl Process {
    fn start(server: &RedisServer, words: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_incident"));
        command.args(words).env("LEASEHOLD_URL", server.url());
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }

    /// Ends it without a word to the server.
    fn crash(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command, and returns what it prints.
fn operator(server: &RedisServer, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_operator"));
    let output =
        command.args(words).env("LEASEHOLD_URL", server.url()).stdin(Stdio::null()).output().unwrap();
    format!("{}{}", String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// Returns the output of a command in the page.
fn printed(command: &str) -> String {
    let page = include_str!("../README.md");
    let prompt = format!("$ leasehold {command}\n");
    let (_, behind) = page.split_once(&prompt).unwrap_or_else(|| panic!("the page does not run {command}"));
    behind.lines().take_while(|line| !line.starts_with("$ ") && *line != "```").collect::<Vec<_>>().join("\n")
}

/// Replaces what differs from run to run.
fn plain(text: &str) -> String {
    let word = |word: &str| {
        let letters = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let is_process = word.contains('@');
        let is_number = letters.starts_with(|letter: char| letter.is_ascii_digit());
        let is_id = letters.len() >= 36 && letters.matches('-').count() == 4;
        match (is_process, is_number || is_id) {
            (true, _) => format!("{}@", word.split('@').next().unwrap_or_default()),
            (_, true) => "#".to_owned(),
            _ => word.to_owned(),
        }
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.trim_end().lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Compares a command with the page, once its output has these words.
fn compare(server: &RedisServer, command: &str, wanted: &[&str]) {
    let words: Vec<&str> = command.split(' ').collect();
    let has_all = || {
        let output = operator(server, &words);
        wanted.iter().all(|word| output.contains(word))
    };
    eventually(SOON, command, has_all);
    let output = operator(server, &words);
    assert_eq!(
        plain(&output),
        plain(&printed(command)),
        "the page is not what `{command}` prints:\n{output}"
    );
}

#[test]
fn a_slow_holder_is_found_by_its_note() {
    let server = RedisServer::start();
    let _slow = Process::start(&server, &["slow"]);
    eventually(SOON, "the hold", || server.cli(&["EXISTS", "catalog"]) == "1");
    let _web = Process::start(&server, &["wait", "catalog"]);
    compare(&server, "list", &["file 3 of 9"]);
    compare(&server, "show catalog", &["file 3 of 9", "web@"]);
}

#[test]
fn two_processes_that_wait_for_each_other_are_named() {
    let server = RedisServer::start();
    let held = |name: &str| eventually(SOON, "the hold", || server.cli(&["EXISTS", name]) == "1");
    let _one = Process::start(&server, &["cycle", "invoice", "account"]);
    held("invoice");
    let _other = Process::start(&server, &["cycle", "account", "invoice"]);
    held("account");
    compare(&server, "show invoice", &["process-cycle"]);
}

#[test]
fn a_client_that_died_with_a_long_lease_is_named_and_its_hold_released() {
    let server = RedisServer::start();
    let dead = Process::start(&server, &["die"]);
    let registered = || server.cli(&["ZCARD", "leasehold_clients:{}"]) == "1";
    eventually(SOON, "the card", || server.cli(&["EXISTS", "nightly"]) == "1" && registered());
    dead.crash();
    compare(&server, "show nightly", &["reports@", "does not listen"]);
    let released = operator(&server, &["release", "nightly", "--yes"]);
    assert!(released.contains("released"), "{released}");
    assert_eq!(server.cli(&["EXISTS", "nightly"]), "0");
}
