//! Effects: what one machine asks of the parts above it.
//!
//! Invariant: `engine` carries effects in the order in which they arose, before the step ends.

use crate::engine::base::keys::{NameId, Number, QueueId};
use crate::id::CallId;
use crate::moment::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Effect {
    /// The last guard of a hold is gone. The hold passes on or ends.
    Unused(Number),
    /// The server has lost a hold, and may have lost places in its queues.
    Lost(QueueId),
    /// A release that lets others have the name is on its way for the first time.
    Releasing {
        number: Number,
        queue: QueueId,
        units: u32,
        /// False for the release of a reader, which sends a message only if it was the last one.
        speaks: bool,
    },
    /// A release was answered and has sent none of the messages that were expected of it.
    Silent { queue: QueueId, messages: u32 },
    /// A release is over.
    Released(Released),
    /// The name may be free for the next waiter.
    Freed(QueueId),
    /// This client does not see the end of a hold any more.
    Detached(QueueId),
    /// The undo of an acquire was answered.
    Undone(Number),
    /// A renewal that was awaited is answered.
    Renewed(Number),
    /// A hold has to be checked because another server answers for it.
    CheckDue(Number),
    /// An attempt that was sent at this time was granted.
    Granted { name: NameId, number: Number, sent_at: Moment },
    /// The server has more places of this client in a queue than there are waiters.
    Strays(NameId),
}

/// A release that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Released {
    pub(in crate::engine) queue: QueueId,
    pub(in crate::engine) call: CallId,
    pub(in crate::engine) sent_at: Moment,
    /// The time from the confirmation of the hold, from which its section is known.
    pub(in crate::engine) confirmed_at: Moment,
    /// The listeners that heard it.
    pub(in crate::engine) listeners: u32,
}
