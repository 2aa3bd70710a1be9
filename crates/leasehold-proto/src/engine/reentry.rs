//! Re-entry: an owner that takes again what it holds, and gives back one hold of several.
//!
//! Invariant: the hold count on the server is set to an absolute value, by at most one call at a time, and never
//! touched once the tenure is lost.
//!
//! # How it works
//! An acquire by the owner of a tenure *enters* it: the wanted count goes up and, when the server has confirmed it, the
//! hold is granted. Each release of one hold of several takes the wanted count down. `set_count` compares what is wanted
//! with what stands there, so that any mixture of the two comes out right.

use std::time::Duration;

use super::tenure::Hold;
use super::ticket::{AcquireFailure, ReleaseFailure, Settlement, Stage, Ticket};
use super::timer::Timer;
use super::{CallId, Engine, Id, LostReason, Purpose, Request, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::{Answer, Ask};

/// A count on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Setting {
    call: CallId,
    count: u32,
    /// It was sent as an acquire, which sets the lease anew, and not as a partial release, which keeps it.
    raises: bool,
    lease: Lease,
    sent_at: Moment,
}

impl Engine {
    /// Waiters of the owner that has just got the lock need not wait for themselves.
    pub(super) fn enter_from_line(&mut self, now: Moment, granted: &Request, wire: WireOwner) {
        let line: Vec<Id> = self.lines.get(&granted.subject).into_iter().flatten().copied().collect();
        for id in line {
            let same_owner = matches!(self.tickets.get(&id), Some(Ticket::Acquire(waiting))
                if waiting.request.owner == granted.owner && matches!(waiting.stage, Stage::Waiting(_)));
            if same_owner {
                self.timers.clear(Timer::Ask(id));
                self.enter(now, id, wire);
                self.step_out(now, id, &granted.subject);
            }
        }
    }

    /// Re-enters: raises the count of a tenure that the ticket's owner has.
    pub(super) fn enter(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        acquiring.stage = Stage::Entering { wire, since: now };
        let lease = acquiring.request.lease;
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        if let Some(reason) = tenure.lost {
            return self.fail(now, id, AcquireFailure::Lost(reason));
        }
        // A lease only grows: a shorter one would cut short what the outer hold was promised.
        tenure.lease = tenure.lease.max(lease);
        tenure.entering.push_back(id);
        self.set_count(now, wire);
    }

