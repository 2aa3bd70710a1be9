//! Cancellation. The tests drop every waiting future after each of its polls, while the server answers, answers late,
//! rejects, and is silent. Each drop leaves no lock, no subscription and no stuck waiter.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake};
use std::time::Duration;

use leasehold::{Client, Guard};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

mod counters;
mod sets;
mod sources;
mod waiting;

use crate::support::{
    SOON, channel, connect, connect_through, connect_with, eventually, hold_as_redisson, is_free, keys,
    listeners, ms, poll_times, poll_without_wake_ups, run_command, scripts_run, server_and_proxy, soon,
};
use sets::SETS;
use waiting::{ALL, TIMEOUT};

/// Drops every kind of wait after 0, 1, 2, ... polls, until it completes. A fault begins before the first poll and
/// ends after the drop. Then checks the state that is left.
async fn drop_everything_everywhere(begin: impl Fn(&Proxy), end: impl Fn(&Proxy)) {
    let (server, proxy) = server_and_proxy();
    let other = connect(&server).await;
    let connections = connections_of(&server);
    let mut dropped = 0;
    for waiting in ALL {
        for polls in 0.. {
            assert!(polls < 20, "{waiting:?} completes");
            let client = connect_through(&proxy, TIMEOUT).await;
            let owner = client.owner();
            let lock = client.lock("job").owned_by(&owner);
            let guard = waiting.guard(&client, &lock).await;
            begin(&proxy);
            let wait = waiting.wait(proxy.url(), client, lock, guard);
            let outcome = soon("the wait to end", poll_times(polls, wait)).await;
            end(&proxy);
            let guard = soon("a free lock", other.lock("job").lock()).await.unwrap();
            guard.release().await.unwrap();
            let writer =
                soon("a lock without readers and writers", other.rw_lock("sides").write()).await.unwrap();
            writer.release().await.unwrap();
            if outcome.is_some() {
                break;
            }
            dropped += 1;
        }
    }
    for case in SETS {
        for polls in 0.. {
            assert!(polls < 30, "{} completes", case.method);
            let client = connect_through(&proxy, TIMEOUT).await;
            let wait = (case.begin)(client, proxy.url()).await;
            begin(&proxy);
            let outcome = soon(case.method, poll_times(polls, wait)).await;
            end(&proxy);
            for name in ["job", "fair"] {
                let guard = soon("a free lock", other.lock(name).lock()).await.unwrap();
                guard.release().await.unwrap();
            }
            if outcome.is_some() {
                break;
            }
            dropped += 1;
        }
    }
    // Fencing tokens and fenced values stay on the server by design.
    run_command(&server, &["DEL", "redisson_lock_token:{job}"]);
    eventually("every key to go", || {
        // Announcements stay for a week by design, and the last one may be on its way.
        run_command(&server, &["DEL", "leasehold_leader:{job}"]);
        for kept in ["kept", "kept hash"] {
            run_command(&server, &["DEL", kept, &format!("leasehold_fence:{{{kept}}}")]);
        }
        keys(&server) == 0
    })
    .await;
    eventually("every subscription to end", || subscriptions(&server) == 0).await;
    eventually("every connection through the proxy to end", || proxy.connections() == 0).await;
    // Only the witness keeps its connections.
    eventually("every connection at the server to end", || connections_of(&server) <= connections + 1).await;
    let methods = ALL.len() + SETS.len();
    assert!(dropped > methods, "hardly anything waited");
    println!("{methods} methods, dropped {dropped} times while they waited");
}

/// The number of channels and patterns with a subscriber.
fn subscriptions(server: &RedisServer) -> usize {
    let channels = server.cli(&["PUBSUB", "CHANNELS"]).lines().filter(|line| !line.is_empty()).count();
    let patterns: usize = server.cli(&["PUBSUB", "NUMPAT"]).parse().unwrap();
    channels + patterns
}

/// The number of clients of the server, including the connection of `CLIENT LIST`.
fn connections_of(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).lines().filter(|line| !line.is_empty()).count()
}

#[tokio::test]
async fn a_wait_can_be_dropped_after_every_poll_while_the_server_answers() {
    drop_everything_everywhere(|_| {}, |_| {}).await;
}

#[tokio::test]
async fn a_wait_can_be_dropped_after_every_poll_while_the_server_answers_late() {
    drop_everything_everywhere(|proxy| proxy.hold_replies(true), |proxy| proxy.hold_replies(false)).await;
}

#[tokio::test]
async fn a_wait_can_be_dropped_after_every_poll_while_connections_fail() {
    let begin = |proxy: &Proxy| {
        proxy.refuse(true);
        proxy.cut();
    };
    drop_everything_everywhere(begin, |proxy| proxy.refuse(false)).await;
}

#[tokio::test]
async fn a_wait_can_be_dropped_after_every_poll_while_the_server_is_silent() {
    drop_everything_everywhere(|proxy| proxy.black_hole(true), |proxy| proxy.black_hole(false)).await;
}

