//! A hold of a lock, for threads that block.
//!
//! Invariant: a blocking guard wraps the async guard and adds no state. The drop of a guard never blocks.

use std::time::Duration;

use leasehold_proto::WireOwner;
use leasehold_proto::engine::LostReason;

use super::forward::{convert, forward};
use crate::error::{EnsureError, ReleaseError, TicketError};
use crate::lock::guard::ReleaseOutcome;
use crate::lock::{Asker, Ticket};

/// A hold of a lock, released when dropped: [`leasehold::Guard`](crate::Guard).
///
/// A guard can be moved to another thread and dropped there. Until then the hold belongs to the thread that acquired
/// it. Its drop never blocks. `into` converts it to the async guard.
///
/// # Losing the lease
/// As for [`leasehold::Guard`](crate::Guard). The library cannot stop a thread when the hold is lost. Check
/// [`is_held`](Self::is_held), or call [`ensure`](Self::ensure), before each step that needs the hold.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let guard = client.lock("order:42").lock()?;
/// guard.ensure(Duration::from_secs(5))?;
/// // ... what takes less than 5 s ...
/// std::thread::spawn(move || drop(guard)); // released there
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a guard releases the lock at once"]
#[derive(Debug)]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    forward! { Guard as crate::Guard;
        /// Returns true if the hold may be trusted now, by the client's clock. Costs no round trip.
        get fn is_held(&self) -> bool;
        /// Returns the time for which the hold may be trusted unless it is renewed, or zero if it is lost. Costs no
        /// round trip.
        get fn remaining(&self) -> Duration;
        /// Waits until the hold is lost, and returns the reason. This wait cannot be canceled, so call it on a thread
        /// of its own.
        until fn lost(&self) -> LostReason;
        /// Waits until somebody asks for the hold. This wait cannot be canceled, so call it on a thread of its own.
        until fn asked(&self) -> Asker;
        /// Ensures that the hold may be trusted for at least this long. Renews it if necessary.
        wait fn ensure(&self, least: Duration) -> Result<(), EnsureError>;
        /// Extends the hold: gives it a lease of this length, counted from now.
        wait fn extend(&self, lease: Duration) -> Result<(), EnsureError>;
        /// Releases the lock, and reports the outcome.
        wait fn release(self) -> Result<ReleaseOutcome, ReleaseError>;
        /// Gives the hold away, and returns the ticket with which another process can adopt it.
        wait fn into_ticket(self, valid: Duration) -> Result<Ticket, TicketError>;
        /// Returns the name of the lock.
        get fn name(&self) -> &str;
        /// Returns the wire owner of this hold, which is the field of the lock's hash on the server.
        get fn wire_owner(&self) -> WireOwner;
    }

    /// Says what the hold is for. See [`Guard::note`](crate::Guard::note).
    pub fn note(&self, note: &str) {
        self.0.note(note);
    }

    /// Shows that the holder is alive. See [`Guard::beat`](crate::Guard::beat).
    pub fn beat(&self) {
        self.0.beat();
    }

    /// Leaves the hold to its lease. See [`Guard::detach`](crate::Guard::detach).
    pub fn detach(self) {
        self.0.detach();
    }
}

convert!(Guard = crate::Guard);

impl AsRef<Self> for Guard {
    fn as_ref(&self) -> &Self {
        self
    }
}
