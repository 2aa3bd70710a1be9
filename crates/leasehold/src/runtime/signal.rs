//! The signals of the engine to one future, and to the guard that the future returns: a wake-up, the outcome of a
//! release, and the validity of the hold.
//!
//! Invariant: no foreign code runs under the engine's lock. A future registers its waker here before it takes the lock.
//! The holder of the lock collects signals, and wakes them after it has unlocked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use futures_util::task::AtomicWaker;
use leasehold_proto::Moment;
use leasehold_proto::engine::Outcome;

use crate::runtime::sync::{AtomicU8, AtomicU64};

/// The waker of one future, and the time until which its hold may be trusted.
#[derive(Default)]
pub(crate) struct Signal {
    waker: AtomicWaker,
    /// In nanoseconds on the client's clock, and zero before the grant and after the end of the hold.
    trusted_until: AtomicU64,
    /// The outcome of a release.
    released: AtomicU8,
}

// The outcomes of a release. Zero is none yet.
const NOT_HELD: u8 = 1;
const HELD: u8 = 2;

impl Signal {
    /// Registers the waker of the future's present poll in place of the earlier one. Only the future itself calls this.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Wakes the future's task, unless it was woken since it registered its waker. The waker is foreign code, and this can
    /// be the thread of the client or of another caller, so a panic of the waker stays here. The panic hook has reported it.
    pub(crate) fn wake(&self) {
        drop(catch_unwind(AssertUnwindSafe(|| self.waker.wake())));
    }

    /// Drops the waker of a future that has completed.
    pub(crate) fn forget_waker(&self) {
        drop(self.waker.take());
    }

    /// Delivers the outcome of a release: true if the lock was held until then.
    pub(crate) fn set_released(&self, held: bool) {
        self.released.store(if held { HELD } else { NOT_HELD }, Ordering::Release);
    }

    /// Returns the outcome of a release, once it is delivered.
    pub(crate) fn released(&self) -> Option<Outcome> {
        let held = match self.released.load(Ordering::Acquire) {
            HELD => true,
            NOT_HELD => false,
            _ => return None,
        };
        Some(Outcome::Released(Ok(held)))
    }

    /// Sets the time until which the hold may be trusted.
    pub(crate) fn trust_until(&self, until: Moment) {
        self.trusted_until.store(until.as_nanos(), Ordering::Release);
    }

    /// Returns the time until which the hold may be trusted.
    pub(crate) fn trusted_until(&self) -> Moment {
        Moment::from_nanos(self.trusted_until.load(Ordering::Acquire))
    }
}

/// A waiting future as the engine's lock knows it.
pub(crate) struct Listener {
    pub(crate) signal: Arc<Signal>,
    /// True from the wake-up of the future to its next poll.
    pub(crate) woken: bool,
}
