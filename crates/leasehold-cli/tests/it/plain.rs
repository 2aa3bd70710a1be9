//! Plain locks as operators see them: strings of this library, with and without a mark, and those of other libraries.

use std::time::Duration;

use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use serde_json::Value;

use crate::fixture::{LIMIT, Running, leasehold, outcome};
use crate::operators::{LONG, aside, client, done, json, object, operator, until_visible};

/// The value of a hold of a client that nobody knows.
const UNSEEN: &str = "lh1-AAECAwQFBgcICQoLDA0ODw-0";
/// The value of a hold of redis-py.
const FOREIGN: &str = "8f14e45fceea167a5a36dedd4bea2543";

fn set(server: &RedisServer, key: &str, value: &str) {
    assert_eq!(server.cli(&["SET", key, value, "PX", "60000"]), "OK");
}

fn warnings(object: &Value) -> Vec<&str> {
    object["warnings"].as_array().unwrap().iter().map(|warning| warning["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_hold_has_its_process_and_the_mark_of_its_waiter_and_a_release_wakes_it() {
    let server = RedisServer::start();
    let url = server.url();
    let (one, other) = (client(&url, |builder| builder).await, client(&url, |builder| builder).await);
    let guard = one.plain_lock("job").lease(LONG).note("import").lock().await.unwrap();
    let owner = guard.wire_owner().to_string();
    until_visible(&url, 1).await;
    let listing = aside({
        let url = url.clone();
        move || json(&url, &["list"], 0)
    })
    .await;
    let seen = object(&listing, "job");
    let holder = &seen["holders"][0];
    assert_eq!((&seen["kind"], &seen["value"]), (&"plain lock".into(), &Value::Null));
    assert_eq!((&holder["owner"], &holder["form"]), (&owner.as_str().into(), &"own".into()));
    assert_eq!((&holder["process"]["name"], &holder["note"]), (&"orders".into(), &"import".into()));
    assert_eq!((&holder["age_is"], &seen["waiting"]["clients"]), (&"exact".into(), &0.into()));

    let waiting =
        tokio::spawn(async move { other.plain_lock("job").lock().await.map(|guard| guard.is_held()) });
    until_visible(&url, 2).await;
    let work = move || {
        eventually(LIMIT, "the mark", || server.cli(&["GET", "job"]).ends_with("-1"));
        let listing = json(&url, &["show", "job"], 0);
        let seen = object(&listing, "job");
        assert_eq!(
            (&seen["holders"][0]["owner"], &seen["holders"][0]["form"]),
            (&owner.as_str().into(), &"marked".into())
        );
        assert_eq!((&seen["waiting"]["clients"], &seen["waiting"]["tasks"]), (&1.into(), &1.into()));
        assert!(warnings(seen).is_empty(), "{listing}");
        let text = done(&url, &["show", "job"], 0);
        for part in ["job  plain lock on", "orders@", "marked by a waiter", "note: import"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(json(&url, &["list", "--kind", "plain lock"], 0)["objects"].as_array().unwrap().len(), 1);
        assert_eq!(json(&url, &["release", "job", "--yes"], 0)["outcome"], "released");
        server
    };
    let _server = aside(work).await;
    let held = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(held.expect("the lease of a minute is not over").unwrap().unwrap());
}

#[test]
fn a_hold_of_a_dead_client_is_found_by_the_scan_and_released_by_its_value() {
    let server = RedisServer::start();
    set(&server, "dead", UNSEEN);
    set(&server, "cached", FOREIGN);
    set(&server, "longer", &format!("{UNSEEN}-and-more"));
    let listing = json(&server.url(), &["list"], 0);
    assert_eq!(listing["objects"].as_array().unwrap().len(), 1, "{listing}");
    let holder = &object(&listing, "dead")["holders"][0];
    assert_eq!((&holder["owner"], &holder["form"]), (&UNSEEN.into(), &"own".into()));
    assert_eq!((&holder["client"], &holder["process"]), (&Value::Null, &Value::Null));
    let other = UNSEEN.replace('Q', "R");
    done(&server.url(), &["release", "dead", "--owner", &other, "--yes"], 2);
    // A waiter marks the value after it was seen.
    let marked = UNSEEN.replace("-0", "-1");
    set(&server, "dead", &marked);
    done(&server.url(), &["release", "dead", "--owner", UNSEEN, "--yes"], 0);
    assert_eq!(server.cli(&["EXISTS", "dead", "cached", "longer"]), "2");
}

#[tokio::test]
async fn a_holder_of_another_library_is_named_so_and_released_only_on_request() {
    let server = RedisServer::start();
    let url = server.url();
    assert_eq!(server.cli(&["SET", "job", FOREIGN]), "OK");
    let client = client(&url, |builder| builder).await;
    let waiting =
        tokio::spawn(async move { client.plain_lock("job").lock().await.map(|guard| guard.is_held()) });
    until_visible(&url, 1).await;
    let work = move || {
        let listing = json(&url, &["list", "--no-scan"], 0);
        let seen = object(&listing, "job");
        assert_eq!((&seen["kind"], &seen["expires_ms"]), (&"plain lock".into(), &Value::Null));
        assert_eq!(
            (&seen["holders"][0]["form"], &seen["holders"][0]["client"]),
            (&"foreign".into(), &Value::Null)
        );
        assert_eq!(warnings(seen), ["no-expiry"], "{listing}");
        assert!(done(&url, &["list", "--no-scan"], 0).contains("another library's"), "{listing}");
        let text = done(&url, &["show", "job"], 0);
        for part in [
            FOREIGN,
            "never expires",
            "another library wrote it without a lease",
            "--fix no-expiry --foreign",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let refused = outcome(&mut operator(&url, &["release", "job", "--yes"]));
        assert_eq!(refused.code(), 64, "{}", refused.out);
        assert!(refused.err.contains("--foreign"), "{}", refused.err);
        assert_eq!(server.cli(&["GET", "job"]), FOREIGN);
        done(&url, &["release", "job", "--yes", "--foreign"], 0);
        server
    };
    let _server = aside(work).await;
    let held = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(held.expect("the release wakes the waiter").unwrap().unwrap());
}

#[test]
fn a_string_for_which_nobody_waits_is_a_lock_if_the_operator_says_so() {
    let server = RedisServer::start();
    let url = server.url();
    for value in [FOREIGN, "1"] {
        set(&server, "job", value);
        assert_eq!(outcome(&mut operator(&url, &["release", "job", "--yes"])).code(), 64, "{value}");
        assert_eq!(server.cli(&["GET", "job"]), value);
        let dry = done(&url, &["release", "job", "--foreign", "--dry-run"], 0);
        assert!(dry.contains("job  plain lock on") && dry.contains(value), "{dry}");
        assert_eq!(json(&url, &["release", "job", "--foreign", "--yes"], 0)["outcome"], "released");
        assert_eq!(server.cli(&["EXISTS", "job"]), "0");
    }
    // A value that is too long to be compared is none of a lock.
    set(&server, "job", &"x".repeat(300));
    assert_eq!(outcome(&mut operator(&url, &["release", "job", "--foreign", "--yes"])).code(), 64);
    assert_eq!(server.cli(&["STRLEN", "job"]), "300");
    // A hash is what it is, whatever the operator says.
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    crate::operators::java_hold(&server, "job", crate::operators::JAVA);
    let text = done(&url, &["release", "job", "--foreign", "--dry-run"], 0);
    assert!(text.contains("job  lock on"), "{text}");
}

#[test]
fn a_string_without_an_expiry_gets_a_lease_unless_it_changes() {
    let server = RedisServer::start();
    let repair = |lease: &'static str, more: &[&'static str]| {
        [&["repair", "job", "--fix", "no-expiry", "--yes", "--lease", lease], more].concat()
    };
    for (value, told) in [(UNSEEN, &[][..]), (FOREIGN, &["--foreign"]), ("7", &["--foreign"])] {
        assert_eq!(server.cli(&["SET", "job", value]), "OK");
        if !told.is_empty() && value == FOREIGN {
            done(&server.url(), &repair("200ms", &[]), 64);
        }
        assert_eq!(server.cli(&["PTTL", "job"]), "-1", "{value}");
        done(&server.url(), &repair("200ms", told), 0);
        eventually(LIMIT, "the end of the lease", || server.cli(&["EXISTS", "job"]) == "0");
        done(&server.url(), &repair("200ms", told), 1);
    }
    assert_eq!(server.cli(&["SET", "job", UNSEEN]), "OK");
    let running = Running::start(&mut operator(&server.url(), &repair("5s", &[])));
    running.wait_for_output("looking again");
    assert_eq!(server.cli(&["SET", "job", FOREIGN]), "OK");
    let outcome = running.outcome();
    assert_eq!(outcome.code(), 2, "{}", outcome.out);
    assert_eq!(server.cli(&["PTTL", "job"]), "-1");
}

#[test]
fn a_watch_tells_holders_of_both_sides() {
    let server = RedisServer::start();
    let running = Running::start(&mut operator(&server.url(), &["watch", "job", "later", "--every", "20ms"]));
    running.wait_for_output("job  free");
    set(&server, "job", UNSEEN);
    running.wait_for_output(&format!("job  taken by {UNSEEN}"));
    // A mark is no other holder, in a look that surely sees it.
    set(&server, "job", &UNSEEN.replace("-0", "-1"));
    set(&server, "later", UNSEEN);
    running.wait_for_output("later  taken by");
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    eventually(LIMIT, "the lock is free again", || running.out().matches("job  free").count() == 2);
    assert_eq!(running.out().matches("  job  ").count(), 3, "{}", running.out());
}

#[test]
fn an_object_that_is_no_lock_is_named_by_its_type_and_never_released() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["HSET", "hash", "name", "Bob"]), "1");
    assert_eq!(server.cli(&["RPUSH", "list", "Bob"]), "1");
    for name in ["hash", "list"] {
        for told in [&[][..], &["--foreign"]] {
            let arguments = [&["release", name, "--yes"], told].concat();
            let refused = outcome(&mut operator(&server.url(), &arguments));
            let said = format!("{name:?} is a {name} and not a lock");
            assert_eq!(refused.code(), 64, "{}", refused.out);
            assert!(
                refused.err.contains(&said) && refused.err.contains("nothing was released"),
                "{}",
                refused.err
            );
        }
        let text = done(&server.url(), &["show", name], 0);
        assert!(text.contains(&format!("a {name} and not a lock")), "{text}");
    }
    assert_eq!(server.cli(&["EXISTS", "hash", "list"]), "2");
}

