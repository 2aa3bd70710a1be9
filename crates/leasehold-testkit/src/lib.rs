//! What the tests of leasehold stand on: real servers, a network that misbehaves on request, and waiting without sleeps.
//!
//! Everything is synchronous and has its own threads, so it can be used from any test, on any runtime or on none.
//! Unix only: servers are frozen and thawed with signals.
//!
//! Invariant: nothing started here outlives the test process, not even when that is killed.
//! Called by: tests and benches, never by library code.
#![allow(
    clippy::disallowed_methods,
    reason = "test code: real servers are waited for in real time, and the proxy has threads of its own"
)]

pub mod contract;
pub mod lateness;
pub mod proxy;
pub mod servers;
pub mod wait;
