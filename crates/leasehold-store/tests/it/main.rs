//! The integration tests of the stores, as one program: a module for each subject.
//!
//! Invariant: no test depends on another, and each starts servers of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks, servers that a test plays, and real time")]
#![allow(clippy::print_stdout, reason = "a test prints its counts")]

#[cfg(all(feature = "redis", feature = "embedded"))]
mod batches;
#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod common;
#[cfg(feature = "redis")]
mod confirmed;
#[cfg(feature = "redis")]
mod connection;
#[cfg(all(feature = "redis", feature = "embedded"))]
mod contract;
#[cfg(all(feature = "redis", feature = "embedded"))]
mod described;
#[cfg(feature = "embedded")]
mod differential;
#[cfg(feature = "embedded")]
mod embedded;
#[cfg(feature = "listener")]
mod embedded_listener;
#[cfg(feature = "redis")]
mod entrance;
#[cfg(feature = "redis")]
mod errors;
#[cfg(feature = "redis")]
mod fleets;
#[cfg(all(feature = "redis", feature = "embedded"))]
mod grants;
#[cfg(feature = "redis")]
mod on_disk;
#[cfg(feature = "redis")]
mod rights;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod sentinel_access;
#[cfg(feature = "redis")]
mod strangers;
#[cfg(feature = "redis")]
mod subscriptions;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod tls;
