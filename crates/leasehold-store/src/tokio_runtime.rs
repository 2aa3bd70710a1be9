//! Time and randomness from the operating system, on a tokio runtime.
//!
//! Only this file of the crate reads a clock, sleeps, spawns or draws random numbers.
//!
//! # How it works
//! The clock goes on while the machine is suspended, and so does the timer. On Linux the timer is a `timerfd` of the
//! same clock, set to an absolute time, so a deadline that passed in suspend fires at once on waking. Elsewhere tokio's
//! timer may stop in suspend, so the alarm sleeps on it in short naps, and reads the clock after each nap.

use std::future::Future;
use std::io;
use std::thread;
use std::time::Duration;

use leasehold_proto::Moment;
use rustix::time::{ClockId, clock_gettime};

use crate::runtime::{Alarm, Runtime};

/// The most threads for name lookups, certificates and password files, which a client keeps for its life. A lookup in a
/// silent zone takes half a minute and cannot be ended, and each connection of a dead name makes one every few seconds, so
/// fewer threads than this would leave none for the names that resolve.
const BLOCKING_MAX: usize = 64;
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The longest nap on a timer that may stop in suspend.
const NAP_MAX: Duration = Duration::from_secs(1);

/// The operating system's clock and random numbers, and tokio's reactor for the alarm.
///
/// The clock is `CLOCK_BOOTTIME` on Linux and Android and `CLOCK_MONOTONIC` elsewhere, which on macOS includes the
/// time in suspend.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioRuntime;

impl TokioRuntime {
    /// Returns the runtime of the calling thread, if it is within one.
    #[must_use]
    pub fn callers(&self) -> Option<tokio::runtime::Handle> {
        tokio::runtime::Handle::try_current().ok()
    }

    /// Returns the name of this machine.
    #[must_use]
    pub fn host(&self) -> String {
        rustix::system::uname().nodename().to_string_lossy().into_owned()
    }
}

/// Creates a runtime without threads of its own: of the threads that block on it, one at a time reads for all.
///
/// # Errors
/// Fails if the system refuses a reactor.
pub fn reading_runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()
}

impl Runtime for TokioRuntime {
    type Alarm = TokioAlarm;

    fn now(&self) -> Moment {
        now()
    }

    /// Returns sixteen random bytes from the operating system.
    ///
    /// # Panics
    /// Panics when the operating system has no source of random numbers, because identities could then repeat, and two
    /// clients could believe that they are one client.
    fn random(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the operating system has a source of random numbers");
        bytes
    }

    /// Runs the driver on a thread called `leasehold` until the driver completes. The tasks that the driver spawned end
    /// with it.
    ///
    /// # Errors
    /// Fails when the operating system gives no thread, or not the files that a runtime needs.
    #[expect(clippy::disallowed_methods, reason = "this is the runtime file")]
    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        // A thread for name lookups is kept once there is one. At the system's limit of threads a new one cannot be had,
        // and without a name the client could not connect again.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_MAX)
            .thread_keep_alive(FOREVER)
            .build()?;
        // The driver is also made inside the runtime, because its constructor may need the reactor.
        let run = move || runtime.block_on(async move { driver().await });
        thread::Builder::new().name("leasehold".into()).spawn(run)?;
        Ok(())
    }

    /// Makes a timer of the calling thread's tokio runtime.
    ///
    /// # Errors
    /// Fails when the operating system gives no timer, for example at the limit of open files.
    fn alarm(&self) -> io::Result<TokioAlarm> {
        TokioAlarm::new()
    }
}

