//! A server hold: what this client holds on the server under one wire owner, shared by the holds of one owner.
//!
//! Invariant: a lost server hold is never revived. Nothing renews it, and re-entering it fails. The last hold's release
//! ends the server hold here before anything is sent, so no renewal can follow a release.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::release::ReleaseTerms;
use super::state::{Cause, Hold, MinHold, Release, ServerHold, Ticket};
use super::timer::Timer;
use super::{
    AcquireFailure, Action, Engine, EnsureFailure, Grant, Id, LostReason, Outcome, Request, Subject, Wait,
};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::owner::{Owner, WireOwner};
use crate::recipe::Holding;

impl Hold {
    /// Creates a hold that begins at `from` and is not yet claimed.
    pub(super) fn new(request: &Request, from: Moment) -> Self {
        Self {
            claimed: false,
            watchdog: request.watchdog,
            lease: request.lease,
            ends_at: request.max_hold.map_or(Moment::NEVER, |most| from + most),
            min_hold_until: request.min_hold.map_or(from, |least| from + least),
            renewals_left: request.max_renewals,
        }
    }

    /// Returns true if the watchdog has to renew the hold.
    pub(super) fn is_watched(&self) -> bool {
        self.claimed && self.watchdog && self.renewals_left != Some(0)
    }
}

impl ServerHold {
    /// Returns the time by which the key is gone if nothing arrives at the server after `arrives_by`.
    pub(super) fn gone_by(&self, arrives_by: Moment) -> Moment {
        self.subject.gone_by(self.longest, arrives_by)
    }

    /// Returns the validity that is left.
    pub(super) fn remaining(&self, now: Moment) -> Duration {
        if self.lost.is_some() { Duration::ZERO } else { self.valid_until.since(now) }
    }

    /// Returns the lease that renewals set and are paced by.
    pub(super) fn lease(&self) -> Lease {
        self.holds.values().map(|hold| hold.lease).max().unwrap_or(self.longest)
    }

    /// Returns the latest end of all its holds.
    pub(super) fn ends_at(&self) -> Moment {
        self.holds.values().map(|hold| hold.ends_at).max().unwrap_or(Moment::NEVER)
    }

    pub(super) fn wanted(&self) -> u32 {
        u32::try_from(self.holds.len() + self.entering.len())
            .unwrap_or(u32::MAX)
            .saturating_add(self.detached)
    }

    /// Returns true if a renewal, or a call that sets the count, is in flight.
    pub(super) const fn has_call_on_its_way(&self) -> bool {
        self.count_call.is_some() || self.renewing.is_some()
    }

    /// Returns the minimum hold that the server hold becomes when it ends before `until`. No release waits for it yet.
    fn as_min_hold(&self, until: Moment) -> MinHold {
        MinHold {
            subject: self.subject.clone(),
            units: self.units,
            detached: self.detached > 0,
            until,
            expires_at: self.expires_at,
            longest: self.longest,
            reports: Vec::new(),
            call: None,
            failures: 0,
        }
    }

    /// Returns the latest end of the minimum hold times of its claimed and its released holds.
    pub(super) fn latest_min_hold(&self) -> Moment {
        let claimed = self.holds.values().filter(|hold| hold.claimed).map(|hold| hold.min_hold_until);
        claimed.fold(self.min_hold_until, Moment::max)
    }

    fn is_unused(&self) -> bool {
        self.holds.is_empty() && self.entering.is_empty()
    }
}

