//! The count-down latch. Every waiter goes on at zero, and no waiter goes on earlier.

use std::time::{Duration, Instant};

use leasehold::error::{OperationErrorKind, WaitErrorKind};
use leasehold::{Client, CountDownLatch, Name, OperationError, WaitError};
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinHandle;

use crate::support::{
    Fixture, Monitor, Subscriber, TestServer, assert_failed, connect, connect_through, connect_with,
    connect_without_polling, eventually, is_free, listening, ms, on_both, pttl, run_command, scripts_run,
    server_and_proxy, soon,
};

const CHANNEL: &str = "redisson_countdownlatch__channel__{parts}";

fn wait_in_task(client: &Client) -> JoinHandle<Result<(), WaitError>> {
    let latch = client.count_down_latch("parts");
    tokio::spawn(async move { latch.wait().await })
}

/// Waits until each waiter has made its first attempt, and each client has subscribed and tried again. The clients do not
/// poll, so no other attempt counts.
async fn asleep(server: &impl TestServer, (clients, waiters): (u64, u64), reads_before: u64) {
    eventually("the waiters to fall asleep", || {
        listening(server, CHANNEL) == clients
            && server.latch_reads() == reads_before + 2 * (waiters + clients)
    })
    .await;
}

on_both! {
    async {
        waiters_of_all_clients_continue_at_zero,
        a_latch_at_zero_is_deleted_and_stays_open,
        a_latch_that_is_not_set_is_open,
        the_count_is_set_once_until_it_reaches_zero,
        a_latch_of_zero_is_open,
        a_latch_wait_times_out,
        a_deletion_is_reported_to_current_but_not_later_waiters,
        a_deletion_is_cleared_when_any_client_sets_the_count,
        a_latch_that_is_set_again_at_once_lets_all_its_waiters_continue,
        a_latch_that_is_deleted_and_set_again_at_once_fails_all_its_waiters,
        a_waiter_of_the_next_round_waits_for_its_own_zero,
        a_round_that_redisson_ends_looks_like_the_next_one,
        a_message_of_redisson_wakes_a_waiter,
        a_java_waiter_gets_the_message_of_redisson,
        a_lost_message_costs_no_more_than_the_polling_interval,
        a_name_with_braces_is_that_of_redisson,
        another_kind_of_object_is_rejected_unchanged,
        a_closed_client_ends_every_wait,
        waiting_changes_nothing,
    }
}

async fn waiters_of_all_clients_continue_at_zero(server: Fixture) {
    let (one, other) = (connect_without_polling(&server).await, connect_without_polling(&server).await);
    let latch = one.count_down_latch("parts");
    assert!(latch.try_set_count(3).await.unwrap());
    let reads = server.latch_reads();
    let waiters: Vec<_> = [&one, &one, &one, &other, &other].map(wait_in_task).into();
    asleep(&server, (2, 5), reads).await;
    for left in [2, 1] {
        assert_eq!(other.count_down_latch("parts").count_down().await.unwrap(), left);
        assert_eq!(latch.count().await.unwrap(), left);
    }
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(latch.count_down().await.unwrap(), 0);
    for waiter in waiters {
        soon("it to go on", waiter).await.unwrap().unwrap();
    }
    eventually("the subscriptions to end", || listening(&server, CHANNEL) == 0).await;
}

async fn a_latch_at_zero_is_deleted_and_stays_open(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    latch.try_set_count(1).await.unwrap();
    for _ in 0..3 {
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert!(is_free(&server, "parts"));
    }
    assert_eq!(latch.count().await.unwrap(), 0);
    latch.wait().await.unwrap();
    assert!(latch.wait_for(Duration::ZERO).await.unwrap());
}

async fn a_latch_that_is_not_set_is_open(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    assert_eq!(latch.count().await.unwrap(), 0);
    latch.wait().await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(is_free(&server, "parts"), "it is not taken below zero");
    assert!(!latch.delete().await.unwrap());
}

