//! A tenure: the time in which this client holds a name on the server, over the holds of one owner.
//!
//! Invariant: the hold count on the server is set to an absolute value, by at most one call at a time, and a lost
//! tenure is never revived: re-entering it fails, and nothing renews it.
//!
//! # How it works
//! A grant begins a tenure with one hold. An acquire by the same owner *enters* it: the wanted count goes up and, when
//! the server has confirmed it, the hold is granted. Each release takes one hold off; the last one parts from the
//! server. `set_count` compares what is wanted with what stands there, so that any mixture of the two comes out right.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::renewal::Renewing;
use super::ticket::{AcquireFailure, EnsureFailure, ReleaseFailure, Settlement, Stage, Ticket};
use super::timer::Timer;
use super::{CallId, Engine, Id, LostReason, Purpose, Request, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, Verb};
use crate::owner::{Owner, WireOwner};
use crate::recipe::{Answer, Ask};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tenure {
    pub(super) subject: Subject,
    pub(super) owner: Owner,
    pub(super) lease: Lease,
    pub(super) holds: BTreeMap<Id, Hold>,
    /// Acquires that raise the count, granted in this order.
    entering: VecDeque<Id>,
    /// Holds that were given up without a release; the key runs out with them.
    kept: u32,
    /// The count that stands on the server; `None` after a call with an unknown outcome.
    on_server: Option<u32>,
    setting: Option<Setting>,
    failures: u32,
    /// Releases of one hold of several, which wait for the count to be confirmed.
    reports: Vec<Id>,
    /// When the last confirmed acquire or renewal was sent.
    pub(super) confirmed_at: Moment,
    pub(super) valid_until: Moment,
    /// The end that the hold's own bound sets.
    pub(super) ends_at: Moment,
    pub(super) renewals_left: Option<u32>,
    pub(super) renewing: Option<Renewing>,
    pub(super) renew_failures: u32,
    /// Those who want more validity now.
    pub(super) ensuring: Vec<Ensuring>,
    /// An unanswered call may still extend the key.
    pub(super) uncertain: bool,
    pub(super) lost: Option<LostReason>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Hold {
    pub(super) claimed: bool,
    pub(super) watchdog: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ensuring {
    pub(super) id: Id,
    pub(super) least: Duration,
    /// A renewal was sent after it was asked for.
    pub(super) sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Setting {
    call: CallId,
    count: u32,
    /// It was sent as an acquire, which sets the lease anew, and not as a partial release, which keeps it.
    raises: bool,
    lease: Lease,
    sent_at: Moment,
}

impl Tenure {
    /// For how long it may be trusted.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        if self.lost.is_some() {
            Duration::ZERO
        } else {
            self.valid_until.since(now)
        }
    }

    /// Why it is lost when its validity passes.
    pub(super) fn reason_by_the_clock(&self) -> LostReason {
        if self.renewing.is_some() || self.renew_failures > 0 {
            LostReason::Unreachable
        } else {
            LostReason::Expired
        }
    }

    fn wanted(&self) -> u32 {
        u32::try_from(self.holds.len() + self.entering.len())
            .unwrap_or(u32::MAX)
            .saturating_add(self.kept)
    }

    fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.entering.is_empty()
    }
}

