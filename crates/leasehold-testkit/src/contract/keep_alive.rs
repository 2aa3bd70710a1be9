//! The calls that show all queued waiters of a client alive, for the fair lock and for the FIFO semaphore.
//!
//! Invariant: the assertions state the behavior of redis-server.
#![deny(dead_code)]

use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::semaphore::FIFO_SEMAPHORE;
use leasehold_proto::{
    Call, ClientId, KEEP_ALIVE_WINDOW, KeepAliveArgs, KeptAlive, Name, Recipe, Reply, StoreErrorKind,
};
use leasehold_store::Heard;
use tokio::sync::mpsc::unbounded_channel;

use super::counters::{Counter, FRESH};
use super::fair::Queue;
use super::lock_harness::{LONG, owner};
use super::{Harness, next};

behaviors! {
    one_call_refreshes_all_fair_waiters_of_the_client_and_no_other,
    a_call_covers_one_window_of_the_fair_queue,
    a_refreshed_deadline_includes_the_time_of_redisson_waiters_ahead,
    a_refreshed_deadline_keeps_the_margin_of_the_entry,
    the_head_of_a_free_lock_is_named_and_is_not_refreshed,
    a_call_removes_dead_waiters_and_wakes_the_head_of_another_client,
    a_call_shortens_the_time_of_a_redisson_head_of_a_free_lock,
    a_call_renews_the_expiry_of_the_fair_queue,
    a_call_adds_no_waiter,
    one_call_removes_all_dead_heads_and_a_few_dead_waiters_behind,
    a_waiter_whose_call_times_are_lost_keeps_its_place,
    fair_keys_of_other_types_are_rejected_unchanged,
    one_call_refreshes_all_fifo_waiters_of_the_client_and_no_other,
    a_call_covers_one_window_of_the_fifo_queue,
    the_head_of_a_fifo_queue_with_permits_is_named_and_is_not_refreshed,
    a_call_drops_silent_fifo_heads_and_wakes_the_next,
    fifo_keys_of_other_types_are_rejected_unchanged,
    a_first_place_that_is_no_place_is_rejected,
}

/// A waiter of another client of leasehold.
const STRANGER: &str = "stranger:1";
const FAIR_KEYS: [&str; 3] = ["redisson_lock_queue", "redisson_lock_timeout", "leasehold_lock_seen"];

fn call(recipe: &Recipe, name: &Name, from: u32) -> Call {
    let keep_alive = recipe.keep_alive.expect("the recipe has a queue on the server");
    keep_alive(&KeepAliveArgs { name, client: ClientId::from_random([7; 16]), from })
}

fn read(recipe: &Recipe, reply: &Reply) -> KeptAlive {
    (recipe.read_keep_alive)(reply).expect("the script can give this reply")
}

const fn state(found: u32, length: u32, next: Option<u64>) -> KeptAlive {
    KeptAlive { found, length, next }
}

impl Queue<'_> {
    async fn keep_alive(&self, from: u32) -> KeptAlive {
        let call = call(&FAIR, &self.lock_harness.subject.name, from);
        read(&FAIR, &self.lock_harness.harness.execute(call).await)
    }

    /// Queues a waiter of another client of leasehold.
    fn add_stranger(&self, member: &str, unseen_for_ms: i64) {
        self.add_redisson_waiter(member, 5_000);
        let seen = (self.now_ms() - unseen_for_ms).to_string();
        self.run_command(&["ZADD", &self.key("leasehold_lock_seen"), &seen, member]);
    }

    /// Queues waiters with consecutive numbers in three commands.
    fn add_many(&self, numbers: std::ops::Range<u64>, unseen_for_ms: i64) {
        let members: Vec<String> = numbers.map(|number| owner(number).to_string()).collect();
        let seen = (self.now_ms() - unseen_for_ms).to_string();
        let scored: Vec<&str> = members.iter().flat_map(|member| [seen.as_str(), member]).collect();
        let plain: Vec<&str> = members.iter().map(String::as_str).collect();
        self.run_command(&[&["RPUSH", &self.key(FAIR_KEYS[0])], &*plain].concat());
        self.run_command(&[&["ZADD", &self.key(FAIR_KEYS[1])], &*scored].concat());
        self.run_command(&[&["ZADD", &self.key(FAIR_KEYS[2])], &*scored].concat());
    }

    /// Tells whether the last call of a waiter came after this time.
    fn is_fresh(&self, number: u64, began: i64) -> bool {
        let seen = self.run_command(&["ZSCORE", &self.key(FAIR_KEYS[2]), &owner(number).to_string()]);
        seen.parse::<f64>().expect("it has shown itself") as i64 >= began
    }

    /// Returns the distance from this time to the deadline in Redisson's set.
    fn due_after(&self, member: &str, began: i64) -> i64 {
        let score = self.run_command(&["ZSCORE", &self.key(FAIR_KEYS[1]), member]);
        score.parse::<f64>().expect("it has a deadline") as i64 - began
    }

    /// Makes the lock free without a release, which would also wake the head.
    fn expire_hold(&self) {
        self.run_command(&["DEL", self.lock_harness.key()]);
    }

    fn length(&self) -> String {
        self.run_command(&["LLEN", &self.key(FAIR_KEYS[0])])
    }
}

