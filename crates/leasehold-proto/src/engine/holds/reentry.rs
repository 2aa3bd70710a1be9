//! Re-entry: an owner acquires again what it holds, and releases one hold of several.
//!
//! Invariant: the hold count on the server is set to an absolute value, by at most one call at a time, and never
//! touched once the server hold is lost. Setting the count never takes a lock, because a re-entry is a renewal that
//! sets the count. A re-entry never weakens what replicas confirm of a hold.
//!
//! # How it works
//! An acquire by the owner of a server hold *enters* that hold. The wanted count goes up, and the hold is granted when
//! the server has confirmed the count. Each release of one hold of several lowers the wanted count. `set_count`
//! compares the wanted count with the count on the server, so any mixture of the two gives the right count.

use std::collections::VecDeque;

use crate::backoff;
use crate::confirm::Confirm;
use crate::engine::base::certain::{Certain, HELD, WAITING};
use crate::engine::base::context::Purpose;
use crate::engine::base::keys::Number;
use crate::engine::holds::Holds;
use crate::engine::holds::calls::HoldCall;
use crate::engine::holds::hold::{Count, Guard, Phase, ServerHold};
use crate::engine::holds::renewal::{read_renewed, taken_over_or};
use crate::engine::waits::acquire::{Acquire, Stage};
use crate::engine::{AcquireFailure, CallId, GrantedBy, Id, LostReason, Outcome, Subject};
use crate::lease::Lease;
use crate::moment::Moment;
use crate::outcome::{Applied, FreeWithin, StoreError, Verb};
use crate::recipe::{CallArgs, Renewal};
use crate::reply::Reply;

impl Holds {
    /// Re-enters a server hold of the ticket's owner by raising the hold's count.
    pub(in crate::engine) fn enter(&mut self, now: Moment, id: Id, number: Number) {
        let Some(acquire) = self.cx.acquire_of_mut(id).certain(WAITING) else { return };
        acquire.stage = Stage::Entering { hold: number, failing_since: None };
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        if let Some(reason) = hold.lost {
            return self.fail_entering(now, id, AcquireFailure::Lost(reason));
        }
        hold.reentry.get_or_insert_default().entering.push_back(id);
        self.set_count(now, number);
    }

    /// Sends the call that sets the server's count to the wanted count, unless such a call is on its way. If the server
    /// has the wanted count, completes the releases that wait for it.
    pub(in crate::engine) fn set_count(&mut self, now: Moment, number: Number) {
        let Some(hold) = self.index.get(number).filter(|hold| hold.is_held() && hold.lost.is_none()) else {
            return;
        };
        if hold.call.is_some() {
            return;
        }
        let wanted = hold.wanted();
        let reentries: Vec<Id> = hold.entering().collect();
        let on_server = hold.reentry.as_ref().map_or(Some(1), |reentry| reentry.on_server);
        if reentries.is_empty() && on_server == Some(wanted) {
            return self.complete_count_reports(number);
        }
        let lease = self.lease_to_enter(hold, &reentries, now);
        let subject = self.cx.subject_of(hold);
        let args = CallArgs::new(&subject, self.cx.wire(number), lease).count(wanted);
        let recipe = subject.recipe;
        let call = if reentries.is_empty() { (recipe.release)(&args) } else { (recipe.renew)(&args) };
        let call = subject.confirmed(call, self.replicas_to_enter(hold, &reentries));
        let call = self.cx.send(call, Purpose::Hold(HoldCall::Change(number)));
        if let Some(hold) = self.index.get_mut(number) {
            hold.longest = hold.longest.max(lease);
            hold.call = Some(call);
            hold.again_at = Moment::NEVER;
            let sent = Count { count: wanted, reentries, lease, sent_at: now };
            hold.reentry.get_or_insert_default().sent = Some(sent);
        }
    }

