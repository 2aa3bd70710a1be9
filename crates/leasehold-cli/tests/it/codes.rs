//! Exit codes, and the proof that a failure before the start runs nothing and reveals no secret.

use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;

use leasehold_testkit::certificates::Authority;
use leasehold_testkit::servers::{RedisServer, TlsServer};

use crate::fixture::{
    Folder, NAME, Running, has_no_subscribers, is_locked, leasehold, outcome, run, run_script, shell,
};

/// A password that must appear in no output.
const CANARY: &str = "canary-7c1e";

#[test]
fn the_exit_code_of_the_command_is_passed_on() {
    let server = RedisServer::start();
    for code in [0, 1, 2, 79, 255] {
        let ended = outcome(&mut run_script(&server, &[], &format!("exit {code}")));
        assert_eq!(ended.code(), code, "{ended:?}");
        assert_eq!((ended.out.as_str(), ended.err.as_str()), ("", ""), "exit {code} is silent");
        assert!(!is_locked(&server));
    }
}

#[test]
fn death_by_a_signal_is_128_plus_its_number() {
    let server = RedisServer::start();
    // 34 is a real-time signal, which few libraries know.
    for signal in [1, 2, 9, 11, 15, 34] {
        let ended = outcome(&mut run_script(&server, &[], &format!("ulimit -c 0; kill -{signal} $$")));
        assert_eq!(ended.code(), 128 + signal, "{ended:?}");
    }
    assert!(!is_locked(&server));
}

#[test]
fn a_command_that_cannot_run_is_127_or_126_and_the_lock_is_free() {
    let server = RedisServer::start();
    let folder = Folder::new();
    folder.touch("data");
    for (command, code) in [("no-such-command-here", 127), (folder.at("missing").as_str(), 127)] {
        let ended = outcome(&mut run(&server, &[], &[command]));
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.err.contains(&format!("cannot run {command:?}")), "{ended:?}");
        assert!(!is_locked(&server));
    }
    let ended = outcome(&mut run(&server, &[], &[&folder.at("data")]));
    assert_eq!(ended.code(), 126, "{ended:?}");
    assert!(!is_locked(&server));
}

#[test]
fn wrong_arguments_are_64_and_run_nothing() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let (ran, long) = (folder.at("ran"), "x".repeat(513));
    let touch = ["--", "touch", &ran];
    let cases: &[&[&str]] = &[
        &[],
        &["walk"],
        &["run"],
        &["run", NAME],
        &["run", NAME, "--"],
        &["run", "--url"],
        &["run", "--unknown", NAME, "--", "touch", &ran],
        &["run", "-n", "--wait", "1", NAME, "--", "touch", &ran],
        &["run", "-E", "256", NAME, "--", "touch", &ran],
        &["run", "-E", "-1", NAME, "--", "touch", &ran],
        &["run", "--wait", "soon", NAME, "--", "touch", &ran],
        &["run", "--wait=-1", NAME, "--", "touch", &ran],
        &["run", "--lease", "0", NAME, "--", "touch", &ran],
        &["run", "--lease", "2ms", NAME, "--", "touch", &ran],
        &["run", "--lease", "366d", NAME, "--", "touch", &ran],
        &["run", "--max-hold", "0", NAME, "--", "touch", &ran],
        &["run", "--grace", "never", NAME, "--", "touch", &ran],
        &["run", "--on-lost", "panic", NAME, "--", "touch", &ran],
        &["run", NAME, "stray", "--", "touch", &ran],
    ];
    for arguments in cases {
        let ended = outcome(leasehold().env("LEASEHOLD_URL", server.url()).args(*arguments));
        assert_eq!((ended.code(), ended.out.as_str()), (64, ""), "{arguments:?}: {ended:?}");
        assert!(!ended.err.is_empty(), "{arguments:?} says what is wrong");
    }
    for name in ["", "a\u{1b}[2Jb", "a\nb", "a{b", "redisson_lock_queue:x", &long] {
        let ended = outcome(leasehold().env("LEASEHOLD_URL", server.url()).arg("run").arg(name).args(touch));
        assert_eq!(ended.code(), 64, "{name:?}: {ended:?}");
        assert!(ended.err.contains("the name") && ended.err.lines().count() == 1, "{ended:?}");
        assert!(!ended.err.contains('\u{1b}'), "control characters reach no terminal: {ended:?}");
    }
    let ended = outcome(leasehold().args(["run", "{a}"]).args(touch));
    assert!(ended.err.contains("the whole name is one hash tag"), "{ended:?}");
    let ended = outcome(leasehold().args(["run", "a{b"]).args(touch));
    assert!(ended.err.contains("use a hash tag, or no braces"), "{ended:?}");
    let ended = outcome(leasehold().arg("run").arg(std::ffi::OsStr::from_bytes(b"a\xff")).args(touch));
    assert_eq!(ended.code(), 64, "{ended:?}");
    let ended = outcome(leasehold().args(["run", "--lease", "\u{1b}[2J", NAME]).args(touch));
    assert!(ended.code() == 64 && !ended.err.contains('\u{1b}'), "{ended:?}");
    assert!(!folder.has("ran"));
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}