async fn one_call_refreshes_all_fair_waiters_of_the_client_and_no_other(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for number in [1, 2, 3] {
        queue.lock_harness.acquire(number, LONG).await;
    }
    queue.add_stranger(STRANGER, 1_000);
    queue.lock_harness.acquire(4, LONG).await;
    for number in [2, 3, 4] {
        queue.set_unseen_for(number, 1_000);
        queue.run_command(&["ZADD", &queue.key(FAIR_KEYS[1]), "1", &owner(number).to_string()]);
    }
    let began = queue.now_ms();
    assert_eq!(queue.keep_alive(0).await, state(3, 4, None));
    assert_eq!(queue.list(), format!("2 3 {STRANGER} 4"), "no waiter has moved");
    for (number, place) in [(2, 1), (3, 2), (4, 4)] {
        assert!(queue.is_fresh(number, began), "{number}");
        let due = queue.due_after(&owner(number).to_string(), began);
        assert!((place * 5_000..place * 5_000 + 5_000).contains(&due), "{number}: {due}");
    }
    assert!(queue.due_in(STRANGER) <= 6_000);
    let seen = queue.run_command(&["ZSCORE", &queue.key(FAIR_KEYS[2]), STRANGER]);
    assert!((seen.parse::<f64>().expect("a time") as i64) < began, "{seen}");
}

async fn a_call_covers_one_window_of_the_fair_queue(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_many(2..1_205, 1_000);
    let began = queue.now_ms();
    assert_eq!(queue.keep_alive(0).await, state(KEEP_ALIVE_WINDOW, 1_203, None));
    assert!(queue.is_fresh(1_001, began));
    assert!(!queue.is_fresh(1_002, began), "it stands behind the window");
    assert_eq!(queue.keep_alive(KEEP_ALIVE_WINDOW).await, state(203, 1_203, None));
    assert!(queue.is_fresh(1_002, began) && queue.is_fresh(1_204, began));
    let due = queue.due_after(&owner(1_204).to_string(), began);
    assert!((6_015_000..6_020_000).contains(&due), "5 s for each of 1,203 places: {due}");
    assert_eq!(queue.keep_alive(5_000).await, state(0, 1_203, None));
}

async fn a_refreshed_deadline_includes_the_time_of_redisson_waiters_ahead(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_redisson_waiter("first", 300_000);
    queue.lock_harness.acquire(3, LONG).await;
    queue.add_redisson_waiter("second", 1_000_000);
    queue.add_redisson_waiter("third", 1_000_000);
    queue.lock_harness.acquire(4, LONG).await;
    for (from, found) in [(0, 3), (2, 2), (5, 1)] {
        for number in [2, 3, 4] {
            queue.run_command(&["ZADD", &queue.key(FAIR_KEYS[1]), "1", &owner(number).to_string()]);
        }
        let began = queue.now_ms();
        assert_eq!(queue.keep_alive(from).await, state(found, 6, None));
        let due = |number: u64| queue.due_after(&owner(number).to_string(), began);
        if from == 0 {
            assert!((5_000..10_000).contains(&due(2)), "{}", due(2));
        }
        if from <= 2 {
            assert!((315_000..320_000).contains(&due(3)), "its place and 300 s: {}", due(3));
        }
        let last = due(4);
        assert!((1_328_000..1_338_000).contains(&last), "its place, and the waits of three: {last}");
    }
}

