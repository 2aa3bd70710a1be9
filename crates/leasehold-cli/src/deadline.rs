//! Keeps the watcher informed until when the lock is held.
//!
//! A thread of its own looks how long the lock is held without another renewal, 32 times in a lease, and tells the watcher a
//! deadline that has moved. The supervisor's thread cannot do that: a message to a full stderr may block it while
//! the lock is renewed all the same. A wrapper that stood still until a deadline it had told finds the command struck, and
//! takes that for a loss, also when a renewal that it had not told yet keeps the lock.
//!
//! Invariant: a deadline told is never later than the validity of the hold by more than half of the drift that the
//! validity leaves off the lease, so at a deadline the server still keeps the lock. Within it, a wrapper that runs acts first.
//! Called by: `run`, which starts it; the supervisor, for the loss and for stops.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::{boot, spawn};
use crate::orders::Orders;
use crate::supervise::OnLost;
use crate::watcher::Watcher;

/// How often to look in a lease.
const LOOKS: u32 = 32;
/// The shortest time between two looks.
const PAUSE: Duration = Duration::from_millis(1);
/// By how much the watcher's SIGKILL follows the wrapper's own: it is there for a wrapper that stopped during the grace.
const BEHIND: Duration = Duration::from_millis(100);

/// The thread and the watcher. Dropping it ends the thread, and lets the watcher strike.
#[derive(Debug)]
pub(crate) struct Deadline {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// The watcher has struck, and the supervisor may not know.
    struck: Notify,
}

#[derive(Debug)]
struct State {
    /// `None` when it was dismissed, and in tests without one.
    watcher: Option<Watcher>,
    phase: Phase,
    on_lost: OnLost,
    grace: Duration,
    /// The end of the validity as it was last told.
    until: Duration,
    told: Orders,
    /// The longest validity seen, which is the lease less the drift.
    longest: Duration,
}

/// What the command is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// Suspended together with the wrapper.
    Suspended,
    /// Nothing is told by the thread any more.
    Over,
}

impl Deadline {
    /// Tells the first deadline, and goes on telling. `remaining` is how long the lock is held without another renewal.
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
        deadline.shared.lock().look(&remaining);
        let shared = Arc::clone(&deadline.shared);
        deadline.thread = Some(spawn("deadline", move || shared.keep_telling(&remaining))?);
        Ok(deadline)
    }

    /// Without a watcher.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        Self::new(None, OnLost::Ignore, Duration::ZERO)
    }

    fn new(watcher: Option<Watcher>, on_lost: OnLost, grace: Duration) -> Self {
        let (until, told, phase) = (Duration::ZERO, Orders::default(), Phase::Running);
        let state = State { watcher, phase, on_lost, grace, until, told, longest: Duration::ZERO };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), struck: Notify::new() });
        Self { shared, thread: None }
    }

    /// The lock is lost, and the command has its grace to end. Returns how much of it is left when the watcher has struck
    /// already, as after a stop of the wrapper; `None` when the SIGTERM is the caller's to send.
    pub(crate) fn lose(&self) -> Option<Duration> {
        let mut state = self.shared.lock();
        state.phase = Phase::Over;
        let now = boot();
        if state.told.term.is_some() && state.has_struck(now) {
            return Some(state.told.kill.unwrap_or(now).saturating_sub(now));
        }
        let kill = Some(now + state.grace + BEHIND);
        state.tell(Orders { kill, ..Orders::default() });
        None
    }

    /// Resolves when the watcher has struck and the hold may still be kept.
    pub(crate) fn struck(&self) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move { shared.struck.notified().await }
    }

    /// Whether the watcher has struck, also when its thread has not told yet.
    pub(crate) fn has_struck(&self) -> bool {
        self.shared.lock().has_struck(boot())
    }

    /// The wrapper is about to stop, as its command did: at the deadline nothing of the command may run, and its end waits
    /// until both go on.
    pub(crate) fn suspend(&self) {
        self.shared.enter(Phase::Running, Phase::Suspended);
    }

    /// Both go on.
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

    fn keep_telling(&self, remaining: &impl Fn() -> Duration) {
        let mut state = self.lock();
        while state.phase != Phase::Over {
            if state.has_struck(boot()) {
                state.phase = Phase::Over;
                return self.struck.notify_one();
            }
            let left = state.look(remaining);
            let pause = (left / 2).min(state.longest / LOOKS).max(PAUSE);
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Tells the deadline as it is, with what it means in the new phase.
    fn enter(&self, from: Phase, to: Phase) {
        let mut state = self.lock();
        if state.phase == from {
            state.phase = to;
            let deadline = state.told.stop.or(state.told.term).or(state.told.kill);
            // One that has passed is a loss, of which the supervisor says what becomes of the command.
            let deadline = deadline.filter(|deadline| *deadline > boot());
            let orders = deadline.map_or_else(Orders::default, |deadline| state.orders(deadline));
            state.tell(orders);
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Tells a deadline that has moved; returns how long the lock is held.
    fn look(&mut self, remaining: &impl Fn() -> Duration) -> Duration {
        // The clock first: the deadline is too early rather than too late.
        let now = boot();
        let left = remaining();
        self.longest = self.longest.max(left);
        if !left.is_zero()
            && now + left > self.until + PAUSE
            && self.tell(self.orders(now + left + left / 200))
        {
            self.until = now + left;
        }
        left
    }

    /// Whether the watcher has ended the command, or is about to.
    fn has_struck(&mut self, now: Duration) -> bool {
        let moment = self.told.term.or(self.told.kill);
        moment.is_some_and(|moment| moment <= now) && self.watcher.as_mut().is_some_and(Watcher::lives)
    }

    /// What the watcher is to do at the deadline.
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

    /// Whether the watcher was told. One that does not read is told again at the next look.
    fn tell(&mut self, orders: Orders) -> bool {
        let told = self.watcher.as_mut().is_some_and(|watcher| watcher.tell(orders).is_ok());
        if told {
            self.told = orders;
        }
        told
    }
}
