//! Hand-over tests of every primitive. One side releases, and a waiter of the other side acquires.

use std::time::Instant;

use crate::bench::{Bench, PROMPTLY, Thread, Wait};
use crate::support::soon;

/// Java's commands to acquire and release one object.
pub(crate) struct Turns {
    pub(crate) name: String,
    /// The command to acquire, such as `lock acquire fair NAME`.
    pub(crate) acquire: String,
    /// The command to release, such as `lock release fair NAME`. The answer of the acquire replaces `{}`.
    pub(crate) release: String,
    /// The beginning of the channel that wakes waiters, or `None` when they poll repeatedly.
    pub(crate) channel: Option<String>,
}

impl Turns {
    /// A lock, by Java's kind of it.
    pub(crate) fn of_lock(kind: &str, name: &str, channel: Option<String>) -> Self {
        let [acquire, release] = ["acquire", "release"].map(|verb| format!("lock {verb} {kind} {name}"));
        Self { name: name.to_owned(), acquire, release, channel }
    }

    fn wait(&self) -> Wait {
        self.channel.clone().map_or(Wait::Asking, Wait::Listening)
    }

    /// Acquires on this thread, which must succeed at once.
    pub(crate) async fn take(&self, thread: &Thread) -> String {
        soon("what is free", thread.ask(&self.acquire).ok()).await
    }

    /// Releases with the answer of the acquire.
    pub(crate) async fn give_back(&self, thread: &Thread, answer: &str) {
        thread.ok(&self.release.replace("{}", answer)).await;
    }
}

/// A thread acquires, Rust waits, the thread releases, and Rust acquires promptly. Returns Rust's result.
pub(crate) async fn java_hands_over_to_rust<G: Send + 'static>(
    bench: &Bench,
    turns: &Turns,
    thread: &Thread,
    acquire: impl Future<Output = G> + Send + 'static,
) -> G {
    let answer = turns.take(thread).await;
    let watch = bench.watch(&turns.name, turns.wait());
    let waiter = tokio::spawn(acquire);
    watch.until_somebody_waits().await;
    assert!(!waiter.is_finished(), "it is Java's");

    let released = Instant::now();
    turns.give_back(thread, &answer).await;
    let got = soon("what Java gave back", waiter).await.unwrap();
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    got
}

/// A thread waits while Rust holds. Rust releases, and the thread acquires promptly. Then the thread releases too.
pub(crate) async fn rust_hands_over_to_java(
    bench: &Bench,
    turns: &Turns,
    thread: &Thread,
    give_back: impl Future<Output = ()>,
) {
    let watch = bench.watch(&turns.name, turns.wait());
    let waiter = thread.ask(&turns.acquire);
    watch.until_somebody_waits().await;
    assert!(waiter.is_pending(), "it is Rust's");

    let released = Instant::now();
    give_back.await;
    let answer = soon("what Rust gave back", waiter.ok()).await;
    assert!(released.elapsed() < PROMPTLY, "it took {:?}", released.elapsed());
    turns.give_back(thread, &answer).await;
}
