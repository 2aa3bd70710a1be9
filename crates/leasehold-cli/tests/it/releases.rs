//! The verbs that act on a lock, and the one that watches it: release, repair and watch.

use std::process::Stdio;
use std::time::Duration;

use leasehold::election::Asked;
use leasehold::{Guard, MultiLock, Name};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

use crate::fixture::{LIMIT, Running, outcome};
use crate::operators::{JAVA, LONG, aside, client, done, java_hold, json, object, operator, until_visible};
use crate::pty::Session;

/// The token of the fenced lock `job`.
const TOKEN: &str = "redisson_lock_token:{job}";

#[tokio::test]
async fn every_kind_of_hold_is_released_and_its_holder_alone_loses_it() {
    let server = RedisServer::start();
    let url = server.url();
    let client = client(&url, |builder| builder).await;
    let _lock = client.lock("plain").lease(LONG).lock().await.unwrap();
    let _fair = client.fair_lock("fair").lease(LONG).lock().await.unwrap();
    let _fenced = client.fenced_lock("fenced").lease(LONG).lock().await.unwrap();
    let _spin = client.spin_lock("spin").lease(LONG).lock().await.unwrap();
    let sides = client.rw_lock("sides");
    let _reader = sides.read_lock().lease(LONG).lock().await.unwrap();
    let _writer = client.rw_lock("written").write_lock().lease(LONG).lock().await.unwrap();
    let permits = client.expirable_semaphore("permits");
    permits.set_permits(2).await.unwrap();
    let _permit = permits.acquire().await.unwrap();
    let seats = client.semaphore("seats");
    seats.try_set_permits(2).await.unwrap();
    let _seat = seats.acquire().await.unwrap();
    until_visible(&url, 1).await;
    let released = move || {
        for (name, kind) in [
            ("plain", "lock"),
            ("fair", "fair lock"),
            ("fenced", "fenced lock"),
            ("spin", "spin lock"),
            ("sides", "read-write lock"),
            ("written", "read-write lock"),
            ("permits", "expirable semaphore"),
            ("seats", "semaphore"),
        ] {
            let before = json(&url, &["show", name], 0);
            let seen = object(&before, name);
            assert_eq!((&seen["kind"], &seen["holders_total"]), (&kind.into(), &1.into()), "{before}");
            done(&url, &["release", name, "--dry-run"], 0);
            assert_eq!(json(&url, &["show", name], 0)["objects"][0]["holders_total"], 1, "{name}");
            let outcome = json(&url, &["release", name, "--yes"], 0);
            assert_eq!(outcome["outcome"], "released", "{name}");
        }
        assert_eq!(server.cli(&["EXISTS", "plain", "fair", "fenced", "spin", "sides", "written"]), "0");
        assert_eq!(
            (server.cli(&["GET", "permits"]), server.cli(&["GET", "seats"])),
            ("2".into(), "2".into())
        );
    };
    aside(released).await;
}

#[tokio::test]
async fn a_holder_is_asked_and_decides() {
    let server = RedisServer::start();
    let url = server.url();
    let client = client(&url, |builder| builder).await;
    let guard = client.lock("job").lease(LONG).lock().await.unwrap();
    let asked = tokio::spawn(async move {
        let asker = guard.asked().await.to_string();
        (guard, asker)
    });
    until_visible(&url, 1).await;
    let question = url.clone();
    let said =
        aside(move || json(&question, &["release", "job", "--ask", "--by", "Ann, for the deploy"], 0)).await;
    assert_eq!(said["outcome"], "asked", "{said}");
    let (guard, asker) = tokio::time::timeout(LIMIT, asked).await.expect("it was asked").unwrap();
    assert_eq!(asker, "Ann, for the deploy");
    assert!(guard.is_held(), "nothing is enforced");
    assert_eq!(guard.asked().await.as_str(), asker, "and it stays asked");
}

#[tokio::test]
async fn each_name_of_a_joint_hold_can_be_asked_for() {
    let server = RedisServer::start();
    let url = server.url();
    let client = client(&url, |builder| builder).await;
    let [one, other] =
        ["1", "2"].map(|name| client.lock(Name::with_hash_tag("account", name).unwrap()).lease(LONG));
    let other_name = "{account}2".to_owned();
    let guard = MultiLock::of([one.into(), other.into()]).lock().await.unwrap();
    assert_eq!(<_ as AsRef<[Guard]>>::as_ref(&guard).len(), 1, "one script acquired both");
    let asked = tokio::spawn(async move { guard.asked().await.to_string() });
    until_visible(&url, 1).await;
    let said = aside(move || json(&url, &["release", &other_name, "--ask", "--by", "Ann"], 0)).await;
    assert_eq!(said["outcome"], "asked", "{said}");
    assert_eq!(tokio::time::timeout(LIMIT, asked).await.expect("it was asked").unwrap(), "Ann");
}

