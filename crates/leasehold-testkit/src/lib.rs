//! Test support for leasehold: real servers, a proxy that injects network faults, and waiting without sleeps.
//!
//! The kit is synchronous and has its own threads, so a test can use it on any runtime or without a runtime. Unix only,
//! because it freezes and thaws servers with signals.
//!
//! Invariant: no process started here outlives the test process, even if the test process is killed.
#![allow(
    clippy::disallowed_methods,
    reason = "test code: real servers are waited for in real time, and the proxy has threads of its own"
)]

#[cfg(feature = "tls")]
pub mod certificates;
pub mod contract;
pub mod fleets;
#[cfg(shuttle)]
pub mod interleavings;
pub mod lateness;
pub mod proxy;
pub mod servers;
pub mod sharding_proxy;
pub mod wait;
