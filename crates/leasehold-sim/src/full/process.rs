//! One process of the simulated world: its clock, its chance, and whether it runs.
//!
//! Invariant: time stands still between two steps of the simulation, so nothing that is dropped there sees another time
//! than its world does.
//! Called by: the runtime and the sockets of the process; the world.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::Moment;
use turmoil::net::TcpStream;

use super::gate::Gate;
use super::net::Cuts;
use super::runtime::spawn;
use crate::clock::Clock;

/// The true time, which all hosts share: a step of the simulation is one millisecond, and no timer is finer.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth(Arc<AtomicU64>);

impl Truth {
    pub(super) fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// It is so late now.
    pub(super) fn pass(&self, now: Duration) {
        self.0.store(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// What the parts of a process share. One that begins anew after a kill is another value.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) truth: Truth,
    pub(super) cuts: Cuts,
    clock: Clock,
    rng: Mutex<Rng>,
    /// Tasks of users that have not ended.
    users: AtomicUsize,
    /// Closed while it stands still.
    pub(super) running: Gate,
    /// Closed while its users are not polled.
    pub(super) polled: Gate,
    /// Closed while nothing that it writes gets out.
    pub(super) requests: Gate,
    /// Closed while nothing gets in.
    pub(super) replies: Gate,
    /// Grows when all streams of before are reset, and who has to know.
    resets: Mutex<(u64, Vec<Waker>)>,
    /// The streams that it had when it was killed, once it was.
    left: Mutex<Option<Vec<TcpStream>>>,
}

impl Process {
    pub(super) fn new(number: usize, truth: Truth, cuts: Cuts, clock: Clock, rng: Rng) -> Self {
        let gate = Gate::default;
        let (running, polled, requests, replies) = (gate(), gate(), gate(), gate());
        let (rng, users) = (Mutex::new(rng), AtomicUsize::new(0));
        let (resets, left) = (Mutex::default(), Mutex::default());
        Self { number, truth, cuts, clock, rng, users, running, polled, requests, replies, resets, left }
    }

    /// Its end begins: from now on its streams close without a word. In which order a runtime that goes drops its tasks
    /// depends on how many tasks the program has ever had.
    pub(super) fn kill(&self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
    }

    /// Its end is over, outside of the simulated network.
    pub(super) fn bury(&self) {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(left);
    }

    /// Closes a stream.
    pub(super) fn close(&self, stream: TcpStream) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = left.as_mut() {
            left.push(stream);
        }
    }

    /// Resets the streams that it has.
    pub(super) fn reset_streams(&self) {
        let wakers = {
            let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
            resets.0 += 1;
            std::mem::take(&mut resets.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// How often its streams were reset.
    pub(super) fn resets(&self) -> u64 {
        self.resets.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// The same, and wakes at the next one.
    pub(super) fn watch_resets(&self, waker: &Waker) -> u64 {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        if !resets.1.iter().any(|known| known.will_wake(waker)) {
            resets.1.push(waker.clone());
        }
        resets.0
    }

    /// Starts a task of a user's, which stands still with the process.
    pub(super) fn start(self: &Arc<Self>, user: impl Future<Output = ()> + 'static) {
        self.users.fetch_add(1, Ordering::Relaxed);
        let process = Arc::clone(self);
        let life = async move {
            user.await;
            process.users.fetch_sub(1, Ordering::Relaxed);
        };
        spawn(self.running.around(self.polled.around(life)));
    }

    /// How many tasks of users have not ended.
    pub(super) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// What its clock says.
    pub(super) fn now(&self) -> Moment {
        Moment::default() + self.clock.says(self.truth.now())
    }

    /// How long until its clock says so, in true time, unless it jumps.
    pub(super) fn until(&self, at: Moment) -> Duration {
        self.clock.truth_of(at.since(Moment::default())).saturating_sub(self.truth.now())
    }

    /// Draws.
    pub(super) fn draw<T>(&self, what: impl FnOnce(&mut Rng) -> T) -> T {
        what(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
