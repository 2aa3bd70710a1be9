//! The adoption of holds that other processes have given away.
//!
//! Invariant: a ticket is adopted as a lock of its own kind.

use crate::client::Client;
use crate::error::{SubjectKind, TicketError};
use crate::lock::{Guard, Ticket};

impl Client {
    /// Adopts the hold of a ticket, with the default terms of its kind. [`Lock::adopt`](crate::Lock::adopt) has terms of its own, and gives the
    /// token of a fenced lock.
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
        match ticket.kind() {
            SubjectKind::FairLock => self.fair_lock(ticket.name()).adopt(ticket).await,
            SubjectKind::FencedLock => self.fenced_lock(ticket.name()).adopt(ticket).await.map(Guard::from),
            SubjectKind::SpinLock => self.spin_lock(ticket.name()).adopt(ticket).await,
            _ => self.lock(ticket.name()).adopt(ticket).await,
        }
    }
}
