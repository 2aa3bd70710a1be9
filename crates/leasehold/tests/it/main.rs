//! The integration tests of the library, as one program: a module for each subject.
//!
//! Invariant: every conclusion of a test comes from the server itself, and no test depends on another. A test that needs
//! a process of its own belongs to `tests/process/`.

#![allow(clippy::unwrap_used, reason = "helpers of tests are test code too")]
#![allow(clippy::disallowed_methods, reason = "test code: tasks, threads and real time")]
#![allow(clippy::print_stdout, reason = "a test prints its counts")]
#![warn(future_incompatible)]

mod acl;
mod application;
mod bad_input;
mod bad_servers;
mod blocking;
mod callers_runtime;
mod cancellation;
mod config;
mod confirmed;
mod count_down_latch;
mod credentials;
mod defaults;
mod determinism;
mod dialer;
mod election;
mod errors;
mod exclusion;
mod expirable_semaphore;
mod fair_lock;
mod faults;
mod fenced_lock;
mod fleets;
mod floods;
mod foreign_panics;
mod guard;
mod health;
mod lock;
mod locked;
mod locked_in_macros;
mod memory;
mod min_hold;
mod moves;
mod multi_lock;
mod observe;
mod on_disk;
mod permits_unknown;
mod plain_lock;
mod promised_times;
mod proxies;
mod redlock;
mod reentry;
mod round_trips;
mod rw_leases;
mod rw_lock;
mod rw_waiting;
mod section;
mod semaphore;
mod semaphore_fifo;
mod spin_lock;
mod support;
mod testing;
mod tickets;
mod turns;
mod unknown_outcomes;
mod visible;
mod waiting;
#[cfg(feature = "tracing")]
mod warnings;
mod watchdog;
mod wire;
mod wire_read_write;
mod wire_semaphores;
