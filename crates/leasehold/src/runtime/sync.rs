//! The locks between users and the driver. An interleaving run replaces them with the locks of a scheduler.
//!
//! Invariant: only this file knows the scheduler, and the code above it is the same in both builds.

use std::sync::PoisonError;
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// Locks a mutex. A panic of another holder left no value half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A point between two steps of which another thread may see the first and not yet the second. The scheduler switches
/// threads before its own locks are acquired or released, and elsewhere only at these points.
#[inline]
pub(crate) fn yield_point() {
    #[cfg(shuttle)]
    AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
}
