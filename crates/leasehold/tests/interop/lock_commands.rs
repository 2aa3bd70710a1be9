//! Hand-over tests of every primitive. One side releases, and a waiter of the other side acquires.

use std::time::Instant;

use crate::harness::{Harness, PROMPTLY, Thread, Wait};
use crate::support::soon;

/// Java's commands to acquire and release one object.
pub(crate) struct LockCommands {
    pub(crate) name: String,
    /// The command to acquire, such as `lock acquire fair NAME`.
    pub(crate) acquire: String,
    /// The command to release, such as `lock release fair NAME`. The answer of the acquire replaces `{}`.
    pub(crate) release: String,
    /// The beginning of the channel that wakes waiters, or `None` when they poll repeatedly.
    pub(crate) channel: Option<String>,
}

impl LockCommands {
    /// A lock, by Java's kind of it.
    pub(crate) fn of_lock(kind: &str, name: &str, channel: Option<String>) -> Self {
        let [acquire, release] = ["acquire", "release"].map(|verb| format!("lock {verb} {kind} {name}"));
        Self { name: name.to_owned(), acquire, release, channel }
    }

    fn wait(&self) -> Wait {
        self.channel.clone().map_or(Wait::Polling, Wait::Listening)
    }

    /// Returns true if Redisson's message wakes only the threads that are parked when it comes.
    fn wakes_only_parked_threads(&self) -> bool {
        self.channel.as_ref().is_some_and(|channel| channel.starts_with("redisson_rwlock:"))
    }

    /// Acquires on this thread, which must succeed at once.
    pub(crate) async fn take(&self, thread: &Thread) -> String {
        soon("what is free", thread.ask(&self.acquire).ok()).await
    }

    /// Releases with the answer of the acquire.
    pub(crate) async fn release_lock(&self, thread: &Thread, answer: &str) {
        thread.ok(&self.release.replace("{}", answer)).await;
    }
}

/// A thread acquires, Rust waits, the thread releases, and Rust acquires promptly. Returns Rust's result.
pub(crate) async fn java_hands_over_to_rust<G: Send + 'static>(
    harness: &Harness,
    lock_commands: &LockCommands,
    thread: &Thread,
    acquire: impl Future<Output = G> + Send + 'static,
) -> G {
    let answer = lock_commands.take(thread).await;
    let watch = harness.watch(&lock_commands.name, lock_commands.wait());
    let waiter = tokio::spawn(acquire);
    watch.wait_for_waiter().await;
    assert!(!waiter.is_finished(), "it is Java's");

    let released = Instant::now();
    lock_commands.release_lock(thread, &answer).await;
    let got = soon("what Java gave back", waiter).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    got
}

/// A thread waits while Rust holds. Rust releases, and the thread acquires promptly. Then the thread releases too.
pub(crate) async fn rust_hands_over_to_java(
    harness: &Harness,
    lock_commands: &LockCommands,
    thread: &Thread,
    release_lock: impl Future<Output = ()>,
) {
    let watch = harness.watch(&lock_commands.name, lock_commands.wait());
    let waiter = thread.ask(&lock_commands.acquire);
    watch.wait_for_waiter().await;
    if lock_commands.wakes_only_parked_threads() {
        thread.parked().await;
    }
    assert!(waiter.is_pending(), "it is Rust's");

    let released = Instant::now();
    release_lock.await;
    let answer = soon("what Rust gave back", waiter.ok()).await;
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    lock_commands.release_lock(thread, &answer).await;
}