    /// Returns the lease to set when these re-entries join: the longest lease of all guards that the server hold then
    /// has, cut at the latest end of these guards.
    fn lease_to_enter(&self, hold: &ServerHold, entering: &[Id], now: Moment) -> Lease {
        let joining = entering.iter().filter_map(|id| self.cx.acquire_of(*id));
        let joining = joining.map(|acquire| Guard::new(Id(0), &acquire.terms, now, Moment::NEVER));
        let guards: Vec<Guard> = hold.guards.iter().copied().chain(joining).collect();
        let lease = guards.iter().map(|guard| guard.lease).max().unwrap_or(hold.longest);
        let ends_at = guards.iter().map(|guard| guard.ends_at).max().unwrap_or(Moment::NEVER);
        lease.min(Lease::clamped(ends_at.since(now)))
    }

    /// Returns the replicas that must acknowledge these re-entries.
    fn replicas_to_enter(&self, hold: &ServerHold, entering: &[Id]) -> Option<Confirm> {
        let joining = entering.iter().filter_map(|id| self.cx.acquire_of(*id));
        joining.fold(hold.replicas, |all, acquire| stricter(all, acquire.terms.replicas))
    }

    /// Handles the answer to the call that changes what is on the server under a wire owner.
    pub(in crate::engine) fn changed(
        &mut self,
        now: Moment,
        call: CallId,
        number: Number,
        result: Result<Reply, StoreError>,
    ) {
        let Some(hold) = self.index.get_mut(number) else { return };
        if hold.call.take_if(|sent| *sent == call).is_none() {
            return;
        }
        match hold.phase {
            Phase::Held => self.counted(now, number, result),
            Phase::MinHold(_) => self.min_hold_extended(now, number, result),
            Phase::Releasing(_) => self.release_answered(now, call, number, result),
            Phase::Undone | Phase::Gone => {}
        }
        self.arm(number);
    }