impl Engine {
    /// A question was granted in time.
    pub(super) fn begin_tenure(
        &mut self,
        now: Moment,
        id: Id,
        wire: WireOwner,
        lease: Lease,
        sent_at: Moment,
    ) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let request = acquiring.request.clone();
        let tenure = Tenure {
            subject: request.subject.clone(),
            owner: request.owner,
            lease: request.lease,
            holds: BTreeMap::from([(
                id,
                Hold {
                    claimed: false,
                    watchdog: request.watchdog,
                },
            )]),
            entering: VecDeque::new(),
            kept: 0,
            on_server: Some(1),
            setting: None,
            failures: 0,
            reports: Vec::new(),
            confirmed_at: sent_at,
            valid_until: lease.valid_until(sent_at),
            ends_at: request.max_hold.map_or(Moment::NEVER, |most| sent_at + most),
            renewals_left: request.max_renewals,
            renewing: None,
            renew_failures: 0,
            ensuring: Vec::new(),
            uncertain: false,
            lost: None,
        };
        self.timers.set(Timer::Expire(wire), tenure.valid_until);
        self.tenures.insert(wire, tenure);
        self.holds.insert(id, wire);
        self.holders
            .insert((request.subject.clone(), request.owner), wire);
        self.timers.clear(Timer::Ask(id));
        self.grant(now, id, wire);
        self.enter_from_line(now, &request, wire);
        self.step_out(now, id, &request.subject);
    }

    /// Waiters of the owner that has just got the lock need not wait for themselves.
    fn enter_from_line(&mut self, now: Moment, granted: &Request, wire: WireOwner) {
        let line: Vec<Id> = self
            .lines
            .get(&granted.subject)
            .into_iter()
            .flatten()
            .copied()
            .collect();
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
        let ask = Ask {
            name: &tenure.subject.name,
            owner: wire,
            lease,
            count: wanted,
        };
        let recipe = tenure.subject.recipe;
        let call = if raises {
            recipe.acquire(&ask)
        } else {
            recipe.release(&ask)
        };
        let call = self.run(call, Purpose::Count(wire));
        self.timers.clear(Timer::Count(wire));
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.setting = Some(Setting {
                call,
                count: wanted,
                raises,
                lease,
                sent_at: now,
            });
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
        let free = usize::try_from(free)
            .unwrap_or(usize::MAX)
            .saturating_sub(tenure.holds.len());
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
        let reports = self
            .tenures
            .get_mut(&wire)
            .map(|tenure| std::mem::take(&mut tenure.reports));
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
        tenure.holds.insert(
            id,
            Hold {
                claimed: false,
                watchdog: request.watchdog,
            },
        );
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
            let failure = ReleaseFailure {
                free_within,
                error: error.clone(),
            };
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

    pub(super) fn claim_grant(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let lost = self.tenures.get(&wire).is_none_or(|tenure| tenure.lost.is_some());
        self.timers.clear(Timer::Unclaimed(id));
        if lost {
            // It came and went before its caller looked: as good as never granted.
            self.drop_hold(now, id, None);
            return self.reacquire(now, id);
        }
        self.tickets.remove(&id);
        if let Some(hold) = self
            .tenures
            .get_mut(&wire)
            .and_then(|tenure| tenure.holds.get_mut(&id))
        {
            hold.claimed = true;
        }
        self.plan_renewal(now, wire);
        self.actions
            .push(super::Action::Settle(id, Settlement::Acquired(Ok(()))));
    }

    /// Gives back one hold.
    pub(super) fn release(&mut self, now: Moment, hold: Id, report: Option<Id>) {
        if let Some(id) = report {
            self.tickets.insert(id, Ticket::Pending);
        }
        self.drop_hold(now, hold, report);
    }

    /// Takes a hold off its tenure, claimed or not.
    pub(super) fn drop_hold(&mut self, now: Moment, hold: Id, report: Option<Id>) {
        self.timers.clear(Timer::Unclaimed(hold));
        let wire = self.holds.remove(&hold);
        let tenure = wire.and_then(|wire| self.tenures.get_mut(&wire));
        if let (Some(wire), Some(tenure)) = (wire, tenure) {
            tenure.holds.remove(&hold);
            self.after_fewer_holds(now, wire, report);
        } else if let Some(id) = report {
            self.settle_if_wanted(id, Settlement::Released(Ok(false)));
        }
    }

    /// Ends the tenure when nobody uses it any more, or lowers the count.
    fn after_fewer_holds(&mut self, now: Moment, wire: WireOwner, report: Option<Id>) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        let (lost, unused, kept) = (tenure.lost.is_some(), tenure.is_unused(), tenure.kept > 0);
        if lost || (unused && kept) {
            if unused {
                self.forget(wire);
            }
            if let Some(id) = report {
                self.settle_if_wanted(id, Settlement::Released(Ok(!lost)));
            }
        } else if unused {
            self.end_tenure(now, wire, report);
        } else {
            tenure.reports.extend(report);
            self.set_count(now, wire);
            self.plan_renewal(now, wire);
        }
    }

    /// The last hold is gone: renewal stops here, and only then the release is sent.
    fn end_tenure(&mut self, now: Moment, wire: WireOwner, report: Option<Id>) {
        if let Some(tenure) = self.forget(wire) {
            self.begin_parting(now, wire, &tenure.subject, tenure.lease);
            for id in tenure.reports.into_iter().chain(report) {
                self.report_parting(wire, id);
            }
        }
    }

    /// Gives a hold up without a release.
    pub(super) fn keep(&mut self, now: Moment, hold: Id) {
        let Some(wire) = self.holds.remove(&hold) else {
            return;
        };
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.holds.remove(&hold);
            tenure.kept += 1;
        }
        self.after_fewer_holds(now, wire, None);
    }

    /// Takes a tenure out of the engine, and every timer of it.
    pub(super) fn forget(&mut self, wire: WireOwner) -> Option<Tenure> {
        let tenure = self.tenures.remove(&wire)?;
        for timer in [Timer::Expire(wire), Timer::Renew(wire), Timer::Count(wire)] {
            self.timers.clear(timer);
        }
        let holder = (tenure.subject.clone(), tenure.owner);
        if self.holders.get(&holder) == Some(&wire) {
            self.holders.remove(&holder);
        }
        for ensuring in &tenure.ensuring {
            let failure = EnsureFailure::Lost(tenure.lost.unwrap_or(LostReason::Closed));
            self.settle_if_wanted(ensuring.id, Settlement::Ensured(Err(failure)));
        }
        Some(tenure)
    }

    /// The tenure is over though holds are left: they are told, and nothing renews it any more.
    pub(super) fn lose(&mut self, now: Moment, wire: WireOwner, reason: LostReason) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        if tenure.lost.is_some() {
            return;
        }
        tenure.lost = Some(reason);
        let doubtful = tenure.uncertain || tenure.setting.is_some() || tenure.renewing.is_some();
        let (subject, lease) = (tenure.subject.clone(), tenure.lease);
        let entering: Vec<Id> = tenure.entering.iter().copied().collect();
        let holds: Vec<Id> = tenure.holds.keys().copied().collect();
        let reports = std::mem::take(&mut tenure.reports);
        let ensuring = std::mem::take(&mut tenure.ensuring);
        for timer in [Timer::Expire(wire), Timer::Renew(wire), Timer::Count(wire)] {
            self.timers.clear(timer);
        }
        if doubtful || reason == LostReason::Closed {
            self.begin_parting(now, wire, &subject, lease);
        }
        for id in entering {
            self.fail(now, id, AcquireFailure::Lost(reason));
        }
        for id in reports {
            self.settle_if_wanted(id, Settlement::Released(Ok(false)));
        }
        for waiting in ensuring {
            let failure = EnsureFailure::Lost(reason);
            self.settle_if_wanted(waiting.id, Settlement::Ensured(Err(failure)));
        }
        for id in holds {
            self.wake(id);
        }
        self.ask_unless_held_here(now, &subject);
    }

    /// Asks anew for a ticket whose grant is gone again.
    pub(super) fn reacquire(&mut self, now: Moment, id: Id) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.remove(&id) else {
            return;
        };
        if acquiring.request.wait == Wait::Once {
            self.actions.push(super::Action::Settle(
                id,
                Settlement::Acquired(Err(AcquireFailure::Unclaimed)),
            ));
        } else {
            self.acquire(now, id, acquiring.request);
        }
    }

    /// For how long this client itself still holds the subject, by whatever owner.
    pub(super) fn held_here_for(&self, subject: &Subject, now: Moment) -> Option<Duration> {
        let first = (subject.clone(), Owner::from_number(0));
        let held = self
            .holders
            .range(first..)
            .take_while(|((held, _), _)| held == subject);
        held.filter_map(|(_, wire)| self.tenures.get(wire))
            .map(|tenure| tenure.remaining(now))
            .max()
            .filter(|remaining| !remaining.is_zero())
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
