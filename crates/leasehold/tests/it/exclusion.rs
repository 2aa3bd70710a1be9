//! Mutual exclusion and liveness on a network with constant faults.
//!
//! Each client has a network of its own, which cuts, delays and loses by a seeded plan. Every critical section records a
//! span in which its guard was certainly valid. The span begins before one check that found the guard valid and ends
//! before another. Promise M says that no two of these spans overlap.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Client, Guard};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use tokio::task::JoinHandle;

use crate::support::{connect, connect_with, eventually, keys, listeners, ms, pace, soon};

const CLIENTS: u64 = 4;
const TASKS_PER_CLIENT: u64 = 3;
const LEASE: Duration = ms(250);
const TROUBLE: Duration = Duration::from_secs(4);

/// Pseudo-random numbers from a seed (Knuth's multiplier, the upper half).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// One span of certain validity.
#[derive(Clone, Copy, Debug)]
struct Span {
    who: u64,
    from: Instant,
    to: Instant,
}

/// Runs a critical section, sometimes shorter and sometimes longer than the lease.
async fn work(who: u64, guard: &Guard, dice: &mut Dice, spans: &Mutex<Vec<Span>>) {
    let from = Instant::now();
    if !guard.is_held() {
        return;
    }
    let mut to = from;
    let until = from + ms(dice.roll(60));
    loop {
        let now = Instant::now();
        if !guard.is_held() {
            break;
        }
        to = now;
        if now >= until {
            break;
        }
        tokio::task::yield_now().await;
    }
    spans.lock().unwrap().push(Span { who, from, to });
}

/// Acquires and releases the lock repeatedly, in every way.
fn worker(client: Client, who: u64, until: Instant, spans: Arc<Mutex<Vec<Span>>>) -> JoinHandle<u64> {
    tokio::spawn(async move {
        let (mut dice, mut errors) = (Dice(who), 0);
        while Instant::now() < until {
            let lock = match dice.roll(3) {
                0 => client.lock("job").lease(LEASE),
                _ => client.lock("job").watchdog(LEASE),
            };
            let outcome = match dice.roll(4) {
                0 => lock.try_lock().await,
                1 => lock.try_lock_for(ms(dice.roll(100))).await,
                2 => lock.lock().await.map(Some),
                _ => {
                    Ok(crate::support::poll_without_wake_ups(dice.roll(60).try_into().unwrap(), lock.lock())
                        .await)
                    .and_then(Option::transpose)
                }
            };
            let Ok(guard) = outcome else {
                errors += 1;
                continue;
            };
            let Some(guard) = guard else {
                tokio::task::yield_now().await;
                continue;
            };
            work(who, &guard, &mut dice, &spans).await;
            match dice.roll(3) {
                0 => drop(guard),
                // The network decides the result of this release.
                _ => drop(guard.release().await),
            }
        }
        errors
    })
}

/// Causes one fault, or repairs a fault.
fn trouble(proxy: &Proxy, dice: &mut Dice) {
    match dice.roll(8) {
        0 => proxy.cut(),
        1 => proxy.hold_replies(true),
        2 => proxy.black_hole(true),
        3 => proxy.drop_replies(true),
        4 => proxy.drop_nth_reply(1 + dice.roll(3)),
        5 => proxy.cut_on_nth_reply(1 + dice.roll(3)),
        6 => proxy.refuse(true),
        _ => calm(proxy),
    }
}

fn calm(proxy: &Proxy) {
    proxy.refuse(false);
    proxy.hold_replies(false);
    proxy.drop_replies(false);
    proxy.drop_requests(false);
    proxy.black_hole(false);
    proxy.drop_nth_reply(0);
}

fn assert_disjoint(mut spans: Vec<Span>) {
    spans.sort_by_key(|span| span.from);
    for pair in spans.windows(2) {
        assert!(pair[0].to <= pair[1].from, "two valid guards at once: {pair:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_guards_are_valid_at_once_on_a_failing_network() {
    let server = RedisServer::start();
    let spans = Arc::new(Mutex::new(Vec::new()));
    let until = Instant::now() + TROUBLE;
    let (mut proxies, mut workers) = (Vec::new(), Vec::new());
    for number in 0..CLIENTS {
        let proxy = Proxy::start(server.port());
        let builder = Client::builder().timeout(ms(300)).poll_interval(ms(200));
        let client = connect_with(builder, &proxy.url()).await;
        for task in 0..TASKS_PER_CLIENT {
            workers.push(worker(client.clone(), number * 100 + task, until, Arc::clone(&spans)));
        }
        proxies.push(proxy);
    }
    let mut dice = Dice(20_261_121);
    let mut pace = pace(ms(25));
    while Instant::now() < until {
        let chosen = usize::try_from(dice.roll(CLIENTS)).unwrap();
        match dice.roll(3) {
            0 => trouble(&proxies[chosen], &mut dice),
            _ => calm(&proxies[chosen]),
        }
        pace.tick().await;
    }
    proxies.iter().for_each(calm);
    let mut errors = 0;
    for worker in workers {
        errors += soon("the worker to end", worker).await.unwrap();
    }
    let spans = Arc::into_inner(spans).unwrap().into_inner().unwrap();
    let who: std::collections::BTreeSet<u64> = spans.iter().map(|span| span.who / 100).collect();
    // On a busy machine a client can be in trouble whenever it is its turn. Two of them can exclude each other.
    assert!(who.len() > 1, "clients took turns: {who:?}");
    assert!(errors > 0, "the network did break");
    assert_disjoint(spans);
    // Liveness. After the faults end, every leftover hold expires within a lease, and the lock is free.
    eventually("every key to go", || keys(&server) == 0).await;
    eventually("every subscription to end", || listeners(&server, "job") == 0).await;
    drop(soon("the lock", connect(&server).await.lock("job").lock()).await.unwrap());
}

#[test]
#[should_panic(expected = "two valid guards at once")]
fn overlapping_spans_are_found() {
    let now = Instant::now();
    let span = |who, from, to| Span { who, from: now + ms(from), to: now + ms(to) };
    assert_disjoint(vec![span(1, 0, 10), span(2, 20, 30), span(3, 9, 15)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_restarts_block_no_client_for_long() {
    let mut server = RedisServer::with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let spans = Arc::new(Mutex::new(Vec::new()));
    let until = Instant::now() + Duration::from_secs(2);
    let mut workers = Vec::new();
    for number in 0..3 {
        let builder = Client::builder().timeout(ms(500)).poll_interval(ms(200));
        let client = connect_with(builder, &server.url()).await;
        workers.push(worker(client, number, until, Arc::clone(&spans)));
    }
    let mut pace = pace(ms(300));
    pace.tick().await;
    while Instant::now() < until {
        pace.tick().await;
        // Blocks one of the two threads until the server is back.
        tokio::task::block_in_place(|| server.restart());
    }
    for worker in workers {
        soon("the worker to end", worker).await.unwrap();
    }
    let spans = Arc::into_inner(spans).unwrap().into_inner().unwrap();
    assert!(spans.len() > 10, "{} sections", spans.len());
    assert_disjoint(spans);
    eventually("every key to go", || keys(&server) == 0).await;
}
