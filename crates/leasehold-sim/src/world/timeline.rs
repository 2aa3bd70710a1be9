//! Simulated time, which passes only while no task is ready.
//!
//! Invariant: timers fire in the order of their times. Timers with equal times fire in the order in which they were set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The true time of a world.
#[derive(Default)]
pub(crate) struct Timeline {
    now_ns: AtomicU64,
    timers: Mutex<Timers>,
}

#[derive(Default)]
struct Timers {
    set: u64,
    heap: BinaryHeap<Reverse<Timer>>,
}

struct Timer {
    at_ns: u64,
    number: u64,
    waker: Waker,
}

impl Timeline {
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    /// Sleeps until a true time.
    pub(crate) fn sleep_until(self: &Arc<Self>, at: Duration) -> Sleep {
        Sleep { timeline: Arc::clone(self), at, set_for: None }
    }

    /// Sleeps for a duration.
    pub(crate) fn sleep(self: &Arc<Self>, span: Duration) -> Sleep {
        self.sleep_until(self.now().saturating_add(span))
    }

    /// Lets time pass to the next timer and wakes its task, if that timer is due by `limit`. Otherwise lets time pass to
    /// `limit`.
    pub(crate) fn pass(&self, limit: Duration) -> bool {
        let mut timers = self.timers();
        let due = |timers: &Timers, by: u64| timers.heap.peek().is_some_and(|Reverse(next)| next.at_ns <= by);
        if !due(&timers, nanos(limit)) {
            self.now_ns.fetch_max(nanos(limit), Ordering::Relaxed);
            return false;
        }
        let Some(Reverse(first)) = timers.heap.pop() else { return false };
        let now = self.now_ns.fetch_max(first.at_ns, Ordering::Relaxed).max(first.at_ns);
        let mut fired = vec![first.waker];
        while due(&timers, now) {
            fired.extend(timers.heap.pop().map(|Reverse(timer)| timer.waker));
        }
        drop(timers);
        fired.into_iter().for_each(Waker::wake);
        true
    }

    fn set(&self, at: Duration, waker: Waker) {
        let mut timers = self.timers();
        timers.set += 1;
        let timer = Timer { at_ns: nanos(at), number: timers.set, waker };
        timers.heap.push(Reverse(timer));
    }

    fn timers(&self) -> MutexGuard<'_, Timers> {
        self.timers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A sleep until a true time. A dropped sleep leaves a timer behind, which wakes its task without need.
pub(crate) struct Sleep {
    timeline: Arc<Timeline>,
    at: Duration,
    set_for: Option<Waker>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.timeline.now() >= self.at {
            return Poll::Ready(());
        }
        if !self.set_for.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            self.timeline.set(self.at, cx.waker().clone());
            self.set_for = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}
