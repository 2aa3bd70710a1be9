//! Facts: what the engine has decided, for observers.
//!
//! Invariant: facts change no decision, and nothing of them is in the engine's other tables. Each ticket of an acquire has
//! one end: a grant, or the reason why there is none. Without observers there are no facts.
//!
//! # How it works
//! The function that decides notes the fact, in one line. What a fact needs beside the decision, such as the length of a
//! wait, is kept here for as long as the ticket or the call lives. Since an observer may come in the middle of a wait, a
//! ticket that is not known here has no facts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::base::keys::Number;
use super::interface::{AcquireFailure, Grant, LostReason, Outcome, ReleaseFailure};
use crate::id::{CallId, Id};
use crate::moment::Moment;
use crate::outcome::{StoreErrorKind, Verb};
use crate::subject::{Group, Subject};

/// The most waiters whose patience one step looks at, so that a step stays short. The rest have their facts in the next
/// steps.
const PATIENT_PER_STEP: usize = 64;

/// Something that the engine has decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fact {
    /// An acquire waits, because it was refused or stands behind another waiter.
    Waiting {
        /// What it waits for.
        subject: Subject,
        /// The ticket.
        ticket: Id,
    },
    /// A name has been waited for longer than the patience, once per patience and name.
    Patient {
        /// What it waits for.
        subject: Subject,
        /// The ticket of one of the waiters.
        ticket: Id,
        /// The time that it has waited.
        waited: Duration,
        /// True if the ticket was told as patient before.
        again: bool,
    },
    /// An acquire has its hold, or its event.
    Acquired {
        /// What was acquired.
        subject: Subject,
        /// The hold, whose id is the ticket's.
        hold: Id,
        /// The time from the request to the claim.
        waited: Duration,
        /// The number of calls that were sent for it.
        attempts: u32,
        /// The source of the grant.
        by: GrantedBy,
        /// What [`Fact::Waiting`] and [`Fact::Patient`] have told of the ticket.
        told: Told,
        /// The wire owner, and the fencing token, if there is one.
        grant: Grant,
    },
    /// An acquire has ended without a hold.
    NotAcquired {
        /// What was not acquired.
        subject: Subject,
        /// The ticket.
        ticket: Id,
        /// The time from the request to the end.
        waited: Duration,
        /// The number of calls that were sent for it.
        attempts: u32,
        /// What [`Fact::Waiting`] and [`Fact::Patient`] have told of the ticket.
        told: Told,
        /// The reason, or `None` if the caller gave it up.
        failure: Option<AcquireFailure>,
    },
    /// A hold has ended as its holder wanted. It may still be on its way off the server.
    Released {
        /// What was held.
        subject: Subject,
        /// The hold.
        hold: Id,
        /// The time from the claim to the end.
        held: Duration,
        /// True if the holder has left the hold to its lease.
        detached: bool,
    },
    /// A release was not confirmed. The engine goes on with it.
    Unconfirmed {
        /// What was held.
        subject: Subject,
        /// The time within which it is free, and the error.
        failure: ReleaseFailure,
    },
    /// A hold was lost.
    Lost {
        /// What was held.
        subject: Subject,
        /// The hold.
        hold: Id,
        /// The time from the claim to the loss.
        held: Duration,
        /// The reason.
        reason: LostReason,
        /// The time from the end of the validity to this fact, zero if the hold was lost before that end.
        late: Duration,
    },
    /// A renewal was confirmed.
    Renewed {
        /// What is held.
        subject: Subject,
        /// The validity that was left, and the lease.
        left: (Duration, Duration),
        /// The time from the send to the answer.
        took: Duration,
    },
    /// A renewal has failed. The engine tries again for as long as the lease lasts.
    NotRenewed {
        /// What is held.
        subject: Subject,
        /// A hold of it.
        hold: Id,
        /// The validity that is left, and the lease.
        left: (Duration, Duration),
        /// The failures in a row.
        failures: u32,
        /// The kind of the error.
        error: StoreErrorKind,
    },
    /// The undo of an acquire that no caller has received has begun, or has ended.
    Undone {
        /// What the acquire was for.
        subject: Subject,
        /// True at the end.
        settled: bool,
    },
    /// A call was answered.
    Called {
        /// Its purpose.
        verb: Verb,
        /// The time from the send to the answer.
        took: Duration,
        /// The kind of the error, if it has failed.
        error: Option<StoreErrorKind>,
    },
}

