//! Crowd tests of every primitive: many Java threads and many Rust tasks at once.
//!
//! Each side has two clients, of two threads or tasks each, and each of these eight runs 200 critical sections.

#![allow(dead_code, reason = "each primitive's file uses a part of it")]

use leasehold::lock::Kind;
use leasehold::{Client, Guard, Lock, ReleaseOutcome};

use crate::harness::{Harness, Peer};
use crate::tally::Tally;

const CLIENTS: usize = 2;
const TASKS_PER_CLIENT: usize = 2;
const ROUNDS: u64 = 200;
/// The sections of one client.
const SECTIONS: u64 = TASKS_PER_CLIENT as u64 * ROUNDS;

/// Runs the crowds on a lock with one holder. All of them count, and the tally must lose no count.
///
/// `crowd` is Java's command, as in `crowd lock fair NAME`, and `lock` is the same lock of one client. `section` is one
/// critical section. It acquires, calls [`Tally::count`], and releases.
pub(crate) async fn counts_exactly<L, F, S>(
    harness: &Harness,
    crowd: &str,
    lock: impl Fn(&Client) -> L,
    section: S,
) where
    L: Clone + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
    S: Fn(L, Tally) -> F + Clone + Send + 'static,
{
    let clients = [harness.client().await, harness.client().await];
    let locks = clients.each_ref().map(lock);
    let tally = Tally::new(harness, &harness.name("tally")).await;
    let crowds = [crowd, crowd].map(str::to_owned);
    both_sides(harness, &tally, &crowds, move |client, tally| section(locks[client].clone(), tally)).await;
    assert_eq!(tally.value().await, 2 * CLIENTS as u64 * SECTIONS, "no addition was lost");
    assert!(tally.handover_count() > 0, "the two sides took turns");
}

/// [`counts_exactly`], on the lock of this kind and name.
pub(crate) async fn holders_count_exactly<K: Kind>(
    harness: &Harness,
    (kind, name): (&str, &str),
    lock: impl Fn(&Client) -> Lock<K>,
) {
    counts_exactly(harness, &format!("crowd lock {kind} {name}"), lock, |lock, tally| async move {
        let guard: Guard = lock.lock().await.unwrap().into();
        tally.count().await;
        assert_eq!(guard.release().await.unwrap(), ReleaseOutcome::Released);
    })
    .await;
}

/// Runs the crowds on a read/write lock. On each side one client writes and one client reads. A writer must meet no
/// other holder, and a reader no writer.
///
/// `write` and `read` are one critical section each. They acquire, call [`Tally::write`] or [`Tally::read`], and
/// release.
pub(crate) async fn readers_meet_no_writer<W, R, FW, FR>(harness: &Harness, name: &str, write: W, read: R)
where
    FW: Future<Output = ()> + Send + 'static,
    FR: Future<Output = ()> + Send + 'static,
    W: Fn(Tally) -> FW + Clone + Send + 'static,
    R: Fn(Tally) -> FR + Clone + Send + 'static,
{
    let tally = Tally::new(harness, &harness.name("tally")).await;
    let crowds = ["writers", "readers"].map(|side| format!("crowd {side} {name}"));
    both_sides(harness, &tally, &crowds, move |client, tally| {
        let (write, read) = (write.clone(), read.clone());
        async move { if client == 0 { write(tally).await } else { read(tally).await } }
    })
    .await;
    // Each side has one client of writers, and each section of a writer adds two.
    assert_eq!(tally.value().await, 2 * 2 * SECTIONS, "no writer was lost");
}

/// Runs the crowds on a semaphore, whose acquired permits must never exceed this number.
///
/// `crowd` is Java's command, as in `crowd semaphore NAME`. `section` acquires one permit, calls [`Tally::visit`], and
/// releases.
pub(crate) async fn permits_are_never_exceeded<F, S>(harness: &Harness, crowd: &str, permits: u64, section: S)
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(usize, Tally) -> F + Clone + Send + 'static,
{
    let tally = Tally::new(harness, &harness.name("tally")).await;
    let crowds = [crowd, crowd].map(str::to_owned);
    let answers = both_sides(harness, &tally, &crowds, section).await;
    for most in answers.iter().map(|answer| answer.parse().unwrap()).chain([tally.most()]) {
        assert!((1..=permits).contains(&most), "{most} of {permits} permits were out at once");
    }
    assert_eq!(tally.value().await, 0, "everybody has left");
}

/// Runs these crowds in Java, each by a client of its own, while as many Rust tasks run their sections. Returns Java's
/// answers.
async fn both_sides<F, S>(
    harness: &Harness,
    tally: &Tally,
    crowds: &[String; CLIENTS],
    section: S,
) -> Vec<String>
where
    F: Future<Output = ()> + Send + 'static,
    S: Fn(usize, Tally) -> F + Clone + Send + 'static,
{
    let mut peers = Vec::new();
    for _ in crowds {
        peers.push(harness.peer("").await);
    }
    let ask = |(peer, crowd): (&Peer, &String)| {
        let options = format!("key={} threads={TASKS_PER_CLIENT} rounds={ROUNDS}", tally.key());
        peer.thread("crowd").ask(&format!("{crowd} {options}"))
    };
    let asked: Vec<_> = peers.iter().zip(crowds).map(ask).collect();
    let start = |task: usize| {
        let (section, tally) = (section.clone(), tally.clone());
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                section(task % CLIENTS, tally.clone()).await;
            }
        })
    };
    let running: Vec<_> = (0..CLIENTS * TASKS_PER_CLIENT).map(start).collect();
    for task in running {
        task.await.unwrap();
    }
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.ok().await);
    }
    answers
}