async fn the_count_is_set_once_until_it_reaches_zero(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    assert!(latch.try_set_count(1).await.unwrap());
    assert!(!latch.try_set_count(5).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 1);
    assert_eq!(pttl(&server, "parts"), -1, "a count is there for good");
    latch.count_down().await.unwrap();
    assert!(latch.try_set_count(2).await.unwrap());
    assert_eq!(latch.count().await.unwrap(), 2);
}

async fn a_latch_of_zero_is_open(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    assert!(latch.try_set_count(0).await.unwrap());
    assert_eq!(server.cli(&["GET", "parts"]), "0", "as in Redisson");
    latch.wait().await.unwrap();
    assert_eq!(latch.count_down().await.unwrap(), 0);
    assert!(is_free(&server, "parts"));
}

async fn a_latch_wait_times_out(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    latch.try_set_count(1).await.unwrap();
    let began = Instant::now();
    assert!(!latch.wait_for(ms(500)).await.unwrap());
    assert!(began.elapsed() >= ms(500));
    let asked = scripts_run(&server);
    assert!(!latch.wait_for(Duration::ZERO).await.unwrap());
    assert_eq!(scripts_run(&server), asked + 1, "a wait of nothing asks once");
    eventually("the subscription to end", || listening(&server, CHANNEL) == 0).await;
}

async fn a_deletion_is_reported_to_current_but_not_later_waiters(server: Fixture) {
    let (one, other) = (connect_without_polling(&server).await, connect_without_polling(&server).await);
    let latch = one.count_down_latch("parts");
    latch.try_set_count(1).await.unwrap();
    let reads = server.latch_reads();
    let waiters = [&one, &one, &other].map(wait_in_task);
    asleep(&server, (2, 3), reads).await;
    assert!(latch.delete().await.unwrap());
    for waiter in waiters {
        assert_eq!(
            soon("the news", waiter).await.unwrap().map_err(|error| error.kind),
            Err(WaitErrorKind::Deleted)
        );
    }
    assert!(is_free(&server, "parts"));
    assert!(!latch.delete().await.unwrap());
    latch.wait().await.unwrap();
    assert!((1..=60_000).contains(&pttl(&server, "leasehold_latch_ended:{parts}")));
}

async fn a_deletion_is_cleared_when_any_client_sets_the_count(server: Fixture) {
    for by_hand in [false, true] {
        let client = connect_without_polling(&server).await;
        let latch = client.count_down_latch("parts");
        latch.try_set_count(1).await.unwrap();
        latch.delete().await.unwrap();
        match by_hand {
            true => run_command(&server, &["SET", "parts", "1"]),
            false => assert!(latch.try_set_count(1).await.unwrap()),
        }
        let reads = server.latch_reads();
        let waiter = wait_in_task(&client);
        asleep(&server, (1, 1), reads).await;
        latch.count_down().await.unwrap();
        assert_eq!(soon("it to go on", waiter).await.unwrap(), Ok(()), "by hand: {by_hand}");
    }
}

/// Ends a latch under sleeping waiters of two clients and sets it again at once, twenty times. Each waiter must get
/// `expected`.
async fn set_again_at_once(
    server: &Fixture,
    end: impl AsyncFn(&CountDownLatch),
    expected: Result<(), WaitErrorKind>,
) {
    let (one, other) = (connect_without_polling(server).await, connect_without_polling(server).await);
    let latch = one.count_down_latch("parts");
    assert!(latch.try_set_count(1).await.unwrap());
    for round in 0..20 {
        let reads = server.latch_reads();
        let waiters = [&one, &one, &other, &other].map(wait_in_task);
        asleep(server, (2, 4), reads).await;
        // Both calls are on their way before a waiter hears of the first.
        let ((), is_set) = tokio::join!(end(&latch), latch.try_set_count(1));
        assert!(is_set.unwrap());
        for waiter in waiters {
            let outcome = soon("the end of its round", waiter).await.unwrap();
            assert_eq!(outcome.map_err(|error| error.kind), expected, "round {round}");
        }
        eventually("the subscriptions to end", || listening(server, CHANNEL) == 0).await;
    }
}

async fn a_latch_that_is_set_again_at_once_lets_all_its_waiters_continue(server: Fixture) {
    let open = async |latch: &CountDownLatch| assert_eq!(latch.count_down().await.unwrap(), 0);
    set_again_at_once(&server, open, Ok(())).await;
}

