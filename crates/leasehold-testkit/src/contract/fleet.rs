//! Locks and permits that Redisson shares, with the commands of Redisson's scripts.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::expirable::EXPIRABLE_SEMAPHORE;
use leasehold_proto::recipe::fair::{self, FAIR};
use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::redlock::REDLOCK;
use leasehold_proto::recipe::reentrant::{self, REENTRANT};
use leasehold_proto::recipe::spin::{self, SPIN};
use leasehold_proto::{Answer, LockCalls, Recipe, Reply, StoreErrorKind};
use leasehold_store::{Heard, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::asks::{Asks, LONG, owner};
use super::counters::{Counter, FRESH, GRANTED, id};
use super::fair::Queue;
use super::{Admin, Bench, next, timed, until};

behaviours! {
    a_queue_that_a_grant_leaves_to_a_stranger_stays,
    a_queue_that_a_waiter_leaves_to_a_stranger_stays,
    a_queue_that_a_purge_leaves_to_a_stranger_stays,
    a_queue_that_redisson_took_us_out_of_stays,
    our_deadline_outlasts_a_strangers_wait_of_any_length,
    our_deadline_outlasts_a_wait_of_which_little_is_left,
    dead_waiters_are_taken_out_by_any_acquire_and_the_next_is_told,
    a_refusal_tells_how_long_the_head_has,
    a_deadline_is_five_seconds_for_each_place_to_the_millisecond,
    a_permit_ends_after_its_lease_to_the_millisecond,
    a_permit_has_ended_in_the_millisecond_of_its_end,
    a_permit_that_was_shortened_is_gone_at_the_next_renewal_after_its_end,
    a_group_of_values_is_another_kind,
    a_release_leaves_a_group_of_values_alone,
}

/// The keys of a fair queue that Redisson uses too.
const SHARED: [&str; 2] = ["redisson_lock_queue", "redisson_lock_timeout"];

impl<S: Store, A: Admin> Queue<'_, S, A> {
    /// Returns true if both keys that Redisson shares exist and do not expire.
    fn stays(&self) -> bool {
        SHARED.iter().all(|key| self.asks.pttl(&self.key(key)) == -1)
    }

    /// Grants the lock to a waiter as Redisson does. Removes the waiter from the queue and takes its wait off all
    /// deadlines.
    fn stranger_is_granted(&self, member: &str, wait_ms: i64) {
        assert_eq!(self.tell(&["LPOP", &self.key(SHARED[0])]), member);
        self.tell(&["ZREM", &self.key(SHARED[1]), member]);
        for waiter in self.tell(&["ZRANGE", &self.key(SHARED[1]), "0", "-1"]).lines() {
            self.tell(&["ZINCRBY", &self.key(SHARED[1]), &(-wait_ms).to_string(), waiter]);
        }
    }
}

async fn a_queue_that_a_grant_leaves_to_a_stranger_stays<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    queue.stranger("java", 300_000);
    assert!(!queue.stays(), "only we stood there");
    queue.asks.release(1, 0).await;
    assert!(queue.stays());
    queue.tell(&["PEXPIRE", &queue.key(SHARED[0]), "15000"]);
    queue.tell(&["PEXPIRE", &queue.key(SHARED[1]), "15000"]);
    assert_eq!(queue.asks.acquire(2, LONG).await, Reply::Nil);
    assert_eq!(queue.list(), "java");
    assert!(queue.stays());
}

async fn a_queue_that_a_waiter_leaves_to_a_stranger_stays<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    queue.stranger("java", 300_000);
    assert_eq!(queue.asks.release(2, 0).await, Reply::Nil);
    assert_eq!(queue.list(), "java");
    assert!(queue.stays());
}

async fn a_queue_that_a_purge_leaves_to_a_stranger_stays<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    queue.stranger("java", 300_000);
    queue.unseen_for(2, 6_000);
    queue.asks.once(3).await;
    assert_eq!(queue.list(), "java");
    assert!(queue.stays());
}

async fn a_queue_that_redisson_took_us_out_of_stays<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    queue.tell(&["DEL", &queue.key(SHARED[0]), &queue.key(SHARED[1])]);
    queue.stranger("java", 300_000);
    queue.asks.acquire(2, LONG).await;
    assert_eq!(queue.list(), "java 2");
    assert!(queue.stays());
}

