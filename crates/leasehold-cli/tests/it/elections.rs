//! `leasehold elect`, `leader`, `transfer` and `resign`, with real processes.

use std::process::Command;
use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::Signal;

use crate::fixture::{LIMIT, Running, leasehold, outcome, told, verb};

/// A command that says its term, and ends well at SIGTERM.
const SERVE: &str =
    "trap 'echo ended; exit 0' TERM; echo \"term $LEASEHOLD_TERM\"; while :; do sleep 0.05; done";

fn elect(server: &RedisServer, candidate: &str, options: &[&str], script: &str) -> Command {
    let mut program = verb(server, &["elect", "-v", "--candidate", candidate]);
    program.args(options).args(["scheduler", "--", "sh", "-c", script]);
    program
}

/// Returns the terms that a program has said.
fn terms(out: &str) -> Vec<u64> {
    out.lines().filter_map(|line| line.strip_prefix("term ")?.parse().ok()).collect()
}

/// Waits until the command runs. The program itself says the term before that.
fn until_serving(leader: &Running) {
    eventually(LIMIT, "the command to say its term", || !terms(&leader.out()).is_empty());
}

/// Waits until a candidate is in the queue, with its attempts refused.
fn until_waiting(server: &RedisServer) {
    let channel = "redisson_lock__channel:{scheduler}";
    eventually(LIMIT, "the candidate to wait", || {
        server.cli(&["PUBSUB", "NUMSUB", channel]).lines().nth(1) == Some("1")
    });
}

#[test]
fn one_of_two_leads_and_the_other_follows_with_a_higher_term() {
    let server = RedisServer::start();
    let first = Running::start(&mut elect(&server, "a", &[], SERVE));
    until_serving(&first);
    let second = Running::start(&mut elect(&server, "b", &["--info", "1.4.2"], SERVE));
    until_waiting(&server);
    let led = told(&server, &["leader", "scheduler"]);
    assert_eq!(led.code(), 0, "{led:?}");
    assert!(led.out.starts_with("a, term ") && led.out.contains("process "), "{led:?}");
    // A client shows itself with its first renewal.
    eventually(LIMIT, "operators to see the leader", || {
        told(&server, &["show", "scheduler"]).out.contains("note: leads as a")
    });
    first.signal(Signal::SIGTERM);
    until_serving(&second);
    let ended = first.outcome();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.out.contains("ended"), "{ended:?}");
    assert!(terms(&second.out())[0] > terms(&ended.out)[0]);
    let led = told(&server, &["leader", "--json", "scheduler"]);
    let object: serde_json::Value = serde_json::from_str(&led.out).unwrap();
    assert_eq!((&object["candidate"], &object["info"]), (&"b".into(), &"1.4.2".into()), "{object}");
    second.signal(Signal::SIGTERM);
    assert_eq!(second.outcome().code(), 0);
    let free = told(&server, &["leader", "scheduler"]);
    assert_eq!((free.code(), free.out.as_str()), (1, "nobody leads\n"));
}

#[test]
fn a_transfer_and_a_resignation_are_asked_of_the_leader() {
    let server = RedisServer::start();
    assert_eq!(told(&server, &["resign", "scheduler"]).code(), 1, "nobody leads");
    let first = Running::start(&mut elect(&server, "a", &["--lease", "2s"], SERVE));
    until_serving(&first);
    let second = Running::start(&mut elect(&server, "b", &["--lease", "2s"], SERVE));
    until_waiting(&server);
    let moved = told(&server, &["transfer", "scheduler", "--to", "b"]);
    assert_eq!(moved.code(), 0, "{moved:?}");
    until_serving(&second);
    assert!(first.out().contains("ended"), "the old leader's command ended before");
    until_waiting(&server);
    let resigned = told(&server, &["resign", "scheduler"]);
    assert_eq!(resigned.code(), 0, "{resigned:?}");
    eventually(LIMIT, "the first to lead again", || terms(&first.out()).len() == 2);
    let terms = [terms(&first.out())[0], terms(&second.out())[0], terms(&first.out())[1]];
    assert!(terms.is_sorted() && terms[0] < terms[1] && terms[1] < terms[2], "{terms:?}");
}

#[test]
fn a_leader_that_is_killed_is_followed_after_its_lease_and_its_command_ends() {
    let server = RedisServer::start();
    let first = Running::start(&mut elect(&server, "a", &["--lease", "2s"], "echo pid $$; exec sleep 1000"));
    first.wait_for_output("pid ");
    let command: i32 = first.out().trim().strip_prefix("pid ").unwrap().parse().unwrap();
    let second = Running::start(&mut elect(&server, "b", &["--lease", "2s"], SERVE));
    until_waiting(&server);
    first.signal(Signal::SIGKILL);
    until_serving(&second);
    let is_gone = || nix::sys::signal::kill(nix::unistd::Pid::from_raw(command), None).is_err();
    assert!(is_gone(), "the watcher ends the command long before the lease is over");
}

#[test]
fn a_command_that_ends_by_itself_ends_the_candidacy_with_its_code() {
    let server = RedisServer::start();
    let ended = outcome(&mut elect(&server, "a", &[], "exit 7"));
    assert_eq!(ended.code(), 7, "{ended:?}");
    assert_eq!(told(&server, &["leader", "scheduler"]).code(), 1, "the term was released");
}

