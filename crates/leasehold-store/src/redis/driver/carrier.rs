//! The runtime of the callers, and the turns of its task.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Waker};

use leasehold_proto::Moment;

use super::super::executor::Executor;
use super::super::wire::ConnId;
use super::deliveries::Deliveries;

/// The callers' runtime.
pub(super) struct Carrier {
    pub(super) runtime: Arc<dyn Executor>,
    pub(super) turns: Turns,
    /// The connections that the runtime carries.
    pub(super) carries: BTreeSet<ConnId>,
    /// True if the task on the runtime has had a turn since the runtime was last late.
    pub(super) is_ready: bool,
    /// True if callers may have left their calls to the next turn.
    pub(super) is_awaited: bool,
    /// The time at which the own task looks whether the runtime is late.
    pub(super) look_at: Moment,
    pub(super) rests_until: Moment,
}

impl Carrier {
    pub(super) fn new(runtime: Arc<dyn Executor>) -> Self {
        Self {
            runtime,
            turns: Turns::new(),
            carries: BTreeSet::new(),
            is_ready: false,
            is_awaited: false,
            look_at: Moment::NEVER,
            rests_until: Moment::default(),
        }
    }

    /// Notes that the stream of a connection has ended.
    pub(super) fn forget(&mut self, id: ConnId) {
        if self.carries.remove(&id) && self.carries.is_empty() {
            self.look_at = Moment::NEVER;
        }
    }
}

/// The wake-ups of a task.
pub(super) struct Turns {
    /// The waker of the task, once it runs.
    pub(super) waker: Waker,
    /// True if the task looks at the state without being woken.
    pub(super) is_awake: bool,
}

impl Turns {
    /// Returns the turns of a task that has not run yet, which its first turn makes superfluous to wake.
    pub(super) fn new() -> Self {
        Self { waker: Waker::noop().clone(), is_awake: true }
    }

    /// Begins a turn of the task.
    pub(super) fn begin(&mut self, cx: &Context<'_>) {
        self.is_awake = true;
        if !self.waker.will_wake(cx.waker()) {
            self.waker.clone_from(cx.waker());
        }
    }

    /// Lets the task look at the state.
    pub(super) fn wake(&mut self, deliveries: &mut Deliveries) {
        if !std::mem::replace(&mut self.is_awake, true) {
            deliveries.wakers.push(self.waker.clone());
        }
    }
}
