//! One command connection.
//!
//! Invariant: calls go out in the order in which they were given to [`Link::carry`]. One exception: the call that finds
//! its script forgotten (`SCRIPT FLUSH`) was not executed, and goes out again behind those that came after it.
//! Called by: `standalone`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use leasehold_proto::{Applied, Call, Reply, StoreErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use tokio::task::unconstrained;

use super::connect::Opened;
use super::error::Failure;
use super::eval::{eval, evalsha, is_unknown_script, read};
use crate::tokio_runtime::{Task, spawn};

/// How many commands may wait to be written. More than anybody sends: the queue takes memory only for what is in it,
/// and at its end callers would wait unseen.
const QUEUE_MAX: usize = 1 << 16;

/// What a call comes to.
pub(super) type Outcome = Result<Reply, Failure>;

/// One command connection, which ends when this value is dropped.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// Owns the stream.
    driver: Task,
    /// The scripts that were sent in full on this connection, by their hash.
    sent: Mutex<HashSet<&'static str>>,
}

/// A call that is on its way, and the link that carries it.
pub(super) struct Carried {
    pub(super) link: Arc<Link>,
    pub(super) answer: BoxFuture<'static, Outcome>,
}

impl Link {
    /// Puts the client's protocol driver on an opened connection. Its own timeouts and handshake are off.
    pub(super) async fn over(opened: Opened) -> Result<Self, Failure> {
        let handshake = RedisConnectionInfo::default().set_skip_set_lib_name();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE_MAX);
        let (connection, driver) = MultiplexedConnection::new_with_config(&handshake, opened.socket, config)
            .await
            .map_err(|_| Failure::new(StoreErrorKind::ConnectionLost, Applied::No))?;
        Ok(Self { connection, driver: spawn(driver), sent: Mutex::default() })
    }

    /// Whether it still has a stream to write to, as far as is known here.
    pub(super) fn is_live(&self) -> bool {
        !self.driver.has_ended()
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
        // A script's text goes out with its first call on this connection, and its hash with the others. So a server
        // that restarted costs no extra round trip, and no call is sent a second time, behind ones that came later.
        let first = self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(call.script().sha1());
        if !first {
            let answer = self.send(evalsha(&call)).await;
            if !is_unknown_script(&answer) {
                return read(answer);
            }
        }
        read(self.send(eval(&call)).await)
    }

    async fn send(&self, command: Cmd) -> Result<Value, RedisError> {
        self.connection.clone().send_packed_command(&command).await
    }
}
