//! A server hold: what this client has on the server under one wire owner, from the grant until it is gone.
//!
//! Invariant: a wire owner is in one phase. A lost hold is never held again. What its guards see and what is on the
//! server are apart: a lost hold may still have guards, and a released one may still be on the server.
//!
//! # How it works
//! The guards of one owner share a server hold. While it is [held](Phase::Held), `renewal` keeps its lease and
//! `reentry` its count. When the last guard goes, it [rests](Phase::MinHold) until its minimum hold time is over, and
//! is then [released](Phase::Releasing). An acquire that no caller received begins in that phase. If it was of unknown
//! outcome, it stays [undone](Phase::Undone) for a lease. Call, failures, pauses and waiting callers stay with the hold
//! from phase to phase.

use std::collections::VecDeque;
use std::time::Duration;

use crate::confirm::Confirm;
use crate::engine::base::few::Few;
use crate::engine::base::keys::{NameId, QueueId, Sides};
use crate::engine::base::terms::{ByAddress, Terms};
use crate::engine::base::timers::Alarm;
use crate::engine::holds::tokens::Tokens;
use crate::engine::interface::LostReason;
use crate::id::{CallId, Id};
use crate::lease::{LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::Owner;
use crate::recipe::Recipe;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct ServerHold {
    pub(in crate::engine) name: NameId,
    pub(in crate::engine) recipe: ByAddress,
    pub(in crate::engine) owner: Owner,
    pub(in crate::engine) units: u32,
    /// The replicas that must acknowledge its calls: those of its first acquire and of all that have entered it since.
    pub(in crate::engine) replicas: Option<Confirm>,
    pub(in crate::engine) tokens: Tokens,
    /// The longest lease of any call that was sent. The server may keep the key for that long when all else is unknown.
    pub(in crate::engine) longest: Lease,
    /// The send time of the last confirmed acquire or renewal.
    pub(in crate::engine) confirmed_at: Moment,
    pub(in crate::engine) valid_until: Moment,
    /// The earliest time at which the server can expire the key, counted from the send of the last confirmed call. No
    /// drift is subtracted.
    pub(in crate::engine) expires_at: Moment,
    pub(in crate::engine) guards: Few<Guard>,
    pub(in crate::engine) lost: Option<LostReason>,
    /// True if an unanswered call may still extend the key.
    pub(in crate::engine) uncertain: bool,
    pub(in crate::engine) phase: Phase,
    /// The call that changes the count, extends the minimum hold, or releases. Only one is on its way.
    pub(in crate::engine) call: Option<CallId>,
    /// The failures of that call in a row.
    pub(in crate::engine) failures: u16,
    pub(in crate::engine) last_error: Option<Box<StoreError>>,
    /// The time of its next attempt.
    pub(in crate::engine) again_at: Moment,
    /// The releases that wait for the outcome.
    pub(in crate::engine) reports: Few<Id>,
    /// The time by which the first of them learns that it is not known, whatever the phase. It moves while the release
    /// waits behind calls that the server answers.
    pub(in crate::engine) report_by: Moment,
    pub(in crate::engine) reentry: Option<Box<Reentry>>,
    bounds: Option<Box<Bounds>>,
    /// The renewal on its way.
    pub(in crate::engine) renewing: Option<CallId>,
    pub(in crate::engine) renew_failures: u8,
    /// The time of the next renewal.
    pub(in crate::engine) renew_at: Moment,
    /// The time of the next attempt after a failed renewal, or [`Moment::NEVER`].
    pub(in crate::engine) retry_at: Moment,
    /// True if the check of a replaced server has failed, so that the next attempt is a check again.
    pub(in crate::engine) rechecks: bool,
    /// The tickets that wait for more validity.
    pub(in crate::engine) ensuring: Few<Box<Ensuring>>,
    /// The latest end of the minimum hold times of the released guards.
    pub(in crate::engine) min_hold_until: Moment,
    /// The time until which the hold passes to the next waiters of this client.
    pub(in crate::engine) hand_off_until: Moment,
    /// The length of that time.
    pub(in crate::engine) bound: Bound,
    pub(in crate::engine) alarm: Alarm,
}

/// What becomes of a wire owner on the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Phase {
    /// It is held, as far as this client knows.
    Held,
    /// It is released here, and the server keeps it until its minimum hold time is over.
    MinHold(Box<MinHold>),
    /// It is being taken off the server.
    Releasing(Release),
    /// It was taken off a server that may have had it. A server that takes over may still have it.
    Undone,
    /// Nothing of it is on the server, or what is there ends with its lease.
    Gone,
}

