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
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::counters::{Counter, FRESH, id};
use super::fair::Queue;
use super::lock_harness::{LONG, LockHarness, owner};
use super::{Harness, next, timed, until};

behaviors! {
    a_queue_with_a_redisson_waiter_survives_a_grant,
    a_queue_with_a_redisson_waiter_survives_a_leaving_waiter,
    a_queue_with_a_redisson_waiter_survives_a_purge,
    a_queue_survives_after_redisson_removed_the_leasehold_waiter,
    a_leasehold_deadline_outlasts_a_redisson_wait_of_any_length,
    a_leasehold_deadline_outlasts_a_redisson_wait_that_is_almost_over,
    any_acquire_removes_dead_waiters_and_wakes_the_next,
    a_refusal_returns_the_remaining_time_of_the_head,
    a_deadline_is_exactly_five_seconds_per_queue_position,
    a_permit_expires_exactly_after_its_lease,
    a_permit_is_expired_in_the_millisecond_of_its_end,
    a_shortened_permit_has_expired_at_the_first_renewal_after_its_end,
    a_group_of_values_is_another_kind,
    a_release_does_not_change_a_group_of_values,
}

/// The keys of a fair queue that Redisson uses too.
const SHARED: [&str; 2] = ["redisson_lock_queue", "redisson_lock_timeout"];

impl Queue<'_> {
    /// Returns true if both keys that Redisson shares exist and do not expire.
    fn has_no_expiry(&self) -> bool {
        SHARED.iter().all(|key| self.lock_harness.pttl(&self.key(key)) == -1)
    }

    /// Grants the lock to a waiter as Redisson does. Removes the waiter from the queue and takes its wait off all
    /// deadlines.
    fn grant_redisson_waiter(&self, member: &str, wait_ms: i64) {
        assert_eq!(self.run_command(&["LPOP", &self.key(SHARED[0])]), member);
        self.run_command(&["ZREM", &self.key(SHARED[1]), member]);
        for waiter in self.run_command(&["ZRANGE", &self.key(SHARED[1]), "0", "-1"]).lines() {
            self.run_command(&["ZINCRBY", &self.key(SHARED[1]), &(-wait_ms).to_string(), waiter]);
        }
    }
}

async fn a_queue_with_a_redisson_waiter_survives_a_grant(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_redisson_waiter("java", 300_000);
    assert!(!queue.has_no_expiry(), "only we stood there");
    queue.lock_harness.release(1, 0).await;
    assert!(queue.has_no_expiry());
    queue.run_command(&["PEXPIRE", &queue.key(SHARED[0]), "15000"]);
    queue.run_command(&["PEXPIRE", &queue.key(SHARED[1]), "15000"]);
    assert_eq!(queue.lock_harness.acquire(2, LONG).await, Reply::Nil);
    assert_eq!(queue.list(), "java");
    assert!(queue.has_no_expiry());
}

async fn a_queue_with_a_redisson_waiter_survives_a_leaving_waiter(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_redisson_waiter("java", 300_000);
    assert_eq!(queue.lock_harness.release(2, 0).await, Reply::Nil);
    assert_eq!(queue.list(), "java");
    assert!(queue.has_no_expiry());
}

async fn a_queue_with_a_redisson_waiter_survives_a_purge(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_redisson_waiter("java", 300_000);
    queue.set_unseen_for(2, 6_000);
    queue.lock_harness.once(3).await;
    assert_eq!(queue.list(), "java");
    assert!(queue.has_no_expiry());
}

async fn a_queue_survives_after_redisson_removed_the_leasehold_waiter(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.run_command(&["DEL", &queue.key(SHARED[0]), &queue.key(SHARED[1])]);
    queue.add_redisson_waiter("java", 300_000);
    queue.lock_harness.acquire(2, LONG).await;
    assert_eq!(queue.list(), "java 2");
    assert!(queue.has_no_expiry());
}

async fn a_leasehold_deadline_outlasts_a_redisson_wait_of_any_length(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("ten-minutes", 630_000);
    queue.add_redisson_waiter("five-more", 930_000);
    queue.lock_harness.acquire(2, LONG).await;
    queue.grant_redisson_waiter("ten-minutes", 600_000);
    assert!(queue.due_in(&owner(2).to_string()) > 5_000);
    queue.grant_redisson_waiter("five-more", 300_000);
    let due_in = queue.due_in(&owner(2).to_string());
    assert!((5_000..=60_000).contains(&due_in), "a dead one of ours does not block for longer: {due_in}");
    queue.lock_harness.acquire(2, LONG).await;
    assert!((1..=6_000).contains(&queue.due_in(&owner(2).to_string())), "it is the head now");
}