#[test]
fn help_and_version_exit_successfully() {
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "run"]] {
        let ended = outcome(leasehold().env("LEASEHOLD_URL", CANARY).args(arguments));
        assert_eq!((ended.code(), ended.err.as_str()), (0, ""), "{arguments:?}");
        assert!(ended.out.contains("easehold") && !ended.out.contains(CANARY), "{arguments:?}");
        assert!(
            !ended.out.contains("__exec") && !ended.out.contains("__watch"),
            "hidden verbs: {arguments:?}"
        );
    }
    let help = outcome(leasehold().args(["run", "--help"])).out;
    let widest = help.lines().max_by_key(|line| line.len()).unwrap();
    assert!(widest.len() <= 120, "too wide to read: {widest}");
    for code in ["64", "69", "71", "79", "126", "127", "128+N"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(code)), "{code} is explained");
    }
}

#[test]
fn an_unusable_address_is_64_and_shows_no_secret() {
    let folder = Folder::new();
    for url in [
        format!("http://:{CANARY}@127.0.0.1/"),
        format!("redis://:{CANARY}@127.0.0.1:99999"),
        format!("redis://:{CANARY}/x@127.0.0.1"),
        format!("redis://{CANARY}@127.0.0.1"),
        format!(":{CANARY}@127.0.0.1"),
        format!("unix://relative?password={CANARY}"),
        String::new(),
    ] {
        for by_argument in [true, false] {
            let mut program = leasehold();
            program.arg("run");
            if by_argument {
                program.args(["--url", &url]);
            } else {
                program.env("LEASEHOLD_URL", &url);
            }
            let ended = outcome(program.args(["-v", NAME, "--", "touch", &folder.at("ran")]));
            assert_eq!(ended.code(), 64, "{url:?}: {ended:?}");
            assert!(!format!("{ended:?}").contains(CANARY), "{url:?}: {ended:?}");
        }
    }
    // A URL in the wrong place is a wrong argument, and the message reports that.
    let stray = format!("redis://me:{CANARY}@127.0.0.1");
    let ended = outcome(leasehold().args(["run", NAME, &stray, "--", "touch", &folder.at("ran")]));
    assert_eq!(ended.code(), 64, "{ended:?}");
    assert!(ended.err.contains("redis://***@127.0.0.1") && !ended.err.contains(CANARY), "{ended:?}");
    assert!(!folder.has("ran"));
}

#[test]
fn an_unusable_server_is_69_and_runs_nothing() {
    let folder = Folder::new();
    let (ran, silent) = (folder.at("ran"), TcpListener::bind("127.0.0.1:0").unwrap());
    let closed = has_no_subscribers();
    let no_redis = format!("redis://{}", silent.local_addr().unwrap());
    for url in [closed.as_str(), &no_redis, &format!("unix://{}", folder.at("no.sock"))] {
        let ended = outcome(leasehold().args(["run", "--url", url, NAME, "--", "touch", &ran]));
        assert_eq!(ended.code(), 69, "{url}: {ended:?}");
        assert!(ended.err.starts_with("leasehold: no connection to "), "{ended:?}");
    }
    assert!(!folder.has("ran"));
}

