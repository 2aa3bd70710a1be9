//! The holds and waiters that are checked because another server answers for them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use super::keys::Number;
use super::subscriptions::Listener;
use super::timers::Alarm;
use crate::id::Id;
use crate::moment::Moment;
use crate::scope::Scope;

/// The holds and the waiters that are still to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Checks {
    pub(super) next: VecDeque<Check>,
    /// The holds with a renewal on its way that went to the server before.
    pub(super) after_renewal: BTreeSet<Number>,
    /// The undos on their way to the server before.
    pub(super) after_undo: BTreeSet<Number>,
    /// The holds that nobody had claimed. One that ends unclaimed stays here until the next replacement.
    pub(super) after_claim: BTreeSet<Number>,
    /// The last replacements, since a call that was sent before one may be answered after it.
    pub(super) recent: VecDeque<(Moment, Scope)>,
    pub(super) pause: Duration,
    pub(super) next_at: Moment,
    pub(super) alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Check {
    Hold(Number),
    Listener(Listener),
    /// A waiter whose place the server may lack.
    Place(Id),
}