async fn a_refreshed_deadline_keeps_the_margin_of_the_entry(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("java", 900_000);
    queue.lock_harness.acquire(2, LONG).await;
    // Nearly all of the wait has passed. Redisson still subtracts the whole wait.
    queue.run_command(&["ZADD", &queue.key(FAIR_KEYS[1]), &(queue.now_ms() + 10_000).to_string(), "java"]);
    let began = queue.now_ms();
    queue.keep_alive(0).await;
    let due = queue.due_after(&owner(2).to_string(), began);
    assert!((900_000..916_000).contains(&due), "{due}");
}

async fn the_head_of_a_free_lock_is_named_and_is_not_refreshed(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for number in [1, 2, 3] {
        queue.lock_harness.acquire(number, LONG).await;
    }
    queue.expire_hold();
    for number in [2, 3] {
        queue.set_unseen_for(number, 1_000);
    }
    let began = queue.now_ms();
    assert_eq!(queue.keep_alive(0).await, state(2, 2, Some(2)));
    assert_eq!(queue.keep_alive(1).await, state(1, 2, Some(2)), "the window does not reach the head");
    assert!(!queue.is_fresh(2, began), "it can acquire, so it has to");
    assert!(queue.is_fresh(3, began));
    queue.set_unseen_for(2, 6_000);
    assert_eq!(queue.keep_alive(0).await, state(2, 1, Some(3)), "the client does not know of 2");
    assert_eq!(queue.list(), "3");
    assert_eq!(queue.lock_harness.acquire(3, LONG).await, Reply::Nil);
    assert_eq!(queue.keep_alive(0).await, state(0, 0, None));
    let last = u64::MAX;
    queue.lock_harness.acquire(last, LONG).await;
    queue.expire_hold();
    assert_eq!(queue.keep_alive(0).await, state(1, 1, Some(last)));
}

