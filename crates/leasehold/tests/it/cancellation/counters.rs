//! Waits for permits and latches, and the calls that change them, dropped after each of their polls. No drop loses or
//! creates a permit.
//!
//! Invariant: a case carries the name of its method, as the library's sources have it, and `sources` compares the two.

use std::future::Future;
use std::pin::Pin;

use leasehold::Client;
use leasehold::semaphore::PermitId;
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

use crate::cancellation::subscriptions;
use crate::cancellation::waiting::TIMEOUT;
use crate::support::{
    SOON, connect, connect_through, eventually, ms, poll_times, poll_without_wake_ups, pttl, run_command,
    server_and_proxy, soon,
};

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// One way to wait.
pub(crate) struct Case {
    /// The method, qualified by its type.
    pub(crate) method: &'static str,
    /// Acquires what the case needs without faults, then returns the wait.
    begin: fn(Client) -> Boxed<Boxed<()>>,
}

/// Builds the table of cases, each with the name of its method.
macro_rules! cases {
    ($($method:literal => |$client:ident| $(let $held:ident = $needs:expr,)? $wait:expr;)*) => {
        /// Every way to wait.
        #[allow(clippy::async_yields_async, reason = "the wait is a future that is dropped later")]
        pub(crate) const COUNTERS: &[Case] = &[$(Case {
            method: $method,
            begin: |$client| Box::pin(async move {
                $(let $held = $needs;)?
                let wait: Boxed<()> = Box::pin(async move { drop($wait) });
                wait
            }),
        },)*];
    };
}

/// A permit id that the server has never issued.
const NOBODYS: PermitId = PermitId::from_bytes([0; 16]);

cases! {
    "Semaphore::acquire" => |client| client.semaphore("seats").acquire().await;
    "Semaphore::acquire" => |client| client.semaphore("seats").fifo().acquire().await;
    "Semaphore::acquire_many" => |client| client.semaphore("seats").acquire_many(2).await;
    "Semaphore::acquire_many" => |client| client.semaphore("seats").fifo().acquire_many(3).await;
    "Semaphore::acquire_many" => |client| client.semaphore("seats").acquire_many(0).await;
    "Semaphore::try_acquire" => |client| client.semaphore("seats").try_acquire().await;
    "Semaphore::try_acquire" => |client| client.semaphore("seats").fifo().try_acquire().await;
    "Semaphore::try_acquire_many" => |client| client.semaphore("seats").try_acquire_many(3).await;
    "Semaphore::try_acquire_for" => |client| client.semaphore("seats").try_acquire_for(ms(80)).await;
    // These calls ask for more permits than exist, so they wait until their deadline.
    "Semaphore::try_acquire_many_for" => |client| client.semaphore("seats").try_acquire_many_for(4, ms(80)).await;
    "Semaphore::try_acquire_many_for" =>
        |client| client.semaphore("seats").fifo().try_acquire_many_for(4, ms(80)).await;
    "Semaphore::try_set_permits" => |client| client.semaphore("seats").try_set_permits(9).await;
    "Semaphore::try_set_permits_for" => |client| client.semaphore("seats").try_set_permits_for(9, SOON).await;
    "Semaphore::add_permits" => |client| client.semaphore("seats").add_permits(0).await;
    "Semaphore::drain" => |client| client.semaphore("drained").drain().await;
    "Semaphore::release" => |client| client.semaphore("seats").release(0).await;
    "Semaphore::available" => |client| client.semaphore("seats").available().await;
    "Guard::release" =>
        |client| let guard = client.semaphore("seats").acquire_many(2).await.unwrap(), guard.release().await;
    "Guard::release" =>
        |client| let guard = client.semaphore("seats").fifo().acquire().await.unwrap(), guard.release().await;
    "ExpirableSemaphore::acquire" => |client| client.expirable_semaphore("places").acquire().await;
    "ExpirableSemaphore::acquire_many" => |client| client.expirable_semaphore("places").acquire_many(2).await;
    "ExpirableSemaphore::try_acquire" => |client| client.expirable_semaphore("places").try_acquire().await;
    "ExpirableSemaphore::try_acquire_many" =>
        |client| client.expirable_semaphore("places").try_acquire_many(3).await;
    "ExpirableSemaphore::try_acquire_for" =>
        |client| client.expirable_semaphore("places").try_acquire_for(ms(80)).await;
    "ExpirableSemaphore::try_acquire_many_for" =>
        |client| client.expirable_semaphore("places").try_acquire_many_for(4, ms(80)).await;
    "ExpirableSemaphore::try_set_permits" => |client| client.expirable_semaphore("places").try_set_permits(9).await;
    "ExpirableSemaphore::set_permits" => |client| client.expirable_semaphore("places").set_permits(3).await;
    "ExpirableSemaphore::add_permits" => |client| client.expirable_semaphore("places").add_permits(0).await;
    "ExpirableSemaphore::release_ids" =>
        |client| client.expirable_semaphore("places").release_ids(&[NOBODYS]).await;
    "ExpirableSemaphore::update_lease" =>
        |client| client.expirable_semaphore("places").update_lease(NOBODYS, SOON).await;
    "ExpirableSemaphore::lease_of" => |client| client.expirable_semaphore("places").lease_of(NOBODYS).await;
    "ExpirableSemaphore::available" => |client| client.expirable_semaphore("places").available().await;
    "ExpirableSemaphore::acquired" => |client| client.expirable_semaphore("places").acquired().await;
    "ExpirableSemaphore::permits" => |client| client.expirable_semaphore("places").permits().await;
    "Section::enter" => |client| client.expirable_semaphore("places").section(9).enter().await;
    "Permits::release" => |client|
        let permits = client.expirable_semaphore("places").acquire_many(2).await.unwrap(), permits.release().await;
    "CountDownLatch::wait" => |client| client.count_down_latch("open").wait().await;
    "CountDownLatch::wait_for" => |client| client.count_down_latch("parts").wait_for(ms(80)).await;
    "CountDownLatch::try_set_count" => |client| client.count_down_latch("parts").try_set_count(9).await;
    "CountDownLatch::count_down" => |client| client.count_down_latch("counted").count_down().await;
    "CountDownLatch::count" => |client| client.count_down_latch("parts").count().await;
    "CountDownLatch::delete" => |client| client.count_down_latch("open").delete().await;
}

