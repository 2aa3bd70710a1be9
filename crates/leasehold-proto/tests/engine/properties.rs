//! Random walks through the world of the engine: long, with every fault at once, and then without faults until
//! everything has come to rest.

use crate::world::{Budget, Move, TICK, Twin, User, World};
use leasehold_proto::Moment;
use leasehold_proto::engine::Wait;
use proptest::prelude::*;

const STORM: Budget = Budget {
    ticks: 200,
    acquires: 12,
    cancels: 6,
    losses: 8,
    repeats: 6,
    refusals: 6,
    keeps: 2,
    varied: true,
    crashes: 1,
    pauses: 3,
    deletions: 0,
    terse: false,
};

/// Takes one of the possible moves for each choice; every fourth choice lets time go on.
fn walk(world: &mut World, choices: &[u16]) {
    for choice in choices {
        let mut moves = world.moves();
        if choice % 4 == 0 && moves.contains(&Move::Tick) {
            moves = vec![Move::Tick];
        }
        let Some(chosen) = moves.get(usize::from(*choice / 4) % moves.len().max(1)) else {
            return;
        };
        world.make(*chosen);
    }
}

/// The faults stop: everything that is on its way arrives, everybody claims and gives back, time goes on.
fn come_to_rest(world: &mut World) {
    world.end_faults();
    for _ in 0..2_000 {
        let moves = world.moves();
        let next = moves.iter().find(|chosen| !matches!(chosen, Move::Tick | Move::Acquire(..)));
        match next.or_else(|| moves.iter().find(|chosen| matches!(chosen, Move::Acquire(..)))) {
            Some(chosen) => world.make(*chosen),
            None if world.is_at_rest() => return,
            None => world.make(Move::Tick),
        }
    }
}

fn check(users: usize, wait: Wait, budget: Budget, choices: &[u16]) -> Result<(), TestCaseError> {
    let mut world = World::new(3, users, TICK * 4, wait, budget, Twin::Sound);
    walk(&mut world, choices);
    prop_assert_eq!(world.broken, None);
    come_to_rest(&mut world);
    prop_assert_eq!(world.broken, None);
    for client in &world.clients {
        prop_assert!(client.users.iter().all(|user| *user == User::Idle), "somebody waits for ever");
    }
    prop_assert!(world.is_at_rest(), "a key or a call is left");
    Ok(())
}

proptest! {
    // What fails is printed, and belongs into `scenarios`, where it can be read.
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn waiters_for_ever_are_served_and_nothing_is_left(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        check(1, Wait::Forever, STORM, &choices)?;
    }

    #[test]
    fn waiters_with_a_deadline_are_answered_and_nothing_is_left(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        check(1, Wait::Until(Moment::default() + TICK * 3), STORM, &choices)?;
    }

    #[test]
    fn those_who_ask_once_are_answered_and_nothing_is_left(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        check(1, Wait::Once, STORM, &choices)?;
    }

    #[test]
    fn owners_re_enter_and_nothing_is_left(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        check(3, Wait::Forever, STORM, &choices)?;
        check(3, Wait::Until(Moment::default() + TICK * 3), STORM, &choices)?;
        check(3, Wait::Once, STORM, &choices)?;
    }

    #[test]
    fn a_key_deleted_under_its_holder_leaves_nothing_behind(choices in prop::collection::vec(any::<u16>(), 0..600)) {
        check(1, Wait::Forever, Budget { deletions: 3, ..STORM }, &choices)?;
    }
}

// The third twin, the clock that stops in suspend, needs a rare order of events; the model check finds it.
#[test]
fn the_walks_find_a_broken_server() {
    use proptest::test_runner::{Config, TestRunner};
    for twin in [Twin::ReleaseIgnoresOwner, Twin::AcquireOverwrites] {
        let mut runner = TestRunner::new_with_rng(
            Config { cases: 2_000, failure_persistence: None, ..Config::default() },
            proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
        );
        let found = runner.run(&prop::collection::vec(any::<u16>(), 0..600), |choices| {
            let mut world = World::new(3, 1, TICK * 4, Wait::Forever, STORM, twin);
            walk(&mut world, &choices);
            prop_assert_eq!(world.broken, None);
            Ok(())
        });
        assert!(found.is_err(), "{twin:?} was not found out");
    }
}
