//! One process of the simulated world: its clock, its random numbers and its state.
//!
//! Invariant: time does not pass between two steps of the simulation, so a value that is dropped there sees the time of
//! its world.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::Moment;
use turmoil::net::TcpStream;

use super::barrier::Barrier;
use super::cuts::Cuts;
use super::runtime::spawn;
use crate::clock::Clock;

/// The true time, which all hosts share. A step of the simulation is one millisecond, and no timer is finer.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth(Arc<AtomicU64>);

impl Truth {
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Sets the current time.
    pub(super) fn pass(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// The state that the parts of a process share. A process that starts again after a kill gets a new value.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) truth: Truth,
    pub(super) cuts: Cuts,
    clock: Clock,
    rng: Mutex<Rng>,
    /// The number of user tasks that have not ended.
    users: AtomicUsize,
    /// Closed while the process is paused.
    pub(super) running: Barrier,
    /// Closed while the users of the process are not polled.
    pub(super) polled: Barrier,
    /// Closed while the process can send nothing.
    pub(super) requests: Barrier,
    /// Closed while the process receives nothing.
    pub(super) replies: Barrier,
    /// The number of resets, each of all streams open at the time, and the tasks to wake at the next reset.
    resets: Mutex<(u64, Vec<Waker>)>,
    /// The streams that were closed during a kill, or `None` at other times.
    left: Mutex<Option<Vec<TcpStream>>>,
}

impl Process {
    pub(super) fn new(number: usize, truth: Truth, cuts: Cuts, clock: Clock, rng: Rng) -> Self {
        let barrier = Barrier::default;
        let (running, polled, requests, replies) = (barrier(), barrier(), barrier(), barrier());
        let (rng, users) = (Mutex::new(rng), AtomicUsize::new(0));
        let (resets, left) = (Mutex::default(), Mutex::default());
        Self { number, truth, cuts, clock, rng, users, running, polled, requests, replies, resets, left }
    }

    /// Begins the kill. From now on, closed streams are kept back and send nothing. A runtime that ends drops its tasks
    /// in an order that depends on the number of tasks that the program has ever had.
    pub(super) fn kill(&self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    }

    /// Ends the kill by dropping the kept streams outside of the simulated network.
    pub(super) fn bury(&self) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }

    pub(super) fn close(&self, stream: TcpStream) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = left.as_mut() {
            left.push(stream);
        }
    }

    /// Resets the open streams of the process.
    pub(super) fn reset_streams(&self) {
        let wakers = {
            let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
            resets.0 += 1;
            std::mem::take(&mut resets.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of resets so far.
    pub(super) fn resets(&self) -> u64 {
        self.resets.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the number of resets so far, and wakes `waker` at the next reset.
    pub(super) fn watch_resets(&self, waker: &Waker) -> u64 {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        if !resets.1.iter().any(|known| known.will_wake(waker)) {
            resets.1.push(waker.clone());
        }
        resets.0
    }

    /// Starts a task of a user, which is paused with the process.
    pub(super) fn start(self: &Arc<Self>, user: impl Future<Output = ()> + 'static) {
        self.users.fetch_add(1, Ordering::Relaxed);
        let process = Arc::clone(self);
        let task = async move {
            user.await;
            process.users.fetch_sub(1, Ordering::Relaxed);
        };
        spawn(self.running.around(self.polled.around(task)));
    }

    /// Returns the number of user tasks that have not ended.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Returns the time on the clock of the process.
    pub(super) fn now(&self) -> Moment {
        Moment::default() + self.clock.reading(self.truth.now())
    }

    /// Returns the true time until the clock shows `at`, unless it jumps.
    pub(super) fn until(&self, at: Moment) -> Duration {
        self.clock.truth_of(at.since(Moment::default())).saturating_sub(self.truth.now())
    }

    /// Draws a random value.
    pub(super) fn draw<T>(&self, what: impl FnOnce(&mut Rng) -> T) -> T {
        what(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