#[test]
fn a_string_of_another_library_is_hinted_at_and_shown_as_a_lock_on_request() {
    let server = RedisServer::start();
    let url = server.url();
    set(&server, "job", FOREIGN);
    let listed = done(&url, &["list"], 0);
    assert!(
        listed.contains("strings of other libraries") && listed.contains("show NAME --foreign"),
        "{listed}"
    );
    let text = done(&url, &["show", "job"], 0);
    assert!(text.contains("job  string on") && text.contains("--foreign shows it as a lock"), "{text}");
    let text = done(&url, &["show", "job", "--foreign"], 0);
    assert!(text.contains("job  plain lock on") && text.contains("--foreign releases it"), "{text}");
    // A look wins over a release, and its answers are given in advance.
    let dry = done(&url, &["release", "job", "--foreign", "--dry-run", "--yes"], 0);
    assert!(dry.contains("job  plain lock on"), "{dry}");
    assert_eq!(server.cli(&["GET", "job"]), FOREIGN);
}

#[test]
fn a_name_with_a_hash_tag_is_the_key_of_a_plain_lock() {
    let server = RedisServer::start();
    for name in ["{a}:b", "order:{42}"] {
        let program = ["run", "--plain", name, "--", "sh", "-c", "echo $LEASEHOLD_NAME"];
        set(&server, name, FOREIGN);
        let url = server.url();
        let run = |more: &[&str]| {
            let words = [&program[..1], more, &program[1..]].concat();
            outcome(leasehold().env("LEASEHOLD_URL", &url).args(words))
        };
        assert_eq!(run(&["-n"]).code(), 1, "{name} is held");
        assert_eq!(server.cli(&["DEL", name]), "1");
        let ended = run(&["-n"]);
        assert_eq!((ended.code(), ended.out.trim()), (0, name), "{}", ended.err);
    }
}

