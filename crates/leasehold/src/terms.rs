//! The terms of a hold, and the acquire that requests them.
//!
//! Invariant: terms that no hold can meet are refused before anything is sent.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Event, Outcome, Request, Subject, Wait};
use leasehold_proto::{LEASE_MAX, LEASE_MIN, Lease, Owner};

use crate::error::{AcquireErrorKind, SubjectKind};
use crate::lock::guard::Guard;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;

/// The default lease of the watchdog, as in Redisson.
pub(crate) const WATCHDOG_LEASE: Duration = Duration::from_secs(30);

/// The terms of a hold: its lease and its bounds.
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
    /// Sets a lease that is not renewed.
    pub(crate) const fn fix(&mut self, lease: Duration) {
        (self.lease, self.watchdog) = (lease, false);
    }

    /// Sets a lease that the watchdog renews.
    pub(crate) const fn watch(&mut self, lease: Duration) {
        (self.lease, self.watchdog) = (lease, true);
    }

    /// Returns true if the watchdog renews the lease.
    pub(crate) const fn is_watched(&self) -> bool {
        self.watchdog
    }

    /// Returns the same terms without bounds on the hold.
    pub(crate) const fn unbounded(&self) -> Self {
        Self { max_renewals: None, max_hold: None, min_hold: None, ..*self }
    }

    /// Returns the time for which the server keeps the hold without a renewal.
    pub(crate) const fn lease(&self) -> Duration {
        self.lease
    }

    /// Refuses bounds that no hold can have.
    pub(crate) fn check(&self) -> Result<(), AcquireErrorKind> {
        if let Some(given) = self.max_hold.filter(|most| *most < LEASE_MIN) {
            return Err(AcquireErrorKind::MaxHold { given });
        }
        // A released hold gets one lease for the rest of its minimum, so a longer maximum does not help. A fixed lease
        // ends the hold before the rest of its minimum could begin.
        let lease = if self.watchdog { LEASE_MAX } else { self.lease };
        let most = self.max_hold.unwrap_or(lease).min(lease);
        match self.min_hold.filter(|least| *least > most) {
            Some(given) => Err(AcquireErrorKind::MinHold { given, most }),
            None => Ok(()),
        }
    }

    /// Creates a request with these terms.
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

/// Sends the request and waits for the outcome, which is `None` if another owner holds the lock.
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
        other => unreachable!("an acquire completed as {other:?}"),
    }
}

/// Returns the end of a wait that begins now. A wait of zero makes exactly one attempt.
pub(crate) fn wait_for(handle: &Handle, wait: Duration) -> Wait {
    if wait.is_zero() { Wait::Once } else { Wait::Until(handle.now() + wait) }
}
