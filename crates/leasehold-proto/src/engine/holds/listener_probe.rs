//! The probe of a hold that passes on: a background call that renews the hold and asks whether others listen.
//!
//! Invariant: a hold has at most one probe on its way. Only an answer within the bound that counts no other listener
//! extends the bound, and another queue of this client on the same channel is another listener. The probe changes
//! nothing on the server but the lease, which it never shortens.
//!
//! # How it works
//! A bound has one probe. It leaves when three quarters of the bound are over, or earlier by the
//! time that the last trip took, so that the answer is back in time. A bound that no answer can meet has no probe. A hold
//! asks again only after it has passed on, and a few times while a waiter of this client is queued, so a long section does
//! not ask without end.
//!
//! The client subtracts its own subscription only if the server has confirmed that subscription before the probe and
//! it stands at the answer. In doubt it counts as another client's.

use std::time::Duration;

use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::{NameId, Number, QueueId};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::terms::{Requested, Terms};
use crate::engine::holds::Holds;
use crate::engine::holds::calls::{HoldCall, ProbeSent};
use crate::engine::holds::hold::{IN_A_ROW, ServerHold};
use crate::engine::holds::renewal::taken_over_or;
use crate::engine::{CallId, LostReason, Subject};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, Verb};
use crate::recipe::rules::read_hand_off;
use crate::recipe::{CallArgs, HandOffAnswer, Renewal, Waiters};
use crate::reply::Reply;

/// The time for which the client sends no probe after a server did not tell its listeners. Only a change of the user's
/// rights or of the server ends that, so a minute is early enough.
const UNTOLD: Duration = Duration::from_secs(60);

impl Holds {
    /// Sets the next probe time for a hold that passes on or has a waiter in this client.
    pub(in crate::engine) fn plan_probe(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let id = hold.queue();
        let has_waiters = self.cx.first_waiter(id).is_some();
        if (hold.probe().is_none() && !has_waiters) || !hold.may_probe(now) || self.cx.closed {
            return;
        }
        // The release has told that others listen, and its successor will tell when they are gone.
        if self.cx.leaves_turns(id) || now < self.cx.probes_from {
            return;
        }
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let Some(bound) = hold.bound.get() else { return };
        let until = hold.hand_off_until;
        let probe = hold.probe_or_new();
        let trip = probe.trip;
        let wants = probe.has_passed || (has_waiters && probe.left > 0);
        let is_probed = probe.sent_for == until || probe.call.is_some();
        if !wants || is_probed || trip >= bound {
            return;
        }
        probe.probe_at = until - (bound / 4).max(trip * 3 / 2).min(bound);
        self.probe_due(now, number);
        self.arm(number);
    }

    /// Sets the next probe time for the exclusive hold of a name, because a new waiter has arrived.
    pub(in crate::engine) fn plan_probe_of(&mut self, now: Moment, name: NameId) {
        if let Some(number) = self.cx.names.get(name).exclusive() {
            self.plan_probe(now, number);
        }
    }