async fn a_call_removes_dead_waiters_and_wakes_the_head_of_another_client(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_stranger("dead:1", 6_000);
    queue.add_stranger(STRANGER, 0);
    queue.lock_harness.acquire(2, LONG).await;
    queue.add_stranger("dead:2", 6_000);
    queue.expire_hold();
    // The acquire has removed the dead waiter before it.
    queue.run_command(&["LPUSH", &queue.key(FAIR_KEYS[0]), "dead:3"]);
    queue.run_command(&["ZADD", &queue.key(FAIR_KEYS[2]), "1", "dead:3"]);
    let (sender, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(queue.channel(STRANGER), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    assert_eq!(queue.keep_alive(0).await, state(1, 2, None));
    assert_eq!(queue.list(), format!("{STRANGER} 2"));
    assert_eq!(next(&mut heard).await, Heard::Message(queue.channel(STRANGER), b"0".to_vec()));
    queue.keep_alive(0).await;
    harness.run_command(&["PUBLISH", queue.channel(STRANGER).as_str(), "7"]);
    let unchanged = Heard::Message(queue.channel(STRANGER), b"7".to_vec());
    assert_eq!(next(&mut heard).await, unchanged, "a queue without a change wakes no waiter again");
}

async fn a_call_shortens_the_time_of_a_redisson_head_of_a_free_lock(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_redisson_waiter("slow", 300_000);
    queue.lock_harness.acquire(2, LONG).await;
    queue.keep_alive(0).await;
    assert!(queue.due_in("slow") > 290_000, "the lock is not free");
    queue.expire_hold();
    let (sender, mut heard) = unbounded_channel();
    let _listening = harness.store.subscribe(queue.channel("slow"), sender);
    assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
    let began = queue.now_ms();
    assert_eq!(queue.keep_alive(0).await, state(1, 2, None));
    assert_eq!(next(&mut heard).await, Heard::Message(queue.channel("slow"), b"0".to_vec()));
    let due = queue.due_after("slow", began);
    assert!((5_000..10_000).contains(&due), "{due}");
    queue.run_command(&["ZADD", &queue.key(FAIR_KEYS[1]), "1", "slow"]);
    assert_eq!(queue.keep_alive(0).await, state(1, 1, Some(2)));
}

async fn a_call_renews_the_expiry_of_the_fair_queue(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    let keys = FAIR_KEYS.map(|prefix| queue.key(prefix));
    let expire = || {
        for key in &keys {
            queue.run_command(&["PEXPIRE", key, "6000"]);
        }
    };
    let lives = || keys.each_ref().map(|key| queue.lock_harness.pttl(key));
    expire();
    queue.keep_alive(1).await;
    assert!(lives().iter().all(|ms| (1..=6_000).contains(ms)), "no waiter of the client: {:?}", lives());
    queue.keep_alive(0).await;
    assert!(lives().iter().all(|ms| (7_000..=15_000).contains(ms)), "{:?}", lives());
    expire();
    queue.add_redisson_waiter("java", 300_000);
    queue.keep_alive(1).await;
    let [list, deadlines, seen] = lives();
    assert_eq!((list, deadlines), (-1, -1), "a Redisson waiter renews nothing");
    assert!((1..=6_000).contains(&seen), "{seen}");
    queue.keep_alive(0).await;
    let [list, deadlines, seen] = lives();
    assert_eq!((list, deadlines), (-1, -1));
    assert!((7_000..=15_000).contains(&seen), "{seen}");
}

async fn a_call_adds_no_waiter(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    assert_eq!(queue.keep_alive(0).await, state(0, 0, None));
    queue.lock_harness.acquire(1, LONG).await;
    assert_eq!(queue.keep_alive(0).await, state(0, 0, None), "a holder does not wait");
    let [list, deadlines, seen] = queue_keys(&queue);
    assert_eq!(queue.run_command(&["EXISTS", &list, &deadlines, &seen]), "0");
    let fifo = Counter::new(harness, "fifo");
    fifo.set("1");
    let kept = harness.execute(call(&FIFO_SEMAPHORE, &fifo.name, 0)).await;
    assert_eq!(read(&FIFO_SEMAPHORE, &kept), state(0, 0, None));
    let keys = [fifo.key("leasehold_sc_queue"), fifo.key("leasehold_sc_seen")];
    assert_eq!(harness.run_command(&["EXISTS", &keys[0], &keys[1]]), "0");
}

fn queue_keys(queue: &Queue<'_>) -> [String; 3] {
    FAIR_KEYS.map(|prefix| queue.key(prefix))
}

async fn one_call_removes_all_dead_heads_and_a_few_dead_waiters_behind(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    queue.lock_harness.acquire(1, LONG).await;
    queue.add_many(1_000..1_300, 6_000);
    queue.add_many(2..3, 0);
    queue.add_many(2_000..2_100, 6_000);
    queue.lock_harness.once(9).await;
    assert_eq!(queue.length(), "37", "all heads are gone, and 64 behind the living one");
    queue.lock_harness.once(9).await;
    assert_eq!(queue.list(), "2");
    for key in [FAIR_KEYS[1], FAIR_KEYS[2]] {
        assert_eq!(queue.run_command(&["ZCARD", &queue.key(key)]), "1");
    }
}

async fn a_waiter_whose_call_times_are_lost_keeps_its_place(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    for number in [1, 2, 3] {
        queue.lock_harness.acquire(number, LONG).await;
    }
    queue.run_command(&["DEL", &queue.key(FAIR_KEYS[2])]);
    let began = queue.now_ms();
    queue.lock_harness.acquire(2, LONG).await;
    assert_eq!(queue.list(), "2 3", "it is queued once");
    assert_eq!(queue.keep_alive(0).await, state(2, 2, None));
    assert!(queue.is_fresh(2, began) && queue.is_fresh(3, began));
}

async fn fair_keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    let queue = Queue::new(harness);
    let keys = queue_keys(&queue);
    let all = [&[queue.lock_harness.key().to_owned()][..], &keys].concat();
    let dump = || all.iter().map(|key| queue.run_command(&["DUMP", key])).collect::<Vec<_>>();
    let clear = || all.iter().for_each(|key| drop(queue.run_command(&["DEL", key])));
    for wrong in &all {
        queue.lock_harness.acquire(1, LONG).await;
        queue.lock_harness.acquire(2, LONG).await;
        queue.run_command(&["DEL", wrong]);
        queue.run_command(&["SET", wrong, "text"]);
        // The window from the fifth place has no waiter, and then a dead head would be the first to be written.
        queue.run_command(&["ZADD", &keys[2], "1", &owner(2).to_string()]);
        let before = dump();
        for from in [0, 5] {
            let refused = harness.run(call(&FAIR, &queue.lock_harness.subject.name, from)).await;
            let refused = refused.expect_err("a key has another type");
            assert_eq!(refused.kind, StoreErrorKind::WrongType, "{wrong}");
            assert_eq!(dump(), before, "{wrong} from {from}");
        }
        clear();
    }
    queue.lock_harness.acquire(1, LONG).await;
    queue.lock_harness.acquire(2, LONG).await;
    queue.run_command(&["HSET", queue.lock_harness.key(), "mode", "read"]);
    let before = dump();
    let refused = harness.run(call(&FAIR, &queue.lock_harness.subject.name, 0)).await;
    assert_eq!(refused.expect_err("it is a read-write lock").kind, StoreErrorKind::WrongType);
    assert_eq!(dump(), before);
}

/// A FIFO semaphore with these waiters.
struct Fifo<'a> {
    counter: Counter<'a>,
    queue: String,
    seen: String,
}

