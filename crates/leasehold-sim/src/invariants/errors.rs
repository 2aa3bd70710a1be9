//! E, G6: an acquire that ends without a guard reports truly what it has left behind.
//!
//! Invariant: judged for an acquire that was the only acquire of its process and name at the time, since all requests of
//! that time belong to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::breaches::Breaches;
use super::invariant::Invariant;
use crate::fault::{Fault, Kind};
use crate::history::{By, Ending, Event, Hold, Op, Outcome};
use crate::name_state::NameState;
use crate::owner::{Wire, short};
use crate::primitive::{Primitive, covers, overlap};
use crate::recorder::view::View;

#[derive(Default)]
pub(super) struct Errors {
    breaches: Breaches,
    requests: BTreeMap<Op, Request>,
    states: BTreeMap<Arc<str>, Arc<NameState>>,
    /// The owners with a detached hold or with a minimum hold time.
    kept: BTreeSet<Wire>,
    /// The owners of requests that the network has repeated. A repetition may be granted after the first request was
    /// refused.
    repeated: BTreeSet<Wire>,
    /// The owners that must be off the server, each from a time on. There are many more of them than holders.
    must_be_gone: BTreeMap<Wire, Vec<MustBeGone>>,
}

struct MustBeGone {
    /// The time from which the owner must be gone.
    from: Duration,
    /// If set, the check applies only without a disturbance since this time.
    quiet_since: Option<Duration>,
    /// The time of the statement.
    at: Duration,
    name: Arc<str>,
    reason: &'static str,
}

struct Request {
    process: usize,
    name: Arc<str>,
    wires: BTreeSet<Wire>,
    alone: bool,
}

impl Request {
    /// Returns true if this process asks for a name by it.
    fn asks(&self, process: usize, name: &str) -> bool {
        self.process == process && covers(&self.name, name)
    }
}

impl Invariant for Errors {
    fn id(&self) -> &'static str {
        "E G6"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        self.breaches.see(event, view);
        Breaches::forget_changed(&mut self.states, event, view);
        match event {
            Event::Requested { op, process, name, what, .. } if what.acquires() => {
                self.request_begins(*op, *process, name);
            }
            Event::Sent { process, verb: Verb::Acquire, name, wire, .. } => {
                // The attempt is for a later request now, which has taken over what was left on its way.
                self.must_be_gone.remove(wire);
                let requests = self.requests.values_mut();
                for request in requests.filter(|request| request.asks(*process, name)) {
                    request.wires.insert(Arc::clone(wire));
                }
            }
            // A grant that is renewed is somebody's. A request for several names that has this one waits for the others.
            Event::Sent { process, verb: Verb::Renew, name, wire, .. }
                if self.requests.values().any(|request| request.asks(*process, name)) =>
            {
                self.must_be_gone.remove(wire);
            }
            Event::Completed { op, outcome } => {
                if let Some(request) = self.requests.remove(op).filter(|request| request.alone) {
                    self.request_ends(view, &request, outcome);
                }
            }
            Event::Dropped { op } => {
                if let Some(request) = self.requests.remove(op).filter(|request| request.alone) {
                    let from = view.now + undone_within(view);
                    self.expect_gone(view, &request, from, Some(view.now), "its future's end");
                }
            }
            Event::Claimed { hold, wire, .. } => {
                self.must_be_gone.remove(wire);
                self.kept.extend(view.min_hold_owner(hold));
            }
            Event::Ending { hold, how: Ending::Detach } => {
                self.kept.extend(view.holds.get(hold).map(|hold| Arc::clone(&hold.wire)));
            }
            Event::Ending { hold, how: Ending::Release | Ending::Drop } => self.ends(view, *hold),
            Event::Killed { process } => self.requests.retain(|_, request| request.process != *process),
            Event::Executed { name, wire, by, after, .. } => {
                self.states.insert(Arc::clone(name), Arc::clone(after));
                if matches!(by, By::Duplicate(_)) {
                    // A network that repeats a request brings back an owner that had gone.
                    self.must_be_gone.remove(wire);
                    self.repeated.insert(Arc::clone(wire));
                }
            }
            _ => {}
        }
        self.check_time(view)
    }

    fn check_time(&mut self, view: &View) -> Result<(), String> {
        let now_ms = view.now_ms().saturating_add(1);
        for (key, state) in &self.states {
            for wire in state.holders.iter().map(|holder| &holder.wire) {
                let of_wire = self.must_be_gone.get(wire).into_iter().flatten();
                let late = |gone: &&MustBeGone| view.now > gone.from && covers(&gone.name, key);
                let mut broken = of_wire.filter(late).filter(|gone| !self.excuses(view, gone));
                if let Some(MustBeGone { name, reason, .. }) = broken.next()
                    && state.is_live(wire, now_ms)
                {
                    return Err(format!("{} stands on {name} after {reason}", short(wire)));
                }
            }
        }
        Ok(())
    }
}

impl Errors {
    /// Returns true if a disturbance or a breach explains an owner that is still there.
    fn excuses(&self, view: &View, gone: &MustBeGone) -> bool {
        // A disturbance shortly before may still have effects.
        let disturbed = gone.quiet_since.is_some_and(|since| {
            !view.is_quiet_for(view.now - since + view.plan.timeout + Duration::from_secs(2))
        });
        disturbed || was_set_back(view, gone.from) || self.broken_since(&gone.name, gone.at)
    }

    fn broken_since(&self, names: &str, at: Duration) -> bool {
        names.split(' ').any(|name| self.breaches.any_or_apart_since(name, at))
    }

