//! An in-process server, as a store.
//!
//! Invariant: the first poll of a call's future executes the call and completes, unless the test has set a fault.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind};
use tokio::sync::mpsc::UnboundedSender;

use super::client_connection::{BoxFuture, ClientConnection};
use super::frame::Frame;
use super::reply::read_reply;
use super::server::{Deliver, Server};
use super::subscribers::SubscriptionKind;
use crate::store::{Heard, Store, Subscription};
use crate::tokio_runtime::pause;

/// The named servers. A server stays here while it has users.
static NAMED: Mutex<BTreeMap<String, Weak<Server>>> = Mutex::new(BTreeMap::new());

/// An in-process store: a server and this client's connection to that server.
///
/// A clone is the same client. [`another_client`](Self::another_client) makes another client of the same server, with
/// its own connection. Faults belong to the connection, so one client may be cut off while another works.
#[derive(Clone)]
pub struct Embedded(Arc<Client>);

struct Client {
    server: Arc<Server>,
    connection: ClientConnection,
    subscriptions: Mutex<Subscriptions>,
}

/// The subscriptions of this client.
#[derive(Default)]
struct Subscriptions {
    last: u64,
    open: BTreeMap<u64, Listening>,
}

struct Listening {
    channel: Channel,
    heard: UnboundedSender<Heard>,
    /// The number of the subscription at the server, or `None` while the connection is down.
    server_id: Option<u64>,
}

impl Embedded {
    /// Returns a store with a server of its own. `clock` gives Unix milliseconds, and timeouts pass on tokio's clock.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self::on(Arc::new(Server::new(clock)))
    }

    /// Returns the store of this name in this process. All callers that use the name at the same time share one server,
    /// with the clock of the first caller.
    pub fn named(name: &str, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, server| server.strong_count() > 0);
        if let Some(server) = named.get(name).and_then(Weak::upgrade) {
            return Self::on(server);
        }
        let server = Arc::new(Server::new(clock));
        named.insert(name.to_owned(), Arc::downgrade(&server));
        Self::on(server)
    }

    /// Gives this server a name in this process, as if [`named`](Self::named) had made the server, so that a server
    /// with an observer can have a name. A server that has the name already loses it.
    pub fn take_name(&self, name: &str) {
        let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
        named.insert(name.to_owned(), Arc::downgrade(&self.0.server));
    }

    /// Returns a store on a server that may have other clients, also over streams.
    #[must_use]
    pub fn on(server: Arc<Server>) -> Self {
        Self::with_connection(server, |span| Box::pin(pause(span)))
    }

    /// Returns the same server through a new connection, whose timeouts use `wait`. The future of `wait` completes
    /// after the given time.
    #[must_use]
    pub fn waiting_with(self, wait: impl Fn(Duration) -> BoxFuture<()> + Send + Sync + 'static) -> Self {
        Self::with_connection(Arc::clone(&self.0.server), wait)
    }

    /// Returns another client of the same server, whose timeouts pass on tokio's clock.
    #[must_use]
    pub fn another_client(&self) -> Self {
        Self::on(Arc::clone(&self.0.server))
    }

    fn with_connection(
        server: Arc<Server>,
        wait: impl Fn(Duration) -> BoxFuture<()> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Client {
            server,
            connection: ClientConnection::new(Box::new(wait)),
            subscriptions: Mutex::default(),
        }))
    }

    /// Returns the server.
    #[must_use]
    pub fn server(&self) -> &Arc<Server> {
        &self.0.server
    }

    /// Executes a command without the connection, whatever its state, and delivers the messages that the command
    /// published.
    pub fn execute<W: AsRef<[u8]>>(&self, command: &[W]) -> Frame {
        self.0.server.execute(command)
    }

    /// Sets whether replies are lost. The server then still executes the calls, but they end by their timeout, or with
    /// the connection, and have an unknown outcome.
    pub fn lose_replies(&self, lose: bool) {
        self.0.connection.set_losing_replies(lose);
    }

    /// Breaks the connection. Calls in flight end with an unknown outcome, and the store subscribes again and confirms
    /// that to the driver.
    pub fn drop_connection(&self) {
        self.0.connection.cut();
        self.0.hang_up();
        self.0.listen_again();
    }

    /// Sets whether the server is reachable. While it is not, calls fail without being executed, and no message
    /// arrives. The change to unreachable breaks the connection, and the change back subscribes again.
    pub fn set_reachable(&self, reachable: bool) {
        if !self.0.connection.set_reachable(reachable) {
            return;
        }
        if reachable {
            self.0.listen_again();
        } else {
            self.0.connection.cut();
            self.0.hang_up();
        }
    }
}

impl Store for Embedded {
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let client = Arc::clone(&self.0);
        async move {
            let (verb, key) = (call.verb(), call.subject());
            let connection = &client.connection;
            if !connection.is_reachable() {
                return Err(StoreError::new(StoreErrorKind::Unreachable, verb, key, Applied::No));
            }
            let frame = client.server.run(&call);
            if !connection.loses_replies() {
                return read_reply(frame, verb, key);
            }
            let (kind, applied) = connection.silence(timeout).await;
            if kind == StoreErrorKind::Timeout {
                // The other calls in flight on this connection get no answer either, as on a socket.
                connection.cut();
            }
            Err(StoreError::new(kind, verb, key, applied))
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let mut subscriptions = self.0.subscriptions();
        subscriptions.last += 1;
        let id = subscriptions.last;
        let mut listening = Listening { channel, heard, server_id: None };
        if self.0.connection.is_reachable() {
            listening.subscribe(&self.0.server);
        }
        subscriptions.open.insert(id, listening);
        drop(subscriptions);
        let client = Arc::downgrade(&self.0);
        Subscription::new(move || {
            if let Some(client) = client.upgrade() {
                let ended = client.subscriptions().open.remove(&id);
                if let Some(mut ended) = ended {
                    ended.unsubscribe(&client.server);
                }
            }
        })
    }
}

impl Client {
    fn hang_up(&self) {
        self.subscriptions().open.values_mut().for_each(|listening| listening.unsubscribe(&self.server));
    }

    fn listen_again(&self) {
        if self.connection.is_reachable() {
            self.subscriptions().open.values_mut().for_each(|listening| listening.subscribe(&self.server));
        }
    }

    fn subscriptions(&self) -> MutexGuard<'_, Subscriptions> {
        self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listening {
    fn subscribe(&mut self, server: &Server) {
        if self.server_id.is_some() {
            return;
        }
        let (channel, heard) = (self.channel.clone(), self.heard.clone());
        let deliver: Deliver = Box::new(move |message| {
            let _ = heard.send(Heard::Message(channel.clone(), message.payload.clone()));
        });
        let confirm = || {
            let _ = self.heard.send(Heard::Listening(self.channel.clone()));
        };
        self.server_id =
            Some(server.join(SubscriptionKind::Channel, self.channel.as_str().as_bytes(), deliver, confirm));
    }

    fn unsubscribe(&mut self, server: &Server) {
        if let Some(server_id) = self.server_id.take() {
            server.leave(SubscriptionKind::Channel, self.channel.as_str().as_bytes(), server_id, || {});
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Embedded")
    }
}
