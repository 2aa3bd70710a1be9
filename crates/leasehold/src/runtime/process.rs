//! The process that made a client, and the check that the present process is the same.
//!
//! Invariant: the check makes no system call and takes no lock, so each entry point can make it first. A handler of
//! `pthread_atfork` counts the forks of which a process is the child.

use crate::error::Forked;

/// The process that made a client. A forked child has a copy of the client, and must not touch it.
#[derive(Debug)]
pub(crate) enum Process {
    /// The process, with the number of forks at that time.
    Real(forkguard::Guard),
    /// A parent of the test's process.
    #[cfg(test)]
    Parent,
}

impl Process {
    /// Returns the present process.
    ///
    /// # Panics
    /// Panics if the system has no memory for the handler of forks.
    pub(crate) fn current() -> Self {
        Self::Real(forkguard::new())
    }

    /// Refuses a forked child. Its copy of the engine believes in holds that belong to the parent, and the parent's lock
    /// may be held forever.
    pub(crate) fn check(&self) -> Result<(), Forked> {
        let is_other = match self {
            // A copy, because a guard reports a fork only once.
            Self::Real(guard) => guard.clone().detected_fork(),
            #[cfg(test)]
            Self::Parent => true,
        };
        if is_other { Err(Forked) } else { Ok(()) }
    }
}
