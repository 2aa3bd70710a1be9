//! The passage of a record through the lane: request, grant, claim, release, answer.
//!
//! Invariant: the lane sends the calls and reports the outcomes that the machines would, in the same order.

use crate::engine::base::certain::Certain;
use crate::engine::base::context::Purpose;
use crate::engine::base::terms::Terms;
use crate::engine::holds::tokens::Tokens;
use crate::engine::lane::record::{Claimed, Course, Granted, Record, Released};
use crate::engine::lane::{Lane, hash_of};
use crate::engine::waits::acquire::Asked;
use crate::engine::waits::attempt::acquire_call;
use crate::engine::{Action, Engine, Id, Outcome, Wait};
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::recipe::{Answer, CallArgs, CallContext, Recipe};
use crate::reply::Reply;

/// The validity must be longer than this many times the time in the lane. The earliest renewal comes after 4/15 of the
/// lease, so none is due in the lane.
const LEASE_PER_RESIDENCE: u32 = 8;

impl Engine {
    /// Begins a request in the lane, if its name is free for that and its course is the short one. Otherwise returns it.
    pub(in crate::engine) fn enter_lane(&mut self, now: Moment, id: Id, asked: Asked) -> Option<Asked> {
        let hash = hash_of(&asked.subject.name);
        if let Some(other) = self.lane.find(&asked.subject, hash) {
            self.promote(other);
            return Some(asked);
        }
        let cx = &mut self.waits.holds.cx;
        let leaves_at = now + Lane::residence(&cx.settings);
        let is_alone = self.lane.has_place(hash) && cx.names.find(&asked.subject).is_none();
        if !is_alone || !is_short(&asked, now, leaves_at) || self.checks.concern_grants_of(now) {
            return Some(asked);
        }
        let terms = &asked.terms;
        let number = cx.next_number((terms.recipe().owners)(terms.units));
        let args = CallArgs {
            context: CallContext { once: asked.wait == Wait::Once, ..CallContext::default() },
            tokens: Tokens::to_reserve(false),
            ..CallArgs::new(&asked.subject, cx.wire(number), terms.first_lease())
        };
        let attempt = cx.send(acquire_call(&asked.subject, terms, args), Purpose::Lane(id));
        cx.note(|facts| facts.attempted(id));
        let course = Course::Attempted;
        let record = Record { asked, asked_at: now, leaves_at, hash, number, attempt, course };
        self.lane.insert(&mut cx.timers, id, record);
        None
    }

    /// Takes the answer to a call of a record. Returns it if it is for the machines, which then have the record.
    pub(in crate::engine) fn answered_in_lane(
        &mut self,
        now: Moment,
        id: Id,
        result: Result<Reply, StoreError>,
    ) -> Option<Result<Reply, StoreError>> {
        let record = self.lane.records.get_mut(id).certain("a record stays while its call is on its way")?;
        let cx = &mut self.waits.holds.cx;
        match (&result, record.course) {
            _ if record.leaves_at <= now => {}
            (Ok(reply), Course::Attempted) => {
                if let Some(Answer::Granted { token }) = (record.recipe().read_acquire)(reply) {
                    record.course = Course::Granted(Granted { at: now, token });
                    cx.wake(id);
                    return None;
                }
            }
            (Ok(reply), Course::Released(_, Released { report, .. })) => {
                if let Some(answer) = (record.recipe().read_release)(reply) {
                    self.lane.remove(id);
                    cx.report(report, &Outcome::Released(Ok(answer.held)));
                    return None;
                }
            }
            _ => {}
        }
        self.promote(id);
        Some(result)
    }

    /// Reports the grant of a record. Returns false if there is no such record.
    pub(in crate::engine) fn claim_in_lane(&mut self, now: Moment, id: Id) -> bool {
        let Some(record) = self.lane.records.get_mut(id) else { return false };
        if let Course::Granted(granted) = record.course {
            record.course = Course::Claimed(Claimed { granted, at: now });
            let (number, valid_until) = (record.number, record.valid_until());
            self.waits.holds.hand_over(id, number, granted.token, valid_until);
        }
        true
    }

    /// Releases the hold of a record. Its guard shows that its grant is claimed, or that its offer is taken. Returns false
    /// if there is no such hold.
    pub(in crate::engine) fn release_in_lane(&mut self, now: Moment, guard: Id, report: Option<Id>) -> bool {
        let is_offered = self.lane.records.get(guard).is_some_and(Record::is_offered);
        if is_offered {
            self.claim_taken(guard);
        }
        let Some(record) = self.lane.records.get_mut(guard) else { return false };
        let cx = &mut self.waits.holds.cx;
        let claimed = match record.course {
            Course::Claimed(claimed) => claimed,
            Course::Attempted | Course::Granted(_) | Course::Released(..) => return false,
        };
        // The caller had the validity of its offer without an action, so there is none to take back.
        if !is_offered {
            cx.actions.push(Action::Trusted(guard, Moment::default()));
        }
        cx.await_report(report);
        cx.note(|facts| facts.released(guard, &record.asked.subject, claimed.at));
        let (subject, terms) = (&record.asked.subject, &record.asked.terms);
        let args = CallArgs::new(subject, cx.wire(record.number), terms.lease).count(0).units(terms.units);
        let context = CallContext { quiet: true, ..CallContext::default() };
        let call = (subject.recipe.release)(&CallArgs { context, ..args });
        let call = cx.send(subject.confirmed(call, terms.replicas), Purpose::Lane(guard));
        record.course = Course::Released(claimed, Released { at: now, report, call });
        true
    }
}

impl Record {
    fn recipe(&self) -> &'static Recipe {
        self.asked.terms.recipe()
    }
}

/// Returns true if a request can be granted, held and released without a word from anybody else, and none of what it
/// counts by the clock ends while it is in the lane.
fn is_short(asked: &Asked, now: Moment, leaves_at: Moment) -> bool {
    let Asked { subject, wait, terms, .. } = asked;
    let Recipe { holding, waiters, companion, blocked_by, held_as, keep_alive, .. } = subject.recipe;
    let has_sides = companion.is_some() || blocked_by.is_some() || held_as.is_some();
    let is_in_server_queue = waiters.are_queued() || keep_alive.is_some();
    let Terms { max_renewals, max_hold, min_hold, silent_for, margin, .. } = **terms;
    let is_bounded = max_renewals.is_some() || max_hold.is_some() || min_hold.is_some();
    let is_bounded = is_bounded || silent_for.is_some() || !margin.is_zero();
    let waits_long = match wait {
        Wait::Until(deadline) => *deadline > leaves_at,
        Wait::Once | Wait::Forever => true,
    };
    let least = leaves_at.since(now) * LEASE_PER_RESIDENCE;
    let lasts = terms.lease.validity() > least && terms.claim_within() > leaves_at.since(now);
    let is_simple = holding.is_exclusive() && subject.others.is_empty() && !has_sides && !is_in_server_queue;
    is_simple && !is_bounded && waits_long && lasts
}
