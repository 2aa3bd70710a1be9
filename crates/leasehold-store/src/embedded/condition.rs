//! The states in which a server refuses to work.
//!
//! Invariant: the error texts equal those of redis-server 7.0.15.

/// A state in which a server refuses some or all commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// The memory limit is reached. Commands that need memory are refused, unless their script has written already.
    OutOfMemory,
    /// A replica, which refuses writes.
    ReadOnly,
    /// A script does not end. All commands are refused, except those for the login and the connection.
    Busy,
    /// The server reads its data from disk. Commands on keys, scripts and PING are refused.
    Loading,
    /// A replica without its master that must not serve old data. Commands on keys, scripts and PING are refused,
    /// writes with the text of [`ReadOnly`](Self::ReadOnly).
    MasterDown,
    /// Too few replicas are connected, so writes are refused.
    NoReplicas,
    /// The last save failed, so writes are refused.
    Misconfigured,
}

impl Condition {
    /// Returns the text of the server's error.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::OutOfMemory => "OOM command not allowed when used memory > 'maxmemory'.",
            Self::ReadOnly => "READONLY You can't write against a read only replica.",
            Self::Busy => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            Self::Loading => "LOADING Redis is loading the dataset in memory",
            Self::MasterDown => {
                "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
            }
            Self::NoReplicas => "NOREPLICAS Not enough good replicas to write.",
            Self::Misconfigured => {
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. \
                 Commands that may modify the data set are disabled, because this instance is configured to report \
                 errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check \
                 the Redis logs for details about the RDB error."
            }
        }
    }
}