#[tokio::test]
async fn a_wait_can_be_dropped_after_every_poll_while_replies_are_lost() {
    drop_everything_everywhere(|proxy| proxy.drop_replies(true), |proxy| proxy.drop_replies(false)).await;
}

#[tokio::test]
async fn a_thousand_dropped_acquires_leave_no_key() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let (mut dropped, mut completed, mut polls) = (0, 0, 0);
    for number in 0.. {
        if dropped == 1_000 {
            break;
        }
        assert!(number < 100_000, "an acquire does not complete within so few polls");
        let lock = client.lock(format!("job:{number}"));
        let outcome = match number % 3 {
            0 => poll_without_wake_ups(polls, lock.lock()).await.map(drop),
            1 => poll_without_wake_ups(polls, lock.try_lock()).await.map(drop),
            _ => poll_without_wake_ups(polls, lock.try_lock_for(SOON)).await.map(drop),
        };
        // The number of polls grows until an acquire completes, then starts again from zero.
        match outcome {
            None => (dropped, polls) = (dropped + 1, polls + 1),
            Some(()) => (completed, polls) = (completed + 1, 0),
        }
    }
    assert!(completed > 0, "they were dropped everywhere between begin and end");
    eventually("every key to go", || keys(&server) == 0).await;
    // The same connection carries this call behind every call still in flight.
    drop(client.lock("job:0").lock().await.unwrap());
    eventually("the last key to go", || keys(&server) == 0).await;
}

#[tokio::test]
async fn a_thousand_dropped_waits_leave_no_subscription_and_no_stuck_waiter() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", Duration::from_secs(600));
    for number in 0..1_000 {
        let outcome = poll_without_wake_ups(number % 40, client.lock("job").lock()).await;
        assert!(outcome.is_none());
    }
    eventually("the subscription to end", || listeners(&server, "job") == 0).await;
    run_command(&server, &["DEL", "job"]);
    drop(soon("the lock", client.lock("job").lock()).await.unwrap());
    eventually("the release", || keys(&server) == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_dropped_in_the_middle_of_the_queue_do_not_break_it() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiters: Vec<_> = (0..40)
        .map(|_| {
            let lock = client.lock("job");
            tokio::spawn(async move { lock.lock().await.unwrap().release().await })
        })
        .collect();
    eventually("them to wait", || listeners(&server, "job") == 1).await;
    for waiter in waiters.iter().step_by(2) {
        waiter.abort();
    }
    guard.release().await.unwrap();
    for waiter in waiters.into_iter().skip(1).step_by(2) {
        soon("its turn", waiter).await.unwrap().unwrap();
    }
    eventually("the last release", || is_free(&server, "job")).await;
    eventually("the subscription to end", || listeners(&server, "job") == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_dropped_at_their_grant_pass_the_lock_on() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for round in 0..60 {
        let guard = client.lock("job").lock().await.unwrap();
        let (first, second) = (client.lock("job"), client.lock("job"));
        let unlucky = tokio::spawn(async move { drop(poll_without_wake_ups(round * 4, first.lock()).await) });
        let lucky = tokio::spawn(async move { second.lock().await });
        drop(guard);
        drop(soon("the next one", lucky).await.unwrap().unwrap());
        soon("the dropped one", unlucky).await.unwrap();
    }
    eventually("the last release", || keys(&server) == 0).await;
}

#[tokio::test]
async fn an_unpolled_grant_is_undone() {
    let server = RedisServer::start();
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.lock("job").watchdog(ms(600));
    let mut sleeper = Box::pin(lock.lock());
    assert!(poll_times(1, sleeper.as_mut()).await.is_none());
    eventually("the grant", || !is_free(&server, "job")).await;
    // A grant without a poll of its caller gets no renewal, so it blocks no other client.
    let guard = soon("the lock", other.lock("job").lock()).await.unwrap();
    guard.release().await.unwrap();
    let guard = soon("its own turn", sleeper).await.unwrap();
    assert!(guard.is_held(), "a guard that is returned can be trusted");
    assert!(!is_free(&server, "job"));
}

#[tokio::test]
async fn a_dropped_release_still_completes() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    for polls in 0..20 {
        let guard = client.lock("job").lock().await.unwrap();
        drop(poll_without_wake_ups(polls, guard.release()).await);
        eventually("the release", || is_free(&server, "job")).await;
    }
}

