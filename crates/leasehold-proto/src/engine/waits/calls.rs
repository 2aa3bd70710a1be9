//! The calls of waiters on their way.

use std::sync::Arc;

use crate::engine::base::keys::{Number, QueueId};
use crate::engine::base::terms::Terms;
use crate::id::Id;
use crate::lease::Lease;
use crate::moment::Moment;

/// A call of waiters on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum WaitCall {
    Attempt(Attempt),
    KeepAlive(QueueId),
}

/// An attempt on its way. Its answer is awaited even after its waiter is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Attempt {
    /// The queue for which the attempt is, or whose waiter makes it.
    pub(in crate::engine) queue: QueueId,
    /// The waiter that makes the attempt, or for which the queue makes it.
    pub(in crate::engine) waiter: Id,
    pub(in crate::engine) by: By,
    pub(in crate::engine) number: Number,
    /// The fencing tokens that it reserves.
    pub(in crate::engine) tokens: u32,
    pub(in crate::engine) terms: Arc<Terms>,
    pub(in crate::engine) lease: Lease,
    pub(in crate::engine) sent_at: Moment,
    /// True if an earlier attempt under the same wire owner has an unknown outcome.
    pub(in crate::engine) uncertain: bool,
    /// True if an earlier attempt was refused.
    pub(in crate::engine) is_repeated: bool,
    /// True if the last attempt told of a holder that sends no message.
    pub(in crate::engine) polls: bool,
    /// True if a refused waiter enters a queue on the server.
    pub(in crate::engine) queues: bool,
}

/// The maker of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum By {
    /// The queue, for its first waiter.
    Queue,
    /// The queue, for a further waiter.
    Extra,
    /// A waiter, for itself.
    Waiter,
}