impl<'a> Fifo<'a> {
    async fn new(harness: &'a Harness<'a>, waiters: &[u64]) -> Self {
        let counter = Counter::new(harness, "fifo");
        counter.set("0");
        for number in waiters {
            counter.acquire(&FIFO_SEMAPHORE, (*number, 1), FRESH).await;
        }
        Self { queue: counter.key("leasehold_sc_queue"), seen: counter.key("leasehold_sc_seen"), counter }
    }

    fn run_command(&self, words: &[&str]) -> String {
        self.counter.harness.run_command(words)
    }

    async fn keep_alive(&self, from: u32) -> KeptAlive {
        let call = call(&FIFO_SEMAPHORE, &self.counter.name, from);
        read(&FIFO_SEMAPHORE, &self.counter.harness.execute(call).await)
    }

    fn now_ms(&self) -> i64 {
        let seconds = self.run_command(&["TIME"]);
        seconds.lines().next().and_then(|line| line.parse::<i64>().ok()).expect("a time") * 1_000
    }

    fn add(&self, member: &str, unseen_for_ms: i64) {
        self.run_command(&["RPUSH", &self.queue, member]);
        self.set_unseen_for(member, unseen_for_ms);
    }

    fn set_unseen_for(&self, member: &str, ms: i64) {
        self.run_command(&["ZADD", &self.seen, &(self.now_ms() - ms).to_string(), member]);
    }

    /// Tells whether the last call of a waiter came after this time.
    fn is_fresh(&self, member: &str, began: i64) -> bool {
        let seen = self.run_command(&["ZSCORE", &self.seen, member]);
        seen.parse::<f64>().expect("it has shown itself") as i64 >= began
    }

    fn list(&self) -> Vec<String> {
        self.run_command(&["LRANGE", &self.queue, "0", "-1"]).lines().map(str::to_owned).collect()
    }
}

async fn one_call_refreshes_all_fifo_waiters_of_the_client_and_no_other(harness: &Harness<'_>) {
    let fifo = Fifo::new(harness, &[1, 2]).await;
    fifo.add(STRANGER, 1_000);
    let own = [1, 2].map(|number| owner(number).to_string());
    own.iter().for_each(|member| fifo.set_unseen_for(member, 1_000));
    for key in [&fifo.queue, &fifo.seen] {
        fifo.run_command(&["PEXPIRE", key, "4000"]);
    }
    let began = fifo.now_ms();
    assert_eq!(fifo.keep_alive(2).await, state(0, 3, None));
    assert!(fifo.counter.pttl(&fifo.queue) <= 4_000, "no waiter of the client is in the window");
    assert_eq!(fifo.keep_alive(0).await, state(2, 3, None));
    assert!(own.iter().all(|member| fifo.is_fresh(member, began)));
    assert!(!fifo.is_fresh(STRANGER, began));
    assert_eq!(fifo.list(), [&own[..], &[STRANGER.to_owned()]].concat());
    for key in [&fifo.queue, &fifo.seen] {
        assert!((5_000..=10_000).contains(&fifo.counter.pttl(key)), "{key}");
    }
}

async fn a_call_covers_one_window_of_the_fifo_queue(harness: &Harness<'_>) {
    let fifo = Fifo::new(harness, &[]).await;
    let members: Vec<String> = (1..1_101).map(|number| owner(number).to_string()).collect();
    let seen = (fifo.now_ms() - 1_000).to_string();
    let scored: Vec<&str> = members.iter().flat_map(|member| [seen.as_str(), member]).collect();
    let plain: Vec<&str> = members.iter().map(String::as_str).collect();
    fifo.run_command(&[&["RPUSH", &fifo.queue], &*plain].concat());
    fifo.run_command(&[&["ZADD", &fifo.seen], &*scored].concat());
    let began = fifo.now_ms();
    assert_eq!(fifo.keep_alive(0).await, state(KEEP_ALIVE_WINDOW, 1_100, None));
    assert!(fifo.is_fresh(&members[999], began) && !fifo.is_fresh(&members[1_000], began));
    assert_eq!(fifo.keep_alive(KEEP_ALIVE_WINDOW).await, state(100, 1_100, None));
    assert!(fifo.is_fresh(&members[1_000], began) && fifo.is_fresh(&members[1_099], began));
}

