//! A model check of the reentrant lock over the real `Engine::step`: two clients, renewal, lost and repeated messages,
//! suspended and crashed processes. The check must find the fault of each broken variant.

use std::time::Duration;

use crate::world::{Budget, Move, TICK, Variant, World};
use leasehold_proto::engine::Wait;
use stateright::{Checker, HasDiscoveries, Model, Property};

struct LockModel {
    clients: usize,
    /// The users of each client.
    users: usize,
    budget: Budget,
    lease: Duration,
    wait: Wait,
    variant: Variant,
}

impl Model for LockModel {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.clients, self.users, self.lease, self.wait, self.budget, self.variant)]
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
            Property::sometimes("a hold has passed on", |_, world: &World| {
                world.clients.iter().any(|client| client.passing.passed > 0)
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
    bounded: false,
    passes_for: 1,
    crashes: 0,
    pauses: 0,
    deletions: 0,
    plain: false,
    terse: true,
};

/// The number of states at which a model that is too large is cut off.
const STATES_MAX: usize = 40_000_000;

/// Explores every order of events, prints the number of states, and returns the events that break a rule, if any do.
fn check(
    name: &str,
    (clients, users): (usize, usize),
    budget: Budget,
    wait: Wait,
    variant: Variant,
) -> Option<(&'static str, Vec<Move>)> {
    let model = LockModel { clients, users, budget, lease: TICK * 2, wait, variant };
    let checker = model.checker().threads(2).target_state_count(STATES_MAX);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    println!("{name}: {} states, {} of them different", checker.state_count(), checker.unique_state_count());
    if variant == Variant::Sound {
        assert!(checker.state_count() < STATES_MAX, "{name} was cut off before every order was tried");
        checker.assert_any_discovery("both clients have held");
        if users > 1 {
            checker.assert_any_discovery("a hold has passed on");
        }
    }
    let path = checker.discovery("M, L1, G5, D3: no rule is broken")?;
    let rule = path.last_state().broken.unwrap_or_default();
    println!("{name}: {rule}");
    Some((rule, path.into_actions()))
}

fn assert_sound(name: &str, budget: Budget, wait: Wait) {
    let broken = check(name, (2, 1), budget, wait, Variant::Sound);
    assert_eq!(broken, None, "{name}: this order of events breaks a rule");
}

fn assert_found(name: &str, budget: Budget, variant: Variant) {
    let found = check(name, (2, 1), budget, Wait::Forever, variant);
    println!("{name}: broken by {found:?}");
    assert!(found.is_some(), "{name}: the broken twin was not found out");
}

#[test]
fn at_most_one_holder_under_loss_and_repetition() {
    assert_sound("loss", Budget { ticks: 2, losses: 1, repeats: 1, ..QUIET }, Wait::Forever);
}

#[test]
fn deep_at_most_one_holder_under_suspension() {
    assert_sound("suspension", Budget { ticks: 4, pauses: 1, ..QUIET }, Wait::Forever);
}

#[test]
fn at_most_one_holder_under_crash() {
    assert_sound("crash", Budget { ticks: 4, crashes: 1, ..QUIET }, Wait::Forever);
}

#[test]
fn deep_at_most_one_holder_under_suspension_and_crash() {
    assert_sound("suspension and crash", Budget { ticks: 4, pauses: 1, crashes: 1, ..QUIET }, Wait::Forever);
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

/// Several owners in each client, and a hold that passes from one to the next.
const HAND_OFF: Budget = Budget { owners: 2, acquires: 2, ..QUIET };

fn assert_hands_off(name: &str, clients: usize, budget: Budget) {
    let broken = check(name, (clients, 2), budget, Wait::Forever, Variant::Sound);
    assert_eq!(broken, None, "{name}: this order of events breaks a rule");
}

/// Asserts that a twin breaks a rule. The rule has these words.
fn assert_hand_off_found(name: &str, budget: Budget, variant: Variant, rule: &str) {
    let (broken, path) = check(name, (2, 2), budget, Wait::Forever, variant).expect("the twin is found out");
    println!("{name}: broken by {path:?}");
    assert!(broken.contains(rule), "{name}: {broken}");
}

#[test]
fn a_hold_that_passes_on_has_one_owner_at_a_time() {
    assert_hands_off("hand-off: time", 2, Budget { ticks: 1, ..HAND_OFF });
}

#[test]
fn a_hold_passes_on_only_to_a_waiter_that_it_fits() {
    assert_hands_off("hand-off: loss", 2, Budget { losses: 1, ..HAND_OFF });
    assert_hands_off("hand-off: left", 2, Budget { cancels: 1, bounded: true, ..HAND_OFF });
    assert_hands_off("hand-off: lost", 1, Budget { ticks: 2, deletions: 1, passes_for: 3, ..HAND_OFF });
}

#[test]
fn a_hold_that_asks_whether_others_listen_passes_on_within_its_bound() {
    let budget = Budget { ticks: 3, acquires: 2, deletions: 1, passes_for: 2, ..HAND_OFF };
    assert_hands_off("hand-off: question", 1, budget);
}

#[test]
fn the_model_detects_a_hand_off_without_a_bound() {
    let budget = Budget { ticks: 2, passes_for: 1, ..HAND_OFF };
    assert_hand_off_found("twin: no bound", budget, Variant::HandsOffForever, "after its bound");
}

#[test]
fn the_model_detects_a_hand_off_with_a_stale_validity() {
    let budget = Budget { ticks: 1, pauses: 1, ..HAND_OFF };
    assert_hand_off_found("twin: stale validity", budget, Variant::ClockStopsInSuspend, "a stale validity");
}

#[test]
fn the_model_detects_a_hand_off_to_a_waiter_that_left() {
    let budget = Budget { cancels: 1, ..HAND_OFF };
    assert_hand_off_found("twin: left", budget, Variant::LeavesUnseen, "a waiter that has left");
}

#[test]
fn the_model_detects_a_hand_off_of_a_lost_hold() {
    let budget = Budget { ticks: 1, deletions: 1, passes_for: 3, ..HAND_OFF };
    assert_hand_off_found("twin: lost", budget, Variant::RenewsWhatIsGone, "a lost hold");
}

#[test]
fn the_model_detects_a_hand_off_past_the_longest_hold() {
    let budget = Budget { bounded: true, ..HAND_OFF };
    assert_hand_off_found("twin: past max_hold", budget, Variant::ForgetsMaxHold, "past the longest hold");
}
