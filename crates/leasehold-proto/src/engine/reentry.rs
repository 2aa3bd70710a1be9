//! Re-entry: an owner acquires again what it holds, and releases one hold of several.
//!
//! Invariant: the hold count on the server is set to an absolute value, by at most one call at a time, and never
//! touched once the server hold is lost. Setting the count never takes a lock, because a re-entry is a renewal that
//! sets the count.
//!
//! # How it works
//! An acquire by the owner of a server hold *enters* that hold. The wanted count goes up, and the hold is granted when
//! the server has confirmed the count. Each release of one hold of several lowers the wanted count. `set_count`
//! compares the wanted count with the count on the server, so any mixture of the two gives the right count.

use std::collections::VecDeque;

use super::renewal::taken_over_or;
use super::state::{CountCall, Hold, Purpose, ServerHold, Stage, Ticket};
use super::timer::Timer;
use super::{AcquireFailure, CallId, Engine, Id, LostReason, Outcome, Subject, Wait};
use crate::backoff;
use crate::call::Reply;
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, Verb};
use crate::owner::{Owner, WireOwner};
use crate::recipe::{CallArgs, Renewal};

impl Engine {
    /// Lets the waiters of an owner that has just acquired the lock re-enter it, or fails the waiters that do not
    /// re-enter, since they would wait for their own owner. An in-flight attempt of a waiter is undone when its reply
    /// arrives, so one owner has one server hold.
    pub(super) fn enter_waiters(&mut self, now: Moment, subject: &Subject, owner: Owner, wire: WireOwner) {
        let first = (subject.clone(), owner, Id(0));
        let same = self.waiters.range(first..).take_while(|(held, by, _)| (held, *by) == (subject, owner));
        let same: Vec<Id> = same.map(|(_, _, id)| *id).collect();
        for id in same {
            let Some((request, waiter)) = self.waiting(id) else { continue };
            if request.reenters {
                let (request, waiter) = (request.clone(), waiter.clone());
                self.leave_queue(now, id, &request, &waiter);
                self.enter(now, id, wire);
            } else {
                self.fail(now, id, AcquireFailure::AlreadyHeld);
            }
        }
    }

    /// Re-enters a server hold of the ticket's owner by raising the hold's count.
    pub(super) fn enter(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get_mut(&id) else {
            return;
        };
        acquiring.stage = Stage::Entering { wire, since: now };
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        if let Some(reason) = server_hold.lost {
            return self.fail(now, id, AcquireFailure::Lost(reason));
        }
        server_hold.entering.push_back(id);
        self.set_count(now, wire);
    }

    /// Sends the call that sets the server's count to the wanted count, unless such a call is in flight. If the server
    /// has the wanted count, completes the releases that wait for it.
    pub(super) fn set_count(&mut self, now: Moment, wire: WireOwner) {
        let Some(server_hold) = self.server_holds.get(&wire) else {
            return;
        };
        let wanted = server_hold.wanted();
        if server_hold.count_call.is_some() || server_hold.lost.is_some() {
            return;
        }
        let reentries: Vec<Id> = server_hold.entering.iter().copied().collect();
        if reentries.is_empty() && server_hold.on_server == Some(wanted) {
            return self.complete_count_reports(wire);
        }
        let lease = self.lease_to_enter(server_hold, &reentries, now);
        let args = CallArgs::new(&server_hold.subject, wire, lease).count(wanted);
        let recipe = server_hold.subject.recipe;
        let call = if reentries.is_empty() { (recipe.release)(&args) } else { (recipe.renew)(&args) };
        let call = self.run(call, Purpose::Count(wire));
        self.timers.clear(Timer::Count(wire));
        if let Some(server_hold) = self.server_holds.get_mut(&wire) {
            server_hold.longest = server_hold.longest.max(lease);
            server_hold.count_call = Some(CountCall { call, count: wanted, reentries, lease, sent_at: now });
        }
    }

    /// Returns the lease to set when these re-entries join: the longest lease of all holds that the server hold then
    /// has, cut at the latest end of these holds.
    fn lease_to_enter(&self, server_hold: &ServerHold, entering: &[Id], now: Moment) -> Lease {
        let joining = entering.iter().filter_map(|id| match self.tickets.get(id) {
            Some(Ticket::Acquire(acquiring)) => Some(Hold::new(&acquiring.request, now)),
            _ => None,
        });
        let holds: Vec<Hold> = server_hold.holds.values().copied().chain(joining).collect();
        let lease = holds.iter().map(|hold| hold.lease).max().unwrap_or(server_hold.longest);
        let ends_at = holds.iter().map(|hold| hold.ends_at).max().unwrap_or(Moment::NEVER);
        lease.min(Lease::clamped(ends_at.since(now)))
    }

