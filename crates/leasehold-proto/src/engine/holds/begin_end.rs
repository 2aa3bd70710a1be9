//! The server holds of a client, and how one begins and ends.
//!
//! Invariant: a lost hold is never revived. Nothing renews it, and re-entering it fails. The last guard's release ends
//! the hold here before anything is sent, so no renewal can follow a release.

use std::time::Duration;

use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::few::Few;
use crate::engine::base::keys::{NameId, Number, QueueId, Side};
use crate::engine::base::terms::{ByAddress, Terms};
use crate::engine::base::timers::Timer;
use crate::engine::effect::Effect;
use crate::engine::holds::Holds;
use crate::engine::holds::hold::{Bound, Cause, Guard, MinHold, Phase, Reentry, ServerHold};
use crate::engine::holds::tokens::Tokens;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::Stage;
use crate::engine::{AcquireFailure, Action, EnsureFailure, Grant, GrantedBy, Id, LostReason, Outcome};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::owner::Owner;

/// What a grant gives.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Granted {
    pub(in crate::engine) number: Number,
    /// The time at which its attempt was sent.
    pub(in crate::engine) sent_at: Moment,
    pub(in crate::engine) lease: Lease,
    pub(in crate::engine) tokens: Tokens,
}

impl Holds {
    /// Sets the timer of a hold by what is due first.
    pub(in crate::engine) fn arm(&mut self, number: Number) {
        if let Some(hold) = self.index.get_mut(number) {
            let due = hold.due();
            hold.alarm.set_by(&mut self.cx.timers, Timer::Hold(number), due);
        }
    }

    /// Does what is due for a hold: gives up an unclaimed grant, ends it by the clock, renews it, tries its call again.
    pub(in crate::engine) fn hold_due(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get(number).filter(|hold| hold.due() <= now) else { return };
        let unclaimed: Vec<Id> =
            hold.guards.iter().filter(|guard| guard.claim_by() <= now).map(|guard| guard.id).collect();
        for id in unclaimed {
            self.expire_unclaimed(now, id, number);
        }
        // What follows depends on whether the hold passes on.
        if self.index.get(number).is_some_and(|hold| hold.is_held() && hold.is_unused()) {
            return self.arm(number);
        }
        self.ensures_due(now, number);
        let Some(hold) = self.index.get(number) else { return };
        if hold.is_held() && hold.valid_until <= now {
            let reason = hold.reason_by_the_clock();
            self.lose(now, number, reason);
        }
        self.renewal_due(now, number);
        self.probe_due(now, number);
        self.call_due(now, number);
        self.report_due(now, number);
        self.arm(number);
    }