/// A minimum hold: it belongs to no owner, and its lease is extended at most to its end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct MinHold {
    /// The end of the minimum hold time.
    pub(in crate::engine) until: Moment,
    /// True if the lease ends the minimum hold, without a release.
    pub(in crate::engine) detached: bool,
    /// True if the lease ends with the minimum hold or is the shortest that the primitive can set.
    pub(in crate::engine) is_short: bool,
    /// The send time and the lease of the extension on its way.
    pub(in crate::engine) sent: Option<(Moment, Lease)>,
}

/// A release or an undo.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Release {
    /// The time by which the key is gone even if no release ever arrives.
    pub(in crate::engine) gone_by: Moment,
    pub(in crate::engine) cause: Cause,
    /// True if an earlier attempt may have been applied, so that "not held" may be its effect.
    pub(in crate::engine) uncertain: bool,
    pub(in crate::engine) begun_at: Moment,
    pub(in crate::engine) sent_at: Moment,
    /// The messages of its call that the client's own subscription is expected to hear.
    pub(in crate::engine) echoes: u32,
}

/// The reason for a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Cause {
    /// A hold ends.
    Release,
    /// A grant that came too late, or that no caller claimed or waited for, or a place in a queue on the server that is
    /// given up.
    UnseenGrant,
    /// An acquire that may or may not have run, and may still run, so only an answer ends its undo.
    UnknownAcquire,
    /// An undone acquire that another server may have brought back.
    Returned,
}

impl Cause {
    /// Returns true for an acquire that may or may not have run.
    pub(in crate::engine) const fn is_unknown(self) -> bool {
        matches!(self, Self::UnknownAcquire | Self::Returned)
    }
}

/// More renewals than any hold makes.
pub(in crate::engine) const UNBOUNDED: u32 = u32::MAX;

/// One hold of a caller, with its own terms. A server hold follows the most generous of its guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Guard {
    pub(in crate::engine) id: Id,
    pub(in crate::engine) watchdog: bool,
    pub(in crate::engine) lease: Lease,
    /// The end of the hold by its `max_hold`, or [`Moment::NEVER`].
    pub(in crate::engine) ends_at: Moment,
    /// The end of its minimum hold time, until which the server keeps it even after its release.
    pub(in crate::engine) min_hold_until: Moment,
    /// The number of renewals that the watchdog may still make, or [`UNBOUNDED`].
    pub(in crate::engine) renewals_left: u32,
    is_claimed: bool,
    /// The time of the claim, or before it the time at which the grant is undone without one.
    claim: Moment,
}

/// What a held lock without waiters does not have: the count of a hold that its owner entered more than once, or left in
/// part, and the probes of a hold that passes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Reentry {
    /// The acquires that raise the count, granted in this order.
    pub(in crate::engine) entering: VecDeque<Id>,
    /// The number of detached guards, which end when the key runs out by its lease.
    pub(in crate::engine) detached: u32,
    /// The count on the server, or `None` after a call with an unknown outcome.
    pub(in crate::engine) on_server: Option<u32>,
    /// What the call on its way sets.
    pub(in crate::engine) sent: Option<Count>,
    pub(in crate::engine) probe: Option<Probe>,
}

/// What few holds have: bounds on the trust in a hold beyond its lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Bounds {
    /// The guards whose callers must show that they are alive.
    pub(in crate::engine) silences: Few<Silence>,
    /// The margins of the guards that have one.
    margins: Few<(Id, Duration)>,
}

/// The bound on the silence of a guard's caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Silence {
    guard: Id,
    most: Duration,
    /// The time until which the last sign of life counts.
    until: Moment,
}

impl Default for Reentry {
    fn default() -> Self {
        Self { entering: VecDeque::new(), detached: 0, on_server: Some(1), sent: None, probe: None }
    }
}

