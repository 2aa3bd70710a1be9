//! The wrapper does not run while its command does.

use std::time::{Duration, Instant};

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{
    Folder, LIMIT, Running, children, is_alive, is_locked, number, outcome, run, run_script, state,
    wait_for_renewal, watcher_of,
};

/// A lease short enough that its end comes soon, and long enough for a busy machine.
const LEASE: [&str; 2] = ["--lease", "3s"];
const WORK: &str = "echo pid=$$; echo begun; while :; do sleep 0.01; done";

/// Starts a command and waits for at least one renewal, so that the wrapper has sent a second deadline.
fn begun(server: &RedisServer, options: &[&str], script: &str) -> (Running, i32) {
    let running = Running::start(&mut run_script(server, &[&LEASE, options].concat(), script));
    running.wait_for_output("begun");
    wait_for_renewal(server);
    let pid = number(&running.out(), "pid");
    (running, pid)
}

#[test]
fn a_stopped_wrapper_never_runs_its_command_under_the_next_holders_lock() {
    let server = RedisServer::start();
    for round in 0..6 {
        let (running, pid) = begun(&server, &["--on-lost", "kill"], WORK);
        running.signal(Signal::SIGSTOP);
        // A command that ended is a zombie while its parent is stopped.
        let look = format!("echo state=$(cut -d' ' -f3 /proc/{pid}/stat)");
        let ended = outcome(&mut run_script(&server, &LEASE, &look));
        assert_eq!(ended.out, "state=Z\n", "round {round}: the first command has ended: {ended:?}");
        running.signal(Signal::SIGCONT);
        let ended = running.outcome();
        assert_eq!(ended.code(), 79, "{ended:?}");
        assert!(ended.err.contains("the lock was lost"), "{ended:?}");
    }
}

#[test]
fn the_command_of_a_stopped_wrapper_gets_term_at_the_deadline_and_kill_after_the_grace() {
    let server = RedisServer::start();
    let deaf = "trap 'echo got TERM' TERM; echo pid=$$; echo begun; while :; do sleep 0.01; done";
    let (running, pid) = begun(&server, &["--grace", "2s"], deaf);
    running.signal(Signal::SIGSTOP);
    running.wait_for_output("got TERM");
    let told = Instant::now();
    eventually(LIMIT, "the end of the grace", || !is_alive_or_zombie(pid));
    assert!(told.elapsed() >= Duration::from_millis(1_500), "the grace was given: {:?}", told.elapsed());
    assert_eq!(running.out().matches("got TERM").count(), 1);
    running.signal(Signal::SIGCONT);
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert_eq!(ended.out.matches("got TERM").count(), 1, "told once: {ended:?}");
}

/// Returns true if the process exists and runs. A stopped parent leaves zombies.
fn is_alive_or_zombie(pid: i32) -> bool {
    is_alive(pid) && state(pid) != 'Z'
}

#[test]
fn a_command_that_cleans_up_after_its_wrapper_stopped_gets_one_signal() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script =
        format!("trap 'echo got TERM; {}; echo cleaned up; exit 4' TERM; {WORK}", folder.wait_for("go"));
    let (running, _) = begun(&server, &["--grace", "1h"], &script);
    running.signal(Signal::SIGSTOP);
    running.wait_for_output("got TERM");
    running.signal(Signal::SIGCONT);
    running.wait_for_output("the lock was lost");
    folder.touch("go");
    let ended = running.outcome();
    assert_eq!(ended.code(), 79, "{ended:?}");
    assert_eq!(ended.out.matches("got TERM").count(), 1, "{ended:?}");
    assert!(ended.out.contains("cleaned up"), "{ended:?}");
}

#[test]
fn a_stopped_command_receives_the_term_of_its_stopped_wrapper() {
    let server = RedisServer::start();
    let script = format!("trap 'echo got TERM; exit 4' TERM; {WORK}");
    let (running, pid) = begun(&server, &["--grace", "1h"], &script);
    running.signal(Signal::SIGSTOP);
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    running.wait_for_output("got TERM");
    running.signal(Signal::SIGCONT);
    assert_eq!(running.outcome().code(), 79);
}

#[test]
fn a_wrapper_that_stops_during_the_grace_does_not_prolong_it() {
    let server = RedisServer::start();
    let deaf = "trap 'echo got TERM' TERM; echo pid=$$; echo begun; while :; do sleep 0.01; done";
    let (running, pid) = begun(&server, &["--grace", "1s"], deaf);
    crate::fixture::delete(&server);
    running.wait_for_output("got TERM");
    running.signal(Signal::SIGSTOP);
    eventually(LIMIT, "the end of the command", || !is_alive_or_zombie(pid));
    running.signal(Signal::SIGCONT);
    assert_eq!(running.outcome().code(), 79);
}