/// The facts that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// Those that an operator acts on: long waits, losses, failed renewals, unknown outcomes. An acquire and a release
    /// without them cost next to nothing.
    Rare,
    /// All.
    All,
}

/// The source of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GrantedBy {
    /// The server.
    Server,
    /// Another task of the same client, without a call to the server.
    HandOff,
    /// A hold of the same owner, which this acquire re-entered.
    Reentry,
    /// An event has happened, such as the opening of a latch. There is no hold.
    Event,
}

/// What earlier facts have told of a ticket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Told {
    /// True after [`Fact::Waiting`].
    pub waiting: bool,
    /// True after [`Fact::Patient`].
    pub patient: bool,
}

/// The facts of the steps since they were taken, and what the next ones need.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Facts {
    facts: Vec<Fact>,
    detail: Detail,
    patience: Duration,
    /// The time of the step.
    now: Moment,
    tickets: BTreeMap<Id, Asked>,
    calls: BTreeMap<CallId, (Verb, Moment)>,
    /// The waiting tickets, by the end of their patience.
    waiting: BTreeSet<(Moment, Id)>,
    /// The waiter of each subject that stands for all of them.
    patient: BTreeMap<Subject, Id>,
    /// The groups that the users of claimed holds have given.
    groups: BTreeMap<Id, &'static Group>,
    /// The releases that were told as not confirmed and go on.
    unconfirmed: BTreeSet<Number>,
}

/// What is known of the ticket of an acquire.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Asked {
    subject: Subject,
    since: Moment,
    attempts: u32,
    by: GrantedBy,
    told: Told,
    /// The end of its patience, if it waits.
    until: Moment,
}

impl Facts {
    pub(super) fn new(patience: Duration, detail: Detail) -> Self {
        Self {
            facts: Vec::new(),
            detail,
            patience,
            now: Moment::default(),
            tickets: BTreeMap::new(),
            calls: BTreeMap::new(),
            waiting: BTreeSet::new(),
            patient: BTreeMap::new(),
            groups: BTreeMap::new(),
            unconfirmed: BTreeSet::new(),
        }
    }

    pub(super) fn begin_step(&mut self, now: Moment) {
        self.now = now;
        if self.next_patience() <= now {
            self.patience_due();
        }
    }

    pub(super) const fn now(&self) -> Moment {
        self.now
    }

    pub(super) fn push(&mut self, fact: Fact) {
        self.facts.push(fact);
    }

    pub(super) fn take(&mut self, into: &mut Vec<Fact>) {
        into.append(&mut self.facts);
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// Returns the group that the user of a claimed hold has given.
    pub(super) fn group_of(&self, hold: Id) -> Option<&'static Group> {
        self.groups.get(&hold).copied()
    }

    /// Tells the end of a claimed hold that was not lost, for which no machine has a server hold.
    #[inline(never)]
    pub(super) fn released(&mut self, hold: Id, subject: &Subject, since: Moment) {
        if self.tells_all() {
            let subject = Subject { group: self.group_of(hold), ..subject.clone() };
            let held = self.now.since(since);
            self.facts.push(Fact::Released { subject, hold, held, detached: false });
        }
        self.hold_ended(hold);
    }

    /// Forgets a claimed hold that has ended.
    pub(super) fn hold_ended(&mut self, hold: Id) {
        self.groups.remove(&hold);
    }

    /// Returns true if the release is told as not confirmed for the first time.
    pub(super) fn is_news(&mut self, number: Number) -> bool {
        self.unconfirmed.insert(number)
    }

    pub(super) fn release_ended(&mut self, number: Number) {
        self.unconfirmed.remove(&number);
    }

    pub(super) fn knows(&self, ticket: Id) -> bool {
        self.tickets.contains_key(&ticket)
    }

    pub(super) fn tells_all(&self) -> bool {
        self.detail == Detail::All
    }

    #[inline(never)]
    pub(super) fn asked(&mut self, ticket: Id, subject: &Subject, since: Moment) {
        let subject = subject.clone();
        let (by, told) = (GrantedBy::Server, Told::default());
        self.tickets.insert(ticket, Asked { subject, since, attempts: 0, by, told, until: Moment::NEVER });
    }

    #[inline(never)]
    pub(super) fn attempted(&mut self, ticket: Id) {
        if let Some(asked) = self.tickets.get_mut(&ticket) {
            asked.attempts = asked.attempts.saturating_add(1);
        }
    }

