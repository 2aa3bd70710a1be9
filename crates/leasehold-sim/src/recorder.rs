//! The one place where events arrive: remembers them, and shows each to every invariant.
//!
//! Invariant: an event is seen by the invariants at the moment it happens, in the order in which things happen.
//! Called by: everything that happens.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::clock::Clock;
use crate::fault::Kind;
use crate::history::{Ending, Event, Hold, Op, Wire};
use crate::invariants::{Invariant, all};
use crate::key::Side;
use crate::plan::Plan;
use crate::primitive::Primitive;
use crate::workload::Taken;

/// Where events go. Clones are the same recorder.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Mutex<State>>);

/// What a broken promise looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// When, by the true time.
    pub(crate) at: Duration,
    /// The promise's id.
    pub(crate) id: String,
    /// What was seen.
    pub(crate) what: String,
}

/// What invariants may look at besides the events.
pub(crate) struct View {
    /// The true time.
    pub(crate) now: Duration,
    /// The plan.
    pub(crate) plan: Arc<Plan>,
    /// The guards that users have, and those that they ended a moment ago.
    pub(crate) holds: BTreeMap<Hold, LiveHold>,
    /// The clocks of the processes.
    pub(crate) clocks: Vec<Clock>,
    /// The server's.
    pub(crate) server_clock: Clock,
    pauses: Vec<Pauses>,
    /// Faults at work now that disturb calls.
    at_work: usize,
    /// Since when none is; `None` when none ever was.
    quiet_since: Option<Duration>,
    /// Losses of wake-ups at work now, and since when none is.
    messages_lost: usize,
    heard_since: Option<Duration>,
}

/// When a process stood still: past times, and since when it does now.
#[derive(Clone, Default)]
struct Pauses {
    past: Vec<(Duration, Duration)>,
    present: Option<Duration>,
}

/// A guard that a user has.
#[derive(Clone)]
pub(crate) struct LiveHold {
    /// Whose.
    pub(crate) process: usize,
    /// Of what.
    pub(crate) name: Arc<str>,
    /// As whom.
    pub(crate) wire: Wire,
    /// As what.
    pub(crate) side: Side,
    /// By which owner of the user's; 0 for one that has nothing else.
    pub(crate) owner: u64,
    /// How many permits.
    pub(crate) units: u32,
    /// Its terms.
    pub(crate) terms: Terms,
    /// Since when.
    pub(crate) since: Duration,
    /// Until when, by its client's clock, it could be trusted when it was last looked at.
    pub(crate) valid_until: Duration,
    /// Whether it could be trusted then.
    held: bool,
    taken: Weak<Taken>,
    /// Which of several guards.
    place: usize,
}

impl LiveHold {
    /// For how long it may be trusted, by its own client's word.
    fn remaining(&self) -> Duration {
        let taken = self.taken.upgrade();
        taken.map_or(Duration::ZERO, |taken| taken.guards()[self.place].remaining()).min(TRUST_MAX)
    }
}

/// More than this is without an end.
const TRUST_MAX: Duration = Duration::from_secs(1_000_000);

/// What a user has got, before anybody has looked at it.
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) wire: Wire,
    pub(crate) side: Side,
    pub(crate) owner: u64,
    pub(crate) units: u32,
    pub(crate) token: Option<u64>,
    pub(crate) terms: Terms,
    /// Which of several guards.
    pub(crate) place: usize,
}

/// What a hold was asked for with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The lease.
    pub(crate) lease: Duration,
    /// Whether it is renewed, without bounds.
    pub(crate) watched: bool,
    /// How long the server is to keep it at least.
    pub(crate) least: Option<Duration>,
}

/// What a seed came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How long it was.
    pub(crate) simulated: Duration,
    /// Guards that were handed out, by primitive.
    pub(crate) grants: BTreeMap<Primitive, u64>,
    /// Scripts that ran.
    pub(crate) scripts: u64,
    /// Faults that began, by kind.
    pub(crate) faults: BTreeMap<Kind, u64>,
}

struct State {
    view: View,
    invariants: Vec<Box<dyn Invariant>>,
    events: Vec<(Duration, Event)>,
    keep: bool,
    /// Whether something was recorded since the last look, and when that was.
    news: bool,
    looked_at: Duration,
    hash: DefaultHasher,
    counts: Counts,
    violation: Option<Violation>,
    last_op: u64,
    last_call: u64,
    last_hold: u64,
}

impl View {
    /// Whether a hold may be trusted now, by its own client's word.
    #[must_use]
    pub(crate) fn is_valid(&self, hold: &LiveHold) -> bool {
        !hold.remaining().is_zero()
    }

    /// The wire owner of a hold that the server is to keep for a least time, whoever ends it when.
    pub(crate) fn rests(&self, hold: &Hold) -> Option<Wire> {
        let hold = self.holds.get(hold)?;
        hold.terms.least.map(|_| Arc::clone(&hold.wire))
    }

