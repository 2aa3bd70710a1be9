//! The one reader of the fleet for all viewers.
//!
//! Invariant: the servers are asked at most every two seconds, and not at all while nobody looks.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::broadcast;

use super::feed::{Feed, event};
use crate::clock::{Instant, after, now, reached, wall_ms};
use crate::command::show;
use crate::fleet::{Fleet, Query, ScanRule};

/// The shortest time between the beginnings of two readings.
const EVERY: Duration = Duration::from_secs(2);
/// The part of the time that readings take at most, as its inverse.
const SHARE: u32 = 4;
/// The most objects that the page has.
const OBJECTS: usize = 10_000;
/// The messages that a viewer may be behind.
const BEHIND: usize = 16;

pub(super) struct Reader {
    fleet: Fleet,
    feed: Mutex<Feed>,
    /// The time from which on the next reading may begin. Locked while one runs.
    next: tokio::sync::Mutex<Instant>,
    messages: broadcast::Sender<Bytes>,
}

impl Reader {
    pub(super) fn new(fleet: Fleet, may_release: bool) -> Self {
        let feed = Mutex::new(Feed::new(fleet.server(), may_release));
        let (messages, _) = broadcast::channel(BEHIND);
        Self { fleet, feed, next: tokio::sync::Mutex::new(now()), messages }
    }

    /// Reads for as long as there are viewers.
    pub(super) async fn run(&self) {
        loop {
            if self.messages.receiver_count() > 0 {
                self.refresh().await;
            }
            reached(Some(after(EVERY / 4))).await;
        }
    }

    /// Reads the fleet, unless that was done a short time ago.
    pub(super) async fn refresh(&self) {
        let mut next = self.next.lock().await;
        let begun = now();
        if begun < *next {
            return;
        }
        let query = Query { limit: Some(OBJECTS), scan: ScanRule::Never, ..Query::default() };
        let listed = self.fleet.list(&query).await;
        let message = {
            let mut feed = self.feed.lock().unwrap_or_else(PoisonError::into_inner);
            match listed {
                Ok(listing) => feed.update(listing),
                Err(failure) => feed.fail(wall_ms(), format!("{:#}", failure.reason)),
            }
        };
        // Nobody may look any more.
        let _ = self.messages.send(event(&message));
        *next = begun + EVERY.max(begun.elapsed() * SHARE);
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.messages.subscribe()
    }

    pub(super) fn whole(&self) -> String {
        self.with_feed(Feed::whole)
    }

    pub(super) fn with_feed<T>(&self, read: impl FnOnce(&Feed) -> T) -> T {
        read(&self.feed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns one object and the report of `leasehold show`, as JSON.
    pub(super) async fn object(&self, name: &str) -> Result<String, String> {
        let listing = self.fleet.show(name).await.map_err(|failure| format!("{:#}", failure.reason))?;
        let report = show::report(name, &listing);
        let object = listing.objects.first();
        Ok(serde_json::json!({ "object": object, "report": report }).to_string())
    }

    /// Releases the hold of this owner, and returns what has become of it.
    pub(super) async fn release(&self, name: &str, owner: &str) -> Result<String, String> {
        let released =
            self.fleet.release(name, owner, None).await.map_err(|failure| format!("{:#}", failure.reason))?;
        Ok(released.to_string())
    }
}
