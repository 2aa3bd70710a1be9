//! Interop tests: the real Redisson in a Java process, and leasehold, on the same names.
//!
//! `cargo x interop` builds the Java process, passes its path, and runs these tests. `cargo test` leaves them out. Each
//! primitive has a file of its own, which runs the common tests of `lock_commands` and `crowd`, and then its particular
//! tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks and real time")]
#![allow(clippy::print_stdout, reason = "a process of this program says when it is ready")]

mod child;
mod crowd;
mod election;
mod expirable;
mod fair;
mod fair_deaths;
mod fair_order;
mod fenced;
mod fleets;
mod harness;
mod java;
mod keep_alive;
mod latch;
mod lock;
mod lock_commands;
mod lock_deaths;
mod multi;
mod names;
mod read_write;
mod read_write_deaths;
mod read_write_readers;
mod redisson;
mod semaphore;
mod semaphore_deaths;
mod spin;
#[path = "../it/support/mod.rs"]
mod support;
mod tally;
mod turns;