    /// Notes that a hold has passed on.
    pub(in crate::engine) fn note_passed(&mut self, number: Number) {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.recipe().hand_off.is_some()) else {
            return;
        };
        let probe = hold.probe_or_new();
        (probe.left, probe.has_passed) = (IN_A_ROW, true);
    }

    /// Sends a probe that is due.
    pub(in crate::engine) fn probe_due(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number) else { return };
        let Some(probe) = hold.probe_mut().filter(|probe| probe.probe_at <= now) else { return };
        probe.probe_at = Moment::NEVER;
        if probe.call.is_some() || !hold.may_probe(now) {
            return;
        }
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let (subject, id, lease) = (self.cx.subject_of(hold), hold.queue(), hold.lease());
        let until = hold.hand_off_until;
        let Some(hand_off) = subject.recipe.hand_off else { return };
        let call = hand_off(&CallArgs::new(&subject, self.cx.wire(number), lease));
        let call = subject.confirmed(call, hold.replicas);
        let sent =
            ProbeSent { sent_at: now, lease, listened: self.cx.subscriptions.hears(Listener::Queue(id)) };
        let timeout = lease.renewal_waits(self.cx.settings.timeout);
        let call = self.cx.send_within(call, Purpose::Hold(HoldCall::Probe(number, sent)), timeout);
        if let Some(probe) = self.index.get_mut(number).and_then(|hold| hold.probe_mut()) {
            (probe.call, probe.sent_for) = (Some(call), until);
            probe.left = probe.left.saturating_sub(1);
            probe.has_passed = false;
        }
    }

    /// Handles the answer to a probe. An answer about a hold that is not held any more is ignored.
    pub(in crate::engine) fn probe_answered(
        &mut self,
        now: Moment,
        call: CallId,
        (number, sent): (Number, ProbeSent),
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.index.get_mut(number) else { return };
        let Some(probe) = hold.probe_mut() else { return };
        if probe.call.take_if(|on_its_way| *on_its_way == call).is_none() {
            return;
        }
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let id = hold.queue();
        match read_probed(&self.cx.subject_of(hold), result) {
            Ok(HandOffAnswer::Renewed { listeners }) => {
                self.confirm(number, sent.sent_at, sent.lease);
                match listeners {
                    Some(listeners) => self.heard(now, (number, id), sent, listeners),
                    None => self.cx.probes_from = now + UNTOLD,
                }
            }
            Ok(HandOffAnswer::Gone) => self.lose(now, number, LostReason::Deleted),
            Ok(HandOffAnswer::TakenOver) => self.lose(now, number, LostReason::TakenOver),
            Err(error) => {
                if !error.kind.is_transient() {
                    self.cx.probes_from = now + UNTOLD;
                }
                if let Some(hold) = self.index.get_mut(number) {
                    hold.uncertain |= error.applied == Applied::Unknown;
                }
            }
        }
    }

    /// Extends the bound of a hold if its client alone listens. An answer after the bound comes too late for that.
    fn heard(&mut self, now: Moment, (number, id): (Number, QueueId), sent: ProbeSent, listeners: u32) {
        let own = u32::from(sent.listened && self.cx.subscriptions.hears(Listener::Queue(id)));
        let has_rivals = self.cx.has_rivals(id);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        if listeners > own || has_rivals || now >= hold.hand_off_until {
            return;
        }
        let Some(bound) = hold.bound.get() else { return };
        hold.hand_off_until = now + bound;
        if let Some(probe) = hold.probe_mut() {
            probe.trip = now.since(sent.sent_at);
        }
        self.plan_probe(now, number);
    }
}

impl ServerHold {
    /// Returns true if nothing about the hold is in doubt, and its bound is not over.
    pub(in crate::engine) fn can_pass_on(&self, now: Moment) -> bool {
        let recipe = self.recipe();
        let is_local = recipe.waiters == Waiters::Local && recipe.companion.is_none();
        recipe.holding.is_exclusive()
            && is_local
            && now < self.hand_off_until
            && self.lost.is_none()
            && !self.uncertain
            && self.call.is_none()
            && self.renewing.is_none()
            && !self.rechecks
            && self.reentry.as_ref().is_none_or(|reentry| reentry.is_single())
            && self.tokens.can_pass_on()
            && self.min_hold_until <= now
    }

    /// Returns true if the hold is what these terms would get from the server, and nine tenths of it are left. A longer
    /// lease would block others for longer than the waiter allows if its process dies.
    pub(in crate::engine) fn fits(&self, terms: &Terms, now: Moment) -> bool {
        terms.watchdog
            && terms.min_hold.is_none()
            && terms.requested() == self.requested()
            && terms.first_lease() == self.longest
            && self.remaining(now) + self.margin() >= self.longest.duration() / 10 * 9
    }

    /// Returns what the hold has besides its lease. It says nothing of the uptime of its server.
    fn requested(&self) -> Requested {
        let (recipe, units, replicas) = (self.recipe, self.units, self.replicas);
        Requested { recipe, units, margin: self.margin(), uptime: Duration::ZERO, replicas, giver: None }
    }

    /// Returns true if a probe may renew the hold now, and its bound is not over. The watchdog renews the hold without
    /// a bound, so the probe gives no guard more than its terms.
    fn may_probe(&self, now: Moment) -> bool {
        self.recipe().hand_off.is_some()
            && now < self.hand_off_until
            && self.tokens.can_pass_on()
            && self.is_watched()
            && self.bounds().is_none_or(|bounds| bounds.silences.is_empty())
            && self.renews_early()
            && self.lease_now(now) == self.lease()
            && self.lost.is_none()
            && !self.uncertain
            && self.call.is_none()
            && self.renewing.is_none()
    }
}

/// Reads the answer to a probe.
fn read_probed(subject: &Subject, result: Result<Reply, StoreError>) -> Result<HandOffAnswer, StoreError> {
    match result.map(|reply| read_hand_off(&reply)) {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(subject.malformed(Verb::HandOff)),
        Err(error) => taken_over_or(error).map(|renewal| match renewal {
            Renewal::Renewed => HandOffAnswer::Renewed { listeners: None },
            Renewal::Gone => HandOffAnswer::Gone,
            Renewal::TakenOver => HandOffAnswer::TakenOver,
        }),
    }
}
