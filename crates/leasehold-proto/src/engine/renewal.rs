//! The watchdog: keeps claimed holds alive, and ends them by the clock.
//!
//! Invariant: one renewal stream per tenure, only while a claimed hold wants it; no error ends it before the lease
//! does (docs/guarantees.md, rules 6 and 7), and an unanswered renewal never extends the validity.
//! Called by: the engine's step, for timers, answers and `ensure`; whatever changes the holds of a tenure.

use std::time::Duration;

use super::tenure::{Ensuring, Hold, Tenure};
use super::ticket::{EnsureFailure, Settlement, Ticket};
use super::timer::Timer;
use super::{CallId, Engine, Id, LostReason, Purpose};
use crate::backoff;
use crate::call::Reply;
use crate::lease::{LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, Verb};
use crate::owner::WireOwner;
use crate::recipe::{Ask, Renewal};

/// The longest pause between two attempts to renew.
const RETRY_MAX: Duration = Duration::from_secs(1);

impl Tenure {
    /// The lease to ask for now: no longer than the bounds of its holds allow, or their minimum hold times need.
    pub(super) fn lease_now(&self, now: Moment) -> Lease {
        self.lease().min(Lease::clamped(self.kept_until().since(now)))
    }

    /// The moment up to which renewals keep the key.
    fn kept_until(&self) -> Moment {
        self.ends_at().max(self.rests_until_at_least())
    }

    /// Whether the key would end before a minimum hold time does. Then it is renewed whatever the terms of the holds.
    fn owes_time(&self) -> bool {
        self.rests_until_at_least() > self.expires_at
    }

    /// Whether the watchdog has to keep it.
    fn is_watched(&self) -> bool {
        self.lost.is_none() && (self.holds.values().any(Hold::is_watched) || self.owes_time())
    }

    /// Why it is lost when its validity passes: renewals failed to come, or none was due any more.
    pub(super) fn reason_by_the_clock(&self) -> LostReason {
        let could_grow = |hold: &Hold| hold.ends_at.since(self.expires_at) >= LEASE_MIN;
        let is_due =
            self.owes_time() || self.holds.values().any(|hold| hold.is_watched() && could_grow(hold));
        if is_due && self.valid_until < self.ends_at() {
            LostReason::Unreachable
        } else if self.holds.values().any(|hold| !could_grow(hold)) {
            LostReason::MaxHold
        } else if self.holds.values().any(|hold| hold.watchdog && hold.renewals_left == Some(0)) {
            LostReason::MaxRenewals
        } else {
            LostReason::Expired
        }
    }
}

impl Engine {
    /// Sets the next renewal, or none when the watchdog has nothing to keep.
    pub(super) fn plan_renewal(&mut self, wire: WireOwner) {
        let Some(tenure) = self.tenures.get(&wire) else {
            return;
        };
        if tenure.renewing.is_some() {
            return;
        }
        if !tenure.is_watched() {
            return self.timers.clear(Timer::Renew(wire));
        }
        let third = tenure.confirmed_at + tenure.lease().duration() / 3;
        let due = tenure.retry_at.unwrap_or(third);
        self.timers.set(Timer::Renew(wire), due);
    }

    /// Sends a renewal that is due.
    pub(super) fn renew(&mut self, now: Moment, wire: WireOwner) {
        let Some(tenure) = self.tenures.get(&wire) else {
            return;
        };
        // Also when it gives no more time: it finds out whether the hold is still there.
        if tenure.is_watched() && tenure.kept_until().since(now) >= LEASE_MIN {
            self.send_renewal(now, wire);
        }
    }

