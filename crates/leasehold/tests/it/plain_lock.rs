//! The plain lock: its key, its marks, its messages, and how it meets what other libraries write.

mod counting;
mod traps;

use std::time::Duration;

use leasehold::error::AcquireErrorKind;
use leasehold::{Client, Endless, LostReason, MultiLock, Name, PlainFormat, Redlock, ReleaseOutcome};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, Subscriber, a_lease_passes, connect, connect_with, eventually, is_free, ms, on_both,
    pttl, run_command, soon,
};

on_both! {
    async {
        a_hold_is_a_string_with_a_lease,
        a_held_lock_is_refused_to_every_other_owner,
        an_uncontended_pair_runs_no_script_and_sends_no_message_where_the_server_can,
        a_waiter_marks_the_holder_and_gets_the_lock_by_its_message,
        a_mark_keeps_the_lease_and_outlives_renewals,
        a_waiter_takes_over_from_a_holder_of_another_library,
        a_value_of_another_library_is_never_changed,
        a_lock_without_an_expiry_is_waited_for_or_an_error,
        a_key_of_another_type_is_an_error_or_a_hold,
        an_owner_reenters_with_one_hold_on_the_server,
        a_hold_that_others_replaced_or_deleted_is_lost,
        a_minimum_hold_stays_until_its_end,
        waiters_on_a_list_get_its_element,
        waiters_on_a_channel_get_the_key,
        fencing_tokens_count_on_from_the_counter_of_another_library,
        a_chosen_value_is_written_as_it_is_and_its_release_tells,
        a_forced_release_wakes_waiters,
        several_locks_are_acquired_together_or_not_at_all,
        two_handles_of_one_key_with_different_formats_exclude_each_other,
        a_holder_names_itself_or_shows_its_value,
    }
}

fn value(server: &Fixture, key: &str) -> String {
    server.cli(&["GET", key])
}

fn is_unmarked(value: &str) -> bool {
    value.len() == 28 && value.starts_with("lh1-") && value.ends_with("-0")
}

async fn a_hold_is_a_string_with_a_lease(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.plain_lock("job").lock().await.unwrap();
    let first = value(&server, "job");
    assert!(is_unmarked(&first), "{first}");
    assert!((20_000..=30_000).contains(&pttl(&server, "job")));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
    let _guard = client.plain_lock("job").lock().await.unwrap();
    assert_ne!(value(&server, "job"), first, "each hold has a value of its own");
}

async fn a_held_lock_is_refused_to_every_other_owner(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.plain_lock("job").try_lock().await.unwrap().unwrap();
    for client in [&one, &other] {
        assert!(client.plain_lock("job").try_lock().await.unwrap().is_none());
        assert!(client.plain_lock("job").try_lock_for(ms(100)).await.unwrap().is_none());
    }
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(other.plain_lock("job").try_lock().await.unwrap().is_some());
}

/// The names of the commands that clients sent.
fn names(monitor: &Monitor) -> Vec<String> {
    monitor.commands().into_iter().map(|words| words[0].to_ascii_lowercase()).collect()
}

async fn an_uncontended_pair_runs_no_script_and_sends_no_message_where_the_server_can(server: Fixture) {
    let lock = connect(&server).await.plain_lock("job");
    lock.lock().await.unwrap().release().await.unwrap();
    let monitor = Monitor::start(&server);
    lock.lock().await.unwrap().release().await.unwrap();
    let can = |command: &str, words: &[&str]| {
        let answer = server.cli(&[&[command][..], words].concat());
        !answer.contains("unknown command") && !answer.contains("syntax")
    };
    let deletes = if can("DELIFEQ", &["none", "x"]) {
        "delifeq"
    } else if can("DELEX", &["none", "IFEQ", "x"]) {
        "delex"
    } else {
        "evalsha"
    };
    let expected =
        if matches!(server, Fixture::Embedded { .. }) && deletes == "evalsha" { "eval" } else { deletes };
    let sent: Vec<String> = names(&monitor).into_iter().take(2).collect();
    // The store in this process has no wire, so it runs the scripts.
    if matches!(server, Fixture::Embedded { .. }) {
        assert_eq!(sent, ["eval", "eval"]);
    } else {
        assert_eq!(sent, ["set", expected]);
    }
    if let Fixture::Redis(server) = &server {
        let published = || server.commandstats().get("publish").copied();
        let before = published();
        lock.lock().await.unwrap().release().await.unwrap();
        assert_eq!(published(), before, "nobody waits");
    }
}

