//! The semaphore, a counter without absolute writes, so a call that arrives twice could count twice.
//!
//! A request that was lost may still arrive. An executed request does not arrive again, because its connection is a
//! stream, and the markers rely on that.

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::recipe::Recipe;
use leasehold_proto::recipe::semaphore::{FIFO_SEMAPHORE, SEMAPHORE};
use leasehold_proto::{Lease, Name, Owner};

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take};
use crate::world::{BrokenVariant, Budget, End, Ledger, Repeats, Scene, Seen, Step, Verdict, World, count};

const TICK_MS: u64 = 2_600;
/// The requests.
const ONE: u8 = 0;
const BOTH: u8 = 1;
const ONE_IN_ORDER: u8 = 2;
const BOTH_IN_ORDER: u8 = 3;
/// The total of permits.
const PERMITS: i64 = 2;

const PLANS: &[&[Step]] = &[&[Take(BOTH), Give(BOTH)], &[Take(ONE), Give(ONE)]];
const IN_ORDER: &[&[Step]] =
    &[&[Take(BOTH_IN_ORDER), Give(BOTH_IN_ORDER)], &[Take(ONE_IN_ORDER), Give(ONE_IN_ORDER)]];

fn units(what: u8) -> u32 {
    if matches!(what, BOTH | BOTH_IN_ORDER) { 2 } else { 1 }
}

fn left(world: &World<Rules>) -> i64 {
    world.server().number("x").unwrap_or_default()
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rules;

impl Ledger for Rules {
    fn executed(world: &mut World<Self>, _seen: &Seen) -> Verdict {
        if left(world) < 0 {
            return Err("S1: there are fewer permits than none");
        }
        if left(world) > PERMITS { Err("S4: more was given back than taken") } else { Ok(()) }
    }

    fn always(world: &World<Self>) -> Verdict {
        let held = |what| world.all_valid(what).len() * usize::try_from(units(what)).unwrap();
        let held: usize = [ONE, BOTH, ONE_IN_ORDER, BOTH_IN_ORDER].into_iter().map(held).sum();
        if i64::try_from(held).unwrap() + left(world) > PERMITS {
            return Err("S2, S3: more permits are held and left than there are");
        }
        Ok(())
    }

    fn at_end(world: &World<Self>) -> Verdict {
        if left(world) != PERMITS {
            return Err("S2: what is left is not what there is");
        }
        let waits = |key: &[u8]| key.starts_with(b"leasehold_sc_");
        let queued = world.server().entries().iter().any(|entry| waits(&entry.key));
        if queued { Err("G4: a queue is left") } else { Ok(()) }
    }
}

fn request(what: u8) -> Request {
    let recipe: &'static Recipe = if matches!(what, ONE | BOTH) { &SEMAPHORE } else { &FIFO_SEMAPHORE };
    let subject = Subject::new(&Name::new("x").unwrap(), recipe);
    // A permit of a semaphore has no expiry of its own.
    let lease = Lease::clamped(std::time::Duration::from_secs(30));
    let request = Request::new(subject, Owner::from_number(7), lease, Wait::Forever);
    Request { watchdog: false, units: units(what), ..request }
}

fn scene(plans: &'static [&'static [Step]], budget: Budget) -> Scene {
    Scene {
        repeats: Repeats::Late,
        before: &[&["SET", "x", "2"]],
        wanted: |clients| count(clients, End::Granted) == 2,
        ..Scene::new(plans, budget, TICK_MS, request)
    }
}

const FAULTS: Budget =
    Budget { ticks: 3, delays: 2, losses: 2, repeats: 2, cancels: 1, crashes: 0, breaks: 0 };

#[test]
fn every_permit_is_acquired_and_released_once() {
    assert_sound::<Rules>("semaphore", scene(PLANS, FAULTS));
}

#[test]
fn every_permit_is_acquired_and_released_once_in_fifo_order() {
    assert_sound::<Rules>("semaphore, in order", scene(IN_ORDER, FAULTS));
}

/// A missing permit shows up as a waiter that is never served (L), or as a wrong count (S).
#[test]
fn the_model_detects_an_acquire_without_a_marker() {
    let find = "redis.call('set', marker, uncertain == 1 and -permits or permits, 'PX', lifetime)";
    let scene = Scene {
        variant: Some(BrokenVariant { find, put: "" }),
        ..scene(PLANS, Budget { losses: 1, ..FAULTS })
    };
    assert_found::<Rules>("twin: the marker is omitted", scene, &["L", "S"]);
}

#[test]
fn the_model_detects_a_release_that_ignores_late_calls() {
    let variant = Some(BrokenVariant {
        find: "if uncertain == 1 or (taken and taken <= 0) then",
        put: "if false then",
    });
    let scene = Scene { variant, ..scene(PLANS, FAULTS) };
    assert_found::<Rules>("twin: the release forgets the marker", scene, &["L", "S4"]);
}