    fn request_begins(&mut self, op: Op, process: usize, name: &Arc<str>) {
        let mut alone = true;
        let others = self.requests.values_mut();
        for other in others.filter(|other| other.process == process && overlap(&other.name, name)) {
            (other.alone, alone) = (false, false);
        }
        let request = Request { process, name: Arc::clone(name), wires: BTreeSet::new(), alone };
        self.requests.insert(op, request);
    }

    fn request_ends(&mut self, view: &View, request: &Request, outcome: &Outcome) {
        let (within, reason) = match outcome {
            Outcome::Done => return,
            // The outcome describes the name that was refused. The client undoes the names it had acquired before, or
            // they expire.
            // A server whose clock was set back keeps a name longer that has expired by the client's clock.
            _ if request.name.contains(' ') && freezes(view, view.plan.longest_lease()) => return,
            _ if request.name.contains(' ') => (
                view.plan.longest_lease().mul_f64(1.01) + view.plan.timeout,
                "several were not taken together",
            ),
            // A grant that came too late has run out by then, unless the server's clock was set back.
            Outcome::NotApplied(_) if was_set_back(view, looks_back(view)) => return,
            Outcome::NotApplied(_) => (Duration::ZERO, "an acquire that was not made"),
            // The last request may be in flight. The client undoes its grant, or the grant expires. A grant without an
            // end is always undone, unless the process is killed.
            Outcome::Contended if Primitive::of(&request.name).is_unending() => return,
            Outcome::Contended => {
                let within = view.plan.longest_lease().mul_f64(1.01) + view.plan.timeout;
                // A killed process does not undo what a frozen server runs later.
                if freezes(view, within) && is_killed(view, request.process, within) {
                    return;
                }
                (within, "an acquire that was refused")
            }
            // A frozen server may run the acquire later. The undo follows then, as the docs say.
            Outcome::Unknown(within, _) if !freezes(view, *within) && !ran_ahead(view, request.process) => {
                (within.mul_f64(1.006), "the time by which its unknown acquire was to be gone")
            }
            _ => return,
        };
        self.expect_gone(view, request, view.now + within + Duration::from_millis(1), None, reason);
    }

    /// Handles the end of a hold. The last guard of an owner ends the lock.
    fn ends(&mut self, view: &View, hold: Hold) {
        // A hold that was lost before expires by itself.
        let Some(ending) = view.holds.get(&hold).filter(|hold| view.seems_valid(hold)) else { return };
        let others = view.holds.iter().any(|(id, other)| *id != hold && other.wire == ending.wire);
        let shared = self.requests.values().any(|request| request.process == ending.process);
        // A detached hold of the same owner keeps the lock.
        if !others && !shared && !self.kept.contains(&ending.wire) && !self.repeated.contains(&ending.wire) {
            let (name, wire) = (Arc::clone(&ending.name), Arc::clone(&ending.wire));
            let from = view.now + undone_within(view);
            let (at, reason) = (view.now, "its release");
            let gone = MustBeGone { from, quiet_since: Some(at), at, name, reason };
            self.must_be_gone.entry(wire).or_default().push(gone);
        }
    }

    fn expect_gone(
        &mut self,
        view: &View,
        request: &Request,
        from: Duration,
        quiet_since: Option<Duration>,
        reason: &'static str,
    ) {
        let held: BTreeSet<&Wire> = view.holds.values().map(|hold| &hold.wire).collect();
        let wires =
            request.wires.iter().filter(|wire| !held.contains(wire) && !self.repeated.contains(*wire));
        for wire in wires {
            let name = Arc::clone(&request.name);
            let gone = MustBeGone { from, quiet_since, at: view.now, name, reason };
            self.must_be_gone.entry(Arc::clone(wire)).or_default().push(gone);
        }
    }
}

/// Returns the time within which an unwanted hold is off the server while no fault disturbs.
fn undone_within(view: &View) -> Duration {
    view.plan.latency_max * 10 + Duration::from_millis(50)
}

/// Returns true if the server's clock was set back after the given time, which brings back a key that has expired.
fn was_set_back(view: &View, since: Duration) -> bool {
    let mut set_back = view.plan.faults.iter().filter(|fault| fault.kind == Kind::ServerClockBack);
    set_back.any(|fault| (since..=view.now).contains(&fault.begins))
}

/// Returns the time since which a lease can have begun on which a statement of now depends.
fn looks_back(view: &View) -> Duration {
    view.now.saturating_sub(view.plan.longest_lease() + view.plan.timeout * 2)
}

/// Returns true if the clock of a process jumped forward during the leases that a statement of now looks back on. The time
/// that is left of them is by that clock.
fn ran_ahead(view: &View, process: usize) -> bool {
    let since = looks_back(view);
    let mut jumps = view.plan.faults.iter().filter(|fault| fault.kind == Kind::ClockForward);
    jumps.any(|fault| fault.process == process && (since..=view.now).contains(&fault.begins))
}

/// Returns true if a process is killed in the given period from now.
fn is_killed(view: &View, process: usize, within: Duration) -> bool {
    let mut faults = view.plan.faults.iter().filter(|fault| fault.kind == Kind::Crash);
    faults.any(|fault| fault.process == process && (view.now..=view.now + within).contains(&fault.begins))
}

/// Returns true if a freeze or a backward clock jump of the server affects the given period.
fn freezes(view: &View, within: Duration) -> bool {
    let slows = |fault: &&Fault| {
        let freezes = view.plan.fleet.is_some() && fault.freezes_master();
        freezes || matches!(fault.kind, Kind::ServerFreeze | Kind::ServerClockBack)
    };
    let (from, until) = (view.now.saturating_sub(within + view.plan.timeout), view.now + within);
    let mut faults = view.plan.faults.iter().filter(slows);
    faults.any(|fault| fault.begins <= until && fault.ends() >= from)
}
