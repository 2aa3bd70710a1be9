//! Signals to the wrapper.

use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::fixture::{
    Folder, LIMIT, NAME, Running, delete, is_locked, leasehold, number, occupy, run, run_script, shell,
    state, wait_for_renewal,
};

const FORWARDED: [Signal; 7] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
];

#[test]
fn signals_reach_the_command() {
    let server = RedisServer::start();
    for signal in FORWARDED {
        let name = signal.as_str().trim_start_matches("SIG");
        let script =
            format!("trap 'echo got {name}; exit 9' {name}; echo begun; while :; do sleep 0.01; done");
        let running = Running::start(&mut run_script(&server, &[], &script));
        running.wait_for_output("begun");
        running.signal(signal);
        let ended = running.outcome();
        assert_eq!((ended.code(), ended.out.contains(&format!("got {name}"))), (9, true), "{ended:?}");
        assert!(!is_locked(&server));
    }
}

#[test]
fn signals_reach_each_process_of_the_commands_group() {
    let server = RedisServer::start();
    let script =
        "sh -c 'trap \"echo inner; exit\" TERM; echo begun; while :; do sleep 0.01; done'; echo outer";
    let script = format!("trap 'echo trapped' TERM; {script}");
    let running = Running::start(&mut run_script(&server, &[], &script));
    running.wait_for_output("begun");
    running.signal(Signal::SIGTERM);
    let ended = running.outcome();
    assert!(["inner", "trapped", "outer"].iter().all(|word| ended.out.contains(word)), "{ended:?}");
    assert_eq!(ended.code(), 0, "{ended:?}");
}

#[test]
fn a_signal_ends_a_command_without_a_handler() {
    let server = RedisServer::start();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let running = Running::start(&mut run_script(&server, &[], "echo begun; exec sleep 1000"));
        running.wait_for_output("begun");
        running.signal(signal);
        let ended = running.outcome();
        assert_eq!(ended.code(), 128 + signal as i32, "{ended:?}");
        assert!(!is_locked(&server));
    }
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing_locked() {
    let server = RedisServer::start();
    for signal in &FORWARDED[..6] {
        let folder = Folder::new();
        occupy(&server);
        let running = Running::start(&mut run(&server, &["-v"], &["touch", &folder.at("ran")]));
        running.wait_for_output("waiting for the lock");
        running.signal(*signal);
        let ended = running.outcome();
        assert_eq!(ended.code(), 128 + *signal as i32, "{ended:?}");
        assert!(!folder.has("ran"));
        assert_eq!(server.cli(&["HGETALL", NAME]), "somebody:1\n1");
        delete(&server);
        assert_eq!(server.cli(&["DBSIZE"]), "0");
    }
}

#[test]
fn a_signal_while_the_server_is_frozen_ends_the_wait() {
    let server = RedisServer::start();
    occupy(&server);
    let running = Running::start(&mut run(&server, &["-v"], &["true"]));
    running.wait_for_output("waiting for the lock");
    server.freeze();
    running.signal(Signal::SIGTERM);
    let ended = running.outcome();
    server.thaw();
    assert_eq!(ended.code(), 143, "{ended:?}");
}

#[test]
fn a_signal_undoes_a_grant_in_flight() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    occupy(&server);
    let mut program = run(&server, &["-v", "--lease", "1h"], &["true"]);
    let running = Running::start(program.env("LEASEHOLD_URL", proxy.url()));
    running.wait_for_output("waiting for the lock");
    eventually(LIMIT, "a waiter that listens", || server.cli(&["PUBSUB", "CHANNELS"]).contains(NAME));
    proxy.hold_replies(true);
    delete(&server);
    eventually(LIMIT, "a grant that no client received", || is_locked(&server));
    running.signal(Signal::SIGTERM);
    running.wait_for_output("while waiting for the lock");
    proxy.hold_replies(false);
    let ended = running.outcome();
    assert_eq!(ended.code(), 143, "{ended:?}");
    assert!(!is_locked(&server), "the wrapper has seen to it before it ended");
}

#[test]
fn a_signal_that_the_caller_ignores_is_ignored() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let wrapper = leasehold().get_program().to_str().unwrap().to_owned();
    let script =
        format!("trap '' HUP; exec {wrapper} run {NAME} -- sh -c 'echo begun; {}'", folder.wait_for("go"));
    let mut shell = shell();
    let running = Running::start(shell.args(["-c", &script]).env("LEASEHOLD_URL", server.url()));
    running.wait_for_output("begun");
    running.signal(Signal::SIGHUP);
    folder.touch("go");
    assert_eq!(running.outcome().code(), 0);
}

#[test]
fn a_stopped_command_keeps_its_lock_until_it_is_continued() {
    let server = RedisServer::start();
    // A shell that is about to start a program may ignore stops (vfork). A waiting shell does not.
    let script = "trap 'echo woken; exit 7' USR1; echo pid=$$; sleep 60 & echo begun; wait";
    for stop in [Signal::SIGSTOP, Signal::SIGTSTP] {
        let running = Running::start(&mut run_script(&server, &["--lease", "3s"], script));
        running.wait_for_output("begun");
        let pid = number(&running.out(), "pid");
        match stop {
            Signal::SIGTSTP => running.signal(stop),
            _ => kill(Pid::from_raw(pid), stop).unwrap(),
        }
        eventually(LIMIT, "a stopped command", || state(pid) == 'T');
        wait_for_renewal(&server);
        assert_ne!(state(running.pid().as_raw()), 'T');
        running.signal(Signal::SIGCONT);
        eventually(LIMIT, "a command that goes on", || state(pid) != 'T');
        running.signal(Signal::SIGUSR1);
        let ended = running.outcome();
        assert_eq!((ended.code(), ended.out.contains("woken")), (7, true), "{ended:?}");
    }
}
