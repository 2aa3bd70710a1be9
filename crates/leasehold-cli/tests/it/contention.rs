//! The contention for a lock: commands that get it, wait for it, and give up.

use std::fs;
use std::time::{Duration, Instant};

use leasehold_testkit::servers::RedisServer;
use nix::sys::signal::Signal;

use crate::fixture::{Folder, Running, is_locked, occupy, outcome, run, run_script, wait_for_renewal};

#[test]
fn the_lock_is_held_while_the_command_runs_and_free_afterwards() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo begun; {}", folder.wait_for("go"));
    let running = Running::start(&mut run_script(&server, &[], &script));
    running.wait_for_output("begun");
    assert!(is_locked(&server));
    folder.touch("go");
    assert_eq!(running.outcome().code(), 0);
    assert!(!is_locked(&server));
}

#[test]
fn without_a_wait_a_busy_lock_fails_at_once_and_runs_nothing() {
    let server = RedisServer::start();
    let folder = Folder::new();
    occupy(&server);
    let ran = folder.at("ran");
    for (options, code) in [
        (&["-n"][..], 1),
        (&["--nb"], 1),
        (&["--nonblock"], 1),
        (&["--wait", "0"], 1),
        (&["-n", "-E", "75"], 75),
        (&["-n", "--conflict-exit-code", "0"], 0),
        (&["-n", "-E", "255"], 255),
    ] {
        let ended = outcome(&mut run(&server, options, &["touch", &ran]));
        assert_eq!(ended.code(), code, "{options:?}: {ended:?}");
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""), "as silent as flock: {options:?}");
    }
    let ended = outcome(&mut run(&server, &["-n", "-v"], &["touch", &ran]));
    assert!(ended.err.contains("was not acquired"), "{ended:?}");
    assert!(!folder.has("ran"));
    assert_eq!(server.cli(&["HGETALL", crate::fixture::NAME]), "somebody:1\n1");
}

#[test]
fn a_wait_with_a_limit_fails_at_the_limit() {
    let server = RedisServer::start();
    let folder = Folder::new();
    occupy(&server);
    for (options, least) in
        [(&["--wait", "300ms"][..], 300), (&["-w", "0.25"], 250), (&["--timeout=0.2", "-E", "1"], 200)]
    {
        let begun = Instant::now();
        let ended = outcome(&mut run(&server, options, &["touch", &folder.at("ran")]));
        assert_eq!(ended.code(), 1, "{options:?}: {ended:?}");
        assert!(begun.elapsed() >= Duration::from_millis(least), "{options:?} did not wait");
    }
    assert!(!folder.has("ran"));
}

#[test]
fn a_waiting_wrapper_acquires_the_released_lock() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let log = folder.at("log");
    let first = format!("echo first >>{log}; echo begun; {}; echo end >>{log}", folder.wait_for("go"));
    let first = Running::start(&mut run_script(&server, &[], &first));
    first.wait_for_output("begun");
    let waiting: Vec<Running> = [&[][..], &["--wait", "1h"], &["--wait", "30"]]
        .into_iter()
        .map(|options: &[&str]| {
            let options = [options, &["-v"]].concat();
            Running::start(&mut run_script(&server, &options, &format!("echo next >>{log}")))
        })
        .collect();
    for waiter in &waiting {
        waiter.wait_for_output("waiting for the lock");
    }
    assert_eq!(fs::read_to_string(folder.path("log")).unwrap(), "first\n");
    folder.touch("go");
    assert_eq!(first.outcome().code(), 0);
    for waiter in waiting {
        let ended = waiter.outcome();
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
    assert_eq!(fs::read_to_string(folder.path("log")).unwrap(), "first\nend\nnext\nnext\nnext\n");
}

#[test]
fn sections_of_many_wrappers_never_overlap() {
    let server = RedisServer::start();
    let folder = Folder::new();
    // `mkdir` fails when another section is between it and `rmdir`.
    let section = format!("mkdir {0} && rmdir {0}", folder.at("inside"));
    let running: Vec<Running> =
        (0..12).map(|_| Running::start(&mut run_script(&server, &["--wait", "1m"], &section))).collect();
    for wrapper in running {
        let ended = wrapper.outcome();
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
    assert!(!is_locked(&server));
}

#[test]
fn the_lock_is_renewed_while_the_command_runs() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo begun; {}", folder.wait_for("go"));
    let running = Running::start(&mut run_script(&server, &["--lease", "3s"], &script));
    running.wait_for_output("begun");
    wait_for_renewal(&server);
    wait_for_renewal(&server);
    folder.touch("go");
    assert_eq!(running.outcome().code(), 0);
}

#[test]
fn a_killed_wrapper_frees_the_lock_within_its_lease() {
    let server = RedisServer::start();
    let running = Running::start(&mut run_script(&server, &["--lease", "2s"], "echo begun; sleep 1000"));
    running.wait_for_output("begun");
    running.signal(Signal::SIGKILL);
    let ended = outcome(&mut run(&server, &["--wait", "10s"], &["true"]));
    assert_eq!(ended.code(), 0, "{ended:?}");
}
