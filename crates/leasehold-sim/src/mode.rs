//! The worlds in which a seed can run.
//!
//! Invariant: the name of a mode is its argument on the command line.

use std::fmt;

/// The world in which a seed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mode {
    /// The client on a simulated store that runs the scripts in place.
    Fast,
    /// The client with the real redis-rs over a simulated network.
    Full,
    /// Redlock over three simulated stores.
    Quorum,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fast => "fast",
            Self::Full => "full",
            Self::Quorum => "quorum",
        })
    }
}
