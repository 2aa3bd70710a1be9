//! The exploration of every order of events of a scene.
//!
//! Invariant: a scene that passes as sound was explored to the end.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::world::{Ledger, Move, Scene, Verdict, World};

/// The number of states after which the exploration is cut off.
const STATES_MAX: usize = 60_000_000;

const RULES: &str = "no rule is broken";
const ENDS_WELL: &str = "after the faults everybody is served, and nothing is left";
const TRIED: &str = "what is to be tried was tried";

/// A state space: its first state, its moves, and the properties to check.
pub(crate) trait Space: Send + Sync + 'static {
    type State: Clone + Debug + PartialEq + Hash + Send + Sync + 'static;
    type Move: Copy + Debug + PartialEq + Send + Sync + 'static;

    fn first(&self) -> Self::State;
    fn moves(&self, state: &Self::State) -> Vec<Self::Move>;
    fn make(&self, state: &mut Self::State, chosen: Self::Move);
    fn broken(&self, state: &Self::State) -> Option<&'static str>;
    /// Returns `Ok` if a state without further moves is a good end.
    fn ends_well(&self, state: &Self::State) -> Verdict;
    fn wanted(&self, state: &Self::State) -> bool;
}

/// A scene, with the ledger that checks it.
pub(crate) struct Play<L> {
    scene: Scene,
    ledger: std::marker::PhantomData<fn() -> L>,
}

impl<L: Ledger> Space for Play<L> {
    type State = World<L>;
    type Move = Move;

    fn first(&self) -> World<L> {
        World::new(&self.scene)
    }

    fn moves(&self, world: &World<L>) -> Vec<Move> {
        world.moves(&self.scene)
    }

    fn make(&self, world: &mut World<L>, chosen: Move) {
        world.make(&self.scene, chosen);
    }

    fn broken(&self, world: &World<L>) -> Option<&'static str> {
        world.broken
    }

    fn ends_well(&self, world: &World<L>) -> Verdict {
        world.ends_well(&self.scene)
    }

    fn wanted(&self, world: &World<L>) -> bool {
        (self.scene.wanted)(&world.clients)
    }
}

struct Exploration<S>(S);

impl<S: Space> Model for Exploration<S> {
    type State = S::State;
    type Action = S::Move;

    fn init_states(&self) -> Vec<S::State> {
        vec![self.0.first()]
    }

    fn actions(&self, state: &S::State, moves: &mut Vec<S::Move>) {
        moves.extend(self.0.moves(state));
    }

    fn next_state(&self, state: &S::State, chosen: S::Move) -> Option<S::State> {
        let mut next = state.clone();
        self.0.make(&mut next, chosen);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RULES, |model, state| model.0.broken(state).is_none()),
            Property::always(ENDS_WELL, |model, state| {
                !model.0.moves(state).is_empty() || model.0.ends_well(state).is_ok()
            }),
            Property::sometimes(TRIED, |model, state| model.0.wanted(state)),
        ]
    }
}

/// The result of an exploration, with the shortest path to a broken rule.
struct Found<M> {
    rule: &'static str,
    path: Vec<M>,
    tried: bool,
    states: usize,
}

fn explore<S: Space>(name: &str, space: S) -> Found<S::Move> {
    let checker = Exploration(space).checker().threads(2).target_state_count(STATES_MAX);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let states = checker.state_count();
    println!("{name}: {states} states, {} of them different", checker.unique_state_count());
    let tried = checker.discovery(TRIED).is_some();
    let Some(path) = checker.discovery(RULES).or_else(|| checker.discovery(ENDS_WELL)) else {
        return Found { rule: "", path: Vec::new(), tried, states };
    };
    let space = &checker.model().0;
    let last = path.last_state();
    let rule = space.broken(last).or_else(|| space.ends_well(last).err()).unwrap_or_default();
    Found { rule, path: path.into_actions(), tried, states }
}

pub(crate) fn assert_sound_space<S: Space>(name: &str, space: S) {
    let found = explore(name, space);
    assert_eq!(found.rule, "", "{name}: this order of events breaks a rule: {:?}", found.path);
    assert!(found.states < STATES_MAX, "{name} was cut off before every order was tried");
    assert!(found.tried, "{name}: what it is about never happened");
}

pub(crate) fn assert_found_in_space<S: Space>(name: &str, space: S, rules: &[&str]) {
    let found = explore(name, space);
    println!("{name}: {}, by {:?}", found.rule, found.path);
    let expected = rules.iter().any(|rule| found.rule.starts_with(rule));
    assert!(expected, "{name}: expected one of {rules:?}, found {:?}", found.rule);
}

/// Asserts that no order of events of a scene breaks a rule.
pub(crate) fn assert_sound<L: Ledger>(name: &str, scene: Scene) {
    assert_sound_space(name, Play::<L> { scene, ledger: std::marker::PhantomData });
}

/// Asserts that a scene with a deliberate defect breaks one of these rules.
pub(crate) fn assert_found<L: Ledger>(name: &str, scene: Scene, rules: &[&str]) {
    assert_found_in_space(name, Play::<L> { scene, ledger: std::marker::PhantomData }, rules);
}
