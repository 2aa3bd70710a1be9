//! The lateness of the machine, measured during a test that asserts a time.
//!
//! Invariant: a bound exceeds the promise at most by the machine's lateness while the test ran, plus a fixed ten
//! milliseconds. On a quiet machine the lateness is a fraction of a millisecond.
//!
//! # How it works
//! Probe threads, one for each core, sleep for a millisecond repeatedly and record the excess of each sleep. The
//! excess is the time that a thread waits for a processor. A measured path crosses several threads (a timer, the
//! driver, the caller's runtime, the server), so it may be late by several times as much.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The number of threads that a measured path crosses.
const HOPS: u32 = 4;
/// The slack that every bound has. Timers count in whole milliseconds and round up at each hop, and the machine may
/// delay a measured thread while both probes sleep.
const SLACK: Duration = Duration::from_millis(10);
/// The sleep of a probe.
const NAP: Duration = Duration::from_millis(1);

/// Measures the machine's lateness from its start until it is dropped.
#[derive(Debug)]
pub struct Lateness {
    shared: Arc<Shared>,
    probes: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// The longest lateness of a finished nap.
    worst_ns: AtomicU64,
    /// The starts of the current naps, counted from the start of the measurement. The calling thread may wake before a
    /// probe does.
    naps_ns: Vec<AtomicU64>,
    ended: AtomicBool,
}

impl Lateness {
    /// Starts the probes.
    #[must_use]
    pub fn start() -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let shared = Arc::new(Shared {
            started: Instant::now(),
            worst_ns: AtomicU64::new(0),
            naps_ns: (0..cores).map(|_| AtomicU64::new(0)).collect(),
            ended: AtomicBool::new(false),
        });
        let probe = |number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.probe(number))
        };
        let probes = (0..cores).map(probe).collect();
        Self { shared, probes }
    }

    /// Returns the time by which the machine may have delayed a path of several threads so far.
    #[must_use]
    pub fn allowance(&self) -> Duration {
        let now_ns = self.shared.elapsed_ns();
        let under_way = self.shared.naps_ns.iter().map(|nap| late_ns(now_ns, nap.load(Ordering::Relaxed)));
        let worst_ns = under_way.fold(self.shared.worst_ns.load(Ordering::Relaxed), u64::max);
        SLACK + Duration::from_nanos(worst_ns) * HOPS
    }

    /// Asserts that a duration does not exceed the promise by more than the lateness of the machine.
    ///
    /// # Panics
    /// Panics if it took longer.
    #[track_caller]
    pub fn assert_within(&self, what: impl fmt::Display, promised: Duration, took: Duration) {
        let allowance = self.allowance();
        assert!(
            took <= promised + allowance,
            "{what} took {took:?}; promised are {promised:?}, and the machine was late by {allowance:?} at most"
        );
    }
}

impl Shared {
    fn elapsed_ns(&self) -> u64 {
        self.started.elapsed().as_nanos().try_into().unwrap_or(u64::MAX)
    }

    #[expect(clippy::disallowed_methods, reason = "the lateness of a sleep is what the probe measures")]
    fn probe(&self, number: usize) {
        while !self.ended.load(Ordering::Relaxed) {
            let began_ns = self.elapsed_ns();
            self.naps_ns[number].store(began_ns, Ordering::Relaxed);
            thread::sleep(NAP);
            self.worst_ns.fetch_max(late_ns(self.elapsed_ns(), began_ns), Ordering::Relaxed);
        }
    }
}

/// Returns the lateness at `now_ns` of a nap that began at `began_ns`.
fn late_ns(now_ns: u64, began_ns: u64) -> u64 {
    let nap_ns = u64::try_from(NAP.as_nanos()).unwrap_or(u64::MAX);
    now_ns.saturating_sub(began_ns).saturating_sub(nap_ns)
}

impl Drop for Lateness {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        for probe in self.probes.drain(..) {
            // A probe never panics.
            let _ = probe.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_within_the_bound_passes_and_a_longer_one_fails() {
        let lateness = Lateness::start();
        let hour = Duration::from_secs(3600);
        lateness.assert_within("nothing", hour, hour);
        let too_long = std::panic::AssertUnwindSafe(|| lateness.assert_within("it", hour, 3 * hour));
        assert!(std::panic::catch_unwind(too_long).is_err());
    }

    #[test]
    fn the_allowance_grows_with_the_measured_lateness() {
        let lateness = Lateness::start();
        crate::wait::eventually(Duration::from_secs(20), "a late nap", || lateness.allowance() > SLACK);
    }
}