    /// The same by what was seen of it last; asking costs more, and this is looked at after every step.
    #[must_use]
    pub(crate) fn seems_valid(&self, hold: &LiveHold) -> bool {
        hold.held && self.clock_says(hold.process) < hold.valid_until
    }

    /// The holds of a name that seem valid now.
    pub(crate) fn valid_holds<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (Hold, &'a LiveHold)> + 'a {
        let of_name = self.holds.iter().filter(move |(_, hold)| &*hold.name == name);
        of_name.filter(|(_, hold)| self.seems_valid(hold)).map(|(id, hold)| (*id, hold))
    }

    /// Whether no fault disturbs calls, and none did within this time.
    #[must_use]
    pub(crate) fn is_quiet_for(&self, span: Duration) -> bool {
        self.at_work == 0 && self.quiet_since.is_none_or(|since| self.now.saturating_sub(since) >= span)
    }

    /// Whether no wake-ups are lost, and none were within this time.
    #[must_use]
    pub(crate) fn hears_for(&self, span: Duration) -> bool {
        self.messages_lost == 0 && self.heard_since.is_none_or(|since| self.now.saturating_sub(since) >= span)
    }

    /// For how long a process stood still since then.
    #[must_use]
    pub(crate) fn paused_since(&self, process: usize, since: Duration) -> Duration {
        let Some(Pauses { past, present }) = self.pauses.get(process) else { return Duration::ZERO };
        let past =
            past.iter().map(|(from, until)| until.saturating_sub((*from).max(since))).sum::<Duration>();
        past + present.map_or(Duration::ZERO, |from| self.now.saturating_sub(from.max(since)))
    }

    /// What the server's clock says, in milliseconds.
    #[must_use]
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.server_clock.says(self.now).as_millis()).unwrap_or(u64::MAX)
    }

    /// What a process's clock says.
    #[must_use]
    pub(crate) fn clock_says(&self, process: usize) -> Duration {
        self.clocks[process].says(self.now)
    }
}

impl Recorder {
    /// A recorder of a new history; it keeps the events only when they are to be printed.
    #[must_use]
    pub(crate) fn new(plan: &Arc<Plan>, clocks: Vec<Clock>, server_clock: Clock, keep: bool) -> Self {
        let pauses = vec![Pauses::default(); clocks.len()];
        let view = View {
            now: Duration::ZERO,
            plan: Arc::clone(plan),
            holds: BTreeMap::new(),
            clocks,
            server_clock,
            pauses,
            at_work: 0,
            quiet_since: None,
            messages_lost: 0,
            heard_since: None,
        };
        Self(Arc::new(Mutex::new(State {
            view,
            invariants: all(),
            events: Vec::new(),
            keep,
            news: false,
            looked_at: Duration::ZERO,
            hash: DefaultHasher::new(),
            counts: Counts::default(),
            violation: None,
            last_op: 0,
            last_call: 0,
            last_hold: 0,
        })))
    }

    /// A recorder of a world that judges for itself.
    #[must_use]
    pub(crate) fn without_invariants(
        plan: &Arc<Plan>,
        clocks: Vec<Clock>,
        server_clock: Clock,
        keep: bool,
    ) -> Self {
        let recorder = Self::new(plan, clocks, server_clock, keep);
        recorder.lock().invariants.clear();
        recorder
    }

    /// A number for a new operation.
    #[must_use]
    pub(crate) fn next_op(&self) -> Op {
        let mut state = self.lock();
        state.last_op += 1;
        Op(state.last_op)
    }

    /// A number for a new call.
    #[must_use]
    pub(crate) fn next_call(&self) -> u64 {
        let mut state = self.lock();
        state.last_call += 1;
        state.last_call
    }

    /// An event happens.
    pub(crate) fn record(&self, now: Duration, event: Event) {
        self.lock().record(now, event);
    }

    /// A user has a guard, or several as one.
    pub(crate) fn claim(
        &self,
        now: Duration,
        op: Op,
        process: usize,
        taken: &Arc<Taken>,
        claims: Vec<Claim>,
    ) -> Vec<Hold> {
        let mut state = self.lock();
        state.view.now = now;
        let several = claims.len() > 1;
        let mut claimed = Vec::new();
        for Claim { name, wire, side, owner, units, token, terms, place } in claims {
            state.last_hold += 1;
            let hold = Hold(state.last_hold);
            *state.counts.grants.entry(Primitive::of(&name)).or_default() += 1;
            let (since, taken) = (now, Arc::downgrade(taken));
            let mut live = LiveHold {
                process,
                name,
                wire: Arc::clone(&wire),
                side,
                owner,
                units,
                terms,
                since,
                valid_until: Duration::ZERO,
                held: false,
                taken,
                place,
            };
            let remaining = live.remaining();
            live.held = !remaining.is_zero();
            live.valid_until = state.view.clocks[process].says(now) + remaining;
            state.view.holds.insert(hold, live);
            claimed.push((hold, wire, token));
        }
        let holds: Vec<Hold> = claimed.iter().map(|(hold, ..)| *hold).collect();
        for (hold, wire, token) in claimed {
            state.record(now, Event::Claimed { hold, op, wire, token });
        }
        if several {
            let event = Event::Several { op, holds: holds.clone(), remaining: taken.remaining() };
            state.record(now, event);
        }
        holds
    }