    #[inline(never)]
    pub(super) fn granted_by(&mut self, ticket: Id, by: GrantedBy) {
        if let Some(asked) = self.tickets.get_mut(&ticket) {
            asked.by = by;
        }
    }

    #[inline(never)]
    pub(super) fn sent(&mut self, call: CallId, verb: Verb) {
        if self.tells_all() {
            self.calls.insert(call, (verb, self.now));
        }
    }

    #[inline(never)]
    pub(super) fn answered(&mut self, call: CallId, error: Option<StoreErrorKind>) {
        if let Some((verb, sent_at)) = self.calls.remove(&call) {
            self.facts.push(Fact::Called { verb, took: self.now.since(sent_at), error });
        }
    }

    /// Tells once that a ticket waits. Unless it stands by, its wait is reported as long after the patience.
    #[inline(never)]
    pub(super) fn waits(&mut self, ticket: Id, stands_by: bool) {
        let until = if stands_by { Moment::NEVER } else { self.now + self.patience };
        let Some(asked) = self.tickets.get_mut(&ticket).filter(|asked| !asked.told.waiting) else { return };
        (asked.told.waiting, asked.until) = (true, until);
        self.waiting.insert((until, ticket));
        if self.detail == Detail::All {
            self.facts.push(Fact::Waiting { subject: asked.subject.clone(), ticket });
        }
    }

    /// Returns the time at which the patience of a waiter ends.
    pub(super) fn next_patience(&self) -> Moment {
        self.waiting.first().map_or(Moment::NEVER, |(until, _)| *until)
    }

    /// Tells of the names that were waited for longer than the patience.
    fn patience_due(&mut self) {
        for _ in 0..PATIENT_PER_STEP {
            let Some(due @ (_, ticket)) = self.waiting.first().copied().filter(|(at, _)| *at <= self.now)
            else {
                break;
            };
            self.waiting.remove(&due);
            let Some(asked) = self.tickets.get_mut(&ticket) else { continue };
            asked.until = self.now + self.patience;
            self.waiting.insert((asked.until, ticket));
            if *self.patient.entry(asked.subject.clone()).or_insert(ticket) == ticket {
                let again = std::mem::replace(&mut asked.told.patient, true);
                let (subject, waited) = (asked.subject.clone(), self.now.since(asked.since));
                self.facts.push(Fact::Patient { subject, ticket, waited, again });
            }
        }
    }

    /// Removes a ticket that has ended, and returns what is known of it.
    fn end(&mut self, ticket: Id) -> Option<(Asked, Duration)> {
        let asked = self.tickets.remove(&ticket)?;
        if asked.told.waiting {
            self.waiting.remove(&(asked.until, ticket));
            if self.patient.get(&asked.subject) == Some(&ticket) {
                self.patient.remove(&asked.subject);
            }
        }
        let waited = self.now.since(asked.since);
        Some((asked, waited))
    }

    #[inline(never)]
    pub(super) fn acquired(&mut self, hold: Id, grant: Grant) {
        let Some((asked, waited)) = self.end(hold) else { return };
        if let Some(group) = asked.subject.group.filter(|_| asked.by != GrantedBy::Event) {
            self.groups.insert(hold, group);
        }
        if self.detail == Detail::Rare {
            return;
        }
        let Asked { subject, attempts, by, told, .. } = asked;
        self.facts.push(Fact::Acquired { subject, hold, waited, attempts, by, told, grant });
    }

    /// Tells the end of an acquire without a hold. The caller gave it up if there is no failure.
    #[inline(never)]
    pub(super) fn not_acquired(&mut self, ticket: Id, failure: Option<&AcquireFailure>) {
        let Some((asked, waited)) = self.end(ticket) else { return };
        let is_rare = matches!(failure, Some(AcquireFailure::Unknown { .. }));
        if self.detail == Detail::Rare && !is_rare {
            return;
        }
        let (Asked { subject, attempts, told, .. }, failure) = (asked, failure.cloned());
        self.facts.push(Fact::NotAcquired { subject, ticket, waited, attempts, told, failure });
    }

    /// Tells the outcome of a ticket, if it is that of an acquire.
    #[inline(never)]
    pub(super) fn completed(&mut self, ticket: Id, outcome: &Outcome) {
        match outcome {
            Outcome::Acquired(Ok(grant)) => {
                self.granted_by(ticket, GrantedBy::Event);
                self.acquired(ticket, *grant);
            }
            Outcome::Acquired(Err(failure)) => self.not_acquired(ticket, Some(failure)),
            _ => {}
        }
    }
}
