//! Fixtures of the example's tests: a database, copies of the service, and an HTTP client.
//!
//! Invariant: each started process stops when its value is dropped, or when this process ends.
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

pub(crate) mod copy;
pub(crate) mod database;
mod http;
