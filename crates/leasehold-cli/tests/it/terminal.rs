//! The terminal goes to the command and comes back.
//!
//! Scripts echo words with a `''` in them, so that the test does not take the typed line for its output.

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

use crate::fixture::{Folder, LIMIT, delete, is_locked, leasehold};
use crate::pty::{CTRL_C, CTRL_Z, Session};

/// Starts a session whose scripts find the program as `$LH` and the server by its variable.
fn session(server: &RedisServer, shell: &[&str]) -> Session {
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    Session::start(shell, &[("LH", &program), ("LEASEHOLD_URL", &server.url())])
}

/// Starts an interactive shell, which does job control.
fn interactive(server: &RedisServer) -> Session {
    let mut session = session(server, &["sh", "-i"]);
    session.until("$ ");
    session
}

/// A script that prints its own process group and the group of the terminal.
const PRINT_GROUPS: &str =
    "echo group=$(cut -d' ' -f5 /proc/$$/stat) tty''=$(cut -d' ' -f8 /proc/$$/stat) here''";

#[track_caller]
fn two_numbers(line: &str) -> (i32, i32) {
    let number = |label: &str| {
        let rest = line.rsplit_once(label).unwrap_or_else(|| panic!("no {label} in {line:?}")).1;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<i32>().unwrap()
    };
    (number("group="), number("tty="))
}

#[test]
fn the_command_owns_the_terminal_and_the_caller_gets_it_back() {
    let server = RedisServer::start();
    let script = format!(
        "$LH run l -- sh -c \"{}; read line; echo got: \\$line\"; {PRINT_GROUPS}; read line; echo after: $line",
        PRINT_GROUPS.replace('$', "\\$")
    );
    let mut session = session(&server, &["sh", "-c", &script]);
    let (group, terminal) = two_numbers(&session.until("here"));
    assert_eq!(group, terminal, "the command is in the foreground");
    session.press("hello\n");
    session.until("got: hello");
    let (caller, terminal) = two_numbers(&session.until("here"));
    assert_eq!(caller, terminal, "the caller is in the foreground again");
    assert_ne!(caller, group);
    session.press("bye\n");
    session.until("after: bye");
}

#[test]
fn the_terminal_returns_after_a_killed_or_missing_command() {
    let server = RedisServer::start();
    for command in ["sh -c 'kill -9 $$'", "no-such-command-here"] {
        let script = format!("$LH run l -- {command}; echo code: $?; read line; echo after: $line");
        let mut session = session(&server, &["sh", "-c", &script]);
        session.until("code: 1");
        session.press("bye\n");
        session.until("after: bye");
    }
}

#[test]
fn control_c_reaches_the_command_and_the_lock_is_free() {
    let server = RedisServer::start();
    let mut session = interactive(&server);
    session.press("$LH run the:lock -- sh -c 'echo be''gun; exec sleep 1000'; echo code''=$?\n");
    session.until("begun");
    assert!(is_locked(&server));
    session.press(CTRL_C);
    session.until("code=130");
    assert!(!is_locked(&server));
}

#[test]
fn control_c_while_waiting_ends_the_wait() {
    let server = RedisServer::start();
    crate::fixture::occupy(&server);
    let mut session = interactive(&server);
    session.press("$LH run -v the:lock -- true; echo code''=$?\n");
    session.until("waiting for the lock");
    session.press(CTRL_C);
    session.until("code=130");
}

#[test]
fn control_z_stops_both_and_fg_continues_both() {
    let server = RedisServer::start();
    let mut session = interactive(&server);
    session.press("$LH run --lease 1h the:lock -- sh -c 'echo be''gun; exec cat'; echo code''=$?\n");
    session.until("begun");
    for word in ["one", "two"] {
        session.press(&format!("{word}\n"));
        // The terminal echoes the typed word, and `cat` prints it again.
        session.until(word);
        session.until(word);
        session.press(CTRL_Z);
        session.until("suspended; nothing renews the lock meanwhile");
        session.until("$ ");
        session.press("echo sh''ell\n");
        session.until("shell");
        assert!(is_locked(&server));
        session.press("fg\n");
    }
    session.press("three\n");
    session.until("three");
    session.until("three");
    session.press("\x04");
    session.until("$ ");
    session.press("echo done''=$?\n");
    session.until("done=0");
    assert!(!is_locked(&server));
}

