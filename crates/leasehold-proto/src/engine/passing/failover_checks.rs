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

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use crate::engine::base::certain::{Certain, HELD};
use crate::engine::base::keys::{NameId, Number, QueueId};
use crate::engine::base::subscriptions::Listener;
use crate::engine::base::timers::{Alarm, Timer};
use crate::engine::holds::hold::{Guard, ServerHold};
use crate::engine::waits::Waits;
use crate::engine::waits::acquire::Acquire;
use crate::id::Id;
use crate::lease::{LEASE_MIN, Lease};
use crate::moment::Moment;
use crate::scope::Scope;

/// The time within which all holds and waiters of a scope are looked at. Many clients then do not burden a server that has
/// just taken over, and a hold that it lacks is trusted for little longer.
const SPREAD: Duration = Duration::from_millis(250);
/// The most replacements that are kept, beyond which all names count as replaced. Only grants on
/// their way are compared with them, so a scope that is too wide costs a few checks.
const RECENT_MAX: usize = 64;
/// The most holds and waiters that one step looks at, as many as renewals that go together.
const AT_ONCE: usize = 64;

/// The holds and the waiters that are still to be looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Checks {
    next: VecDeque<Check>,
    /// The holds with a renewal on its way that went to the server before.
    after_renewal: BTreeSet<Number>,
    /// The undos on their way to the server before.
    after_undo: BTreeSet<Number>,
    /// The holds that nobody had claimed. One that ends unclaimed stays here until the next replacement.
    after_claim: BTreeSet<Number>,
    /// The last replacements, since a call that was sent before one may be answered after it.
    recent: VecDeque<(Moment, Scope)>,
    pause: Duration,
    next_at: Moment,
    alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Check {
    Hold(Number),
    Listener(Listener),
    /// A waiter whose place the server may lack.
    InServerQueue(Id),
}

impl Checks {
    /// Checks what the scope has, the first of it now.
    pub(in crate::engine) fn replaced(&mut self, waits: &mut Waits, now: Moment, scope: &Scope) {
        self.note_replacement(waits, now, scope);
        let holds =
            waits.holds.sorted().into_iter().filter(|number| is_of(waits, scope, *number)).map(Check::Hold);
        let listeners = waits
            .holds
            .cx
            .subscriptions
            .all_listeners()
            .filter(|listener| listens_in(waits, scope, *listener));
        let in_server_queues: Vec<QueueId> = waits
            .holds
            .cx
            .names
            .queues()
            .filter(|id| is_at(waits, scope, id.name) && is_in_server(waits, *id))
            .collect();
        let places =
            in_server_queues.iter().flat_map(|id| waits.holds.cx.waiters_in(*id)).map(Check::InServerQueue);
        let next: VecDeque<Check> = holds.chain(listeners.map(Check::Listener)).chain(places).collect();
        for id in in_server_queues {
            if let Some(queue) = waits.holds.cx.names.queue_mut(id) {
                queue.server.mark_unordered();
            }
        }
        let unclaimed = std::mem::take(&mut self.after_claim).into_iter();
        self.after_claim = unclaimed.filter(|number| waits.holds.get(*number).is_some()).collect();
        self.begin_checks(waits, now, next);
    }

