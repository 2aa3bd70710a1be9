//! The watchdog: keeps claimed holds alive, and ends them by the clock.
//!
//! Invariant: a server hold has one renewal stream, only while a claimed guard wants it, or a check after a replacement is
//! due. No error ends the stream before the lease does (docs/guarantees.md, rules 6 and 7), and an unanswered renewal never extends the validity.

use std::time::Duration;

use crate::backoff;
use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::Number;
use crate::engine::base::timers::Timer;
use crate::engine::effect::Effect;
use crate::engine::holds::Holds;
use crate::engine::holds::calls::{HoldCall, Renewing};
use crate::engine::holds::hold::{Ensuring, Need, ServerHold, UNBOUNDED};
use crate::engine::tickets::ticket::Ticket;
use crate::engine::{Action, CallId, EnsureFailure, Id, LostReason, Outcome, Subject};
use crate::lease::{LEASE_MAX, LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::outcome::{Applied, StoreError, StoreErrorKind, Verb};
use crate::recipe::{CallArgs, Renewal};
use crate::reply::Reply;

/// The largest number of renewals that one step sends so that they go together. They are one command on
/// a plain server, which keeps its other clients waiting meanwhile.
const TOGETHER: usize = 64;

/// The longest pause between two attempts to renew. A long lease is then still renewed within a second of the end of an
/// outage, which costs a hold one call a second meanwhile.
const RETRY_MAX: Duration = Duration::from_secs(1);
/// What a lease in whole milliseconds lacks at most.
const ROUNDING: Duration = Duration::from_millis(1);

impl Holds {
    /// Sets the time of the next renewal or check, or clears it when neither is to come.
    pub(in crate::engine) fn plan_renewal(&mut self, number: Number) {
        let seed = self.cx.seed(number);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        if hold.renewing.is_none() {
            let third = hold.pace() / 3;
            let early = if hold.renews_early() { backoff::spread(third / 10, seed) } else { Duration::ZERO };
            let planned = hold.confirmed_at + (third - early);
            let due = if hold.retry_at == Moment::NEVER { planned } else { hold.retry_at };
            hold.renew_at = if hold.is_watched() || hold.rechecks { due } else { Moment::NEVER };
        }
        self.arm(number);
    }

    /// Returns other holds that may be due for a renewal within the slack, after a step that has sent some.
    pub(in crate::engine) fn neighbors(&self, now: Moment, slack: Duration, sent: usize) -> Vec<Number> {
        let timers = self.cx.timers.until(now + slack);
        let holds = timers.filter_map(|timer| match timer {
            Timer::Hold(number) => Some(number),
            _ => None,
        });
        holds.take(TOGETHER.saturating_sub(sent)).collect()
    }

    /// Sends the renewal of a hold that is due within its slack.
    pub(in crate::engine) fn renew_early(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number) else { return };
        if hold.renews_early() && hold.retry_at == Moment::NEVER && hold.renew_at <= now + hold.slack() {
            hold.renew_at = now;
            hold.alarm.clear(&mut self.cx.timers, Timer::Hold(number));
            self.hold_due(now, number);
        }
    }

    /// Sends a renewal that is due.
    pub(in crate::engine) fn renewal_due(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.renew_at <= now) else { return };
        hold.renew_at = Moment::NEVER;
        // Without a renewal, the next sign of life plans one again, or the lease ends.
        let renews = hold.renews_at(now);
        // A renewal that is due checks too, unless the hold was extended beyond it. What has no renewal is checked up to its
        // present end.
        if hold.rechecks
            && (hold.was_extended(now) || !(renews && hold.confirmed_at + hold.pace() / 3 <= now))
        {
            return self.cx.raise(Effect::CheckDue(number));
        }
        // A renewal is sent even when it gives no more time, because it finds out whether the hold still exists.
        if renews && hold.kept_until().since(now) >= LEASE_MIN {
            self.send_renewal(now, number);
        }
    }

    /// Notes that the caller of a guard is alive, and renews the hold if that was due.
    pub(in crate::engine) fn beat(&mut self, now: Moment, guard: Id) {
        let Some(number) = self.index.of_guard(guard) else { return };
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.is_held()) else { return };
        // A renewal that was due is planned for a time that is over, so it follows at once.
        if hold.hear(now, guard) && hold.renew_at == Moment::NEVER && hold.renewing.is_none() {
            self.plan_renewal(number);
            self.hold_due(now, number);
        }
    }

    pub(in crate::engine) fn send_renewal(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get_mut(number).filter(|hold| hold.renewing.is_none()) else { return };
        for waiting in hold.ensuring.iter_mut() {
            waiting.sent = true;
        }
        hold.renew_at = Moment::NEVER;
        let lease = hold.lease_to_renew(now);
        hold.longest = hold.longest.max(lease);
        self.send_renew(number, Renewing { sent_at: now, lease, counts: true });
    }

    /// Sends a renewal that finds out whether the hold still exists, and keeps its end.
    pub(in crate::engine) fn send_check(&mut self, now: Moment, number: Number, rest: Lease) {
        if let Some(hold) = self.index.get_mut(number) {
            (hold.renew_at, hold.rechecks) = (Moment::NEVER, false);
        }
        self.send_renew(number, Renewing { sent_at: now, lease: rest, counts: false });
    }

    fn send_renew(&mut self, number: Number, renewing: Renewing) {
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let (lease, units, replicas) = (renewing.lease, hold.units, hold.replicas);
        let timeout = hold.lease().renewal_waits(self.cx.settings.timeout);
        let subject = self.cx.subject_of(hold);
        let args = CallArgs::new(&subject, self.cx.wire(number), lease).count(0).units(units);
        let call = subject.confirmed((subject.recipe.renew)(&args), replicas);
        let purpose = Purpose::Hold(HoldCall::Renew(number, renewing));
        let call = self.cx.send_within(call, purpose, timeout);
        if let Some(hold) = self.index.get_mut(number) {
            hold.renewing = Some(call);
        }
    }

    /// Handles the answer to a renewal.
    pub(in crate::engine) fn renewed(
        &mut self,
        now: Moment,
        call: CallId,
        (number, sent): (Number, Renewing),
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.index.get_mut(number) else { return };
        if hold.renewing.take_if(|renewing| *renewing == call).is_none() {
            return;
        }
        debug_assert!(hold.lost.is_none(), "the answer to a lost hold's renewal is not awaited");
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        match read_renewed(&self.cx.subject_of(hold), result) {
            Ok(Renewal::Renewed) => {
                self.note_renewed(number, sent.sent_at);
                if let Some(hold) = self.index.get_mut(number).filter(|_| sent.counts) {
                    for guard in hold.guards.iter_mut() {
                        if guard.renewals_left != UNBOUNDED {
                            guard.renewals_left = guard.renewals_left.saturating_sub(1);
                        }
                    }
                }
                if sent.counts {
                    self.confirm(number, sent.sent_at, sent.lease);
                } else {
                    self.confirm_end(number, sent.sent_at, sent.lease);
                }
                self.ensured(now, number);
            }
            Ok(Renewal::Gone) => self.lose(now, number, LostReason::Deleted),
            Ok(Renewal::TakenOver) => self.lose(now, number, LostReason::TakenOver),
            Err(error) => self.renewal_failed(now, number, sent, &error),
        }
        self.cx.raise(Effect::Renewed(number));
    }

    fn renewal_failed(&mut self, now: Moment, number: Number, sent: Renewing, error: &StoreError) {
        let seed = self.cx.seed(number);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let pause = backoff::after_failures(hold.renew_failures.into(), seed);
        // Set once, so that later changes of the guards do not postpone the next attempt.
        hold.retry_at = now + pause.min(hold.pace() / 12).min(RETRY_MAX);
        hold.renew_failures = hold.renew_failures.saturating_add(1);
        hold.uncertain |= error.applied == Applied::Unknown;
        hold.rechecks |= !sent.counts;
        let remaining = hold.remaining(now);
        let ensuring = hold.ensuring.take();
        self.note_not_renewed(number, error);
        self.fail_ensuring(ensuring, &EnsureFailure::Unconfirmed { remaining, error: error.clone() });
        self.plan_renewal(number);
    }

    /// Records that the server has confirmed a lease set by a call sent at `sent_at`.
    pub(in crate::engine) fn confirm(&mut self, number: Number, sent_at: Moment, lease: Lease) {
        if let Some(hold) = self.index.get_mut(number) {
            hold.confirmed_at = hold.confirmed_at.max(sent_at);
        }
        self.confirm_end(number, sent_at, lease);
    }

    /// Records that the server has confirmed the end of a hold. It does not change when the next renewal is due.
    fn confirm_end(&mut self, number: Number, sent_at: Moment, lease: Lease) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        (hold.renew_failures, hold.retry_at) = (0, Moment::NEVER);
        // Less than the hold has is no proof that the server has the rest.
        hold.rechecks &= sent_at + lease.duration() + ROUNDING < hold.expires_at;
        // A minimum hold time may keep the key beyond the bounds of the guards, but the validity still ends with those
        // bounds.
        let trusted_until = hold.valid_until_by(sent_at, lease).min(hold.ends_at());
        hold.valid_until = hold.valid_until.max(trusted_until);
        hold.expires_at = hold.expires_at.max(sent_at + lease.duration());
        let valid_until = hold.valid_until;
        for guard in hold.guards.iter().filter(|guard| guard.is_claimed()) {
            self.cx.actions.push(Action::Trusted(guard.id, valid_until));
        }
        self.plan_renewal(number);
    }

    /// Renews now unless enough validity is left.
    pub(in crate::engine) fn ensure(&mut self, now: Moment, id: Id, guard: Id, least: Duration) {
        self.need(now, id, guard, |hold| {
            let most = hold.lease_now(now).validity().saturating_sub(hold.margin());
            let can_have = hold.remaining(now) >= least || most > least;
            if can_have { Ok(Need::Validity(least)) } else { Err(most) }
        });
    }

    /// Renews now with a lease of this length, unless the hold has a longer one. The lease is for once: later renewals are
    /// paced by the guards' own.
    pub(in crate::engine) fn extend(&mut self, now: Moment, id: Id, guard: Id, by: Duration) {
        self.need(now, id, guard, |hold| {
            let most = hold.ends_at().since(now).min(LEASE_MAX);
            let lease = Lease::clamped(by);
            let until = hold.valid_until_by(now, lease).min(hold.ends_at());
            if by <= most { Ok(Need::Lease(lease, until)) } else { Err(most) }
        });
    }

    /// Lets a ticket wait until a hold has what it needs, and renews for it. `need` returns what that is, or the most that
    /// the ticket could have.
    fn need(
        &mut self,
        now: Moment,
        id: Id,
        guard: Id,
        need: impl FnOnce(&ServerHold) -> Result<Need, Duration>,
    ) {
        self.beat(now, guard);
        let number = self.index.of_guard(guard);
        let deadline = now + self.cx.settings.timeout;
        let found = number.and_then(|number| Some((number, self.index.get_mut(number)?)));
        let outcome = match found {
            Some((_, ServerHold { lost: Some(reason), .. })) => Err(EnsureFailure::Lost(*reason)),
            Some((number, hold)) => match need(hold) {
                Ok(need) if hold.has(need, now) => Ok(()),
                Ok(need) => {
                    hold.ensuring.push(Box::new(Ensuring { id, need, deadline, sent: false }));
                    self.cx.tickets.insert(id, Ticket::Ensuring(number));
                    self.send_renewal(now, number);
                    return self.arm(number);
                }
                Err(most) => Err(EnsureFailure::TooLong { most }),
            },
            None => Err(EnsureFailure::Lost(LostReason::Closed)),
        };
        self.cx.complete(id, Outcome::Ensured(outcome));
    }

    /// Completes the tickets that have enough validity after a confirmation, and renews once more for the other
    /// tickets.
    fn ensured(&mut self, now: Moment, number: Number) {
        let waited_for = |hold: &&mut ServerHold| !hold.ensuring.is_empty();
        let Some(hold) = self.index.get_mut(number).filter(waited_for) else { return };
        let remaining = hold.remaining(now);
        let (unsent, sent): (Vec<_>, Vec<_>) =
            hold.ensuring.take().into_iter().partition(|waiting| !waiting.sent);
        let (enough, too_little): (Vec<_>, Vec<_>) =
            unsent.into_iter().partition(|waiting| hold.has(waiting.need, now));
        let again = !too_little.is_empty();
        let outcome = |waiting: Box<Ensuring>| match hold.has(waiting.need, now) {
            true => (waiting.id, Ok(())),
            false => (waiting.id, Err(EnsureFailure::TooLong { most: remaining })),
        };
        let outcomes: Vec<_> = sent.into_iter().chain(enough).map(outcome).collect();
        hold.ensuring.extend(too_little);
        for (id, outcome) in outcomes {
            self.cx.complete_if_wanted(id, Outcome::Ensured(outcome));
        }
        if again {
            self.send_renewal(now, number);
        }
    }

    /// Fails the tickets that wait for more validity.
    pub(in crate::engine) fn fail_ensuring(
        &mut self,
        ensuring: impl IntoIterator<Item = Box<Ensuring>>,
        failure: &EnsureFailure,
    ) {
        for waiting in ensuring {
            self.cx.complete_if_wanted(waiting.id, Outcome::Ensured(Err(failure.clone())));
        }
    }

    /// Fails the tickets whose own renewal was not confirmed within a timeout. An earlier renewal may have been
    /// confirmed meanwhile, with too little validity.
    pub(in crate::engine) fn ensures_due(&mut self, now: Moment, number: Number) {
        let waited_for = |hold: &&mut ServerHold| !hold.ensuring.is_empty();
        let Some(hold) = self.index.get_mut(number).filter(waited_for) else { return };
        let (due, waiting): (Vec<_>, Vec<_>) =
            hold.ensuring.take().into_iter().partition(|waiting| waiting.deadline <= now);
        hold.ensuring.extend(waiting);
        let remaining = hold.remaining(now);
        if due.is_empty() {
            return;
        }
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let error = self.cx.subject_of(hold).timed_out(Verb::Renew);
        self.fail_ensuring(due, &EnsureFailure::Unconfirmed { remaining, error });
    }

    /// Forgets a ticket that waits for a renewal.
    pub(in crate::engine) fn stop_ensuring(&mut self, id: Id, number: Number) {
        if let Some(hold) = self.index.get_mut(number) {
            hold.ensuring.remove(|waiting| waiting.id == id);
        }
    }
}

