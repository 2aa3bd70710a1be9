//! `leasehold acquire` and `leasehold release --ticket`.

use std::io::Write;
use std::process::Stdio;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use nix::sys::signal::Signal;

use crate::fixture::{LIMIT, Running, outcome, told, verb};

#[test]
fn a_ticket_releases_what_another_command_acquired_once() {
    let server = RedisServer::start();
    for kind in [&[][..], &["--fair"], &["--fenced"]] {
        let words = [&["acquire", "deploy", "--valid", "1m"], kind].concat();
        let acquired = told(&server, &words);
        assert_eq!(acquired.code(), 0, "{acquired:?}");
        let ticket = acquired.out.trim();
        assert!(ticket.starts_with("lh1.") && acquired.out.lines().count() == 1, "{acquired:?}");
        assert_eq!(server.cli(&["EXISTS", "deploy"]), "1", "the lock outlives the command");
        assert_eq!(told(&server, &["acquire", "deploy", "--valid", "1m", "-n"]).code(), 1, "it is held");
        assert_eq!(told(&server, &["release", "--ticket", ticket]).code(), 0);
        assert_eq!(server.cli(&["EXISTS", "deploy"]), "0");
        let again = told(&server, &["release", "--ticket", ticket]);
        assert!(again.code() == 1 && again.err.contains("its ticket was used"), "{again:?}");
    }
}

#[test]
fn a_name_of_redisson_with_braces_is_acquired_and_released() {
    let server = RedisServer::start();
    let acquired = told(&server, &["acquire", "{a}:b", "--valid", "1m"]);
    assert_eq!(acquired.code(), 0, "{acquired:?}");
    assert_eq!(told(&server, &["release", "--ticket", acquired.out.trim()]).code(), 0);
    assert_eq!(server.cli(&["EXISTS", "{a}:b"]), "0");
}

#[test]
fn a_hold_shorter_than_the_ticket_is_a_wrong_argument() {
    let server = RedisServer::start();
    let mut acquire = verb(&server, &["acquire", "deploy", "--valid", "1h"]);
    acquire.env("LEASEHOLD_LOCK__MAX_HOLD", "10m");
    let refused = outcome(&mut acquire);
    assert!(refused.code() == 64 && refused.out.is_empty(), "{refused:?}");
    assert_eq!(server.cli(&["EXISTS", "deploy"]), "0");
}

#[test]
fn a_ticket_comes_from_standard_input() {
    let server = RedisServer::start();
    let ticket = told(&server, &["acquire", "deploy", "--valid", "1m"]).out;
    let mut release = verb(&server, &["release", "--ticket", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    release.stdin.take().unwrap().write_all(ticket.as_bytes()).unwrap();
    assert!(release.wait().unwrap().success());
    assert_eq!(server.cli(&["EXISTS", "deploy"]), "0");
}

#[test]
fn a_text_that_is_no_ticket_is_a_wrong_argument() {
    let server = RedisServer::start();
    for words in
        [&["release", "--ticket", "deploy"][..], &["release"], &["release", "deploy", "--ticket", "x"]]
    {
        assert_eq!(told(&server, words).code(), 64, "{words:?}");
    }
    // What is wrong with the words needs no server.
    for words in [&["release", "--ticket", "deploy"][..], &["acquire", "a}b", "--valid", "1m"]] {
        let mut away = verb(&server, words);
        assert_eq!(outcome(away.env("LEASEHOLD_URL", "redis://127.0.0.1:1")).code(), 64, "{words:?}");
    }
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing() {
    let server = RedisServer::start();
    let ticket = told(&server, &["acquire", "deploy", "--valid", "1m"]).out;
    let waiting = Running::start(&mut verb(&server, &["acquire", "deploy", "--valid", "1m"]));
    let channel = "redisson_lock__channel:{deploy}";
    eventually(LIMIT, "the wait", || server.cli(&["PUBSUB", "NUMSUB", channel]).lines().nth(1) == Some("1"));
    waiting.signal(Signal::SIGTERM);
    assert_eq!(waiting.outcome().code(), 143);
    assert_eq!(told(&server, &["release", "--ticket", ticket.trim()]).code(), 0);
    assert_eq!(server.cli(&["EXISTS", "deploy"]), "0");
}
