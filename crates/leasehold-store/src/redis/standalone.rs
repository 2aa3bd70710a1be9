//! A single server as a store.
//!
//! Invariant: at most one command connection is current. A call is put on it at most once, and is certainly not
//! executed (`Applied::No`) only if it was never put on a connection.
//!
//! # How it works
//! The first poll of a call writes the call to a live connection. Without such a connection, the call joins a queue
//! while a task connects. When the task succeeds, it writes the queue to the connection, in order, before any later
//! call can. When it fails, every call of the queue fails. A call that comes after that waits in the queue for the next
//! attempt, which begins when the pause of `backoff` is over, however many calls wait for it.

use std::future::Future;
use std::mem;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind, Verb};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::backoff::Backoff;
use super::connect::{ConnectOptions, Server, open};
use super::connection::{Carried, Connection, Outcome};
use super::error::Failure;
use super::pubsub::Listener;
use super::socket::{Dial, RealSockets};
use super::url::ServerUrl;
use crate::store::{Heard, Store, Subscription};
use crate::tokio_runtime::{Instant, Task, pause, pause_until, spawn};

/// A single Redis or Valkey server.
///
/// The store has two connections: one for commands, which the next call replaces when it broke, and one for
/// subscriptions, which opens with the first subscription. Dropping the store closes both.
pub struct Redis {
    command_connection: Arc<CommandConnection>,
    listener: Listener,
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
    pub async fn connect(url: &ServerUrl, options: ConnectOptions) -> Result<Self, StoreError> {
        Self::connect_through(url, options, Arc::new(RealSockets)).await
    }

    /// Creates a store that connects at its first call. That call reports a failure, and the next call tries again.
    ///
    /// The caller must be within the tokio runtime that is to carry the store's connections.
    #[must_use]
    pub fn lazy(url: &ServerUrl, options: ConnectOptions) -> Self {
        let server = Arc::new(Server::new(url.clone(), options, Arc::new(RealSockets)));
        Self {
            command_connection: CommandConnection::new(Arc::clone(&server), State::Idle),
            listener: Listener::start(server),
        }
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
        let failed = |failure: Failure| failure.during(Verb::Connect, Arc::from(""));
        let server = Arc::new(Server::new(url.clone(), options, dialer));
        let mut opened = open(&server).await.map_err(failed)?;
        mem::replace(&mut opened.greeting, Ok(())).map_err(failed)?;
        let connection = Connection::over(opened, &server).await.map_err(failed)?;
        let command_connection =
            CommandConnection::new(Arc::clone(&server), State::Live(Arc::new(connection)));
        Ok(Self { command_connection, listener: Listener::start(server) })
    }
}

impl Store for Redis {
    fn run(
        &self,
        mut call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let command_connection = Arc::clone(&self.command_connection);
        // Recipes do not know the kind of the server, so a script that publishes receives the command to use by an
        // argument of this name.
        call.set_arg("publish", command_connection.server.channels().publish());
        let (verb, key) = (call.verb(), call.subject());
        async move { command_connection.run(call, timeout).await.map_err(|failure| failure.during(verb, key)) }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        self.listener.subscribe(channel, heard)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.command_connection.close();
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.command_connection.server.url)
    }
}

/// The present or the next command connection.
struct CommandConnection {
    server: Arc<Server>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    backoff: Backoff,
    /// The failure of the last attempt to connect, until the next attempt begins.
    last_failure: Option<Failure>,
}

enum State {
    Idle,
    /// The task pauses or dials, and the calls of `queue` wait for it.
    Connecting {
        attempt: Task,
        queue: Vec<QueuedCall>,
    },
    Live(Arc<Connection>),
    Closed,
}

/// A call that waits for a connection.
struct QueuedCall {
    call: Call,
    turn: oneshot::Sender<Result<Carried, Failure>>,
}

/// The result of putting a call, which is on the wire or in the queue then.
enum Put {
    OnTheWire(Carried),
    Queued(oneshot::Receiver<Result<Carried, Failure>>),
}

impl CommandConnection {
    fn new(server: Arc<Server>, state: State) -> Arc<Self> {
        let inner = Inner { state, backoff: Backoff::default(), last_failure: None };
        Arc::new(Self { server, inner: Mutex::new(inner) })
    }

