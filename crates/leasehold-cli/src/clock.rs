//! The clocks of the wrapper and its watcher, and their threads.
//!
//! Invariant: every other file of this crate gets its instants, sleeps and threads from here. The library decides how
//! long the lock is held, and not this clock.
#![expect(clippy::disallowed_methods, reason = "the command line's runtime file: nothing here is simulated")]

use std::io;
use std::os::fd::BorrowedFd;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use tokio::time::sleep_until;

#[cfg(any(target_os = "linux", target_os = "android"))]
use {
    nix::sys::timerfd::{ClockId as TimerClock, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags},
    std::os::fd::AsFd,
};

pub(crate) use tokio::time::Instant;

pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the instant that is this far away, at most a year.
pub(crate) fn after(wait: Duration) -> Instant {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now() + wait.min(YEAR)
}

/// Waits for an instant, or forever when there is none.
pub(crate) async fn reached(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

/// Returns the time since this machine started, suspends included. All processes of the machine share this time, and no
/// process can set it.
pub(crate) fn boot() -> Duration {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
    clock_gettime(CLOCK).map(Duration::from).expect("the system has this clock")
}

/// Returns the time of day in milliseconds since 1970, for comparison with the clock of a server. Nothing waits by it.
pub(crate) fn wall_ms() -> i64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).map(Duration::from).unwrap_or_default();
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// A descriptor that becomes readable at a time of [`boot`], also when the machine was suspended before that time. A
/// poll's own timeout stops in suspend. Systems without such a timer use the poll's timeout.
#[derive(Debug)]
pub(crate) struct Alarm {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    timer: Option<TimerFd>,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Alarm {
    pub(crate) fn new() -> Self {
        Self { timer: TimerFd::new(TimerClock::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC).ok() }
    }

    /// Arms the descriptor for this time, instead of any earlier time.
    pub(crate) fn set(&mut self, moment: Option<Duration>) -> Option<BorrowedFd<'_>> {
        let timer = self.timer.as_ref()?;
        // A time of zero would disarm the timer.
        let moment = moment?.max(Duration::from_nanos(1));
        timer.set(Expiration::OneShot(moment.into()), TimerSetTimeFlags::TFD_TIMER_ABSTIME).ok()?;
        Some(timer.as_fd())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Alarm {
    pub(crate) fn new() -> Self {
        Self {}
    }

    pub(crate) fn set(&mut self, _: Option<Duration>) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Starts a thread that ends when its work is done.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}
