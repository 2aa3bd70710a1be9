//! E1 to E5: elections, judged by the terms of users, by what the server has, and by what observers see.
//!
//! - E1: when a body begins, or a user gets a term, no other term is valid.
//! - E2: each term has a greater token than all earlier terms, so a resource that compares tokens refuses an earlier leader's
//!   writes once a later one has begun.
//! - E3: if somebody campaigns and nobody leads, somebody leads within a lease, the polling interval and two trips.
//! - E4: an observer shows what the server had within the time of one question.
//! - E5: a term whose lease lasts has ended for its user before its release, or its transfer, is sent.
//!
//! Invariant: the faults of this mode break no assumption, so nothing is excused.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::invariant::Invariant;
use crate::bounds;
use crate::history::{Event, Op};
use crate::owner::{Wire, short};
use crate::recorder::view::View;

/// The client may release a lost hold before its body is dropped, this long before the end of its last known validity.
const LOST_WITHIN: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Election {
    /// The wire owner to which the server gave each token.
    granted: BTreeMap<u64, Wire>,
    /// The greatest token of a term that has begun.
    greatest: u64,
    /// The campaigns without a bound, with their processes and their begins.
    campaigns: BTreeMap<Op, (usize, Duration)>,
    /// What the server had, from when on, and until when without a further change. Old entries are forgotten.
    had: VecDeque<Had>,
    /// The end of the hold that a foreign client believes to have.
    foreign: Option<Duration>,
    /// The last time at which somebody led, by the view of the users.
    led_at: Duration,
    /// The end of each term's validity by the clock of its process, as the client said when it was last asked.
    valid_until: BTreeMap<u64, Duration>,
}

/// What the server had.
struct Had {
    from: Duration,
    leader: Option<Wire>,
    until: Option<Duration>,
}

impl Invariant for Election {
    fn id(&self) -> &'static str {
        "E1 E2 E3 E4 E5"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.refresh(view);
        match event {
            Event::Executed { before, after, .. } => {
                let holder = after.holders.first().map(|holder| &holder.wire);
                if let (Some(wire), Some(token)) = (holder, after.value)
                    && (before.value != after.value || !before.is_held_by(wire))
                {
                    self.granted.insert(token.unsigned_abs(), Arc::clone(wire));
                }
                let left = |at: u64| Duration::from_millis(at.saturating_sub(view.now_ms()));
                let until = after.expires_at_ms.map(|at| view.now + left(at));
                self.had.push_back(Had { from: view.now, leader: holder.cloned(), until });
            }
            Event::Led { term, token, has_body, .. } => self.led(view, *term, *token, *has_body)?,
            Event::Campaigns { op, process, begins: true } => {
                self.campaigns.insert(*op, (*process, view.now));
            }
            Event::Campaigns { op, begins: false, .. } => drop(self.campaigns.remove(op)),
            Event::Killed { process } => self.campaigns.retain(|_, (of, _)| of != process),
            Event::ForeignHold { until, .. } => self.foreign = Some(*until),
            Event::ForeignEnd { .. } => self.foreign = None,
            Event::Observed { process, leader } => self.observed(view, *process, leader.as_ref())?,
            Event::Sent { process, verb: Verb::Release | Verb::Adjust, wire, .. } => {
                self.ends(view, *process, wire)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let within = bounds::somebody_leads_within(&view.plan);
        let is_led = view.terms.values().any(|term| term.validity.is_valid())
            || self.foreign.is_some_and(|until| until > view.now);
        if is_led || !is_calm(view, within) {
            self.led_at = view.now;
        }
        let waits = |(process, since): &(usize, Duration)| {
            let since = (*since).max(self.led_at);
            (view.now.saturating_sub(since) > within).then_some(*process)
        };
        match self.campaigns.values().find_map(waits) {
            None => Ok(()),
            Some(process) => {
                Err(format!("E3: nobody leads for {within:?} although process {process} campaigns"))
            }
        }
    }
}

/// Returns true if no fault was at work for this long, and no process slept.
fn is_calm(view: &View, span: Duration) -> bool {
    let since = view.now.saturating_sub(span);
    let awake = (0..view.plan.processes).all(|process| view.paused_since(process, since).is_zero());
    awake && view.is_quiet_for(span)
}

impl Election {
    fn led(&mut self, view: &View, number: u64, token: u64, has_body: bool) -> Result<(), String> {
        let Some(term) = view.terms.get(&number) else { return Ok(()) };
        if has_body && !term.validity.is_valid() {
            return Err(format!("E1: the body of term {number} begins when the term is over"));
        }
        let others = view.terms.iter().filter(|(other, _)| **other != number);
        if term.validity.is_valid()
            && let Some((other, _)) = others.into_iter().find(|(_, other)| other.validity.is_valid())
        {
            return Err(format!("E1: term {number} begins although term {other} is valid"));
        }
        if !self.granted.contains_key(&token) {
            return Err(format!("E2: term {number} has the token {token}, which the server gave nobody"));
        }
        if token <= self.greatest {
            return Err(format!(
                "E2: term {number} has the token {token}, and one before it {}",
                self.greatest
            ));
        }
        self.greatest = token;
        Ok(())
    }

    /// A release or a transfer of a wire owner leaves its client.
    fn ends(&self, view: &View, process: usize, wire: &Wire) -> Result<(), String> {
        let its = |token: &u64| self.granted.get(token).is_some_and(|granted| granted == wire);
        let terms = view.terms.iter().filter(|(_, term)| term.process == process && its(&term.token));
        for (number, term) in terms {
            if term.validity.is_valid() {
                return Err(format!("E5: the end of term {number} is sent while it is valid"));
            }
            let until = self.valid_until.get(number).copied().unwrap_or_default();
            let is_lost = view.clock_reading(process) + LOST_WITHIN >= until;
            if term.has_body && !is_lost {
                return Err(format!("E5: the end of term {number} is sent while its body runs"));
            }
        }
        Ok(())
    }

    fn refresh(&mut self, view: &View) {
        self.valid_until.retain(|number, _| view.terms.contains_key(number));
        for (number, term) in &view.terms {
            let remaining = term.validity.remaining();
            if !remaining.is_zero() {
                self.valid_until.insert(*number, view.clock_reading(term.process) + remaining);
            }
        }
    }

    /// An observer that was not disturbed shows a state.
    fn observed(
        &mut self,
        view: &View,
        process: usize,
        leader: Option<&Option<Arc<str>>>,
    ) -> Result<(), String> {
        let within = bounds::observers_agree_within(&view.plan);
        let since = view.now.saturating_sub(within);
        while self.had.get(1).is_some_and(|next| next.from < since) {
            self.had.pop_front();
        }
        if !is_calm(view, within) {
            return Ok(());
        }
        let Some(leader) = leader else {
            return Err(format!(
                "E4: an observer of process {process} sees no answer of a server that answers"
            ));
        };
        let ends = |place: usize| self.had.get(place + 1).map_or(view.now, |next| next.from);
        let had = self.had.iter().enumerate().any(|(place, had)| match (leader, &had.leader) {
            (None, None) => true,
            // The lease has ended before the next change.
            (None, Some(_)) => had.until.is_some_and(|until| until <= ends(place)),
            (Some(seen), Some(wire)) => seen == wire,
            (Some(_), None) => false,
        });
        if had || self.had.is_empty() {
            return Ok(());
        }
        let leader = leader.as_deref().map_or_else(|| "nobody".to_owned(), short);
        Err(format!(
            "E4: an observer of process {process} sees {leader}, which the server had not for {within:?}"
        ))
    }
}
