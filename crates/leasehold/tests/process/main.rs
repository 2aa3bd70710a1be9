//! Integration tests that need processes of their own: several processes on one lock, and an installed client, which
//! stays installed for the life of its process.
//!
//! Invariant: a test that needs another process starts this program again, for the same test. A variable of the
//! environment names the part to play.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks and real time")]

mod child;
mod installed;
mod processes;
#[path = "../it/support/mod.rs"]
mod support;
