//! The deadlines of the watcher, which follow the renewals of the lock.
//!
//! A thread of its own reads the validity of the hold 32 times in a lease, and sends the watcher a deadline that has
//! moved. The supervisor's thread cannot do that, because a message to a full stderr may block it while the lock is
//! renewed all the same. If the wrapper does not run until a deadline that it has sent, the watcher ends the command.
//! The wrapper then treats this as a loss, even if a renewal whose deadline it had not sent yet keeps the lock.
//!
//! Invariant: a sent deadline is never later than the validity of the hold by more than half of the drift that the
//! validity leaves off the lease, so at a deadline the server still keeps the lock. Before it, a wrapper that runs acts
//! first.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{boot, spawn};
use crate::on_lost::OnLost;
use crate::orders::Orders;
use crate::watcher::Watcher;

/// The number of checks in a lease.
const CHECKS_PER_LEASE: u32 = 32;
/// The shortest time between two checks.
const PAUSE: Duration = Duration::from_millis(1);
/// The time by which the watcher's SIGKILL follows the wrapper's own, for a wrapper that stopped during the grace.
const KILL_MARGIN: Duration = Duration::from_millis(100);

/// The thread and the watcher. Dropping it ends the thread, and makes the watcher end the command.
#[derive(Debug)]
pub(crate) struct Deadline {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Signals that the watcher has acted, which the supervisor may not know.
    acted: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` after the dismissal, and in tests without a watcher.
    watcher: Option<Watcher>,
    phase: Phase,
    on_lost: OnLost,
    grace: Duration,
    /// The end of the validity that was last sent.
    until: Duration,
    sent: Orders,
    /// The longest validity seen, which is the lease less the drift.
    longest: Duration,
}

/// The state of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Suspended together with the wrapper.
    Suspended,
    /// The thread sends no more deadlines.
    Over,
}

impl Deadline {
    /// Sends the first deadline, and starts the thread. `remaining` returns the time for which the lock is held without
    /// another renewal.
    pub(crate) fn start(
        watcher: Watcher,
        on_lost: OnLost,
        grace: Duration,
        remaining: impl Fn() -> Duration + Send + 'static,
    ) -> io::Result<Self> {
        let mut deadline = Self::new(Some(watcher), on_lost, grace);
        if on_lost == OnLost::Ignore {
            return Ok(deadline);
        }
        deadline.shared.lock().check(&remaining);
        let shared = Arc::clone(&deadline.shared);
        deadline.thread = Some(spawn("deadline", move || shared.keep_sending(&remaining))?);
        Ok(deadline)
    }

    /// Returns a deadline without a watcher.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::new(None, OnLost::Ignore, Duration::ZERO)
    }

    fn new(watcher: Option<Watcher>, on_lost: OnLost, grace: Duration) -> Self {
        let (until, sent, phase) = (Duration::ZERO, Orders::default(), Phase::Running);
        let state = State { watcher, phase, on_lost, grace, until, sent, longest: Duration::ZERO };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), acted: Notify::new() });
        Self { shared, thread: None }
    }

    /// Records the loss. The command has its grace to end. Returns the rest of the grace when the watcher has already
    /// acted, as after a stop of the wrapper, or `None` when the caller must send the SIGTERM.
    pub(crate) fn lose(&self) -> Option<Duration> {
        let mut state = self.shared.lock();
        state.phase = Phase::Over;
        let now = boot();
        if state.sent.term.is_some() && state.has_acted(now) {
            return Some(state.sent.kill.unwrap_or(now).saturating_sub(now));
        }
        let kill = Some(now + state.grace + KILL_MARGIN);
        state.send(Orders { kill, ..Orders::default() });
        None
    }

    /// Resolves when the watcher has acted although the lock may still be held.
    pub(crate) fn acted(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move { shared.acted.notified().await }
    }

    /// Returns true if the watcher has acted, even if the thread has not reported it yet.
    pub(crate) fn has_acted(&self) -> bool {
        self.shared.lock().has_acted(boot())
    }

    /// Prepares for a stop of the wrapper, whose command has stopped. At the deadline no part of the command may run,
    /// and its end waits until both go on.
    pub(crate) fn suspend(&self) {
        self.shared.enter(Phase::Running, Phase::Suspended);
    }

    /// Records that both go on.
    pub(crate) fn resume(&self) {
        self.shared.enter(Phase::Suspended, Phase::Running);
    }

    /// Ends the thread and the watcher.
    pub(crate) fn dismiss(self) {
        if let Some(watcher) = self.shared.lock().watcher.take() {
            watcher.dismiss();
        }
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        self.shared.lock().phase = Phase::Over;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep_sending(&self, remaining: &impl Fn() -> Duration) {
        let mut state = self.lock();
        while state.phase != Phase::Over {
            if state.has_acted(boot()) {
                state.phase = Phase::Over;
                return self.acted.notify_one();
            }
            let left = state.check(remaining);
            let pause = (left / 2).min(state.longest / CHECKS_PER_LEASE).max(PAUSE);
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Sends the present deadline again, with its meaning in the new phase.
    fn enter(&self, from: Phase, to: Phase) {
        let mut state = self.lock();
        if state.phase == from {
            state.phase = to;
            let deadline = state.sent.stop.or(state.sent.term).or(state.sent.kill);
            // A deadline that has passed is a loss, and the supervisor decides about the command then.
            let deadline = deadline.filter(|deadline| *deadline > boot());
            let orders = deadline.map_or_else(Orders::default, |deadline| state.orders(deadline));
            state.send(orders);
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Sends a deadline that has moved. Returns the time for which the lock is held.
    fn check(&mut self, remaining: &impl Fn() -> Duration) -> Duration {
        // The clock comes first, because a deadline may be too early but not too late.
        let now = boot();
        let left = remaining();
        self.longest = self.longest.max(left);
        if !left.is_zero()
            && now + left > self.until + PAUSE
            && self.send(self.orders(now + left + left / 200))
        {
            self.until = now + left;
        }
        left
    }

    /// Returns true if the watcher has ended the command, or is about to.
    fn has_acted(&mut self, now: Duration) -> bool {
        let moment = self.sent.term.or(self.sent.kill);
        moment.is_some_and(|moment| moment <= now) && self.watcher.as_mut().is_some_and(Watcher::is_running)
    }

    /// Returns the watcher's orders for the deadline.
    fn orders(&self, deadline: Duration) -> Orders {
        let at = Some(deadline);
        match (self.phase, self.on_lost) {
            (_, OnLost::Ignore) | (Phase::Over, _) => Orders::default(),
            (Phase::Suspended, _) => Orders { stop: at, ..Orders::default() },
            (Phase::Running, OnLost::Kill) => Orders { kill: at, ..Orders::default() },
            (Phase::Running, OnLost::Term) => {
                Orders { term: at, kill: Some(deadline + self.grace), ..Orders::default() }
            }
        }
    }

    /// Returns true if the watcher has received the orders. The next check repeats them to a watcher that does not
    /// read.
    fn send(&mut self, orders: Orders) -> bool {
        let sent = self.watcher.as_mut().is_some_and(|watcher| watcher.send(orders).is_ok());
        if sent {
            self.sent = orders;
        }
        sent
    }
}