fn now() -> Moment {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let time = clock_gettime(CLOCK);
    let since_zero = Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    );
    Moment::default() + since_zero
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub use self::timer_file::TokioAlarm;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod timer_file {
    use std::io;
    use std::os::fd::OwnedFd;

    use leasehold_proto::Moment;
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::tokio_runtime::{Alarm, nap_until, now};

    /// A timer on the suspend-aware clock.
    #[derive(Debug)]
    pub struct TokioAlarm {
        timer: AsyncFd<OwnedFd>,
        armed: Moment,
    }

    impl TokioAlarm {
        #[expect(
            deprecated,
            reason = "the replacement is unsafe; an owned descriptor keeps what it asks for"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let timer = timerfd_create(TimerfdClockId::Boottime, flags)?;
            Ok(Self { timer: AsyncFd::with_interest(timer, Interest::READABLE)?, armed: Moment::NEVER })
        }

        fn arm(&mut self, at: Moment) -> io::Result<()> {
            if at == self.armed {
                return Ok(());
            }
            // A time of zero would disarm the timer instead of firing at once.
            let nanos = at.as_nanos().max(1);
            let time = Itimerspec {
                it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
                it_value: Timespec {
                    tv_sec: (nanos / 1_000_000_000) as _,
                    tv_nsec: (nanos % 1_000_000_000) as _,
                },
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
            self.armed = at;
            Ok(())
        }

        async fn fired(&mut self, at: Moment) -> io::Result<()> {
            self.arm(at)?;
            loop {
                let mut ready = self.timer.readable().await?;
                if now() >= at {
                    // The readiness stays set, because a later call may wait for the same time.
                    return Ok(());
                }
                // This readiness is older than the timer's current time.
                ready.clear_ready();
            }
        }
    }

    impl Alarm for TokioAlarm {
        async fn wait_until(&mut self, at: Moment) {
            if at == Moment::NEVER {
                std::future::pending::<()>().await;
            }
            if self.fired(at).await.is_err() {
                nap_until(at).await;
            }
        }
    }
}