impl ServerHold {
    /// Returns the time by which a renewal may be early so that it goes together with others.
    pub(in crate::engine) fn slack(&self) -> Duration {
        self.pace() / 30
    }

    /// Returns the time of which renewals take a third: the lease without its margin.
    fn pace(&self) -> Duration {
        self.lease().duration().saturating_sub(self.margin())
    }

    /// Returns true if the hold has more than a renewal gives.
    pub(in crate::engine) fn was_extended(&self, now: Moment) -> bool {
        self.expires_at.since(now) > self.lease_now(now).duration() + ROUNDING
    }

    /// Returns true if a renewal may be early. Early renewals of a limited number would keep the hold for less time, and
    /// those of a fixed lease for more.
    pub(in crate::engine) fn renews_early(&self) -> bool {
        self.guards.iter().all(|guard| guard.watchdog && guard.renewals_left == UNBOUNDED)
    }
}

/// Reads a wrong-type error as a takeover, because another client has put a key of another type under the lock's name.
pub(in crate::engine) fn taken_over_or(error: StoreError) -> Result<Renewal, StoreError> {
    if error.kind == StoreErrorKind::WrongType { Ok(Renewal::TakenOver) } else { Err(error) }
}

/// Reads the outcome of a renewal, or of a re-entry, which is a renewal.
pub(in crate::engine) fn read_renewed(
    subject: &Subject,
    outcome: Result<Reply, StoreError>,
) -> Result<Renewal, StoreError> {
    match outcome.map(|reply| (subject.recipe.read_renew)(&reply)) {
        Ok(Some(renewal)) => Ok(renewal),
        Ok(None) => Err(subject.malformed(Verb::Renew)),
        Err(error) => taken_over_or(error),
    }
}
