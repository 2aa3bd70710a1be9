//! The lock is lost while the command runs.

use std::time::{Duration, Instant};

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::Signal;

use crate::fixture::{Folder, LIMIT, Running, delete, is_alive, is_locked, number, run_script};

/// A lease short enough that a loss shows soon, because the watchdog renews every third of it, and long enough for a
/// busy machine.
const SHORT: &str = "3s";
/// A script that works until it is stopped.
const WORK: &str = "echo pid=$$; echo begun; while :; do sleep 0.01; done";

fn begun(server: &RedisServer, options: &[&str], script: &str) -> Running {
    let running = Running::start(&mut run_script(server, options, script));
    running.wait_for_output("begun");
    running
}

#[test]
fn a_deleted_lock_ends_the_command_with_term_and_79() {
    let server = RedisServer::start();
    let script = format!("trap 'echo cleaned up; exit 0' TERM; {WORK}");
    let running = begun(&server, &["--lease", SHORT], &script);
    delete(&server);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.out.contains("cleaned up"), "{ended:?}");
    assert!(ended.err.contains("the lock was lost: it was deleted on the server"), "{ended:?}");
}

#[test]
fn a_lock_taken_over_ends_the_command_and_stays_with_the_new_holder() {
    let server = RedisServer::start();
    let running = begun(&server, &["--lease", SHORT], WORK);
    // One step, so that no renewal comes in between.
    let take = "redis.call('DEL', KEYS[1]); redis.call('HSET', KEYS[1], 'other:1', 1); \
                return redis.call('PEXPIRE', KEYS[1], 600000)";
    assert_eq!(server.cli(&["EVAL", take, "1", crate::fixture::NAME]), "1");
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.err.contains("another owner holds it"), "{ended:?}");
    assert_eq!(server.cli(&["HGETALL", crate::fixture::NAME]), "other:1\n1");
}

#[test]
fn a_command_that_ignores_term_is_killed_after_the_grace_period() {
    let server = RedisServer::start();
    let script = format!("trap '' TERM; {WORK}");
    let running = begun(&server, &["--lease", SHORT, "--grace", "2s"], &script);
    let (deleted, pid) = (Instant::now(), number(&running.out(), "pid"));
    delete(&server);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(deleted.elapsed() >= Duration::from_secs(2), "the grace was given: {:?}", deleted.elapsed());
    assert!(ended.err.contains("the grace period is over"), "{ended:?}");
    assert!(!is_alive(pid));
}

#[test]
fn the_process_group_shares_the_grace_period_and_ends_with_it() {
    let server = RedisServer::start();
    // The first process ends at once, the second cleans up, the third ignores the signal.
    let script = "(trap '' TERM; echo deaf=$(exec sh -c 'echo $PPID'); while :; do sleep 0.01; done) & \
                  (trap 'echo cleaned up; exit' TERM; echo tidy=1; while :; do sleep 0.01; done) & \
                  while :; do sleep 0.01; done";
    let running = Running::start(&mut run_script(&server, &["--lease", SHORT, "--grace", "2s"], script));
    running.wait_for_output("deaf=");
    running.wait_for_output("tidy=");
    delete(&server);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.out.contains("cleaned up"), "{ended:?}");
    let deaf = number(&ended.out, "deaf");
    eventually(LIMIT, "the end of the deaf process", || !is_alive(deaf));
}

#[test]
fn on_lost_kill_gives_no_grace_period() {
    let server = RedisServer::start();
    let script = format!("trap 'echo cleaned up; exit 0' TERM; {WORK}");
    let running = begun(&server, &["--lease", SHORT, "--on-lost", "kill", "--grace", "1h"], &script);
    delete(&server);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(!ended.out.contains("cleaned up"), "{ended:?}");
}

#[test]
fn on_lost_ignore_lets_the_command_continue_with_a_warning() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo begun; {}; exit 4", folder.wait_for("go"));
    let running = begun(&server, &["--lease", SHORT, "--on-lost", "ignore"], &script);
    delete(&server);
    running.wait_for_output("the lock was lost");
    folder.touch("go");
    let ended = running.outcome();
    assert_eq!(ended.code(), 4, "{ended:?}");
    assert!(ended.err.contains("continues without it"), "{ended:?}");
}

#[test]
fn a_loss_found_at_the_release_is_79_too() {
    let server = RedisServer::start();
    for (on_lost, code) in [("term", 79), ("kill", 79), ("ignore", 3)] {
        let folder = Folder::new();
        let script = format!("echo begun; {}; exit 3", folder.wait_for("go"));
        let running = begun(&server, &["--lease", "1h", "--on-lost", on_lost], &script);
        delete(&server);
        folder.touch("go");
        let ended = running.outcome();
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.err.contains("the lock was lost before the command ended with 3"), "{ended:?}");
    }
}

#[test]
fn max_hold_ends_the_command_and_frees_the_lock() {
    let server = RedisServer::start();
    let running = begun(&server, &["--max-hold", "2s"], WORK);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.err.contains("the lock was lost: --max-hold is over"), "{ended:?}");
    eventually(Duration::from_secs(5), "a free lock", || !is_locked(&server));
}

#[test]
fn max_hold_does_not_affect_a_shorter_command() {
    let server = RedisServer::start();
    let ended = Running::start(&mut run_script(&server, &["--max-hold", "1h"], "exit 2")).outcome();
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(!is_locked(&server));
}

#[test]
fn a_frozen_server_ends_the_command_when_the_lease_is_over() {
    let server = RedisServer::start();
    let running = begun(&server, &["--lease", SHORT], WORK);
    let pid = number(&running.out(), "pid");
    server.freeze();
    running.wait_for_output("the lock was lost: no renewal was confirmed");
    eventually(LIMIT, "the end of the command while the server is frozen", || !is_alive(pid));
    server.thaw();
    assert_eq!(running.outcome().code(), 79);
}

#[test]
fn an_unconfirmed_release_warns_and_keeps_the_exit_code() {
    let mut server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo begun; {}; exit 3", folder.wait_for("go"));
    let running = begun(&server, &["--lease", "1h"], &script);
    server.kill();
    folder.touch("go");
    let ended = running.outcome();
    assert_eq!(ended.code(), 3, "{ended:?}");
    assert!(ended.err.contains("not confirmed: the server cannot be reached (connection refused); the client keeps trying, and the hold ends within "), "{ended:?}");
}

#[test]
fn signals_reach_the_remaining_group_during_the_grace_period() {
    let server = RedisServer::start();
    // The first process ends at once, the second on SIGUSR1.
    let script = "(trap '' TERM; trap 'echo got USR1; exit' USR1; echo ready=1; while :; do sleep 0.01; done) & \
                  echo pid=$$; while :; do sleep 0.01; done";
    let running = Running::start(&mut run_script(&server, &["--lease", SHORT, "--grace", "1h"], script));
    running.wait_for_output("ready=");
    running.wait_for_output("pid=");
    let pid = number(&running.out(), "pid");
    delete(&server);
    eventually(LIMIT, "the end of the first process", || !is_alive(pid));
    running.signal(Signal::SIGUSR1);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert!(ended.out.contains("got USR1"), "{ended:?}");
}