    /// Something of this primitive was granted that leaves nothing to hold.
    pub(crate) fn count(&self, primitive: Primitive) {
        *self.lock().counts.grants.entry(primitive).or_default() += 1;
    }

    /// After something has run: what was said of renewals has been taken in now. When time has passed since the last
    /// look, looks whether something is overdue. `false` when a promise was seen broken.
    pub(crate) fn look(&self, now: Duration) -> bool {
        let mut state = self.lock();
        state.view.now = now;
        if std::mem::take(&mut state.news) {
            state.refresh();
        }
        if now > state.looked_at {
            state.look(now);
        }
        state.violation.is_none()
    }

    /// A promise was seen broken by somebody who is no invariant.
    pub(crate) fn violate(&self, at: Duration, id: &str, what: String) {
        self.lock().violation.get_or_insert(Violation { at, id: id.to_owned(), what });
    }

    /// The first broken promise.
    #[must_use]
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.lock().violation.clone()
    }

    /// What happened so far: a number that is the same for equal histories.
    #[must_use]
    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    /// What the seed came to.
    #[must_use]
    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        Counts { simulated: state.view.now, ..state.counts.clone() }
    }

    /// The events, if they were kept.
    #[must_use]
    pub(crate) fn events(&self) -> Vec<(Duration, Event)> {
        self.lock().events.clone()
    }

    /// A user is done with a hold; nothing when the hold went with its process.
    pub(crate) fn end(&self, now: Duration, hold: Hold, how: Ending) {
        let mut state = self.lock();
        if state.view.holds.contains_key(&hold) {
            state.record(now, Event::Ending { hold, how });
        }
    }

    /// A process is killed; what its futures do on their way out is nobody's doing.
    pub(crate) fn kill(&self, now: Duration, process: usize) {
        let mut state = self.lock();
        state.view.holds.retain(|_, hold| hold.process != process);
        state.record(now, Event::Killed { process });
    }

    /// A process stands still, or goes on.
    pub(crate) fn pause(&self, now: Duration, process: usize, begins: bool) {
        let mut state = self.lock();
        let Pauses { past, present } = &mut state.view.pauses[process];
        if begins {
            present.get_or_insert(now);
        } else if let Some(from) = present.take() {
            past.push((from, now));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn record(&mut self, now: Duration, event: Event) {
        if self.violation.is_some() {
            return;
        }
        self.view.now = now;
        self.news = true;
        match &event {
            Event::Fault { kind, begins: true, .. } => {
                self.view.at_work += usize::from(!kind.leaves_calls_alone());
                self.view.messages_lost += usize::from(*kind == Kind::MessagesLost);
                *self.counts.faults.entry(*kind).or_default() += 1;
            }
            Event::Fault { kind: Kind::MessagesLost, begins: false, .. } => {
                self.view.messages_lost = self.view.messages_lost.saturating_sub(1);
                self.view.heard_since = Some(now);
            }
            Event::Fault { kind, begins: false, .. } if !kind.leaves_calls_alone() => {
                self.view.at_work = self.view.at_work.saturating_sub(1);
                self.view.quiet_since = Some(now);
            }
            Event::Executed { .. } => self.counts.scripts += 1,
            _ => {}
        }
        (now, &event).hash(&mut self.hash);
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.see(&event, &self.view) {
                let id = id_of(invariant.id(), &what);
                self.violation.get_or_insert(Violation { at: now, id, what });
            }
        }
        if let Event::Ending { hold, .. } = &event {
            self.view.holds.remove(hold);
        }
        if self.keep {
            self.events.push((now, event));
        }
    }

    fn look(&mut self, now: Duration) {
        self.view.now = now;
        self.looked_at = now;
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.look(&self.view) {
                let id = id_of(invariant.id(), &what);
                self.violation.get_or_insert(Violation { at: now, id, what });
            }
        }
    }

    /// Notes until when each hold can be trusted, for when it cannot be asked any more.
    fn refresh(&mut self) {
        let View { holds, clocks, now, .. } = &mut self.view;
        for hold in holds.values_mut() {
            let remaining = hold.remaining();
            hold.held = !remaining.is_zero();
            if hold.held {
                hold.valid_until = clocks[hold.process].says(*now) + remaining;
            }
        }
    }
}

/// The id that an observer of several names in front of what it saw, or its own.
fn id_of(observer: &str, what: &str) -> String {
    match what.split_once(": ") {
        Some((id, _)) if observer.split(' ').any(|one| one == id) => id.to_owned(),
        _ => observer.to_owned(),
    }
}