impl Reentry {
    /// Returns true if the server certainly has a count of one, and no guard was detached.
    pub(in crate::engine) fn is_single(&self) -> bool {
        self.on_server == Some(1) && self.detached == 0 && self.sent.is_none() && self.entering.is_empty()
    }
}

/// A call on its way that sets the count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Count {
    pub(in crate::engine) count: u32,
    /// The re-entries that the call confirms. A call without any is a partial release, which keeps the lease.
    pub(in crate::engine) reentries: Vec<Id>,
    pub(in crate::engine) lease: Lease,
    pub(in crate::engine) sent_at: Moment,
}

/// What a ticket needs of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum Need {
    /// At least this much validity when the ticket completes.
    Validity(Duration),
    /// A lease of this length, which makes the hold valid until then.
    Lease(Lease, Moment),
}

/// A ticket that waits for more validity of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Ensuring {
    pub(in crate::engine) id: Id,
    pub(in crate::engine) need: Need,
    pub(in crate::engine) deadline: Moment,
    /// True if a renewal was sent since the ticket began to wait.
    pub(in crate::engine) sent: bool,
}

/// The probes in a row without a hand-off between them, while a waiter of this client is queued. A long section then costs
/// four calls, and not one in each bound of 2 ms.
pub(in crate::engine) const IN_A_ROW: u8 = 4;

/// The probes of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Probe {
    /// The time of the next probe, or [`Moment::NEVER`].
    pub(in crate::engine) probe_at: Moment,
    /// The probe on its way.
    pub(in crate::engine) call: Option<CallId>,
    /// The end of the bound for which the last probe was.
    pub(in crate::engine) sent_for: Moment,
    /// The time that the last call took, or the grant.
    pub(in crate::engine) trip: Duration,
    /// The probes that may follow while the hold does not pass on.
    pub(in crate::engine) left: u8,
    /// True if the hold has passed on since the last probe.
    pub(in crate::engine) has_passed: bool,
}

impl Probe {
    /// Creates the probes of a hold whose grant took this long.
    pub(in crate::engine) const fn new(trip: Duration) -> Self {
        let (probe_at, call, sent_for) = (Moment::NEVER, None, Moment::NEVER);
        Self { probe_at, call, sent_for, trip, left: IN_A_ROW, has_passed: false }
    }
}

/// A bound in sixteenths of a millisecond, rounded down, so that it fits beside the other small fields of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Bound(u16);

impl Bound {
    pub(in crate::engine) fn new(time: Duration) -> Self {
        let units = time.as_micros() * 16 / 1_000;
        Self(u16::try_from(units).unwrap_or(u16::MAX))
    }

    /// Returns the bound, or `None` if it is 4 seconds or longer. Such a hold has no probe.
    pub(in crate::engine) fn get(self) -> Option<Duration> {
        (self.0 < u16::MAX).then(|| Duration::from_millis(u64::from(self.0)) / 16)
    }
}

impl Guard {
    /// Creates the guard of a grant that begins at `from` and is claimed by `claim_by`.
    pub(in crate::engine) fn new(id: Id, terms: &Terms, from: Moment, claim_by: Moment) -> Self {
        Self {
            id,
            watchdog: terms.watchdog,
            lease: terms.lease,
            ends_at: terms.max_hold.map_or(Moment::NEVER, |most| from + most),
            min_hold_until: terms.min_hold.map_or(from, |least| from + least),
            renewals_left: terms.max_renewals.unwrap_or(UNBOUNDED),
            is_claimed: claim_by == Moment::NEVER,
            claim: claim_by,
        }
    }

    pub(in crate::engine) fn is_claimed(&self) -> bool {
        self.is_claimed
    }

    /// Notes that the caller has claimed the grant.
    pub(in crate::engine) const fn claim(&mut self, now: Moment) {
        (self.is_claimed, self.claim) = (true, now);
    }

    /// Returns the time of the claim.
    pub(in crate::engine) const fn since(&self) -> Moment {
        self.claim
    }

