//! The connection between a client and the server inside the process. A test can make it fail.
//!
//! Invariant: a call whose reply was lost ends by its timeout or with the connection, never by itself.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::{Applied, StoreErrorKind};
use tokio::sync::watch;

/// A future in a box.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A timer, whose future completes after the given time.
pub(super) type Wait = Box<dyn Fn(Duration) -> BoxFuture<()> + Send + Sync>;

/// The faults of a connection.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    unreachable: bool,
    loses_replies: bool,
}

/// One client's connection.
pub(super) struct ClientConnection {
    faults: Mutex<Faults>,
    /// The number of times that the connection broke.
    breaks: watch::Sender<u64>,
    wait: Wait,
}

impl ClientConnection {
    pub(super) fn new(wait: Wait) -> Self {
        Self { faults: Mutex::default(), breaks: watch::Sender::new(0), wait }
    }

    pub(super) fn is_reachable(&self) -> bool {
        !self.faults().unreachable
    }

    pub(super) fn loses_replies(&self) -> bool {
        self.faults().loses_replies
    }

    /// Sets whether the server is reachable. Returns true if the state changes.
    pub(super) fn set_reachable(&self, reachable: bool) -> bool {
        let mut faults = self.faults();
        std::mem::replace(&mut faults.unreachable, !reachable) == reachable
    }

    pub(super) fn set_losing_replies(&self, losing: bool) {
        self.faults().loses_replies = losing;
    }

    /// Ends every call in flight.
    pub(super) fn cut(&self) {
        self.breaks.send_modify(|breaks| *breaks += 1);
    }

    /// Returns the end of a call whose reply does not come.
    pub(super) fn silence(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = (StoreErrorKind, Applied)> + use<> {
        let mut breaks = self.breaks.subscribe();
        let waited = (self.wait)(timeout);
        async move {
            let mut waited = waited;
            let mut broke = pin!(breaks.changed());
            let kind = poll_fn(|cx| {
                if broke.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(StoreErrorKind::ConnectionLost);
                }
                waited.as_mut().poll(cx).map(|()| StoreErrorKind::Timeout)
            });
            (kind.await, Applied::Unknown)
        }
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
