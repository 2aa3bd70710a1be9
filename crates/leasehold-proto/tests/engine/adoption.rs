//! Holds that are given away and adopted.

use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, Event, Id, Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::adopt;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{ClientId, Reply, Verb, WireOwner};

use crate::harness::{Harness, ms, request, unknown};

/// An adoption of another client's hold.
fn adoption(owner: u64) -> Request {
    let recipe = adopt::of(&REENTRANT).expect("a lock travels");
    let request = request(owner, 30_000);
    let subject = Subject { recipe, ..request.subject };
    let giver = Some(WireOwner::new(ClientId::from_random([9; 16]), 7));
    Request { subject, giver, wait: Wait::Once, ..request }
}

#[test]
fn a_given_hold_is_neither_renewed_nor_released() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { min_hold: Some(Duration::from_secs(60)), ..request(1, 30_000) });
    harness.step(1_000, Event::Give { id: Id(2), hold: Id(1) });
    assert_eq!(harness.claim(1_000, 2), Some(Outcome::Released(Ok(true))));
    assert!(!harness.engine.is_held(Id(1), ms(1_000)));
    harness.step(100_000, Event::Tick);
    harness.step(100_000, Event::Close(Id(3)));
    assert!(harness.sent.is_empty(), "{:?}", harness.verbs());
}

#[test]
fn a_hold_of_two_guards_is_not_given_away() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(2, 2, request(1, 30_000));
    harness.step(10, Event::Give { id: Id(3), hold: Id(2) });
    assert_eq!(harness.claim(10, 3), Some(Outcome::Released(Ok(false))));
    assert!(harness.engine.is_held(Id(1), ms(10)) && harness.engine.is_held(Id(2), ms(10)));
}

#[test]
fn a_hold_that_is_being_entered_is_not_given_away() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(2, Event::Acquire(Id(2), request(1, 30_000)));
    harness.step(3, Event::Give { id: Id(3), hold: Id(1) });
    assert_eq!(harness.claim(3, 3), Some(Outcome::Released(Ok(false))));
}

#[test]
fn an_adopted_hold_is_renewed_and_released_like_any_other() {
    let mut harness = Harness::new();
    let call = harness.hold(0, 1, adoption(1));
    assert!(call.argument("giver").is_some_and(|giver| giver.ends_with(":7")));
    let mut renewed = false;
    while harness.engine.next_timer() <= ms(11_000) {
        harness.step_at(harness.engine.next_timer(), Event::Tick);
        renewed |= harness.verbs() == [Verb::Renew];
        while !harness.sent.is_empty() {
            harness.answer(10_100, Ok(Reply::Int(1)));
        }
    }
    assert!(renewed);
    harness.release(12_000, 1, 9);
    assert_eq!(harness.verbs(), [Verb::Release]);
    harness.answer(12_001, Ok(Reply::Int(1)));
    assert_eq!(harness.claim(12_001, 9), Some(Outcome::Released(Ok(true))));
}

#[test]
fn an_adoption_does_not_wait_behind_the_clients_waiters() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.answer(1, Ok(Reply::Int(20_000)));
    harness.sent.clear();
    harness.step(2, Event::Acquire(Id(2), adoption(2)));
    assert!(harness.sent.iter().any(|(_, call)| call.argument("giver").is_some()));
}

#[test]
fn an_adoption_of_a_hold_that_is_gone_is_refused_at_once() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), adoption(1)));
    harness.answer(1, Ok(Reply::Int(0)));
    assert_eq!(harness.claim(1, 1), Some(Outcome::Acquired(Err(AcquireFailure::Contended))));
    assert!(harness.sent.is_empty());
}

#[test]
fn an_adoption_of_unknown_outcome_is_undone() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), adoption(1)));
    harness.answer(100, unknown(Verb::Acquire));
    let failed = harness.claim(100, 1);
    assert!(matches!(failed, Some(Outcome::Acquired(Err(AcquireFailure::Unknown { .. })))), "{failed:?}");
    assert_eq!(harness.verbs(), [Verb::Release]);
}

#[test]
fn two_adoptions_ask_the_server_each_for_itself() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), adoption(1)));
    harness.step(0, Event::Acquire(Id(2), adoption(2)));
    harness.answer(1, Ok(Reply::Nil));
    assert!(matches!(harness.claim(1, 1), Some(Outcome::Acquired(Ok(_)))));
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(Reply::Int(0)));
    }
    assert_eq!(harness.claim(2, 2), Some(Outcome::Acquired(Err(AcquireFailure::Contended))));
}
