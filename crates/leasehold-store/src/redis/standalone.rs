//! A single server as a store.
//!
//! Invariant: at most one command connection is current; a call is put on it at most once, and is certainly not
//! executed (`Applied::No`) only if it was never put on one.
//! Called by: the client, which connects; the driver.
//!
//! # How it works
//! A call that finds a live connection is on the wire when its future was first polled. One that finds none stands in
//! line while a task connects; when that succeeds, the task itself puts the line on the wire, in order, before any
//! later call can. When it fails, all who stand in line are told. A call that comes after that stands in line for the next
//! attempt, which begins when the pause of `backoff` is over, however many wait for it.

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
use super::error::Failure;
use super::link::{Carried, Link, Outcome};
use super::pubsub::Listener;
use super::socket::{Dial, RealSockets};
use super::url::ServerUrl;
use crate::store::{Heard, Store, Subscription};
use crate::tokio_runtime::{Instant, Task, pause, pause_until, spawn};

/// A single Redis or Valkey server.
///
/// Two connections: one for commands, made anew by the next call when it broke, and one for subscriptions, opened with
/// the first of them. Dropping the store closes both.
pub struct Redis {
    lane: Arc<Lane>,
    listener: Listener,
}

impl Redis {
    /// Connects to a server, logs in and asks whether it can serve.
    ///
    /// Must be called within the tokio runtime that is to carry the store's connections.
    ///
    /// # Errors
    /// `StoreErrorKind::Unreachable` when nothing answers there, `Timeout` when something accepts and stays silent,
    /// `Malformed` when it is no Redis, `AuthenticationFailed`, `TooManyClients`, `Loading` or another kind that the
    /// server's answer has. No error repeats the password.
    pub async fn connect(url: &ServerUrl, options: ConnectOptions) -> Result<Self, StoreError> {
        Self::connect_through(url, options, Arc::new(RealSockets)).await
    }

    /// A server that is connected to by the first call, which is told if that fails; the next one tries again.
    ///
    /// Must be called within the tokio runtime that is to carry the store's connections.
    #[must_use]
    pub fn lazy(url: &ServerUrl, options: ConnectOptions) -> Self {
        let server = Arc::new(Server::new(url.clone(), options, Arc::new(RealSockets)));
        Self { lane: Lane::new(Arc::clone(&server), State::Idle), listener: Listener::start(server) }
    }

    /// Connects over streams of one's own: for simulators and fuzzers.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), by what the dialer and the other end of its streams do.
    pub async fn connect_through(
        url: &ServerUrl,
        options: ConnectOptions,
        dialer: Arc<dyn Dial>,
    ) -> Result<Self, StoreError> {
        let failed = |failure: Failure| failure.during(Verb::Connect, Arc::from(""));
        let server = Arc::new(Server::new(url.clone(), options, dialer));
        let mut opened = open(&server).await.map_err(failed)?;
        mem::replace(&mut opened.greeting, Ok(())).map_err(failed)?;
        let link = Link::over(opened, &server).await.map_err(failed)?;
        let lane = Lane::new(Arc::clone(&server), State::Live(Arc::new(link)));
        Ok(Self { lane, listener: Listener::start(server) })
    }
}

impl Store for Redis {
    fn run(
        &self,
        mut call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let lane = Arc::clone(&self.lane);
        // Recipes do not know what the server is; a script that publishes is told by an argument of this name how.
        call.set_arg("publish", lane.server.channels().publish());
        let (verb, key) = (call.verb(), call.subject());
        async move { lane.run(call, timeout).await.map_err(|failure| failure.during(verb, key)) }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        self.listener.subscribe(channel, heard)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.lane.close();
    }
}

impl std::fmt::Debug for Redis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redis({})", self.lane.server.url)
    }
}

/// The command connection: the present one, or the next.
struct Lane {
    server: Arc<Server>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: State,
    backoff: Backoff,
    /// Why the last attempt to connect failed, until the next one begins.
    last_failure: Option<Failure>,
}

enum State {
    Idle,
    /// The task pauses or dials; the calls of `line` wait for it.
    Connecting {
        attempt: Task,
        line: Vec<Place>,
    },
    Live(Arc<Link>),
    Closed,
}