#[tokio::test]
async fn a_dropped_renewal_on_demand_does_not_affect_the_hold() {
    let server = RedisServer::start();
    let guard = connect(&server).await.lock("job").lease(ms(5000)).lock().await.unwrap();
    for polls in 0..20 {
        drop(poll_without_wake_ups(polls, guard.ensure(guard.remaining() + ms(1))).await);
        assert!(guard.is_held());
    }
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_dropped_run_drops_its_body_and_releases() {
    let server = RedisServer::start();
    let lock = connect(&server).await.lock("job");
    for polls in 0..60 {
        let (alive, died) = tokio::sync::oneshot::channel::<()>();
        let body = async move |_: &Guard| {
            let _alive = alive;
            std::future::pending::<()>().await;
        };
        assert!(poll_without_wake_ups(polls, lock.run(body)).await.is_none());
        assert!(soon("the body's end", died).await.is_err());
    }
    eventually("the release", || keys(&server) == 0).await;
}

#[tokio::test]
async fn a_dropped_close_has_closed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    assert!(poll_times(1, client.close()).await.is_none());
    assert!(!guard.is_held());
    eventually("the release", || is_free(&server, "job")).await;
    assert!(client.lock("job").try_lock().await.is_err());
}

#[tokio::test]
async fn a_connect_dropped_after_it_succeeded_hangs_up() {
    let server = RedisServer::start();
    let woken = std::sync::Arc::new(Woken::default());
    let waker = woken.clone().into();
    // The proxy holds the reply back until the first poll is over.
    let proxy = Proxy::start(server.port());
    proxy.hold_replies(true);
    let url = proxy.url();
    let mut connecting = Box::pin(Client::connect(&url));
    assert!(connecting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    proxy.hold_replies(false);
    eventually("the connect to succeed", || woken.0.load(Ordering::SeqCst)).await;
    // Two connections: the client's, and the connection of `CLIENT LIST`.
    assert_eq!(server.cli(&["CLIENT", "LIST"]).lines().count(), 2);
    drop(connecting);
    eventually("its end", || server.cli(&["CLIENT", "LIST"]).lines().count() == 1).await;
}

/// A waker that records its wake-up.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_connect_dropped_at_a_silent_server_hangs_up() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", server.local_addr().unwrap());
    let builder = Client::builder().timeout(Duration::from_secs(3600));
    let attempt = tokio::spawn(async move { builder.connect(&url).await.map(drop) });
    let (mut connection, _) = tokio::task::spawn_blocking(move || server.accept()).await.unwrap().unwrap();
    attempt.abort();
    connection.set_read_timeout(Some(SOON)).unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let mut asked = Vec::new();
        std::io::Read::read_to_end(&mut connection, &mut asked).map_err(|error| error.kind())
    });
    let outcome = read.await.unwrap();
    assert!(
        matches!(outcome, Ok(_) | Err(std::io::ErrorKind::ConnectionReset)),
        "the connection stays open: {outcome:?}"
    );
}

#[tokio::test]
async fn the_last_waiter_of_a_client_ends_its_thread_and_connections() {
    let (server, proxy) = server_and_proxy();
    hold_as_redisson(&server, "job", Duration::from_secs(600));
    // The long intervals keep every timer from firing during the test.
    let patient = Client::builder().timeout(Duration::from_secs(600)).poll_interval(Duration::from_secs(600));
    for _ in 0..10 {
        let lock = connect_with(patient.clone(), &proxy.url()).await.lock("job");
        let asked = scripts_run(&server);
        let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
        eventually("its second question, as a listener", || scripts_run(&server) >= asked + 2).await;
        waiting.abort();
        eventually("the end of the client", || proxy.connections() == 0).await;
    }
}

/// A waker whose reference count shows the owners it still has.
struct Knock;

impl Wake for Knock {
    fn wake(self: std::sync::Arc<Self>) {}
}

#[tokio::test]
async fn a_dropped_wait_for_a_loss_is_removed_while_the_guard_lives() {
    let server = RedisServer::start();
    let guard = connect(&server).await.lock("job").lock().await.unwrap();
    let knock = std::sync::Arc::new(Knock);
    let waker = std::sync::Arc::clone(&knock).into();
    let mut given_up = Box::pin(guard.lost());
    let mut kept = Box::pin(guard.lost());
    for waiting in [&mut given_up, &mut kept] {
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(waker);
    drop(given_up);
    assert_eq!(std::sync::Arc::strong_count(&knock), 2, "the other one still waits");
    drop(kept);
    assert_eq!(std::sync::Arc::strong_count(&knock), 1, "the guard remembers a task that has gone");
}

#[tokio::test]
async fn a_subscription_outlives_a_waiter_only_while_others_wait() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", Duration::from_secs(600));
    let wait = |client: &Client| {
        let lock = client.lock("job");
        tokio::spawn(async move { lock.lock().await.map(drop) })
    };
    let (first, second) = (wait(&client), wait(&client));
    eventually("the subscription", || listeners(&server, "job") == 1).await;
    first.abort();
    let asked = scripts_run(&server);
    eventually("the second one to ask", || scripts_run(&server) > asked || scripts_run(&server) >= 3).await;
    assert_eq!(listeners(&server, "job"), 1);
    second.abort();
    eventually("the end of the subscription", || listeners(&server, "job") == 0).await;
    assert_eq!(server.cli(&["PUBSUB", "CHANNELS", &channel("*")]), "");
}
