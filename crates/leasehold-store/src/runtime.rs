//! Time and chance, as values that can be replaced.
//!
//! Invariant: outside the implementations of [`Runtime`] nothing reads a clock, sleeps, spawns or draws random
//! numbers, so a simulator decides all four.
//! Called by: the driver and the client.

use std::future::Future;
use std::io;
use std::task::Waker;

use leasehold_proto::Moment;
use leasehold_proto::engine::Id;

/// A watch over the futures of users that wait.
///
/// The client calls it at the beginning of each poll of such a future, on the thread that polls and outside all locks,
/// with a number that no other wait of this client has. The client keeps the returned waker in the place of the given one.
pub type Watch = Box<dyn Fn(Id, &Waker) -> Waker + Send + Sync>;

/// What the driver needs of the world besides a store.
pub trait Runtime: Send + Sync + 'static {
    /// A timer that can be set again and again.
    type Alarm: Alarm;

    /// The time on the suspend-aware monotonic clock.
    fn now(&self) -> Moment;

    /// Sixteen random bytes from the operating system, or from a seed.
    fn random(&self) -> [u8; 16];

    /// Starts the driver where the user's own tasks cannot starve it: on a thread of its own, with a runtime of its own.
    ///
    /// # Errors
    /// When the operating system gives no thread, or no runtime can be made on it.
    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static;

    /// Makes an alarm; called on the driver's thread, inside its runtime.
    ///
    /// # Errors
    /// When the operating system gives no timer.
    fn alarm(&self) -> io::Result<Self::Alarm>;

    /// A watch over the waits of one client (default: none). A clock that a test moves panics there when the test leaves
    /// it standing.
    fn watch(&self) -> Option<Watch> {
        None
    }
}

/// One timer.
pub trait Alarm {
    /// Completes at `at` or, when `at` is [`Moment::NEVER`], never. Cancel safe: dropping the future disarms nothing
    /// that a later call needs.
    fn wait_until(&mut self, at: Moment) -> impl Future<Output = ()>;
}
