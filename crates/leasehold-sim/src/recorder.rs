//! The recorder of events, which keeps them and shows each event to every invariant.
//!
//! Invariant: the invariants observe an event at the moment it happens, in the order of events.

pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold::election::Validity;

use self::view::{LiveHold, LiveTerm, Pauses, Terms, View};
use crate::clock::Clock;
use crate::fault::Kind;
use crate::history::{By, Ending, Event, Hold, Op};
use crate::invariants::{self, Invariant};
use crate::name_state::Side;
use crate::owner::Wire;
use crate::plan::Plan;
use crate::primitive::Primitive;
use crate::taken::Taken;

/// The recorder of events. Clones are the same recorder.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Mutex<State>>);

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// The true time of the observation.
    pub(crate) at: Duration,
    /// The id of the promise.
    pub(crate) id: String,
    /// The description of the observation.
    pub(crate) what: String,
}

/// A new guard of a user, not yet registered.
pub(crate) struct Claim {
    pub(crate) name: Arc<str>,
    pub(crate) wire: Wire,
    pub(crate) side: Side,
    pub(crate) owner: u64,
    pub(crate) units: u32,
    pub(crate) token: Option<u64>,
    pub(crate) terms: Terms,
    /// The index of the guard among several.
    pub(crate) place: usize,
}

/// The totals of a seed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// The simulated time.
    pub(crate) simulated: Duration,
    /// The number of guards handed out, by primitive.
    pub(crate) grants: BTreeMap<Primitive, u64>,
    /// The number of scripts that ran.
    pub(crate) scripts: u64,
    /// The number of faults that began, by kind.
    pub(crate) faults: BTreeMap<Kind, u64>,
}

struct State {
    view: View,
    invariants: Vec<Box<dyn Invariant>>,
    events: Vec<(Duration, Event)>,
    keep: bool,
    /// True if an event was recorded since the last refresh.
    dirty: bool,
    /// The time of the last check of time.
    checked_at: Duration,
    hash: DefaultHasher,
    /// The bytes of the current event, which go to the hash at once.
    bytes: Bytes,
    counts: Counts,
    violation: Option<Violation>,
    /// The processes that are killed and not started again.
    killed: BTreeSet<usize>,
    /// The writers that a repetition of the network has brought back, each with its lock.
    copied_writers: BTreeMap<Arc<str>, Wire>,
    last_op: u64,
    last_call: u64,
    last_hold: u64,
}

/// Collects bytes for a hasher, which takes many bytes at once faster than a few at a time.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        unreachable!("the bytes are hashed elsewhere")
    }
}

impl Recorder {
    /// Creates the recorder of a new history. The recorder keeps the events only if `keep` is set.
    #[must_use]
    pub(crate) fn new(plan: &Arc<Plan>, clocks: Vec<Clock>, server_clock: Clock, keep: bool) -> Self {
        let pauses = vec![Pauses::default(); clocks.len()];
        let heard_at = vec![Duration::ZERO; clocks.len()];
        let view = View {
            now: Duration::ZERO,
            plan: Arc::clone(plan),
            holds: BTreeMap::new(),
            terms: BTreeMap::new(),
            clocks,
            server_clock,
            pauses,
            heard_at,
            disturbances: 0,
            quiet_since: None,
            messages_lost: 0,
            heard_since: None,
        };
        Self(Arc::new(Mutex::new(State {
            view,
            invariants: invariants::of(plan.mode),
            events: Vec::new(),
            keep,
            dirty: false,
            checked_at: Duration::ZERO,
            hash: DefaultHasher::new(),
            bytes: Bytes::default(),
            counts: Counts::default(),
            violation: None,
            killed: BTreeSet::new(),
            copied_writers: BTreeMap::new(),
            last_op: 0,
            last_call: 0,
            last_hold: 0,
        })))
    }

    /// Creates a recorder without invariants, for a world that checks its promises itself.
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

    /// Returns a number for a new operation.
    #[must_use]
    pub(crate) fn next_op(&self) -> Op {
        let mut state = self.lock();
        state.last_op += 1;
        Op(state.last_op)
    }

