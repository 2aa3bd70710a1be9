//! The fair lock's scripts.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::fair::{self, FAIR};
use leasehold_proto::{Channel, Reply, StoreErrorKind};
use leasehold_store::{Heard, Store};
use tokio::sync::mpsc::unbounded_channel;

use super::asks::{Asks, LONG, owner};
use super::{Admin, Bench, next, until};

behaviours! {
    a_free_lock_is_granted_without_a_queue,
    those_who_are_refused_stand_in_the_order_in_which_they_asked,
    asking_again_keeps_the_place,
    only_the_head_is_granted_a_free_lock,
    who_asks_once_is_neither_queued_nor_granted_past_a_queue,
    an_acquire_that_runs_twice_finds_its_own_hold,
    a_waiter_that_leaves_is_in_none_of_the_keys,
    a_release_tells_the_head_alone,
    a_release_of_what_has_gone_tells_the_head_too,
    a_partial_release_tells_nobody,
    a_waiter_of_ours_that_was_not_seen_is_taken_out_wherever_it_stands,
    a_head_seen_by_a_clock_that_was_set_back_is_seen_now_at_the_latest,
    a_strangers_deadline_counts_until_it_has_passed,
    a_strangers_deadline_is_cut_when_it_does_not_take_a_free_lock,
    our_deadline_outlasts_what_strangers_take_off_it,
    the_queue_expires_unless_a_stranger_stands_in_it,
    a_forced_release_tells_the_head,
    other_kinds_of_keys_are_refused_and_stay_untouched,
}

pub(super) struct Queue<'a, S, A> {
    pub(super) asks: Asks<'a, S, A>,
}

impl<'a, S: Store, A: Admin> Queue<'a, S, A> {
    pub(super) fn new(bench: &'a Bench<'a, S, A>) -> Self {
        Self { asks: Asks::new(bench, &FAIR) }
    }

    pub(super) fn key(&self, prefix: &str) -> String {
        self.asks.subject.name.prefixed(prefix).to_string()
    }

    pub(super) fn tell(&self, words: &[&str]) -> String {
        self.asks.bench.tell(words)
    }

    pub(super) fn list(&self) -> String {
        self.asks.numbers(&self.tell(&["LRANGE", &self.key("redisson_lock_queue"), "0", "-1"]))
    }

    fn members(&self, prefix: &str) -> String {
        self.asks.numbers(&self.tell(&["ZRANGE", &self.key(prefix), "0", "-1"]))
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.tell(&["TIME"]).lines().next().and_then(|line| line.parse::<i64>().ok()).expect("a time") * 1_000
    }

    /// The time that is left until the deadline in Redisson's set.
    pub(super) fn due_in(&self, member: &str) -> i64 {
        let score = self.tell(&["ZSCORE", &self.key("redisson_lock_timeout"), member]);
        score.parse::<f64>().expect("it has a deadline") as i64 - self.now_ms()
    }

    /// Adds a waiter to the queue as Redisson does.
    pub(super) fn stranger(&self, member: &str, due_in_ms: i64) {
        self.tell(&["RPUSH", &self.key("redisson_lock_queue"), member]);
        let due = (self.now_ms() + due_in_ms).to_string();
        self.tell(&["ZADD", &self.key("redisson_lock_timeout"), &due, member]);
    }

    /// Sets the last poll of a waiter to this many milliseconds ago.
    pub(super) fn unseen_for(&self, number: u64, ms: i64) {
        let seen = (self.now_ms() - ms).to_string();
        self.tell(&["ZADD", &self.key("leasehold_lock_seen"), &seen, &owner(number).to_string()]);
    }

    /// The time since the last poll of a waiter, to the second.
    fn seen_ago(&self, number: u64) -> i64 {
        let seen = self.tell(&["ZSCORE", &self.key("leasehold_lock_seen"), &owner(number).to_string()]);
        self.now_ms() - seen.parse::<f64>().expect("it has shown itself") as i64
    }

    pub(super) fn channel(&self, of: &str) -> Channel {
        Channel::new(&format!("{}:{of}", self.key("redisson_lock__channel")))
    }
}

async fn a_free_lock_is_granted_without_a_queue<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    assert_eq!(queue.asks.acquire(1, LONG).await, Reply::Nil);
    assert_eq!(queue.asks.fields(queue.asks.key()), "1 1");
    assert!((1..=30_000).contains(&queue.asks.pttl(queue.asks.key())));
    for key in ["redisson_lock_queue", "redisson_lock_timeout", "leasehold_lock_seen"] {
        assert_eq!(queue.tell(&["EXISTS", &queue.key(key)]), "0");
    }
    assert_eq!(queue.asks.release(1, 0).await, Reply::Int(1));
    assert_eq!(queue.asks.release(1, 0).await, Reply::Nil);
}