async fn the_head_of_a_fifo_queue_with_permits_is_named_and_is_not_refreshed(harness: &Harness<'_>) {
    let fifo = Fifo::new(harness, &[1, 2]).await;
    let own = [1, 2].map(|number| owner(number).to_string());
    own.iter().for_each(|member| fifo.set_unseen_for(member, 1_000));
    fifo.counter.set("1");
    let began = fifo.now_ms();
    assert_eq!(fifo.keep_alive(0).await, state(2, 2, Some(1)));
    assert_eq!(fifo.keep_alive(1).await, state(1, 2, Some(1)), "the window does not reach the head");
    assert!(!fifo.is_fresh(&own[0], began), "it can acquire, so it has to");
    assert!(fifo.is_fresh(&own[1], began));
    let mut listener = fifo.counter.listen(fifo.counter.channel()).await;
    fifo.set_unseen_for(&own[0], 6_000);
    assert_eq!(fifo.keep_alive(0).await, state(2, 1, Some(2)), "the client does not know of 1");
    listener.receives_nothing().await;
    assert_eq!(fifo.counter.acquire(&FIFO_SEMAPHORE, (2, 1), FRESH).await, Reply::Int(1));
    fifo.counter.set("-3");
    fifo.counter.acquire(&FIFO_SEMAPHORE, (3, 1), FRESH).await;
    assert_eq!(fifo.keep_alive(0).await, state(1, 1, None));
}

async fn a_call_drops_silent_fifo_heads_and_wakes_the_next(harness: &Harness<'_>) {
    let fifo = Fifo::new(harness, &[]).await;
    for _ in 0..2 {
        fifo.add("dead:1", 6_000);
    }
    fifo.add("dead:2", 6_000);
    fifo.add(STRANGER, 0);
    fifo.counter.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await;
    fifo.run_command(&["LPUSH", &fifo.queue, "dead:3"]);
    let mut listener = fifo.counter.listen(fifo.counter.channel()).await;
    assert_eq!(fifo.keep_alive(0).await, state(1, 2, None));
    listener.receives_nothing().await;
    fifo.run_command(&["LPUSH", &fifo.queue, "dead:4"]);
    fifo.counter.set("2");
    assert_eq!(fifo.keep_alive(0).await, state(1, 2, None));
    listener.receives("2").await;
    assert_eq!(fifo.list(), [STRANGER.to_owned(), owner(1).to_string()]);
    assert_eq!(fifo.keep_alive(0).await, state(1, 2, None));
    listener.receives_nothing().await;
}

async fn fifo_keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    let fifo = Fifo::new(harness, &[1]).await;
    fifo.counter.rejects_other_types(|counter| vec![call(&FIFO_SEMAPHORE, &counter.name, 0)]).await;
    fifo.counter.set("0");
    for (wrong, other) in [(&fifo.queue, &fifo.seen), (&fifo.seen, &fifo.queue)] {
        fifo.run_command(&["DEL", wrong]);
        fifo.run_command(&["SET", wrong, "text"]);
        let before = fifo.run_command(&["DUMP", other]);
        for from in [0, 5] {
            let refused = harness.run(call(&FIFO_SEMAPHORE, &fifo.counter.name, from)).await;
            let refused = refused.expect_err("a key has another type");
            assert_eq!(refused.kind, StoreErrorKind::WrongType, "{wrong}");
            assert_eq!(fifo.run_command(&["DUMP", other]), before, "{wrong} from {from}");
        }
        fifo.run_command(&["DEL", wrong, other]);
        fifo.counter.acquire(&FIFO_SEMAPHORE, (1, 1), FRESH).await;
    }
    fifo.run_command(&["ZADD", &fifo.counter.ids(), "922337203685477", "sixteen-bytes-id"]);
    let refused = harness.run(call(&FIFO_SEMAPHORE, &fifo.counter.name, 0)).await;
    assert_eq!(refused.expect_err("its permits have ids").kind, StoreErrorKind::WrongType);
}

async fn a_first_place_that_is_no_place_is_rejected(harness: &Harness<'_>) {
    let counter = Counter::new(harness, "fifo");
    for recipe in [&FAIR, &FIFO_SEMAPHORE] {
        counter.refuses(&call(recipe, &counter.name, 0), "from", &["-1", "1.5", "abc", "", "nan"]).await;
    }
}