    /// Returns a number for a new call.
    #[must_use]
    pub(crate) fn next_call(&self) -> u64 {
        let mut state = self.lock();
        state.last_call += 1;
        state.last_call
    }

    pub(crate) fn record(&self, now: Duration, event: Event) {
        self.lock().record(now, event);
    }

    /// Notes that a process reads bytes of the server.
    pub(crate) fn hear(&self, now: Duration, process: usize) {
        if let Some(heard_at) = self.lock().view.heard_at.get_mut(process) {
            *heard_at = now;
        }
    }

    /// Registers a new guard of a user, or several guards as one guard.
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
            live.valid_until = state.view.clocks[process].reading(now) + remaining;
            state.view.holds.insert(hold, live);
            claimed.push((hold, wire, token));
        }
        let holds: Vec<Hold> = claimed.iter().map(|(hold, ..)| *hold).collect();
        for (hold, wire, token) in claimed {
            state.record(now, Event::Claimed { hold, op, wire, token });
        }
        if several {
            let event = Event::ClaimedTogether { op, holds: holds.clone(), remaining: taken.remaining() };
            state.record(now, event);
        }
        holds
    }

    /// Registers a term that a user leads, and returns its number.
    pub(crate) fn lead(
        &self,
        now: Duration,
        process: usize,
        (token, validity): (u64, Validity),
        has_body: bool,
    ) -> u64 {
        let mut state = self.lock();
        state.last_hold += 1;
        let term = state.last_hold;
        *state.counts.grants.entry(Primitive::Election).or_default() += 1;
        state.view.terms.insert(term, LiveTerm { process, token, has_body, validity });
        state.record(now, Event::Led { term, process, token, has_body });
        term
    }

    /// Records that a term has ended for its user, or does nothing if the term went with its process.
    pub(crate) fn end_term(&self, now: Duration, term: u64) {
        let mut state = self.lock();
        let gone = state.view.terms.remove(&term);
        if gone.is_some() {
            state.record(now, Event::LedOut { term });
        }
        // The reader of the validity may be the last owner of its client, which records its own end.
        drop(state);
        drop(gone);
    }

    /// Counts a grant of a primitive that leaves no hold.
    pub(crate) fn count(&self, primitive: Primitive) {
        *self.lock().counts.grants.entry(primitive).or_default() += 1;
    }

    /// Updates the view after a step of the world. Refreshes the holds if events were recorded, and checks for overdue
    /// actions if time has passed since the last check of time. Returns `false` if a promise was broken.
    pub(crate) fn check_time(&self, now: Duration) -> bool {
        let mut state = self.lock();
        state.view.now = now;
        if std::mem::take(&mut state.dirty) {
            state.refresh();
        }
        if now > state.checked_at {
            state.check_time(now);
        }
        state.violation.is_none()
    }

    /// Records a broken promise that the world itself observed.
    pub(crate) fn violate(&self, at: Duration, id: &str, what: String) {
        self.lock().violation.get_or_insert(Violation { at, id: id.to_owned(), what });
    }

    /// Returns the first broken promise.
    #[must_use]
    pub(crate) fn violation(&self) -> Option<Violation> {
        self.lock().violation.clone()
    }

    /// Returns true if a writer that a repetition of the network has brought back holds a lock. A writer has no lease of its
    /// own, so it holds the lock for as long as a reader of its owner renews the key.
    #[must_use]
    pub(crate) fn has_copied_writer(&self) -> bool {
        !self.lock().copied_writers.is_empty()
    }

    /// Returns a hash of the history, which is equal for equal histories.
    #[must_use]
    pub(crate) fn hash(&self) -> u64 {
        self.lock().hash.finish()
    }

    /// Returns the totals of the seed.
    #[must_use]
    pub(crate) fn counts(&self) -> Counts {
        let state = self.lock();
        Counts { simulated: state.view.now, ..state.counts.clone() }
    }

    /// Returns the events, if they were kept.
    #[must_use]
    pub(crate) fn events(&self) -> Vec<(Duration, Event)> {
        self.lock().events.clone()
    }

    /// Records that a user ends a hold, or does nothing if the hold went with its process.
    pub(crate) fn end(&self, now: Duration, hold: Hold, how: Ending) {
        let mut state = self.lock();
        if state.view.holds.contains_key(&hold) {
            state.record(now, Event::Ending { hold, how });
        }
    }

    /// Records that a process is killed. Its holds are forgotten first, so that the drops of its futures record no
    /// endings.
    pub(crate) fn kill(&self, now: Duration, process: usize) {
        let mut state = self.lock();
        state.view.holds.retain(|_, hold| hold.process != process);
        let (dead, terms) =
            std::mem::take(&mut state.view.terms).into_iter().partition(|(_, term)| term.process == process);
        state.view.terms = terms;
        let dead: BTreeMap<u64, LiveTerm> = dead;
        state.record(now, Event::Killed { process });
        drop(state);
        drop(dead);
    }

    /// Records that a process is paused or resumed.
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
        self.dirty = true;
        match &event {
            // The futures of a killed process are dropped after it, and what they try to send leaves no machine.
            Event::Sent { process, .. } if self.killed.contains(process) => return,
            Event::Killed { process } => drop(self.killed.insert(*process)),
            Event::Started { process } => drop(self.killed.remove(process)),
            Event::Fault { kind, begins: true, .. } => {
                self.view.disturbances += usize::from(!kind.leaves_calls_alone());
                self.view.messages_lost += usize::from(*kind == Kind::MessagesLost);
                *self.counts.faults.entry(*kind).or_default() += 1;
            }
            Event::Fault { kind: Kind::MessagesLost, begins: false, .. } => {
                self.view.messages_lost = self.view.messages_lost.saturating_sub(1);
                self.view.heard_since = Some(now);
            }
            Event::Fault { kind, begins: false, .. } if !kind.leaves_calls_alone() => {
                self.view.disturbances = self.view.disturbances.saturating_sub(1);
                self.view.quiet_since = Some(now);
            }
            Event::Executed { .. } | Event::Apart(_) => self.counts.scripts += 1,
            _ => {}
        }
        self.note_copied_writer(&event);
        (now, &event).hash(&mut self.bytes);
        self.hash.write(&self.bytes.0);
        self.bytes.0.clear();
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

    fn note_copied_writer(&mut self, event: &Event) {
        let Event::Executed { name, wire, by, before, after, .. } = event else { return };
        let writes = after.holder(wire).is_some_and(|holder| holder.side == Side::Writer);
        if matches!(by, By::Duplicate(_)) && writes && !before.is_held_by(wire) {
            self.copied_writers.insert(Arc::clone(name), Arc::clone(wire));
        } else if self.copied_writers.get(name).is_some_and(|wire| !after.is_held_by(wire)) {
            self.copied_writers.remove(name);
        }
    }

    fn check_time(&mut self, now: Duration) {
        self.view.now = now;
        self.checked_at = now;
        for invariant in &mut self.invariants {
            if let Err(what) = invariant.check_time(&self.view) {
                let id = id_of(invariant.id(), &what);
                self.violation.get_or_insert(Violation { at: now, id, what });
            }
        }
    }

    /// Notes the end of each hold's validity, for the time after its guard is gone.
    fn refresh(&mut self) {
        let View { holds, clocks, now, .. } = &mut self.view;
        for hold in holds.values_mut() {
            let remaining = hold.remaining();
            hold.held = !remaining.is_zero();
            if hold.held {
                hold.valid_until = clocks[hold.process].reading(*now) + remaining;
            }
        }
    }
}

/// Returns the id that an observer of several ids names before its description, or the observer's own.
fn id_of(observer: &str, what: &str) -> String {
    match what.split_once(": ") {
        Some((id, _)) if observer.split(' ').any(|one| one == id) => id.to_owned(),
        _ => observer.to_owned(),
    }
}
