//! The names of the hosts, and the port of the server.
//!
//! Invariant: every host has one of these names.

/// The host name of the server.
pub(super) const HOST: &str = "server";
/// The port of the server.
pub(super) const PORT: u16 = 6379;

/// The prefix of the host name of a process, before the number of the process.
pub(super) const PROCESS: &str = "process-";
