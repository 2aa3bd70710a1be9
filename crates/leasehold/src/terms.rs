//! What a hold is to be like, and how it is asked for.
//!
//! Invariant: terms that cannot be met are refused before anything is sent.
//! Called by: the locks and semaphores.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Event, Outcome, Request, Subject, Wait};
use leasehold_proto::{LEASE_MAX, LEASE_MIN, Lease, Owner};

use crate::error::{AcquireErrorKind, SubjectKind};
use crate::guard::Guard;
use crate::shared::Handle;
use crate::ticket::Ticket;

/// The lease that the watchdog renews, unless another is given; Redisson's default.
pub(crate) const WATCHDOG_LEASE: Duration = Duration::from_secs(30);

/// What a hold is to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    lease: Duration,
    watchdog: bool,
    pub(crate) max_renewals: Option<u32>,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) min_hold: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { lease: WATCHDOG_LEASE, watchdog: true, max_renewals: None, max_hold: None, min_hold: None }
    }
}

impl Terms {
    /// A lease that nothing renews.
    pub(crate) const fn fix(&mut self, lease: Duration) {
        (self.lease, self.watchdog) = (lease, false);
    }

    /// A lease that the watchdog renews.
    pub(crate) const fn watch(&mut self, lease: Duration) {
        (self.lease, self.watchdog) = (lease, true);
    }

    /// Whether the watchdog renews it.
    pub(crate) const fn is_watched(&self) -> bool {
        self.watchdog
    }

    /// The same without bounds on the hold.
    pub(crate) const fn unbounded(&self) -> Self {
        Self { max_renewals: None, max_hold: None, min_hold: None, ..*self }
    }

    /// How long the server keeps it without renewal.
    pub(crate) const fn lease(&self) -> Duration {
        self.lease
    }

    /// Refuses bounds that no hold can have.
    pub(crate) fn check(&self) -> Result<(), AcquireErrorKind> {
        if let Some(given) = self.max_hold.filter(|most| *most < LEASE_MIN) {
            return Err(AcquireErrorKind::MaxHold { given });
        }
        // What rests has one lease, so a longer bound on the hold does not help. A fixed lease ends the hold before a rest
        // could begin.
        let lease = if self.watchdog { LEASE_MAX } else { self.lease };
        let most = self.max_hold.unwrap_or(lease).min(lease);
        match self.min_hold.filter(|least| *least > most) {
            Some(given) => Err(AcquireErrorKind::MinHold { given, most }),
            None => Ok(()),
        }
    }

    /// A request on these terms.
    pub(crate) fn request(
        &self,
        subject: Subject,
        owner: Owner,
        wait: Wait,
    ) -> Result<Request, AcquireErrorKind> {
        self.check()?;
        Ok(Request {
            watchdog: self.watchdog,
            max_renewals: self.max_renewals,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            ..Request::new(subject, owner, Lease::new(self.lease)?, wait)
        })
    }
}

/// Asks, and waits for the outcome; `None` when it was somebody else's.
pub(crate) async fn acquire(
    handle: &Arc<Handle>,
    request: Request,
    kind: SubjectKind,
) -> Result<Option<Guard>, AcquireErrorKind> {
    let name = request.subject.name.clone();
    let ticket = Ticket::new(handle, |id| Event::Acquire(id, request));
    let hold = ticket.id();
    match ticket.await? {
        Outcome::Acquired(Ok(grant)) => Ok(Some(Guard::new(handle, hold, (kind, name), grant))),
        Outcome::Acquired(Err(failure)) => AcquireErrorKind::from_failure(failure).map_or(Ok(None), Err),
        other => unreachable!("an acquire settled as {other:?}"),
    }
}

/// Until when to wait, counted from now; a wait of nothing asks once.
pub(crate) fn wait_for(handle: &Handle, wait: Duration) -> Wait {
    if wait.is_zero() { Wait::Once } else { Wait::Until(handle.now() + wait) }
}
