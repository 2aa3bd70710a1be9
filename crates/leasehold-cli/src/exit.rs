//! The exit codes of the wrapper besides the command's own.
//!
//! Invariant: every failure before or during the command has one code, and the help text lists them all.

use anyhow::Error;
use leasehold::{AcquireError, InspectError, OperationError};

/// Wrong arguments, names or addresses (`EX_USAGE` of sysexits).
pub(crate) const USAGE: u8 = 64;
/// The server cannot be reached or used (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The command could not be started or supervised, because the system refused a process, a signal handler or the like
/// (`EX_OSERR`).
pub(crate) const SYSTEM: u8 = 71;
/// The lock was lost while the command ran.
pub(crate) const LOST: u8 = 79;
/// The command was found and could not be executed. Shells use the same code.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// The command was not found. Shells use the same code.
pub(crate) const NOT_FOUND: u8 = 127;

/// Returns the exit code, as shells report it, for a process or its work that this signal ended.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The reason for which the wrapper gives up, and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) reason: Error,
}

impl Failure {
    /// Returns the failure for wrong arguments.
    pub(crate) fn usage(reason: impl Into<Error>) -> Self {
        Self { code: USAGE, reason: reason.into() }
    }

    /// Returns the failure for a missing server, or for a server that lacks what a lock needs.
    pub(crate) fn unavailable(reason: impl Into<Error>) -> Self {
        Self { code: UNAVAILABLE, reason: reason.into() }
    }

    /// Returns the failure for a refusal of the operating system.
    pub(crate) fn system(reason: impl Into<Error>) -> Self {
        Self { code: SYSTEM, reason: reason.into() }
    }

    /// Returns true if a call failed that may succeed a little later.
    pub(crate) fn is_retryable(&self) -> bool {
        let of_acquire = self.reason.downcast_ref::<AcquireError>().is_some_and(AcquireError::is_retryable);
        let of_inspect = self.reason.downcast_ref::<InspectError>().is_some_and(InspectError::is_retryable);
        let of_change =
            self.reason.downcast_ref::<OperationError>().is_some_and(OperationError::is_retryable);
        of_acquire || of_inspect || of_change
    }
}