#[test]
fn a_wrong_password_is_69_and_is_never_printed() {
    let server = RedisServer::with(&["--requirepass", "right-password"]);
    let folder = Folder::new();
    let (ran, address) = (folder.at("ran"), format!("127.0.0.1:{}", server.port()));
    let wrong = format!("redis://:{CANARY}@{address}");
    for url in [wrong.as_str(), &format!("redis://{address}"), &format!("redis://me:{CANARY}@{address}")] {
        let in_argument = outcome(leasehold().args(["run", "-v", "--url", url, NAME, "--", "touch", &ran]));
        let in_variable =
            outcome(leasehold().env("LEASEHOLD_URL", url).args(["run", "-v", NAME, "--", "touch", &ran]));
        for ended in [in_argument, in_variable] {
            assert_eq!(ended.code(), 69, "{ended:?}");
            assert!(!format!("{ended:?}").contains(CANARY), "{ended:?}");
        }
    }
    assert!(!folder.has("ran"));
}

#[test]
fn a_password_in_an_argument_is_warned_about_once_and_works() {
    let server = RedisServer::with(&["--requirepass", CANARY]);
    let url = server.url_with_password();
    let ended = outcome(leasehold().args(["run", "-v", "--url", &url, NAME, "--", "true"]));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.err.matches("password").count(), 1, "{ended:?}");
    assert!(!ended.err.contains(CANARY), "{ended:?}");
    let ended = outcome(leasehold().env("LEASEHOLD_URL", &url).args(["run", "-v", NAME, "--", "true"]));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(!ended.err.contains("password"), "{ended:?}");
}

#[test]
fn the_server_argument_overrides_the_variable() {
    let server = RedisServer::start();
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", has_no_subscribers()).args([
        "run",
        "--url",
        &server.url(),
        NAME,
        "--",
        "true",
    ]);
    assert_eq!(outcome(&mut program).code(), 0);
}

#[test]
fn a_key_of_another_type_is_69_and_stays_unchanged() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", NAME, "precious"]), "OK");
    let folder = Folder::new();
    let ended = outcome(&mut run(&server, &["-n"], &["touch", &folder.at("ran")]));
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(
        ended.err.contains(
            "lock \"the:lock\" not acquired: another kind of object has its name on the server, a string"
        ),
        "{ended:?}"
    );
    assert!(ended.err.contains("use --plain"), "{ended:?}");
    assert_eq!(server.cli(&["GET", NAME]), "precious");
    assert!(!folder.has("ran"));
}

#[test]
fn verbose_prints_one_message_per_step() {
    let server = RedisServer::start();
    let ended = outcome(&mut run(&server, &["-v"], &["true"]));
    let lines: Vec<&str> = ended.err.lines().collect();
    assert_eq!(lines.len(), 3, "{ended:?}");
    let begins = [
        "leasehold: waiting for the lock \"the:lock\"",
        "leasehold: acquired the lock \"the:lock\" after ",
        "leasehold: released the lock \"the:lock\" after ",
    ];
    for (line, begin) in lines.iter().zip(begins) {
        assert!(line.starts_with(begin), "{line:?}");
    }
}

#[test]
fn a_closed_stderr_changes_nothing() {
    let server = RedisServer::start();
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", server.url());
    let mut shell = shell();
    shell.args(["-c", "\"$0\" run -v \"$1\" -- sh -c 'exit 6' 2>&-"]).arg(program.get_program()).arg(NAME);
    shell.env("LEASEHOLD_URL", server.url());
    assert_eq!(Running::start(&mut shell).outcome().code(), 6);
}

