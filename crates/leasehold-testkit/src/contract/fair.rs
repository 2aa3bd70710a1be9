//! The fair lock's scripts.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::fair::{self, FAIR};
use leasehold_proto::{Channel, Reply, StoreErrorKind};
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::lock_harness::{LONG, LockHarness, owner};
use super::{Harness, next, until};

behaviors! {
    a_free_lock_is_granted_without_a_queue,
    refused_waiters_queue_in_the_order_of_their_requests,
    a_retry_keeps_the_queue_position,
    only_the_head_is_granted_a_free_lock,
    a_single_attempt_is_neither_queued_nor_granted_past_a_queue,
    a_duplicate_acquire_finds_its_own_hold,
    a_leaving_waiter_is_in_none_of_the_keys,
    a_release_wakes_only_the_head,
    a_release_of_a_missing_hold_wakes_the_head_too,
    a_partial_release_wakes_no_waiter,
    an_unseen_waiter_of_leasehold_is_removed_at_any_position,
    a_head_seen_in_the_future_counts_as_seen_now,
    the_deadline_of_a_redisson_waiter_counts_until_it_passes,
    a_redisson_waiter_that_ignores_a_free_lock_gets_a_shorter_deadline,
    dead_redisson_waiters_are_passed_together,
    a_leasehold_deadline_includes_the_time_of_redisson_waiters_ahead,
    the_queue_expires_unless_it_contains_a_redisson_waiter,
    a_forced_release_wakes_the_queue_head,
    keys_of_other_types_are_rejected_unchanged,
}

pub(super) struct Queue<'a> {
    pub(super) lock_harness: LockHarness<'a>,
}

impl<'a> Queue<'a> {
    pub(super) fn new(harness: &'a Harness<'a>) -> Self {
        Self { lock_harness: LockHarness::new(harness, &FAIR) }
    }

    pub(super) fn key(&self, prefix: &str) -> String {
        self.lock_harness.subject.name.prefixed(prefix).to_string()
    }

    pub(super) fn run_command(&self, words: &[&str]) -> String {
        self.lock_harness.harness.run_command(words)
    }

    pub(super) fn list(&self) -> String {
        self.lock_harness.numbers(&self.run_command(&["LRANGE", &self.key("redisson_lock_queue"), "0", "-1"]))
    }

    fn members(&self, prefix: &str) -> String {
        self.lock_harness.numbers(&self.run_command(&["ZRANGE", &self.key(prefix), "0", "-1"]))
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.run_command(&["TIME"]).lines().next().and_then(|line| line.parse::<i64>().ok()).expect("a time")
            * 1_000
    }

    /// Returns the time that is left until the deadline in Redisson's set.
    pub(super) fn due_in(&self, member: &str) -> i64 {
        let score = self.run_command(&["ZSCORE", &self.key("redisson_lock_timeout"), member]);
        score.parse::<f64>().expect("it has a deadline") as i64 - self.now_ms()
    }

    /// Adds a waiter to the queue as Redisson does.
    pub(super) fn add_redisson_waiter(&self, member: &str, due_in_ms: i64) {
        self.run_command(&["RPUSH", &self.key("redisson_lock_queue"), member]);
        let due = (self.now_ms() + due_in_ms).to_string();
        self.run_command(&["ZADD", &self.key("redisson_lock_timeout"), &due, member]);
    }

    /// Sets the last poll of a waiter to this many milliseconds ago.
    pub(super) fn set_unseen_for(&self, number: u64, ms: i64) {
        let seen = (self.now_ms() - ms).to_string();
        self.run_command(&["ZADD", &self.key("leasehold_lock_seen"), &seen, &owner(number).to_string()]);
    }

    /// Returns the time since the last poll of a waiter, to the second.
    fn seen_ago(&self, number: u64) -> i64 {
        let seen =
            self.run_command(&["ZSCORE", &self.key("leasehold_lock_seen"), &owner(number).to_string()]);
        self.now_ms() - seen.parse::<f64>().expect("it has shown itself") as i64
    }

    pub(super) fn channel(&self, of: &str) -> Channel {
        Channel::new(&format!("{}:{of}", self.key("redisson_lock__channel")))
    }
}

