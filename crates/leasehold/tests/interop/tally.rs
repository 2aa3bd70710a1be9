//! What is done in critical sections: changes of a plain key that come out wrong unless nobody else is inside.
//!
//! The Java process does the same to the same keys, and so is where a change has to be made too: `Sections.java`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::cmd;

use crate::bench::Bench;

/// A number on the server, under a key of its own, in decimal.
#[derive(Clone)]
pub(crate) struct Tally {
    connection: MultiplexedConnection,
    key: String,
    /// What this process wrote last, and how often it then found something else.
    seen: Arc<[AtomicU64; 2]>,
}

impl Tally {
    pub(crate) async fn new(bench: &Bench, key: &str) -> Self {
        let client = redis::Client::open(bench.server().url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { connection, key: key.to_owned(), seen: Arc::default() }
    }

    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// The number that is there, or 0.
    pub(crate) async fn value(&self) -> u64 {
        let mut connection = self.connection.clone();
        let number: Option<u64> = cmd("GET").arg(&self.key).query_async(&mut connection).await.unwrap();
        number.unwrap_or_default()
    }

    async fn set(&self, number: u64) {
        let mut connection = self.connection.clone();
        cmd("SET").arg(&self.key).arg(number).exec_async(&mut connection).await.unwrap();
    }

    /// Adds one in two steps; an addition is lost when another comes in between.
    pub(crate) async fn count(&self) {
        let before = self.value().await;
        let [wrote, turns] = &*self.seen;
        if wrote.swap(before + 1, Ordering::Relaxed) != before {
            turns.fetch_add(1, Ordering::Relaxed);
        }
        self.set(before + 1).await;
    }

    /// How often [`count`](Self::count) found that others had counted since.
    pub(crate) fn turns(&self) -> u64 {
        self.seen[1].load(Ordering::Relaxed)
    }
}