async fn those_who_are_refused_stand_in_the_order_in_which_they_asked<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    for waiter in [4, 2, 3] {
        let refused = queue.asks.acquire(waiter, LONG).await;
        assert!(matches!(refused, Reply::Int(1..=30_000)), "{refused:?}");
    }
    assert_eq!(queue.list(), "4 2 3");
    assert_eq!(queue.members("redisson_lock_timeout"), "4 2 3");
    let mut seen: Vec<_> = queue.members("leasehold_lock_seen").split(' ').map(str::to_owned).collect();
    seen.sort();
    assert_eq!(seen, ["2", "3", "4"]);
}

async fn asking_again_keeps_the_place<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    for asker in [1, 2, 3, 2, 3, 2] {
        queue.asks.acquire(asker, LONG).await;
    }
    assert_eq!((queue.list().as_str(), queue.members("redisson_lock_timeout").as_str()), ("2 3", "2 3"));
}

async fn only_the_head_is_granted_a_free_lock<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    for asker in [1, 2, 3] {
        queue.asks.acquire(asker, LONG).await;
    }
    queue.asks.release(1, 0).await;
    assert!(matches!(queue.asks.acquire(3, LONG).await, Reply::Int(_)));
    assert_eq!(queue.asks.acquire(2, LONG).await, Reply::Nil);
    assert_eq!((queue.list().as_str(), queue.asks.fields(queue.asks.key()).as_str()), ("3", "2 1"));
}

async fn who_asks_once_is_neither_queued_nor_granted_past_a_queue<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    assert!(matches!(queue.asks.once(2).await, Reply::Int(_)));
    assert_eq!(queue.list(), "");
    queue.asks.acquire(3, LONG).await;
    queue.asks.release(1, 0).await;
    assert!(matches!(queue.asks.once(2).await, Reply::Int(_)), "3 stands before it");
    assert_eq!((queue.list().as_str(), queue.tell(&["EXISTS", queue.asks.key()]).as_str()), ("3", "0"));
}

async fn an_acquire_that_runs_twice_finds_its_own_hold<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    for _ in 0..2 {
        assert_eq!(queue.asks.acquire(1, LONG).await, Reply::Nil);
    }
    assert_eq!(queue.asks.fields(queue.asks.key()), "1 1");
    assert_eq!(queue.list(), "");
}

async fn a_waiter_that_leaves_is_in_none_of_the_keys<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    for asker in [1, 2, 3] {
        queue.asks.acquire(asker, LONG).await;
    }
    for _ in 0..2 {
        assert_eq!(queue.asks.release(2, 0).await, Reply::Nil, "it did not hold the lock");
        assert_eq!(queue.list(), "3");
        assert_eq!(queue.members("redisson_lock_timeout"), "3");
        assert_eq!(queue.members("leasehold_lock_seen"), "3");
    }
    assert_eq!(queue.asks.fields(queue.asks.key()), "1 1");
}

async fn a_release_tells_the_head_alone<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    for asker in [1, 2, 3] {
        queue.asks.acquire(asker, LONG).await;
    }
    let (sender, mut heard) = unbounded_channel();
    let channels = [2, 3].map(|number| queue.channel(&owner(number).to_string()));
    let _listening = channels.clone().map(|channel| bench.store.subscribe(channel, sender.clone()));
    for _ in 0..2 {
        assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    }
    queue.asks.release(1, 0).await;
    assert_eq!(next(&mut heard).await, Heard::Message(channels[0].clone(), b"0".to_vec()));
    bench.tell(&["PUBLISH", channels[1].as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channels[1].clone(), b"7".to_vec()));
}

async fn a_release_of_what_has_gone_tells_the_head_too<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = bench.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    bench.tell(&["DEL", queue.asks.key()]);
    assert_eq!(queue.asks.release(1, 0).await, Reply::Nil);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
}

async fn a_partial_release_tells_nobody<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    assert_eq!(queue.asks.renew(1, LONG, 2).await, Reply::Int(1));
    queue.asks.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = bench.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(queue.asks.release(1, 1).await, Reply::Int(0));
    bench.tell(&["PUBLISH", channel.as_str(), "7"]);
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"7".to_vec()));
}