    /// Returns the time at which the grant is undone unless its caller claims it before.
    pub(in crate::engine) const fn claim_by(&self) -> Moment {
        if self.is_claimed { Moment::NEVER } else { self.claim }
    }

    /// Returns true if the watchdog has to renew the hold.
    fn is_watched(&self) -> bool {
        self.is_claimed() && self.watchdog && self.renewals_left != 0
    }
}

impl ServerHold {
    /// Creates what an attempt may have left on the server, before anything is known about it.
    pub(in crate::engine) fn new(name: NameId, terms: &Terms, lease: Lease, now: Moment) -> Self {
        let recipe = terms.recipe();
        Self {
            name,
            recipe: ByAddress(recipe),
            owner: Owner::from_number(0),
            units: terms.units,
            replicas: terms.replicas,
            tokens: Tokens::default(),
            longest: lease,
            confirmed_at: now,
            valid_until: now,
            expires_at: now,
            guards: Few::default(),
            lost: None,
            uncertain: false,
            phase: Phase::Gone,
            call: None,
            failures: 0,
            last_error: None,
            again_at: Moment::NEVER,
            reports: Few::default(),
            report_by: Moment::NEVER,
            reentry: None,
            bounds: None,
            renewing: None,
            renew_failures: 0,
            renew_at: Moment::NEVER,
            retry_at: Moment::NEVER,
            rechecks: false,
            ensuring: Few::default(),
            min_hold_until: Moment::default(),
            hand_off_until: Moment::default(),
            bound: Bound::default(),
            alarm: Alarm::default(),
        }
    }