    /// Tries again the call of a hold whose pause is over.
    fn call_due(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.again_at <= now) else { return };
        hold.again_at = Moment::NEVER;
        match hold.phase {
            Phase::Held => self.set_count(now, number),
            Phase::MinHold(_) => self.advance_min_hold(now, number),
            Phase::Releasing(_) => self.send_release(now, number),
            Phase::Undone => self.leave_to_lease(number),
            Phase::Gone => {}
        }
    }

    /// Undoes a grant that was not claimed, so that a future that is not polled blocks other waiters only briefly.
    fn expire_unclaimed(&mut self, now: Moment, id: Id, number: Number) {
        let timers = &mut self.cx.timers;
        let Some(Ticket::Acquire(acquire)) = self.cx.tickets.get_mut(id) else {
            debug_assert!(false, "an unclaimed grant has its acquire");
            return;
        };
        acquire.stage = Stage::Expired(number);
        acquire.set_deadline(timers, id);
        self.drop_guard(now, id, number, None);
    }

    /// Extends the minimum hold time of a hold to at least `least` from now.
    pub(in crate::engine) fn set_min_hold(&mut self, now: Moment, id: Id, least: Duration) {
        let Some(number) = self.index.of_guard(id) else { return };
        if let Some(guard) = self.index.get_mut(number).and_then(|hold| hold.guard_mut(id)) {
            guard.min_hold_until = guard.min_hold_until.max(now + least);
        }
        self.plan_renewal(number);
    }

    /// Removes a guard from its hold, claimed or not.
    pub(in crate::engine) fn drop_guard(&mut self, now: Moment, id: Id, number: Number, report: Option<Id>) {
        self.index.remove_guard(id);
        let Some(hold) = self.index.get_mut(number) else {
            debug_assert!(false, "a guard has its hold");
            return;
        };
        // An unclaimed grant was no hold, so its minimum hold time does not count.
        if let Some(dropped) = hold.dismiss(id).filter(Guard::is_claimed) {
            hold.min_hold_until = hold.min_hold_until.max(dropped.min_hold_until);
            if hold.lost.is_none() {
                self.cx.actions.push(Action::Trusted(id, Moment::default()));
                self.note_released(number, &dropped, false);
            }
        }
        self.after_fewer_guards(now, number, report);
    }

    /// Ends the hold when no guard or re-entry is left, or lowers the count.
    pub(in crate::engine) fn after_fewer_guards(&mut self, now: Moment, number: Number, report: Option<Id>) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        // A detached guard runs out by its lease, unless a released one has to last longer.
        let runs_out = hold.detached() > 0 && hold.min_hold_until <= now;
        let (lost, unused, queue) = (hold.lost.is_some(), hold.is_unused(), hold.queue());
        if lost || (unused && runs_out) {
            // The releases of one hold of several that wait for the call that sets the count.
            let waiting = if unused && !lost { hold.reports.take() } else { Few::default() };
            if unused {
                self.unhold(number);
                if !lost {
                    self.end_phase(number);
                    self.cx.raise(Effect::Detached(queue));
                }
                self.forget_if_over(number);
            }
            self.cx.report(waiting.into_iter().chain(report), &Outcome::Released(Ok(!lost)));
        } else {
            if hold.reports.is_empty() {
                hold.report_by = now + self.cx.settings.timeout;
            }
            hold.reports.extend(report);
            if unused {
                self.unhold(number);
                self.cx.raise(Effect::Unused(number));
            } else {
                self.set_count(now, number);
                self.plan_renewal(number);
            }
        }
    }

    /// Ends a hold whose last guard is gone: stops its renewal, and then sends the release or begins the minimum hold.
    pub(in crate::engine) fn end_hold(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let until = hold.min_hold_until;
        let on_its_way = hold.stop();
        if until > now {
            return self.begin_min_hold(now, number, until);
        }
        let gone_by = self.gone_by(now, number, on_its_way);
        self.begin_release(now, number, gone_by, Cause::Release);
    }

    /// Returns the time by which a hold is gone from the server if its client sends nothing else for it.
    pub(in crate::engine) fn gone_by(&self, now: Moment, number: Number, on_its_way: bool) -> Moment {
        let arrives_by = self.cx.arrives_by(now, on_its_way);
        let Some(hold) = self.index.get(number).certain(HELD) else { return now };
        if self.has_reader_beside(hold.name, hold.recipe(), hold.owner) {
            return Moment::NEVER;
        }
        self.cx.subject_of(hold).gone_by(hold.longest, arrives_by)
    }

    /// Lets a guard go without a release.
    pub(in crate::engine) fn detach(&mut self, now: Moment, id: Id) {
        let Some(number) = self.index.remove_guard(id) else { return };
        if let Some(hold) = self.index.get_mut(number) {
            let dropped = hold.dismiss(id);
            hold.reentry.get_or_insert_default().detached += 1;
            if hold.lost.is_none() {
                self.cx.actions.push(Action::Trusted(id, Moment::default()));
                dropped.iter().for_each(|guard| self.note_released(number, guard, true));
            }
        }
        self.after_fewer_guards(now, number, None);
    }

    /// Detaches the only guard of a hold, for another client to adopt it. The adopter's minimum hold time is its own.
    pub(in crate::engine) fn give(&mut self, now: Moment, id: Id, guard: Id) {
        let hold = self.index.of_guard(guard).and_then(|number| self.index.get(number));
        let is_alone = hold.is_some_and(|hold| {
            let is_single = hold.reentry.as_ref().is_none_or(|reentry| reentry.is_single());
            hold.lost.is_none() && hold.is_held() && hold.wanted() == 1 && is_single
        });
        if is_alone {
            self.detach(now, guard);
        }
        self.cx.complete(id, Outcome::Released(Ok(is_alone)));
    }

    /// Takes a hold from its owner, who has no guard of it any more.
    fn unhold(&mut self, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let (QueueId { name, side }, owner) = (hold.queue(), hold.owner);
        let failure = EnsureFailure::Lost(hold.lost.unwrap_or(LostReason::Closed));
        let ensuring = hold.ensuring.take();
        if hold.recipe().holding.is_counted() {
            self.cx.names.unhold(name, side, owner, number);
        }
        self.fail_ensuring(ensuring, &failure);
    }

    /// Ends what the client does for a hold on the server, and leaves the rest to its lease.
    pub(in crate::engine) fn end_phase(&mut self, number: Number) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        hold.stop();
        match std::mem::replace(&mut hold.phase, Phase::Gone) {
            Phase::Releasing(release) => {
                let name = hold.name;
                self.index.end_release(release.cause);
                self.cx.names.end_leaving(name, number);
            }
            Phase::Undone => self.index.end_undone(),
            Phase::Held | Phase::MinHold(_) | Phase::Gone => {}
        }
    }

    /// Leaves what is on the server of a hold to its lease, and forgets the hold unless it has guards.
    pub(in crate::engine) fn leave_to_lease(&mut self, number: Number) {
        self.end_phase(number);
        self.forget_if_over(number);
    }

    /// Forgets a hold that has neither a guard nor anything to do on the server.
    pub(in crate::engine) fn forget_if_over(&mut self, number: Number) {
        let over = |hold: &&mut ServerHold| hold.is_unused() && matches!(hold.phase, Phase::Gone);
        if let Some(hold) = self.index.get_mut(number).filter(over) {
            hold.alarm.clear(&mut self.cx.timers, Timer::Hold(number));
            let name = hold.name;
            self.index.remove(number);
            self.cx.names.end_use(name);
        }
    }

    /// Marks a hold as lost: stops its renewal, wakes its guards, fails its re-entries, and releases what the server
    /// may still have of it.
    pub(in crate::engine) fn lose(&mut self, now: Moment, number: Number, reason: LostReason) {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.is_held() && hold.lost.is_none())
        else {
            return;
        };
        hold.lost = Some(reason);
        let (queue, owner) = (hold.queue(), hold.owner);
        let recipe = hold.recipe();
        let min_hold_until = hold.latest_min_hold();
        // A close or a bound of the guards ends them while the key still exists.
        let is_kept = reason.is_by_own_terms() && hold.expires_at > now;
        // A renewal that was on its way when a guard with a later bound left keeps the key beyond the bounds of the others.
        let outlives = reason.is_by_own_terms() && hold.expires_at > hold.ends_at() && hold.detached() == 0;
        let rests = min_hold_until > now && (reason == LostReason::Closed || is_kept);
        let entering: Vec<Id> = hold.entering().collect();
        let guards = hold.guards.clone();
        let reports = hold.reports.take();
        let ensuring = hold.ensuring.take();
        let on_its_way = hold.stop();
        let uncertain = hold.uncertain;
        hold.phase = Phase::Gone;
        self.note_lost(number, reason, guards.iter().filter(|guard| guard.is_claimed()));
        // A server that has lost a hold may have lost places too.
        if !reason.is_by_own_terms() {
            self.cx.raise(Effect::Lost(queue));
        }
        for guard in guards.iter().filter(|guard| guard.is_claimed()) {
            self.cx.actions.push(Action::Trusted(guard.id, Moment::default()));
        }
        // The lock's key outlives this hold while the owner's companion hold or other readers keep it alive, and this
        // hold's field stays in it. The same is true of a companion hold that the owner is about to get, as long as the
        // key has not run out.
        let by_the_clock =
            matches!(reason, LostReason::Unreachable | LostReason::Silent) || reason.is_by_own_terms();
        let reads_too = self.has_reader_beside(queue.name, recipe, owner);
        let lives_on = (by_the_clock && recipe.companion.is_some()) || reads_too;
        if rests {
            self.begin_min_hold(now, number, min_hold_until);
        } else if uncertain || outlives || lives_on || reason == LostReason::Closed {
            let gone_by = self.gone_by(now, number, on_its_way);
            self.begin_release(now, number, gone_by, Cause::Release);
        }
        for id in entering {
            self.fail_entering(now, id, AcquireFailure::Lost(reason));
        }
        self.cx.report(reports, &Outcome::Released(Ok(false)));
        self.fail_ensuring(ensuring, &EnsureFailure::Lost(reason));
        for guard in guards {
            self.cx.wake(guard.id);
        }
        self.cx.raise(Effect::Freed(queue));
        self.forget_if_over(number);
    }

    /// Begins the hold of an attempt that was granted in time.
    pub(in crate::engine) fn begin(
        &mut self,
        now: Moment,
        (id, since, owner): (Id, Moment, Owner),
        (name, terms): (NameId, &Terms),
        granted: Granted,
    ) {
        let Granted { number, sent_at, lease, tokens } = granted;
        let recipe = terms.recipe();
        let held_as = recipe.held_as.unwrap_or(recipe);
        let mut hold = ServerHold::new(name, terms, terms.lease, sent_at);
        hold.recipe = ByAddress(held_as);
        hold.owner = owner;
        hold.tokens = tokens;
        hold.admit(Guard::new(id, terms, sent_at.max(since), now + terms.claim_within()), terms);
        let leased = held_as.holding.is_leased();
        hold.valid_until = if leased { hold.valid_until_by(sent_at, lease) } else { Moment::NEVER };
        hold.expires_at = sent_at + lease.duration();
        hold.min_hold_until = sent_at;
        let bound = self.cx.hand_off_bound(terms);
        hold.hand_off_until = now + bound;
        hold.bound = Bound::new(bound);
        hold.phase = Phase::Held;
        self.cx.names.add_use(name);
        self.index.insert(number, Box::new(hold));
        self.index.add_guard(id, number);
        self.cx.grant(id, number, GrantedBy::Server);
        self.arm(number);
    }

    /// Notes the hold of an owner, which displaces the one that the client has trusted so far.
    pub(in crate::engine) fn own(
        &mut self,
        now: Moment,
        (name, side, owner): (NameId, Side, Owner),
        number: Number,
    ) {
        if let Some(displaced) = self.cx.names.hold(name, side, owner, number) {
            self.lose(now, displaced, LostReason::Deleted);
        }
    }

    /// Claims the grant of a ticket. Returns its token and the end of its validity, or `None` if it was lost before.
    pub(in crate::engine) fn claim(
        &mut self,
        now: Moment,
        id: Id,
        number: Number,
    ) -> Option<(Option<u64>, Moment)> {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.lost.is_none()) else {
            // The ticket counts as never granted.
            self.drop_guard(now, id, number, None);
            return None;
        };
        if let Some(guard) = hold.guard_mut(id) {
            guard.claim(now);
        }
        hold.hear(now, id);
        let claimed = (hold.tokens.present(), hold.valid_until);
        if let Some(Ticket::Acquire(acquire)) = self.cx.tickets.remove(id) {
            self.cx.names.end_use(acquire.name);
        }
        self.plan_renewal(number);
        self.plan_probe(now, number);
        Some(claimed)
    }

    /// Hands a claimed hold over to its caller.
    pub(in crate::engine) fn hand_over(
        &mut self,
        id: Id,
        number: Number,
        token: Option<u64>,
        valid_until: Moment,
    ) {
        let grant = Grant { wire: self.cx.wire(number), token };
        self.cx.note(|facts| facts.acquired(id, grant));
        self.cx.actions.push(Action::Trusted(id, valid_until));
        self.cx.actions.push(Action::Complete(id, Outcome::Acquired(Ok(grant))));
    }

    /// Ends a re-entry without a hold.
    pub(in crate::engine) fn fail_entering(&mut self, now: Moment, id: Id, failure: AcquireFailure) {
        if matches!(failure, AcquireFailure::Unknown { .. }) {
            self.cx.note_known(id);
        }
        let Some(Ticket::Acquire(mut acquire)) = self.cx.tickets.remove(id) else { return };
        self.cx.stop_deadline(id, &mut acquire);
        if let Stage::Entering { hold, .. } = acquire.stage {
            self.stop_entering(now, id, hold);
        }
        self.cx.names.end_use(acquire.name);
        self.cx.complete(id, Outcome::Acquired(Err(failure)));
    }
}

impl ServerHold {
    /// Stops everything that is planned for a hold. Answers to what is on its way are ignored, so it may still extend the
    /// key. Returns true if anything is.
    pub(in crate::engine) fn stop(&mut self) -> bool {
        let on_its_way = self.has_call_on_its_way();
        self.uncertain |= on_its_way;
        (self.call, self.renewing) = (None, None);
        (self.renew_at, self.again_at, self.retry_at) = (Moment::NEVER, Moment::NEVER, Moment::NEVER);
        (self.failures, self.last_error, self.rechecks) = (0, None, false);
        if let Some(Reentry { sent, probe, .. }) = self.reentry.as_deref_mut() {
            (*sent, *probe) = (None, None);
        }
        on_its_way
    }

    /// Creates the minimum hold that follows this hold.
    pub(in crate::engine) fn as_min_hold(&self, until: Moment) -> MinHold {
        let detached = self.detached() > 0;
        MinHold { until, detached, is_short: detached || self.recipe().expire.is_none(), sent: None }
    }
}
