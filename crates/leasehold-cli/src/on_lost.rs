//! The option `--on-lost`.
//!
//! Invariant: the values equal the values in the help text.

/// The action on the command when the lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnLost {
    // SIGTERM to the command's group, SIGKILL after the grace. No doc comments, because clap would add them to the help.
    Term,
    // SIGKILL at once.
    Kill,
    // Warn, and let the command go on.
    Ignore,
}
