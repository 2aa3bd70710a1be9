//! One command connection.
//!
//! Invariant: calls are written in the order in which they were given to [`Connection::carry`]. There is one exception.
//! A call whose script the server has forgotten (`SCRIPT FLUSH`) was not executed, and is written again behind the
//! calls that came after it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use leasehold_proto::recipe::rights;
use leasehold_proto::{Applied, Call, Reply, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, RedisConnectionInfo, RedisError, Value};
use tokio::task::unconstrained;

use super::bounds::FirstBreach;
use super::connect::{Opened, Server};
use super::error::Failure;
use super::eval::{eval, eval_checked, evalsha, is_unknown_script, malformed, read};
use crate::tokio_runtime::{Task, spawn};

/// The maximum number of commands that wait to be written. No client sends as many. The queue takes memory only for its
/// present content, and at its limit callers would wait unseen.
const QUEUE_MAX: usize = 1 << 16;

/// The outcome of a call.
pub(super) type Outcome = Result<Reply, Failure>;

/// One command connection, which ends when this value is dropped.
pub(super) struct Connection {
    multiplexed: MultiplexedConnection,
    server: Arc<Server>,
    /// The task that owns the stream.
    driver: Task,
    /// The reason why the driver has ended, if a violation of the protocol ended it.
    breach: FirstBreach,
    /// True if an answer has come on this connection.
    was_useful: AtomicBool,
    /// The scripts that were sent in full on this connection, by their hash.
    sent: Mutex<HashSet<&'static str>>,
    /// The scripts whose channels the user has the right to, by their hash. The set is used only if that right is
    /// uncertain.
    allowed: Mutex<HashSet<&'static str>>,
}

/// A call in flight, and the connection that carries it.
pub(super) struct Carried {
    pub(super) connection: Arc<Connection>,
    pub(super) answer: BoxFuture<'static, Outcome>,
}

impl Connection {
    /// Starts the Redis client's protocol task on an opened connection, without its own timeouts and handshake.
    pub(super) async fn over(opened: Opened, server: &Arc<Server>) -> Result<Self, Failure> {
        let handshake = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE_MAX);
        let breach = opened.socket.breach();
        let socket = opened.socket.answers_only().map_err(|breach| Failure::breach(breach).of_connect())?;
        let (multiplexed, driver) = MultiplexedConnection::new_with_config(&handshake, socket, config)
            .await
            .map_err(|_| Failure::new(StoreErrorKind::ConnectionLost, Applied::No))?;
        Ok(Self {
            multiplexed,
            server: Arc::clone(server),
            driver: spawn(driver),
            breach,
            was_useful: AtomicBool::new(false),
            sent: Mutex::default(),
            allowed: Mutex::default(),
        })
    }

    /// Returns true if the connection still has a stream to write to, as far as this client knows.
    pub(super) fn is_live(&self) -> bool {
        !self.driver.has_ended()
    }

    /// Records a useful answer, and returns true if it is the first.
    pub(super) fn proves_useful(&self) -> bool {
        !self.was_useful.load(Ordering::Relaxed) && !self.was_useful.swap(true, Ordering::Relaxed)
    }

    /// Closes the stream with a reset. The calls on it end with an unknown outcome.
    pub(super) fn cut(&self) {
        self.driver.end();
    }

    /// Writes a call to the connection, behind all earlier calls.
    pub(super) fn carry(self: &Arc<Self>, call: Call) -> Carried {
        // The future is unconstrained, because tokio's budget could make the first poll stop before the command is in
        // the queue.
        let mut answer = unconstrained(Arc::clone(self).execute(call)).boxed();
        if let Poll::Ready(outcome) = answer.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            answer = ready(outcome).boxed();
        }
        Carried { connection: Arc::clone(self), answer }
    }

    async fn execute(self: Arc<Self>, call: Call) -> Outcome {
        let hash = call.script().sha1();
        if self.server.doubts_channels() && !locked(&self.allowed).contains(hash) {
            let channels = self.server.channels();
            if let Some(checked) = rights::checked(&call, channels.publish(), channels.subscribe()) {
                let outcome = self.read(self.send(eval_checked(&call, &checked)).await);
                if !outcome.as_ref().is_err_and(|failure| failure.kind == StoreErrorKind::PermissionDenied) {
                    locked(&self.allowed).insert(hash);
                }
                return outcome;
            }
        }
        // The first call of a script on this connection carries the text, and the later calls carry the hash. So a
        // restarted server costs no extra round trip, and no call goes out a second time, behind later calls.
        let first = locked(&self.sent).insert(hash);
        if !first {
            let answer = self.send(evalsha(&call)).await;
            if !is_unknown_script(&answer) {
                return self.read(answer);
            }
        }
        self.read(self.send(eval(&call)).await)
    }

    /// Converts the reply of a script.
    fn read(&self, answer: Result<Value, RedisError>) -> Outcome {
        match answer {
            Ok(value) => read(value),
            Err(error) if error.kind() == ErrorKind::Parse => Err(malformed()),
            Err(_) => Err(match self.breach.get() {
                Some(&breach) => Failure::breach(breach),
                None => Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown),
            }),
        }
    }

    async fn send(&self, command: Cmd) -> Result<Value, RedisError> {
        self.multiplexed.clone().send_packed_command(&command).await
    }
}

fn locked<T>(set: &Mutex<T>) -> MutexGuard<'_, T> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