#[test]
fn a_wrapper_stopped_for_less_than_the_lease_continues() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo pid=$$; echo begun; {}; exit 6", folder.wait_for("go"));
    let (running, _) = begun(&server, &[], &script);
    running.signal(Signal::SIGSTOP);
    eventually(LIMIT, "a stopped wrapper", || state(running.pid().as_raw()) == 'T');
    running.signal(Signal::SIGCONT);
    for _ in 0..3 {
        wait_for_renewal(&server);
    }
    folder.touch("go");
    let ended = running.outcome();
    assert_eq!((ended.code(), ended.err.as_str()), (6, ""), "{ended:?}");
}

#[test]
fn a_command_that_runs_for_many_leases_gets_no_signal() {
    let server = RedisServer::start();
    for on_lost in ["term", "kill"] {
        let folder = Folder::new();
        let script = format!("echo pid=$$; echo begun; {}; exit 6", folder.wait_for("go"));
        let (running, pid) = begun(&server, &["--on-lost", on_lost], &script);
        for _ in 0..5 {
            wait_for_renewal(&server);
        }
        assert!(is_alive(pid));
        folder.touch("go");
        assert_eq!(running.outcome().code(), 6, "{on_lost}");
    }
}

#[test]
fn on_lost_ignore_lets_the_command_of_a_stopped_wrapper_continue() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo pid=$$; echo begun; {}; exit 4", folder.wait_for("go"));
    let (running, pid) = begun(&server, &["--on-lost", "ignore"], &script);
    running.signal(Signal::SIGSTOP);
    let ended = outcome(&mut run(&server, &LEASE, &["true"]));
    assert_eq!(ended.code(), 0, "another holder came after the lease: {ended:?}");
    assert!(is_alive_or_zombie(pid));
    running.signal(Signal::SIGCONT);
    folder.touch("go");
    assert_eq!(running.outcome().code(), 4);
}

#[test]
fn a_stopped_watcher_acts_on_the_latest_message() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo pid=$$; echo begun; {}; exit 6", folder.wait_for("go"));
    let (running, pid) = begun(&server, &[], &script);
    let watcher = watcher_of(&running, pid);
    kill(watcher, Signal::SIGSTOP).unwrap();
    // The wrapper continues the watcher with its next orders.
    for _ in 0..5 {
        wait_for_renewal(&server);
    }
    eventually(LIMIT, "a watcher that goes on", || state(watcher.as_raw()) != 'T');
    assert!(is_alive(pid));
    folder.touch("go");
    assert_eq!(running.outcome().code(), 6);
}

#[test]
fn killing_a_stopped_wrapper_kills_its_command() {
    let server = RedisServer::start();
    let (running, pid) = begun(&server, &[], WORK);
    let helpers = children(running.pid());
    running.signal(Signal::SIGSTOP);
    running.signal(Signal::SIGKILL);
    for pid in helpers.into_iter().chain([pid]) {
        eventually(LIMIT, "the end of all", || !is_alive(pid));
    }
}

#[test]
fn a_full_stderr_neither_ends_the_command_nor_hides_a_loss() {
    let server = RedisServer::start();
    // The pipe has no reader, so the command fills it, and the wrapper's thread blocks in its next message.
    let folder = Folder::new();
    let script = format!(
        "echo pid=$$; echo begun; {}; head -c 1000000 /dev/zero >&2 & {}; exit 6",
        folder.wait_for("fill"),
        folder.wait_for("go")
    );
    let mut program = run_script(&server, &[&LEASE[..], &["-v", "--on-lost", "kill"]].concat(), &script);
    let (running, unread) = Running::start_with_unread_stderr(&mut program);
    eventually(LIMIT, "its begin", || running.out().contains("begun"));
    let pid = number(&running.out(), "pid");
    folder.touch("fill");
    // The pipe's last page may be full when its first is not.
    eventually(LIMIT, "a full pipe", || rustix::io::ioctl_fionread(&unread).unwrap() > 14 * 4096);
    wait_for_renewal(&server);
    // The message about this signal blocks the wrapper.
    running.signal(Signal::SIGWINCH);
    for _ in 0..4 {
        wait_for_renewal(&server);
    }
    assert!(is_alive_or_zombie(pid), "the lock is held all the time");
    crate::fixture::delete(&server);
    eventually(LIMIT, "the end of the command", || !is_alive_or_zombie(pid));
    assert!(!is_locked(&server));
}
