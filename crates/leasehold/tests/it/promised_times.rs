//! The promised times on the virtual clock, where they are exact on any machine.

use std::time::Duration;

use leasehold::terms::LEASE_MIN;
use leasehold::testing::Server;
use leasehold::{Client, Guard, LostReason};
use tokio::task::JoinHandle;

const LEASE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The part of a lease that a client does not trust: 1 % of it and 2 ms.
fn drift(lease: Duration) -> Duration {
    lease / 100 + ms(2)
}

/// Runs a future in a task, and returns its output with the virtual time of its end.
fn timed<F>(server: &Server, future: F) -> JoinHandle<(F::Output, Duration)>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    let clock = server.clone();
    tokio::spawn(async move { (future.await, clock.elapsed()) })
}

/// A waiter for the lock `job`.
fn waiter(server: &Server, client: &Client) -> JoinHandle<(Guard, Duration)> {
    let lock = client.lock("job");
    let waiting = timed(server, async move { lock.lock().await.unwrap() });
    tokio::spawn(async move { waiting.await.unwrap() })
}

#[tokio::test]
async fn a_lost_wake_up_costs_one_polling_interval_and_no_more() {
    let mut longest = Duration::ZERO;
    for interval in [POLL, 4 * POLL] {
        for phase in 0..10 {
            let server = Server::new();
            let holder = server.client().await.unwrap();
            let builder = Client::builder().poll_interval(interval);
            let other = server.client_with(builder).await.unwrap();
            let _guard = holder.lock("job").lease(HOUR).lock().await.unwrap();
            let waiting = waiter(&server, &other);
            server.advance(20 * interval + interval * phase / 10).await;
            let deleted = server.elapsed();
            // A deletion publishes nothing.
            assert!(server.delete("job"));
            server.advance(2 * interval).await;
            let (_guard, granted) = waiting.await.unwrap();
            assert!(granted - deleted <= interval, "{:?} of {interval:?}", granted - deleted);
            longest = longest.max(granted - deleted);
        }
    }
    assert!(longest > 3 * POLL, "the interval is the client's own: {longest:?} of {:?}", 4 * POLL);
}

