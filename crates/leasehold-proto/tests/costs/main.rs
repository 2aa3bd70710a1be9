//! The costs of calls and of the engine: scripts, round trips, allocations, bytes, and the growth of times.
//!
//! Each test prints its figures. Counts have exact bounds. Times are only compared with each other, as the least of
//! several runs, so that a busy machine changes no verdict.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]

mod calls;
mod harness;
mod memory;
mod scripts;
mod steps;
mod times;