async fn a_leasehold_deadline_outlasts_a_redisson_wait_that_is_almost_over(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("ten-minutes", 630_000);
    queue.lock_harness.acquire(2, LONG).await;
    // Sets the state of nine and a half minutes later.
    let late = (queue.now_ms() + 60_000).to_string();
    queue.run_command(&["ZADD", &queue.key(SHARED[1]), &late, "ten-minutes"]);
    queue.lock_harness.acquire(2, LONG).await;
    queue.grant_redisson_waiter("ten-minutes", 600_000);
    assert!(queue.due_in(&owner(2).to_string()) > 5_000);
}

async fn any_acquire_removes_dead_waiters_and_wakes_the_next(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("short", 50_000);
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_redisson_waiter("behind", 350_000);
    queue.grant_redisson_waiter("short", 20_000);
    assert!(queue.due_in(&owner(2).to_string()) > 250_000, "Redisson alone would wait for it");
    queue.set_unseen_for(2, 6_000);
    harness.run_command(&["DEL", queue.lock_harness.key()]);
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel("behind");
    let _listening = harness.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert!(matches!(queue.lock_harness.once(3).await, Reply::Int(1..=5_000)));
    assert_eq!(queue.list(), "behind");
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
    assert!(queue.has_no_expiry());
}

async fn a_refusal_returns_the_remaining_time_of_the_head(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.add_redisson_waiter("java", 300_000);
    assert_eq!(queue.lock_harness.acquire(1, LONG).await, Reply::Int(5_000), "what its deadline is cut to");
    queue.run_command(&["ZADD", &queue.key(SHARED[1]), &(queue.now_ms() + 3_000).to_string(), "java"]);
    assert!(matches!(queue.lock_harness.acquire(1, LONG).await, Reply::Int(1..=3_000)));
}

async fn a_deadline_is_exactly_five_seconds_per_queue_position(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    let mut exact = 0;
    for waiter in 2.. {
        let now = timed(harness, &queue.lock_harness.acquire_call(waiter), "").await;
        if let Some(now) = now {
            let score = queue.run_command(&["ZSCORE", &queue.key(SHARED[1]), &owner(waiter).to_string()]);
            assert_eq!(score.parse(), Ok(now + 5_000 * (waiter as i64 - 1)), "place {}", waiter - 2);
            exact += 1;
        }
        if exact == 3 {
            return;
        }
    }
}

async fn a_permit_expires_exactly_after_its_lease(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    pe.set("100000");
    for number in 1.. {
        let (acquire, _) = pe.acquire_and_release(&EXPIRABLE_SEMAPHORE, (number, 1));
        let renew = pe.renew_call(&EXPIRABLE_SEMAPHORE, (number, 1), 60_000);
        let ends = || {
            let printed = harness.run_command(&["ZRANGE", &pe.ids(), "-1", "-1", "WITHSCORES"]);
            printed.lines().last().and_then(|score| score.parse::<i64>().ok()).expect("it has an end")
        };
        harness.run_command(&["DEL", &pe.ids()]);
        let Some(acquired) = timed(harness, &acquire, "").await else { continue };
        assert_eq!(ends(), acquired + 30_000);
        let Some(renewed) = timed(harness, &renew, "").await else { continue };
        assert_eq!(ends(), renewed + 60_000);
        return;
    }
}

async fn a_permit_is_expired_in_the_millisecond_of_its_end(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    let (acquire, _) = pe.acquire_and_release(&EXPIRABLE_SEMAPHORE, (1, 1));
    for (later, left) in [(0, Reply::Nil), (1, Reply::Int(1))] {
        let ends = format!("redis.call('zadd', KEYS[2], now_ms + {later}, 'sixteen-bytes-id')");
        let outcome = until("the clock to stand still during a call", async || {
            pe.set("0");
            harness.run_command(&["DEL", &pe.ids()]);
            let now = timed(harness, &acquire, &ends).await?;
            let score = harness.run_command(&["ZSCORE", &pe.ids(), "sixteen-bytes-id"]);
            Some(if score.is_empty() { Reply::Nil } else { Reply::Int(score.parse::<i64>().ok()? - now) })
        })
        .await;
        assert_eq!(outcome, left, "the one that ends {later} ms later");
    }
}

