//! The state of a name: what this client does with one name, or one group of names, under one family of primitives.
//!
//! Invariant: the state exists while it has a wait queue, an acquire, an attempt on its way or a server hold. Both sides
//! of a read-write lock and its upgrade share one state. At most one hold of a name that excludes others is trusted at
//! any time.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::engine::base::keys::{NameId, Number, QueueId, Side};
use crate::engine::base::table::Table;
use crate::engine::waits::queue::Queue;
use crate::engine::waits::turns::Turns;
use crate::name::{Name, Others};
use crate::owner::Owner;
use crate::recipe::Recipe;
use crate::recipe::format::Format;
use crate::subject::Subject;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct NameState {
    /// The names, with the rules of their exclusive side.
    key: Arc<Key>,
    /// The hold that excludes all others, trusted or lost, that was granted last.
    exclusive: Option<Number>,
    /// The number of acquires, attempts that waiters make for themselves, and server holds in any phase.
    uses: u32,
    /// The grants in a row that followed a release of this client, of a primitive without wake-ups.
    run: u32,
    /// The last hold that excludes others whose release is on its way.
    leaving: Option<Number>,
    rare: Option<Box<Rare>>,
}

/// A subject without its group, by which the state of a name is found.
#[derive(Clone, Debug)]
struct Key {
    name: Name,
    others: Others,
    recipe: &'static Recipe,
    format: Option<Arc<Format>>,
}

impl Key {
    fn order(&self) -> (&Name, &'static str, &[Name], Option<&Format>) {
        (&self.name, self.recipe.kind, &self.others, self.format.as_deref())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.order().hash(state);
    }
}

/// The parts of a state that a held lock without waiters does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rare {
    /// Boxed, since a name with waiters mostly has one of the three.
    queues: [Option<Box<Queue>>; 3],
    /// The turns of other clients, by queue. They outlive it, since a client with two waiters often has none.
    turns: [Turns; 3],
    /// The lost holds whose guards are still there, although another hold has taken their place.
    displaced: Vec<Number>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        let has_turns = |turns: &Turns| *turns != Turns::default();
        self.displaced.is_empty()
            && self.queues.iter().all(Option::is_none)
            && !self.turns.iter().any(has_turns)
    }
}

impl NameState {
    /// Returns the subject of these names under a recipe of their family.
    pub(in crate::engine) fn subject(&self, recipe: &'static Recipe) -> Subject {
        let Key { name, others, format, .. } = &*self.key;
        Subject { name: name.clone(), others: others.clone(), recipe, group: None, format: format.clone() }
    }

    pub(in crate::engine) fn name(&self) -> &Name {
        &self.key.name
    }

    /// Returns the number of the names.
    pub(in crate::engine) fn names(&self) -> usize {
        1 + self.key.others.len()
    }

    /// Returns the hold that excludes all others, trusted or lost.
    pub(in crate::engine) const fn exclusive(&self) -> Option<Number> {
        self.exclusive
    }

    /// Returns the exclusive holds that still have guards, the last one first.
    pub(in crate::engine) fn exclusives(&self) -> impl Iterator<Item = Number> {
        let displaced = self.rare.as_ref().map(|rare| rare.displaced.as_slice()).unwrap_or_default();
        self.exclusive.into_iter().chain(displaced.iter().copied())
    }

    fn is_idle(&self) -> bool {
        let unused = |rare: &Rare| rare.queues.iter().all(Option::is_none);
        self.uses == 0 && self.rare.as_deref().is_none_or(unused)
    }
}

/// The names that a client has something to do with, and their read holds by the owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct NameStates {
    index: BTreeMap<Arc<Key>, NameId>,
    states: Vec<Option<NameState>>,
    free: Vec<NameId>,
    readers: Table<(u32, u64), Number>,
}

impl NameStates {
    /// Returns the name of a subject, if it has a state.
    pub(in crate::engine) fn find(&self, subject: &Subject) -> Option<NameId> {
        if self.index.is_empty() {
            return None;
        }
        self.index.get(&key(subject)).copied()
    }

    /// Returns the name of a subject, whose state the caller gives a queue or a hold before it does anything else.
    pub(in crate::engine) fn enter(&mut self, subject: &Subject) -> NameId {
        let key = key(subject);
        if let Some(id) = self.index.get(&key) {
            return *id;
        }
        let key = Arc::new(key);
        let state = Some(NameState {
            key: Arc::clone(&key),
            exclusive: None,
            uses: 0,
            run: 0,
            leaving: None,
            rare: None,
        });
        let id = if let Some(id) = self.free.pop() {
            self.states[id.index()] = state;
            id
        } else {
            if self.states.len() == self.states.capacity() {
                // A quarter more, since doubling would leave up to half of the room unused.
                self.states.reserve_exact(self.states.len() / 4 + 8);
            }
            self.states.push(state);
            NameId::new(
                u32::try_from(self.states.len() - 1).expect("a client has fewer than 2^32 names at once"),
            )
        };
        self.index.insert(key, id);
        id
    }

    pub(in crate::engine) fn get(&self, id: NameId) -> &NameState {
        self.states[id.index()].as_ref().expect("a name has its state while it is in use")
    }

    fn get_mut(&mut self, id: NameId) -> &mut NameState {
        self.states[id.index()].as_mut().expect("a name has its state while it is in use")
    }

    /// Removes the state of a name that is not in use any more.
    fn tidy(&mut self, id: NameId) {
        let slot = &mut self.states[id.index()];
        if let Some(state) = slot.take_if(|state| state.is_idle()) {
            self.index.remove(&state.key);
            self.free.push(id);
        }
    }

