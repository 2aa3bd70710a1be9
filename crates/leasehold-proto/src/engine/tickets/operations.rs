//! Operations that are on their way, or wait for their next attempt.

use crate::call::Call;
use crate::engine::base::table::Table;
use crate::engine::base::timers::Alarm;
use crate::id::Id;
use crate::moment::Moment;

/// The operations that are on their way, or wait for their next attempt.
pub(in crate::engine) type Operations = Table<Id, Operation>;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Operation {
    pub(in crate::engine) call: Call,
    pub(in crate::engine) since: Moment,
    pub(in crate::engine) failures: u32,
    /// True if an earlier attempt may have been applied.
    pub(in crate::engine) uncertain: bool,
    pub(in crate::engine) alarm: Alarm,
}
