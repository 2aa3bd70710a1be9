//! The count-down latch. A count-down is no hold and has no owner, and a wait ends only at zero.

use std::collections::BTreeMap;

use leasehold_proto::engine::{AcquireFailure, Id, Outcome, Request, Subject, Wait};
use leasehold_proto::marker::Operation;
use leasehold_proto::recipe::latch::{LATCH, count_down, try_set};
use leasehold_proto::{Call, Engine, Lease, Moment, Name, Owner, Verb};

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Do, Take};
use crate::world::{
    BrokenVariant, Budget, End, Ledger, QUIET, START_MS, Scene, Seen, Step, Verdict, World, count,
};

const TICK_MS: u64 = 100;
const COUNT_DOWN: u8 = 0;
const SET: u8 = 1;
const OPEN: u8 = 2;

/// Two clients count down, and one of them tries to set the count while it is set. The third client waits.
const PLANS: &[&[Step]] = &[&[Do(COUNT_DOWN)], &[Do(SET), Do(COUNT_DOWN)], &[Take(OPEN)]];

/// One client opens the latch and sets it again at once. The other client waits.
const SET_AGAIN: &[&[Step]] = &[&[Do(COUNT_DOWN), Do(COUNT_DOWN), Do(SET)], &[Take(OPEN)]];

/// The observations so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Counts {
    /// The number of times that each operation has changed the count.
    applied: BTreeMap<String, u8>,
    /// True if the count was zero once.
    opened: bool,
    /// True if a late request set the count again after that.
    set_again: bool,
}

impl Ledger for Counts {
    fn executed(world: &mut World<Self>, seen: &Seen) -> Verdict {
        let (before, after) = (seen.before.number("x"), world.server().number("x"));
        let counts = &mut world.ledger;
        counts.opened |= after.is_none();
        if before == after {
            return Ok(());
        }
        if after > before && before.is_some() {
            return Err("K1: the count rises while it is set");
        }
        counts.set_again |= after > before;
        if seen.call.verb() != Verb::Adjust {
            return Err("K1: looking changes the count");
        }
        let done = seen.call.keys().last().unwrap().to_string();
        let applied = counts.applied.entry(done).or_default();
        *applied += 1;
        if *applied == 1 { Ok(()) } else { Err("K2: an operation is applied twice") }
    }

    fn completed(world: &mut World<Self>, _client: usize, what: u8, outcome: &Outcome) -> Verdict {
        match outcome {
            Outcome::Acquired(Ok(_)) if what == OPEN && !world.ledger.opened => {
                Err("K3: a wait ended though the count was never zero")
            }
            Outcome::Acquired(Err(AcquireFailure::Deleted)) => Err("E: no client has deleted it"),
            _ => Ok(()),
        }
    }

    fn always(_world: &World<Self>) -> Verdict {
        Ok(())
    }

    fn at_end(world: &World<Self>) -> Verdict {
        let counts = &world.ledger;
        let told: usize = world.clients[..2]
            .iter()
            .map(|client| client.ended(COUNT_DOWN, End::Done))
            .map(usize::from)
            .sum();
        if told > counts.applied.len() {
            return Err("E: a count-down was told that did not happen");
        }
        let refused = world.clients[2].ended(OPEN, End::Refused);
        if refused && counts.applied.len() == 2 && !counts.set_again {
            return Err("K4: a client waits though the count is zero");
        }
        Ok(())
    }
}

/// The observations of a latch that is set again at once, in a network that loses no call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rounds {
    /// True if the waiter was refused in the first round.
    refused: bool,
    opened: bool,
}

impl Ledger for Rounds {
    fn executed(world: &mut World<Self>, seen: &Seen) -> Verdict {
        let is_closed = world.server().number("x").is_some();
        let rounds = &mut world.ledger;
        rounds.opened |= !is_closed;
        rounds.refused |= seen.call.verb() == Verb::Inspect && !rounds.opened;
        Ok(())
    }

    fn completed(world: &mut World<Self>, _client: usize, what: u8, outcome: &Outcome) -> Verdict {
        match outcome {
            Outcome::Acquired(Ok(_)) if what == OPEN && !world.ledger.opened => {
                Err("K3: a wait ended though the count was never zero")
            }
            _ => Ok(()),
        }
    }

    fn always(_world: &World<Self>) -> Verdict {
        Ok(())
    }

    fn at_end(world: &World<Self>) -> Verdict {
        let Rounds { refused, opened } = world.ledger;
        if refused && opened && !world.clients[1].ended(OPEN, End::Granted) {
            return Err("K4: a waiter outlives the zero of its round");
        }
        Ok(())
    }
}

fn request(_what: u8) -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), &LATCH);
    let lease = Lease::clamped(std::time::Duration::from_secs(30));
    let deadline = Moment::from_millis(START_MS + 9 * TICK_MS);
    Request::new(subject, Owner::from_number(7), lease, Wait::Until(deadline))
}

fn operation(engine: &Engine, id: Id, what: u8) -> Call {
    let name = Name::new("x").unwrap();
    let operation = Operation::new(engine.client(), id, engine.settings());
    match what {
        SET => try_set(&name, &operation, 3),
        _ => count_down(&name, &operation),
    }
}

fn scene(budget: Budget) -> Scene {
    Scene {
        operation,
        before: &[&["SET", "x", "2"]],
        ticks_to_end: 12,
        wanted: |clients| count(clients, End::Granted) == 1 && count(clients, End::Done) == 3,
        ..Scene::new(PLANS, budget, TICK_MS, request)
    }
}

#[test]
fn every_count_down_counts_once_and_waiting_ends_at_zero() {
    let budget = Budget { ticks: 2, delays: 1, losses: 2, repeats: 1, cancels: 1, ..QUIET };
    assert_sound::<Counts>("latch", scene(budget));
}

fn set_again(variant: Option<BrokenVariant>) -> Scene {
    let budget = Budget { ticks: 3, delays: 2, ..QUIET };
    let wanted = |clients: &[_]| count(clients, End::Granted) == 1 && count(clients, End::Done) == 3;
    Scene { plans: SET_AGAIN, variant, wanted, ..scene(budget) }
}

#[test]
fn a_waiter_ends_with_its_round_though_the_latch_is_set_again_at_once() {
    assert_sound::<Rounds>("latch, set again", set_again(None));
}

#[test]
fn the_model_detects_a_round_that_ends_without_a_note() {
    let variant = Some(BrokenVariant { find: "redis.call('set', note, noted, 'PX', note_ms)", put: "" });
    assert_found::<Rounds>("twin: no note of a round", set_again(variant), &["K4"]);
}

#[test]
fn the_model_detects_a_count_down_without_a_marker() {
    let variant = Some(BrokenVariant { find: "redis.call('set', done, left, 'PX', done_ms)", put: "" });
    let scene = Scene { variant, ..scene(Budget { ticks: 1, losses: 1, ..QUIET }) };
    assert_found::<Counts>("twin: the marker is omitted", scene, &["K2"]);
}

#[test]
fn the_model_detects_a_wait_that_ends_at_any_count() {
    let variant = Some(BrokenVariant { find: "return { count,", put: "return { 0," });
    assert_found::<Counts>("twin: waiting ends at any count", Scene { variant, ..scene(QUIET) }, &["K3"]);
}