async fn a_waiter_marks_the_holder_and_gets_the_lock_by_its_message(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.plain_lock("job").lock().await.unwrap();
    let first = value(&server, "job");
    let waiting = tokio::spawn({
        let lock = other.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the mark", || value(&server, "job").ends_with("-1")).await;
    assert_eq!(value(&server, "job")[..27], first[..27], "the value is the holder's but for its mark");
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    let guard = soon("the other client", waiting).await.unwrap().unwrap();
    assert!(is_unmarked(&value(&server, "job")));
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

async fn a_mark_keeps_the_lease_and_outlives_renewals(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.plain_lock("job").watchdog(ms(3_000)).lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = other.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the mark", || value(&server, "job").ends_with("-1")).await;
    assert!((1..=3_000).contains(&pttl(&server, "job")));
    a_lease_passes(&server, ms(4_000)).await;
    assert!(guard.is_held(), "the watchdog renews a marked hold");
    assert!(value(&server, "job").ends_with("-1"));
    guard.release().await.unwrap();
    drop(soon("the other client", waiting).await.unwrap().unwrap());
}

async fn a_waiter_takes_over_from_a_holder_of_another_library(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "job", "another", "NX", "PX", "60000"]);
    let waiting = tokio::spawn({
        let lock = client.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the waiter", || client.waits().count() == 1).await;
    run_command(&server, &["DEL", "job"]);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
    // One that dies is followed at the end of its lease.
    run_command(&server, &["SET", "other", "another", "NX", "PX", "300"]);
    let guard = soon("the lease", client.plain_lock("other").lock()).await.unwrap();
    assert!(guard.is_held());
}

async fn a_value_of_another_library_is_never_changed(server: Fixture) {
    let client = connect(&server).await;
    for foreign in ["another", "1", "lh1-", "lh1-AAAAAAAAAAAAAAAAAAAAAA-2", "lh1-AAAAAAAAAAAAAAAAAAAAAA-00"] {
        run_command(&server, &["SET", "job", foreign, "PX", "60000"]);
        assert!(client.plain_lock("job").try_lock_for(ms(60)).await.unwrap().is_none());
        assert_eq!(value(&server, "job"), foreign);
        assert!(pttl(&server, "job") > 30_000, "its expiry is its own");
    }
}

async fn a_lock_without_an_expiry_is_waited_for_or_an_error(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "job", "another"]);
    let failing = client.plain_lock("job").format(PlainFormat::new().endless(Endless::Fail));
    for acquired in [failing.try_lock().await, failing.lock().await.map(Some)] {
        assert!(matches!(acquired.unwrap_err().kind, AcquireErrorKind::NoExpiry));
    }
    let waiting = client.plain_lock("job");
    assert!(waiting.try_lock_for(ms(60)).await.unwrap().is_none());
    let waiting = tokio::spawn(async move { waiting.lock().await });
    eventually("the waiter", || client.waits().count() == 1).await;
    run_command(&server, &["DEL", "job"]);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

async fn a_key_of_another_type_is_an_error_or_a_hold(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["ZADD", "job", "1", "symfony"]);
    let error = client.plain_lock("job").try_lock().await.unwrap_err();
    assert!(matches!(error.kind, AcquireErrorKind::OtherKind(_)), "{error}");
    assert!(leasehold::Error::from(error).to_string().contains("zset"));
    let error = client.plain_lock("job").lock().await.unwrap_err();
    assert!(matches!(error.kind, AcquireErrorKind::OtherKind(_)), "{error}");
    let beside = client.plain_lock("job").format(PlainFormat::symfony());
    assert!(beside.try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { beside.lock().await });
    eventually("the waiter", || client.waits().count() == 1).await;
    run_command(&server, &["DEL", "job"]);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

async fn an_owner_reenters_with_one_hold_on_the_server(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.plain_lock("job").owned_by(&client.owner());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    let held = value(&server, "job");
    assert_eq!(inner.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(value(&server, "job"), held);
    assert_eq!(outer.release().await, Ok(ReleaseOutcome::Released));
    assert!(is_free(&server, "job"));
}

async fn a_hold_that_others_replaced_or_deleted_is_lost(server: Fixture) {
    let client = connect(&server).await;
    for (command, reason) in [
        (&["SET", "job", "another", "PX", "60000"][..], LostReason::TakenOver),
        (&["DEL", "job"], LostReason::Deleted),
    ] {
        let guard = client.plain_lock("job").watchdog(ms(300)).lock().await.unwrap();
        run_command(&server, command);
        assert_eq!(soon("the loss", guard.lost()).await, reason);
        assert_ne!(guard.release().await, Ok(ReleaseOutcome::Released));
        if reason == LostReason::TakenOver {
            assert_eq!(value(&server, "job"), "another", "a release deletes nothing but its own hold");
            run_command(&server, &["DEL", "job"]);
        }
    }
}

async fn a_minimum_hold_stays_until_its_end(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.plain_lock("job").min_hold(ms(400)).lock().await.unwrap();
    guard.release().await.unwrap();
    assert!(client.plain_lock("job").try_lock().await.unwrap().is_none(), "it belongs to no guard");
    eventually("its end", || is_free(&server, "job")).await;
}

async fn waiters_on_a_list_get_its_element(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.plain_lock("job").format(PlainFormat::python_redis_lock());
    let guard = lock.lock().await.unwrap();
    assert!(is_unmarked(&value(&server, "lock:job")));
    guard.release().await.unwrap();
    assert_eq!(server.cli(&["LRANGE", "lock-signal:job", "0", "-1"]), "1");
    assert!((1..=1_000).contains(&pttl(&server, "lock-signal:job")));
    run_command(&server, &["SET", "lock:job", "another"]);
    run_command(&server, &["DEL", "lock-signal:job"]);
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(server.cli(&["LLEN", "lock-signal:job"]), "1", "a forced release wakes them too");
}

async fn waiters_on_a_channel_get_the_key(server: Fixture) {
    let client = connect(&server).await;
    let mut heard = Subscriber::start(&server, "locks-channel:locks:job");
    let lock = client.plain_lock("job").format(PlainFormat::spring_pub_sub("locks"));
    lock.lock().await.unwrap().release().await.unwrap();
    assert_eq!(heard.message(), "locks:job");
}

async fn fencing_tokens_count_on_from_the_counter_of_another_library(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.plain_lock("job").fenced("job:fence");
    let first = lock.lock().await.unwrap();
    assert_eq!(first.token(), 1);
    first.release().await.unwrap();
    assert_eq!(server.cli(&["INCR", "job:fence"]), "2", "as bsm/redislock does");
    let guard = lock.lock().await.unwrap();
    assert_eq!(guard.token(), 3);
    assert!(client.plain_lock("job").try_lock().await.unwrap().is_none(), "one key, one lock");
    guard.release().await.unwrap();
    run_command(&server, &["SET", "job:fence", "none"]);
    assert!(lock.try_lock().await.is_err());
    assert!(is_free(&server, "job"), "no grant lacks a token");
}

async fn a_chosen_value_is_written_as_it_is_and_its_release_tells(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let guard = one.plain_lock("job").token("order-7").lock().await.unwrap();
    assert_eq!(value(&server, "job"), "order-7");
    let waiting = tokio::spawn({
        let lock = other.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the waiter", || other.waits().count() == 1).await;
    assert!(one.plain_lock("job").try_lock_for(ms(50)).await.unwrap().is_none());
    assert_eq!(value(&server, "job"), "order-7", "it takes no mark");
    let mut heard = Subscriber::start(&server, "leasehold_plain:{job}");
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    heard.message();
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

async fn a_forced_release_wakes_waiters(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    one.plain_lock("job").lock().await.unwrap().detach();
    let waiting = tokio::spawn({
        let lock = other.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the mark", || value(&server, "job").ends_with("-1")).await;
    assert!(one.plain_lock("job").is_locked().await.unwrap());
    assert!(one.plain_lock("job").force_unlock().await.unwrap());
    let guard = soon("the waiter", waiting).await.unwrap().unwrap();
    guard.release().await.unwrap();
    assert!(!one.plain_lock("job").force_unlock().await.unwrap(), "it was free");
    assert_eq!(one.plain_lock("job").remaining().await.unwrap(), None);
}

async fn several_locks_are_acquired_together_or_not_at_all(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let [a, b] = ["a", "b"].map(|rest| Name::with_hash_tag("job", rest).unwrap());
    let both = |client: &Client| MultiLock::of([&a, &b].map(|name| client.plain_lock(name.clone()).into()));
    let single = one.plain_lock(b.clone()).lock().await.unwrap();
    assert!(both(&other).try_lock().await.unwrap().is_none());
    assert!(is_free(&server, "{job}a"), "all or none");
    let waiting = tokio::spawn({
        let both = both(&other);
        async move { both.lock().await }
    });
    eventually("the mark", || value(&server, "{job}b").ends_with("-1")).await;
    single.release().await.unwrap();
    let guard = soon("both", waiting).await.unwrap().unwrap();
    let [of_a, of_b] = ["{job}a", "{job}b"].map(|key| value(&server, key));
    assert!(is_unmarked(&of_a) && of_a == of_b, "{of_a} {of_b}");
    let waiting = tokio::spawn({
        let lock = one.plain_lock(a.clone());
        async move { lock.lock().await }
    });
    eventually("the mark", || value(&server, "{job}a").ends_with("-1")).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    drop(soon("the single lock", waiting).await.unwrap().unwrap());
    eventually("both to be free", || is_free(&server, "{job}a") && is_free(&server, "{job}b")).await;
}

async fn two_handles_of_one_key_with_different_formats_exclude_each_other(server: Fixture) {
    let client = connect(&server).await;
    let (one, other) = (
        client.plain_lock("job"),
        client.plain_lock("job").format(PlainFormat::new().endless(Endless::Fail)),
    );
    let guard = one.lock().await.unwrap();
    let waiting = tokio::spawn(async move { other.lock().await });
    eventually("the mark", || value(&server, "job").ends_with("-1")).await;
    guard.release().await.unwrap();
    drop(soon("the other handle", waiting).await.unwrap().unwrap());
}

async fn a_holder_names_itself_or_shows_its_value(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let lock = one.plain_lock("job");
    assert_eq!(lock.holder().await.unwrap(), None);
    let guard = lock.lock().await.unwrap();
    assert_eq!(lock.holder().await.unwrap().unwrap().owner, guard.wire_owner().to_string());
    let shown = other.plain_lock("job").holder().await.unwrap().unwrap();
    assert_eq!(shown.owner, value(&server, "job"));
    guard.release().await.unwrap();
    run_command(&server, &["SET", "job", "another"]);
    assert_eq!(lock.holder().await.unwrap().unwrap().owner, "another");
}

#[tokio::test]
async fn a_poller_gets_its_share_beside_two_busy_clients() {
    let server = RedisServer::start();
    let clients = [connect(&server).await, connect(&server).await];
    let interval = ms(50);
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let busy: Vec<_> = (0..4)
        .map(|task| {
            let lock = clients[task % 2].plain_lock("job").share_with_pollers(interval);
            let stop = std::sync::Arc::clone(&stop);
            tokio::spawn(async move {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let guard = lock.lock().await.unwrap();
                    tokio::task::yield_now().await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    // The poller is a client of another library: it looks every interval.
    let mut looks = crate::support::pace(interval);
    let polled = async {
        loop {
            looks.tick().await;
            if server.cli(&["SET", "job", "poller", "NX", "PX", "10000"]) == "OK" {
                return server.cli(&["DEL", "job"]);
            }
        }
    };
    assert_eq!(soon("the poller", polled).await, "1");
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    for task in busy {
        soon("a busy task", task).await.unwrap();
    }
}

#[tokio::test]
async fn a_majority_of_servers_grants_a_plain_lock() {
    let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let builder = Redlock::builder().nodes_persist_every_write();
    let redlock = builder.connect(urls.iter().map(String::as_str)).await.unwrap();
    let guard = redlock.plain_lock("job").lock().await.unwrap();
    eventually("all nodes", || servers.iter().all(|server| server.cli(&["STRLEN", "job"]) == "28")).await;
    assert!(redlock.plain_lock("job").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    eventually("free nodes", || servers.iter().all(|server| is_free(server, "job"))).await;
    // Another library holds a majority.
    for server in &servers[..2] {
        assert_eq!(server.cli(&["SET", "job", "another", "NX", "PX", "60000"]), "OK");
    }
    assert!(redlock.plain_lock("job").try_lock().await.unwrap().is_none());
}

#[tokio::test]
async fn a_release_after_a_reconnect_of_a_waiter_still_wakes_it() {
    let (server, proxy) = crate::support::server_and_proxy();
    let holder = connect(&server).await;
    let waiter = connect_with(Client::builder().timeout(Duration::from_secs(1)), &proxy.url()).await;
    let guard = holder.plain_lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = waiter.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the mark", || server.cli(&["GET", "job"]).ends_with("-1")).await;
    proxy.cut();
    guard.release().await.unwrap();
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_server_that_can_tells_of_the_release_of_another_library() {
    let server = Fixture::redis();
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    run_command(&server, &["SET", "job", "another", "PX", "60000"]);
    let waiting = tokio::spawn({
        let lock = client.plain_lock("job");
        async move { lock.lock().await }
    });
    let asks = |words: Vec<String>| words.get(1).is_some_and(|word| word.eq_ignore_ascii_case("caching"));
    eventually("the request to tell", || monitor.commands().into_iter().any(asks)).await;
    let flags = server.cli(&["CLIENT", "LIST"]);
    assert!(flags.lines().any(|line| line.contains("flags=t")), "{flags}");
    run_command(&server, &["DEL", "job"]);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_server_that_runs_no_scripts_has_plain_locks_by_native_commands() {
    let server = RedisServer::start();
    let lacks = |command: &[&str]| server.cli(command).contains("unknown command");
    if lacks(&["DELIFEQ", "none", "x"]) && lacks(&["DELEX", "none", "IFEQ", "x"]) {
        println!("not tested: this server has no native compare-and-delete; see `cargo x valkey`");
        return;
    }
    let rules = "ACL SETUSER app reset on >secret ~* &* +@all -@scripting";
    assert_eq!(server.cli(&rules.split(' ').collect::<Vec<_>>()), "OK");
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let [one, other] =
        [connect_with(Client::builder(), &url).await, connect_with(Client::builder(), &url).await];
    let guard = one.plain_lock("job").watchdog(ms(2_000)).lock().await.unwrap();
    assert!(other.plain_lock("job").try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let lock = other.plain_lock("job");
        async move { lock.lock().await }
    });
    a_lease_passes(&server, ms(3_000)).await;
    assert!(guard.is_held(), "it is renewed");
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    let guard = soon("the waiter", waiting).await.unwrap().unwrap();
    // A client that runs scripts marks the hold, which is renewed and released all the same.
    let marking = connect(&server).await;
    let waiting = tokio::spawn({
        let lock = marking.plain_lock("job");
        async move { lock.lock().await }
    });
    eventually("the mark", || server.cli(&["GET", "job"]).ends_with("-1")).await;
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    drop(soon("the marking client", waiting).await.unwrap().unwrap());
    let guard = one.plain_lock("lost").watchdog(ms(300)).lock().await.unwrap();
    run_command(&server, &["SET", "lost", "another"]);
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::TakenOver);
    drop(guard);
    assert_eq!(server.cli(&["GET", "lost"]), "another");
}

#[tokio::test]
async fn a_user_without_the_native_commands_has_plain_locks_by_scripts() {
    let server = RedisServer::start();
    let rules = "ACL SETUSER app reset on >secret ~* &* +@all -client|tracking";
    let natives: String = ["delifeq", "delex"]
        .into_iter()
        .filter(|command| server.cli(&["COMMAND", "INFO", command]).contains(command))
        .map(|command| format!(" -{command}"))
        .collect();
    assert_eq!(server.cli(&format!("{rules}{natives}").split(' ').collect::<Vec<_>>()), "OK");
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let client = connect_with(Client::builder(), &url).await;
    let lock = client.plain_lock("job");
    for _ in 0..3 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
    }
    run_command(&server, &["SET", "job", "another", "PX", "60000"]);
    let waiting = tokio::spawn(async move { lock.lock().await });
    eventually("the waiter", || client.waits().count() == 1).await;
    run_command(&server, &["DEL", "job"]);
    drop(soon("the waiter", waiting).await.unwrap().unwrap());
}
