//! What a plain lock makes of values, counters, lists and rights that cannot work.

use leasehold::error::{AcquireErrorKind, NameError};
use leasehold::{Client, Endless, MultiLock, Name, PlainFormat, Redlock, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;

use super::value;
use crate::support::{
    Fixture, Monitor, connect, connect_with, eventually, is_free, ms, on_both, run_command, soon,
};

on_both! {
    async {
        a_chosen_value_that_another_hold_has_grants_nothing,
        a_counter_or_a_list_needs_a_key_of_its_own,
        a_counter_below_zero_is_an_error_before_the_lock_is_written,
        a_key_without_an_expiry_is_waited_for_by_several_locks_at_once,
        a_fenced_lock_waits_for_a_key_of_another_type_if_its_format_says_so,
        the_list_of_another_library_is_behind_the_key_prefix,
        a_fenced_lock_without_an_expiry_is_an_error_if_its_format_says_so,
        a_forced_release_of_a_fenced_lock_fills_the_list_of_another_library,
        several_locks_keep_their_chosen_values,
    }
}

async fn a_chosen_value_that_another_hold_has_grants_nothing(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    for is_fenced in [false, true] {
        let guard = one.plain_lock("job").token("tok").lock().await.unwrap();
        // The second attempt runs the script of a waiter.
        let lock = other.plain_lock("job").token("tok");
        let refused = match is_fenced {
            true => lock.fenced("job:fence").try_lock_for(ms(200)).await.unwrap().is_none(),
            false => lock.try_lock_for(ms(200)).await.unwrap().is_none(),
        };
        assert!(refused && guard.is_held(), "fenced: {is_fenced}");
        assert_eq!(value(&server, "job"), "tok");
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    }
}

async fn a_counter_or_a_list_needs_a_key_of_its_own(server: Fixture) {
    let client = connect_with(Client::builder().key_prefix("app:"), &server.url()).await;
    let used_twice = AcquireErrorKind::Name(NameError::UsedTwice);
    let own = client.plain_lock("job").fenced("job").try_lock().await;
    assert_eq!(own.map(drop).unwrap_err().kind, used_twice);
    let lock = client.plain_lock("job").format(PlainFormat::python_redis_lock());
    let list = lock.fenced("lock-signal:job").try_lock().await;
    assert_eq!(list.map(drop).unwrap_err().kind, used_twice);
}

async fn a_counter_below_zero_is_an_error_before_the_lock_is_written(server: Fixture) {
    let client = connect(&server).await;
    for before in ["-5", "-1"] {
        run_command(&server, &["SET", "job:fence", before]);
        let refused = client.plain_lock("job").fenced("job:fence").try_lock().await;
        assert!(refused.is_err(), "{before}");
        assert!(is_free(&server, "job"), "{before}");
    }
    // A counter that is gone when a grant is asked for again begins anew.
    run_command(&server, &["SET", "job:fence", "7"]);
    let guard = client.plain_lock("job").fenced("job:fence").lock().await.unwrap();
    assert_eq!(guard.token(), 8);
}

async fn a_key_without_an_expiry_is_waited_for_by_several_locks_at_once(server: Fixture) {
    let client = connect(&server).await;
    let [a, b] = ["a", "b"].map(|rest| Name::with_hash_tag("job", rest).unwrap());
    run_command(&server, &["SET", "{job}b", "another"]);
    let both = MultiLock::of([a, b].map(|name| client.plain_lock(name).into()));
    assert!(both.try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { both.lock().await });
    eventually("the waiter", || client.waits().count() == 1).await;
    run_command(&server, &["DEL", "{job}b"]);
    soon("both", waiting).await.unwrap().unwrap().release().await.unwrap();
}

async fn a_fenced_lock_waits_for_a_key_of_another_type_if_its_format_says_so(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["RPUSH", "job", "another"]);
    let lock = client.plain_lock("job").format(PlainFormat::symfony()).fenced("job:fence");
    assert!(lock.try_lock().await.unwrap().is_none());
    run_command(&server, &["DEL", "job"]);
    assert_eq!(lock.try_lock().await.unwrap().expect("it is free").token(), 1);
}

async fn the_list_of_another_library_is_behind_the_key_prefix(server: Fixture) {
    let client = connect_with(Client::builder().key_prefix("app:"), &server.url()).await;
    let lock = client.plain_lock("job").format(PlainFormat::python_redis_lock());
    lock.lock().await.unwrap().release().await.unwrap();
    assert_eq!(server.cli(&["LLEN", "app:lock-signal:job"]), "1");
    assert_eq!(server.cli(&["EXISTS", "lock-signal:job"]), "0", "nothing is outside the prefix");
}