async fn a_latch_that_is_deleted_and_set_again_at_once_fails_all_its_waiters(server: Fixture) {
    let delete = async |latch: &CountDownLatch| assert!(latch.delete().await.unwrap());
    set_again_at_once(&server, delete, Err(WaitErrorKind::Deleted)).await;
}

async fn a_waiter_of_the_next_round_waits_for_its_own_zero(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let latch = client.count_down_latch("parts");
    for deletes in [false, true] {
        latch.try_set_count(1).await.unwrap();
        match deletes {
            true => assert!(latch.delete().await.unwrap()),
            false => assert_eq!(latch.count_down().await.unwrap(), 0),
        }
        assert!(latch.try_set_count(2).await.unwrap());
        let reads = server.latch_reads();
        let waiter = wait_in_task(&client);
        asleep(&server, (1, 1), reads).await;
        assert_eq!(latch.count_down().await.unwrap(), 1);
        assert!(!latch.wait_for(Duration::ZERO).await.unwrap());
        assert!(!waiter.is_finished(), "the end of the earlier round is not its own");
        assert_eq!(latch.count_down().await.unwrap(), 0);
        soon("it to go on", waiter).await.unwrap().unwrap();
        eventually("the subscription to end", || listening(&server, CHANNEL) == 0).await;
    }
}

async fn a_round_that_redisson_ends_looks_like_the_next_one(server: Fixture) {
    let client = connect_without_polling(&server).await;
    run_command(&server, &["SET", "parts", "1"]);
    let waiter = wait_in_task(&client);
    asleep(&server, (1, 1), 0).await;
    let reads = server.latch_reads();
    let again = "redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') \
                 redis.call('set', KEYS[1], 1) redis.call('publish', KEYS[2], '1')";
    run_command(&server, &["EVAL", again, "2", "parts", CHANNEL]);
    // A question is two reads. The two messages may count as one hint.
    eventually("it to ask again", || server.latch_reads() >= reads + 2).await;
    assert!(!waiter.is_finished(), "it cannot tell the rounds apart");
    assert_eq!(client.count_down_latch("parts").count_down().await.unwrap(), 0);
    soon("it to go on", waiter).await.unwrap().unwrap();
}

async fn a_message_of_redisson_wakes_a_waiter(server: Fixture) {
    let client = connect_without_polling(&server).await;
    run_command(&server, &["SET", "parts", "1"]);
    let waiter = wait_in_task(&client);
    asleep(&server, (1, 1), 0).await;
    let count_down = "local v = redis.call('decr', KEYS[1]) if v <= 0 then redis.call('del', KEYS[1]) end \
                      if v == 0 then redis.call('publish', KEYS[2], '0') end";
    run_command(&server, &["EVAL", count_down, "2", "parts", CHANNEL]);
    soon("it to go on", waiter).await.unwrap().unwrap();
}

async fn a_java_waiter_gets_the_message_of_redisson(server: Fixture) {
    let latch = connect(&server).await.count_down_latch("parts");
    let mut heard = Subscriber::start(&server, CHANNEL);
    latch.count_down().await.unwrap();
    latch.try_set_count(2).await.unwrap();
    assert_eq!(heard.message(), "1", "counting down what is not set says nothing");
    latch.count_down().await.unwrap();
    latch.count_down().await.unwrap();
    assert_eq!(heard.message(), "0");
    latch.count_down().await.unwrap();
    latch.try_set_count(1).await.unwrap();
    assert_eq!(heard.message(), "1");
    latch.delete().await.unwrap();
    assert_eq!(heard.message(), "1");
    latch.delete().await.unwrap();
    run_command(&server, &["PUBLISH", CHANNEL, "marker"]);
    assert_eq!(heard.message(), "marker");
}

async fn a_lost_message_costs_no_more_than_the_polling_interval(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "parts", "1"]);
    let waiter = wait_in_task(&client);
    eventually("the waiter to subscribe", || listening(&server, CHANNEL) == 1).await;
    // A deletion publishes nothing, so this wake-up never comes.
    run_command(&server, &["DEL", "parts"]);
    soon("the next look", waiter).await.unwrap().unwrap();
}