    /// Handles the answer to a call that sets the count.
    fn counted(&mut self, now: Moment, number: Number, result: Result<Reply, StoreError>) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        let Some(sent) = hold.reentry.as_mut().and_then(|reentry| reentry.sent.take()) else {
            debug_assert!(false, "a call of a hold that is held sets its count");
            return;
        };
        let Some(hold) = self.index.get(number).certain(HELD) else { return };
        let subject = self.cx.subject_of(hold);
        let answer = match sent.reentries.is_empty() {
            true => read_partial_release(&subject, result),
            false => read_renewed(&subject, result),
        };
        match answer {
            Ok(Renewal::Renewed) => self.count_confirmed(now, number, &sent),
            Ok(Renewal::TakenOver) => self.lose(now, number, LostReason::TakenOver),
            Ok(Renewal::Gone) => self.lose(now, number, LostReason::Deleted),
            Err(error) => self.count_failed(now, number, &sent, error),
        }
    }

    fn count_confirmed(&mut self, now: Moment, number: Number, sent: &Count) {
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        hold.failures = 0;
        hold.last_error = None;
        let reentry = hold.reentry.get_or_insert_default();
        reentry.on_server = Some(sent.count);
        let (entered, entering): (VecDeque<Id>, _) =
            reentry.entering.drain(..).partition(|id| sent.reentries.contains(id));
        reentry.entering = entering;
        for id in entered {
            self.entered(now, id, number);
        }
        if !sent.reentries.is_empty() {
            self.confirm(number, sent.sent_at, sent.lease);
        }
        self.set_count(now, number);
    }

    /// Reports success to the releases of one hold of several. The other guards keep the lock, so the server's count
    /// does not matter to the callers.
    fn complete_count_reports(&mut self, number: Number) {
        let reports = self.index.get_mut(number).map(|hold| hold.reports.take());
        self.cx.report(reports.into_iter().flatten(), &Outcome::Released(Ok(true)));
    }

    fn entered(&mut self, now: Moment, id: Id, number: Number) {
        let Some(terms) = self.cx.acquire_of(id).map(|acquire| std::sync::Arc::clone(&acquire.terms)) else {
            debug_assert!(false, "a re-entry that is given up leaves its hold");
            return;
        };
        if let Some(hold) = self.index.get_mut(number) {
            hold.replicas = stricter(hold.replicas, terms.replicas);
            hold.admit(Guard::new(id, &terms, now, now + terms.claim_within()), &terms);
        }
        self.index.add_guard(id, number);
        self.cx.grant(id, number, GrantedBy::Reentry);
    }

    /// Handles a count that was not confirmed. A re-entry with `Wait::Once`, or one whose calls have failed for a whole
    /// timeout, fails. After an error that is not transient, every re-entry of the call fails. The engine retries the
    /// others.
    fn count_failed(&mut self, now: Moment, number: Number, sent: &Count, error: StoreError) {
        let timeout = self.cx.settings.timeout;
        let seed = self.cx.seed(number);
        let Some(hold) = self.index.get_mut(number).certain(HELD) else { return };
        hold.failures = hold.failures.saturating_add(1);
        if error.applied == Applied::Unknown {
            hold.uncertain = true;
            hold.reentry.get_or_insert_default().on_server = None;
        }
        let (transient, pause) =
            (error.kind.is_transient(), backoff::after_failures(u32::from(hold.failures) - 1, seed));
        hold.last_error = Some(Box::new(error));
        self.complete_count_reports(number);
        for id in &sent.reentries {
            let Some(acquire) = self.cx.acquire_of_mut(*id) else { continue };
            let once = acquire.is_once();
            let Stage::Entering { failing_since, .. } = &mut acquire.stage else { continue };
            let over = once || now.since(*failing_since.get_or_insert(now)) >= timeout;
            if over || !transient {
                let verdict = self.entering_verdict(now, *id, number);
                self.fail_entering(now, *id, verdict);
            }
        }
        if let Some(hold) = self.index.get_mut(number).filter(|hold| hold.is_held() && hold.call.is_none()) {
            hold.again_at = now + pause;
        }
    }

    /// Returns the failure of a re-entry whose wait is over. Its owner has the lock, so the failure is the store's,
    /// unless the hold is lost or gone.
    pub(in crate::engine) fn entering_verdict(&self, now: Moment, id: Id, number: Number) -> AcquireFailure {
        let Some(hold) = self.index.get(number).certain(HELD) else { return AcquireFailure::Contended };
        if let Some(reason) = hold.lost {
            return AcquireFailure::Lost(reason);
        }
        let subject = self.cx.subject_of(hold);
        let reentry = hold.reentry.as_ref();
        let sent = reentry.and_then(|reentry| reentry.sent.as_ref());
        let under_way = sent.is_some_and(|sent| sent.reentries.contains(&id));
        let uncounted = reentry.is_some_and(|reentry| reentry.on_server.is_none());
        let timed_out = || {
            let bound = self.cx.acquire_of(id).and_then(Acquire::bound);
            subject.timed_out(Verb::Acquire).within_wait(bound)
        };
        let error = hold.last_error.as_deref().cloned().unwrap_or_else(timed_out);
        if under_way || uncounted {
            let free_within = FreeWithin::until(self.gone_by(now, number, hold.has_call_on_its_way()), now);
            AcquireFailure::Unknown { free_within, error }
        } else {
            AcquireFailure::Failed(error.not_applied())
        }
    }

    /// Removes a re-entry whose caller gave it up before the grant.
    pub(in crate::engine) fn stop_entering(&mut self, now: Moment, id: Id, number: Number) {
        if let Some(reentry) = self.index.get_mut(number).and_then(|hold| hold.reentry.as_mut()) {
            reentry.entering.retain(|waiting| *waiting != id);
        }
        self.after_fewer_guards(now, number, None);
    }
}

/// Returns the stricter of two policies, of which one may be absent.
fn stricter(one: Option<Confirm>, other: Option<Confirm>) -> Option<Confirm> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.stricter(other)),
        (one, other) => one.or(other),
    }
}

/// Reads a partial release (one hold of several) as if it were a renewal.
fn read_partial_release(
    subject: &Subject,
    outcome: Result<Reply, StoreError>,
) -> Result<Renewal, StoreError> {
    match outcome.map(|reply| (subject.recipe.read_release)(&reply)) {
        Ok(Some(answer)) if answer.held => Ok(Renewal::Renewed),
        Ok(Some(_)) => Ok(Renewal::Gone),
        Ok(None) => Err(subject.malformed(Verb::Release)),
        Err(error) => taken_over_or(error),
    }
}