async fn a_waiter_of_ours_that_was_not_seen_is_taken_out_wherever_it_stands<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    for asker in [1, 2, 3, 4, 5] {
        queue.asks.acquire(asker, LONG).await;
    }
    queue.unseen_for(2, 6_000);
    queue.unseen_for(4, 6_000);
    queue.asks.acquire(5, LONG).await;
    assert_eq!((queue.list().as_str(), queue.members("redisson_lock_timeout").as_str()), ("3 5", "3 5"));
}

async fn a_head_seen_by_a_clock_that_was_set_back_is_seen_now_at_the_latest<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    queue.unseen_for(2, -3_600_000);
    bench.tell(&["DEL", queue.asks.key()]);
    assert_eq!(queue.asks.once(3).await, Reply::Int(5_000));
    assert!(queue.seen_ago(2) >= -1_000, "{}", queue.seen_ago(2));
    queue.unseen_for(2, 6_000);
    assert_eq!(queue.asks.once(3).await, Reply::Nil, "and is passed by like any other");
}

async fn a_strangers_deadline_counts_until_it_has_passed<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.stranger("late", -2_000);
    queue.stranger("alive", 300_000);
    assert!(matches!(queue.asks.acquire(1, LONG).await, Reply::Int(_)));
    assert_eq!(queue.list(), "alive 1");
}

async fn a_strangers_deadline_is_cut_when_it_does_not_take_a_free_lock<S: Store, A: Admin>(
    bench: &Bench<'_, S, A>,
) {
    let queue = Queue::new(bench);
    queue.stranger("slow", 300_000);
    let (sender, mut heard) = unbounded_channel();
    let _listening = bench.store.subscribe(queue.channel("slow"), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    queue.asks.acquire(1, LONG).await;
    assert_eq!(next(&mut heard).await, Heard::Message(queue.channel("slow"), b"0".to_vec()));
    assert!((1_000..=7_000).contains(&queue.due_in("slow")), "{}", queue.due_in("slow"));
    until("the slow one to be passed by", async || {
        (queue.asks.acquire(1, LONG).await == Reply::Nil).then_some(())
    })
    .await;
    assert_eq!(queue.list(), "");
}

async fn our_deadline_outlasts_what_strangers_take_off_it<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.stranger("first", 300_000);
    queue.stranger("second", 300_000);
    queue.asks.acquire(2, LONG).await;
    let due_in = queue.due_in(&owner(2).to_string());
    assert!((605_000..=620_000).contains(&due_in), "300 s for each of them, and its own: {due_in}");
}

async fn the_queue_expires_unless_a_stranger_stands_in_it<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    let keys = ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| queue.key(prefix));
    assert!(keys.iter().all(|key| (1..=15_000).contains(&queue.asks.pttl(key))));
    queue.stranger("java", 300_000);
    queue.asks.acquire(2, LONG).await;
    assert!(keys.iter().all(|key| queue.asks.pttl(key) == -1));
    assert!((1..=15_000).contains(&queue.asks.pttl(&queue.key("leasehold_lock_seen"))));
}

async fn a_forced_release_tells_the_head<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    assert_eq!(queue.asks.force(&fair::LOCK_CALLS).await, Reply::Int(0));
    queue.asks.acquire(1, LONG).await;
    queue.asks.acquire(2, LONG).await;
    let (sender, mut heard) = unbounded_channel();
    let channel = queue.channel(&owner(2).to_string());
    let _listening = bench.store.subscribe(channel.clone(), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(queue.asks.force(&fair::LOCK_CALLS).await, Reply::Int(1));
    assert_eq!(next(&mut heard).await, Heard::Message(channel, b"0".to_vec()));
}

async fn other_kinds_of_keys_are_refused_and_stay_untouched<S: Store, A: Admin>(bench: &Bench<'_, S, A>) {
    let queue = Queue::new(bench);
    let kind = async || queue.asks.try_acquire(1, LONG).await.expect_err("it is refused").kind;
    bench.tell(&["SET", queue.asks.key(), "text"]);
    assert_eq!(kind().await, StoreErrorKind::WrongType);
    bench.tell(&["DEL", queue.asks.key()]);
    bench.tell(&["HSET", queue.asks.key(), "mode", "read", "java", "1"]);
    assert_eq!(kind().await, StoreErrorKind::WrongType);
    assert_eq!(bench.tell(&["HLEN", queue.asks.key()]), "2");
    assert_eq!(queue.list(), "");
}
