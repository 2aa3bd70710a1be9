//! The two operations of a store: run a script atomically, subscribe to a channel.
//!
//! [`Store::run`] executes its call at most once, or returns an error with [`Applied::Unknown`]. No code below it
//! retries (docs/guarantees.md, rule 3).
//!
//! [`Applied::Unknown`]: leasehold_proto::Applied::Unknown

use std::fmt;
use std::future::Future;
use std::time::Duration;

use leasehold_proto::{Call, Channel, Reply, StoreError};
use tokio::sync::mpsc::UnboundedSender;

/// A server that runs scripts atomically and carries wake-ups.
pub trait Store: Send + Sync + 'static {
    /// Runs a script once and returns its reply.
    ///
    /// The store sends the call at the first poll of the future, or as soon as there is a connection. It executes calls
    /// in the order of their first polls. `timeout` covers everything, connecting included. When it passes, the store
    /// closes the connection that carried the call with a reset. The network then never delivers the bytes that the
    /// server's machine has not received. A call that the machine has received may still run.
    ///
    /// # Cancel safety
    /// A call whose future is dropped may or may not run.
    ///
    /// # Errors
    /// Every failure reports in its `applied` whether the script may have run.
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static;

    /// Listens on a channel until the returned value is dropped.
    ///
    /// The store sends events to `heard`, beginning with [`Heard::Listening`] when the server has confirmed. After a
    /// lost connection the store subscribes again by itself, without limit, and reports that by another
    /// [`Heard::Listening`]. The caller must be within the store's runtime.
    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription;
}

/// An event of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The server has confirmed the subscription, for the first time or again. The messages before that are lost.
    Listening(Channel),
    /// A message arrived.
    Message(Channel, Vec<u8>),
}

/// A live subscription. Dropping it unsubscribes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Subscription {
    /// Creates a subscription that `end` ends. `end` must neither block nor panic.
    pub fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(end)))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.0.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}
