//! What every primitive is put through: one side hands over to the other, and both at once.

use std::time::Instant;

use crate::bench::{Bench, PROMPTLY, Thread, Wait};
use crate::support::soon;
use crate::tally::Tally;

const CLIENTS: usize = 2;
const TASKS_PER_CLIENT: usize = 2;
pub(crate) const ROUNDS: u64 = 200;

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

/// Two clients of two threads each on the Java side, two of two tasks each on ours, and 200 critical sections for each
/// of these eight, of which none may be lost.
///
/// `crowd` is Java's command, as in `crowd lock fair NAME`. `section` is one critical section of the client with that
/// number, 0 or 1: it acquires, calls [`Tally::count`], and releases.
pub(crate) async fn mixed_crowd<F, S>(bench: &Bench, crowd: &str, section: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(usize, Tally) -> F + Clone + Send + 'static,
{
    let tally = Tally::new(bench, &bench.name("tally")).await;
    let mut answers = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..CLIENTS {
        peers.push(bench.peer("").await);
    }
    for peer in &peers {
        let crowd = format!("{crowd} key={} threads={TASKS_PER_CLIENT} rounds={ROUNDS}", tally.key());
        answers.push(peer.thread("crowd").ask(&crowd));
    }
    rust_crowd(CLIENTS * TASKS_PER_CLIENT, |task| {
        let (section, tally) = (section.clone(), tally.clone());
        move || section(task % CLIENTS, tally.clone())
    })
    .await;
    for answer in answers {
        answer.ok().await;
    }
    let sections = 2 * (CLIENTS * TASKS_PER_CLIENT) as u64 * ROUNDS;
    assert_eq!(tally.value().await, sections, "no addition was lost");
    assert!(tally.turns() > 0, "the two sides took turns");
}

/// So many tasks of 200 critical sections each.
pub(crate) async fn rust_crowd<F, S>(tasks: usize, section_of: impl Fn(usize) -> S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn() -> F + Send + 'static,
{
    let start = |task| {
        let section = section_of(task);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                section().await;
            }
        })
    };
    let running: Vec<_> = (0..tasks).map(start).collect();
    for task in running {
        task.await.unwrap();
    }
}
