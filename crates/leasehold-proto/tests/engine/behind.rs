//! Tests of waiters behind a hold of their own client. The engine sees the end of that hold, so they make no attempts.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, LostReason, Outcome, Request, Settings, Wait};
use leasehold_proto::{Channel, Reply, Verb};

use crate::harness::{Harness, millis, ms, next_timer, request};

fn channel() -> Channel {
    Channel::new("redisson_lock__channel:{x}")
}

/// Creates a harness with hold 1 of owner 1 and a waiter, 2, of owner 2, whose subscription is confirmed at 11 ms.
fn with_waiter(hold: Request) -> Harness {
    let mut harness = Harness::new();
    hold_before_waiter(&mut harness, hold);
    harness
}

fn hold_before_waiter(harness: &mut Harness, hold: Request) {
    harness.hold(0, 1, hold);
    harness.step(10, Event::Acquire(Id(2), request(2, 30_000)));
    assert!(harness.listening.contains(&channel()), "it listens, and asks nothing");
    harness.step(11, Event::Listening(channel()));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

/// Lets the timers fire between two moments, with every renewal confirmed. Returns all other calls.
fn others(harness: &mut Harness, begin: u64, end: u64) -> Vec<(u64, Verb)> {
    let (mut now, mut others) = (begin, Vec::new());
    loop {
        while let Some((_, call)) = harness.sent.first() {
            if call.verb() != Verb::Renew {
                others.push((now, call.verb()));
            }
            harness.answer(now, Ok(Reply::Int(1)));
        }
        now = millis(next_timer(&mut harness.engine));
        if now > end {
            return others;
        }
        harness.step(now, Event::Tick);
    }
}

fn fixed(lease_ms: u64) -> Request {
    Request { watchdog: false, ..request(1, lease_ms) }
}

#[test]
fn a_waiter_does_not_poll_while_its_own_client_holds_the_lock() {
    let mut harness = with_waiter(request(1, 30_000));
    assert_eq!(others(&mut harness, 11, 120_000), []);
    harness.release(120_000, 1, 9);
    assert_eq!(harness.answer(120_001, Ok(Reply::Int(1))).verb(), Verb::Release);
    assert_eq!(
        harness.answer(120_002, Ok(Reply::Nil)).verb(),
        Verb::Acquire,
        "it asks as soon as the lock is free"
    );
    assert!(matches!(harness.claim(120_002, 2), Some(Outcome::Acquired(Ok(_)))));
}

#[test]
fn a_waiter_polls_when_a_fixed_lease_of_its_own_client_ends() {
    let mut harness = with_waiter(fixed(30_000));
    assert_eq!(
        millis(next_timer(&mut harness.engine)),
        29_698,
        "the end of the validity, and nothing before"
    );
    harness.step(29_698, Event::Tick);
    assert_eq!(harness.answer(29_699, Ok(Reply::Int(301))).verb(), Verb::Acquire);
}

#[test]
fn a_forced_release_is_lost_as_soon_as_its_message_arrives() {
    let mut harness = with_waiter(request(1, 30_000));
    harness.step(200, Event::Message(channel()));
    assert_eq!(
        harness.answer(201, Ok(Reply::Nil)).verb(),
        Verb::Acquire,
        "the message says that it was released"
    );
    assert_eq!(harness.engine.lost(Id(1), ms(201)), Some(LostReason::Deleted));
    assert!(matches!(harness.claim(201, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(harness.engine.is_held(Id(2), ms(201)));
}

#[test]
fn a_spurious_message_costs_one_attempt() {
    let mut harness = with_waiter(request(1, 30_000));
    harness.step(200, Event::Message(channel()));
    assert_eq!(harness.answer(201, Ok(Reply::Int(29_800))).verb(), Verb::Acquire);
    assert!(harness.engine.is_held(Id(1), ms(201)));
    assert_eq!(others(&mut harness, 201, 60_000), []);
}

/// Creates a harness in which hold 2 follows hold 1 of the same client at once, and 3 waits for its end.
fn handed_over() -> Harness {
    let mut harness = with_waiter(request(1, 30_000));
    harness.step(12, Event::Acquire(Id(3), request(3, 30_000)));
    harness.release(20, 1, 9);
    harness.answer(21, Ok(Reply::Int(1)));
    harness.answer(22, Ok(Reply::Nil));
    assert!(matches!(harness.claim(22, 2), Some(Outcome::Acquired(Ok(_)))));
    harness
}

#[test]
fn a_late_message_of_the_previous_release_starts_no_attempt() {
    let mut harness = handed_over();
    harness.step(23, Event::Message(channel()));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.release(500, 2, 8);
    harness.answer(501, Ok(Reply::Int(1)));
    assert_eq!(harness.answer(502, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(matches!(harness.claim(502, 3), Some(Outcome::Acquired(Ok(_)))));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

/// Releases hold `id` of `handed_over`, whose message arrives, and takes the lock for the next one.
fn next_turn(harness: &mut Harness, at: u64, id: u64) {
    harness.release(at, id, 100 + id);
    harness.answer(at + 1, Ok(Reply::Int(1)));
    assert_eq!(harness.answer(at + 2, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(matches!(harness.claim(at + 2, id + 1), Some(Outcome::Acquired(Ok(_)))));
    harness.step(at + 3, Event::Message(channel()));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_lost_message_of_an_own_release_hides_no_later_one() {
    let mut harness = handed_over();
    for owner in 4..=5 {
        harness.step(23, Event::Acquire(Id(owner), request(owner, 30_000)));
    }
    next_turn(&mut harness, 300, 2);
    next_turn(&mut harness, 600, 3);
    harness.step(700, Event::Message(channel()));
    assert_eq!(harness.answer(701, Ok(Reply::Nil)).verb(), Verb::Acquire, "the message of another client");
    assert_eq!(harness.engine.lost(Id(4), ms(701)), Some(LostReason::Deleted));
}

#[test]
fn a_lost_message_of_an_own_release_is_expected_for_a_short_time_whatever_the_polling_interval() {
    let settings = Settings { poll_interval: Duration::from_secs(60), ..Settings::default() };
    let mut harness = Harness::with(settings);
    hold_before_waiter(&mut harness, request(1, 30_000));
    harness.release(20, 1, 9);
    harness.answer(21, Ok(Reply::Int(1)));
    assert_eq!(harness.answer(22, Ok(Reply::Int(29_000))).verb(), Verb::Acquire, "another client was first");
    harness.step(600, Event::Message(channel()));
    assert_eq!(harness.answer(601, Ok(Reply::Nil)).verb(), Verb::Acquire, "the message of the other client");
    assert!(matches!(harness.claim(601, 2), Some(Outcome::Acquired(Ok(_)))));
}

#[test]
fn a_message_before_the_answer_of_a_release_that_found_no_hold_is_another_clients() {
    let mut harness = with_waiter(request(1, 30_000));
    harness.release(20, 1, 9);
    harness.step(21, Event::Message(channel()));
    assert_eq!(harness.answer(22, Ok(Reply::Nil)).verb(), Verb::Release, "its key had run out");
    assert_eq!(
        harness.answer(23, Ok(Reply::Int(29_000))).verb(),
        Verb::Acquire,
        "it left before the message"
    );
    assert_eq!(
        harness.answer(24, Ok(Reply::Nil)).verb(),
        Verb::Acquire,
        "the message of another client's release"
    );
    assert!(matches!(harness.claim(24, 2), Some(Outcome::Acquired(Ok(_)))));
}

#[test]
fn a_release_that_found_no_hold_costs_no_further_attempt() {
    let mut harness = with_waiter(request(1, 30_000));
    harness.release(20, 1, 9);
    assert_eq!(harness.answer(22, Ok(Reply::Nil)).verb(), Verb::Release);
    assert_eq!(harness.answer(23, Ok(Reply::Int(29_000))).verb(), Verb::Acquire);
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn an_ambiguous_release_message_is_checked_after_the_polling_interval() {
    let mut harness = handed_over();
    harness.step(23, Event::Message(channel()));
    assert_eq!(millis(next_timer(&mut harness.engine)), 1_022);
    harness.step(1_022, Event::Tick);
    assert_eq!(harness.answer(1_023, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert_eq!(harness.engine.lost(Id(2), ms(1_023)), Some(LostReason::Deleted));
}

#[test]
fn a_grant_ends_the_forgotten_hold_of_the_same_client() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(10, Event::Acquire(Id(2), Request { wait: Wait::Once, ..request(2, 30_000) }));
    harness.answer(11, Ok(Reply::Nil));
    assert!(!harness.engine.is_held(Id(1), ms(11)), "two guards of one lock are never valid at once");
    assert_eq!(harness.engine.lost(Id(1), ms(11)), Some(LostReason::Deleted));
    assert!(matches!(harness.claim(11, 2), Some(Outcome::Acquired(Ok(_)))));
}

/// Creates a harness with a waiter, 3, whose client has released the lock at 30 ms while three other clients listened.
fn after_contended_release() -> Harness {
    let mut harness = with_waiter(request(1, 30_000));
    harness.step(11, Event::Acquire(Id(3), request(3, 30_000)));
    harness.release(20, 1, 8);
    assert_eq!(harness.answer(21, Ok(Reply::Int(5))).verb(), Verb::Release);
    assert_eq!(harness.answer(21, Ok(Reply::Nil)).verb(), Verb::Acquire, "it went out with the release");
    harness.step(21, Event::Message(channel()));
    assert!(matches!(harness.claim(21, 2), Some(Outcome::Acquired(Ok(_)))));
    harness.release(30, 2, 9);
    assert_eq!(harness.answer(31, Ok(Reply::Int(5))).verb(), Verb::Release);
    harness.step(31, Event::Message(channel()));
    assert!(harness.sent.is_empty(), "it stands back: {:?}", harness.sent);
    harness
}

#[test]
fn a_client_leaves_a_turn_to_each_other_client_after_a_contended_release() {
    let mut harness = after_contended_release();
    for at in [40, 50] {
        harness.step(at, Event::Message(channel()));
        assert!(harness.sent.is_empty(), "the turn of another client at {at} ms: {:?}", harness.sent);
    }
    harness.step(51, Event::Message(channel()));
    assert_eq!(harness.sent.len(), 1, "each other client has had its turn");
}

#[test]
fn a_client_waits_for_the_turns_of_others_no_longer_than_they_take() {
    let mut harness = after_contended_release();
    let at = millis(next_timer(&mut harness.engine));
    assert!((50..=60).contains(&at), "two turns of 10 ms, and round trips: {at} ms");
    harness.step(at, Event::Tick);
    assert_eq!(harness.sent.len(), 1, "the others may have gone");
}
