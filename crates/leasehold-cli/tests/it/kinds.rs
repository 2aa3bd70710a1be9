//! The kinds of lock: which commands run at the same time, in what order, and with what variables.

use std::fs;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

use crate::fixture::{Folder, LIMIT, NAME, Running, is_locked, leasehold, outcome, run, run_script};

/// Starts a command that reports its start, and ends when the file `go` exists.
fn begun(server: &RedisServer, folder: &Folder, options: &[&str]) -> Running {
    let script = format!("echo begun; {}", folder.wait_for("go"));
    let running = Running::start(&mut run_script(server, options, &script));
    running.wait_for_output("begun");
    running
}

fn end(folder: &Folder, all: impl IntoIterator<Item = Running>) {
    folder.touch("go");
    for running in all {
        let ended = running.outcome();
        assert_eq!(ended.code(), 0, "{ended:?}");
    }
}

#[test]
fn readers_run_together_and_a_writer_runs_alone() {
    let server = RedisServer::start();
    let refused =
        |options: &[&str]| outcome(&mut run(&server, &[&["-n"], options].concat(), &["true"])).code();
    let folder = Folder::new();
    let readers = [begun(&server, &folder, &["-s"]), begun(&server, &folder, &["--shared"])];
    assert_eq!((refused(&["-s"]), refused(&["-x"])), (0, 1), "beside readers");
    end(&folder, readers);
    let folder = Folder::new();
    let writer = begun(&server, &folder, &["-x"]);
    assert_eq!((refused(&["-s"]), refused(&["--exclusive"])), (1, 1), "beside a writer");
    end(&folder, [writer]);
    assert!(!is_locked(&server));
}

#[test]
fn another_kind_of_the_same_name_is_rejected_and_runs_nothing() {
    let server = RedisServer::start();
    let of_server: [&[&str]; 4] = [&[], &["-s"], &["-x"], &["--slots", "2"]];
    for held in of_server {
        let folder = Folder::new();
        let running = begun(&server, &folder, held);
        for other in of_server.into_iter().filter(|other| !(held.len() == 1 && other.len() == 1)) {
            if *other == *held {
                continue;
            }
            let ended = outcome(&mut run(&server, &[&["-n"], other].concat(), &["touch", &folder.at("ran")]));
            assert!([1, 69].contains(&ended.code()), "{other:?} while {held:?}: {ended:?}");
            assert!(!folder.has("ran"), "{other:?} while {held:?}");
        }
        end(&folder, [running]);
        assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    }
}

#[test]
fn slots_of_a_lock_name_are_refused_in_one_sentence() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let running = begun(&server, &folder, &[]);
    let kind = "another kind of object has this name on the server (`TYPE` says which; redis-py and redsync write \
                strings); that object is unchanged";
    for (options, said) in [
        (&["-s"][..], format!("leasehold: read lock \"{NAME}\" not acquired: {kind}\n")),
        (&["--slots", "2"], format!("leasehold: expirable semaphore \"{NAME}\" not inspected: {kind}\n")),
    ] {
        let ended = outcome(&mut run(&server, options, &["true"]));
        assert_eq!((ended.code(), ended.err), (69, said));
    }
    end(&folder, [running]);
}

#[test]
fn a_fair_lock_serves_waiters_in_arrival_order() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let first = begun(&server, &folder, &["--fair"]);
    let queue = format!("redisson_lock_queue:{{{NAME}}}");
    let waiters: Vec<Running> = (1..=3)
        .map(|number| {
            let script = format!("echo {number} >>{}", folder.at("order"));
            let waiter = Running::start(&mut run_script(&server, &["--fair"], &script));
            eventually(LIMIT, "a waiter in the queue", || {
                server.cli(&["LLEN", &queue]) == number.to_string()
            });
            waiter
        })
        .collect();
    end(&folder, [first].into_iter().chain(waiters));
    assert_eq!(fs::read_to_string(folder.path("order")).unwrap(), "1\n2\n3\n");
}

#[test]
fn a_fenced_lock_gives_the_command_an_increasing_token() {
    let server = RedisServer::start();
    let token = || {
        let ended = outcome(&mut run_script(&server, &["--fenced"], "echo token=$LEASEHOLD_TOKEN"));
        assert_eq!(ended.code(), 0, "{ended:?}");
        let text = ended.out.trim().strip_prefix("token=").unwrap().to_owned();
        text.parse::<u64>().unwrap()
    };
    let (first, second) = (token(), token());
    assert!(second > first, "{first} {second}");
}

#[test]
fn a_command_under_another_lock_receives_no_token() {
    let server = RedisServer::start();
    let program = leasehold().get_program().to_str().unwrap().to_owned();
    let inner = "echo inner=[$LEASEHOLD_TOKEN] $LEASEHOLD_NAME";
    let script = format!("{program} run inner:lock -- sh -c '{inner}'; echo outer=[$LEASEHOLD_TOKEN]");
    let ended = outcome(&mut run_script(&server, &["--fenced"], &script));
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert!(ended.out.contains("inner=[] inner:lock\n"), "{ended:?}");
    assert!(!ended.out.contains("outer=[]"), "{ended:?}");
}