/// Drops every kind of wait after 0, 1, 2, ... polls, until it completes. A fault begins before the first poll and
/// ends after the drop. Then acquires all permits.
async fn drop_everything_everywhere(begin: impl Fn(&Proxy), end: impl Fn(&Proxy)) {
    let (server, proxy) = server_and_proxy();
    let other = connect(&server).await;
    for counter in ["seats", "places"] {
        run_command(&server, &["SET", counter, "3"]);
    }
    run_command(&server, &["SET", "parts", "1"]);
    let mut dropped = 0;
    for case in COUNTERS {
        for polls in 0.. {
            assert!(polls < 20, "{} completes", case.method);
            let client = connect_through(&proxy, TIMEOUT).await;
            let wait = (case.begin)(client).await;
            begin(&proxy);
            let outcome = soon(case.method, poll_times(polls, wait)).await;
            end(&proxy);
            let all = soon("all permits", other.semaphore("seats").fifo().acquire_many(3)).await.unwrap();
            all.release().await.unwrap();
            let all =
                soon("all of these", other.expirable_semaphore("places").acquire_many(3)).await.unwrap();
            all.release().await.unwrap();
            for counter in ["seats", "places"] {
                // A dropped acquire may still be in flight behind those two acquires, and its undo behind it.
                eventually(case.method, || server.cli(&["GET", counter]) == "3").await;
            }
            if outcome.is_some() {
                break;
            }
            dropped += 1;
        }
    }
    assert_eq!(server.cli(&["GET", "parts"]), "1");
    eventually("every queue and every id to go", || lasting(&server) == ["parts", "places", "seats"]).await;
    eventually("every subscription to end", || subscriptions(&server) == 0).await;
    eventually("every connection through the proxy to end", || proxy.connections() == 0).await;
    assert!(dropped > COUNTERS.len(), "hardly anything waited");
    println!("{} ways, dropped {dropped} times while they waited", COUNTERS.len());
}

