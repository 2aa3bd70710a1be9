//! One command connection.
//!
//! Invariant: calls go out in the order in which they were given to [`Link::carry`]. One exception: the call that finds
//! its script forgotten (`SCRIPT FLUSH`) was not executed, and goes out again behind those that came after it.
//! Called by: `standalone`.

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

/// How many commands may wait to be written. More than anybody sends: the queue takes memory only for what is in it,
/// and at its end callers would wait unseen.
const QUEUE_MAX: usize = 1 << 16;

/// What a call comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// One command connection, which ends when this value is dropped.
pub(super) struct Link {
    connection: MultiplexedConnection,
    server: Arc<Server>,
    /// Owns the stream.
    driver: Task,
    /// Why the driver has ended, if it is for what the server sent.
    breach: FirstBreach,
    /// Whether an answer has come on it.
    was_useful: AtomicBool,
    /// The scripts that were sent in full on this connection, by their hash.
    sent: Mutex<HashSet<&'static str>>,
    /// The scripts whose channels the user has the right to, by their hash. Only those of a user who is doubted.
    allowed: Mutex<HashSet<&'static str>>,
}

/// A call that is on its way, and the link that carries it.
pub(super) struct Carried {
    pub(super) link: Arc<Link>,
    pub(super) answer: BoxFuture<'static, Outcome>,
}

impl Link {
    /// Puts the client's protocol driver on an opened connection. Its own timeouts and handshake are off.
    pub(super) async fn over(opened: Opened, server: &Arc<Server>) -> Result<Self, Failure> {
        let handshake = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE_MAX);
        let breach = opened.socket.breach();
        let socket = opened.socket.answers_only().map_err(|breach| Failure::breach(breach).of_connect())?;
        let (connection, driver) = MultiplexedConnection::new_with_config(&handshake, socket, config)
            .await
            .map_err(|_| Failure::new(StoreErrorKind::ConnectionLost, Applied::No))?;
        Ok(Self {
            connection,
            server: Arc::clone(server),
            driver: spawn(driver),
            breach,
            was_useful: AtomicBool::new(false),
            sent: Mutex::default(),
            allowed: Mutex::default(),
        })
    }

    /// Whether it still has a stream to write to, as far as is known here.
    pub(super) fn is_live(&self) -> bool {
        !self.driver.has_ended()
    }

    /// Notes a useful answer; says whether it is the first.
    pub(super) fn proves_useful(&self) -> bool {
        !self.was_useful.load(Ordering::Relaxed) && !self.was_useful.swap(true, Ordering::Relaxed)
    }

    /// Closes the stream with a reset. The calls on it end with an unknown outcome.
    pub(super) fn cut(&self) {
        self.driver.end();
    }

    /// Puts a call on the wire, behind all that were put there before.
    pub(super) fn carry(self: &Arc<Self>, call: Call) -> Carried {
        // Unconstrained: tokio's budget could make the first poll stop before the command is in the queue.
        let mut answer = unconstrained(Arc::clone(self).execute(call)).boxed();
        if let Poll::Ready(outcome) = answer.poll_unpin(&mut Context::from_waker(Waker::noop())) {
            answer = ready(outcome).boxed();
        }
        Carried { link: Arc::clone(self), answer }
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
        // A script's text goes out with its first call on this connection, and its hash with the others. So a server
        // that restarted costs no extra round trip, and no call is sent a second time, behind ones that came later.
        let first = locked(&self.sent).insert(hash);
        if !first {
            let answer = self.send(evalsha(&call)).await;
            if !is_unknown_script(&answer) {
                return self.read(answer);
            }
        }
        self.read(self.send(eval(&call)).await)
    }

    /// The reply of a script.
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
        self.connection.clone().send_packed_command(&command).await
    }
}

fn locked<T>(set: &Mutex<T>) -> MutexGuard<'_, T> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}
