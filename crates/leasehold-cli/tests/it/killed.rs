//! The wrapper is killed, or ends and leaves processes behind.

use std::fs;
use std::time::{Duration, Instant};

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::fixture::{Folder, LIMIT, Running, children, is_alive, leasehold, number, run_script, watcher_of};

/// Returns the processes with this text in their command line.
fn with_argument(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

#[test]
fn killing_the_wrapper_kills_the_command_and_its_children() {
    let server = RedisServer::start();
    let script = "trap '' TERM HUP INT; echo pid=$$; sh -c 'echo child=$$; \
                  sh -c \"echo grandchild=\\$\\$; echo begun; while :; do sleep 1000; done\" & wait' & wait";
    let running = Running::start(&mut run_script(&server, &[], script));
    running.wait_for_output("begun");
    let family = ["pid", "child", "grandchild"].map(|label| number(&running.out(), label));
    assert!(family.iter().all(|&pid| is_alive(pid)));
    let helpers = children(running.pid());
    assert_eq!(helpers.len(), 2, "the command and the watcher");
    running.signal(Signal::SIGKILL);
    for pid in family.into_iter().chain(helpers) {
        eventually(LIMIT, &format!("the end of {pid}"), || !is_alive(pid));
    }
}

#[test]
fn killing_a_wrapper_of_a_wrapper_kills_the_innermost_command() {
    let server = RedisServer::start();
    let inner = format!(
        "{} run inner -- sh -c 'echo pid=$$; echo begun; sleep 1000'",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let running = Running::start(&mut run_script(&server, &[], &inner));
    running.wait_for_output("begun");
    let innermost = number(&running.out(), "pid");
    running.signal(Signal::SIGKILL);
    eventually(LIMIT, "the end of the innermost command", || !is_alive(innermost));
}

#[test]
fn a_stopped_command_dies_with_its_wrapper_too() {
    let server = RedisServer::start();
    let script = "echo pid=$$; sh -c 'echo child=$$; kill -STOP $$' & kill -STOP $$";
    let running = Running::start(&mut run_script(&server, &[], script));
    running.wait_for_output("child=");
    let family = ["pid", "child"].map(|label| number(&running.out(), label));
    running.signal(Signal::SIGKILL);
    for pid in family {
        eventually(LIMIT, &format!("the end of {pid}"), || !is_alive(pid));
    }
}

#[test]
fn the_watcher_kills_grandchildren_after_the_command_has_ended() {
    let server = RedisServer::start();
    // The first process of the group ends. The wrapper is stopped, so it cannot know, and is killed then.
    let script = "(trap '' HUP; echo left=$(exec sh -c 'echo $PPID'); echo begun; while :; do sleep 0.01; done) & \
                  echo pid=$$; while :; do sleep 0.01; done";
    let running = Running::start(&mut run_script(&server, &[], script));
    running.wait_for_output("begun");
    running.wait_for_output("pid=");
    let (first, left) = (number(&running.out(), "pid"), number(&running.out(), "left"));
    running.signal(Signal::SIGSTOP);
    kill(Pid::from_raw(first), Signal::SIGKILL).unwrap();
    assert!(is_alive(left));
    running.signal(Signal::SIGKILL);
    eventually(LIMIT, "the end of what was left", || !is_alive(left));
}

/// A script that prints the ids of its first process and of that process's child. Only SIGKILL ends them.
const FAMILY: &str = "trap '' TERM HUP INT; \
    (echo child=$(exec sh -c 'echo $PPID'); echo begun; while :; do sleep 0.01; done) & \
    echo pid=$$; wait";

#[test]
fn the_watcher_ignores_the_signals_that_stop_a_service() {
    let server = RedisServer::start();
    let running = Running::start(&mut run_script(&server, &[], FAMILY));
    running.wait_for_output("begun");
    running.wait_for_output("pid=");
    let (command, child) = (number(&running.out(), "pid"), number(&running.out(), "child"));
    let watcher = watcher_of(&running, command);
    let environment = fs::read_to_string(format!("/proc/{watcher}/environ")).unwrap();
    assert!(!environment.contains("LEASEHOLD_URL"), "no secrets where no program needs them");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1] {
        kill(watcher, signal).unwrap();
    }
    running.signal(Signal::SIGKILL);
    for pid in [command, child, watcher.as_raw()] {
        eventually(LIMIT, &format!("the end of {pid}"), || !is_alive(pid));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_command_dies_with_its_wrapper_even_without_a_watcher() {
    let server = RedisServer::start();
    let running = Running::start(&mut run_script(&server, &[], FAMILY));
    running.wait_for_output("begun");
    running.wait_for_output("pid=");
    let (command, child) = (number(&running.out(), "pid"), number(&running.out(), "child"));
    kill(watcher_of(&running, command), Signal::SIGKILL).unwrap();
    running.signal(Signal::SIGKILL);
    eventually(LIMIT, "the end of the command", || !is_alive(command));
    kill(Pid::from_raw(child), Signal::SIGKILL).unwrap();
}

#[test]
fn a_wrapper_killed_at_any_time_leaves_nothing_running() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let marker = folder.at("marker");
    // The delays reach from the first instruction to the running command, so some of them hit every step of the start.
    for step in 0..60 {
        let script = format!(": {marker}; while :; do sleep 0.01; done");
        // Each round has its own lock, because the killed wrapper keeps its lock for a lease.
        let mut program = leasehold();
        program.env("LEASEHOLD_URL", server.url()).args(["run", &format!("lock:{step}"), "--"]);
        let running = Running::start(program.args(["sh", "-c", &script]));
        // The time selects the moment under test. The test awaits nothing by it.
        let (begun, strike_at) = (Instant::now(), Duration::from_micros(500 * step));
        while begun.elapsed() < strike_at {
            std::thread::yield_now();
        }
        running.signal(Signal::SIGKILL);
    }
    eventually(LIMIT, "the end of everything", || with_argument(&marker).is_empty());
}

#[test]
fn background_processes_survive_the_command_and_the_watcher_exits() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!(
        "(echo left=$(exec sh -c 'echo $PPID'); echo begun; while :; do sleep 0.01; done) & echo pid=$$; {}",
        folder.wait_for("go")
    );
    let running = Running::start(&mut run_script(&server, &[], &script));
    running.wait_for_output("begun");
    running.wait_for_output("pid=");
    let (group, left) = (number(&running.out(), "pid"), number(&running.out(), "left"));
    let helpers = children(running.pid());
    folder.touch("go");
    let ended = running.outcome();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(is_alive(left), "it may go on");
    killpg(Pid::from_raw(group), Signal::SIGKILL).unwrap();
    for pid in helpers {
        assert!(!is_alive(pid), "{pid} ended before the wrapper");
    }
}
