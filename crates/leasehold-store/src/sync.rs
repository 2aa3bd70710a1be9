//! The lock of a store. An interleaving run replaces it with the lock of a scheduler.
//!
//! Invariant: only this file knows the scheduler, and the code above it is the same in both builds.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard};
