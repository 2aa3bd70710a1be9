//! Tries: the attempts of a wait queue, or of a waiter that makes its own, and what they have seen.
//!
//! Invariant: at most one attempt under one wire owner is on its way. All attempts share the wire owner until a grant,
//! since a refusal wrote nothing and a grant is set, not added.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::base::keys::Number;
use crate::engine::base::terms::Terms;
use crate::engine::base::timers::Alarm;
use crate::engine::interface::AcquireFailure;
use crate::id::CallId;
use crate::moment::Moment;
use crate::outcome::{FreeWithin, StoreError, Verb};
use crate::subject::Subject;

/// The last answer to the attempts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Last {
    /// Another owner has it. A hold of this client that is known to be there counts as a refusal too.
    Refused,
    Failed(StoreError),
    TooLate(Duration),
}

/// A wire owner of attempts. Each of them asks for the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Used {
    pub(in crate::engine) number: Number,
    pub(in crate::engine) terms: Arc<Terms>,
    /// The fencing tokens that they reserve.
    pub(in crate::engine) tokens: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Tries {
    /// The wire owner of the attempts, and what the first of them asked for.
    pub(in crate::engine) wire: Option<Used>,
    /// The attempt on its way.
    pub(in crate::engine) call: Option<CallId>,
    /// True if news arrived while the attempt was on its way, so its answer may be older than the news.
    pub(in crate::engine) again: bool,
    /// The time by which the unseen grant of an attempt has run out, if an attempt has an unknown outcome.
    pub(in crate::engine) unknown_until: Option<Moment>,
    /// True if the wire owner may be in a queue on the server, after an answer that was no error.
    pub(in crate::engine) queued: bool,
    /// The time of the first failure of the current run, without an answer in between. `failures` counts these failures.
    /// A call whose bytes one path swallowed takes a whole timeout to fail, so the run does not begin with its sending:
    /// the wait has a timeout left, over a new connection.
    failing_since: Option<Moment>,
    failures: u32,
    /// True if the last holder sends no message.
    pub(in crate::engine) polls: bool,
    /// True if the timer ends a pause that is left to clients that poll.
    pub(in crate::engine) shares: bool,
    /// The number of refused attempts in a row.
    pub(in crate::engine) refusals: u32,
    pub(in crate::engine) last: Option<Last>,
    /// The timer of the next attempt.
    pub(in crate::engine) alarm: Alarm,
}

impl Tries {
    /// Notes a refusal.
    pub(in crate::engine) fn refused(&mut self) {
        self.last = Some(Last::Refused);
        self.polls = false;
        self.failing_since = None;
        self.failures = 0;
        self.refusals = self.refusals.saturating_add(1);
    }

    /// Notes a failure. Returns its position in the current run of failures, and the length of that run.
    pub(in crate::engine) fn failed(&mut self, now: Moment, last: Last) -> (u32, Duration) {
        self.last = Some(last);
        self.failures += 1;
        (self.failures - 1, now.since(*self.failing_since.get_or_insert(now)))
    }

    /// Notes that an effect of an attempt may be on the server until then, whatever the next attempts return.
    pub(in crate::engine) fn mark_uncertain_until(&mut self, until: Moment) {
        self.unknown_until = self.unknown_until.max(Some(until));
    }

    /// Forgets the wire owner, which is granted or undone and is not used again.
    pub(in crate::engine) fn drop_wire(&mut self) -> Option<Used> {
        (self.unknown_until, self.queued) = (None, false);
        self.wire.take()
    }

    /// Begins anew for the next waiter, after a grant or a failure of the waiter that was first.
    pub(in crate::engine) fn begin_anew(&mut self, last: Option<Last>) {
        (self.failing_since, self.failures, self.refusals) = (None, 0, 0);
        self.last = last;
    }

    /// Returns the failure of an acquire that ends now. `arrives_by` is the time by which an attempt on its way has
    /// arrived or never will, and `doubt_until` the end of what another attempt may have left.
    pub(in crate::engine) fn verdict(
        &self,
        now: Moment,
        subject: &Subject,
        (terms, wait): (&Terms, Option<Duration>),
        (arrives_by, doubt_until): (Moment, Option<Moment>),
    ) -> AcquireFailure {
        let error = match &self.last {
            Some(Last::Refused) => return AcquireFailure::Contended,
            Some(Last::TooLate(took)) => {
                return AcquireFailure::LeaseTooShort { lease: terms.lease, took: *took };
            }
            Some(Last::Failed(error)) => error.clone(),
            None if self.wire.is_none() => return AcquireFailure::Contended,
            None => subject.timed_out(Verb::Acquire).within_wait(wait),
        };
        let in_flight_until = self.call.map(|_| subject.gone_by(terms.first_lease(), arrives_by));
        match self.unknown_until.max(in_flight_until).max(doubt_until) {
            Some(until) => AcquireFailure::Unknown { free_within: FreeWithin::until(until, now), error },
            None => AcquireFailure::Failed(error),
        }
    }
}