#[tokio::test]
async fn a_leader_is_asked_as_a_holder_is() {
    let server = RedisServer::start();
    let url = server.url();
    let client = client(&url, |builder| builder).await;
    let term = client.election("scheduler").campaign().await.unwrap();
    until_visible(&url, 1).await;
    let asked = tokio::spawn(async move { term.asked().await });
    let said = aside(move || json(&url, &["release", "scheduler", "--ask"], 0)).await;
    assert_eq!(said["outcome"], "asked", "{said}");
    assert_eq!(tokio::time::timeout(LIMIT, asked).await.expect("it was asked").unwrap(), Asked::Requested);
}

#[tokio::test]
async fn a_holder_of_a_majority_is_asked_at_any_of_its_servers() {
    let servers = [RedisServer::start(), RedisServer::start(), RedisServer::start()];
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(client(&server.url(), |builder| builder).await);
    }
    let redlock = leasehold::Redlock::builder().nodes_persist_every_write().over(clients);
    let guard = redlock.lock("job").lease(LONG).lock().await.unwrap();
    let asked = tokio::spawn(async move {
        let asker = guard.asked().await.to_string();
        (guard, asker)
    });
    let url = servers[2].url();
    until_visible(&url, 1).await;
    let said = aside(move || json(&url, &["release", "job", "--ask", "--by", "Ann"], 0)).await;
    assert_eq!(said["outcome"], "asked", "{said}");
    let (guard, asker) = tokio::time::timeout(LIMIT, asked).await.expect("it was asked").unwrap();
    assert_eq!((asker.as_str(), guard.is_held()), ("Ann", true));
    assert_eq!(guard.asked().await.as_str(), "Ann", "and it stays asked");
}

#[test]
fn nobody_hears_a_question_for_a_java_hold() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let said = json(&server.url(), &["release", "job", "--ask"], 2);
    assert_eq!(said["outcome"], "not-heard", "{said}");
    assert_eq!(server.cli(&["EXISTS", "job"]), "1");
}

#[tokio::test]
async fn a_release_wakes_the_next_waiter() {
    let server = RedisServer::start();
    let url = server.url();
    java_hold(&server, "job", JAVA);
    let client = client(&url, |builder| builder).await;
    let waiting = tokio::spawn(async move { client.lock("job").lock().await.map(|guard| guard.is_held()) });
    until_visible(&url, 1).await;
    aside(move || done(&url, &["release", "job", "--owner", JAVA, "--yes"], 0)).await;
    let held = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(held.expect("the lease of a minute is not over").unwrap().unwrap());
}

#[test]
fn only_the_hold_that_was_shown_is_released() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let other = JAVA.replace("57", "58");
    let changed = done(&server.url(), &["release", "job", "--owner", &other, "--yes"], 2);
    assert!(changed.contains("another owner"), "{changed}");
    assert_eq!(server.cli(&["HGET", "job", JAVA]), "1");
    // Two readers.
    java_hold(&server, "doc", JAVA);
    let _ = server.cli(&["HSET", "doc", "mode", "read", &other, "1"]);
    let _ = server.cli(&["SET", &format!("{{doc}}:{JAVA}:rwlock_timeout:1"), "1", "PX", "60000"]);
    let _ = server.cli(&["SET", &format!("{{doc}}:{other}:rwlock_timeout:1"), "1", "PX", "60000"]);
    let outcome = outcome(&mut operator(&server.url(), &["release", "doc", "--yes"]));
    assert_eq!(outcome.code(), 64, "{}", outcome.err);
    assert!(outcome.err.contains("2 holders") && outcome.err.contains(&other), "{}", outcome.err);
    done(&server.url(), &["release", "doc", "--owner", JAVA, "--yes"], 0);
    assert_eq!(server.cli(&["HGET", "doc", &other]), "1");
}

#[test]
fn without_a_terminal_a_release_needs_yes() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let outcome = outcome(&mut operator(&server.url(), &["release", "job"]));
    assert_eq!(outcome.code(), 3);
    assert!(outcome.err.contains("--yes"), "{}", outcome.err);
    assert_eq!(server.cli(&["EXISTS", "job"]), "1");
}

#[test]
fn a_damaged_lock_gets_a_lease_unless_it_changes() {
    let server = RedisServer::start();
    let repair = ["repair", "damaged", "--fix", "no-expiry", "--lease", "200ms", "--yes"];
    assert!(done(&server.url(), &repair, 1).contains("nothing to repair"));
    assert_eq!(server.cli(&["HSET", "damaged", JAVA, "1"]), "1");
    assert!(
        done(&server.url(), &["show", "damaged"], 0).contains("leasehold repair \"damaged\" --fix no-expiry")
    );
    done(&server.url(), &repair, 0);
    eventually(LIMIT, "the end of the lease", || server.cli(&["EXISTS", "damaged"]) == "0");
    assert_eq!(server.cli(&["HSET", "damaged", JAVA, "1"]), "1");
    let slow = ["repair", "damaged", "--fix", "no-expiry", "--lease", "5s", "--yes"];
    let running = Running::start(&mut operator(&server.url(), &slow));
    running.wait_for_output("looking again");
    assert_eq!(server.cli(&["HSET", "damaged", JAVA, "2"]), "0");
    let outcome = running.outcome();
    assert_eq!(outcome.code(), 2, "{}", outcome.out);
    assert_eq!(server.cli(&["PTTL", "damaged"]), "-1");
}

