//! Many waiters of one Rust client among Java waiters. One call shows that all of them are alive, and Java notices
//! nothing. The waiters of a killed client are passed by within seconds.

use std::time::{Duration, Instant};

use leasehold::Client;
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::{
    CallArgs, ClientId, KeepAliveArgs, KeptAlive, Lease, Name, Reply, WireOwner, engine::Subject,
};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};

use crate::child::{ChildProcess, part, report_held};
use crate::fair::{lock_commands, queued};
use crate::harness::{Harness, on_each_server};
use crate::support::{eventually, is_free, ms, soon};

/// The time after which a silent waiter loses its place in the queue.
const GONE_AFTER: Duration = ms(5_000);
const LIMIT: Duration = ms(20_000);
const WAITERS: usize = 100;

on_each_server! {
    java_waiters_before_between_and_behind_keep_their_order_beside_rust_waiters_that_rest,
    a_hundred_fair_waiters_of_a_killed_rust_client_are_passed_by_in_seconds,
    a_hundred_fifo_waiters_of_a_killed_rust_client_are_passed_by_in_seconds,
}

/// A client whose waiters each call once, and then rest.
struct RestingClient {
    store: Redis,
    subject: Subject,
    id: ClientId,
}

impl RestingClient {
    async fn connect(harness: &Harness, name: &str) -> Self {
        let url = harness.url().parse().unwrap();
        let store = Redis::connect(&url, ConnectOptions::default()).await.unwrap();
        let subject = Subject::new(&Name::new(name).unwrap(), &FAIR);
        Self { store, subject, id: ClientId::from_random([9; 16]) }
    }

    fn args(&self, number: u64) -> CallArgs<'_> {
        CallArgs::new(&self.subject, WireOwner::new(self.id, number), Lease::new(LIMIT).unwrap())
    }

    async fn acquire(&self, number: u64) -> Reply {
        self.store.run((FAIR.acquire)(&self.args(number)), LIMIT).await.unwrap()
    }

    async fn release(&self, number: u64) {
        let released = self.store.run((FAIR.release)(&self.args(number).count(0)), LIMIT).await.unwrap();
        assert_eq!(released, Reply::Int(1), "{number} held the lock");
    }

    async fn keep_alive(&self) -> KeptAlive {
        let args = KeepAliveArgs { name: &self.subject.name, client: self.id, from: 0 };
        let reply = self.store.run((FAIR.keep_alive.unwrap())(&args), LIMIT).await.unwrap();
        (FAIR.read_keep_alive)(&reply).unwrap()
    }

    /// Serves these waiters, each of which must be the next one.
    async fn serve(&self, numbers: std::ops::RangeInclusive<u64>) {
        for number in numbers {
            assert_eq!(self.keep_alive().await.next, Some(number));
            assert_eq!(self.acquire(number).await, Reply::Nil);
            self.release(number).await;
        }
    }
}

async fn java_waiters_before_between_and_behind_keep_their_order_beside_rust_waiters_that_rest(
    harness: Harness,
) {
    let (peer, name) = (harness.peer("").await, harness.name("order"));
    let [holder, before, between, behind] =
        ["holder", "before", "between", "behind"].map(|thread| peer.thread(thread));
    let commands = lock_commands(&name);
    commands.take(&holder).await;
    let rust = RestingClient::connect(&harness, &name).await;
    let first = before.ask(&commands.acquire);
    queued(&harness, &name, 1).await;
    for number in 1..=50 {
        assert!(matches!(rust.acquire(number).await, Reply::Int(1..)));
    }
    let second = between.ask(&commands.acquire);
    queued(&harness, &name, 52).await;
    for number in 51..=100 {
        assert!(matches!(rust.acquire(number).await, Reply::Int(1..)));
    }
    let third = behind.ask(&commands.acquire);
    queued(&harness, &name, WAITERS + 3).await;
    let [queue, deadlines] =
        ["redisson_lock_queue", "redisson_lock_timeout"].map(|prefix| format!("{prefix}:{{{name}}}"));
    let order = harness.server().cli(&["LRANGE", &queue, "0", "-1"]);

    // The waiters rest for longer than a silent waiter keeps its place.
    let began = Instant::now();
    let mut each_second = tokio::time::interval(ms(1_000));
    while began.elapsed() < GONE_AFTER + ms(2_000) {
        each_second.tick().await;
        assert_eq!(rust.keep_alive().await, KeptAlive { found: 100, length: 103, next: None });
    }
    assert_eq!(harness.server().cli(&["LRANGE", &queue, "0", "-1"]), order);

    commands.release_lock(&holder, "").await;
    soon("the turn of the Java thread before", first.ok()).await;
    // Redisson has subtracted the thread's wait from each deadline behind it, and removes a head whose deadline is over.
    let now = harness.server().cli(&["TIME"]).lines().next().unwrap().parse::<f64>().unwrap() * 1_000.0;
    for waiter in order.lines().skip(1) {
        let due: f64 = harness.server().cli(&["ZSCORE", &deadlines, waiter]).parse().unwrap();
        assert!(due > now + 1_000.0, "Redisson counts {waiter} as alive for {} ms", due - now);
    }
    commands.release_lock(&before, "").await;
    rust.serve(1..=50).await;
    soon("the turn of the Java thread between", second.ok()).await;
    assert_eq!(rust.keep_alive().await, KeptAlive { found: 50, length: 51, next: None });
    commands.release_lock(&between, "").await;
    rust.serve(51..=100).await;
    soon("the turn of the Java thread behind", third.ok()).await;
    commands.release_lock(&behind, "").await;
    for key in [&name, &queue, &deadlines] {
        assert!(is_free(harness.server(), key), "{key}");
    }
}