    /// Notes a replacement for as long as a call that was sent before it can be answered.
    fn note_replacement(&mut self, waits: &Waits, now: Moment, scope: &Scope) {
        let oldest = now - waits.holds.cx.settings.timeout.saturating_mul(2);
        let recent = &mut self.recent;
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
    pub(in crate::engine) fn check_grant(
        &mut self,
        waits: &Waits,
        name: NameId,
        number: Number,
        sent_at: Moment,
    ) {
        let mut recent = self.recent.iter();
        if recent.any(|(at, scope)| sent_at <= *at && is_at(waits, scope, name)) {
            self.after_claim.insert(number);
        }
    }

    /// Returns true if a grant to an attempt that is sent now would have to be checked.
    pub(in crate::engine) fn concern_grants_of(&self, now: Moment) -> bool {
        self.recent.back().is_some_and(|(at, _)| *at >= now)
    }

    /// Looks at these holds and waiters, the first of them now.
    fn begin_checks(&mut self, waits: &mut Waits, now: Moment, next: VecDeque<Check>) {
        let steps = u32::try_from(next.len().div_ceil(AT_ONCE)).unwrap_or(u32::MAX).max(1);
        // Earlier checks that are left are in the new scope, or are still to come.
        let left = std::mem::replace(&mut self.next, next);
        self.next.extend(left);
        self.pause = SPREAD / steps;
        self.next_at = now;
        self.checks_due(waits, now);
    }

    /// Looks at the next holds and waiters.
    fn checks_due(&mut self, waits: &mut Waits, now: Moment) {
        if now < self.next_at {
            return self.arm_checks(waits);
        }
        for _ in 0..AT_ONCE {
            match self.next.pop_front() {
                Some(Check::Hold(number)) => self.check(waits, now, number),
                Some(Check::Listener(listener)) if waits.holds.cx.subscriptions.is_listening(listener) => {
                    waits.wake_up(now, listener);
                }
                Some(Check::Listener(_)) => {}
                Some(Check::InServerQueue(id))
                    if waits.holds.cx.acquire_of(id).is_some_and(Acquire::is_linked) =>
                {
                    waits.attempt_alone(now, id);
                }
                Some(Check::InServerQueue(_)) => {}
                None => break,
            }
        }
        self.next_at = if self.next.is_empty() { Moment::NEVER } else { now + self.pause };
        self.arm_checks(waits);
    }

    fn arm_checks(&mut self, waits: &mut Waits) {
        let at = self.next_at;
        self.alarm.set(&mut waits.holds.cx.timers, Timer::Checks, at);
    }

    pub(in crate::engine) fn checks_fired(&mut self, waits: &mut Waits, now: Moment) {
        self.alarm.fired();
        self.checks_due(waits, now);
    }

    /// Checks a hold whose renewal is not on its way any more.
    pub(in crate::engine) fn check_after_renewal(&mut self, waits: &mut Waits, now: Moment, number: Number) {
        if !self.after_renewal.is_empty() && self.after_renewal.remove(&number) {
            self.check(waits, now, number);
        }
    }

    /// Checks a hold that was unclaimed when another server took over.
    pub(in crate::engine) fn check_after_claim(&mut self, waits: &mut Waits, now: Moment, number: Number) {
        if !self.after_claim.is_empty() && self.after_claim.remove(&number) {
            self.check(waits, now, number);
        }
    }

    /// Undoes an acquire again whose undo was on its way when another server took over.
    pub(in crate::engine) fn check_after_undo(&mut self, waits: &mut Waits, now: Moment, number: Number) {
        if self.after_undo.remove(&number) {
            waits.holds.undo_again(now, number);
        }
    }

    /// Undoes the acquires of a name again. One that a frozen server ran after its undo waits in the queue there, and the
    /// client's keep-alives would keep it.
    pub(in crate::engine) fn undo_strays(&mut self, waits: &mut Waits, now: Moment, name: NameId) {
        if !waits.holds.has_undone() || !self.next.is_empty() {
            return;
        }
        let undone = |number: &Number| {
            waits.holds.get(*number).is_some_and(|hold| hold.name == name && hold.is_undone())
        };
        let strays = waits.holds.sorted().into_iter().filter(undone).map(Check::Hold).collect();
        self.begin_checks(waits, now, strays);
    }

    pub(in crate::engine) fn check(&mut self, waits: &mut Waits, now: Moment, number: Number) {
        let Some(hold) = waits.holds.get(number).certain(HELD) else { return };
        if hold.is_undone() {
            return waits.holds.undo_again(now, number);
        }
        if hold.is_being_undone() {
            self.after_undo.insert(number);
            return;
        }
        if hold.lost.is_some() || !hold.is_held() {
            return;
        }
        if !hold.guards.iter().any(Guard::is_claimed) {
            self.after_claim.insert(number);
            return;
        }
        if hold.renewing.is_some() {
            self.after_renewal.insert(number);
            return;
        }
        let rest = hold.expires_at.since(now);
        // The new server may have less than an extension gave. A silent caller gets no more than it has.
        if hold.renews_at(now) && hold.renews_early() && !hold.was_extended(now) {
            waits.holds.send_renewal(now, number);
        } else if rest >= LEASE_MIN {
            waits.holds.send_check(now, number, Lease::clamped(rest));
        }
    }
}

fn is_of(waits: &Waits, scope: &Scope, number: Number) -> bool {
    let held = |hold: &&ServerHold| hold.is_held() && hold.lost.is_none();
    let concerns = |hold: &&ServerHold| held(hold) || hold.is_undone() || hold.is_being_undone();
    waits.holds.get(number).filter(concerns).is_some_and(|hold| is_at(waits, scope, hold.name))
}

/// Returns true for a listener in the scope that is not checked as a waiter in a queue of the server.
fn listens_in(waits: &Waits, scope: &Scope, listener: Listener) -> bool {
    let queue = match listener {
        Listener::Queue(id) => Some(id),
        Listener::Waiter(id) => waits.holds.cx.acquire_of(id).map(Acquire::queue),
    };
    queue.is_some_and(|id| is_at(waits, scope, id.name) && !is_in_server(waits, id))
}

/// Returns true if the server has the waiters of a queue in a queue of its own.
fn is_in_server(waits: &Waits, id: QueueId) -> bool {
    waits.holds.cx.first_waiter(id).is_some_and(|(_, first)| first.recipe().keep_alive.is_some())
}

fn is_at(waits: &Waits, scope: &Scope, name: NameId) -> bool {
    *scope == Scope::All || scope.contains(waits.holds.cx.names.get(name).name().slot())
}
