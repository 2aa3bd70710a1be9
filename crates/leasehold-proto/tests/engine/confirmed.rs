//! Tests of the replicas that confirm: each call for a hold carries the policy of the hold.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Outcome, Request, Subject};
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::{Applied, Confirm, Name, Reply, StoreError, StoreErrorKind, Verb};

use crate::harness::{Harness, millis, next_timer, request, unknown};

fn confirmed(owner: u64, replicas: Option<Confirm>) -> Request {
    Request { replicas, ..request(owner, 30_000) }
}

const ONE: Option<Confirm> = Some(Confirm::AtLeast(1));

#[test]
fn each_call_of_a_hold_has_its_policy() {
    let mut harness = Harness::new();
    let least = Some(Duration::from_secs(60));
    let acquire = harness.hold(0, 1, Request { min_hold: least, ..confirmed(1, ONE) });
    let renewed_at = millis(next_timer(&mut harness.engine));
    harness.step(renewed_at, Event::Tick);
    let renewal = harness.answer(renewed_at, Ok(Reply::Int(1)));
    harness.release(renewed_at, 1, 9);
    let extension = harness.answer(renewed_at, Ok(Reply::Int(1)));
    harness.step(61_000, Event::Tick);
    let release = harness.answer(61_000, Ok(Reply::Int(1)));
    let verbs = [&acquire, &renewal, &extension, &release].map(|call| (call.verb(), call.replicas()));
    assert_eq!(
        verbs,
        [(Verb::Acquire, ONE), (Verb::Renew, ONE), (Verb::Renew, ONE), (Verb::Release, ONE)],
        "a minimum hold is extended before it is released"
    );
    let plain = harness.hold(62_000, 2, confirmed(2, None));
    assert_eq!(plain.replicas(), None, "the store has the policy of the client");
}

#[test]
fn an_undo_has_the_policy_of_its_acquire() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), confirmed(1, ONE)));
    harness.step(0, Event::Cancel(Id(1)));
    harness.answer(1, unknown(Verb::Acquire));
    let undo = harness.answer(1, Ok(Reply::Int(1)));
    assert_eq!((undo.verb(), undo.replicas()), (Verb::Release, ONE));
}

#[test]
fn a_hold_passes_to_a_waiter_with_its_policy_alone() {
    for (waiter, passes) in [(ONE, true), (None, false), (Some(Confirm::AtLeast(2)), false)] {
        let mut harness = Harness::new();
        harness.hold_at_once(1, 1, confirmed(1, ONE));
        harness.step(1, Event::Acquire(Id(2), confirmed(2, waiter)));
        while !harness.sent.is_empty() {
            harness.answer(1, Ok(Reply::Int(30_000)));
        }
        harness.release(2, 1, 9);
        let next = harness.claim(2, 2);
        assert_eq!(matches!(next, Some(Outcome::Acquired(Ok(_)))), passes, "{waiter:?}: {next:?}");
        assert_eq!(harness.sent.is_empty(), passes, "{waiter:?}");
    }
}

#[test]
fn a_grant_is_for_waiters_with_its_policy_alone() {
    for (waiter, takes) in [(ONE, true), (None, false)] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), confirmed(1, ONE)));
        harness.step(0, Event::Acquire(Id(2), confirmed(2, waiter)));
        harness.step(0, Event::Cancel(Id(1)));
        harness.answer(1, Ok(Reply::Nil));
        let claimed = harness.claim(1, 2);
        assert_eq!(claimed.is_some(), takes, "{waiter:?}: {claimed:?}");
        if !takes {
            let undo = harness.answer(1, Ok(Reply::Int(1)));
            assert_eq!((undo.verb(), undo.replicas()), (Verb::Release, ONE));
        }
    }
}

#[test]
fn a_re_entry_adds_to_the_policy_of_its_hold() {
    for (outer, inner, both) in [
        (ONE, None, ONE),
        (ONE, Some(Confirm::None), ONE),
        (ONE, Some(Confirm::AtLeast(2)), Some(Confirm::AtLeast(2))),
        (None, ONE, ONE),
        (Some(Confirm::all(1)), Some(Confirm::AtLeast(2)), Some(Confirm::all(2))),
    ] {
        let mut harness = Harness::new();
        harness.hold(0, 1, confirmed(1, outer));
        let entry = harness.hold(10, 2, confirmed(1, inner));
        let renewed_at = millis(next_timer(&mut harness.engine));
        harness.step(renewed_at, Event::Tick);
        let renewal = harness.answer(renewed_at, Ok(Reply::Int(1)));
        assert_eq!((entry.replicas(), renewal.replicas()), (both, both), "{outer:?} and {inner:?}");
        assert_eq!((entry.verb(), renewal.verb()), (Verb::Renew, Verb::Renew));
        assert_eq!(harness.engine.replicas_of(Id(1)), both);
    }
}

#[test]
fn a_re_entry_that_failed_leaves_the_policy_of_its_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, confirmed(1, None));
    harness.step(10, Event::Acquire(Id(2), confirmed(1, ONE)));
    let entry = harness.answer(11, unknown(Verb::Renew));
    assert_eq!(entry.replicas(), ONE);
    harness.step(12, Event::Cancel(Id(2)));
    assert_eq!(harness.engine.replicas_of(Id(1)), None);
}

#[test]
fn replicas_confirm_grants_and_renewals_and_no_refused_acquires() {
    let mut harness = Harness::new();
    let acquire = harness.hold(0, 1, confirmed(1, ONE));
    let (granted, refused) = (Reply::Nil, Reply::Int(20_000));
    assert!(acquire.needs_replicas_for(&granted) && !acquire.needs_replicas_for(&refused));
    harness.step(10_000, Event::Tick);
    let renewal = harness.answer(10_000, Ok(Reply::Int(1)));
    assert!(renewal.needs_replicas_for(&Reply::Int(1)));
    assert!(renewal.needs_replicas_for(&Reply::Int(0)), "a former master without replicas knows no hold");
    harness.release(11_000, 1, 9);
    let release = harness.answer(11_000, Ok(Reply::Int(1)));
    assert!(!release.needs_replicas(), "what a failover brings back ends with its lease");
}

#[test]
fn replicas_confirm_the_release_of_what_does_not_end_by_itself() {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &SEMAPHORE);
    harness.step(0, Event::Acquire(Id(1), Request { subject, ..confirmed(1, ONE) }));
    let acquire = harness.answer(0, Ok(Reply::Int(1)));
    assert!(!acquire.needs_replicas_for(&Reply::Int(0)), "too few permits");
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    harness.release(1, 1, 9);
    let unconfirmed =
        StoreError::new(StoreErrorKind::Unconfirmed, Verb::Release, "x".into(), Applied::Unknown);
    let release = harness.answer(2, Err(unconfirmed));
    assert!(release.needs_replicas_for(&Reply::Int(1)));
    let at = millis(next_timer(&mut harness.engine));
    harness.step(at, Event::Tick);
    let again = harness.answer(at, Ok(Reply::Int(0)));
    assert!(
        again.needs_replicas_for(&Reply::Int(0)),
        "it finds nothing, and the replicas may lack the first one"
    );
    assert_eq!(harness.claim(at, 9), Some(Outcome::Released(Ok(true))));
}
