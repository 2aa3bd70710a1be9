//! A record: what has happened to one request, from its attempt to its release.
//!
//! Invariant: a record has the times of its events in their order, and the calls of those that sent one.

use crate::engine::base::keys::Number;
use crate::engine::interface::LostReason;
use crate::engine::waits::acquire::Asked;
use crate::id::{CallId, Id};
use crate::moment::Moment;
use crate::subject::Subject;

/// A request of the lane, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Record {
    pub(super) asked: Asked,
    pub(super) asked_at: Moment,
    /// The time at which it leaves the lane.
    pub(super) leaves_at: Moment,
    pub(super) hash: u64,
    /// The wire owner of its attempt.
    pub(super) number: Number,
    /// The call of its attempt.
    pub(super) attempt: CallId,
    pub(super) course: Course,
}

/// The progress of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Course {
    Attempted,
    Granted(Granted),
    Claimed(Claimed),
    Released(Claimed, Released),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Granted {
    pub(super) at: Moment,
    pub(super) token: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Claimed {
    pub(super) granted: Granted,
    pub(super) at: Moment,
}

/// A release whose call is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Released {
    pub(super) at: Moment,
    pub(super) report: Option<Id>,
    pub(super) call: CallId,
}

impl Record {
    /// Returns true if the record is that of this subject.
    pub(super) fn is_of(&self, subject: &Subject) -> bool {
        self.asked.subject == *subject
    }

    /// Returns true if the attempt is not answered.
    pub(super) const fn is_unanswered(&self) -> bool {
        matches!(self.course, Course::Attempted)
    }

    /// Returns true if the grant is not claimed.
    pub(super) const fn is_offered(&self) -> bool {
        matches!(self.course, Course::Granted(_))
    }

    /// Returns true from the grant until the release.
    pub(super) const fn has_grant(&self) -> bool {
        matches!(self.course, Course::Granted(_) | Course::Claimed(_))
    }

    /// Returns the end of the validity of its hold.
    pub(in crate::engine) fn valid_until(&self) -> Moment {
        self.asked.terms.first_lease().valid_until(self.asked_at)
    }

    /// Returns why the hold is lost once its validity is over, which happens in the lane only when a step is late.
    pub(in crate::engine) fn lost(&self, now: Moment) -> Option<LostReason> {
        let by_the_clock =
            if self.asked.terms.watchdog { LostReason::Unreachable } else { LostReason::Expired };
        (now >= self.valid_until()).then_some(by_the_clock)
    }

    pub(in crate::engine) const fn number(&self) -> Number {
        self.number
    }

    pub(in crate::engine) const fn asked(&self) -> &Asked {
        &self.asked
    }

    pub(in crate::engine) const fn asked_at(&self) -> Moment {
        self.asked_at
    }

    /// Returns the time of the claim and the token of a claimed hold.
    pub(in crate::engine) const fn claimed(&self) -> Option<(Moment, Option<u64>)> {
        match self.course {
            Course::Claimed(claimed) => Some((claimed.at, claimed.granted.token)),
            _ => None,
        }
    }
}
