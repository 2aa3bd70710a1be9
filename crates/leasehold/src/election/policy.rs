//! What ends a term as planned, and how `lead` reports.
//!
//! Invariant: each of these is a level. A reader that comes late sees the same as one that was there.

use std::fmt;
use std::sync::Arc;

use leasehold_proto::WireOwner;

use super::level::Level;
use crate::error::AcquireError;

/// The reason why a leader is asked to end its term.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// [`Stopper::stop`] was called. There is no further term.
    Stopped,
    /// An operator or another process asks for the end of the term.
    Requested,
    /// An operator or another process asks the leader to pass its term on to this candidate.
    Transfer(Arc<str>),
    /// The gate is closed, for this reason.
    Closed(Arc<str>),
    /// The term has reached [`max_term`](crate::Election::max_term).
    MaxTerm,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the election was stopped here"),
            Self::Requested => f.write_str("another process asked for the end of the term"),
            Self::Transfer(to) => write!(f, "another process asked for a transfer to {to:?}"),
            Self::Closed(reason) => write!(f, "the gate is closed: {reason}"),
            Self::MaxTerm => f.write_str("the term reached its max_term"),
        }
    }
}

/// The effect of a lost lease on the body of [`Election::lead`](crate::Election::lead).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnLost {
    /// Drops the body at its next await point.
    #[default]
    Cancel,
    /// Lets the body run on, although another process may lead. The body has to watch [`Term::lost`](super::Term::lost) or
    /// [`Term::is_valid`](super::Term::is_valid) itself.
    Finish,
    /// Ends the process with this exit code, without running destructors. For bodies that block their thread, and so
    /// cannot be dropped.
    Exit(i32),
}

/// The outcome of [`Election::lead`](crate::Election::lead).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Led {
    /// The number of terms.
    pub terms: u64,
    /// The token of the last term.
    pub last: Option<u64>,
}

/// The reason why [`Election::lead`](crate::Election::lead) ended without a stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeadError<E> {
    /// The candidate cannot lead, and another attempt would fail too: an invalid name or setting, a name of another kind, a
    /// closed client, or rights that were missing from the start.
    Campaign(AcquireError),
    /// The body failed. The lock was released afterwards.
    Body(E),
}

impl<E: fmt::Display> fmt::Display for LeadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Campaign(error) => error.fmt(f),
            Self::Body(error) => write!(f, "the leader's body failed: {error}"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for LeadError<E> {}

/// Says whether this process is fit to lead. A closed gate makes no attempts and, after
/// [`unhealthy_for`](crate::Election::unhealthy_for), asks its leader to end the term. Cheap to clone.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::election::Gate;
///
/// let gate = Gate::new();
/// let election = client.election("scheduler").when(&gate);
/// gate.close("the database is read-only"); // by a health check
/// assert!(!gate.is_open());
/// gate.open();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Gate(Arc<Level<Option<Arc<str>>>>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Level::new(None)))
    }
}

impl Gate {
    /// Creates an open gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.0.change(|closed| *closed = None);
    }

    /// Closes the gate. The leader's [`Term::asked`](crate::Term::asked) has the reason.
    pub fn close(&self, reason: &str) {
        self.0.change(|closed| *closed = Some(reason.into()));
    }

    /// Returns true if the gate is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.get().is_none()
    }

    /// Returns the reason for which the gate is closed.
    pub(super) fn reason(&self) -> Option<Arc<str>> {
        self.0.get()
    }

    /// Waits until the gate is open or not.
    pub(super) async fn until(&self, open: bool) {
        self.0.until(|closed| (closed.is_none() == open).then_some(())).await;
    }
}

/// Ends the terms of an [`Election`](crate::Election) and of its clones, for example at SIGTERM.
/// [`Election::stopper`](crate::Election::stopper) creates it.
#[derive(Clone, Debug)]
pub struct Stopper(pub(super) Arc<Stop>);

/// Whether an election is stopped, and how many calls of `lead` run.
#[derive(Debug)]
pub(super) struct Stop {
    is_stopped: Level<bool>,
    running: Level<usize>,
}

/// A running call of `lead`.
pub(super) struct Running(Arc<Stop>);

impl Default for Stop {
    fn default() -> Self {
        Self { is_stopped: Level::new(false), running: Level::new(0) }
    }
}

impl Stop {
    pub(super) fn begin(self: Arc<Self>) -> Running {
        self.running.change(|running| *running += 1);
        Running(self)
    }

    pub(super) async fn stopped(&self) {
        self.is_stopped.until(|is_stopped| is_stopped.then_some(())).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.change(|running| *running -= 1);
    }
}

impl Stopper {
    /// Asks the body of [`Election::lead`](crate::Election::lead) to end, and completes when each `lead` of the election has
    /// returned: the body has ended or, after [`grace`](crate::Election::grace), was dropped, and the lock is released. A
    /// candidate that waits ends at once. A later `lead` of the same election returns without a term.
    ///
    /// Do not await it in the body: it waits for the body to end.
    ///
    /// # Cancel safety
    /// The stop stays, and a second call waits for the same end.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let election = client.election("scheduler");
    /// let stopper = election.stopper();
    /// let leading = election.lead(async |term| {
    ///     term.asked().await; // works until it is asked to stop
    ///     Ok::<(), std::io::Error>(())
    /// });
    /// let (led, ()) = tokio::join!(leading, stopper.stop());
    /// assert!(led?.terms <= 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn stop(&self) {
        self.0.is_stopped.change(|is_stopped| *is_stopped = true);
        self.0.running.until(|running| (*running == 0).then_some(())).await;
    }
}

/// What a term is asked and whether it is over, which its holder and the messages of others change.
#[derive(Debug)]
pub(super) struct Asks {
    pub(super) token: u64,
    /// The wire owner of the leader.
    pub(super) owner: WireOwner,
    /// The name of the leader.
    pub(super) candidate: Arc<str>,
    asked: Level<Option<Asked>>,
    /// True once the term has ended as planned.
    is_over: Level<bool>,
}

impl Asks {
    pub(super) fn new(token: u64, owner: WireOwner, candidate: Arc<str>) -> Arc<Self> {
        let (asked, is_over) = (Level::new(None), Level::new(false));
        Arc::new(Self { token, owner, candidate, asked, is_over })
    }

    pub(super) fn end(&self) {
        self.is_over.change(|is_over| *is_over = true);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    pub(super) async fn over(&self) {
        self.is_over.until(|is_over| is_over.then_some(())).await;
    }

    /// Asks for the end. The first reason stays, except that a stop replaces it.
    pub(super) fn ask(&self, reason: Asked) {
        self.asked.change(|asked| {
            if asked.is_none() || reason == Asked::Stopped {
                *asked = Some(reason);
            }
        });
    }

    pub(super) fn reason(&self) -> Option<Asked> {
        self.asked.get()
    }

    pub(super) async fn asked(&self) -> Asked {
        self.asked.until(Clone::clone).await
    }
}
