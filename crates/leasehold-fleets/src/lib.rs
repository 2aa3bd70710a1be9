//! Random faults against real fleets, with workers in processes of their own and a judge that reads their logs.
//!
//! Invariant: the judge trusts no state of the library. It reads the logs of the workers and the keys on the servers.
//!
//! # How it works
//! The [`campaign`] starts a fleet and worker processes, and injects one fault after another. Each worker uses all
//! policies of the fleet at once, so each fault tests all of them. A worker writes a line before and after each step,
//! with the monotonic clock that all processes of one machine share. The [`judge`] reports a double grant only for two
//! holds that were both seen valid at one instant, so a double grant is certain.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a laboratory: real servers, real time, and a table on the terminal"
)]

pub mod attempt;
pub mod campaign;
pub mod clock;
pub mod event;
pub mod fault;
pub mod faults;
pub mod fleet;
mod hold;
pub mod judge;
mod kept;
mod logs;
mod network;
pub mod policy;
pub mod report;
mod rush;
mod security;
pub mod subscriptions;
mod user;
pub mod worker;
mod workers;
