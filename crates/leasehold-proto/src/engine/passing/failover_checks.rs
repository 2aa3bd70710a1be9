//! Replacements: another server answers for some names, or the same one over a new connection.
//!
//! Invariant: each hold in the scope is checked by a call that is sent after the replacement. A check never lets a hold
//! last longer than its terms do. One step checks a bounded number of holds.
//!
//! # How it works
//! A server that took over after a failure may lack what the one before it has granted. Its client would notice at the
//! next renewal, a third of a lease later, and would trust the hold until then. So it renews at once. A renewal that is on
//! its way went to the server before, so the check follows its answer. A hold whose lease is fixed, or whose renewals are
//! counted, is checked by a renewal up to its present end. A grant to a call that was sent before the replacement is
//! checked too, since the server before may have run it afterwards. A check that fails is repeated at the pace of failed renewals. A
//! grant without a claim is not renewed, so its check follows the claim. The server may also bring back what was undone
//! (`undone`), so that undo is sent again.
//!
//! Each waiter that listens tries again, since its lock may be free now. Each waiter in a queue of the server tries again
//! too, since the server that took over may lack its place, or may still have the place of a waiter that has left. All this
//! happens within [`SPREAD`], so that many clients do not burden a server that has just taken over.

use std::collections::VecDeque;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::keys::{Number, PlaceId, QueueId};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::timers::Timer;
use crate::engine::holds::hold::{Guard, ServerHold};
use crate::engine::passing::checks::Check;
use crate::engine::waits::acquire::Acquire;
use crate::lease::{LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::scope::Scope;

/// The time within which all holds and waiters of a scope are looked at.
const SPREAD: Duration = Duration::from_millis(250);
/// The most replacements that are kept, beyond which all names count as replaced.
const RECENT_MAX: usize = 64;
/// The most holds and waiters that one step looks at.
const AT_ONCE: usize = 64;

impl Engine {
    /// Checks what the scope has, the first of it now.
    pub(in crate::engine) fn replaced(&mut self, now: Moment, scope: &Scope) {
        self.note_replacement(now, scope);
        let holds = self
            .waits
            .holds
            .sorted()
            .into_iter()
            .filter(|number| self.is_of(scope, *number))
            .map(Check::Hold);
        let listeners = self
            .waits
            .holds
            .cx
            .subscriptions
            .all_listeners()
            .filter(|listener| self.listens_in(scope, *listener));
        let in_server_queues: Vec<QueueId> = self
            .waits
            .holds
            .cx
            .places
            .queues()
            .filter(|id| self.is_at(scope, id.place) && self.is_in_server(*id))
            .collect();
        let places =
            in_server_queues.iter().flat_map(|id| self.waits.holds.cx.waiters_in(*id)).map(Check::Place);
        let next: VecDeque<Check> = holds.chain(listeners.map(Check::Listener)).chain(places).collect();
        for id in in_server_queues {
            if let Some(queue) = self.waits.holds.cx.places.queue_mut(id) {
                queue.server.mark_unordered();
            }
        }
        let unclaimed = std::mem::take(&mut self.checks.after_claim).into_iter();
        self.checks.after_claim =
            unclaimed.filter(|number| self.waits.holds.get(*number).is_some()).collect();
        self.begin_checks(now, next);
    }

    /// Notes a replacement for as long as a call that was sent before it can be answered.
    fn note_replacement(&mut self, now: Moment, scope: &Scope) {
        let oldest = now - self.waits.holds.cx.settings.timeout.saturating_mul(2);
        let recent = &mut self.checks.recent;
        while recent.front().is_some_and(|(at, _)| *at < oldest) {
            recent.pop_front();
        }
        if recent.len() >= RECENT_MAX {
            recent.clear();
            recent.push_back((now, Scope::All));
        } else {
            recent.push_back((now, scope.clone()));
        }
    }

    /// Checks a hold whose grant was sent to a server that has been replaced since. That one may have granted it when
    /// another server answered for its name already, as a frozen master does that resumes. The check follows the claim.
    pub(in crate::engine) fn check_grant(&mut self, place: PlaceId, number: Number, sent_at: Moment) {
        let mut recent = self.checks.recent.iter();
        if recent.any(|(at, scope)| sent_at <= *at && self.is_at(scope, place)) {
            self.checks.after_claim.insert(number);
        }
    }

    /// Looks at these holds and waiters, the first of them now.
    pub(in crate::engine) fn begin_checks(&mut self, now: Moment, next: VecDeque<Check>) {
        let steps = u32::try_from(next.len().div_ceil(AT_ONCE)).unwrap_or(u32::MAX).max(1);
        // Earlier checks that are left are in the new scope, or still wait for their turn.
        let left = std::mem::replace(&mut self.checks.next, next);
        self.checks.next.extend(left);
        self.checks.pause = SPREAD / steps;
        self.checks.next_at = now;
        self.checks_due(now);
    }

    fn is_of(&self, scope: &Scope, number: Number) -> bool {
        let held = |hold: &&ServerHold| hold.is_held() && hold.lost.is_none();
        let concerns = |hold: &&ServerHold| held(hold) || hold.is_undone() || hold.is_being_undone();
        self.waits.holds.get(number).filter(concerns).is_some_and(|hold| self.is_at(scope, hold.place))
    }

    /// Returns true for a listener in the scope that is not checked as a waiter in a queue of the server.
    fn listens_in(&self, scope: &Scope, listener: Listener) -> bool {
        let queue = match listener {
            Listener::Queue(id) => Some(id),
            Listener::Waiter(id) => self.waits.holds.cx.acquire_of(id).map(Acquire::queue),
        };
        queue.is_some_and(|id| self.is_at(scope, id.place) && !self.is_in_server(id))
    }

    /// Returns true if the server has the waiters of a queue in a queue of its own.
    fn is_in_server(&self, id: QueueId) -> bool {
        self.waits.holds.cx.first_waiter(id).is_some_and(|(_, first)| first.recipe().keep_alive.is_some())
    }

    fn is_at(&self, scope: &Scope, place: PlaceId) -> bool {
        *scope == Scope::All || scope.contains(self.waits.holds.cx.places.get(place).name().slot())
    }

    /// Looks at the next holds and waiters.
    pub(in crate::engine) fn checks_due(&mut self, now: Moment) {
        if now < self.checks.next_at {
            return self.arm_checks();
        }
        for _ in 0..AT_ONCE {
            match self.checks.next.pop_front() {
                Some(Check::Hold(number)) => self.check(now, number),
                Some(Check::Listener(listener))
                    if self.waits.holds.cx.subscriptions.is_listening(listener) =>
                {
                    self.waits.wake_up(now, listener);
                }
                Some(Check::Listener(_)) => {}
                Some(Check::Place(id))
                    if self.waits.holds.cx.acquire_of(id).is_some_and(Acquire::is_linked) =>
                {
                    self.waits.attempt_alone(now, id);
                }
                Some(Check::Place(_)) => {}
                None => break,
            }
        }
        self.checks.next_at =
            if self.checks.next.is_empty() { Moment::NEVER } else { now + self.checks.pause };
        self.arm_checks();
    }

    fn arm_checks(&mut self) {
        let at = self.checks.next_at;
        self.checks.alarm.set(&mut self.waits.holds.cx.timers, Timer::Checks, at);
    }

    pub(in crate::engine) fn checks_fired(&mut self, now: Moment) {
        self.checks.alarm.fired();
        self.checks_due(now);
    }

    /// Checks a hold whose renewal is not on its way any more.
    pub(in crate::engine) fn check_after_renewal(&mut self, now: Moment, number: Number) {
        if !self.checks.after_renewal.is_empty() && self.checks.after_renewal.remove(&number) {
            self.check(now, number);
        }
    }

    /// Checks a hold that was unclaimed when another server took over.
    pub(in crate::engine) fn check_after_claim(&mut self, now: Moment, number: Number) {
        if !self.checks.after_claim.is_empty() && self.checks.after_claim.remove(&number) {
            self.check(now, number);
        }
    }

    /// Undoes an acquire again whose undo was on its way when another server took over.
    pub(in crate::engine) fn check_after_undo(&mut self, now: Moment, number: Number) {
        if self.checks.after_undo.remove(&number) {
            self.waits.holds.undo_again(now, number);
        }
    }

    /// Undoes the acquires of a place again. One that a frozen server ran after its undo waits in the queue there, and the
    /// client's signs of life would keep it.
    pub(in crate::engine) fn undo_strays(&mut self, now: Moment, place: PlaceId) {
        if !self.waits.holds.has_undone() || !self.checks.next.is_empty() {
            return;
        }
        let undone = |number: &Number| {
            self.waits.holds.get(*number).is_some_and(|hold| hold.place == place && hold.is_undone())
        };
        let strays = self.waits.holds.sorted().into_iter().filter(undone).map(Check::Hold).collect();
        self.begin_checks(now, strays);
    }

    pub(in crate::engine) fn check(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.waits.holds.get(number).certain(HELD) else { return };
        if hold.is_undone() {
            return self.waits.holds.undo_again(now, number);
        }
        if hold.is_being_undone() {
            self.checks.after_undo.insert(number);
            return;
        }
        if hold.lost.is_some() || !hold.is_held() {
            return;
        }
        if !hold.guards.iter().any(Guard::is_claimed) {
            self.checks.after_claim.insert(number);
        } else if hold.renewing.is_some() {
            self.checks.after_renewal.insert(number);
        } else if hold.is_watched() && hold.renews_early() {
            self.waits.holds.send_renewal(now, number);
        } else {
            let rest = hold.expires_at.since(now);
            if rest >= LEASE_MIN {
                self.waits.holds.send_check(now, number, Lease::clamped(rest));
            }
        }
    }
}