async fn our_deadline_outlasts_a_strangers_wait_of_any_length<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.stranger("ten-minutes", 630_000);
    queue.stranger("five-more", 930_000);
    queue.asks.acquire(2, LONG).await;
    queue.stranger_is_granted("ten-minutes", 600_000);
    assert!(queue.due_in(&owner(2).to_string()) > 5_000);
    queue.stranger_is_granted("five-more", 300_000);
    let due_in = queue.due_in(&owner(2).to_string());
    assert!((5_000..=60_000).contains(&due_in), "a dead one of ours does not block for longer: {due_in}");
    queue.asks.acquire(2, LONG).await;
    assert!((1..=6_000).contains(&queue.due_in(&owner(2).to_string())), "it is the head now");
}

async fn our_deadline_outlasts_a_wait_of_which_little_is_left<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.stranger("ten-minutes", 630_000);
    queue.asks.acquire(2, LONG).await;
    // Sets the state of nine and a half minutes later.
    let late = (queue.now_ms() + 60_000).to_string();
    queue.tell(&["ZADD", &queue.key(SHARED[1]), &late, "ten-minutes"]);
    queue.asks.acquire(2, LONG).await;
    queue.stranger_is_granted("ten-minutes", 600_000);
    assert!(queue.due_in(&owner(2).to_string()) > 5_000);
}

async fn dead_waiters_are_taken_out_by_any_acquire_and_the_next_is_told<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.stranger("short", 50_000);
    queue.asks.acquire(2, LONG).await;
    queue.stranger("behind", 350_000);
    queue.stranger_is_granted("short", 20_000);
    assert!(queue.due_in(&owner(2).to_string()) > 250_000, "Redisson alone would wait for it");
    queue.unseen_for(2, 6_000);
    bench.tell(&["DEL", queue.asks.key()]);
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel("behind");
    let _listening = bench.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert!(matches!(queue.asks.once(3).await, Reply::Int(1..=5_000)));
    assert_eq!(queue.list(), "behind");
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
    assert!(queue.stays());
}

async fn a_refusal_tells_how_long_the_head_has<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.stranger("java", 300_000);
    assert_eq!(queue.asks.acquire(1, LONG).await, Reply::Int(5_000), "what its deadline is cut to");
    queue.tell(&["ZADD", &queue.key(SHARED[1]), &(queue.now_ms() + 3_000).to_string(), "java"]);
    assert!(matches!(queue.asks.acquire(1, LONG).await, Reply::Int(1..=3_000)));
}

async fn a_deadline_is_five_seconds_for_each_place_to_the_millisecond<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    let mut exact = 0;
    for waiter in 2.. {
        let now = timed(bench, &queue.asks.acquire_call(waiter), "").await;
        if let Some(now) = now {
            let score = queue.tell(&["ZSCORE", &queue.key(SHARED[1]), &owner(waiter).to_string()]);
            assert_eq!(score.parse(), Ok(now + 5_000 * (waiter as i64 - 1)), "place {}", waiter - 2);
            exact += 1;
        }
        if exact == 3 {
            return;
        }
    }
}

async fn a_permit_ends_after_its_lease_to_the_millisecond<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let pe = Counter::new(bench, "pe");
    pe.set("100000");
    for number in 1.. {
        let (acquire, _) = pe.acquire_and_release(&EXPIRABLE_SEMAPHORE, (number, 1));
        let renew = pe.renew_call(&EXPIRABLE_SEMAPHORE, (number, 1), 60_000);
        let ends = || {
            let printed = bench.tell(&["ZRANGE", &pe.ids(), "-1", "-1", "WITHSCORES"]);
            printed.lines().last().and_then(|score| score.parse::<i64>().ok()).expect("it has an end")
        };
        bench.tell(&["DEL", &pe.ids()]);
        let Some(acquired) = timed(bench, &acquire, "").await else { continue };
        assert_eq!(ends(), acquired + 30_000);
        let Some(renewed) = timed(bench, &renew, "").await else { continue };
        assert_eq!(ends(), renewed + 60_000);
        return;
    }
}

async fn a_permit_has_ended_in_the_millisecond_of_its_end<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let pe = Counter::new(bench, "pe");
    let (acquire, _) = pe.acquire_and_release(&EXPIRABLE_SEMAPHORE, (1, 1));
    for (later, left) in [(0, Reply::Nil), (1, Reply::Int(1))] {
        let ends = format!("redis.call('zadd', KEYS[2], now_ms + {later}, 'sixteen-bytes-id')");
        let outcome = until("the clock to stand still during a call", async || {
            pe.set("0");
            bench.tell(&["DEL", &pe.ids()]);
            let now = timed(bench, &acquire, &ends).await?;
            let score = bench.tell(&["ZSCORE", &pe.ids(), "sixteen-bytes-id"]);
            Some(if score.is_empty() { Reply::Nil } else { Reply::Int(score.parse::<i64>().ok()? - now) })
        })
        .await;
        assert_eq!(outcome, left, "the one that ends {later} ms later");
    }
}

