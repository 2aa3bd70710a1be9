//! The locks that users and the driver meet at, and in an interleaving run those of a scheduler in their place.
//!
//! Invariant: this is the only file that knows of the scheduler; what stands above it is the same code in both.
//! Called by: the shared state.

#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::AtomicU64;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

/// A place between two things of which another thread may see the first and not yet the second. The scheduler stops
/// before its own locks are taken or given back, and nowhere else unless it is told.
#[inline]
pub(crate) fn gap() {
    #[cfg(shuttle)]
    shuttle::sync::atomic::AtomicBool::new(false).load(std::sync::atomic::Ordering::SeqCst);
}