#[test]
fn as_many_commands_as_slots_run_at_once() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let slots = ["--slots", "2"];
    let running = [begun(&server, &folder, &slots), begun(&server, &folder, &slots)];
    let third = outcome(&mut run(&server, &["-n", "--slots", "2"], &["true"]));
    assert_eq!((third.code(), third.err.as_str()), (1, ""), "{third:?}");
    let waiting = Running::start(&mut run_script(&server, &["-v", "--slots", "2"], "exit 0"));
    waiting.wait_for_output("waiting for the lock");
    end(&folder, running.into_iter().chain([waiting]));
    assert_eq!(server.cli(&["GET", NAME]), "2", "all slots are free again");
}

#[test]
fn never_more_commands_than_slots_run_at_once() {
    let server = RedisServer::start();
    let folder = Folder::new();
    // Two directories are the two slots, and `mkdir` of both fails for a third command between `mkdir` and `rmdir`.
    let (one, two) = (folder.at("one"), folder.at("two"));
    let section = format!(
        "if mkdir {one} 2>&-; then rmdir {one}; elif mkdir {two} 2>&-; then rmdir {two}; else exit 5; fi"
    );
    let running: Vec<Running> =
        (0..12).map(|_| Running::start(&mut run_script(&server, &["--slots", "2"], &section))).collect();
    for wrapper in running {
        let ended = wrapper.outcome();
        assert_eq!((ended.code(), ended.err.as_str()), (0, ""), "{ended:?}");
    }
}

#[test]
fn a_changed_slot_count_replaces_the_old_one_with_a_warning() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let running = [begun(&server, &folder, &["--slots", "2"]), begun(&server, &folder, &["--slots", "2"])];
    let more = begun(&server, &folder, &["--slots", "3"]);
    assert!(more.err().contains("had 2 slots and has 3 now"), "{:?}", more.err());
    let fewer = outcome(&mut run(&server, &["-n", "--slots", "1"], &["true"]));
    assert_eq!(fewer.code(), 1, "{fewer:?}");
    assert!(fewer.err.contains("had 3 slots and has 1 now"), "{fewer:?}");
    end(&folder, running.into_iter().chain([more]));
    assert_eq!(server.cli(&["GET", NAME]), "1");
}

#[test]
fn the_command_receives_the_permit_id_of_its_slot() {
    let server = RedisServer::start();
    let folder = Folder::new();
    let script = format!("echo owner=$LEASEHOLD_OWNER; echo begun; {}", folder.wait_for("go"));
    let running = Running::start(&mut run_script(&server, &["--slots", "2"], &script));
    running.wait_for_output("begun");
    let told = running.out().lines().next().unwrap().strip_prefix("owner=").unwrap().to_owned();
    let keys = server.cli(&["KEYS", "*timeout*"]);
    let timeouts = keys.lines().next().unwrap();
    assert!(server.cli(&["EVAL", "return redis.call('ZRANGE', KEYS[1], 0, -1)", "1", timeouts]).len() >= 16);
    assert_eq!(told.len(), 32, "{told:?}");
    end(&folder, [running]);
}

#[test]
fn a_hold_lasts_for_min_hold_after_a_short_command() {
    let server = RedisServer::start();
    for options in [&[][..], &["--fair"], &["-x"], &["--fenced"], &["--plain"]] {
        let options = [options, &["--min-hold", "1h"]].concat();
        assert_eq!(outcome(&mut run(&server, &options, &["true"])).code(), 0, "{options:?}");
        let again = outcome(&mut run(&server, &[&options[..], &["-n"]].concat(), &["true"]));
        assert_eq!(again.code(), 1, "{options:?}: {again:?}");
        let left = server.cli(&["PTTL", NAME]).parse::<i64>().unwrap();
        assert!(left > 1_800_000, "{options:?}: {left}");
        assert_eq!(server.cli(&["FLUSHALL"]), "OK");
    }
    let killed = Running::start(&mut run_script(&server, &["--min-hold", "1h"], "echo pid=$$; kill -9 $$"));
    assert_eq!(killed.outcome().code(), 137);
    assert!(is_locked(&server), "however the command ends");
}

#[test]
fn a_plain_lock_is_left_for_min_hold_and_not_for_its_lease() {
    let server = RedisServer::start();
    let options = ["--plain", "--lease", "1h", "--min-hold", "9m"];
    assert_eq!(outcome(&mut run(&server, &options, &["true"])).code(), 0);
    let left = server.cli(&["PTTL", NAME]).parse::<i64>().unwrap();
    assert!((1..=540_001).contains(&left), "{left}");
}
