//! Leader election on both servers.

mod ending;
mod faults;
mod leading;
mod observing;
mod policy;
mod reports;
mod transferring;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use leasehold::Client;
use leasehold::election::Election;

use crate::support::{Fixture, connect, ms};

/// The name of the election on the server.
const NAME: &str = "job";

/// A candidate with its own client, and short times.
async fn candidate(server: &Fixture, name: &str) -> (Client, Election) {
    let client = connect(server).await;
    let election = client.election(NAME).candidate(name).watchdog(ms(2_000)).grace(ms(2_000)).rest(ms(20));
    (client, election)
}

/// Counts bodies that run at the same time.
#[derive(Clone, Default)]
struct Bodies {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

/// A running body.
struct Running(Bodies);

impl Bodies {
    fn enter(&self) -> Running {
        self.all.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        Running(self.clone())
    }

    fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn all(&self) -> usize {
        self.all.load(Ordering::SeqCst)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}
