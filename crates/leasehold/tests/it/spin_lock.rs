//! The spin lock, with growing pauses and without messages.

use std::time::{Duration, Instant};

use leasehold::Client;

use crate::support::{
    Fixture, Monitor, TestServer, connect, connect_with, eventually, is_free, ms, on_both, soon,
};

on_both! {
    async {
        a_spin_lock_neither_publishes_nor_subscribes,
        a_waiter_gets_a_released_lock_without_a_message,
        pauses_grow_to_their_bound,
        pauses_can_be_set,
        a_wait_ends_at_its_timeout,
        an_owner_re_enters_a_spin_lock,
        a_plain_lock_of_the_same_name_excludes_a_spin_lock,
        a_forced_release_frees_a_spin_lock,
        a_dropped_waiter_leaves_nothing,
    }
}

fn pair(client: &Client) -> (leasehold::Lock<leasehold::lock::Spin>, leasehold::Lock<leasehold::lock::Spin>) {
    (client.spin_lock("job"), client.spin_lock("job"))
}

async fn a_spin_lock_neither_publishes_nor_subscribes(server: Fixture) {
    let monitor = Monitor::start(&server);
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.spin_lock("job").lock().await.unwrap();
    assert!(other.spin_lock("job").try_lock_for(ms(100)).await.unwrap().is_none());
    held.release().await.unwrap();
    let commands = monitor.commands();
    // A new connection probes a channel that belongs to no lock.
    let of_locks = commands.iter().filter(|words| words.get(1).is_none_or(|to| to != "leasehold:probe"));
    let words: Vec<String> = of_locks.map(|words| words[0].to_uppercase()).collect();
    assert!(words.iter().any(|word| word.starts_with("EVAL")));
    assert!(!words.iter().any(|word| word.contains("SUBSCRIBE") || word == "PUBLISH"), "{words:?}");
}

async fn a_waiter_gets_a_released_lock_without_a_message(server: Fixture) {
    let (held, waiting) =
        pair(&connect_with(Client::builder().poll_interval(Duration::from_secs(3_600)), &server.url()).await);
    let guard = held.lock().await.unwrap();
    let other = connect(&server).await.spin_lock("job");
    let waiter = tokio::spawn(async move { other.lock().await.unwrap() });
    let before = server.scripts_run();
    eventually("it to ask some times", || server.scripts_run() > before + 4).await;
    guard.release().await.unwrap();
    let guard = soon("the lock", waiter).await.unwrap();
    guard.release().await.unwrap();
    let guard = soon("the lock", waiting.lock()).await.unwrap();
    guard.release().await.unwrap();
}

async fn pauses_grow_to_their_bound(server: Fixture) {
    let _held = connect(&server).await.spin_lock("job").lock().await.unwrap();
    let other = connect(&server).await.spin_lock("job");
    let before = server.scripts_run();
    assert!(other.try_lock_for(ms(2_000)).await.unwrap().is_none());
    let asked = server.scripts_run() - before;
    // The pauses are 1, 2, 4 and so on to 128 ms, each at least half of that. There are some 8 pauses while they grow,
    // and then 15 to 31 more.
    assert!((5..=48).contains(&asked), "asked {asked} times");
}

async fn pauses_can_be_set(server: Fixture) {
    let _held = connect(&server).await.spin_lock("job").lock().await.unwrap();
    let other = connect(&server).await.spin_lock("job").backoff(ms(400), ms(400));
    let before = server.scripts_run();
    assert!(other.try_lock_for(ms(2_000)).await.unwrap().is_none());
    let asked = server.scripts_run() - before;
    assert!((2..=11).contains(&asked), "asked {asked} times");
}

async fn a_wait_ends_at_its_timeout(server: Fixture) {
    let _held = connect(&server).await.spin_lock("job").lock().await.unwrap();
    let other = connect(&server).await.spin_lock("job").backoff(ms(60_000), ms(60_000));
    let started = Instant::now();
    assert!(soon("the end", other.try_lock_for(ms(200))).await.unwrap().is_none());
    assert!(started.elapsed() >= ms(200));
}

async fn an_owner_re_enters_a_spin_lock(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.spin_lock("job").owned_by(&client.owner());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    inner.release().await.unwrap();
    assert!(outer.is_held());
    outer.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn a_plain_lock_of_the_same_name_excludes_a_spin_lock(server: Fixture) {
    let client = connect(&server).await;
    let _held = client.lock("job").lock().await.unwrap();
    assert!(client.spin_lock("job").try_lock().await.unwrap().is_none());
}

async fn a_forced_release_frees_a_spin_lock(server: Fixture) {
    let client = connect(&server).await;
    client.spin_lock("job").lock().await.unwrap().detach();
    assert!(client.spin_lock("job").force_unlock().await.unwrap());
    assert!(is_free(&server, "job"));
}

async fn a_dropped_waiter_leaves_nothing(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let held = one.spin_lock("job").lock().await.unwrap();
    let lock = other.spin_lock("job");
    let waiter = tokio::spawn(async move { lock.lock().await });
    let before = server.scripts_run();
    eventually("it to ask", || server.scripts_run() > before).await;
    waiter.abort();
    held.release().await.unwrap();
    let report = other.close().await;
    assert_eq!(report.unconfirmed, 0);
    assert!(is_free(&server, "job"));
}