    /// Sends the call that makes the server's count the wanted one, unless one is on its way.
    pub(super) fn set_count(&mut self, now: Moment, wire: WireOwner) {
        let Some(tenure) = self.tenures.get(&wire) else {
            return;
        };
        let wanted = tenure.wanted();
        if tenure.setting.is_some() || tenure.lost.is_some() {
            return;
        }
        if tenure.on_server == Some(wanted) {
            return self.settle_count_reports(wire);
        }
        let raises = !tenure.entering.is_empty();
        let lease = tenure.lease_now(now);
        let ask = Ask { name: &tenure.subject.name, owner: wire, lease, count: wanted };
        let recipe = tenure.subject.recipe;
        let call = if raises { recipe.acquire(&ask) } else { recipe.release(&ask) };
        let call = self.run(call, Purpose::Count(wire));
        self.timers.clear(Timer::Count(wire));
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.setting = Some(Setting { call, count: wanted, raises, lease, sent_at: now });
        }
    }

    /// The server's answer to a new count.
    pub(super) fn counted(
        &mut self,
        now: Moment,
        call: CallId,
        wire: WireOwner,
        result: Result<Reply, StoreError>,
    ) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        let Some(setting) = tenure.setting.take_if(|setting| setting.call == call) else {
            return;
        };
        if tenure.lost.is_some() {
            return;
        }
        let subject = tenure.subject.clone();
        let answer = if setting.raises {
            result.and_then(|reply| subject.read(&reply))
        } else {
            result.and_then(|reply| subject.read_lowered(&reply))
        };
        match answer {
            Ok(Answer::Granted) => self.count_stands(now, wire, setting),
            Ok(Answer::Refused { .. }) => self.lose(now, wire, LostReason::TakenOver),
            Ok(Answer::Gone | Answer::NoExpiry) => self.lose(now, wire, LostReason::Deleted),
            Err(error) if error.kind == StoreErrorKind::WrongType => {
                self.lose(now, wire, LostReason::TakenOver);
            }
            Err(error) => self.count_failed(now, wire, error),
        }
    }

    fn count_stands(&mut self, now: Moment, wire: WireOwner, setting: Setting) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        tenure.on_server = Some(setting.count);
        tenure.failures = 0;
        let free = setting.count.saturating_sub(tenure.kept);
        let free = usize::try_from(free).unwrap_or(usize::MAX).saturating_sub(tenure.holds.len());
        let entered: Vec<Id> = tenure.entering.drain(..free.min(tenure.entering.len())).collect();
        if setting.raises {
            self.confirm(now, wire, setting.sent_at, setting.lease);
        }
        for id in entered {
            self.entered(now, id, wire);
        }
        self.set_count(now, wire);
    }

    /// Tells those who gave back one hold of several that the server's count says so.
    fn settle_count_reports(&mut self, wire: WireOwner) {
        let reports = self.tenures.get_mut(&wire).map(|tenure| std::mem::take(&mut tenure.reports));
        for id in reports.into_iter().flatten() {
            self.settle_if_wanted(id, Settlement::Released(Ok(true)));
        }
    }

    fn entered(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let request = &acquiring.request;
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        tenure.holds.insert(id, Hold { claimed: false, watchdog: request.watchdog });
        if let Some(most) = request.max_hold {
            tenure.ends_at = tenure.ends_at.min(now + most);
        }
        self.holds.insert(id, wire);
        self.grant(now, id, wire);
    }

    /// A count was not confirmed. Those who asked once, or for a whole timeout, are told; the rest is tried again.
    fn count_failed(&mut self, now: Moment, wire: WireOwner, error: StoreError) {
        let timeout = self.settings.timeout;
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        tenure.failures += 1;
        if error.applied == Applied::Unknown {
            tenure.uncertain = true;
            tenure.on_server = None;
        }
        let pause = backoff::after_failures(tenure.failures - 1, wire.seed());
        let free_within = tenure.lease.gone_by(now).since(now);
        let reports = std::mem::take(&mut tenure.reports);
        let entering: Vec<Id> = tenure.entering.iter().copied().collect();
        for id in reports {
            let failure = ReleaseFailure { free_within, error: error.clone() };
            self.settle_if_wanted(id, Settlement::Released(Err(failure)));
        }
        for id in entering {
            let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
                continue;
            };
            let Stage::Entering { since, .. } = acquiring.stage else {
                continue;
            };
            let over = acquiring.request.wait == Wait::Once || now.since(since) >= timeout;
            if over || !error.kind.is_transient() {
                self.fail(now, id, AcquireFailure::of(&error, free_within));
            }
        }
        if self.tenures.contains_key(&wire) {
            self.timers.set(Timer::Count(wire), now + pause);
        }
    }

    /// How a re-entry ends whose wait is over: the lock is its owner's, so it is the store that has not answered.
    pub(super) fn entering_verdict(&self, now: Moment, wire: WireOwner) -> AcquireFailure {
        let Some(tenure) = self.tenures.get(&wire) else {
            return AcquireFailure::Contended;
        };
        match tenure.lost {
            Some(reason) => AcquireFailure::Lost(reason),
            None => AcquireFailure::Unknown {
                free_within: tenure.lease.gone_by(now).since(now),
                error: tenure.subject.timed_out(Verb::Acquire),
            },
        }
    }

    /// A re-entry was given up before it was granted.
    pub(super) fn stop_entering(&mut self, now: Moment, id: Id, wire: WireOwner) {
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.entering.retain(|waiting| *waiting != id);
        }
        self.after_fewer_holds(now, wire, None);
    }
}

impl AcquireFailure {
    fn of(error: &StoreError, free_within: Duration) -> Self {
        let error = error.clone();
        match error.applied {
            Applied::No => Self::Failed(error),
            Applied::Unknown => Self::Unknown { free_within, error },
        }
    }
}

impl Subject {
    /// What the release of one hold of several means, in the words of an acquire.
    fn read_lowered(&self, reply: &Reply) -> Result<Answer, StoreError> {
        match self.recipe.read_release(reply) {
            Some(true) => Ok(Answer::Granted),
            Some(false) => Ok(Answer::Gone),
            None => Err(self.malformed(Verb::Release)),
        }
    }
}