#[test]
fn a_command_needs_no_dashes_in_front() {
    let server = RedisServer::start();
    for words in [
        &["-n", NAME, "sh", "-c", "exit 7"][..],
        &["-n", NAME, "--", "sh", "-c", "exit 7"],
        &[NAME, "-n", "sh", "-c", "exit 7"],
        &[NAME, "--", "sh", "-c", "exit 7", "--"],
    ] {
        let ended = outcome(leasehold().env("LEASEHOLD_URL", server.url()).arg("run").args(words));
        assert_eq!(ended.code(), 7, "{words:?}: {ended:?}");
    }
    let ended = outcome(leasehold().args(["run", NAME, "sudo", "--", "true"]));
    assert!(ended.code() == 64 && ended.err.contains("`leasehold run NAME -- sudo ..`"), "{ended:?}");
}

#[test]
fn a_given_wait_is_also_for_the_server() {
    let mut server = RedisServer::start();
    server.kill();
    let mut program = run(&server, &["--wait", "60"], &["true"]);
    let running = Running::start(&mut program);
    running.wait_for_output("waiting for the server for");
    server.restart();
    let ended = running.outcome();
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.err.lines().count(), 1, "{ended:?}");

    server.kill();
    let ended = outcome(&mut run(&server, &["--wait", "0.4"], &["true"]));
    assert_eq!(ended.code(), 69, "{ended:?}");
    let last = ended.err.lines().last().unwrap_or_default();
    assert!(last.starts_with("leasehold: no connection to ") && !last.contains("waiting"), "{ended:?}");
    for options in [&[][..], &["-n"], &["--wait", "0"]] {
        let ended = outcome(&mut run(&server, options, &["true"]));
        assert!(ended.code() == 69 && !ended.err.contains("waiting"), "{options:?}: {ended:?}");
    }
}

#[test]
fn a_ca_of_ones_own_is_an_option() {
    let authority = Authority::new();
    let server = TlsServer::start(&authority, &authority.server(&["localhost", "127.0.0.1"]), false);
    let ca = authority.file();
    let ended = |url: &str, options: &[&str]| {
        outcome(leasehold().env("LEASEHOLD_URL", url).arg("run").args(options).args([NAME, "--", "true"]))
    };
    let (encrypted, plain) = (server.tls_url(), server.tls_url().replace("rediss", "redis"));
    assert_eq!(ended(&encrypted, &[]).code(), 69);
    assert_eq!(ended(&encrypted, &["--ca-file", ca]).code(), 0);
    let refused = ended(&plain, &["--ca-file", ca]);
    assert!(refused.code() == 64 && refused.err.contains("no URL is encrypted"), "{refused:?}");
    let mut doctor = leasehold();
    let examined = outcome(doctor.env("LEASEHOLD_URL", plain).args(["doctor", "--ca-file", ca]));
    assert!(examined.code() == 64 && examined.err.contains("no URL is encrypted"), "{examined:?}");
}

#[test]
fn a_short_lease_adapts_the_timeout_that_nobody_set() {
    let server = RedisServer::start();
    assert_eq!(outcome(&mut run(&server, &["--lease", "1s"], &["true"])).code(), 0);
    let mut program = run(&server, &["--lease", "1s"], &["true"]);
    let ended = outcome(program.env("LEASEHOLD_TIMEOUT", "3s"));
    assert!(ended.code() == 64 && ended.err.contains("conflict"), "{ended:?}");
}

#[test]
fn the_short_help_is_short_and_the_version_says_what_it_can() {
    let printed = |arguments: &[&str]| outcome(leasehold().args(arguments)).out;
    for verb in ["run", "acl", "doctor"] {
        let (short, long) = (printed(&[verb, "-h"]), printed(&[verb, "--help"]));
        assert!(short.contains("--help also has") && !short.contains("Examples:"), "{short}");
        assert!(long.contains("Examples:") && short.lines().count() < long.lines().count(), "{verb}");
    }
    let server = RedisServer::start();
    let ended = outcome(&mut run(&server, &[], &["echo", "-h"]));
    assert_eq!(ended.out, "-h\n");
    let (short, long) = (printed(&["-V"]), printed(&["--version"]));
    assert_eq!(short.lines().count(), 1, "{short}");
    for part in [env!("CARGO_PKG_VERSION"), "sentinel", "TLS", "wire format"] {
        assert!(long.contains(part), "{part}: {long}");
    }
}
