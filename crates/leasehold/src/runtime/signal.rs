//! The signals of the engine to one future, and to the guard that the future returns: a wake-up, an offered grant, the
//! outcome of a release, and the validity of the hold.
//!
//! Invariant: no foreign code runs under the engine's lock. A future registers its waker here before it takes the lock.
//! The holder of the lock collects signals, and wakes them after it has unlocked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use futures_util::task::AtomicWaker;
use leasehold_proto::engine::{Grant, Offer, Outcome};
use leasehold_proto::{ClientId, Moment, WireOwner};

use crate::runtime::sync::{AtomicU8, AtomicU64};

/// The waker of one future, its offer, and the time until which its hold may be trusted.
#[derive(Default)]
pub(crate) struct Signal {
    waker: AtomicWaker,
    /// In nanoseconds on the client's clock, and zero before the grant and after the end of the hold.
    trusted_until: AtomicU64,
    /// The outcome of a release, or the state of an offer.
    state: AtomicU8,
    /// The offered grant: the number of its wire owner, its token or [`NO_TOKEN`], and the end of the offer in nanoseconds.
    wire: AtomicU64,
    token: AtomicU64,
    offered_until: AtomicU64,
}

// The states. A signal belongs to an acquire or to a release, so an offer and the outcome of a release never meet.
const EMPTY: u8 = 0;
const NOT_HELD: u8 = 1;
const HELD: u8 = 2;
const OFFERED: u8 = 3;
const TAKEN: u8 = 4;

/// No token. Those of a server are below 2^53.
const NO_TOKEN: u64 = u64::MAX;

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
        self.state.store(if held { HELD } else { NOT_HELD }, Ordering::Release);
    }

    /// Returns the outcome of a release, once it is delivered.
    pub(crate) fn released(&self) -> Option<Outcome> {
        let held = match self.state.load(Ordering::Acquire) {
            HELD => true,
            NOT_HELD => false,
            _ => return None,
        };
        Some(Outcome::Released(Ok(held)))
    }

    /// Offers a grant, which the future may take without the engine's lock.
    pub(crate) fn offer(&self, offer: &Offer) {
        // Whoever reads these has seen the state below.
        self.trust_until(offer.valid_until);
        self.wire.store(offer.grant.wire.number(), Ordering::Relaxed);
        self.token.store(offer.grant.token.unwrap_or(NO_TOKEN), Ordering::Relaxed);
        self.offered_until.store(offer.until.as_nanos(), Ordering::Relaxed);
        self.state.store(OFFERED, Ordering::Release);
    }

    /// Returns true if there is an offer to take.
    pub(crate) fn has_offer(&self) -> bool {
        self.state.load(Ordering::Acquire) == OFFERED
    }

    /// Takes the offered grant, if there is one and its time is not over.
    pub(crate) fn take_offer(&self, now: Moment, client: ClientId) -> Option<Outcome> {
        if !self.has_offer() || now.as_nanos() >= self.offered_until.load(Ordering::Relaxed) {
            return None;
        }
        let taken = self.state.compare_exchange(OFFERED, TAKEN, Ordering::AcqRel, Ordering::Relaxed);
        taken.ok()?;
        let wire = WireOwner::new(client, self.wire.load(Ordering::Relaxed));
        let token = Some(self.token.load(Ordering::Relaxed)).filter(|token| *token != NO_TOKEN);
        Some(Outcome::Acquired(Ok(Grant { wire, token })))
    }

    /// Takes the offer back, unless the future has taken it. Returns true if it has.
    pub(crate) fn recall(&self) -> bool {
        let recalled = self.state.compare_exchange(OFFERED, EMPTY, Ordering::AcqRel, Ordering::Acquire);
        recalled == Err(TAKEN)
    }

    /// Returns true if the future has taken its offer.
    pub(crate) fn is_taken(&self) -> bool {
        self.state.load(Ordering::Acquire) == TAKEN
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