async fn a_permit_that_was_shortened_is_gone_at_the_next_renewal_after_its_end<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let pe = Counter::new(bench, "pe");
    pe.set("1");
    pe.acquire(&EXPIRABLE_SEMAPHORE, (1, 1), FRESH).await;
    // Redisson's updateLeaseTime, which publishes nothing.
    let shortened = format!("redis.call('zadd', KEYS[2], now_ms + 1, '{}')", lua_text(id(1).as_bytes()));
    timed(bench, &pe.renew_call(&EXPIRABLE_SEMAPHORE, (9, 0), 30_000), &shortened).await;
    until("its end to be seen", async || {
        (pe.acquire(&EXPIRABLE_SEMAPHORE, (2, 1), FRESH).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(pe.renew(&EXPIRABLE_SEMAPHORE, (1, 1), 30_000).await, Reply::Int(0), "another one has it");
    assert_eq!(pe.release(&EXPIRABLE_SEMAPHORE, (1, 1), GRANTED).await, Reply::Int(0));
    assert_eq!(pe.value(), "0");
    assert_eq!(pe.release(&EXPIRABLE_SEMAPHORE, (2, 1), GRANTED).await, Reply::Int(1));
}

/// A Lua string literal with any bytes.
fn lua_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03}")).collect()
}

/// The fields that Redisson's lock of a group of values leaves in the hash of the group.
const GROUP: [(&str, &str); 3] = [
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ", "java:1"),
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ:java:1:expire_time", "9999999999999"),
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ:java:1:lock_count", "1"),
];

fn lock_group<A: Admin, S>(bench: &Bench<'_, S, A>, key: &str) {
    for (field, value) in GROUP {
        bench.admin.tell(&["HSET", key, field, value]);
    }
    bench.admin.tell(&["PEXPIRE", key, "30000"]);
}

async fn a_group_of_values_is_another_kind<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let kinds: [&'static Recipe; 6] =
        [&REENTRANT, &FAIR, &SPIN, &REDLOCK, &MULTI, fenced::with_tokens(Tokens::Counter)];
    for kind in kinds {
        let asks = if kind.kind == MULTI.kind { Asks::many(bench, kind) } else { Asks::new(bench, kind) };
        lock_group(bench, asks.key());
        let refused = asks.try_acquire(1, LONG).await.expect_err("the name is another kind");
        assert_eq!(refused.kind, StoreErrorKind::WrongType, "{}", kind.kind);
        assert_eq!(asks.release(1, 0).await, Reply::Nil, "{}", kind.kind);
    }
    let asks = Asks::new(bench, &REENTRANT);
    let forced: [&LockCalls; 3] = [&reentrant::LOCK_CALLS, &fair::LOCK_CALLS, &spin::LOCK_CALLS];
    for calls in forced {
        let refused = bench.run((calls.force_release)(&asks.subject.name)).await.expect_err("another kind");
        assert_eq!(refused.kind, StoreErrorKind::WrongType, "{calls:?}");
    }
    assert_eq!(bench.tell(&["HLEN", asks.key()]), "3");
}

async fn a_release_leaves_a_group_of_values_alone<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let kinds: [&'static Recipe; 6] =
        [&REENTRANT, &FAIR, &SPIN, &REDLOCK, &MULTI, fenced::with_tokens(Tokens::Counter)];
    for kind in kinds {
        let asks = if kind.kind == MULTI.kind { Asks::many(bench, kind) } else { Asks::new(bench, kind) };
        let granted = (kind.read_acquire)(&asks.acquire(1, LONG).await);
        assert!(matches!(granted, Some(Answer::Granted { .. })), "{granted:?}");
        lock_group(bench, asks.key());
        assert_eq!(asks.release(1, 0).await, Reply::Int(1), "{}", kind.kind);
        for (field, value) in GROUP {
            assert_eq!(bench.tell(&["HGET", asks.key(), field]), value, "{}", kind.kind);
        }
        assert_eq!(bench.tell(&["HLEN", asks.key()]), "3", "{}", kind.kind);
        bench.tell(&["DEL", asks.key()]);
    }
}
