//! The lane: holds of names that nobody else of the client wants, until something else happens to them.

use std::time::Duration;

use leasehold_proto::engine::{AcquireFailure, Event, Id, LostReason, Outcome, Request, Wait};
use leasehold_proto::{Moment, Reply, Scope, StoreErrorKind, Verb};

use crate::harness::{Harness, bounded, ms, next_timer, refused, request, subject, unknown};

/// The lease of these holds.
const LEASE: u64 = 30_000;
/// A time at which no record is in the lane any more.
const LATER: u64 = 500;

/// Returns the client with one grant in the lane, which nobody has claimed.
fn with_offer() -> Harness {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, LEASE)));
    harness.answer(1, Ok(Reply::Nil));
    assert!(harness.engine.offer(Id(1)).is_some() && harness.woken == [Id(1)]);
    harness
}

/// Lets an event happen whose step asks about the one offer, which was taken or not.
fn step_in_question(harness: &mut Harness, at: u64, event: Event, taken: bool) {
    assert_eq!(harness.engine.offers_in_question(ms(at), &event), [Id(1)], "{event:?}");
    if taken {
        harness.take_offer(1);
    }
    harness.step(at, event);
    assert!(harness.engine.offer(Id(1)).is_none(), "the record has left the lane");
}

#[test]
fn an_offer_has_the_validity_of_its_grant_and_stands_for_a_while() {
    let harness = with_offer();
    let offer = harness.engine.offer(Id(1)).unwrap();
    assert_eq!(offer.valid_until, ms(0) + Duration::from_millis(29_698));
    assert_eq!(offer.valid_until.since(ms(1)), harness.engine.remaining(Id(1), ms(1)));
    assert!(offer.until > ms(50) && offer.until < ms(LATER));
    assert_eq!(harness.engine.wire_owner(Id(1)), Some(offer.grant.wire));
}

#[test]
fn a_second_waiter_waits_for_the_hold_of_an_offer() {
    let mut harness = with_offer();
    let second = Event::Acquire(Id(2), request(2, LEASE));
    step_in_question(&mut harness, 1, second, true);
    assert_eq!(harness.verbs(), [], "the client holds the name itself");
    harness.release(1, 1, 3);
    assert_eq!(harness.woken, [Id(3), Id(2)], "the hold passes on");
}

#[test]
fn an_owner_enters_its_hold_again() {
    let mut harness = with_offer();
    assert!(harness.claim(2, 1).is_some());
    harness.step(3, Event::Acquire(Id(2), request(1, LEASE)));
    assert_eq!(harness.verbs(), [Verb::Renew], "the count of the hold is raised");
}

#[test]
fn an_offer_that_nobody_takes_is_not_renewed_and_is_undone() {
    let mut harness = with_offer();
    step_in_question(&mut harness, LATER, Event::Tick, false);
    let due = next_timer(&mut harness.engine);
    harness.step_at(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Release], "after the time for a claim");
}

#[test]
fn an_offer_that_was_taken_is_renewed() {
    let mut harness = with_offer();
    let valid_until = harness.engine.offer(Id(1)).unwrap().valid_until;
    step_in_question(&mut harness, LATER, Event::Tick, true);
    assert_eq!(harness.engine.remaining(Id(1), ms(LATER)), valid_until.since(ms(LATER)));
    let due = next_timer(&mut harness.engine);
    harness.step_at(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Renew]);
    assert!(due >= ms(9_000) && due <= ms(10_000), "a third of the lease after the attempt");
}

#[test]
fn a_dropped_future_returns_its_offer() {
    let mut harness = with_offer();
    harness.step(2, Event::Cancel(Id(1)));
    assert_eq!(harness.verbs(), [Verb::Release]);
    assert!(harness.engine.offer(Id(1)).is_none());
}

#[test]
fn the_guard_of_an_offer_releases_it_and_learns_the_outcome() {
    let mut harness = with_offer();
    harness.release(2, 1, 2);
    assert_eq!(harness.verbs(), [Verb::Release]);
    assert_eq!(harness.engine.remaining(Id(1), ms(2)), Duration::ZERO);
    harness.answer(3, Ok(Reply::Int(0)));
    assert_eq!(harness.claim(3, 2), Some(Outcome::Released(Ok(true))));
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
}

#[test]
fn a_release_without_an_answer_is_repeated() {
    let mut harness = with_offer();
    harness.release(2, 1, 2);
    harness.answer(3, unknown(Verb::Release));
    let due = next_timer(&mut harness.engine);
    harness.step_at(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Release]);
    harness.answer(60, Ok(Reply::Nil));
    assert_eq!(harness.claim(60, 2), Some(Outcome::Released(Ok(true))), "the first one may have removed it");
}

