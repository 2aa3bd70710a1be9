//! The work in critical sections: changes of a plain key that give a wrong result without exclusion.
//!
//! The Java process makes the same changes to the same keys, so change `Sections.java` together with this file.

#![allow(dead_code, reason = "each primitive's file uses a part of it")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::harness::Harness;

/// A number on the server, under a key of its own, in decimal.
#[derive(Clone)]
pub(crate) struct Tally {
    connection: MultiplexedConnection,
    key: String,
    seen: Arc<Seen>,
}

/// The observations of this process.
#[derive(Default)]
struct Seen {
    wrote: AtomicU64,
    turns: AtomicU64,
    most: AtomicU64,
}

impl Tally {
    pub(crate) async fn new(harness: &Harness, key: &str) -> Self {
        let client = redis::Client::open(harness.server().url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { connection, key: key.to_owned(), seen: Arc::default() }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The number on the server, or 0.
    pub(crate) async fn value(&self) -> u64 {
        let mut connection = self.connection.clone();
        let number: Option<u64> = cmd("GET").arg(&self.key).query_async(&mut connection).await.unwrap();
        number.unwrap_or_default()
    }

    async fn set(&self, number: u64) {
        let mut connection = self.connection.clone();
        cmd("SET").arg(&self.key).arg(number).exec_async(&mut connection).await.unwrap();
    }

    /// Adds one in two steps, which lose a concurrent addition in between.
    pub(crate) async fn count(&self) {
        let before = self.value().await;
        if self.seen.wrote.swap(before + 1, Ordering::Relaxed) != before {
            self.seen.turns.fetch_add(1, Ordering::Relaxed);
        }
        self.set(before + 1).await;
    }

    /// The number of times that [`count`](Self::count) found counts of other clients.
    pub(crate) fn handover_count(&self) -> u64 {
        self.seen.turns.load(Ordering::Relaxed)
    }

    /// Adds two in two visible steps, so the number is odd while a writer is inside.
    pub(crate) async fn write(&self) {
        let before = self.value().await;
        assert!(before.is_multiple_of(2), "a writer found another one inside at {before}");
        self.set(before + 1).await;
        assert_eq!(self.value().await, before + 1, "no other client writes");
        self.set(before + 2).await;
    }

    /// Reads twice, and must see no writer.
    pub(crate) async fn read(&self) {
        let first = self.value().await;
        assert!(first.is_multiple_of(2), "a reader found a writer inside at {first}");
        assert_eq!(self.value().await, first, "no client writes while another reads");
    }

    /// Records the token of a section, which must be larger than all earlier tokens of all clients.
    pub(crate) async fn note(&self, token: u64) {
        let mut connection = self.connection.clone();
        let key = format!("{}:token", self.key);
        let last: Option<u64> = cmd("GETSET").arg(key).arg(token).query_async(&mut connection).await.unwrap();
        assert!(last < Some(token), "the token {token} came after {last:?}");
    }

    /// Counts a holder of a permit in and out.
    pub(crate) async fn visit(&self) {
        let inside = self.add(1).await;
        self.seen.most.fetch_max(inside, Ordering::Relaxed);
        self.add(-1).await;
    }

    /// The most holders inside at once that [`visit`](Self::visit) has seen.
    pub(crate) fn most(&self) -> u64 {
        self.seen.most.load(Ordering::Relaxed)
    }

    async fn add(&self, change: i64) -> u64 {
        let mut connection = self.connection.clone();
        cmd("INCRBY").arg(&self.key).arg(change).query_async(&mut connection).await.unwrap()
    }
}