async fn a_name_with_braces_is_that_of_redisson(server: Fixture) {
    let client = connect(&server).await;
    for name in ["{import}:parts", "a{b}c"] {
        let latch = client.count_down_latch(Name::raw_redisson(name).unwrap());
        assert!(latch.try_set_count(1).await.unwrap());
        let mut heard = server.listen(&format!("redisson_countdownlatch__channel__{{{name}}}"));
        assert_eq!(server.cli(&["GET", name]), "1");
        latch.count_down().await.unwrap();
        assert_eq!(heard.message(), "0");
        latch.wait().await.unwrap();
    }
}

async fn another_kind_of_object_is_rejected_unchanged(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["HSET", "a-hash", "u:1", "1"]);
    run_command(&server, &["SET", "some-text", "abc"]);
    for name in ["a-hash", "some-text"] {
        let latch = client.count_down_latch(name);
        assert!(
            matches!(latch.wait().await, Err(WaitError { kind: WaitErrorKind::OtherKind(_), .. })),
            "{name}"
        );
        assert!(
            matches!(
                latch.count_down().await,
                Err(OperationError { kind: OperationErrorKind::OtherKind(_), .. })
            ),
            "{name}"
        );
        assert!(latch.count().await.is_err(), "{name}");
    }
    let latch = client.count_down_latch("a-hash");
    assert!(matches!(
        latch.try_set_count(1).await,
        Err(OperationError { kind: OperationErrorKind::OtherKind(_), .. })
    ));
    assert!(matches!(
        latch.delete().await,
        Err(OperationError { kind: OperationErrorKind::OtherKind(_), .. })
    ));
    assert_eq!(server.cli(&["HGETALL", "a-hash"]), "u:1\n1");
    assert_eq!(server.cli(&["GET", "some-text"]), "abc");
}

async fn a_closed_client_ends_every_wait(server: Fixture) {
    let client = connect_without_polling(&server).await;
    let latch = client.count_down_latch("parts");
    latch.try_set_count(1).await.unwrap();
    let reads = server.latch_reads();
    let waiters = [&client, &client].map(wait_in_task);
    asleep(&server, (1, 2), reads).await;
    let report = client.close().await;
    assert_eq!((report.released, report.unconfirmed), (0, 0), "nothing was held");
    for waiter in waiters {
        assert_eq!(
            soon("its end", waiter).await.unwrap().map_err(|error| error.kind),
            Err(WaitErrorKind::Closed)
        );
    }
    assert_eq!(latch.count_down().await.map_err(|error| error.kind), Err(OperationErrorKind::Closed));
    assert_eq!(server.cli(&["GET", "parts"]), "1");
}

async fn waiting_changes_nothing(server: Fixture) {
    let client = connect_without_polling(&server).await;
    run_command(&server, &["SET", "parts", "1"]);
    let waiter = wait_in_task(&client);
    asleep(&server, (1, 1), 0).await;
    waiter.abort();
    assert!(!client.count_down_latch("parts").wait_for(ms(500)).await.unwrap());
    eventually("the subscription to end", || listening(&server, CHANNEL) == 0).await;
    assert_eq!(server.cli(&["KEYS", "*"]), "parts");
    assert_eq!(server.cli(&["GET", "parts"]), "1");
}

#[tokio::test]
async fn an_open_latch_costs_one_command_and_so_does_counting_down() {
    let server = RedisServer::start();
    let latch = connect(&server).await.count_down_latch("parts");
    latch.wait().await.unwrap();
    latch.count_down().await.unwrap();
    let monitor = Monitor::start(&server);
    latch.wait().await.unwrap();
    latch.count_down().await.unwrap();
    let commands: Vec<String> = monitor.commands().into_iter().map(|words| words[0].clone()).collect();
    assert_eq!(commands, ["EVALSHA", "EVALSHA"]);
}

