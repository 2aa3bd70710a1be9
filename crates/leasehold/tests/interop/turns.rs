//! What every primitive is put through: one side hands over to the other.

use std::time::Instant;

use crate::bench::{Bench, PROMPTLY, Thread, Wait};
use crate::support::soon;

/// How Java takes something and gives it back.
pub(crate) struct Turns {
    pub(crate) name: String,
    /// As in `lock acquire fair NAME`.
    pub(crate) acquire: String,
    /// As in `lock release fair NAME`; `{}` stands for what the acquire has answered.
    pub(crate) release: String,
    /// The beginning of the channel on which waiters are woken; nothing when they ask again and again.
    pub(crate) channel: Option<String>,
}

impl Turns {
    /// Of a lock, by Java's kind of it.
    pub(crate) fn of_lock(kind: &str, name: &str, channel: Option<String>) -> Self {
        let [acquire, release] = ["acquire", "release"].map(|verb| format!("lock {verb} {kind} {name}"));
        Self { name: name.to_owned(), acquire, release, channel }
    }

    fn wait(&self) -> Wait {
        self.channel.clone().map_or(Wait::Asking, Wait::Listening)
    }

    /// Takes it on this thread, which is given it at once.
    pub(crate) async fn take(&self, thread: &Thread) -> String {
        soon("what is free", thread.ask(&self.acquire).ok()).await
    }

    /// Gives back what was answered.
    pub(crate) async fn give_back(&self, thread: &Thread, answer: &str) {
        thread.ok(&self.release.replace("{}", answer)).await;
    }
}

/// A thread takes it, Rust waits, the thread gives it back, and Rust has it promptly: returns what Rust got.
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

/// While Rust has it a thread waits; Rust gives it back, and the thread has it promptly. The thread gives it back too.
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