#[test]
fn a_lost_term_ends_the_command_and_once_ends_the_candidacy() {
    let server = RedisServer::start();
    let options = ["--lease", "3s", "--once"];
    let leader = Running::start(&mut elect(&server, "a", &options, SERVE));
    until_serving(&leader);
    assert_eq!(server.cli(&["DEL", "scheduler"]), "1");
    let ended = leader.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.err.contains("the lock was lost") && ended.out.contains("ended"), "{ended:?}");
}

#[test]
fn a_lost_term_is_followed_by_another_one() {
    let server = RedisServer::start();
    let leader = Running::start(&mut elect(&server, "a", &["--lease", "3s"], SERVE));
    until_serving(&leader);
    assert_eq!(server.cli(&["DEL", "scheduler"]), "1");
    eventually(LIMIT, "the second term", || terms(&leader.out()).len() == 2);
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.outcome().code(), 0);
}

#[test]
fn a_command_that_does_not_end_is_killed_after_its_grace_and_then_the_term_ends() {
    let server = RedisServer::start();
    let stubborn = "trap '' TERM; echo \"term $LEASEHOLD_TERM\"; while :; do sleep 0.05; done";
    let leader = Running::start(&mut elect(&server, "a", &["--grace", "300ms"], stubborn));
    until_serving(&leader);
    leader.signal(Signal::SIGTERM);
    let ended = leader.outcome();
    assert_eq!(ended.code(), 128 + 9, "{ended:?}");
    assert_eq!(told(&server, &["leader", "scheduler"]).code(), 1);
}

#[test]
fn a_signal_ends_a_candidate_that_waits_and_leaves_nothing() {
    let server = RedisServer::start();
    let leader = Running::start(&mut elect(&server, "a", &[], SERVE));
    until_serving(&leader);
    let waiting = Running::start(&mut elect(&server, "b", &[], SERVE));
    until_waiting(&server);
    waiting.signal(Signal::SIGINT);
    let ended = waiting.outcome();
    assert_eq!((ended.code(), ended.out.as_str()), (128 + 2, ""), "{ended:?}");
    assert_eq!(told(&server, &["leader", "scheduler"]).code(), 0, "the leader stays");
}

#[test]
fn each_change_of_the_leader_is_a_line() {
    let server = RedisServer::start();
    let watching = Running::start(&mut verb(&server, &["leader", "--watch", "scheduler"]));
    watching.wait_for_output("nobody leads");
    let leader = Running::start(&mut elect(&server, "a", &[], SERVE));
    watching.wait_for_output("a, term ");
    leader.signal(Signal::SIGTERM);
    eventually(LIMIT, "the end of the term", || watching.out().matches("nobody leads").count() == 2);
}

#[test]
fn a_leader_of_redisson_has_no_candidate_and_does_not_listen() {
    let server = RedisServer::start();
    let owner = "285475da-9152-4c83-822a-67ee2f116a79:57";
    let _ = server.cli(&["HSET", "scheduler", owner, "1"]);
    let _ = server.cli(&["PEXPIRE", "scheduler", "60000"]);
    let led = told(&server, &["leader", "scheduler"]);
    assert_eq!(led.code(), 0, "{led:?}");
    assert!(led.out.starts_with(&format!("owner {owner}")), "{led:?}");
    let asked = told(&server, &["resign", "scheduler"]);
    assert_eq!(asked.code(), 1, "{asked:?}");
    let options = ["--wait", "100ms"];
    assert_eq!(told(&server, &[&["transfer", "scheduler", "--to", "b"][..], &options].concat()).code(), 1);
}

#[test]
fn arguments_are_checked_before_the_server_is_asked() {
    let long = "x".repeat(513);
    for words in [
        &["elect", "--candidate", "", "scheduler", "--", "true"][..],
        &["elect", "--info", &long, "scheduler", "--", "true"],
        &["elect", "--priority", "21", "scheduler", "--", "true"],
        &["elect", "scheduler"],
        &["transfer", "scheduler"],
        &["leader", "sche\nduler"],
    ] {
        let mut program = leasehold();
        program.env("LEASEHOLD_URL", "redis://no-such-host.invalid").args(words);
        assert_eq!(outcome(&mut program).code(), 64, "{words:?}");
    }
}

#[test]
fn a_frozen_leader_is_followed_and_its_command_ends_before() {
    let server = RedisServer::start();
    let first = Running::start(&mut elect(
        &server,
        "a",
        &["--lease", "2s", "--grace", "200ms"],
        "echo pid $$; exec sleep 1000",
    ));
    first.wait_for_output("pid ");
    let command: i32 = first.out().trim().strip_prefix("pid ").unwrap().parse().unwrap();
    let second = Running::start(&mut elect(&server, "b", &["--lease", "2s"], SERVE));
    until_waiting(&server);
    first.signal(Signal::SIGSTOP);
    until_serving(&second);
    eventually(Duration::from_secs(5), "the end of the frozen leader's command", || {
        let stat = std::fs::read_to_string(format!("/proc/{command}/stat")).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
    first.signal(Signal::SIGCONT);
    until_waiting(&server);
    second.signal(Signal::SIGTERM);
    assert_eq!(second.outcome().code(), 0);
}
