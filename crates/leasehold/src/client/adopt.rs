//! The adoption of holds that other processes have given away.
//!
//! Invariant: a ticket is adopted as a lock of its own kind, whatever name that has.

use leasehold_proto::Name;

use crate::client::Client;
use crate::error::{About, Subject, SubjectKind, TicketError, TicketErrorKind};
use crate::lock::{Guard, Ticket};
use crate::name::named;
use crate::terms::HoldTerms;

impl Client {
    /// Adopts the hold of a ticket, with the default terms of its kind except a minimum hold, which began with the grant.
    /// [`Lock::adopt`](crate::Lock::adopt) has terms of its own, and gives the token of a fenced lock.
    ///
    /// # Errors
    /// As [`Lock::adopt`](crate::Lock::adopt).
    ///
    /// # Cancel safety
    /// As [`Lock::adopt`](crate::Lock::adopt).
    ///
    /// # Losing the lease
    /// See [`Guard`].
    ///
    /// # Examples
    /// See [`Ticket`].
    pub async fn adopt(&self, ticket: &Ticket) -> Result<Guard, TicketError> {
        // The giver may have made the name with a hash tag, or as Redisson does.
        let name = named(ticket.name()).or_else(|bad| Name::raw_redisson(ticket.name()).map_err(|_| bad));
        let name = name.map_err(|bad| TicketErrorKind::Acquire(bad.into()));
        let name = name.about(|| Subject::new(ticket.kind(), ticket.name()))?;
        let terms = HoldTerms::without_min_hold;
        match ticket.kind() {
            SubjectKind::FairLock => self.fair_lock(name).map_terms(terms).adopt(ticket).await,
            SubjectKind::FencedLock => {
                self.fenced_lock(name).map_terms(terms).adopt(ticket).await.map(Guard::from)
            }
            SubjectKind::SpinLock => self.spin_lock(name).map_terms(terms).adopt(ticket).await,
            _ => self.lock(name).map_terms(terms).adopt(ticket).await,
        }
    }
}