    pub(in crate::engine) fn queue(&self, id: QueueId) -> Option<&Queue> {
        let state = self.states.get(id.name.index())?.as_ref()?;
        state.rare.as_ref()?.queues[id.side as usize].as_deref()
    }

    pub(in crate::engine) fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        let state = self.states.get_mut(id.name.index())?.as_mut()?;
        state.rare.as_mut()?.queues[id.side as usize].as_deref_mut()
    }

    /// Returns the wait queues of all names.
    pub(in crate::engine) fn queues(&self) -> impl Iterator<Item = QueueId> {
        let queued = self.states.iter().zip(0..).filter_map(|(state, at)| {
            let queues = &state.as_ref()?.rare.as_ref()?.queues;
            Some((NameId::new(at), queues))
        });
        queued.flat_map(|(name, queues)| {
            let open = Side::ALL.into_iter().filter(|side| queues[*side as usize].is_some());
            open.map(move |side| QueueId { name, side })
        })
    }

    /// Returns the wait queue, which is made if it is not there.
    pub(in crate::engine) fn open_queue(&mut self, id: QueueId) -> &mut Queue {
        let rare = self.get_mut(id.name).rare.get_or_insert_default();
        rare.queues[id.side as usize].get_or_insert_default()
    }

    /// Returns the turns of other clients at what a queue waits for, if there were any.
    pub(in crate::engine) fn turns(&self, id: QueueId) -> Option<&Turns> {
        Some(&self.get(id.name).rare.as_ref()?.turns[id.side as usize])
    }

    /// Returns the turns of other clients at what a queue waits for.
    pub(in crate::engine) fn turns_mut(&mut self, id: QueueId) -> &mut Turns {
        &mut self.get_mut(id.name).rare.get_or_insert_default().turns[id.side as usize]
    }

    pub(in crate::engine) fn close_queue(&mut self, id: QueueId) {
        let state = self.get_mut(id.name);
        if let Some(rare) = &mut state.rare {
            rare.queues[id.side as usize] = None;
        }
        state.rare.take_if(|rare| rare.is_empty());
        self.tidy(id.name);
    }

    /// Notes an acquire, an attempt or a server hold that needs the state.
    pub(in crate::engine) fn add_use(&mut self, id: NameId) {
        self.get_mut(id).uses += 1;
    }

    /// Notes the end of such a use. The last one ends the state, unless it has a queue.
    pub(in crate::engine) fn end_use(&mut self, id: NameId) {
        self.get_mut(id).uses -= 1;
        self.tidy(id);
    }

    /// Notes that the next attempt follows a release of this client. Returns the number of such attempts since the last
    /// refusal.
    pub(in crate::engine) fn extend_run(&mut self, id: NameId) -> u32 {
        let run = &mut self.get_mut(id).run;
        *run = run.wrapping_add(1);
        *run
    }

    /// Notes a refusal: another client has the name.
    pub(in crate::engine) fn end_run(&mut self, id: NameId) {
        self.get_mut(id).run = 0;
    }

    /// Returns the exclusive hold of a name whose release is on its way, if the name is still in use.
    pub(in crate::engine) fn leaving(&self, id: NameId) -> Option<Number> {
        self.states.get(id.index())?.as_ref()?.leaving
    }

    /// Notes that the release of a hold that excludes others is on its way.
    pub(in crate::engine) fn begin_leaving(&mut self, id: NameId, number: Number) {
        self.get_mut(id).leaving = Some(number);
    }

    /// Notes that a release is over.
    pub(in crate::engine) fn end_leaving(&mut self, id: NameId, number: Number) {
        self.get_mut(id).leaving.take_if(|leaving| *leaving == number);
    }

    /// Notes the hold of an owner. Returns the exclusive hold that it displaces.
    pub(in crate::engine) fn hold(
        &mut self,
        id: NameId,
        side: Side,
        owner: Owner,
        number: Number,
    ) -> Option<Number> {
        if side == Side::Read {
            let displaced = self.readers.insert((id.number(), owner.number()), number);
            debug_assert!(displaced.is_none(), "an owner reads under one wire owner");
            return None;
        }
        let state = self.get_mut(id);
        let displaced = state.exclusive.replace(number)?;
        state.rare.get_or_insert_default().displaced.push(displaced);
        Some(displaced)
    }

    /// Notes that the hold of an owner has no guards any more.
    pub(in crate::engine) fn unhold(&mut self, id: NameId, side: Side, owner: Owner, number: Number) {
        if side == Side::Read {
            if self.readers.get((id.number(), owner.number())) == Some(&number) {
                self.readers.remove((id.number(), owner.number()));
            }
            return;
        }
        let state = self.get_mut(id);
        state.exclusive.take_if(|held| *held == number);
        if let Some(rare) = &mut state.rare {
            rare.displaced.retain(|displaced| *displaced != number);
        }
        state.rare.take_if(|rare| rare.is_empty());
    }

    /// Returns the read hold of an owner, trusted or lost.
    pub(in crate::engine) fn reader(&self, id: NameId, owner: Owner) -> Option<Number> {
        self.readers.get((id.number(), owner.number())).copied()
    }
}

/// Returns the key that stands for all sides of a subject.
fn key(subject: &Subject) -> Key {
    let Subject { name, others, recipe, format, .. } = subject;
    Key { name: name.clone(), others: others.clone(), recipe: main_of(recipe), format: format.clone() }
}

/// Returns the rules of the exclusive side, or of a primitive without sides.
fn main_of(recipe: &'static Recipe) -> &'static Recipe {
    let held_as = recipe.held_as.unwrap_or(recipe);
    if held_as.holding.is_exclusive() { held_as } else { held_as.companion.unwrap_or(held_as) }
}
