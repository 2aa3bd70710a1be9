//! The watchdog: keeps claimed holds alive, and ends them by the clock.
//!
//! Invariant: a server hold has one renewal stream, only while a claimed hold wants it. No error ends the stream before
//! the lease does (docs/guarantees.md, rules 6 and 7), and an unanswered renewal never extends the validity.

use std::time::Duration;

use super::state::{Ensuring, Hold, Purpose, Renewing, ServerHold, Ticket};
use super::timer::Timer;
use super::{CallId, Engine, EnsureFailure, Id, LostReason, Outcome, Subject};
use crate::backoff;
use crate::call::Reply;
use crate::lease::{LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, StoreErrorKind, Verb};
use crate::owner::WireOwner;
use crate::recipe::{CallArgs, Renewal};

/// The longest pause between two attempts to renew.
const RETRY_MAX: Duration = Duration::from_secs(1);

impl ServerHold {
    /// Returns the lease to set now, which is no longer than the bounds of the holds allow, or their minimum hold times
    /// need.
    pub(super) fn lease_now(&self, now: Moment) -> Lease {
        self.lease().min(Lease::clamped(self.kept_until().since(now)))
    }

    /// Returns the moment up to which renewals keep the key.
    fn kept_until(&self) -> Moment {
        self.ends_at().max(self.latest_min_hold())
    }

    /// Returns true if the key would end before a minimum hold time does. The key is then renewed whatever the terms of
    /// the holds say.
    fn owes_time(&self) -> bool {
        self.latest_min_hold() > self.expires_at
    }

    /// Returns true if the watchdog has to renew the server hold.
    fn is_watched(&self) -> bool {
        self.lost.is_none() && (self.holds.values().any(Hold::is_watched) || self.owes_time())
    }

    /// Returns the reason for the hold's loss when its validity passes: failed renewals, or no renewal that was due any
    /// more.
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
    /// Sets the timer of the next renewal, or clears it when the watchdog has nothing to renew.
    pub(super) fn plan_renewal(&mut self, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get(&wire) else {
            return;
        };
        if server_hold.renewing.is_some() {
            return;
        }
        if !server_hold.is_watched() {
            return self.timers.clear(Timer::Renew(wire));
        }
        let third = server_hold.confirmed_at + server_hold.lease().duration() / 3;
        let due = server_hold.retry_at.unwrap_or(third);
        self.timers.set(Timer::Renew(wire), due);
    }

    /// Sends a renewal that is due.
    pub(super) fn renew(&mut self, now: Moment, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get(&wire) else {
            return;
        };
        // A renewal is sent even when it gives no more time, because it finds out whether the hold still exists.
        if server_hold.is_watched() && server_hold.kept_until().since(now) >= LEASE_MIN {
            self.send_renewal(now, wire);
        }
    }

    fn send_renewal(&mut self, now: Moment, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        if server_hold.renewing.is_some() {
            return;
        }
        for waiting in &mut server_hold.ensuring {
            waiting.sent = true;
        }
        let lease = server_hold.lease_now(now);
        let args = CallArgs::new(&server_hold.subject, wire, lease).count(0).units(server_hold.units);
        let call = (server_hold.subject.recipe.renew)(&args);
        let timeout = server_hold.lease().renewal_waits(self.settings.timeout);
        let call = self.run_within(call, Purpose::Renew(wire), timeout);
        self.timers.clear(Timer::Renew(wire));
        if let Some(server_hold) = self.server_holds.get_mut(&wire) {
            server_hold.renewing = Some(Renewing { call, sent_at: now, lease });
        }
    }