/// The sorted keys, without markers, which expire by themselves.
fn lasting(server: &RedisServer) -> Vec<String> {
    let printed = server.cli(&["KEYS", "*"]);
    let prefixes = ["leasehold_permit:", "leasehold_op:", "leasehold_latch_ended:"];
    let is_marker = |key: &&str| prefixes.iter().any(|prefix| key.starts_with(prefix));
    for marker in printed.lines().filter(is_marker) {
        // The marker may have expired since the listing.
        assert_ne!(pttl(server, marker), -1, "{marker} stays forever");
    }
    let mut keys: Vec<String> = printed.lines().filter(|key| !is_marker(key)).map(str::to_owned).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn a_wait_for_permits_can_be_dropped_after_every_poll_while_the_server_answers() {
    drop_everything_everywhere(|_| {}, |_| {}).await;
}

#[tokio::test]
async fn a_wait_for_permits_can_be_dropped_after_every_poll_while_the_server_answers_late() {
    drop_everything_everywhere(|proxy| proxy.hold_replies(true), |proxy| proxy.hold_replies(false)).await;
}

#[tokio::test]
async fn a_wait_for_permits_can_be_dropped_after_every_poll_while_connections_fail() {
    let begin = |proxy: &Proxy| {
        proxy.refuse(true);
        proxy.cut();
    };
    drop_everything_everywhere(begin, |proxy| proxy.refuse(false)).await;
}

#[tokio::test]
async fn a_wait_for_permits_can_be_dropped_after_every_poll_while_the_server_is_silent() {
    drop_everything_everywhere(|proxy| proxy.black_hole(true), |proxy| proxy.black_hole(false)).await;
}

#[tokio::test]
async fn a_wait_for_permits_can_be_dropped_after_every_poll_while_replies_are_lost() {
    drop_everything_everywhere(|proxy| proxy.drop_replies(true), |proxy| proxy.drop_replies(false)).await;
}

#[tokio::test]
async fn a_thousand_dropped_acquires_lose_no_permit() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let (seats, places) = (client.semaphore("seats"), client.expirable_semaphore("places"));
    seats.try_set_permits(1).await.unwrap();
    places.try_set_permits(1).await.unwrap();
    let (mut dropped, mut completed, mut polls) = (0, 0, 0);
    for number in 0.. {
        if dropped == 1_000 {
            break;
        }
        assert!(number < 100_000, "an acquire does not complete within so few polls");
        let outcome = match number % 3 {
            0 => poll_without_wake_ups(polls, seats.acquire()).await.map(drop),
            1 => poll_without_wake_ups(polls, seats.clone().fifo().acquire()).await.map(drop),
            _ => poll_without_wake_ups(polls, places.acquire()).await.map(drop),
        };
        // The number of polls grows until an acquire completes, then starts again from zero.
        match outcome {
            None => (dropped, polls) = (dropped + 1, polls + 1),
            Some(()) => (completed, polls) = (completed + 1, 0),
        }
    }
    assert!(completed > 0, "they were dropped everywhere between begin and end");
    soon("the permit", seats.clone().fifo().acquire()).await.unwrap().release().await.unwrap();
    soon("the other one", places.acquire()).await.unwrap().release().await.unwrap();
    eventually("every queue and every id to go", || lasting(&server) == ["places", "seats"]).await;
    assert_eq!([server.cli(&["GET", "seats"]), server.cli(&["GET", "places"])], ["1", "1"]);
    assert_eq!(server.cli(&["KEYS", "leasehold_permit:*"]), "", "no outcome was uncertain");
}

#[tokio::test]
async fn an_unpolled_permit_is_undone() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let seats = client.semaphore("seats");
    seats.try_set_permits(1).await.unwrap();
    let mut sleeper = Box::pin(seats.acquire());
    assert!(poll_times(1, sleeper.as_mut()).await.is_none());
    eventually("the grant", || server.cli(&["GET", "seats"]) == "0").await;
    let permit = soon("the permit", other.semaphore("seats").acquire()).await.unwrap();
    permit.release().await.unwrap();
    let permit = soon("its own turn", sleeper).await.unwrap();
    permit.release().await.unwrap();
    assert_eq!(server.cli(&["GET", "seats"]), "1");
}

#[tokio::test]
async fn dropped_latch_waits_leave_nothing_and_block_no_waiter() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    client.count_down_latch("parts").try_set_count(1).await.unwrap();
    for number in 0..300 {
        let outcome = poll_without_wake_ups(number % 40, client.count_down_latch("parts").wait()).await;
        assert!(outcome.is_none());
    }
    let waiting = tokio::spawn({
        let latch = client.count_down_latch("parts");
        async move { latch.wait().await }
    });
    assert!(!client.count_down_latch("parts").wait_for(ms(500)).await.unwrap());
    client.count_down_latch("parts").count_down().await.unwrap();
    soon("it to go on", waiting).await.unwrap().unwrap();
    eventually("the subscription to end", || subscriptions(&server) == 0).await;
    assert_eq!(lasting(&server), Vec::<String>::new());
}