/// A call that waits for a connection.
struct Place {
    call: Call,
    turn: oneshot::Sender<Result<Carried, Failure>>,
}

/// Where a call is after it was put.
enum Put {
    OnTheWire(Carried),
    InLine(oneshot::Receiver<Result<Carried, Failure>>),
}

impl Lane {
    fn new(server: Arc<Server>, state: State) -> Arc<Self> {
        let inner = Inner { state, backoff: Backoff::default(), last_failure: None };
        Arc::new(Self { server, inner: Mutex::new(inner) })
    }

    async fn run(self: Arc<Self>, call: Call, timeout: Duration) -> Outcome {
        let mut expiry = pin!(pause(timeout));
        let Carried { link, answer } = match self.put(call)? {
            Put::OnTheWire(carried) => carried,
            Put::InLine(mut turn) => match select(expiry.as_mut(), &mut turn).await {
                Either::Left(_) => self.give_up(turn)?,
                Either::Right((outcome, _)) => outcome.unwrap_or_else(|_| Err(closed()))?,
            },
        };
        match select(answer, expiry).await {
            Either::Left((outcome, _)) => {
                if outcome.as_ref().is_err_and(Failure::spoils_connection) {
                    self.retire(&link);
                } else if link.proves_useful() {
                    self.inner().backoff.forget();
                }
                outcome
            }
            Either::Right(_) => {
                self.cut(&link);
                Err(timed_out(Applied::Unknown))
            }
        }
    }

    /// Puts a call on the wire, or in line for the connection that is being made.
    fn put(self: &Arc<Self>, call: Call) -> Result<Put, Failure> {
        let mut inner = self.inner();
        match &mut inner.state {
            State::Closed => return Err(closed()),
            State::Live(link) if link.is_live() => return Ok(Put::OnTheWire(link.carry(call))),
            State::Connecting { attempt, .. } if !attempt.has_ended() => {}
            State::Idle | State::Live(_) | State::Connecting { .. } => {
                let attempt = spawn(Arc::clone(self).connect(inner.backoff.not_before()));
                inner.state = State::Connecting { attempt, line: Vec::new() };
            }
        }
        let (turn, in_line) = oneshot::channel();
        if let State::Connecting { line, .. } = &mut inner.state {
            line.push(Place { call, turn });
        }
        Ok(Put::InLine(in_line))
    }

    /// Takes a call whose time is over out of the line, unless it is on the wire.
    fn give_up(&self, mut turn: oneshot::Receiver<Result<Carried, Failure>>) -> Result<Carried, Failure> {
        // The task that puts the line on the wire holds the same lock: it has put this call there, or never does.
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
            Ok(opened) => Link::over(opened, &self.server).await,
            Err(failure) => Err(failure),
        };
        let mut inner = self.inner();
        inner.backoff.attempted(&*self.server.dialer);
        // Taking the state out drops the handle of this very task, which would end it at its next await: there is none.
        let State::Connecting { line, .. } = mem::replace(&mut inner.state, State::Idle) else {
            inner.state = State::Closed;
            return;
        };
        match outcome {
            Ok(link) => {
                let link = Arc::new(link);
                for Place { call, turn } in line {
                    // Otherwise its caller has gone, or was told that the call did not run.
                    if !turn.is_closed() {
                        let _ = turn.send(Ok(link.carry(call)));
                    }
                }
                inner.state = State::Live(link);
            }
            Err(failure) => {
                for Place { turn, .. } in line {
                    let _ = turn.send(Err(failure.clone()));
                }
                inner.last_failure = Some(failure);
            }
        }
    }

    /// Lets the next call make a new connection. Calls on the old one are still answered; it closes after the last.
    fn retire(&self, link: &Arc<Link>) {
        let mut inner = self.inner();
        if matches!(&inner.state, State::Live(current) if Arc::ptr_eq(current, link)) {
            inner.state = State::Idle;
        }
    }

    fn cut(&self, link: &Arc<Link>) {
        self.retire(link);
        link.cut();
    }

    fn close(&self) {
        if let State::Live(link) = mem::replace(&mut self.inner().state, State::Closed) {
            link.cut();
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