#[tokio::test]
async fn a_count_down_whose_reply_is_lost_counts_once() {
    let (server, proxy) = server_and_proxy();
    let latch = connect_through(&proxy, Duration::from_secs(5)).await.count_down_latch("parts");
    proxy.cut_on_nth_reply(1);
    assert!(soon("the set", latch.try_set_count(10)).await.unwrap(), "it was this call that set it");
    for left in (7..10).rev() {
        let before = scripts_run(&server);
        proxy.cut_on_nth_reply(1);
        assert_eq!(soon("the count-down", latch.count_down()).await.unwrap(), left);
        assert!(scripts_run(&server) >= before + 2, "it was sent twice");
        assert_eq!(server.cli(&["GET", "parts"]), left.to_string());
    }
    proxy.cut_on_nth_reply(1);
    assert!(soon("the deletion", latch.delete()).await.unwrap());
    for key in server.cli(&["KEYS", "*"]).lines() {
        assert!((1..=65_000).contains(&pttl(&server, key)), "{key} stays");
    }
}

#[tokio::test]
async fn a_wait_fails_when_the_server_is_unreachable_for_a_timeout() {
    let mut server = RedisServer::start();
    let client = connect_with(Client::builder().timeout(ms(500)), &server.url()).await;
    client.count_down_latch("parts").try_set_count(1).await.unwrap();
    let asked = scripts_run(&server);
    let waiters: Vec<_> = (0..5).map(|_| wait_in_task(&client)).collect();
    eventually("the waiters to ask", || scripts_run(&server) > asked + 5).await;
    server.kill();
    for waiter in waiters {
        let outcome = soon("its failure", waiter).await.unwrap();
        assert_failed!(outcome, WaitErrorKind::Store(_));
    }
}

#[tokio::test]
async fn a_reconnected_waiter_gets_a_missed_deletion() {
    let (server, proxy) = server_and_proxy();
    let (direct, client) = (connect(&server).await, connect_through(&proxy, Duration::from_secs(10)).await);
    let latch = direct.count_down_latch("parts");
    latch.try_set_count(2).await.unwrap();
    let reads = server.latch_reads();
    let waiting = wait_in_task(&client);
    asleep(&server, (1, 1), reads).await;
    proxy.drop_requests(true);
    // The proxy drops the attempt after any wake-up.
    assert_eq!(server.cli(&["PUBLISH", CHANNEL, "0"]), "1");
    proxy.cut();
    eventually("the subscription to break", || listening(&server, CHANNEL) == 0).await;
    assert!(latch.delete().await.unwrap());
    proxy.drop_requests(false);
    proxy.cut();
    let told = soon("the end of the wait", waiting).await.unwrap();
    assert_failed!(told, WaitErrorKind::Deleted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_count_downs_and_waits_meet_at_zero() {
    let server = RedisServer::start();
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    for _ in 0..5 {
        clients[0].count_down_latch("parts").try_set_count(60).await.unwrap();
        let waiters: Vec<_> =
            clients.iter().flat_map(|client| (0..8).map(|_| wait_in_task(client))).collect();
        let counters: Vec<_> = (0..60)
            .map(|number| {
                let latch = clients[number % 3].count_down_latch("parts");
                tokio::spawn(async move { latch.count_down().await.unwrap() })
            })
            .collect();
        let mut left = Vec::new();
        for counter in counters {
            left.push(soon("the count-down", counter).await.unwrap());
        }
        left.sort_unstable();
        assert_eq!(left, (0..60).collect::<Vec<_>>(), "each count belongs to one caller");
        for waiter in waiters {
            soon("it to go on", waiter).await.unwrap().unwrap();
        }
    }
}

#[tokio::test]
async fn a_latch_works_in_a_cluster() {
    let server = RedisServer::cluster();
    let (one, other) = (connect(&server).await, connect_without_polling(&server).await);
    let latch = one.count_down_latch("parts");
    latch.try_set_count(1).await.unwrap();
    let asked = scripts_run(&server);
    let waiter = wait_in_task(&other);
    eventually("it to listen and ask again", || scripts_run(&server) >= asked + 2).await;
    latch.count_down().await.unwrap();
    soon("it to go on", waiter).await.unwrap().unwrap();
    assert!(!latch.delete().await.unwrap());
}