#[test]
fn a_wait_for_a_key_without_an_expiry_says_so() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", "job", FOREIGN]), "OK");
    let mut program = leasehold();
    program.env("LEASEHOLD_URL", server.url()).args(["run", "-v", "--plain", "job", "--", "true"]);
    let running = Running::start(&mut program);
    running.wait_for_output("the key of \"job\" has no expiry");
    assert_eq!(server.cli(&["DEL", "job"]), "1");
    assert_eq!(running.outcome().code(), 0);
}

#[test]
fn a_missing_right_is_told_with_the_commands_that_find_and_grant_it() {
    let server = RedisServer::start();
    let rules = ["reset", "on", ">word", "~*", "&*", "+@all", "-eval", "-evalsha", "-@scripting"];
    assert_eq!(server.cli(&[&["ACL", "SETUSER", "app"], &rules[..]].concat()), "OK");
    let url = server.url().replace("redis://", "redis://app:word@");
    for kind in [&["run"][..], &["run", "--fair"]] {
        let words = [kind, &["-n", "job", "--", "true"]].concat();
        let ended = outcome(leasehold().env("LEASEHOLD_URL", &url).args(words));
        assert_eq!(ended.code(), 69, "{}", ended.err);
        for part in ["NOPERM", "leasehold doctor", "leasehold acl"] {
            assert!(ended.err.contains(part), "{part} in {}", ended.err);
        }
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn a_mark_between_two_looks_is_no_change_to_a_repair() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", "job", UNSEEN]), "OK");
    let words = ["repair", "job", "--fix", "no-expiry", "--yes", "--lease", "3s"];
    let running = Running::start(&mut operator(&server.url(), &words));
    running.wait_for_output("looking again");
    assert_eq!(server.cli(&["SETRANGE", "job", "27", "1"]), "28");
    let outcome = running.outcome();
    assert_eq!(outcome.code(), 0, "{}", outcome.out);
    assert_ne!(server.cli(&["PTTL", "job"]), "-1");
}

#[test]
fn the_value_of_another_library_is_shown_without_its_control_characters() {
    let server = RedisServer::start();
    set(&server, "job", "\u{1b}[31mred");
    let dry = done(&server.url(), &["release", "job", "--foreign", "--dry-run"], 0);
    assert!(dry.contains("x1b[31mred") && !dry.contains('\u{1b}'), "{dry:?}");
}
