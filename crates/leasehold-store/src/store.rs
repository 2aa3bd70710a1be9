//! The two operations of a store: run a script atomically, subscribe to a channel.
//!
//! [`Store::run`] executes its call at most once, or returns an error with [`Applied::Unknown`]. No code below it
//! retries (docs/guarantees.md, rule 3).
//!
//! [`Applied::Unknown`]: leasehold_proto::Applied::Unknown

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_proto::engine::CallId;
use leasehold_proto::{Call, Channel, Reply, Scope, StoreError};
use tokio::sync::mpsc::UnboundedSender;

/// A server that runs scripts atomically and carries wake-ups.
pub trait Store: Send + Sync + 'static {
    /// Runs a script once and returns its reply.
    ///
    /// The store sends the call at the first poll of the future, or as soon as there is a connection. It executes calls
    /// in the order of their first polls. `timeout` covers everything, connecting included. A store may begin it anew
    /// with each reply to another call, which shows that the server works, but a call ends at most two timeouts after
    /// its first poll. A call that was not sent by then has certainly not run. Otherwise the store closes the connection
    /// that carried the call with a reset. The network never delivers the bytes that the server's machine has not
    /// received by then. A call that the machine has received may still run.
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

    /// Returns the entrance by which any thread runs calls without a future, if the store has one. The store passes the
    /// outcomes to `outcomes`. A store has one entrance, and outcomes without a recipient are dropped.
    fn entrance(&self, outcomes: Weak<dyn Outcomes>) -> Option<Arc<dyn Submit>> {
        let _ = outcomes;
        None
    }
}

/// The entrance of a store: calls without futures.
pub trait Submit: Send + Sync {
    /// Runs a call under the rules of [`Store::run`]. Its id comes back with the outcome.
    ///
    /// The call is sent, or waits behind earlier calls or for a connection, when this function returns. The function does
    /// not block on the server, and passes no outcome to the [`Outcomes`].
    ///
    /// # Errors
    /// Fails if the store refuses the call at once. The call then has no other outcome.
    fn submit(&self, id: CallId, call: Call, timeout: Duration) -> Result<(), StoreError>;

    /// Submits the calls of one step in their order, and returns those that are refused, with their errors. A store may send
    /// them together.
    fn submit_all(&self, calls: Vec<(CallId, Call, Duration)>) -> Vec<(CallId, StoreError)> {
        let submit = |(id, call, timeout)| self.submit(id, call, timeout).err().map(|error| (id, error));
        calls.into_iter().filter_map(submit).collect()
    }

    /// Takes a call back that was not sent, and returns the error by which it fails. The call then has no other outcome.
    /// Returns `None` for a call that was sent, and for one that the store does not have.
    fn withdraw(&self, id: CallId) -> Option<StoreError> {
        let _ = id;
        None
    }
}

/// The recipient of the outcomes of submitted calls.
pub trait Outcomes: Send + Sync {
    /// Takes the outcomes of calls, each with the id under which it was submitted. The store holds no lock.
    fn take(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>);

    /// Takes outcomes like [`Outcomes::take`], for a store that comes back once the tasks that it wakes have run. Returns true if
    /// callers leave their next calls until then. The store must then call `gather` or `take` again, with outcomes or without, in
    /// a few milliseconds even if its runtime is blocked or ends.
    ///
    /// A wrapper of the recipient forwards this method, or its client never leaves calls.
    fn gather(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>) -> bool {
        self.take(outcomes);
        false
    }

    /// Learns that another server answers for these names, or the same one over a new connection. It may not have what
    /// was granted. The store holds no lock.
    fn replaced(&self, scope: Scope);
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