async fn a_shortened_permit_has_expired_at_the_first_renewal_after_its_end(harness: &Harness<'_>) {
    let pe = Counter::new(harness, "pe");
    pe.set("1");
    pe.acquire(&EXPIRABLE_SEMAPHORE, (1, 1), FRESH).await;
    // Redisson's updateLeaseTime, which publishes nothing.
    let shortened = format!("redis.call('zadd', KEYS[2], now_ms + 1, '{}')", lua_text(id(1).as_bytes()));
    timed(harness, &pe.renew_call(&EXPIRABLE_SEMAPHORE, (9, 0), 30_000), &shortened).await;
    until("its end to be seen", async || {
        (pe.acquire(&EXPIRABLE_SEMAPHORE, (2, 1), FRESH).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(pe.renew(&EXPIRABLE_SEMAPHORE, (1, 1), 30_000).await, Reply::Int(0), "another one has it");
    assert_eq!(pe.release(&EXPIRABLE_SEMAPHORE, (1, 1), FRESH).await, Reply::Int(0));
    assert_eq!(pe.value(), "0");
    assert_eq!(pe.release(&EXPIRABLE_SEMAPHORE, (2, 1), FRESH).await, Reply::Int(1));
}

/// Returns a Lua string literal with any bytes.
fn lua_text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("\\{byte:03}")).collect()
}

/// The fields that Redisson's lock of a group of values leaves in the hash of the group.
const GROUP: [(&str, &str); 3] = [
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ", "java:1"),
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ:java:1:expire_time", "9999999999999"),
    ("yj0ZmZ5sJzvFwYmZ7i1uIQ:java:1:lock_count", "1"),
];

fn lock_group(harness: &Harness<'_>, key: &str) {
    for (field, value) in GROUP {
        harness.admin.run_command(&["HSET", key, field, value]);
    }
    harness.admin.run_command(&["PEXPIRE", key, "30000"]);
}

async fn a_group_of_values_is_another_kind(harness: &Harness<'_>) {
    let kinds: [&'static Recipe; 6] =
        [&REENTRANT, &FAIR, &SPIN, &REDLOCK, &MULTI, fenced::with_tokens(Tokens::Counter)];
    for kind in kinds {
        let lock_harness = if kind.kind == MULTI.kind {
            LockHarness::many(harness, kind)
        } else {
            LockHarness::new(harness, kind)
        };
        lock_group(harness, lock_harness.key());
        let refused = lock_harness.try_acquire(1, LONG).await.expect_err("the name is another kind");
        assert_eq!(refused.kind, StoreErrorKind::WrongType, "{}", kind.kind);
        assert_eq!(lock_harness.release(1, 0).await, Reply::Nil, "{}", kind.kind);
    }
    let lock_harness = LockHarness::new(harness, &REENTRANT);
    let forced: [&LockCalls; 3] = [&reentrant::LOCK_CALLS, &fair::LOCK_CALLS, &spin::LOCK_CALLS];
    for calls in forced {
        let refused =
            harness.run((calls.force_release)(&lock_harness.subject.name)).await.expect_err("another kind");
        assert_eq!(refused.kind, StoreErrorKind::WrongType, "{calls:?}");
    }
    assert_eq!(harness.run_command(&["HLEN", lock_harness.key()]), "3");
}

async fn a_release_does_not_change_a_group_of_values(harness: &Harness<'_>) {
    let kinds: [&'static Recipe; 6] =
        [&REENTRANT, &FAIR, &SPIN, &REDLOCK, &MULTI, fenced::with_tokens(Tokens::Counter)];
    for kind in kinds {
        let lock_harness = if kind.kind == MULTI.kind {
            LockHarness::many(harness, kind)
        } else {
            LockHarness::new(harness, kind)
        };
        let granted = (kind.read_acquire)(&lock_harness.acquire(1, LONG).await);
        assert!(matches!(granted, Some(Answer::Granted { .. })), "{granted:?}");
        lock_group(harness, lock_harness.key());
        assert_eq!(lock_harness.release(1, 0).await, Reply::Int(1), "{}", kind.kind);
        for (field, value) in GROUP {
            assert_eq!(harness.run_command(&["HGET", lock_harness.key(), field]), value, "{}", kind.kind);
        }
        assert_eq!(harness.run_command(&["HLEN", lock_harness.key()]), "3", "{}", kind.kind);
        harness.run_command(&["DEL", lock_harness.key()]);
    }
}