impl Engine {
    /// Begins the server hold of an attempt that was granted in time.
    pub(super) fn begin_server_hold(
        &mut self,
        now: Moment,
        id: Id,
        grant: Grant,
        lease: Lease,
        sent_at: Moment,
    ) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let (request, wire) = (acquiring.request.clone(), grant.wire);
        let subject = request.subject.as_held();
        let policy = subject.recipe.policy;
        let unleased = policy.holding == Holding::Unending;
        let valid_until = if unleased { Moment::NEVER } else { lease.valid_until(sent_at) };
        let server_hold = ServerHold {
            subject: subject.clone(),
            owner: request.owner,
            units: request.units,
            token: grant.token,
            longest: request.lease,
            holds: BTreeMap::from([(id, Hold::new(&request, sent_at))]),
            entering: VecDeque::new(),
            detached: 0,
            on_server: Some(1),
            count_call: None,
            failures: 0,
            last_error: None,
            reports: Vec::new(),
            confirmed_at: sent_at,
            valid_until,
            expires_at: sent_at + lease.duration(),
            renewing: None,
            renew_failures: 0,
            retry_at: None,
            ensuring: Vec::new(),
            min_hold_until: sent_at,
            stale_messages_until: self.stale_messages_until(now, &subject, wire),
            recheck_from: Moment::NEVER,
            uncertain: false,
            lost: None,
        };
        self.timers.set(Timer::Expire(wire), valid_until);
        self.server_holds.insert(wire, server_hold);
        self.holds.insert(id, wire);
        self.timers.clear(Timer::Attempt(id));
        self.grant(now, id, wire);
        if policy.counted {
            self.holders.insert((subject.clone(), request.owner), wire);
            if policy.exclusive {
                self.lose_displaced(now, &subject, wire);
            }
            self.stop_waiting(id, &request);
            self.enter_waiters(now, &subject, request.owner, wire);
            self.attempt_companion(now, &subject, request.owner);
        }
        self.remove_from_queue(now, id, &request.subject);
    }

    /// Returns the wire owner under which this owner holds the subject, if the recipe counts an owner's holds.
    pub(super) fn holder(&self, subject: &Subject, owner: Owner) -> Option<WireOwner> {
        self.holders.get(&(subject.clone(), owner)).copied()
    }

    pub(super) fn claim_grant(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let lost = self.server_holds.get(&wire).is_none_or(|server_hold| server_hold.lost.is_some());
        self.timers.clear(Timer::Unclaimed(id));
        if lost {
            // The grant was lost before its caller claimed it, so the ticket counts as never granted.
            self.drop_hold(now, id, None);
            return self.reacquire(now, id, wire);
        }
        self.tickets.remove(&id);
        let server_hold = self.server_holds.get_mut(&wire);
        let token = server_hold.as_ref().and_then(|server_hold| server_hold.token);
        if let Some(hold) = server_hold.and_then(|server_hold| server_hold.holds.get_mut(&id)) {
            hold.claimed = true;
        }
        self.plan_renewal(wire);
        let grant = Grant { wire, token };
        self.actions.push(Action::Complete(id, Outcome::Acquired(Ok(grant))));
    }

    /// Removes one hold of a caller. The report tells this caller the outcome.
    pub(super) fn release(&mut self, now: Moment, hold: Id, report: Option<Id>) {
        if let Some(id) = report {
            self.tickets.insert(id, Ticket::Pending);
        }
        self.drop_hold(now, hold, report);
    }

    /// Extends the minimum hold time of a hold to at least `least` from now.
    pub(super) fn set_min_hold(&mut self, now: Moment, hold: Id, least: Duration) {
        let Some(wire) = self.holds.get(&hold).copied() else { return };
        let server_hold = self.server_holds.get_mut(&wire);
        if let Some(held) = server_hold.and_then(|server_hold| server_hold.holds.get_mut(&hold)) {
            held.min_hold_until = held.min_hold_until.max(now + least);
        }
        self.plan_renewal(wire);
    }

    /// Removes a hold from its server hold, claimed or not.
    pub(super) fn drop_hold(&mut self, now: Moment, hold: Id, report: Option<Id>) {
        self.timers.clear(Timer::Unclaimed(hold));
        let wire = self.holds.remove(&hold);
        let server_hold = wire.and_then(|wire| self.server_holds.get_mut(&wire));
        if let (Some(wire), Some(server_hold)) = (wire, server_hold) {
            // An unclaimed grant was no hold, so its minimum hold time does not count.
            if let Some(given_back) = server_hold.holds.remove(&hold).filter(|hold| hold.claimed) {
                server_hold.min_hold_until = server_hold.min_hold_until.max(given_back.min_hold_until);
            }
            self.after_fewer_holds(now, wire, report);
        } else if let Some(id) = report {
            self.complete_if_wanted(id, Outcome::Released(Ok(false)));
        }
    }

    /// Ends the server hold when no hold or re-entry is left, or lowers the count.
    pub(super) fn after_fewer_holds(&mut self, now: Moment, wire: WireOwner, report: Option<Id>) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        // A detached hold runs out by its lease, unless a released hold has to last longer.
        let detached = server_hold.detached > 0 && server_hold.min_hold_until <= now;
        let (lost, unused) = (server_hold.lost.is_some(), server_hold.is_unused());
        if lost || (unused && detached) {
            let gone = if unused { self.forget(wire) } else { None };
            // The releases of one hold of several that wait for the call that sets the count.
            let waiting = gone.map(|server_hold| server_hold.reports).unwrap_or_default();
            for id in waiting.into_iter().chain(report) {
                self.complete_if_wanted(id, Outcome::Released(Ok(!lost)));
            }
        } else if unused {
            self.end_server_hold(now, wire, report);
        } else {
            server_hold.reports.extend(report);
            self.set_count(now, wire);
            self.plan_renewal(wire);
        }
    }

    /// Ends a server hold whose last hold is gone: stops its renewal, and then sends the release or begins the minimum
    /// hold.
    fn end_server_hold(&mut self, now: Moment, wire: WireOwner, report: Option<Id>) {
        if let Some(server_hold) = self.forget(wire) {
            let min_hold = (server_hold.min_hold_until > now)
                .then(|| server_hold.as_min_hold(server_hold.min_hold_until));
            let gone_by = server_hold.gone_by(self.arrives_by(now, server_hold.has_call_on_its_way()));
            let (lease, units) = (server_hold.longest, server_hold.units);
            let reports = server_hold.reports.into_iter().chain(report).collect();
            if let Some(min_hold) = min_hold {
                return self.begin_min_hold(now, wire, MinHold { reports, ..min_hold });
            }
            let terms = ReleaseTerms { lease, units, gone_by, cause: Cause::Release, reports };
            self.begin_release(now, wire, &server_hold.subject, terms);
        }
    }

    /// Drops a hold without a release.
    pub(super) fn detach(&mut self, now: Moment, hold: Id) {
        let Some(wire) = self.holds.remove(&hold) else {
            return;
        };
        if let Some(server_hold) = self.server_holds.get_mut(&wire) {
            server_hold.holds.remove(&hold);
            server_hold.detached += 1;
        }
        self.after_fewer_holds(now, wire, None);
    }

    /// Removes a server hold from the engine, with all its timers.
    pub(super) fn forget(&mut self, wire: WireOwner) -> Option<ServerHold> {
        let mut server_hold = self.server_holds.remove(&wire)?;
        self.clear_timers(wire);
        let holder = (server_hold.subject.clone(), server_hold.owner);
        if self.holders.get(&holder) == Some(&wire) {
            self.holders.remove(&holder);
        }
        let failure = EnsureFailure::Lost(server_hold.lost.unwrap_or(LostReason::Closed));
        self.fail_ensuring(std::mem::take(&mut server_hold.ensuring), &failure);
        Some(server_hold)
    }

    /// Clears all timers of a server hold.
    fn clear_timers(&mut self, wire: WireOwner) {
        for timer in [Timer::Expire(wire), Timer::Renew(wire), Timer::Count(wire)] {
            self.timers.clear(timer);
        }
    }

    /// Marks a server hold as lost: stops its renewal, wakes its holds, fails its re-entries, and releases what the
    /// server may still have of it.
    pub(super) fn lose(&mut self, now: Moment, wire: WireOwner, reason: LostReason) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        if server_hold.lost.is_some() {
            return;
        }
        server_hold.lost = Some(reason);
        let on_its_way = server_hold.has_call_on_its_way();
        let uncertain = server_hold.uncertain || on_its_way;
        let (subject, lease, units) = (server_hold.subject.clone(), server_hold.longest, server_hold.units);
        let owner = server_hold.owner;
        let min_hold_until = server_hold.latest_min_hold();
        // A close or a bound of the holds ends the guards while the key still exists.
        let is_kept = reason.is_by_own_terms() && server_hold.expires_at > now;
        let min_holds = min_hold_until > now && (reason == LostReason::Closed || is_kept);
        let min_hold = min_holds.then(|| server_hold.as_min_hold(min_hold_until));
        let entering: Vec<Id> = server_hold.entering.iter().copied().collect();
        let holds: Vec<Id> = server_hold.holds.keys().copied().collect();
        let reports = std::mem::take(&mut server_hold.reports);
        let ensuring = std::mem::take(&mut server_hold.ensuring);
        self.clear_timers(wire);
        // The lock's key outlives this hold while the owner's companion hold or other readers keep it alive, and this
        // hold's field stays in it. The same is true of a companion hold that the owner is about to get, as long as the
        // key has not run out.
        let by_the_clock = reason == LostReason::Unreachable || reason.is_by_own_terms();
        let may_live_on = by_the_clock && subject.recipe.companion.is_some();
        let lives_on = may_live_on || self.has_blocking_hold(&subject, owner);
        if let Some(min_hold) = min_hold {
            self.begin_min_hold(now, wire, min_hold);
        } else if uncertain || lives_on || reason == LostReason::Closed {
            let gone_by = subject.gone_by(lease, self.arrives_by(now, on_its_way));
            let terms = ReleaseTerms { lease, units, gone_by, cause: Cause::Release, reports: Vec::new() };
            self.begin_release(now, wire, &subject, terms);
        }
        for id in entering {
            self.fail(now, id, AcquireFailure::Lost(reason));
        }
        for id in reports {
            self.complete_if_wanted(id, Outcome::Released(Ok(false)));
        }
        self.fail_ensuring(ensuring, &EnsureFailure::Lost(reason));
        for id in holds {
            self.wake(id);
        }
        self.attempt_unless_held_here(now, &subject);
    }

    /// Acquires again for a ticket whose grant, as `wire`, is gone. A request with `Wait::Once` fails as unclaimed.
    pub(super) fn reacquire(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.remove(&id) else {
            return;
        };
        if acquiring.request.wait == Wait::Once {
            self.actions.push(Action::Complete(id, Outcome::Acquired(Err(AcquireFailure::Unclaimed))));
        } else {
            let releasing_until = self.releases.get(&wire).map(Release::gone_by);
            self.acquire(now, id, acquiring.request);
            // While the server has not confirmed that the first grant is gone, no failure may say that nothing is
            // locked.
            if let (Some(until), Some(waiter)) = (releasing_until, self.waiter_state_mut(id)) {
                waiter.mark_uncertain_until(until);
            }
        }
    }

    /// Returns the wire owners under which this client holds the subject.
    fn held_under(&self, subject: &Subject) -> impl Iterator<Item = WireOwner> {
        let first = (subject.clone(), Owner::from_number(0));
        self.holders.range(first..).take_while(move |((held, _), _)| held == subject).map(|(_, wire)| *wire)
    }

    /// Returns the server hold in which this client itself still holds the subject, for any owner. Of several, returns
    /// the one with the longest remaining validity.
    pub(super) fn held_here(&mut self, subject: &Subject, now: Moment) -> Option<&mut ServerHold> {
        let remaining =
            |wire: &WireOwner| self.server_holds.get(wire).map(|server_hold| server_hold.remaining(now));
        let longest = self.held_under(subject).max_by_key(remaining)?;
        self.server_holds.get_mut(&longest).filter(|server_hold| !server_hold.remaining(now).is_zero())
    }

    /// Notes that a message has announced a release of the subject. If this client holds it, the message may be about
    /// the release before the grant. A later message means that the lock was taken away.
    pub(super) fn note_release_message(&mut self, now: Moment, subject: &Subject) {
        if let Some(server_hold) = self.held_here(subject, now) {
            server_hold.recheck_from =
                server_hold.recheck_from.min(server_hold.stale_messages_until.max(now));
        }
    }

    /// Loses the other holds of the subject that this client still trusts. The server has granted an exclusive hold, so
    /// they are gone.
    fn lose_displaced(&mut self, now: Moment, subject: &Subject, granted: WireOwner) {
        let displaced: Vec<WireOwner> = self.held_under(subject).filter(|wire| *wire != granted).collect();
        for wire in displaced {
            self.lose(now, wire, LostReason::Deleted);
        }
    }
}
