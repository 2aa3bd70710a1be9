//! Several locks at once: in one step, and one after the other in a common order.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Lease, Name, Owner, Verb};

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take};
use crate::world::{BrokenVariant, Budget, Ledger, QUIET, Scene, Seen, Step, Verdict, World};

const TICK_MS: u64 = 100;
/// The requests: one of two locks, or both in one step.
const A: u8 = 0;
const B: u8 = 1;
const A_AND_B: u8 = 2;
const B_AND_A: u8 = 3;

const IN_ONE_STEP: &[&[Step]] =
    &[&[Take(A_AND_B), Give(A_AND_B)], &[Take(B_AND_A), Give(B_AND_A)], &[Take(B), Give(B)]];
const IN_ORDER: &[&[Step]] = &[&[Take(A), Take(B), Give(B), Give(A)], &[Take(A), Take(B), Give(A), Give(B)]];
const UNORDERED: &[&[Step]] = &[&[Take(A), Take(B), Give(B), Give(A)], &[Take(B), Take(A), Give(A), Give(B)]];

/// The owners that have requested both locks in one step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Owners(BTreeSet<String>);

impl Ledger for Owners {
    fn executed(world: &mut World<Self>, seen: &Seen) -> Verdict {
        if seen.call.verb() == Verb::Acquire && seen.call.key_count() > 1 {
            world.ledger.0.insert(seen.call.argument("owner").unwrap().to_owned());
        }
        Ok(())
    }

    fn always(world: &World<Self>) -> Verdict {
        let server = world.server();
        let partial = |owner: &String| server.has_field("a", owner) != server.has_field("b", owner);
        if world.ledger.0.iter().any(partial) {
            return Err("M1: one lock is held without the other");
        }
        for (name, alone) in [("a", A), ("b", B)] {
            if server.hash(name).is_some_and(|fields| fields.len() != 1) {
                return Err("L2: a lock has two holders");
            }
            let valid: Vec<_> =
                [alone, A_AND_B, B_AND_A].into_iter().flat_map(|what| world.all_valid(what)).collect();
            if valid.len() > 1 {
                return Err("L1: two holders are valid at one moment");
            }
            if !valid.iter().all(|(_, owner)| server.has_field(name, owner)) {
                return Err("M: a hold is valid that the server does not keep");
            }
        }
        Ok(())
    }

    fn at_end(world: &World<Self>) -> Verdict {
        if world.server().entries().is_empty() { Ok(()) } else { Err("M2: a lock is left") }
    }
}

fn request(what: u8) -> Request {
    let [a, b] = ["a", "b"].map(|name| Name::new(name).unwrap());
    let both = |name: &Name, other: Name| Subject { others: [other].into(), ..Subject::new(name, &MULTI) };
    let subject = match what {
        A => Subject::new(&a, &REENTRANT),
        B => Subject::new(&b, &REENTRANT),
        A_AND_B => both(&a, b),
        _ => both(&b, a),
    };
    let lease = Lease::new(Duration::from_millis(2 * TICK_MS - 1)).unwrap();
    Request { watchdog: false, ..Request::new(subject, Owner::from_number(7), lease, Wait::Forever) }
}

/// A request with a lease longer than the run, so only a release frees the lock.
fn long(what: u8) -> Request {
    Request { lease: Lease::new(Duration::from_millis(90 * TICK_MS)).unwrap(), ..request(what) }
}

fn scene(plans: &'static [&'static [Step]], request: fn(u8) -> Request, budget: Budget) -> Scene {
    Scene { ticks_to_end: 12, ..Scene::new(plans, budget, TICK_MS, request) }
}

#[test]
fn one_step_acquires_both_or_none() {
    let budget = Budget { ticks: 3, delays: 1, losses: 1, repeats: 1, ..QUIET };
    assert_sound::<Owners>("multi-lock, one step", scene(IN_ONE_STEP, request, budget));
}

#[test]
fn ordered_acquires_never_deadlock_and_leave_nothing() {
    let budget = Budget { ticks: 3, delays: 1, losses: 2, cancels: 1, ..QUIET };
    assert_sound::<Owners>("multi-lock, in order", scene(IN_ORDER, long, budget));
}

#[test]
fn the_model_detects_unordered_acquires() {
    assert_found::<Owners>("twin: unordered", scene(UNORDERED, long, QUIET), &["L"]);
}

#[test]
fn the_model_detects_one_step_that_takes_a_held_lock() {
    let variant = Some(BrokenVariant { find: "if taken then return longest end", put: "" });
    let scene = Scene { variant, ..scene(IN_ONE_STEP, request, QUIET) };
    assert_found::<Owners>("twin: one step takes what is held", scene, &["L2"]);
}
