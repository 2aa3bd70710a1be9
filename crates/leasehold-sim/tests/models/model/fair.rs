//! The fair lock: three waiters in one queue, which leave, die, are slow and lose messages.
//!
//! The oracle is a queue of its own, derived from the executed scripts. A polling waiter joins at the end. A waiter
//! without a poll for five seconds is gone. A waiter that is granted or leaves is removed.

use std::time::Duration;

use leasehold_proto::engine::{Request, Subject, Wait};
use leasehold_proto::recipe::fair::{FAIR, GONE_AFTER};
use leasehold_proto::{Lease, Name, Owner, Reply, Verb};
use leasehold_store::embedded::SortedSet;

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take, Try};
use crate::world::{BrokenVariant, Budget, End, Ledger, QUIET, Scene, Seen, Step, Verdict, World, count};

/// A waiter is gone after two ticks without a poll.
const TICK_MS: u64 = 2_600;
/// The requests: to wait for the lock, or to try it once.
const LOCK: u8 = 0;
const ONCE: u8 = 1;

const WAITERS: &[&[Step]] =
    &[&[Take(LOCK), Give(LOCK)], &[Take(LOCK), Give(LOCK)], &[Take(LOCK), Give(LOCK)]];
const A_TRY: &[&[Step]] = &[&[Take(LOCK), Give(LOCK)], &[Take(LOCK), Give(LOCK)], &[Try(ONCE), Give(ONCE)]];

/// The waiters in order, each with the time of its last poll.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Queue(Vec<(String, u64)>);

impl Queue {
    fn purge(&mut self, now_ms: u64) {
        let gone_after = u64::try_from(GONE_AFTER.as_millis()).unwrap();
        self.0.retain(|(_, seen_ms)| seen_ms + gone_after > now_ms);
    }

    fn leave(&mut self, owner: &str) {
        self.0.retain(|(waiter, _)| waiter != owner);
    }

    fn enter(&mut self, owner: &str, now_ms: u64) {
        match self.0.iter_mut().find(|(waiter, _)| waiter == owner) {
            Some((_, seen_ms)) => *seen_ms = now_ms,
            None => self.0.push((owner.to_owned(), now_ms)),
        }
    }
}

/// Checks the queue of the server against the oracle: F1, F2, F3.
fn queue_is(world: &World<Queue>) -> Verdict {
    let server = world.server();
    let list: Vec<&[u8]> =
        server.list("redisson_lock_queue:{x}").into_iter().flatten().map(Vec::as_slice).collect();
    let expected: Vec<&[u8]> = world.ledger.0.iter().map(|(owner, _)| owner.as_bytes()).collect();
    for set in ["redisson_lock_timeout:{x}", "leasehold_lock_seen:{x}"] {
        let members = server.sorted_set(set);
        let all = members.is_none_or(|set| set.iter().all(|(member, _)| list.contains(&member)));
        if members.map_or(0, SortedSet::len) != list.len() || !all {
            return Err("F2: the list and the sets differ");
        }
    }
    if server.hash("x").into_iter().flatten().any(|(owner, _)| list.contains(&owner.as_slice())) {
        return Err("F3: the holder is queued");
    }
    if list == expected { Ok(()) } else { Err("F1: the queue is not in the order of enqueueing") }
}

impl Ledger for Queue {
    fn executed(world: &mut World<Self>, seen: &Seen) -> Verdict {
        let owner = seen.call.argument("owner").unwrap().to_owned();
        let queue = &mut world.ledger;
        queue.purge(world.now_ms);
        match (seen.call.verb(), &seen.reply) {
            (Verb::Acquire, Ok(Reply::Nil)) => {
                let was_held = seen.before.has_field("x", &owner);
                if !was_held && queue.0.first().is_some_and(|(head, _)| *head != owner) {
                    return Err("F1, F5: a waiter passed the head of the queue");
                }
                queue.leave(&owner);
            }
            (Verb::Acquire, _) if seen.call.argument("once") == Some("0") => {
                queue.enter(&owner, world.now_ms);
            }
            (Verb::Release, Ok(Reply::Nil)) => queue.leave(&owner),
            _ => {}
        }
        queue_is(world)
    }

    fn always(world: &World<Self>) -> Verdict {
        let valid: Vec<_> = [LOCK, ONCE].into_iter().flat_map(|what| world.all_valid(what)).collect();
        if valid.len() > 1 {
            return Err("L1: two holders are valid at one moment");
        }
        let kept = valid.iter().all(|(_, owner)| world.server().has_field("x", owner));
        if kept { Ok(()) } else { Err("M: a hold is valid that the server does not keep") }
    }

    fn at_end(world: &World<Self>) -> Verdict {
        if world.server().entries().is_empty() { Ok(()) } else { Err("G4: a key is left") }
    }
}

fn request(what: u8) -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), &FAIR);
    let lease = Lease::new(Duration::from_millis(2 * TICK_MS - 1)).unwrap();
    let wait = if what == ONCE { Wait::Once } else { Wait::Forever };
    Request { watchdog: false, ..Request::new(subject, Owner::from_number(7), lease, wait) }
}

fn scene(plans: &'static [&'static [Step]], budget: Budget) -> Scene {
    Scene {
        ticks_to_end: 14,
        wanted: |clients| count(clients, End::Granted) >= 2,
        ..Scene::new(plans, budget, TICK_MS, request)
    }
}

#[test]
fn grants_follow_the_order_of_enqueueing_when_waiters_leave_and_die() {
    let budget = Budget { ticks: 3, delays: 1, cancels: 1, crashes: 1, ..QUIET };
    assert_sound::<Queue>("fair, leaving", scene(WAITERS, budget));
}

#[test]
fn grants_follow_the_order_of_enqueueing_on_a_network_that_loses_and_repeats() {
    let budget = Budget { ticks: 3, delays: 1, losses: 1, repeats: 1, ..QUIET };
    assert_sound::<Queue>("fair, loss", scene(A_TRY, budget));
}

fn variant(name: &str, find: &'static str, put: &'static str, budget: Budget, rule: &str) {
    let variant = Some(BrokenVariant { find, put });
    assert_found::<Queue>(name, Scene { variant, ..scene(A_TRY, budget) }, &[rule]);
}

#[test]
fn the_model_detects_a_waiter_removed_from_the_list_only() {
    let budget = Budget { cancels: 1, ..QUIET };
    variant("twin: leaving forgets the set", "redis.call('zrem', q.timeout, owner)", "", budget, "F2");
}

#[test]
fn the_model_detects_a_try_that_bypasses_the_queue() {
    let (find, put) = ("(not head or head == owner)", "(not head or head == owner or once == 1)");
    variant("twin: a try barges", find, put, QUIET, "F1");
}

#[test]
fn the_model_detects_a_purge_of_live_waiters() {
    let (find, put) = ("q.now - GONE_AFTER, false", "q.now, false");
    variant("twin: the purge takes a living head", find, put, Budget { ticks: 1, ..QUIET }, "F1");
}
