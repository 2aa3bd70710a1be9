//! The environment of the command, the same with the wrapper as without it.

use std::fs::File;

use leasehold_testkit::servers::RedisServer;
use nix::unistd::getpgrp;

use crate::fixture::{Folder, NAME, Outcome, Running, leasehold, number, outcome, run, run_script, shell};

#[test]
fn the_command_receives_the_name_and_owner_of_the_lock() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!(
        "echo name=$LEASEHOLD_NAME; echo owner=$LEASEHOLD_OWNER; echo begun; {}",
        folder.wait_for("go")
    );
    let running = Running::start(&mut run_script(&server, &[], &script));
    running.wait_for_output("begun");
    let field = server.cli(&["HKEYS", NAME]);
    folder.touch("go");
    let ended = running.outcome();
    assert!(ended.out.contains(&format!("name={NAME}\nowner={field}\n")), "{field:?} in {ended:?}");
    assert!(field.contains(':'), "{field:?} is an owner");
}

#[test]
fn arguments_arrive_as_they_are_without_a_shell() {
    let server = RedisServer::start();
    let arguments = ["a b", "$HOME", "*", "", "-n", "--", "'quoted\"", "`id`", "\\"];
    let ended = outcome(&mut run(&server, &[], &[&["printf", "<%s>"], &arguments[..]].concat()));
    let expected: String = arguments.iter().map(|argument| format!("<{argument}>")).collect();
    assert_eq!(ended.out, expected);
}

#[test]
fn stdin_is_inherited() {
    let server = RedisServer::start();
    let folder = Folder::new();
    std::fs::write(folder.path("input"), "line 1\nline 2\n").unwrap();
    let mut program = run(&server, &[], &["cat"]);
    let ended = outcome(program.stdin(File::open(folder.path("input")).unwrap()));
    assert_eq!((ended.code(), ended.out.as_str()), (0, "line 1\nline 2\n"), "{ended:?}");
}

#[test]
fn the_command_leads_its_own_process_group() {
    let server = RedisServer::start();
    // The fifth field is the process group. The reader of the file is a child of the shell, in the same group.
    let ended =
        outcome(&mut run_script(&server, &[], "echo shell=$$; echo group=$(cut -d' ' -f5 /proc/$$/stat)"));
    assert_eq!(number(&ended.out, "group"), number(&ended.out, "shell"));
    assert_ne!(number(&ended.out, "group"), getpgrp().as_raw());
}

/// Runs `report` without and with the wrapper in between, after `before` in the same shell.
fn alone_and_wrapped(server: &RedisServer, before: &str, report: &str) -> (Outcome, Outcome) {
    let ended = |in_front: &str| {
        let mut shell = shell();
        shell.args(["-c", &format!("{before}; exec {in_front} {report}")]).env("LEASEHOLD_URL", server.url());
        outcome(&mut shell)
    };
    let wrapper = leasehold().get_program().to_str().unwrap().to_owned();
    (ended(""), ended(&format!("{wrapper} run {NAME} --")))
}

#[test]
fn signals_are_ignored_and_blocked_as_the_caller_left_them() {
    let server = RedisServer::start();
    for before in ["trap '' HUP INT", "trap '' USR1 TSTP QUIT", ":"] {
        let (alone, wrapped) = alone_and_wrapped(&server, before, "grep -E 'Sig(Ign|Blk)' /proc/self/status");
        assert!(alone.out.contains("SigIgn"), "{alone:?}");
        assert_eq!(wrapped.out, alone.out, "after {before}");
    }
}

#[test]
fn no_descriptor_of_the_wrapper_leaks_into_the_command() {
    let server = RedisServer::start();
    for before in ["exec </dev/null", "exec 7</dev/null"] {
        let (alone, wrapped) = alone_and_wrapped(&server, before, "ls /proc/self/fd");
        assert!(["0", "1", "2"].iter().all(|fd| alone.out.lines().any(|line| line == *fd)), "{alone:?}");
        assert_eq!(wrapped.out, alone.out, "after {before}");
    }
}