#[test]
fn a_continued_command_has_the_terminal_before_it_reads() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = "who() { echo group=$(cut -d' ' -f5 /proc/$$/stat) tty=$(cut -d' ' -f8 /proc/$$/stat) here; }\n\
                  trap who CONT; sleep 1000 & echo begun; while :; do wait; done";
    std::fs::write(folder.path("script"), script).unwrap();
    let mut session = interactive(&server);
    session.press(&format!("$LH run --lease 1h the:lock -- sh {}; echo code''=$?\n", folder.at("script")));
    session.until("begun");
    session.press(CTRL_Z);
    session.until("suspended");
    session.until("$ ");
    session.press("fg\n");
    let (group, terminal) = two_numbers(&session.until("here"));
    assert_eq!(group, terminal, "the command is in the foreground again");
    session.press(CTRL_C);
    session.until("$ ");
}

#[test]
fn a_lock_lost_while_both_are_stopped_ends_the_command_at_fg() {
    let server = RedisServer::start();
    let mut session = interactive(&server);
    // A shell that is about to start a program may ignore stops (vfork). A waiting shell does not.
    let script = "trap \"echo cl''eaned; exit\" TERM; sleep 60 & echo be''gun; wait";
    session.press(&format!("$LH run --lease 3s the:lock -- sh -c '{script}'\n"));
    session.until("begun");
    session.press(CTRL_Z);
    session.until("suspended");
    eventually(LIMIT, "the end of the lease", || !is_locked(&server));
    session.press("echo wai''ted\n");
    let seen = session.until("waited");
    assert!(!seen.contains("cleaned"), "a suspended command waits for its terminal: {seen:?}");
    session.press("fg; echo code''=$?\n");
    let seen = session.until("code=79");
    assert!(!seen.contains("--max-hold"), "the reason is a true one: {seen:?}");
    assert!(seen.contains("the lock was lost: ") && seen.contains("cleaned"), "{seen:?}");
}

#[test]
fn a_job_in_the_background_gets_the_terminal_with_fg() {
    let server = RedisServer::start();
    let mut session = interactive(&server);
    session.press("$LH run --lease 1h the:lock -- sh -c 'echo be''gun; read line; echo got: $line' &\n");
    session.until("begun");
    // The command reads without the right to, and is stopped. Then the wrapper stops.
    session.until("suspended");
    session.press("echo sh''ell\n");
    session.until("shell");
    session.press("fg\n");
    session.press("hello\n");
    session.until("got: hello");
    session.press("echo done''=$?\n");
    session.until("done=0");
}

#[test]
fn a_pipeline_keeps_the_terminal_until_the_command_reads() {
    let server = RedisServer::start();
    let script = format!(
        "$LH run l -- sh -c \"{0}; read line </dev/tty; {0}; echo got: \\$line\" | cat; read line; echo after: $line",
        PRINT_GROUPS.replace('$', "\\$")
    );
    let mut session = session(&server, &["sh", "-c", &script]);
    let (group, terminal) = two_numbers(&session.until("here"));
    assert_ne!(group, terminal, "the other end of the pipe may need the keyboard");
    session.press("hello\n");
    let (group, terminal) = two_numbers(&session.until("here"));
    assert_eq!(group, terminal, "the command asked for it");
    session.until("got: hello");
    session.press("bye\n");
    session.until("after: bye");
}

#[test]
fn a_stop_that_no_shell_can_continue_is_continued() {
    let server = RedisServer::start();
    // The wrapper leads the session itself, so there is no shell above it.
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    let mut session =
        session(&server, &[&program, "run", "the:lock", "--", "sh", "-c", "echo be''gun; exec cat"]);
    session.until("begun");
    session.press(CTRL_Z);
    session.press("hello\n");
    session.until("hello");
    session.until("hello");
}

#[test]
fn messages_reach_a_terminal_that_stops_background_writers() {
    let server = RedisServer::start();
    let mut session = interactive(&server);
    let run = "$LH run --lease 3s --on-lost ignore the:lock -- sh -c 'echo be''gun; read line'";
    session.press(&format!("stty tostop; {run}; echo code''=$?\n"));
    session.until("begun");
    delete(&server);
    session.until("continues without it");
    session.press("\n");
    session.until("code=0");
}

#[test]
fn a_terminal_that_hangs_up_ends_the_command_and_frees_the_lock() {
    for suspended in [false, true] {
        let server = RedisServer::start();
        let mut session = interactive(&server);
        session.press("$LH run --lease 1h the:lock -- sh -c 'echo be''gun; exec cat'\n");
        session.until("begun");
        if suspended {
            session.press(CTRL_Z);
            session.until("suspended");
            session.until("$ ");
        }
        assert!(is_locked(&server));
        drop(session);
        eventually(LIMIT, "a free lock", || !is_locked(&server));
    }
}