#[tokio::test]
async fn a_default_client_polls_once_a_second() {
    let server = Server::new();
    let (holder, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let _guard = holder.lock("job").lease(HOUR).lock().await.unwrap();
    let waiting = waiter(&server, &other);
    server.advance(10 * POLL + POLL / 3).await;
    let deleted = server.elapsed();
    assert!(server.delete("job"));
    server.advance(HOUR).await;
    let (_guard, granted) = waiting.await.unwrap();
    assert!(granted - deleted <= POLL, "{:?}", granted - deleted);
}

#[tokio::test]
async fn the_watchdog_renews_at_a_third_of_the_lease_at_the_latest() {
    for lease in [ms(300), Duration::from_secs(9), LEASE] {
        let server = Server::new();
        let client = server.client().await.unwrap();
        let guard = client.lock("job").watchdog(lease).lock().await.unwrap();
        let (step, mut renewals, mut before) = (lease / 300, 0, lease);
        for _ in 0..300 * 20 {
            server.advance(step).await;
            let left = server.holder("job").unwrap().remaining.unwrap();
            assert!(left + step + ms(1) >= lease * 2 / 3, "{left:?} of {lease:?} were left before a renewal");
            renewals += u32::from(left > before);
            before = left;
            assert!(guard.is_held());
        }
        // On average, the renewals are at most a third and at least a quarter of a lease apart.
        assert!((60..=80).contains(&renewals), "{renewals} renewals in 20 leases of {lease:?}");
    }
}

#[tokio::test]
async fn a_crashed_holder_blocks_a_waiter_for_one_lease_at_most() {
    // The crash comes at different phases between two renewals.
    for phase in 0..7 {
        let server = Server::new();
        let (holder, other) = (server.client().await.unwrap(), server.client().await.unwrap());
        let guard = holder.lock("job").lock().await.unwrap();
        let waiting = waiter(&server, &other);
        server.advance(4 * LEASE + LEASE * phase / 21).await;
        let crashed = server.elapsed();
        server.connection(&holder).set_reachable(false);
        server.advance(HOUR).await;
        let (_next, granted) = waiting.await.unwrap();
        let took = granted - crashed;
        assert!(took <= LEASE + ms(21), "a lease, and what a waiter spreads its question by: {took:?}");
        assert!(took >= LEASE * 2 / 3, "the last renewal was a third of the lease ago at most: {took:?}");
        assert_eq!(guard.lost().await, LostReason::Unreachable);
    }
}

#[tokio::test]
async fn a_loss_reaches_every_listener_at_the_end_of_the_validity() {
    for lease in [LEASE_MIN, ms(120), Duration::from_secs(1), LEASE, HOUR] {
        let server = Server::new();
        let client = server.client().await.unwrap();
        server.advance(ms(7)).await;
        let began = server.elapsed();
        let mut listeners = Vec::new();
        for number in 0..20 {
            let guard = client.lock(format!("job:{number}")).lease(lease).lock().await.unwrap();
            let guard = std::sync::Arc::new(guard);
            for _ in 0..3 {
                let (guard, clock) = (std::sync::Arc::clone(&guard), server.clone());
                listeners.push(timed(&server, async move {
                    let reason = guard.lost().await;
                    assert!(!guard.is_held(), "it may be trusted at {:?}", clock.elapsed());
                    reason
                }));
            }
        }
        let valid = lease.saturating_sub(drift(lease));
        server.advance(valid.saturating_sub(ms(1))).await;
        assert!(
            listeners.iter().all(|listener| !listener.is_finished()),
            "told while valid, lease {lease:?}"
        );
        server.advance(lease).await;
        for listener in listeners {
            let (reason, told) = listener.await.unwrap();
            assert_eq!(reason, LostReason::Expired);
            assert_eq!(told - began, valid, "lease {lease:?}");
        }
    }
}

#[tokio::test]
async fn a_deadline_is_exact_to_the_millisecond() {
    let wait = ms(200);
    // Three cases: behind a holder, with a silent server, with an unreachable server. Each runs alone and behind
    // waiters of the same client.
    for (held, silent, gone) in [(true, false, false), (false, true, false), (false, false, true)] {
        for ahead in [0, 1, 10] {
            let server = Server::new();
            let (holder, client) = (server.client().await.unwrap(), server.client().await.unwrap());
            let guard = if held { Some(holder.lock("job").lock().await.unwrap()) } else { None };
            let connection = server.connection(&client);
            connection.lose_replies(silent);
            connection.set_reachable(!gone);
            let lock = client.lock("job");
            let before: Vec<_> = (0..ahead)
                .map(|_| {
                    tokio::spawn({
                        let lock = lock.clone();
                        async move { lock.lock().await.map(drop) }
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            let began = server.elapsed();
            let waiting =
                timed(&server, async move { lock.try_lock_for(wait).await.map(|got| got.is_some()) });
            server.advance(HOUR).await;
            let (outcome, ended) = waiting.await.unwrap();
            assert_eq!(
                ended - began,
                wait,
                "{ahead} ahead; held {held}, silent {silent}, gone {gone}: {outcome:?}"
            );
            assert_eq!(outcome.is_ok(), held, "{outcome:?}");
            before.iter().for_each(JoinHandle::abort);
            drop(guard);
        }
    }
}

#[tokio::test]
async fn a_waiter_acquires_a_released_lock_without_delay() {
    let server = Server::new();
    let (holder, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let mut guard = holder.lock("job").lock().await.unwrap();
    for round in 0..10 {
        let waiting = waiter(&server, if round % 2 == 0 { &other } else { &holder });
        server.advance(ms(1234)).await;
        let released = server.elapsed();
        guard.release().await.unwrap();
        server.settle().await;
        let (next, granted) = waiting.await.unwrap();
        assert_eq!(granted, released);
        guard = next;
    }
}

#[tokio::test]
async fn a_forced_unlock_is_seen_within_a_third_of_the_lease() {
    for phase in 0..10 {
        let server = Server::new();
        let (holder, other) = (server.client().await.unwrap(), server.client().await.unwrap());
        let guard = holder.lock("job").lock().await.unwrap();
        server.advance(LEASE + LEASE * phase / 30).await;
        let forced = server.elapsed();
        let told = timed(&server, async move { guard.lost().await });
        assert!(other.lock("job").force_unlock().await.unwrap());
        server.advance(LEASE).await;
        let (reason, told) = told.await.unwrap();
        assert_eq!(reason, LostReason::Deleted);
        assert!(told - forced <= LEASE / 3, "{:?}", told - forced);
    }
}
