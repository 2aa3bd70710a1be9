//! The expirable semaphore: permits with an id each, which expire by themselves.

use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::recipe::expirable::EXPIRABLE_SEMAPHORE;
use leasehold_proto::{Lease, Name, Owner};
use leasehold_store::embedded::SortedSet;

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take};
use crate::world::{BrokenVariant, Budget, End, Ledger, QUIET, Scene, Seen, Step, Verdict, World, count};

const TICK_MS: u64 = 100;
const PERMIT: u8 = 0;
/// The total of permits.
const PERMITS: i64 = 1;

const PLANS: &[&[Step]] = &[&[Take(PERMIT), Give(PERMIT)], &[Take(PERMIT), Give(PERMIT)]];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rules;

impl Ledger for Rules {
    /// An expired permit that was not reclaimed yet is still in the set.
    fn executed(world: &mut World<Self>, _seen: &Seen) -> Verdict {
        let left = world.server().number("x").unwrap_or_default();
        let taken = world.server().sorted_set("{x}:timeout").map_or(0, SortedSet::len);
        if left + i64::try_from(taken).unwrap() == PERMITS {
            Ok(())
        } else {
            Err("P1, P3, P4: what is left and what is taken are not what there is")
        }
    }

    fn always(world: &World<Self>) -> Verdict {
        let held = world.all_valid(PERMIT).len();
        let now_ms = world.now_ms;
        let lives = |ends: f64| ends > f64::from(u32::try_from(now_ms).unwrap());
        let ids = world.server().sorted_set("{x}:timeout");
        let taken = ids.map_or(0, |ids| ids.iter().filter(|(_, ends)| lives(*ends)).count());
        if i64::try_from(held).unwrap() > PERMITS {
            return Err("S3: more hold permits than there are");
        }
        if held > taken { Err("M: a permit is valid that has ended on the server") } else { Ok(()) }
    }

    fn at_end(world: &World<Self>) -> Verdict {
        let ids = world.server().sorted_set("{x}:timeout");
        let now_ms = f64::from(u32::try_from(world.now_ms).unwrap());
        let taken = ids.is_some_and(|ids| ids.iter().any(|(_, ends)| ends > now_ms));
        if taken { Err("G4: a permit is acquired that no client holds") } else { Ok(()) }
    }
}

fn request(_what: u8) -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), &EXPIRABLE_SEMAPHORE);
    let lease = Lease::new(Duration::from_millis(2 * TICK_MS - 1)).unwrap();
    Request { watchdog: false, ..Request::new(subject, Owner::from_number(7), lease, Wait::Forever) }
}

fn scene(budget: Budget) -> Scene {
    Scene {
        before: &[&["SET", "x", "1"]],
        wanted: |clients| count(clients, End::Granted) == 2,
        ..Scene::new(PLANS, budget, TICK_MS, request)
    }
}

const FAULTS: Budget =
    Budget { ticks: 4, delays: 1, losses: 1, repeats: 1, cancels: 1, crashes: 1, breaks: 0 };

#[test]
fn expired_permits_are_counted_once() {
    assert_sound::<Rules>("expirable semaphore", scene(FAULTS));
}

#[test]
fn the_model_detects_a_release_without_an_id_check() {
    let variant = Some(BrokenVariant {
        find: "if ends then taken[#taken + 1] = id end",
        put: "taken[#taken + 1] = id",
    });
    let scene = Scene { variant, ..scene(Budget { ticks: 3, losses: 1, ..QUIET }) };
    assert_found::<Rules>("twin: a release does not look for the id", scene, &["P"]);
}
