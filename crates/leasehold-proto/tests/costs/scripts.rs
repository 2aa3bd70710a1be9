//! The scripts that the engine sends, and the round trips that it needs.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Request, Wait};
use leasehold_proto::recipe::read_write::READ_LOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::{Recipe, Reply, Verb};

use crate::harness::{Harness, after, grant, refusal, request, subject};

const WAITERS: u64 = 1_000;
/// A time that is over before a waiter polls.
const SHORT: Duration = Duration::from_millis(500);
/// The most round trips until 100 waiters hold what has room for all of them: attempts double with each grant.
const ROUND_TRIPS_MAX: usize = 9;

/// Returns a harness with waiters of a lock that another client holds.
fn waiting(wait: Wait) -> (Harness, Vec<Id>) {
    let lock = subject("lock", &REENTRANT);
    let mut harness = Harness::new(WAITERS as usize);
    let ids = harness.refuse(WAITERS, |owner| Request { wait, ..request(&lock, owner) });
    assert_eq!(harness.woken.len(), 0, "all of them wait");
    harness.reset();
    (harness, ids)
}

/// Claims every outcome, and answers every call.
fn settle(harness: &mut Harness) -> usize {
    let mut claimed = 0;
    loop {
        harness.answer_all(refusal);
        let Some(id) = harness.woken.pop_front() else { return claimed };
        harness.step(Event::Claim(id));
        claimed += 1;
    }
}

#[test]
fn a_close_sends_no_script_for_its_waiters() {
    let (mut harness, _) = waiting(Wait::Forever);
    let close = harness.id();
    harness.step(Event::Close(close));
    assert_eq!(settle(&mut harness) as u64, WAITERS + 1, "each waiter and the close are over");
    println!("a close of {WAITERS} waiters: {} scripts", harness.count.scripts);
    assert_eq!(harness.count.scripts, 0);
}

#[test]
fn deadlines_of_one_moment_send_no_script() {
    let (mut harness, _) = waiting(Wait::Until(after(SHORT)));
    harness.pass(SHORT);
    while harness.is_due() {
        harness.step(Event::Tick);
    }
    assert_eq!(settle(&mut harness) as u64, WAITERS, "each deadline ends its waiter");
    println!("{WAITERS} deadlines: {} scripts", harness.count.scripts);
    assert_eq!(harness.count.scripts, 0);
}

#[test]
fn cancelled_waiters_send_no_script() {
    let (mut harness, ids) = waiting(Wait::Forever);
    for id in ids {
        harness.step(Event::Cancel(id));
    }
    settle(&mut harness);
    println!("{WAITERS} cancelled waiters: {} scripts", harness.count.scripts);
    assert_eq!(harness.count.scripts, 0);
}

/// Returns the round trips until this many waiters hold a name that has room for all of them.
fn round_trips(recipe: &'static Recipe, waiters: u64, reply: fn(Verb) -> Reply) -> usize {
    let name = subject("name", recipe);
    let mut harness = Harness::new(waiters as usize);
    for owner in 0..waiters {
        harness.acquire(request(&name, owner));
    }
    let (mut trips, mut held) = (0, 0);
    while held < waiters {
        assert!(harness.round_trip(reply) > 0, "{held} of {waiters} hold it, and no call is out");
        trips += 1;
        while let Some(id) = harness.woken.pop_front() {
            harness.claim(id);
            held += 1;
        }
    }
    trips
}

#[test]
fn permits_for_all_waiters_are_taken_in_few_round_trips() {
    let give = |_| Reply::Int(1);
    for waiters in [10, 1_000] {
        println!("permits for {waiters} waiters: {} round trips", round_trips(&SEMAPHORE, waiters, give));
    }
    let trips = round_trips(&SEMAPHORE, 100, give);
    println!("permits for 100 waiters: {trips} round trips");
    assert!(trips <= ROUND_TRIPS_MAX, "{trips} round trips");
}

#[test]
fn readers_of_a_lock_that_no_writer_wants_enter_in_few_round_trips() {
    for waiters in [10, 1_000] {
        println!("{waiters} readers: {} round trips", round_trips(&READ_LOCK, waiters, grant));
    }
    let trips = round_trips(&READ_LOCK, 100, grant);
    println!("100 readers: {trips} round trips");
    assert!(trips <= ROUND_TRIPS_MAX, "{trips} round trips");
}
