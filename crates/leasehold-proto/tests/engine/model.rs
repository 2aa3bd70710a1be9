//! A model check of the reentrant lock over the real `Engine::step`: two clients, renewal, lost and repeated messages,
//! suspended and crashed processes. The check must find the fault of each broken variant.

use std::time::Duration;

use crate::world::{Budget, Move, TICK, Variant, World};
use leasehold_proto::engine::Wait;
use stateright::{Checker, Model, Property};

struct LockModel {
    budget: Budget,
    lease: Duration,
    wait: Wait,
    variant: Variant,
}

impl Model for LockModel {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(2, 1, self.lease, self.wait, self.budget, self.variant)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Move>) {
        actions.extend(world.moves());
    }

    fn next_state(&self, world: &World, action: Move) -> Option<World> {
        let mut next = world.clone();
        next.make(action);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("M, L1, G5, D3: no rule is broken", |_, world: &World| world.broken.is_none()),
            Property::sometimes("both clients have held", |_, world: &World| {
                world.clients.iter().all(|client| client.granted > 0)
            }),
        ]
    }
}

const QUIET: Budget = Budget {
    ticks: 0,
    acquires: 1,
    cancels: 0,
    losses: 0,
    repeats: 0,
    refusals: 0,
    keeps: 0,
    owners: 1,
    varied: false,
    crashes: 0,
    pauses: 0,
    deletions: 0,
    terse: true,
};

/// The number of states at which a model that is too large is cut off.
const STATES_MAX: usize = 20_000_000;

/// Explores every order of events, prints the number of states, and returns the events that break a rule, if any do.
fn check(name: &str, budget: Budget, wait: Wait, variant: Variant) -> Option<Vec<Move>> {
    let model = LockModel { budget, lease: TICK * 2, wait, variant };
    let checker = model.checker().threads(2).target_state_count(STATES_MAX).spawn_bfs().join();
    println!("{name}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if variant == Variant::Sound {
        assert!(checker.state_count() < STATES_MAX, "{name} was cut off before every order was tried");
        checker.assert_any_discovery("both clients have held");
    }
    let path = checker.discovery("M, L1, G5, D3: no rule is broken")?;
    println!("{name}: {}", path.last_state().broken.unwrap_or_default());
    Some(path.into_actions())
}

fn assert_sound(name: &str, budget: Budget, wait: Wait) {
    let broken = check(name, budget, wait, Variant::Sound);
    assert_eq!(broken, None, "{name}: this order of events breaks a rule");
}

fn assert_found(name: &str, budget: Budget, variant: Variant) {
    let found = check(name, budget, Wait::Forever, variant);
    println!("{name}: broken by {:?}", found.as_deref());
    assert!(found.is_some(), "{name}: the broken twin was not found out");
}

#[test]
fn at_most_one_holder_under_loss_and_repetition() {
    assert_sound("loss", Budget { ticks: 2, losses: 1, repeats: 1, ..QUIET }, Wait::Forever);
}

#[test]
fn at_most_one_holder_under_suspension_and_crash() {
    assert_sound("suspension", Budget { ticks: 4, pauses: 1, crashes: 1, ..QUIET }, Wait::Forever);
}

#[test]
fn at_most_one_holder_with_cancelled_futures_and_deadlines() {
    let wait = Wait::Until(leasehold_proto::Moment::default() + TICK + Duration::from_millis(50));
    assert_sound("cancellation", Budget { ticks: 2, cancels: 1, losses: 1, ..QUIET }, wait);
}

#[test]
fn the_model_detects_a_clock_that_stops_in_suspend() {
    let budget = Budget { ticks: 7, pauses: 1, ..QUIET };
    assert_found("twin: clock stops in suspend", budget, Variant::ClockStopsInSuspend);
}

#[test]
fn the_model_detects_a_release_without_an_owner_check() {
    let budget = Budget { ticks: 4, acquires: 2, losses: 1, ..QUIET };
    assert_found("twin: release ignores the owner", budget, Variant::ReleaseIgnoresOwner);
}

#[test]
fn the_model_detects_an_acquire_that_overwrites() {
    assert_found("twin: acquire overwrites", QUIET, Variant::AcquireOverwrites);
}