    fn send_renewal(&mut self, now: Moment, wire: WireOwner) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        if tenure.renewing.is_some() {
            return;
        }
        for waiting in &mut tenure.ensuring {
            waiting.sent = true;
        }
        let lease = tenure.lease_now(now);
        let ask = Ask::new(&tenure.subject, wire, lease).count(0).units(tenure.units);
        let call = tenure.subject.recipe.renew(&ask);
        let timeout = tenure.lease().renewal_waits(self.settings.timeout);
        let call = self.run_within(call, Purpose::Renew(wire), timeout);
        self.timers.clear(Timer::Renew(wire));
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.renewing = Some(Renewing { call, sent_at: now, lease });
        }
    }

    /// The answer to a renewal.
    pub(super) fn renewed(
        &mut self,
        now: Moment,
        call: CallId,
        wire: WireOwner,
        result: Result<Reply, StoreError>,
    ) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        let Some(sent) = tenure.renewing.take_if(|renewing| renewing.call == call) else {
            return;
        };
        if tenure.lost.is_some() {
            return;
        }
        let subject = tenure.subject.clone();
        match subject.read_renewed(result) {
            Ok(Renewal::Renewed) => {
                for hold in tenure.holds.values_mut() {
                    hold.renewals_left = hold.renewals_left.map(|left| left.saturating_sub(1));
                }
                self.confirm(wire, sent.sent_at, sent.lease);
                self.ensured(now, wire);
            }
            Ok(Renewal::Gone) => self.lose(now, wire, LostReason::Deleted),
            Ok(Renewal::TakenOver) => self.lose(now, wire, LostReason::TakenOver),
            Err(error) => self.renewal_failed(now, wire, &error),
        }
    }

    fn renewal_failed(&mut self, now: Moment, wire: WireOwner, error: &StoreError) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        let pause = backoff::after_failures(tenure.renew_failures, wire.seed());
        // Set once: whatever else happens to its holds meanwhile does not put the next attempt off.
        tenure.retry_at = Some(now + pause.min(tenure.lease().duration() / 12).min(RETRY_MAX));
        tenure.renew_failures += 1;
        tenure.uncertain |= error.applied == Applied::Unknown;
        let remaining = tenure.remaining(now);
        let ensuring = std::mem::take(&mut tenure.ensuring);
        self.fail_ensuring(ensuring, &EnsureFailure::Unconfirmed { remaining, error: error.clone() });
        self.plan_renewal(wire);
    }

    /// The server has confirmed a lease that was asked for at `sent_at`.
    pub(super) fn confirm(&mut self, wire: WireOwner, sent_at: Moment, lease: Lease) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        (tenure.renew_failures, tenure.retry_at) = (0, None);
        tenure.confirmed_at = tenure.confirmed_at.max(sent_at);
        // A minimum hold time keeps the key for longer than the bounds of the holds; nobody may trust it for that.
        let trusted_until = lease.valid_until(sent_at).min(tenure.ends_at());
        tenure.valid_until = tenure.valid_until.max(trusted_until);
        tenure.expires_at = tenure.expires_at.max(sent_at + lease.duration());
        self.timers.set(Timer::Expire(wire), tenure.valid_until);
        self.plan_renewal(wire);
    }

    /// The validity has passed, whatever the server says.
    pub(super) fn expire(&mut self, now: Moment, wire: WireOwner) {
        let Some(tenure) = self.tenures.get(&wire) else {
            return;
        };
        let reason = tenure.reason_by_the_clock();
        self.lose(now, wire, reason);
    }

    /// Renews now unless enough is left.
    pub(super) fn ensure(&mut self, now: Moment, id: Id, hold: Id, least: Duration) {
        let outcome = match self.holds.get(&hold).copied().map(|wire| (wire, self.tenures.get_mut(&wire))) {
            Some((_, Some(Tenure { lost: Some(reason), .. }))) => Err(EnsureFailure::Lost(*reason)),
            Some((_, Some(tenure))) if tenure.remaining(now) >= least => Ok(()),
            Some((_, Some(tenure))) if tenure.lease_now(now).validity() <= least => {
                Err(EnsureFailure::TooLong { most: tenure.lease_now(now).validity() })
            }
            Some((wire, Some(tenure))) => {
                tenure.ensuring.push(Ensuring { id, least, sent: false });
                self.tickets.insert(id, Ticket::Ensuring(wire));
                self.timers.set(Timer::Deadline(id), now + self.settings.timeout);
                return self.send_renewal(now, wire);
            }
            _ => Err(EnsureFailure::Lost(LostReason::Closed)),
        };
        self.settle(id, Settlement::Ensured(outcome));
    }

    /// After a confirmation: who has enough now, and who needs one more renewal.
    fn ensured(&mut self, now: Moment, wire: WireOwner) {
        let Some(tenure) = self.tenures.get_mut(&wire) else {
            return;
        };
        let remaining = tenure.remaining(now);
        let (unsent, sent): (Vec<_>, Vec<_>) =
            std::mem::take(&mut tenure.ensuring).into_iter().partition(|waiting| !waiting.sent);
        let (enough, too_little): (Vec<_>, Vec<_>) =
            unsent.into_iter().partition(|waiting| waiting.least <= remaining);
        let again = !too_little.is_empty();
        tenure.ensuring = too_little;
        for waiting in sent.into_iter().chain(enough) {
            self.timers.clear(Timer::Deadline(waiting.id));
            let outcome = if waiting.least <= remaining {
                Ok(())
            } else {
                Err(EnsureFailure::TooLong { most: remaining })
            };
            self.settle_if_wanted(waiting.id, Settlement::Ensured(outcome));
        }
        if again {
            self.send_renewal(now, wire);
        }
    }

    /// Tells those who wanted more validity why they do not get it.
    pub(super) fn fail_ensuring(&mut self, ensuring: Vec<Ensuring>, failure: &EnsureFailure) {
        for waiting in ensuring {
            self.timers.clear(Timer::Deadline(waiting.id));
            self.settle_if_wanted(waiting.id, Settlement::Ensured(Err(failure.clone())));
        }
    }

    /// No renewal was confirmed within a timeout, though perhaps one that was sent for somebody else.
    pub(super) fn ensure_overdue(&mut self, now: Moment, id: Id, wire: WireOwner) {
        self.stop_ensuring(id, wire);
        let Some(tenure) = self.tenures.get(&wire) else { return };
        let (remaining, error) = (tenure.remaining(now), tenure.subject.timed_out(Verb::Renew));
        self.settle(id, Settlement::Ensured(Err(EnsureFailure::Unconfirmed { remaining, error })));
    }

    /// A ticket that waited for a renewal was given up.
    pub(super) fn stop_ensuring(&mut self, id: Id, wire: WireOwner) {
        self.timers.clear(Timer::Deadline(id));
        if let Some(tenure) = self.tenures.get_mut(&wire) {
            tenure.ensuring.retain(|waiting| waiting.id != id);
        }
    }
}

/// A renewal on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Renewing {
    call: CallId,
    sent_at: Moment,
    lease: Lease,
}
