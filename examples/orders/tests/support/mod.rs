//! What the test of the example stands on: a database, copies of the service, and a small HTTP client.
//!
//! Invariant: everything that is started is stopped by its process id when its value is dropped, or when this process ends.
//! Called by: `two_copies.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

pub(crate) mod copy;
pub(crate) mod database;
mod http;
