//! Redlock: a majority of independent servers, some of which are slow, down, restarted or empty.

use std::sync::Arc;
use std::task::{Context, Wake};
use std::time::{Duration, Instant};

use leasehold::error::{AcquireErrorKind, EnsureErrorKind, NodeError};
use leasehold::{LostReason, Redlock, ReleaseOutcome, RunError};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

use crate::support::{SOON, eventually, is_free, ms, soon};

/// Three or more independent servers.
fn servers(many: usize) -> Vec<RedisServer> {
    (0..many).map(|_| RedisServer::start()).collect()
}

/// A client of all servers, which trusts them right after their start.
async fn redlock(servers: &[RedisServer]) -> Redlock {
    patient_for(ms(300), servers).await
}

/// The same client with another node timeout.
async fn patient_for(timeout: Duration, servers: &[RedisServer]) -> Redlock {
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let builder = Redlock::builder().node_timeout(timeout).nodes_persist_every_write();
    builder.connect(urls.iter().map(String::as_str)).await.unwrap()
}

/// Replaces the holder with a stranger, in one step.
fn take_over(server: &RedisServer) {
    let script = "redis.call('del', 'job') redis.call('hset', 'job', 'stranger:1', '1') \
                  return redis.call('pexpire', 'job', 60000)";
    assert_eq!(server.cli(&["EVAL", script, "0"]), "1");
}

fn free_on(servers: &[RedisServer]) -> usize {
    servers.iter().filter(|server| is_free(*server, "job")).count()
}

fn free_on_most(servers: &[RedisServer], name: &str) -> bool {
    servers.iter().filter(|server| is_free(*server, name)).count() > 1
}

#[tokio::test]
async fn all_nodes_are_acquired_and_released() {
    let servers = servers(3);
    let redlock = redlock(&servers).await;
    let guard = redlock.lock("job").lock().await.unwrap();
    assert!(guard.is_held() && guard.remaining() > ms(20_000));
    eventually("every node to hold it", || free_on(&servers) == 0).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    eventually("every node to be free", || free_on(&servers) == 3).await;
}

