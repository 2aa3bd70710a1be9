//! Time and randomness, as values that can be replaced.
//!
//! Outside the implementations of [`Runtime`] no code reads a clock, sleeps, spawns or draws random numbers, so a
//! simulator decides all four.

use std::future::Future;
use std::io;
use std::task::Waker;

use leasehold_proto::Moment;
use leasehold_proto::engine::Id;

/// A watch over the pending futures of users.
///
/// The client calls the watch at the beginning of each poll of such a future, on the polling thread and outside all
/// locks, with a number that no other wait of this client has. The client stores the returned waker in place of the
/// given waker.
pub type Watch = Box<dyn Fn(Id, &Waker) -> Waker + Send + Sync>;

/// The services that the driver needs besides a store.
pub trait Runtime: Send + Sync + 'static {
    /// A timer that can be set again and again.
    type Alarm: Alarm;

    /// Returns the time on the suspend-aware monotonic clock.
    fn now(&self) -> Moment;

    /// Returns sixteen random bytes from the operating system, or from a seed.
    fn random(&self) -> [u8; 16];

    /// Starts the driver on its own thread, in its own runtime, out of reach of the user's own tasks, which could
    /// starve it.
    ///
    /// # Errors
    /// Fails when the operating system gives no thread, or no runtime can be made on it.
    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static;

    /// Makes an alarm. The caller is on the driver's thread, inside its runtime.
    ///
    /// # Errors
    /// Fails when the operating system gives no timer.
    fn alarm(&self) -> io::Result<Self::Alarm>;

    /// Returns a watch over the waits of one client (default: none). A test clock uses it to panic when a future waits
    /// and the test does not move the clock.
    fn watch(&self) -> Option<Watch> {
        None
    }
}

/// One timer.
pub trait Alarm {
    /// Completes at `at`, or never when `at` is [`Moment::NEVER`]. It is cancel safe, because dropping the future
    /// disarms nothing that a later call needs.
    fn wait_until(&mut self, at: Moment) -> impl Future<Output = ()>;
}