#[tokio::test]
async fn a_value_that_waiters_would_mark_is_refused() {
    let client = Client::connect("memory://").await.unwrap();
    let lock = client.plain_lock("job");
    for value in ["", "1", "lh1-AAAAAAAAAAAAAAAAAAAAAA-0", "lh1-AAAAAAAAAAAAAAAAAAAAAA-1", "ä", "a\n"] {
        let lock = lock.clone();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.token(value)));
        assert!(refused.is_err(), "{value:?}");
    }
}

#[tokio::test]
async fn a_majority_waits_for_a_key_without_an_expiry() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let builder = Redlock::builder().nodes_persist_every_write();
    let redlock = builder.connect(urls.iter().map(String::as_str)).await.unwrap();
    for server in &servers[..2] {
        run_command(server, &["SET", "job", "another"]);
    }
    assert!(redlock.plain_lock("job").try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { redlock.plain_lock("job").lock().await });
    for server in &servers[..2] {
        run_command(server, &["DEL", "job"]);
    }
    soon("the majority", waiting).await.unwrap().unwrap().release().await.unwrap();
}

/// Returns the URL of a user with these rights.
fn user(server: &RedisServer, rules: &str) -> String {
    let rules = format!("ACL SETUSER app reset on >secret {rules}");
    assert_eq!(server.cli(&rules.split(' ').collect::<Vec<_>>()), "OK");
    format!("redis://app:secret@127.0.0.1:{}", server.port())
}

#[tokio::test]
async fn a_list_that_the_user_may_not_write_is_refused_before_there_is_a_hold() {
    let server = RedisServer::start();
    let url = user(&server, "~lock:* &* +@all");
    let client = connect_with(Client::builder(), &url).await;
    let lock = client.plain_lock("job").format(PlainFormat::python_redis_lock());
    let refused = lock.try_lock().await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("NOPERM"), "{refused}");
    assert!(is_free(&server, "lock:job"), "no lock is left behind");
}

#[tokio::test]
async fn a_holder_that_may_not_wake_waiters_gets_no_lock() {
    let server = RedisServer::start();
    let url = user(&server, "~* resetchannels +@all");
    let client = connect_with(Client::builder(), &url).await;
    let refused = client.plain_lock("job").try_lock().await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("NOPERM"), "{refused}");
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn rights_that_are_uncertain_are_asked_for_once() {
    let server = RedisServer::start();
    let url = user(&server, "~* resetchannels &leasehold_* +@all");
    let client = connect_with(Client::builder(), &url).await;
    let pair = async || client.plain_lock("job").lock().await.unwrap().release().await.unwrap();
    pair().await;
    let monitor = Monitor::start(&server);
    pair().await;
    let first = monitor.commands().into_iter().find(|words| words.iter().any(|word| word == "job"));
    assert!(first.as_ref().is_some_and(|words| words.iter().any(|word| word == "SET")), "{first:?}");
}

#[tokio::test]
async fn a_server_without_scripts_and_commands_says_why_in_its_own_words() {
    let server = RedisServer::start();
    let has = |command: &str| server.cli(&["COMMAND", "INFO", command]).contains(command);
    if ["delifeq", "delex"].into_iter().any(has) {
        println!("not tested: this server has a native compare-and-delete");
        return;
    }
    for lacks in ["-@scripting", "-eval -evalsha", "-evalsha", "-eval"] {
        let url = user(&server, &format!("~* &* +@all {lacks}"));
        let client = connect_with(Client::builder().timeout(ms(500)), &url).await;
        for _ in 0..2 {
            let refused = client.plain_lock("job").try_lock().await.map(drop).unwrap_err().to_string();
            assert!(refused.contains("NOPERM") && refused.contains("'eval"), "{lacks}: {refused}");
            assert!(is_free(&server, "job"), "{lacks}: it could not be released");
        }
    }
}

async fn a_fenced_lock_without_an_expiry_is_an_error_if_its_format_says_so(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "job", "another"]);
    let lock = client.plain_lock("job").format(PlainFormat::new().endless(Endless::Fail)).fenced("job:fence");
    let refused = lock.try_lock_for(ms(200)).await.map(drop).unwrap_err();
    assert!(matches!(refused.kind, AcquireErrorKind::NoExpiry), "{refused}");
}

async fn a_forced_release_of_a_fenced_lock_fills_the_list_of_another_library(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.plain_lock("job").format(PlainFormat::python_redis_lock()).fenced("job:fence");
    run_command(&server, &["SET", "lock:job", "another"]);
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(server.cli(&["LLEN", "lock-signal:job"]), "1");
}

async fn several_locks_keep_their_chosen_values(server: Fixture) {
    let client = connect(&server).await;
    let both = MultiLock::of(["a", "b"].map(|rest| {
        let name = Name::with_hash_tag("job", rest).unwrap();
        client.plain_lock(name).token(&format!("tok-{rest}")).into()
    }));
    let guard = both.lock().await.unwrap();
    assert_eq!([value(&server, "{job}a"), value(&server, "{job}b")], ["tok-a", "tok-b"]);
    guard.release().await.unwrap();
}