#[tokio::test]
async fn two_clients_exclude_each_other() {
    let servers = servers(3);
    let (one, other) = (redlock(&servers).await, redlock(&servers).await);
    let guard = one.lock("job").lock().await.unwrap();
    assert!(other.lock("job").try_lock().await.unwrap().is_none());
    let started = Instant::now();
    assert!(other.lock("job").try_lock_for(ms(300)).await.unwrap().is_none());
    assert!(started.elapsed() >= ms(300));
    guard.release().await.unwrap();
    soon("its turn", other.lock("job").lock()).await.unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_acquire_one_after_another() {
    let servers = servers(3);
    let clients = [redlock(&servers).await, redlock(&servers).await, redlock(&servers).await];
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (lock, count) = (clients[task % 3].lock("job"), Arc::clone(&count));
            tokio::spawn(async move {
                for _ in 0..5 {
                    let guard = lock.lock().await.unwrap();
                    let seen = count.load(std::sync::atomic::Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(guard.is_held());
                    count.store(seen + 1, std::sync::atomic::Ordering::SeqCst);
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.expect("no waiter starves").unwrap();
    }
    assert_eq!(count.load(std::sync::atomic::Ordering::SeqCst), 30);
}

#[tokio::test]
async fn a_minority_may_be_down_from_the_beginning() {
    let mut servers = servers(5);
    servers[0].kill();
    servers[3].kill();
    let redlock = redlock(&servers).await;
    let guard = soon("the lock", redlock.lock("job").lock()).await.unwrap();
    assert_eq!(guard.votes(), 3);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn an_unreachable_majority_is_an_error_that_lists_the_nodes() {
    let mut servers = servers(3);
    servers[1].kill();
    servers[2].kill();
    let redlock = redlock(&servers).await;
    let error = redlock.lock("job").try_lock().await.unwrap_err();
    assert_eq!(error.nodes.len(), 3);
    assert!(error.nodes[0].granted);
    for node in &error.nodes[1..] {
        assert!(
            matches!(
                node.error,
                Some(NodeError::Acquire(AcquireErrorKind::Store(_) | AcquireErrorKind::Unknown { .. }))
            ),
            "{node:?}"
        );
    }
    let said = error.to_string();
    assert!(servers.iter().all(|server| said.contains(&server.url())), "{said}");
    eventually("what was granted to be given back", || is_free(&servers[0], "job")).await;
    let waited = soon("the end", redlock.lock("job").lock()).await;
    assert_eq!(waited.unwrap_err().nodes.len(), 3);
}

#[tokio::test]
async fn a_frozen_node_costs_at_most_its_timeout() {
    let servers = servers(3);
    let (redlock, patient) = (redlock(&servers).await, patient_for(2 * SOON, &servers).await);
    let guard = redlock.lock("job").lock().await.unwrap();
    // A release does not wait for an attempt in flight, which could hold a node until it is undone.
    eventually("all votes", || guard.votes() == 3).await;
    guard.release().await.unwrap();
    servers[1].freeze();
    // A majority is enough, so the grant comes long before the frozen node's timeout.
    let guard = soon("the other two", patient.lock("job").lock()).await.unwrap();
    drop(guard);
    eventually("their release", || is_free(&servers[0], "job") && is_free(&servers[2], "job")).await;
    servers[2].freeze();
    soon("the nodes' time to be over", redlock.lock("job").try_lock()).await.unwrap_err();
    servers[1].thaw();
    servers[2].thaw();
    eventually("stragglers to be given back", || free_on(&servers) == 3).await;
}

#[tokio::test]
async fn a_hold_survives_the_loss_of_one_node() {
    let mut servers = servers(3);
    let redlock = redlock(&servers).await;
    let guard = redlock.lock("job").watchdog(ms(900)).lock().await.unwrap();
    eventually("every node to hold it", || guard.votes() == 3).await;
    servers[0].kill();
    eventually("that node's part to be lost", || guard.votes() == 2).await;
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_hold_is_lost_with_its_majority() {
    let mut servers = servers(3);
    let redlock = redlock(&servers).await;
    let guard = redlock.lock("job").watchdog(ms(900)).lock().await.unwrap();
    eventually("every node to hold it", || guard.votes() == 3).await;
    servers[0].kill();
    servers[1].kill();
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::Unreachable);
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[tokio::test]
async fn a_release_is_confirmed_by_a_majority_and_by_nothing_less() {
    let servers = servers(3);
    let redlock = redlock(&servers).await;
    for frozen in [1, 2] {
        let guard = redlock.lock("job").lock().await.unwrap();
        eventually("every node to hold it", || guard.votes() == 3).await;
        servers[..frozen].iter().for_each(RedisServer::freeze);
        let outcome = soon("the report", guard.release()).await;
        assert_eq!(outcome.is_ok(), frozen == 1, "{frozen} of 3 are frozen: {outcome:?}");
        servers[..frozen].iter().for_each(RedisServer::thaw);
        eventually("every node to be free", || free_on(&servers) == 3).await;
    }
}

#[tokio::test]
async fn a_lost_hold_releases_its_other_nodes() {
    let servers = servers(3);
    let (one, other) = (redlock(&servers).await, redlock(&servers).await);
    let guard = one.lock("job").watchdog(ms(900)).lock().await.unwrap();
    eventually("every node to hold it", || guard.votes() == 3).await;
    // A plain deletion would not do, because the client could take the first node again before it misses the second.
    servers[..2].iter().for_each(take_over);
    assert_eq!(soon("the loss", guard.lost()).await, LostReason::TakenOver);
    eventually("the third to be given back, though the guard lives", || is_free(&servers[2], "job")).await;
    assert_eq!(guard.votes(), 0);
    for server in &servers[..2] {
        assert_eq!(server.cli(&["DEL", "job"]), "1");
    }
    let next = soon("the next holder", other.lock("job").lock()).await.unwrap();
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
    next.release().await.unwrap();
    eventually("every node to be free", || free_on(&servers) == 3).await;
}

#[tokio::test]
async fn closing_the_nodes_loses_the_hold_with_its_reason() {
    let servers = servers(3);
    for _ in 0..20 {
        let redlock = redlock(&servers).await;
        let guard = redlock.lock("job").lock().await.unwrap();
        redlock.close().await;
        assert_eq!(soon("the loss", guard.lost()).await, LostReason::Closed);
    }
}

struct Knock;

impl Wake for Knock {
    fn wake(self: Arc<Self>) {}
}

#[tokio::test]
async fn a_dropped_wait_for_a_loss_is_removed_while_the_guard_lives() {
    let servers = servers(3);
    let guard = redlock(&servers).await.lock("job").lock().await.unwrap();
    let knock = Arc::new(Knock);
    let waker = Arc::clone(&knock).into();
    let mut lost = Box::pin(guard.lost());
    assert!(lost.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop((waker, lost));
    assert_eq!(Arc::strong_count(&knock), 1, "the guard remembers a task that has gone");
}

#[tokio::test]
async fn an_empty_restarted_node_rejoins_when_it_counts_again() {
    let mut servers = servers(3);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let builder = Redlock::builder().node_timeout(ms(300)).poll_interval(ms(100)).longest_lease(ms(900));
    let redlock = builder.connect(urls.iter().map(String::as_str)).await.unwrap();
    let lock = redlock.lock("job").watchdog(ms(900));
    // Recently started servers do not count.
    let young = lock.try_lock().await.unwrap_err();
    assert!(
        young.nodes.iter().all(|node| matches!(node.error, Some(NodeError::RecentlyRestarted { .. }))),
        "{young}"
    );
    let guard = soon("them to be old enough", lock.lock()).await.unwrap();
    eventually("every node to hold it", || guard.votes() == 3).await;

    servers[2].restart();
    let restarted = Instant::now();
    eventually("its part to be lost", || guard.votes() == 2).await;
    eventually("it to join again", || guard.votes() == 3).await;
    assert!(restarted.elapsed() > ms(900), "not before it counts: {:?}", restarted.elapsed());
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_node_that_refuses_late_because_it_is_young_joins_when_it_counts() {
    let builder = Redlock::builder().node_timeout(SOON).poll_interval(ms(100)).longest_lease(ms(900));
    let old = servers(2);
    let mut urls: Vec<String> = old.iter().map(RedisServer::url).collect();
    let redlock = builder.clone().connect(urls.iter().map(String::as_str)).await.unwrap();
    let other = redlock.lock("other").watchdog(ms(900));
    drop(soon("them to be old enough", other.lock()).await.unwrap());

    let young = RedisServer::start();
    let proxy = Proxy::start(young.port());
    urls.push(proxy.url());
    let redlock = builder.connect(urls.iter().map(String::as_str)).await.unwrap();
    proxy.hold_replies(true);
    let guard = redlock.lock("job").watchdog(ms(900)).lock().await.unwrap();
    assert_eq!(guard.votes(), 2, "the young node has not answered");
    proxy.hold_replies(false);
    eventually("every node to hold it", || guard.votes() == 3).await;
}

#[tokio::test]
async fn an_empty_restart_does_not_admit_a_second_holder() {
    let mut servers = servers(3);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let builder = Redlock::builder().node_timeout(ms(300)).longest_lease(ms(1_500));
    let connect = async || builder.clone().connect(urls.iter().map(String::as_str)).await.unwrap();
    let (one, other) = (connect().await, connect().await);
    // The third server is down, so the client holds the lock on the first two only.
    servers[2].kill();
    let guard = soon("two nodes", one.lock("job").lease(ms(1_500)).lock()).await.unwrap();
    servers[2].restart();
    servers[1].restart();
    let outcome = other.lock("job").lease(ms(1_500)).try_lock().await;
    assert!(!matches!(outcome, Ok(Some(_))), "{outcome:?}");
    drop(guard);
}

#[tokio::test]
async fn a_dropped_acquire_leaves_nothing() {
    let servers = servers(3);
    let (one, other) = (redlock(&servers).await, redlock(&servers).await);
    let guard = one.lock("job").lock().await.unwrap();
    let lock = other.lock("job");
    let waiting = tokio::spawn(async move { lock.lock().await });
    tokio::task::yield_now().await;
    waiting.abort();
    guard.release().await.unwrap();
    other.close().await;
    eventually("every node to be free", || free_on(&servers) == 3).await;
}

#[tokio::test]
async fn a_fixed_lease_ends_by_itself() {
    let servers = servers(3);
    let redlock = redlock(&servers).await;
    let guard = redlock.lock("job").lease(ms(400)).lock().await.unwrap();
    assert_eq!(soon("the end", guard.lost()).await, LostReason::Expired);
    assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::NotHeld);
}

#[tokio::test]
async fn a_hold_can_be_ensured() {
    let servers = servers(3);
    let redlock = redlock(&servers).await;
    let guard = redlock.lock("job").lease(ms(5_000)).lock().await.unwrap();
    guard.ensure(ms(4_500)).await.unwrap();
    assert!(guard.remaining() >= ms(4_000));
    guard.ensure(ms(60_000)).await.unwrap_err();
    guard.detach();
    assert!(free_on(&servers) <= 1, "it stays for its lease");
}

#[tokio::test]
async fn a_hold_detached_at_once_stays_on_a_majority() {
    let servers = servers(3);
    let redlock = redlock(&servers).await;
    for number in 0..50 {
        let name = format!("job:{number}");
        redlock.lock(name.as_str()).lock().await.unwrap().detach();
        assert!(!free_on_most(&servers, &name), "{name}");
    }
    // Closing waits for all outstanding undos.
    redlock.close().await;
    let free = (0..50).filter(|number| free_on_most(&servers, &format!("job:{number}"))).count();
    assert_eq!(free, 0, "of fifty");
}

#[tokio::test]
async fn in_process_servers_can_be_nodes() {
    let urls = ["memory://node-1", "memory://node-2", "memory://node-3"];
    let redlock = Redlock::builder().nodes_persist_every_write().connect(urls).await.unwrap();
    let guard = redlock.lock("job").try_lock().await.unwrap().expect("it is free");
    assert!(redlock.lock("job").try_lock().await.unwrap().is_none());
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_body_runs_under_a_majority_and_is_dropped_when_it_is_lost() {
    let servers = servers(3);
    let lock = redlock(&servers).await.lock("job").watchdog(ms(600));
    let value = lock.run(async |guard| (guard.is_held(), free_on(&servers) < 2)).await;
    assert_eq!(value, Ok((true, true)));
    eventually("every node to be free", || free_on(&servers) == 3).await;
    let lost = lock.run(async |_| {
        servers.iter().for_each(take_over);
        std::future::pending::<()>().await;
    });
    let error = soon("the loss", lost).await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    let busy = lock.section().wait(ms(50)).run(async |_| ()).await.unwrap_err();
    assert!(busy.is_busy(), "{busy}");
}

#[tokio::test]
async fn a_quorum_hold_is_extended_by_at_most_the_longest_lease_of_the_fleet() {
    let servers = servers(3);
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    let fleet = || Redlock::builder().longest_lease(ms(2_000));
    let young = fleet().connect(&urls).await.unwrap().lock("job").lease(ms(2_000));
    // The servers count once they have been up for longer than the longest lease.
    let guard = soon("trust", young.lock()).await.unwrap();
    let error = guard.extend(ms(2_001)).await.unwrap_err();
    assert!(matches!(error.kind, EnsureErrorKind::TooLong { most, .. } if most == ms(2_000)), "{error}");
    guard.extend(ms(2_000)).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_body_without_a_majority_does_not_run() {
    let mut servers = servers(3);
    let lock = redlock(&servers).await.lock("job");
    servers.truncate(1);
    let error = lock.section().wait(Duration::ZERO).run(async |_| ()).await.unwrap_err();
    assert!(matches!(&error, RunError::Quorum(error) if error.nodes.len() == 3), "{error}");
    assert!(error.is_unavailable() && error.is_retryable() && !error.is_lost(), "{error}");
    assert_eq!(error.subject().map(|subject| &*subject.name), Some("job"));
}
