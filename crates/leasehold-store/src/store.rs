//! The two verbs of a store: run a script atomically, subscribe to a channel.
//!
//! Invariant: [`Store::run`] executes its call at most once, or says [`Applied::Unknown`]; nothing below it retries
//! (docs/guarantees.md, rule 3).
//! Called by: the driver, from its own thread. Implemented by each back end.
//!
//! [`Applied::Unknown`]: leasehold_proto::Applied::Unknown

use std::fmt;
use std::future::Future;
use std::time::Duration;

use leasehold_proto::{Call, Channel, Reply, StoreError};
use tokio::sync::mpsc::UnboundedSender;

/// Something that runs scripts atomically and carries wake-ups.
pub trait Store: Send + Sync + 'static {
    /// Runs a script once and returns its reply.
    ///
    /// The call is on its way when the future was first polled, or as soon as there is a connection; calls first
    /// polled one after the other are executed in that order. `timeout` covers everything, connecting included: when
    /// it passes, the connection that carried the call is closed hard. What the server's machine has not received by
    /// then is never delivered; what it has received may still run.
    ///
    /// # Cancel safety
    /// A call whose future is dropped may or may not run.
    ///
    /// # Errors
    /// Every failure says by its `applied` whether the script may have run.
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static;

    /// Listens on a channel until the returned value is dropped. What is heard goes to `heard`, beginning with
    /// [`Heard::Listening`] when the server has confirmed; after a lost connection the store subscribes again by
    /// itself, for ever, and says so by another [`Heard::Listening`]. Must be called within the store's runtime.
    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription;
}

/// News from a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The server has confirmed the subscription, for the first time or again: what was sent before is lost.
    Listening(Channel),
    /// A message arrived.
    Message(Channel, Vec<u8>),
}

/// A live subscription; dropping it unsubscribes.
#[must_use = "dropping a subscription ends it"]
pub struct Subscription(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Subscription {
    /// A subscription that `end` ends. `end` must neither block nor panic.
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