#[test]
fn changes_are_watched_until_a_signal() {
    let server = RedisServer::start();
    let watch = ["watch", "job", "--every", "20ms"];
    let running = Running::start(&mut operator(&server.url(), &watch));
    running.wait_for_output("job  free");
    assert!(running.err().contains("sampled every 20ms"), "{}", running.err());
    java_hold(&server, "job", JAVA);
    running.wait_for_output("job  taken by 7f2a9c1e… thread 57");
    let other = JAVA.replace("57", "58");
    let _ = server.cli(&[
        "EVAL",
        "redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], ARGV[1], 1)",
        "1",
        "job",
        &other,
    ]);
    running.wait_for_output("job  passed on from 7f2a9c1e… thread 57 to 7f2a9c1e… thread 58");
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    eventually(LIMIT, "the lock is free again", || running.out().matches("job  free").count() == 2);
    running.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(running.outcome().code(), 0);
}

#[test]
fn a_closed_pipe_ends_a_watch_without_a_word() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let mut program = operator(&server.url(), &["watch", "job", "--every", "20ms", "--json"]);
    let mut process = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(process.stdout.take());
    eventually(LIMIT, "the end of the program", || {
        // The program learns of the closed pipe when it writes a line.
        let _ = server.cli(&["HINCRBY", "job", JAVA, "1"]);
        let _ = server.cli(&["DEL", "job"]);
        process.try_wait().unwrap().is_some()
    });
    let output = process.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn a_release_on_a_terminal_asks_for_the_name() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let url = server.url();
    let program = env!("CARGO_BIN_EXE_leasehold");
    let session = |typed: &str| {
        let script = format!("{program} release job; echo code=$?");
        let mut session = Session::start(&["sh", "-c", &script], &[("LEASEHOLD_URL", &url)]);
        session.until("type the name to continue (job): ");
        session.press(typed);
        let told = session.until("code=");
        (told, session.until("\n"))
    };
    let (told, code) = session("jobs\n");
    assert!(told.contains("declined") && code.starts_with('3'), "{told} {code}");
    assert_eq!(server.cli(&["EXISTS", "job"]), "1");
    let (told, code) = session("job\n");
    assert!(told.contains("released") && code.starts_with('0'), "{told} {code}");
    assert_eq!(server.cli(&["EXISTS", "job"]), "0");
}

#[test]
fn a_later_hold_of_the_same_owner_is_not_the_one_that_was_shown() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    assert_eq!(server.cli(&["SET", TOKEN, "7"]), "OK");
    let release = |meanwhile: &dyn Fn()| {
        let script = format!("{} release job; echo code=$?", env!("CARGO_BIN_EXE_leasehold"));
        let mut session = Session::start(&["sh", "-c", &script], &[("LEASEHOLD_URL", &server.url())]);
        session.until("type the name to continue (job): ");
        meanwhile();
        session.press("job\n");
        session.until("code=");
        session.until("\n")
    };
    // The thread has released, and acquired again.
    let code = release(&|| assert_eq!(server.cli(&["INCR", TOKEN]), "8"));
    assert!(code.starts_with('2') && server.cli(&["HGET", "job", JAVA]) == "1", "{code}");
    let code = release(&|| ());
    assert!(code.starts_with('0') && server.cli(&["EXISTS", "job"]) == "0", "{code}");
}

#[test]
fn before_a_release_an_unknown_age_is_told() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let script = format!("{} release job; echo code=$?", env!("CARGO_BIN_EXE_leasehold"));
    let mut session = Session::start(&["sh", "-c", &script], &[("LEASEHOLD_URL", &server.url())]);
    let told = session.until("type the name to continue (job): ");
    assert!(told.contains("a later hold of the same owner"), "{told}");
}

#[test]
fn a_name_that_is_in_no_listing_any_more_is_free_only_if_the_server_says_so() {
    let server = RedisServer::start();
    java_hold(&server, "job", JAVA);
    let listen = |name: &str| {
        let mut listener = std::process::Command::new("redis-cli");
        let channel = format!("redisson_lock__channel:{{{name}}}");
        listener.args(["-p", &server.port().to_string(), "SUBSCRIBE", &channel]);
        let listener = Running::start(&mut listener);
        listener.wait_for_output("subscribe");
        listener
    };
    let waiter = listen("job");
    let watch = ["watch", "--match", "jo*", "--every", "20ms"];
    let running = Running::start(&mut operator(&server.url(), &watch));
    running.wait_for_output("job  held by");
    drop(waiter);
    eventually(LIMIT, "the end of the waiter", || {
        server.cli(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{job}"]).ends_with('0')
    });
    // Of what comes now, the listing before has shown nothing: the name was missing from it, and has been looked at.
    for name in ["joy", "joke"] {
        java_hold(&server, name, JAVA);
        let _waiter = listen(name);
        running.wait_for_output(&format!("{name}  held by"));
    }
    assert!(!running.out().contains("job  free"), "{}", running.out());
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    running.wait_for_output("job  free");
}
