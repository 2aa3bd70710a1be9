//! `leasehold run` from outside: the real program, a real server, real processes, signals and terminals.
//!
//! Tests do not sleep. Each test waits for a condition that must come true, with a limit far beyond the usual time.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "the program under test runs in real time, and so do its tests; a helper that fails fails the test"
)]

mod acl;
mod codes;
mod config;
mod configuration;
mod contention;
mod dashboard;
mod doctor;
mod elections;
mod environment;
mod fixture;
mod frozen;
mod killed;
mod kinds;
mod lost;
mod operators;
mod page;
mod partial;
mod plain;
mod pty;
mod releases;
mod schema;
mod signals;
mod terminal;
mod tickets;
mod top;