async fn a_free_lock_is_granted_without_a_queue(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    assert_eq!(queue.lock_harness.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(queue.lock_harness.fields(queue.lock_harness.key()), "1 1");
    assert!((1..=30_000).contains(&queue.lock_harness.pttl(queue.lock_harness.key())));
    for key in ["redisson_lock_queue", "redisson_lock_timeout", "leasehold_lock_seen"] {
        assert_eq!(queue.run_command(&["EXISTS", &queue.key(key)]), "0");
    }
    assert_eq!(queue.lock_harness.release(1, 0).await, Reply::Int(1));
    assert_eq!(queue.lock_harness.release(1, 0).await, Reply::Nil);
}

async fn refused_waiters_queue_in_the_order_of_their_requests(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    for waiter in [4, 2, 3] {
        let refused = queue.lock_harness.acquire(waiter, LONG).await;
        assert!(matches!(refused, Reply::Int(1..=30_000)), "{refused:?}");
    }
    assert_eq!(queue.list(), "4 2 3");
    assert_eq!(queue.members("redisson_lock_timeout"), "4 2 3");
    let mut seen: Vec<_> = queue.members("leasehold_lock_seen").split(' ').map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["2", "3", "4"]);
}

async fn a_retry_keeps_the_queue_position(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for asker in [1, 2, 3, 2, 3, 2] {
        queue.lock_harness.acquire(asker, LONG).await;
    }
    assert_eq!((queue.list().as_str(), queue.members("redisson_lock_timeout").as_str()), ("2 3", "2 3"));
}

async fn only_the_head_is_granted_a_free_lock(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for asker in [1, 2, 3] {
        queue.lock_harness.acquire(asker, LONG).await;
    }
    queue.lock_harness.release(1, 0).await;
    assert!(matches!(queue.lock_harness.acquire(3, LONG).await, Reply::Int(_)));
    assert_eq!(queue.lock_harness.acquire(2, LONG).await, Reply::Nil);
    assert_eq!(
        (queue.list().as_str(), queue.lock_harness.fields(queue.lock_harness.key()).as_str()),
        ("3", "2 1")
    );
}

async fn a_single_attempt_is_neither_queued_nor_granted_past_a_queue(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    assert!(matches!(queue.lock_harness.once(2).await, Reply::Int(_)));
    assert_eq!(queue.list(), "");
    queue.lock_harness.acquire(3, LONG).await;
    queue.lock_harness.release(1, 0).await;
    assert!(matches!(queue.lock_harness.once(2).await, Reply::Int(_)), "3 stands before it");
    assert_eq!(
        (queue.list().as_str(), queue.run_command(&["EXISTS", queue.lock_harness.key()]).as_str()),
        ("3", "0")
    );
}

async fn a_duplicate_acquire_finds_its_own_hold(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for _ in 0..2 {
        assert_eq!(queue.lock_harness.acquire(1, LONG).await, Reply::Nil);
    }
    assert_eq!(queue.lock_harness.fields(queue.lock_harness.key()), "1 1");
    assert_eq!(queue.list(), "");
}

async fn a_leaving_waiter_is_in_none_of_the_keys(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for asker in [1, 2, 3] {
        queue.lock_harness.acquire(asker, LONG).await;
    }
    for _ in 0..2 {
        assert_eq!(queue.lock_harness.release(2, 0).await, Reply::Nil, "it did not hold the lock");
        assert_eq!(queue.list(), "3");
        assert_eq!(queue.members("redisson_lock_timeout"), "3");
        assert_eq!(queue.members("leasehold_lock_seen"), "3");
    }
    assert_eq!(queue.lock_harness.fields(queue.lock_harness.key()), "1 1");
}

async fn a_release_wakes_only_the_head(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for asker in [1, 2, 3] {
        queue.lock_harness.acquire(asker, LONG).await;
    }
    let (sender, mut heard) = unbounded_channel();
    let channels = [2, 3].map(|number| queue.channel(&owner(number).to_string()));
    let _listening = channels.clone().map(|channel| harness.store.subscribe(channel, sender.clone()));
    for _ in 0..2 {
        assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    }
    queue.lock_harness.release(1, 0).await;
    assert_eq!(next(&mut heard).await, Heard::Message(channels[0].clone(), b"0".to_vec()));
    harness.run_command(&["PUBLISH", channels[1].as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channels[1].clone(), b"7".to_vec()));
}

async fn a_release_of_a_missing_hold_wakes_the_head_too(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = harness.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    harness.run_command(&["DEL", queue.lock_harness.key()]);
    assert_eq!(queue.lock_harness.release(1, 0).await, Reply::Nil);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
}

async fn a_partial_release_wakes_no_waiter(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    assert_eq!(queue.lock_harness.renew(1, LONG, 2).await, Reply::Int(1));
    queue.lock_harness.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = harness.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(queue.lock_harness.release(1, 1).await, Reply::Int(0));
    harness.run_command(&["PUBLISH", channel.as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"7".to_vec()));
}

