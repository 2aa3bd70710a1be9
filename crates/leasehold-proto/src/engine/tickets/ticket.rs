//! A ticket: one acquire, release or renewal that a caller waits for, until it claims the outcome.

use crate::engine::base::keys::Number;
use crate::engine::interface::Outcome;
use crate::engine::waits::acquire::Acquire;

/// The request of one waiting caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Ticket {
    Acquire(Box<Acquire>),
    /// A renewal on demand of this hold.
    Ensuring(Number),
    /// A call without a hold.
    Performing,
    /// A release or close whose outcome is not known yet.
    Pending,
    /// A release whose outcome is known: true if the lock was held until then.
    Released(bool),
    /// An outcome, not yet claimed.
    Completed(Box<Outcome>),
}