    pub(in crate::engine) const fn recipe(&self) -> &'static Recipe {
        self.recipe.0
    }

    /// Returns the wait queue for the side of the name that it holds.
    pub(in crate::engine) fn queue(&self) -> QueueId {
        QueueId { name: self.name, side: self.recipe().held_side() }
    }

    /// Returns the time at which something is due.
    pub(in crate::engine) fn due(&self) -> Moment {
        let phase = match &self.phase {
            Phase::Held => self.valid_until,
            Phase::Releasing(_) if !self.reports.is_empty() => self.report_by,
            Phase::MinHold(_) | Phase::Releasing(_) | Phase::Undone | Phase::Gone => Moment::NEVER,
        };
        let probe = self.probe().map_or(Moment::NEVER, |probe| probe.probe_at);
        let mut due = phase.min(self.renew_at).min(self.again_at).min(probe);
        for guard in self.guards.iter() {
            due = due.min(guard.claim_by());
        }
        for waiting in self.ensuring.iter() {
            due = due.min(waiting.deadline);
        }
        due
    }

    /// Adds a guard with these terms. A longer margin counts from now on, also for the guards that the hold has.
    pub(in crate::engine) fn admit(&mut self, guard: Guard, terms: &Terms) {
        let longer = terms.margin.saturating_sub(self.margin());
        if let Some(bounds) = &mut self.bounds {
            bounds.margins.remove(|(of, _)| !self.guards.iter().any(|guard| guard.id == *of));
        }
        if terms.silent_for.is_some() || !terms.margin.is_zero() {
            let bounds = self.bounds.get_or_insert_default();
            if !terms.margin.is_zero() {
                bounds.margins.push((guard.id, terms.margin));
            }
            if let Some(most) = terms.silent_for {
                bounds.silences.push(Silence { guard: guard.id, most, until: Moment::NEVER });
            }
        }
        if self.valid_until != Moment::NEVER {
            self.valid_until = self.valid_until - longer;
        }
        self.guards.push(guard);
    }

    /// Removes a guard. Its margin counts no more for the validity that later calls confirm.
    pub(in crate::engine) fn dismiss(&mut self, id: Id) -> Option<Guard> {
        if let Some(bounds) = &mut self.bounds {
            bounds.silences.remove(|silence| silence.guard == id);
            if self.guards.len() > 1 {
                bounds.margins.remove(|(guard, _)| *guard == id);
            }
        }
        self.guards.remove(|guard| guard.id == id)
    }

    pub(in crate::engine) fn bounds(&self) -> Option<&Bounds> {
        self.bounds.as_deref()
    }

    /// Returns the time before the end of a lease at which the hold may not be trusted any more, besides the drift.
    pub(in crate::engine) fn margin(&self) -> Duration {
        let margins = self.bounds().into_iter().flat_map(|bounds| bounds.margins.iter());
        margins.map(|(_, margin)| *margin).max().unwrap_or_default()
    }

    /// Returns the end of the validity that a call sent at `sent_at` gives. The only place that subtracts the margin.
    pub(in crate::engine) fn valid_until_by(&self, sent_at: Moment, lease: Lease) -> Moment {
        sent_at + lease.validity().saturating_sub(self.margin())
    }

    /// Notes that the caller of a guard is alive. Returns true if the guard has a bound on its silence.
    pub(in crate::engine) fn hear(&mut self, now: Moment, id: Id) -> bool {
        let silences = self.bounds.iter_mut().flat_map(|bounds| bounds.silences.iter_mut());
        let heard = silences.filter(|silence| silence.guard == id);
        heard.map(|silence| silence.until = now + silence.most).count() > 0
    }

    /// Returns true if the caller of a guard was heard of in time, or need not be.
    fn is_heard(&self, guard: &Guard, now: Moment) -> bool {
        let mut silences = self.bounds().into_iter().flat_map(|bounds| bounds.silences.iter());
        silences.all(|silence| silence.guard != guard.id || silence.until > now)
    }

    pub(in crate::engine) fn guard_mut(&mut self, id: Id) -> Option<&mut Guard> {
        self.guards.iter_mut().find(|guard| guard.id == id)
    }

    /// Returns the validity that is left.
    pub(in crate::engine) fn remaining(&self, now: Moment) -> Duration {
        if self.lost.is_some() { Duration::ZERO } else { self.valid_until.since(now) }
    }

    /// Returns true if the hold has what a ticket needs.
    pub(in crate::engine) fn has(&self, need: Need, now: Moment) -> bool {
        match need {
            Need::Validity(least) => self.remaining(now) >= least,
            Need::Lease(_, until) => self.lost.is_none() && self.valid_until >= until,
        }
    }

    /// Returns true if the hold is on the server as far as this client knows.
    pub(in crate::engine) const fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held)
    }

    /// Returns true if it was taken off the server, but may come back with another one.
    pub(in crate::engine) const fn is_undone(&self) -> bool {
        matches!(self.phase, Phase::Undone)
    }

    /// Returns the lease that renewals set and are paced by.
    pub(in crate::engine) fn lease(&self) -> Lease {
        self.guards.iter().map(|guard| guard.lease).max().unwrap_or(self.longest)
    }

    /// Returns the latest end of all its guards.
    pub(in crate::engine) fn ends_at(&self) -> Moment {
        self.guards.iter().map(|guard| guard.ends_at).max().unwrap_or(Moment::NEVER)
    }

    /// Returns the count that the server should have.
    pub(in crate::engine) fn wanted(&self) -> u32 {
        let (entering, detached) =
            self.reentry.as_ref().map_or((0, 0), |reentry| (reentry.entering.len(), reentry.detached));
        u32::try_from(self.guards.len() + entering).unwrap_or(u32::MAX).saturating_add(detached)
    }

    pub(in crate::engine) fn detached(&self) -> u32 {
        self.reentry.as_ref().map_or(0, |reentry| reentry.detached)
    }

    /// Returns the acquires that raise the count.
    pub(in crate::engine) fn entering(&self) -> impl Iterator<Item = Id> {
        self.reentry.iter().flat_map(|reentry| reentry.entering.iter().copied())
    }

    /// Returns the probes of a hold that passes on.
    pub(in crate::engine) fn probe(&self) -> Option<&Probe> {
        self.reentry.as_ref()?.probe.as_ref()
    }

    pub(in crate::engine) fn probe_mut(&mut self) -> Option<&mut Probe> {
        self.reentry.as_mut()?.probe.as_mut()
    }

    /// Returns the probes of the hold, which begin with the time that its grant took.
    pub(in crate::engine) fn probe_or_new(&mut self) -> &mut Probe {
        let granted_at = self.hand_off_until - self.bound.get().unwrap_or_default();
        let trip = granted_at.since(self.confirmed_at);
        self.reentry.get_or_insert_default().probe.get_or_insert_with(|| Probe::new(trip))
    }

    /// Returns true if a renewal, a probe, or another call is on its way.
    pub(in crate::engine) fn has_call_on_its_way(&self) -> bool {
        let probes = self.probe().is_some_and(|probe| probe.call.is_some());
        self.call.is_some() || self.renewing.is_some() || probes
    }

    /// Returns the latest end of the minimum hold times of its claimed and its released guards.
    pub(in crate::engine) fn latest_min_hold(&self) -> Moment {
        let claimed = self.guards.iter().filter(|guard| guard.is_claimed()).map(|guard| guard.min_hold_until);
        claimed.fold(self.min_hold_until, Moment::max)
    }

    /// Returns true if neither a guard nor a re-entry is left.
    pub(in crate::engine) fn is_unused(&self) -> bool {
        self.guards.is_empty() && self.reentry.as_ref().is_none_or(|reentry| reentry.entering.is_empty())
    }

    /// Returns the lease to set now, which is no longer than the bounds of the guards allow, or their minimum hold
    /// times need.
    pub(in crate::engine) fn lease_now(&self, now: Moment) -> Lease {
        self.lease().min(Lease::clamped(self.kept_until().since(now)))
    }

    /// Returns the lease that a renewal sets: that of the guards, or a longer one that a ticket waits for. The scripts never
    /// shorten a lease, but the native command that renews a plain lock at a server without scripts does, so such a renewal
    /// asks for the rest of a longer one.
    pub(in crate::engine) fn lease_to_renew(&self, now: Moment) -> Lease {
        let wanted = self.ensuring.iter().filter_map(|waiting| match waiting.need {
            Need::Lease(lease, _) => Some(lease),
            Need::Validity(_) => None,
        });
        let bound = Lease::clamped(self.ends_at().since(now));
        let lease = wanted.map(|lease| lease.min(bound)).fold(self.lease_now(now), Lease::max);
        match self.recipe().is_plain() {
            true => lease.max(Lease::clamped(self.expires_at.since(now))),
            false => lease,
        }
    }

    /// Returns the moment up to which renewals keep the key.
    pub(in crate::engine) fn kept_until(&self) -> Moment {
        self.ends_at().max(self.latest_min_hold())
    }

    /// Returns true if the key would end before a minimum hold time does. The key is then renewed whatever the terms of
    /// the guards say.
    fn owes_time(&self) -> bool {
        self.latest_min_hold() > self.expires_at
    }

    /// Returns true if the watchdog has to renew the hold.
    pub(in crate::engine) fn is_watched(&self) -> bool {
        let watched = || self.guards.iter().any(Guard::is_watched) || self.owes_time();
        self.lost.is_none() && self.is_held() && watched()
    }

    /// Returns true if the watchdog renews the hold at this time. A hold with silent callers waits for a sign of life.
    pub(in crate::engine) fn renews_at(&self, now: Moment) -> bool {
        let is_wanted = |guard: &Guard| guard.is_watched() && self.is_heard(guard, now);
        self.is_watched() && (self.owes_time() || self.guards.iter().any(is_wanted))
    }

    /// Returns the reason for the hold's loss when its validity passes: failed renewals, or no renewal that was due any
    /// more.
    pub(in crate::engine) fn reason_by_the_clock(&self) -> LostReason {
        let could_grow = |guard: &Guard| guard.ends_at.since(self.expires_at) >= LEASE_MIN;
        let is_due =
            self.owes_time() || self.guards.iter().any(|guard| guard.is_watched() && could_grow(guard));
        let has_tried = self.renewing.is_some() || self.renew_failures > 0;
        if is_due && self.valid_until < self.ends_at() {
            let is_silent = !has_tried && !self.renews_at(self.valid_until);
            if is_silent { LostReason::Silent } else { LostReason::Unreachable }
        } else if self.guards.iter().any(|guard| !could_grow(guard)) {
            LostReason::MaxHold
        } else if self.guards.iter().any(|guard| guard.watchdog && guard.renewals_left == 0) {
            LostReason::MaxRenewals
        } else {
            LostReason::Expired
        }
    }
}
