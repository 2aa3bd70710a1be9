//! The state of one caller's acquire, from its request to its claim. `waiting` begins it, `granting` and `leaving` end it.
//!
//! Invariant: an acquire is in one stage. A waiting acquire is in a wait queue, or makes its own attempts, or both
//! where the server keeps the order.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::base::keys::{NameId, Number, QueueId, Sides};
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::{Alarm, Timer, Timers};
use crate::engine::interface::Wait;
use crate::engine::waits::tries::Tries;
use crate::id::{CallId, Id};
use crate::moment::Moment;
use crate::owner::Owner;
use crate::recipe::Recipe;
use crate::subject::Subject;

/// What a caller asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Asked {
    pub(in crate::engine) subject: Subject,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) wait: Wait,
    pub(in crate::engine) terms: Arc<Terms>,
}

/// An acquire that its caller has not claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Acquire {
    pub(in crate::engine) name: NameId,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) wait: Wait,
    pub(in crate::engine) terms: Arc<Terms>,
    /// The time of the request. A bound of its hold does not begin before.
    pub(in crate::engine) since: Moment,
    pub(in crate::engine) stage: Stage,
    /// The timer of the end of the wait.
    pub(in crate::engine) deadline: Alarm,
}

/// The progress of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Stage {
    Waiting(Waiter),
    /// The owner holds the name already, and the engine is raising the count.
    Entering {
        hold: Number,
        /// The time of the first failure to do so.
        failing_since: Option<Moment>,
    },
    /// Granted, and not yet claimed.
    Granted(Number),
    /// The grant was undone because the caller did not claim it in time. The next claim acquires again.
    Expired(Number),
}

/// A waiting acquire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Waiter {
    /// The attempts of a waiter that makes its own.
    pub(in crate::engine) tries: Option<Box<Tries>>,
    /// The waiters before and after it, if it is in a wait queue.
    pub(in crate::engine) linked: Option<Links>,
    /// The attempt of the queue that is on its way for this waiter.
    pub(in crate::engine) attempted: Option<CallId>,
    pub(in crate::engine) past: Past,
}

/// The part of a waiter's earlier attempts that matters to the rest of its wait. Attempts for an event only read and leave
/// no doubt, so a waiter has one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Past {
    #[default]
    Nothing,
    /// The time until which an earlier attempt for this acquire may be on the server.
    DoubtUntil(Moment),
    /// The last round of its event that had ended when the waiter was first refused.
    RefusedAfter(u64),
}

impl Past {
    pub(in crate::engine) const fn doubt_until(self) -> Option<Moment> {
        if let Self::DoubtUntil(until) = self { Some(until) } else { None }
    }

    pub(in crate::engine) const fn refused_after(self) -> Option<u64> {
        if let Self::RefusedAfter(round) = self { Some(round) } else { None }
    }

    /// Notes that an attempt may be on the server until then.
    pub(in crate::engine) fn note_doubt(&mut self, until: Moment) {
        match self {
            Self::Nothing => *self = Self::DoubtUntil(until),
            Self::DoubtUntil(latest) => *latest = until.max(*latest),
            Self::RefusedAfter(_) => {}
        }
    }

    /// Notes the first refusal of a waiter for an event.
    pub(in crate::engine) const fn note_refusal(&mut self, round: u64) {
        if self.refused_after().is_none() {
            *self = Self::RefusedAfter(round);
        }
    }
}

/// The neighbors of a waiter in its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Links {
    pub(in crate::engine) before: Option<Id>,
    pub(in crate::engine) after: Option<Id>,
}

impl Waiter {
    /// Returns the time until which answered attempts for this waiter may have left something on the server, or may still
    /// run.
    pub(in crate::engine) fn left_until(&self) -> Option<Moment> {
        self.past.doubt_until().max(self.tries.as_ref().and_then(|tries| tries.unknown_until))
    }
}

impl Acquire {
    pub(in crate::engine) fn recipe(&self) -> &'static Recipe {
        self.terms.recipe()
    }

    pub(in crate::engine) fn is_once(&self) -> bool {
        self.wait == Wait::Once
    }

    /// Returns the wait queue in which this acquire waits, or would wait.
    pub(in crate::engine) fn queue(&self) -> QueueId {
        QueueId { name: self.name, side: self.recipe().side() }
    }

    /// Returns the length of the wait, if it has a bound.
    pub(in crate::engine) fn bound(&self) -> Option<Duration> {
        match self.wait {
            Wait::Until(deadline) => Some(deadline.since(self.since)),
            Wait::Once | Wait::Forever => None,
        }
    }

    /// Sets the timer of the end of the wait.
    pub(in crate::engine) fn set_deadline(&mut self, timers: &mut Timers, id: Id) {
        if let Wait::Until(deadline) = self.wait {
            self.deadline.set(timers, Timer::Deadline(id), deadline);
        }
    }

    /// Returns the attempts of a waiter that makes its own.
    pub(in crate::engine) fn tries(&self) -> Option<&Tries> {
        self.waiter()?.tries.as_deref()
    }

    pub(in crate::engine) fn tries_mut(&mut self) -> Option<&mut Tries> {
        self.waiter_mut()?.tries.as_deref_mut()
    }

    /// Returns true if an attempt that the waiter makes for itself is on its way.
    pub(in crate::engine) fn is_attempting(&self) -> bool {
        self.tries().is_some_and(|tries| tries.call.is_some())
    }

    /// Returns true if the acquire is in its wait queue.
    pub(in crate::engine) fn is_linked(&self) -> bool {
        self.waiter().is_some_and(|waiter| waiter.linked.is_some())
    }

    pub(in crate::engine) const fn waiter(&self) -> Option<&Waiter> {
        match &self.stage {
            Stage::Waiting(waiter) => Some(waiter),
            _ => None,
        }
    }

    pub(in crate::engine) const fn waiter_mut(&mut self) -> Option<&mut Waiter> {
        match &mut self.stage {
            Stage::Waiting(waiter) => Some(waiter),
            _ => None,
        }
    }
}