#[test]
fn an_attempt_without_an_answer_is_made_again_under_its_wire_owner() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, LEASE)));
    let first = harness.answer(1, unknown(Verb::Acquire));
    let due = next_timer(&mut harness.engine);
    harness.step_at(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Acquire]);
    assert_eq!(harness.sent[0].1.argument("owner"), first.argument("owner"));
}

#[test]
fn a_guard_that_asks_for_more_is_no_unclaimed_grant() {
    for event in [
        Event::Ensure { id: Id(2), hold: Id(1), least: Duration::from_millis(29_800) },
        Event::SetMinHold(Id(1), Duration::from_secs(1)),
        Event::Detach(Id(1)),
    ] {
        let mut harness = with_offer();
        step_in_question(&mut harness, 2, event.clone(), true);
        harness.step(6_000, Event::Tick);
        assert!(!harness.verbs().contains(&Verb::Release), "{event:?}: nothing is undone");
    }
}

#[test]
fn a_taken_offer_is_held_however_late_the_next_step_is() {
    let mut harness = with_offer();
    step_in_question(&mut harness, 20_000, Event::Tick, true);
    assert_eq!(harness.verbs(), [Verb::Renew], "its time for a claim is no matter any more");
    assert!(harness.engine.is_held(Id(1), ms(20_000)));
    let mut harness = with_offer();
    step_in_question(&mut harness, 40_000, Event::Tick, true);
    assert_eq!(harness.engine.lost(Id(1), ms(40_000)), Some(LostReason::Unreachable), "its guard is told");
}

#[test]
fn a_server_that_takes_over_is_asked_for_a_claimed_hold() {
    let mut harness = with_offer();
    step_in_question(&mut harness, 3, Event::Replaced(Scope::All), true);
    assert_eq!(harness.verbs(), [Verb::Renew]);
}

#[test]
fn a_close_ends_a_hold_in_the_lane() {
    let mut harness = with_offer();
    step_in_question(&mut harness, 3, Event::Close(Id(2)), true);
    assert_eq!(harness.engine.lost(Id(1), ms(3)), Some(LostReason::Closed));
    assert_eq!(harness.verbs(), [Verb::Release]);
    harness.step(4, Event::Acquire(Id(3), request(1, LEASE)));
    let closed = Outcome::Acquired(Err(AcquireFailure::Closed));
    assert_eq!(harness.claim(4, 3), Some(closed));
}

#[test]
fn a_refusal_makes_a_waiter() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, LEASE)));
    harness.answer(1, Ok(Reply::Int(10_000)));
    assert!(!harness.listening.is_empty(), "the waiter listens for the end of the hold");
    let wait = harness.engine.wait_info(Id(1)).unwrap();
    assert_eq!((wait.subject, wait.since), (subject("x"), ms(0)));
}

#[test]
fn requests_whose_times_may_end_in_the_lane_do_not_enter_it() {
    let soon = Wait::Until(ms(50));
    for out in [
        request(1, 200),
        bounded(request(1, LEASE), 20_000),
        Request { min_hold: Some(Duration::from_secs(1)), ..request(1, LEASE) },
        Request { max_renewals: Some(3), ..request(1, LEASE) },
        Request { wait: soon, ..request(1, LEASE) },
    ] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), out.clone()));
        harness.answer(1, Ok(Reply::Nil));
        assert_eq!(harness.engine.offer(Id(1)), None, "{out:?}");
        assert!(harness.claim(1, 1).is_some(), "{out:?}");
    }
}

#[test]
fn a_late_answer_is_for_the_machines() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, LEASE)));
    harness.answer(LATER, Ok(Reply::Nil));
    assert_eq!(harness.engine.offer(Id(1)), None);
    assert!(harness.claim(LATER, 1).is_some());
}

#[test]
fn names_beyond_the_lane_are_held_as_well() {
    let mut harness = Harness::new();
    let name = |id: u64| Request { subject: subject(&format!("x{id}")), ..request(1, LEASE) };
    (1..=1_100).for_each(|id| drop(harness.step(0, Event::Acquire(Id(id), name(id)))));
    (1..=1_100).for_each(|_| drop(harness.answer(1, Ok(Reply::Nil))));
    assert!(harness.engine.offer(Id(1)).is_some() && harness.engine.offer(Id(1_100)).is_none());
    for id in 1..=1_100 {
        assert!(harness.claim(2, id).is_some());
        harness.release(3, id, 2_000 + id);
    }
    (1..=1_100).for_each(|_| drop(harness.answer(4, Ok(Reply::Int(0)))));
    let released = Some(Outcome::Released(Ok(true)));
    assert!((1..=1_100).all(|id| harness.claim(4, 2_000 + id) == released));
}

#[test]
fn an_attempt_that_fails_leaves_the_lane() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, LEASE)));
    harness.answer(1, refused(StoreErrorKind::Unreachable));
    assert_eq!(harness.engine.offer(Id(1)), None);
    let due = next_timer(&mut harness.engine);
    harness.step_at(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Acquire], "the machine of the waiters tries again");
}
