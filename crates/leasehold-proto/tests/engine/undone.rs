//! Tests of undone acquires that a server that takes over may bring back.

use leasehold_proto::engine::{Event, Id, Request, Subject, Wait};
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::{Call, Moment, Name, Reply, Scope, Verb};

use crate::harness::{Harness, millis, next_timer, request, unknown};

/// The lease of the acquires, in milliseconds.
const LEASE: u64 = 30_000;

fn once(owner: u64) -> Request {
    Request { wait: Wait::Once, ..request(owner, LEASE) }
}

fn permits() -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), &SEMAPHORE);
    Request { subject, units: 2, ..once(1) }
}

/// Makes an acquire of unknown outcome at 0, whose undo is answered at 2. Returns the undo.
fn undone(harness: &mut Harness, id: u64, request: Request) -> Call {
    harness.step(0, Event::Acquire(Id(id), request));
    harness.answer(1, unknown(Verb::Acquire));
    harness.step(1, Event::Claim(Id(id)));
    harness.answer(2, Ok(Reply::Int(1)))
}

fn replaced(harness: &mut Harness, at: u64) -> Vec<Call> {
    harness.step(at, Event::Replaced(Scope::All));
    harness.sent.iter().map(|(_, call)| call.clone()).collect()
}

#[test]
fn an_undone_acquire_is_undone_again_at_each_server_that_takes_over_within_its_lease() {
    let mut harness = Harness::new();
    let undo = undone(&mut harness, 1, once(1));
    for at in [10, 10_000, 20_000] {
        assert_eq!(replaced(&mut harness, at), std::slice::from_ref(&undo), "at {at} ms");
        harness.answer(at + 1, Ok(Reply::Int(0)));
    }
    harness.step(LEASE + 2_000, Event::Tick);
    assert_eq!(replaced(&mut harness, LEASE + 2_000), [], "the lease has ended whatever came back");
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
}

#[test]
fn a_repeated_undo_is_tried_until_the_lease_ends() {
    let mut harness = Harness::new();
    undone(&mut harness, 1, once(1));
    assert_eq!(replaced(&mut harness, 10).len(), 1);
    let mut last = 10;
    while !harness.sent.is_empty() {
        let at = last + 1;
        harness.answer(at, unknown(Verb::Release));
        let next = next_timer(&mut harness.engine);
        if next == Moment::NEVER {
            break;
        }
        last = millis(next);
        harness.step(last, Event::Tick);
    }
    assert!((LEASE - 5_000..LEASE + 5_000).contains(&last), "the last try or the end was at {last} ms");
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
    assert_eq!(replaced(&mut harness, 2 * LEASE), []);
}

#[test]
fn an_undo_that_went_to_the_server_before_is_sent_again() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), once(1)));
    harness.answer(1, unknown(Verb::Acquire));
    let sent = replaced(&mut harness, 2);
    assert_eq!(sent.len(), 1, "one undo is on its way at a time");
    let before = harness.answer(3, Ok(Reply::Int(1)));
    assert_eq!(harness.sent.len(), 1);
    assert_eq!(harness.answer(4, Ok(Reply::Int(0))), before);
    assert_eq!(harness.sent.len(), 0, "no further replacement");
}

#[test]
fn a_replacement_repeats_the_undo_of_unknown_acquires_alone() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, LEASE));
    harness.release(5, 1, 9);
    harness.answer(6, Ok(Reply::Int(1)));
    assert_eq!(replaced(&mut harness, 10), [], "a release");
    harness.step(11, Event::Acquire(Id(2), request(2, LEASE)));
    harness.step(11, Event::Cancel(Id(2)));
    harness.answer(12, Ok(Reply::Nil));
    assert_eq!(harness.answer(13, Ok(Reply::Int(1))).verb(), Verb::Release);
    assert_eq!(replaced(&mut harness, 20), [], "a grant that no caller took");
}

#[test]
fn permits_are_undone_again_for_the_hour_of_their_marker_and_with_doubt() {
    const MINUTE: u64 = 60_000;
    let mut harness = Harness::new();
    let undo = undone(&mut harness, 1, permits());
    let doubts = |call: &Call| ["expired", "uncertain"].map(|name| call.argument(name).map(str::to_owned));
    assert_eq!(doubts(&undo), [Some("0".to_owned()), Some("1".to_owned())]);
    for at in [MINUTE, 59 * MINUTE] {
        assert_eq!(replaced(&mut harness, at), std::slice::from_ref(&undo));
        harness.answer(at + 1, Ok(Reply::Int(0)));
    }
    harness.step(60 * MINUTE + 2, Event::Tick);
    assert_eq!(replaced(&mut harness, 60 * MINUTE + 3), [], "a repetition does not prolong the time");
}

#[test]
fn a_closed_client_keeps_no_undone_acquire() {
    let mut harness = Harness::new();
    undone(&mut harness, 1, once(1));
    harness.step(10, Event::Close(Id(9)));
    assert!(harness.engine.is_finished(), "nothing is left to do");
    assert_eq!(replaced(&mut harness, 11), []);
}

#[test]
fn the_undone_acquires_that_are_kept_have_a_bound() {
    const MOST: u64 = 10_000;
    let mut harness = Harness::new();
    for id in 1..=MOST + 5 {
        undone(&mut harness, id, once(id));
    }
    let mut again = replaced(&mut harness, 10).len() as u64;
    harness.sent.clear();
    for at in 11..600 {
        harness.step(at, Event::Tick);
        again += harness.sent.drain(..).len() as u64;
    }
    assert_eq!(again, MOST);
}

#[test]
fn the_time_of_permits_is_that_of_the_script() {
    let script = include_str!("../../scripts/semaphore/marker.lua");
    assert!(script.contains("local MARKER_MS = 3600000"), "the test above and the engine count an hour");
}