    /// Handles the answer to a renewal.
    pub(super) fn renewed(
        &mut self,
        now: Moment,
        call: CallId,
        wire: WireOwner,
        result: Result<Reply, StoreError>,
    ) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        let Some(sent) = server_hold.renewing.take_if(|renewing| renewing.call == call) else {
            return;
        };
        if server_hold.lost.is_some() {
            return;
        }
        let subject = server_hold.subject.clone();
        match subject.read_renewed(result) {
            Ok(Renewal::Renewed) => {
                for hold in server_hold.holds.values_mut() {
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
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        let pause = backoff::after_failures(server_hold.renew_failures, wire.seed());
        // Set once, so that later changes of the holds do not postpone the next attempt.
        server_hold.retry_at = Some(now + pause.min(server_hold.lease().duration() / 12).min(RETRY_MAX));
        server_hold.renew_failures += 1;
        server_hold.uncertain |= error.applied == Applied::Unknown;
        let remaining = server_hold.remaining(now);
        let ensuring = std::mem::take(&mut server_hold.ensuring);
        self.fail_ensuring(ensuring, &EnsureFailure::Unconfirmed { remaining, error: error.clone() });
        self.plan_renewal(wire);
    }

    /// Records that the server has confirmed a lease set by a call sent at `sent_at`.
    pub(super) fn confirm(&mut self, wire: WireOwner, sent_at: Moment, lease: Lease) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        (server_hold.renew_failures, server_hold.retry_at) = (0, None);
        server_hold.confirmed_at = server_hold.confirmed_at.max(sent_at);
        // A minimum hold time may keep the key beyond the bounds of the holds, but the validity still ends with those
        // bounds.
        let trusted_until = lease.valid_until(sent_at).min(server_hold.ends_at());
        server_hold.valid_until = server_hold.valid_until.max(trusted_until);
        server_hold.expires_at = server_hold.expires_at.max(sent_at + lease.duration());
        self.timers.set(Timer::Expire(wire), server_hold.valid_until);
        self.plan_renewal(wire);
    }

    /// Ends a server hold whose validity has passed, whatever the server says.
    pub(super) fn expire(&mut self, now: Moment, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get(&wire) else {
            return;
        };
        let reason = server_hold.reason_by_the_clock();
        self.lose(now, wire, reason);
    }

    /// Renews now unless enough validity is left.
    pub(super) fn ensure(&mut self, now: Moment, id: Id, hold: Id, least: Duration) {
        let outcome =
            match self.holds.get(&hold).copied().map(|wire| (wire, self.server_holds.get_mut(&wire))) {
                Some((_, Some(ServerHold { lost: Some(reason), .. }))) => Err(EnsureFailure::Lost(*reason)),
                Some((_, Some(server_hold))) if server_hold.remaining(now) >= least => Ok(()),
                Some((_, Some(server_hold))) if server_hold.lease_now(now).validity() <= least => {
                    Err(EnsureFailure::TooLong { most: server_hold.lease_now(now).validity() })
                }
                Some((wire, Some(server_hold))) => {
                    server_hold.ensuring.push(Ensuring { id, least, sent: false });
                    self.tickets.insert(id, Ticket::Ensuring(wire));
                    self.timers.set(Timer::Deadline(id), now + self.settings.timeout);
                    return self.send_renewal(now, wire);
                }
                _ => Err(EnsureFailure::Lost(LostReason::Closed)),
            };
        self.complete(id, Outcome::Ensured(outcome));
    }

    /// Completes the tickets that have enough validity after a confirmation, and renews once more for the other
    /// tickets.
    fn ensured(&mut self, now: Moment, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        let remaining = server_hold.remaining(now);
        let (unsent, sent): (Vec<_>, Vec<_>) =
            std::mem::take(&mut server_hold.ensuring).into_iter().partition(|waiting| !waiting.sent);
        let (enough, too_little): (Vec<_>, Vec<_>) =
            unsent.into_iter().partition(|waiting| waiting.least <= remaining);
        let again = !too_little.is_empty();
        server_hold.ensuring = too_little;
        for waiting in sent.into_iter().chain(enough) {
            self.timers.clear(Timer::Deadline(waiting.id));
            let outcome = if waiting.least <= remaining {
                Ok(())
            } else {
                Err(EnsureFailure::TooLong { most: remaining })
            };
            self.complete_if_wanted(waiting.id, Outcome::Ensured(outcome));
        }
        if again {
            self.send_renewal(now, wire);
        }
    }

    /// Fails the tickets that wait for more validity.
    pub(super) fn fail_ensuring(&mut self, ensuring: Vec<Ensuring>, failure: &EnsureFailure) {
        for waiting in ensuring {
            self.timers.clear(Timer::Deadline(waiting.id));
            self.complete_if_wanted(waiting.id, Outcome::Ensured(Err(failure.clone())));
        }
    }

    /// Fails a ticket whose own renewal was not confirmed within a timeout. An earlier renewal may have been confirmed
    /// meanwhile, with too little validity.
    pub(super) fn ensure_overdue(&mut self, now: Moment, id: Id, wire: WireOwner) {
        self.stop_ensuring(id, wire);
        let Some(server_hold) = self.server_holds.get(&wire) else { return };
        let (remaining, error) = (server_hold.remaining(now), server_hold.subject.timed_out(Verb::Renew));
        self.complete(id, Outcome::Ensured(Err(EnsureFailure::Unconfirmed { remaining, error })));
    }

    /// Forgets a ticket that waits for a renewal.
    pub(super) fn stop_ensuring(&mut self, id: Id, wire: WireOwner) {
        self.timers.clear(Timer::Deadline(id));
        if let Some(server_hold) = self.server_holds.get_mut(&wire) {
            server_hold.ensuring.retain(|waiting| waiting.id != id);
        }
    }
}

impl Subject {
    /// Reads the outcome of a renewal, or of a re-entry, which is a renewal.
    pub(super) fn read_renewed(&self, outcome: Result<Reply, StoreError>) -> Result<Renewal, StoreError> {
        match outcome.map(|reply| (self.recipe.read_renew)(&reply)) {
            Ok(Some(renewal)) => Ok(renewal),
            Ok(None) => Err(self.malformed(Verb::Renew)),
            Err(error) => taken_over_or(error),
        }
    }
}

/// Reads a wrong-type error as a takeover, because another client has put a key of another type under the lock's name.
pub(super) fn taken_over_or(error: StoreError) -> Result<Renewal, StoreError> {
    if error.kind == StoreErrorKind::WrongType { Ok(Renewal::TakenOver) } else { Err(error) }
}
