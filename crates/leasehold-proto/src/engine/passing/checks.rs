//! The holds and waiters that are checked because another server answers for them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::engine::base::keys::Number;
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::timers::Alarm;
use crate::id::Id;
use crate::moment::Moment;
use crate::scope::Scope;

/// The holds and the waiters that are still to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Checks {
    pub(in crate::engine) next: VecDeque<Check>,
    /// The holds with a renewal on its way that went to the server before.
    pub(in crate::engine) after_renewal: BTreeSet<Number>,
    /// The undos on their way to the server before.
    pub(in crate::engine) after_undo: BTreeSet<Number>,
    /// The holds that nobody had claimed. One that ends unclaimed stays here until the next replacement.
    pub(in crate::engine) after_claim: BTreeSet<Number>,
    /// The last replacements, since a call that was sent before one may be answered after it.
    pub(in crate::engine) recent: VecDeque<(Moment, Scope)>,
    pub(in crate::engine) pause: Duration,
    pub(in crate::engine) next_at: Moment,
    pub(in crate::engine) alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Check {
    Hold(Number),
    Listener(Listener),
    /// A waiter whose place the server may lack.
    Place(Id),
}
