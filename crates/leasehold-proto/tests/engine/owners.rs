//! Tests of acquires of one owner that wait at the same time and end in one hold with a count.

use leasehold_proto::engine::{AcquireFailure, Event, Id, Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::{Name, Recipe, Reply, Verb};

use crate::harness::{Harness, ms, request};

fn once(request: Request) -> Request {
    Request { wait: Wait::Once, ..request }
}

fn of(recipe: &'static Recipe, request: Request) -> Request {
    Request { subject: Subject::new(&Name::new("x").unwrap(), recipe), ..request }
}

fn is_granted(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Acquired(Ok(_))))
}

#[test]
fn a_non_reentrant_lock_is_not_re_entered_from_the_queue() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(2, 30_000));
    for id in [2, 3] {
        harness.step(10, Event::Acquire(Id(id), Request { reenters: false, ..request(1, 30_000) }));
    }
    harness.release(20, 1, 9);
    harness.answer(21, Ok(Reply::Int(1)));
    assert_eq!(harness.answer(22, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(is_granted(harness.claim(22, 2).as_ref()));
    let second = harness.claim(22, 3);
    assert_eq!(second, Some(Outcome::Acquired(Err(AcquireFailure::AlreadyHeld))));
    assert!(harness.sent.is_empty(), "the hold stays as it is: {:?}", harness.sent);
}

#[test]
fn two_attempts_of_one_owner_share_one_server_hold() {
    let mut harness = Harness::new();
    for id in [1, 2] {
        harness.step(0, Event::Acquire(Id(id), of(&READ_LOCK, once(request(1, 30_000)))));
    }
    assert_eq!(harness.sent.len(), 2, "both ask at once");
    let first = harness.answer(1, Ok(Reply::Nil));
    let second = harness.answer(2, Ok(Reply::Nil));
    let entered = harness.answer(3, Ok(Reply::Int(1)));
    assert_eq!((entered.verb(), entered.argument("count")), (Verb::Renew, Some("2")));
    assert_eq!(entered.argument("owner"), first.argument("owner"));
    let undone = harness.answer(4, Ok(Reply::Int(0)));
    assert_eq!((undone.verb(), undone.argument("remaining")), (Verb::Release, Some("0")));
    assert_eq!(undone.argument("owner"), second.argument("owner"));
    for id in [1, 2] {
        assert!(is_granted(harness.claim(5, id).as_ref()), "{id}");
    }
    assert_eq!(harness.engine.wire_owner(Id(1)), harness.engine.wire_owner(Id(2)));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_writer_behind_its_owners_two_reads_gets_the_deadlock_error() {
    let mut harness = Harness::new();
    for id in [1, 2] {
        harness.step(0, Event::Acquire(Id(id), of(&READ_LOCK, once(request(1, 30_000)))));
    }
    while let Some((_, call)) = harness.sent.first() {
        let reply = if call.verb() == Verb::Acquire { Reply::Nil } else { Reply::Int(1) };
        harness.answer(1, Ok(reply));
    }
    harness.claim(2, 1);
    harness.claim(2, 2);
    harness.release(3, 2, 9);
    harness.answer(4, Ok(Reply::Int(0)));
    assert!(harness.engine.is_held(Id(1), ms(4)));
    harness.step(5, Event::Acquire(Id(3), of(&WRITE_LOCK, request(1, 30_000))));
    assert_eq!(harness.claim(5, 3), Some(Outcome::Acquired(Err(AcquireFailure::Deadlock))));
}

#[test]
fn an_attempt_is_not_rejected_because_of_its_own_owners_hold() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.step(0, Event::Acquire(Id(2), once(request(1, 30_000))));
    harness.answer(1, Ok(Reply::Nil));
    harness.answer(2, Ok(Reply::Int(29_999)));
    assert_eq!(harness.answer(3, Ok(Reply::Int(1))).argument("count"), Some("2"));
    assert!(is_granted(harness.claim(4, 1).as_ref()));
    assert!(is_granted(harness.claim(4, 2).as_ref()));
}

#[test]
fn a_non_reentrant_attempt_fails_when_its_owner_acquires_the_lock() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.step(0, Event::Acquire(Id(2), Request { reenters: false, ..once(request(1, 30_000)) }));
    harness.answer(1, Ok(Reply::Nil));
    assert_eq!(harness.claim(1, 2), Some(Outcome::Acquired(Err(AcquireFailure::AlreadyHeld))));
    // The key was lost with the server's memory, so the server grants the attempt after its caller already has its
    // failure.
    harness.answer(2, Ok(Reply::Nil));
    assert_eq!(harness.answer(3, Ok(Reply::Int(1))).verb(), Verb::Release);
}