/// A timer on the suspend-aware clock.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub struct TokioAlarm(());

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl TokioAlarm {
    fn new() -> io::Result<Self> {
        Ok(Self(()))
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Alarm for TokioAlarm {
    async fn wait_until(&mut self, at: Moment) {
        nap_until(at).await;
    }
}

/// Sleeps until `at` in naps.
async fn nap_until(at: Moment) {
    loop {
        let remaining = at.since(now());
        if remaining.is_zero() {
            return;
        }
        pause(remaining.min(NAP_MAX)).await;
    }
}

/// Sleeps on tokio's clock.
#[expect(clippy::disallowed_methods, reason = "this is the runtime file")]
pub(crate) fn pause(span: Duration) -> impl Future<Output = ()> + Send {
    tokio::time::sleep(span)
}

#[cfg(feature = "redis")]
pub use self::work::Task;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub(crate) use self::work::{after, until};
#[cfg(feature = "redis")]
pub(crate) use self::work::{clock, current, off_thread, pause_until, random, spawn_on, within};

/// The helpers of the Redis store besides a pause.
#[cfg(feature = "redis")]
mod work {
    use std::future::Future;
    use std::time::Duration;

    use leasehold_proto::Moment;
    use tokio::runtime::Handle;
    use tokio::task::AbortHandle;
    #[cfg(any(test, fuzzing, feature = "tls-ring", feature = "tls-aws-lc"))]
    use tokio::time::Instant;

    #[cfg(not(any(test, fuzzing)))]
    use crate::tokio_runtime::now;
    use crate::tokio_runtime::pause;

    /// Returns the output of `work`, or `None` when the work takes longer than `limit`.
    #[expect(clippy::disallowed_methods, reason = "this is the runtime file")]
    pub(crate) async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(limit, work).await.ok()
    }

    /// Returns the output of `work`, or `None` when the work is not done at `end`.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(crate) async fn until<T>(end: Instant, work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(end, work).await.ok()
    }

    /// Does work that blocks its thread, on a thread that may be blocked.
    ///
    /// # Errors
    /// Fails when the work panics, or the runtime ends.
    pub(crate) async fn off_thread<T: Send + 'static>(
        work: impl FnOnce() -> T + Send + 'static,
    ) -> std::io::Result<T> {
        tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)
    }

    /// Returns the time on tokio's clock when `span` has passed.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[expect(clippy::disallowed_methods, reason = "this is the runtime file")]
    pub(crate) fn after(span: Duration) -> Instant {
        Instant::now() + span
    }

    /// Returns the time on the clock of the store's wires. It is not tokio's: a caller steps a wire on its own thread, in
    /// whose runtime a test may hold that clock or move it.
    #[cfg(not(any(test, fuzzing)))]
    pub(crate) fn clock() -> Moment {
        now()
    }

    /// Returns the time on tokio's clock, which this crate's own tests and the fuzz targets hold and move. They run a wire
    /// on one runtime.
    #[cfg(any(test, fuzzing))]
    #[expect(clippy::disallowed_methods, reason = "this is the runtime file")]
    pub(crate) fn clock() -> Moment {
        static ZERO: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let now = Instant::now();
        Moment::default() + now.saturating_duration_since(*ZERO.get_or_init(|| now))
    }

    /// Sleeps until a moment of the [`clock`] of the wires.
    pub(crate) fn pause_until(at: Moment) -> impl Future<Output = ()> + Send {
        pause(at.since(clock()))
    }

    /// Returns a random number. Without random numbers there is no jitter, which is no reason to fail.
    pub(crate) fn random() -> u64 {
        getrandom::u64().unwrap_or_default()
    }

    /// A task that ends when this value is dropped.
    pub struct Task(Box<dyn Fn() + Send + Sync>);

    /// Starts a task on a tokio runtime.
    pub(crate) fn spawn_on(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> Task {
        Task::of(runtime.spawn(work).abort_handle())
    }

    /// Returns the current tokio runtime.
    pub(crate) fn current() -> Handle {
        Handle::current()
    }

    impl Task {
        /// Makes the value whose drop ends a task in this way.
        pub fn new(end: impl Fn() + Send + Sync + 'static) -> Self {
            Self(Box::new(end))
        }

        fn of(task: AbortHandle) -> Self {
            Self::new(move || task.abort())
        }

        /// Ends the task. The runtime drops the task, and what it owns, before any work that is scheduled later.
        pub(crate) fn end(&self) {
            (self.0)();
        }
    }

    impl std::fmt::Debug for Task {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Task")
        }
    }

    impl Drop for Task {
        fn drop(&mut self) {
            self.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    const A_WHILE: Duration = Duration::from_millis(30);
    const LONG: Duration = Duration::from_secs(3600);

    /// Returns true if the first poll completes the future.
    async fn is_ready(future: impl Future<Output = ()>) -> bool {
        let mut future = pin!(future);
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_clock_continues_during_suspend() {
        let boot_clock = || {
            let time = clock_gettime(ClockId::Boottime);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let (before, read, after) = (boot_clock(), now(), boot_clock());
        assert!((before..=after).contains(&i128::from(read.as_nanos())), "{before} {read:?} {after}");
    }

    #[test]
    fn random_numbers_differ() {
        assert_ne!(TokioRuntime.random(), TokioRuntime.random());
    }

    #[tokio::test]
    async fn an_alarm_never_fires_early() {
        let mut alarm = TokioRuntime.alarm().unwrap();
        for _ in 0..3 {
            let at = now() + A_WHILE;
            alarm.wait_until(at).await;
            assert!(now() >= at);
            assert!(now().since(at) < Duration::from_secs(10));
        }
    }

    #[tokio::test]
    async fn an_alarm_in_the_past_fires_at_once_each_time() {
        let mut alarm = TokioRuntime.alarm().unwrap();
        for at in [Moment::default(), now() - A_WHILE, now() - A_WHILE] {
            alarm.wait_until(at).await;
            alarm.wait_until(at).await;
        }
    }

    #[tokio::test]
    async fn an_alarm_can_be_moved_both_ways() {
        let mut alarm = TokioRuntime.alarm().unwrap();
        assert!(!is_ready(alarm.wait_until(now() + LONG)).await);
        let sooner = now() + A_WHILE;
        alarm.wait_until(sooner).await;
        assert!(now() >= sooner);
        assert!(
            !is_ready(alarm.wait_until(now() + LONG)).await,
            "the old ringing is not taken for the new one"
        );
        assert!(!is_ready(alarm.wait_until(Moment::NEVER)).await);
        alarm.wait_until(now() + A_WHILE).await;
    }

    #[tokio::test]
    async fn a_dropped_wait_is_resumed_by_the_next() {
        let mut alarm = TokioRuntime.alarm().unwrap();
        let at = now() + A_WHILE;
        assert!(!is_ready(alarm.wait_until(at)).await);
        alarm.wait_until(at).await;
        assert!(now() >= at);
    }

    #[tokio::test]
    async fn short_sleeps_add_up_to_the_deadline() {
        let at = now() + A_WHILE;
        nap_until(at).await;
        assert!(now() >= at);
        assert!(!is_ready(nap_until(Moment::NEVER)).await);
    }

    #[test]
    fn the_driver_runs_inside_its_own_runtime() {
        let (done, told) = std::sync::mpsc::channel();
        let driver = move || {
            let alarm = TokioRuntime.alarm();
            async move {
                let name = thread::current().name().map(String::from);
                done.send((alarm.is_ok(), name)).unwrap();
            }
        };
        TokioRuntime.start(driver).unwrap();
        assert_eq!(told.recv().unwrap(), (true, Some("leasehold".into())));
    }
}
