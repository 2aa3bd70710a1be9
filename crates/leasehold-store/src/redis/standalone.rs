//! A store over the servers of a URL: a single server, the master behind sentinels, or the masters of a cluster.
//!
//! Invariant: the store combines a wire with its driver, and adds no rule of its own.

use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;

use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind, Verb};
use tokio::sync::mpsc::UnboundedSender;

use super::connect::ConnectOptions;
use super::driver::{Access, Link, carry_on, start};
use super::executor::{Executor, TokioExecutor};
use super::peer::Peer;
use super::socket::Dial;
use super::wire::Wire;
use crate::store::{Heard, Outcomes, Store, Submit, Subscription};
use crate::tokio_runtime::{Task, current};
use crate::url::{ServerUrl, UrlError};

/// A Redis or Valkey server, the master that sentinels name, or the masters of a cluster.
///
/// The store has a connection to each server for commands, which is replaced when it broke, and one for subscriptions,
/// which opens with the first subscription. Two more open with the first call that replicas confirm. It asks sentinels
/// and the nodes of a cluster for the topology over other connections. Dropping the store closes all of them.
pub struct Redis {
    link: Arc<Link>,
    url: ServerUrl,
    _tasks: (Task, Option<Task>),
}

impl Redis {
    /// Connects to a server, logs in and checks that it can serve.
    ///
    /// The caller must be within the tokio runtime that is to carry the store's connections.
    ///
    /// # Errors
    /// Fails with `StoreErrorKind::Unreachable` when the address does not answer, `Timeout` when a peer accepts and
    /// stays silent, `Malformed` when the peer is no Redis, `AuthenticationRequired`, `AuthenticationFailed`,
    /// `TooManyClients`, `Loading` or another kind that the server's answer has. No error repeats the password.
    pub async fn connect(url: &ServerUrl, mut options: ConnectOptions) -> Result<Self, StoreError> {
        let dialer = options.dialer();
        Self::connect_through(url, options, dialer).await
    }

    /// Creates a store that connects at its first call. That call reports a failure, and the next call tries again.
    ///
    /// The caller must be within the tokio runtime that is to carry the store's connections.
    ///
    /// # Errors
    /// Fails for servers that this version does not serve.
    pub fn lazy(url: &ServerUrl, mut options: ConnectOptions) -> Result<Self, StoreError> {
        let dialer = options.dialer();
        Self::lazy_through(url, options, dialer)
    }

    fn lazy_through(
        url: &ServerUrl,
        mut options: ConnectOptions,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, StoreError> {
        url.served().map_err(not_served)?;
        let runtimes = Runtimes::of_tokio(&mut options);
        Ok(Self::lazy_on(url, options, dialer, runtimes))
    }

    /// Creates a store over the streams of `dialer` that connects at its first call, with its tasks on these runtimes. A
    /// simulator has runtimes of its own. The servers must be ones that this version serves.
    pub fn lazy_on(
        url: &ServerUrl,
        options: ConnectOptions,
        dialer: Arc<dyn Dial>,
        Runtimes { own, callers }: Runtimes,
    ) -> Self {
        let seed = dialer.seed();
        let access = |peer| Access::new(&dialer, url, &options, peer);
        let (servers, sentinels) = (access(Peer::Server), access(Peer::Sentinel));
        let notices = (options.missing_notice.clone(), options.connection_notice.clone());
        let wire = Wire::new(url.clone(), options, seed);
        let link = Link::new(wire, servers, sentinels, own);
        link.tell(notices);
        let task = start(&link);
        let carrier = callers.map(|runtime| carry_on(&link, &runtime));
        Self { link, url: url.clone(), _tasks: (task, carrier) }
    }

    /// Connects over the streams of `dialer`, for simulators and fuzzers.
    ///
    /// # Errors
    /// Fails as [`connect`](Self::connect) does, by the behavior of the dialer and of the other end of its streams.
    pub async fn connect_through(
        url: &ServerUrl,
        options: ConnectOptions,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, StoreError> {
        let store = Self::lazy_through(url, options, dialer)?;
        store.open().await?;
        Ok(store)
    }

    /// Connects a store that was created without a connection.
    ///
    /// # Errors
    /// Fails as [`connect`](Self::connect) does. The next call tries again.
    pub async fn open(&self) -> Result<(), StoreError> {
        self.link.open().await.unwrap_or_else(|| Err(closed(Verb::Connect, Arc::from(""))))
    }
}

/// The runtimes of a store's tasks.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// That of the store.
    pub own: Arc<dyn Executor>,
    /// That of its callers, which carries the command connections while it is in time.
    pub callers: Option<Arc<dyn Executor>>,
}

impl Runtimes {
    /// Returns the current tokio runtime, and that of the options for the callers.
    fn of_tokio(options: &mut ConnectOptions) -> Self {
        let executor = |runtime| Arc::new(TokioExecutor(runtime)) as Arc<dyn Executor>;
        Self { own: executor(current()), callers: options.callers.take().map(executor) }
    }
}

/// Returns the error of a connect to servers that this version does not serve.
fn not_served(error: UrlError) -> StoreError {
    StoreError::new(StoreErrorKind::Unreachable, Verb::Connect, Arc::from(""), Applied::No).with_source(error)
}

/// Returns the error of a call whose driver has ended.
const fn closed(verb: Verb, key: Arc<str>) -> StoreError {
    StoreError::new(StoreErrorKind::Closed, verb, key, Applied::Unknown)
}

impl Store for Redis {
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let link = Arc::clone(&self.link);
        let (verb, key) = (call.verb(), call.subject());
        async move { link.run(call, timeout).await.unwrap_or_else(|| Err(closed(verb, key))) }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let id = self.link.subscribe(channel.clone(), heard);
        // The reference is weak, so that a subscription that outlives the store keeps no subscriber's channel open.
        let link = Arc::downgrade(&self.link);
        Subscription::new(move || {
            if let Some(link) = link.upgrade() {
                link.unsubscribe(id, channel);
            }
        })
    }

    fn entrance(&self, outcomes: Weak<dyn Outcomes>) -> Option<Arc<dyn Submit>> {
        self.link.pass_outcomes_to(outcomes);
        Some(Arc::clone(&self.link) as Arc<dyn Submit>)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.link.close();
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.url)
    }
}

#[cfg(test)]
mod tests;