    /// Handles the answer to a call that sets the count.
    pub(super) fn counted(
        &mut self,
        now: Moment,
        call: CallId,
        wire: WireOwner,
        result: Result<Reply, StoreError>,
    ) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        let Some(count_call) = server_hold.count_call.take_if(|count_call| count_call.call == call) else {
            return;
        };
        if server_hold.lost.is_some() {
            return;
        }
        let subject = server_hold.subject.clone();
        let answer = match count_call.reentries.is_empty() {
            true => subject.read_partial_release(result),
            false => subject.read_renewed(result),
        };
        match answer {
            Ok(Renewal::Renewed) => self.count_confirmed(now, wire, count_call),
            Ok(Renewal::TakenOver) => self.lose(now, wire, LostReason::TakenOver),
            Ok(Renewal::Gone) => self.lose(now, wire, LostReason::Deleted),
            Err(error) => self.count_failed(now, wire, &count_call, error),
        }
    }

    fn count_confirmed(&mut self, now: Moment, wire: WireOwner, count_call: CountCall) {
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        server_hold.on_server = Some(count_call.count);
        server_hold.failures = 0;
        server_hold.last_error = None;
        let (entered, entering) =
            server_hold.entering.drain(..).partition(|id| count_call.reentries.contains(id));
        server_hold.entering = entering;
        let entered: VecDeque<Id> = entered;
        for id in entered {
            self.entered(now, id, wire);
        }
        if !count_call.reentries.is_empty() {
            self.confirm(wire, count_call.sent_at, count_call.lease);
        }
        self.set_count(now, wire);
    }

    /// Reports success to the releases of one hold of several. The other holds keep the lock, so the server's count
    /// does not matter to the callers.
    fn complete_count_reports(&mut self, wire: WireOwner) {
        let reports =
            self.server_holds.get_mut(&wire).map(|server_hold| std::mem::take(&mut server_hold.reports));
        for id in reports.into_iter().flatten() {
            self.complete_if_wanted(id, Outcome::Released(Ok(true)));
        }
    }

    fn entered(&mut self, now: Moment, id: Id, wire: WireOwner) {
        let Some(Ticket::Acquire(acquiring)) = self.tickets.get(&id) else {
            return;
        };
        let request = &acquiring.request;
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        server_hold.holds.insert(id, Hold::new(request, now));
        self.holds.insert(id, wire);
        self.grant(now, id, wire);
    }

    /// Handles a count that was not confirmed. A re-entry with `Wait::Once`, or one that has waited for a whole
    /// timeout, fails. After an error that is not transient, every re-entry of the call fails. The engine retries the
    /// others.
    fn count_failed(&mut self, now: Moment, wire: WireOwner, count_call: &CountCall, error: StoreError) {
        let timeout = self.settings.timeout;
        let Some(server_hold) = self.server_holds.get_mut(&wire) else {
            return;
        };
        server_hold.failures += 1;
        if error.applied == Applied::Unknown {
            server_hold.uncertain = true;
            server_hold.on_server = None;
        }
        let (transient, pause) =
            (error.kind.is_transient(), backoff::after_failures(server_hold.failures - 1, wire.seed()));
        server_hold.last_error = Some(error);
        self.complete_count_reports(wire);
        for id in &count_call.reentries {
            let Some(Ticket::Acquire(acquiring)) = self.tickets.get(id) else { continue };
            let Stage::Entering { since, .. } = acquiring.stage else { continue };
            let over = acquiring.request.wait == Wait::Once || now.since(since) >= timeout;
            if over || !transient {
                let verdict = self.entering_verdict(now, *id, wire);
                self.fail(now, *id, verdict);
            }
        }
        if self.server_holds.get(&wire).is_some_and(|server_hold| server_hold.count_call.is_none()) {
            self.timers.set(Timer::Count(wire), now + pause);
        }
    }

    /// Returns the failure of a re-entry whose wait is over. Its owner has the lock, so the failure is the store's,
    /// unless the hold is lost or gone.
    pub(super) fn entering_verdict(&self, now: Moment, id: Id, wire: WireOwner) -> AcquireFailure {
        let Some(server_hold) = self.server_holds.get(&wire) else {
            return AcquireFailure::Contended;
        };
        if let Some(reason) = server_hold.lost {
            return AcquireFailure::Lost(reason);
        }
        let under_way =
            server_hold.count_call.as_ref().is_some_and(|count_call| count_call.reentries.contains(&id));
        let error =
            server_hold.last_error.clone().unwrap_or_else(|| server_hold.subject.timed_out(Verb::Acquire));
        if under_way || server_hold.on_server.is_none() {
            let arrives_by = self.arrives_by(now, server_hold.has_call_on_its_way());
            AcquireFailure::Unknown {
                free_within: FreeWithin::until(server_hold.gone_by(arrives_by), now),
                error,
            }
        } else {
            AcquireFailure::Failed(error.not_applied())
        }
    }

    /// Removes a re-entry whose caller gave it up before the grant.
    pub(super) fn stop_entering(&mut self, now: Moment, id: Id, wire: WireOwner) {
        if let Some(server_hold) = self.server_holds.get_mut(&wire) {
            server_hold.entering.retain(|waiting| *waiting != id);
        }
        self.after_fewer_holds(now, wire, None);
    }
}

impl Subject {
    /// Reads the outcome of the release of one hold of several, in the terms of a renewal.
    fn read_partial_release(&self, outcome: Result<Reply, StoreError>) -> Result<Renewal, StoreError> {
        match outcome.map(|reply| (self.recipe.read_release)(&reply)) {
            Ok(Some(true)) => Ok(Renewal::Renewed),
            Ok(Some(false)) => Ok(Renewal::Gone),
            Ok(None) => Err(self.malformed(Verb::Release)),
            Err(error) => taken_over_or(error),
        }
    }
}
