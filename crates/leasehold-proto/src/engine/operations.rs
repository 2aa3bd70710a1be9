//! Operations that are on their way, or wait for their next attempt.

use super::table::Table;
use super::timers::Alarm;
use crate::call::Call;
use crate::id::Id;
use crate::moment::Moment;

/// The operations that are on their way, or wait for their next attempt.
pub(super) type Operations = Table<Id, Operation>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operation {
    pub(super) call: Call,
    pub(super) since: Moment,
    pub(super) failures: u32,
    /// True if an earlier attempt may have been applied.
    pub(super) uncertain: bool,
    pub(super) alarm: Alarm,
}