    async fn run(self: Arc<Self>, call: Call, timeout: Duration) -> Outcome {
        let mut expiry = pin!(pause(timeout));
        let Carried { connection, answer } = match self.put(call)? {
            Put::OnTheWire(carried) => carried,
            Put::Queued(mut turn) => match select(expiry.as_mut(), &mut turn).await {
                Either::Left(_) => self.give_up(turn)?,
                Either::Right((outcome, _)) => outcome.unwrap_or_else(|_| Err(closed()))?,
            },
        };
        match select(answer, expiry).await {
            Either::Left((outcome, _)) => {
                if outcome.as_ref().is_err_and(Failure::spoils_connection) {
                    self.retire(&connection);
                } else if connection.proves_useful() {
                    self.inner().backoff.forget();
                }
                outcome
            }
            Either::Right(_) => {
                self.cut(&connection);
                Err(timed_out(Applied::Unknown))
            }
        }
    }

    /// Writes a call to the connection, or queues it for the connection that is being made.
    fn put(self: &Arc<Self>, call: Call) -> Result<Put, Failure> {
        let mut inner = self.inner();
        match &mut inner.state {
            State::Closed => return Err(closed()),
            State::Live(connection) if connection.is_live() => {
                return Ok(Put::OnTheWire(connection.carry(call)));
            }
            State::Connecting { attempt, .. } if !attempt.has_ended() => {}
            State::Idle | State::Live(_) | State::Connecting { .. } => {
                let attempt = spawn(Arc::clone(self).connect(inner.backoff.not_before()));
                inner.state = State::Connecting { attempt, queue: Vec::new() };
            }
        }
        let (turn, queued) = oneshot::channel();
        if let State::Connecting { queue, .. } = &mut inner.state {
            queue.push(QueuedCall { call, turn });
        }
        Ok(Put::Queued(queued))
    }

    /// Takes a call whose time is over out of the queue, unless the call is on the wire.
    fn give_up(&self, mut turn: oneshot::Receiver<Result<Carried, Failure>>) -> Result<Carried, Failure> {
        // The task that writes the queue to the wire holds the same lock, so it has written this call, or never does.
        let inner = self.inner();
        turn.close();
        turn.try_recv().unwrap_or_else(|_| Err(inner.last_failure.clone().unwrap_or(timed_out(Applied::No))))
    }

    async fn connect(self: Arc<Self>, not_before: Option<Instant>) {
        if let Some(at) = not_before {
            pause_until(at).await;
        }
        self.inner().last_failure = None;
        let outcome = match open(&self.server).await {
            Ok(opened) => Connection::over(opened, &self.server).await,
            Err(failure) => Err(failure),
        };
        let mut inner = self.inner();
        inner.backoff.attempted(&*self.server.dialer);
        // Taking the state out drops the handle of this very task, which would end the task at its next await. There is
        // no further await.
        let State::Connecting { queue, .. } = mem::replace(&mut inner.state, State::Idle) else {
            inner.state = State::Closed;
            return;
        };
        match outcome {
            Ok(connection) => {
                let connection = Arc::new(connection);
                for QueuedCall { call, turn } in queue {
                    // A closed sender belongs to a call whose caller is gone, or has an error that reports that the
                    // call did not run.
                    if !turn.is_closed() {
                        let _ = turn.send(Ok(connection.carry(call)));
                    }
                }
                inner.state = State::Live(connection);
            }
            Err(failure) => {
                for QueuedCall { turn, .. } in queue {
                    let _ = turn.send(Err(failure.clone()));
                }
                inner.last_failure = Some(failure);
            }
        }
    }

    /// Lets the next call make a new connection. The old connection still answers its calls, and closes after the last.
    fn retire(&self, connection: &Arc<Connection>) {
        let mut inner = self.inner();
        if matches!(&inner.state, State::Live(current) if Arc::ptr_eq(current, connection)) {
            inner.state = State::Idle;
        }
    }

    fn cut(&self, connection: &Arc<Connection>) {
        self.retire(connection);
        connection.cut();
    }

    fn close(&self) {
        if let State::Live(connection) = mem::replace(&mut self.inner().state, State::Closed) {
            connection.cut();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn timed_out(applied: Applied) -> Failure {
    Failure::new(StoreErrorKind::Timeout, applied)
}

const fn closed() -> Failure {
    Failure::new(StoreErrorKind::Closed, Applied::No)
}

#[cfg(test)]
mod tests;
