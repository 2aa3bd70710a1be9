//! The modes of a run: one server, a quorum, a fleet, or an election.
//!
//! Invariant: the name of a mode is its argument on the command line.

use std::fmt;

/// The world in which a seed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// All primitives but Redlock, on one simulated server.
    Single,
    /// Redlock over three simulated servers.
    Quorum,
    /// All primitives but Redlock, behind sentinels or on a cluster.
    Fleet,
    /// Elections of a leader, on one simulated server.
    Election,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "single",
            Self::Quorum => "quorum",
            Self::Fleet => "fleet",
            Self::Election => "election",
        })
    }
}