async fn an_unseen_waiter_of_leasehold_is_removed_at_any_position(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for asker in [1, 2, 3, 4, 5] {
        queue.lock_harness.acquire(asker, LONG).await;
    }
    queue.set_unseen_for(2, 6_000);
    queue.set_unseen_for(4, 6_000);
    queue.lock_harness.acquire(5, LONG).await;
    assert_eq!((queue.list().as_str(), queue.members("redisson_lock_timeout").as_str()), ("3 5", "3 5"));
}

async fn a_head_seen_in_the_future_counts_as_seen_now(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.set_unseen_for(2, -3_600_000);
    harness.run_command(&["DEL", queue.lock_harness.key()]);
    assert_eq!(queue.lock_harness.once(3).await, Reply::Int(5_000));
    assert!(queue.seen_ago(2) >= -1_000, "{}", queue.seen_ago(2));
    queue.set_unseen_for(2, 6_000);
    assert_eq!(queue.lock_harness.once(3).await, Reply::Nil, "and is passed by like any other");
}

async fn the_deadline_of_a_redisson_waiter_counts_until_it_passes(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.add_redisson_waiter("late", -2_000);
    queue.add_redisson_waiter("alive", 300_000);
    assert!(matches!(queue.lock_harness.acquire(1, LONG).await, Reply::Int(_)));
    assert_eq!(queue.list(), "alive 1");
}

async fn a_redisson_waiter_that_ignores_a_free_lock_gets_a_shorter_deadline(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.add_redisson_waiter("slow", 300_000);
    let (sender, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(queue.channel("slow"), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    queue.lock_harness.acquire(1, LONG).await;
    assert_eq!(next(&mut heard).await, Heard::Message(queue.channel("slow"), b"0".to_vec()));
    assert!((1_000..=7_000).contains(&queue.due_in("slow")), "{}", queue.due_in("slow"));
    until("the slow one to be passed by", async || {
        (queue.lock_harness.acquire(1, LONG).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(queue.list(), "");
}

async fn dead_redisson_waiters_are_passed_together(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for waiter in ["dead", "dead too", "dead as well", "alive"] {
        queue.add_redisson_waiter(waiter, 300_000);
    }
    let (sender, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(queue.channel("alive"), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    queue.lock_harness.acquire(1, LONG).await;
    for dead in ["dead", "dead too", "dead as well"] {
        assert!((1_000..=7_000).contains(&queue.due_in(dead)), "{dead}: {}", queue.due_in(dead));
    }
    assert!(queue.due_in("alive") > 290_000, "it listens: {}", queue.due_in("alive"));
    until("the dead ones to be passed by", async || {
        queue.lock_harness.acquire(1, LONG).await;
        (queue.list() == "alive 1").then_some(())
    })
    .await;
    assert_eq!(next(&mut heard).await, Heard::Message(queue.channel("alive"), b"0".to_vec()));
}

async fn a_leasehold_deadline_includes_the_time_of_redisson_waiters_ahead(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("first", 300_000);
    queue.add_redisson_waiter("second", 300_000);
    queue.lock_harness.acquire(2, LONG).await;
    let due_in = queue.due_in(&owner(2).to_string());
    assert!((605_000..=620_000).contains(&due_in), "300 s for each of them, and its own: {due_in}");
}

async fn the_queue_expires_unless_it_contains_a_redisson_waiter(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    let keys = ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| queue.key(prefix));
    assert!(keys.iter().all(|key| (1..=15_000).contains(&queue.lock_harness.pttl(key))));
    queue.add_redisson_waiter("java", 300_000);
    queue.lock_harness.acquire(2, LONG).await;
    assert!(keys.iter().all(|key| queue.lock_harness.pttl(key) == -1));
    assert!((1..=15_000).contains(&queue.lock_harness.pttl(&queue.key("leasehold_lock_seen"))));
}

async fn a_forced_release_wakes_the_queue_head(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    assert_eq!(queue.lock_harness.force(&fair::LOCK_CALLS).await, Reply::Int(0));
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = harness.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(queue.lock_harness.force(&fair::LOCK_CALLS).await, Reply::Int(1));
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
}

async fn keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    let kind = async || queue.lock_harness.try_acquire(1, LONG).await.expect_err("it is refused").kind;
    harness.run_command(&["SET", queue.lock_harness.key(), "text"]);
    assert_eq!(kind().await, StoreErrorKind::WrongType);
    harness.run_command(&["DEL", queue.lock_harness.key()]);
    harness.run_command(&["HSET", queue.lock_harness.key(), "mode", "read", "java", "1"]);
    assert_eq!(kind().await, StoreErrorKind::WrongType);
    assert_eq!(harness.run_command(&["HLEN", queue.lock_harness.key()]), "2");
    assert_eq!(queue.list(), "");
}