async fn a_hundred_fair_waiters_of_a_killed_rust_client_are_passed_by_in_seconds(harness: Harness) {
    let (client, peer, name) = (harness.client().await, harness.peer("").await, harness.name("order"));
    let (holder, java) = (peer.thread("holder"), peer.thread("a"));
    let commands = lock_commands(&name);
    commands.take(&holder).await;
    let part = "keep_alive::a_process_with_a_hundred_waiters_until_it_is_killed";
    let mut dead = ChildProcess::start(part, &harness.url(), &name);
    queued(&harness, &name, WAITERS).await;
    let lock = client.fair_lock(&*name);
    let ours = tokio::spawn(async move { lock.lock().await.unwrap() });
    queued(&harness, &name, WAITERS + 1).await;
    let theirs = java.ask(&commands.acquire);
    queued(&harness, &name, WAITERS + 2).await;

    dead.kill();
    let killed = Instant::now();
    commands.release_lock(&holder, "").await;
    let guard = soon("our turn", ours).await.unwrap();
    assert!(killed.elapsed() < 2 * GONE_AFTER, "it took {:?}", killed.elapsed());
    guard.release().await.unwrap();
    soon("the turn of Java", theirs.ok()).await;
    assert!(killed.elapsed() < 3 * GONE_AFTER, "it took {:?}", killed.elapsed());
    commands.release_lock(&java, "").await;
}

async fn a_hundred_fifo_waiters_of_a_killed_rust_client_are_passed_by_in_seconds(harness: Harness) {
    let (client, peer, stem) = (harness.client().await, harness.peer("").await, harness.name("seats"));
    let name = format!("{stem}-fifo");
    let seats = client.semaphore(&*name).fifo();
    assert!(seats.try_set_permits(1).await.unwrap());
    let held = seats.acquire().await.unwrap();
    let part = "keep_alive::a_process_with_a_hundred_waiters_until_it_is_killed";
    let mut dead = ChildProcess::start(part, &harness.url(), &stem);
    let queue = format!("leasehold_sc_queue:{{{name}}}");
    let waiting = || harness.server().cli(&["LLEN", &queue]);
    eventually("the waiters to be in the queue", || waiting() == WAITERS.to_string()).await;
    let behind = seats.clone();
    let ours = tokio::spawn(async move { behind.acquire().await.unwrap() });
    eventually("ours to be in the queue", || waiting() == (WAITERS + 1).to_string()).await;

    dead.kill();
    let killed = Instant::now();
    held.release().await.unwrap();
    let permit = soon("our turn", ours).await.unwrap();
    assert!(killed.elapsed() < 2 * GONE_AFTER, "it took {:?}", killed.elapsed());
    // Java does not enter the queue, and waits for a message.
    let java = peer.thread("a");
    let theirs = java.ask(&format!("semaphore acquire {name}"));
    permit.release().await.unwrap();
    soon("the turn of Java", theirs.ok()).await;
    java.ok(&format!("semaphore release {name}")).await;
}

/// Not a test by itself, but the part of the second process.
#[tokio::test]
async fn a_process_with_a_hundred_waiters_until_it_is_killed() {
    let Some((url, name)) = part() else { return };
    let client = Client::connect(&url).await.unwrap();
    report_held();
    for _ in 0..WAITERS {
        let (lock, seats) = (client.fair_lock(&*name), client.semaphore(format!("{name}-fifo")).fifo());
        tokio::spawn(async move { lock.lock().await.unwrap().detach() });
        tokio::spawn(async move { seats.acquire().await.unwrap().detach() });
    }
    std::future::pending::<()>().await;
}
