//! Tests of minimum hold times: the calls of a release before the end of that time, and their times.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, LostReason, Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::plain::PLAIN;
use leasehold_proto::{LEASE_MAX, Name, Reply, StoreErrorKind, Verb};

use crate::harness::{Harness, bounded, millis, ms, next_timer, refused, request};

fn with_min_hold(lease_ms: u64, least_ms: u64) -> Request {
    Request { min_hold: Some(Duration::from_millis(least_ms)), ..request(1, lease_ms) }
}

#[test]
fn a_sufficient_lease_is_not_extended_and_released_after_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(30_000, 5_000));
    harness.release(100, 1, 9);
    assert_eq!(harness.claim(100, 9), Some(Outcome::Released(Ok(true))));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.step(4_999, Event::Tick);
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.step(5_000, Event::Tick);
    assert_eq!(harness.answer(5_001, Ok(Reply::Int(1))).verb(), Verb::Release);
    assert!(harness.sent.is_empty());
}

#[test]
fn a_lease_below_min_hold_is_extended_once_before_the_release_is_reported() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.release(900, 1, 9);
    assert_eq!(harness.claim(900, 9), None);
    let extended = harness.answer(901, Ok(Reply::Int(1)));
    assert_eq!((extended.verb(), extended.argument("lease_ms")), (Verb::Renew, Some("59101")));
    assert_eq!(harness.claim(901, 9), Some(Outcome::Released(Ok(true))));
    harness.step(59_999, Event::Tick);
    assert!(harness.sent.is_empty(), "no watchdog keeps it: {:?}", harness.sent);
    harness.step(60_000, Event::Tick);
    assert_eq!(harness.answer(60_001, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn min_hold_is_limited_to_the_longest_lease() {
    let mut harness = Harness::new();
    let longest = u64::try_from(LEASE_MAX.as_millis()).unwrap();
    harness.hold(0, 1, with_min_hold(3_000, 2 * longest));
    harness.release(900, 1, 9);
    let extended = harness.answer(901, Ok(Reply::Int(1)));
    assert_eq!(extended.argument("lease_ms"), Some(longest.to_string().as_str()));
    assert_eq!(harness.claim(901, 9), Some(Outcome::Released(Ok(true))));
    assert!(harness.sent.is_empty(), "it is not extended without end: {:?}", harness.sent);
}

#[test]
fn the_owner_cannot_re_enter_during_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(30_000, 5_000));
    harness.release(100, 1, 9);
    harness.step(200, Event::Acquire(Id(2), Request { wait: Wait::Once, ..request(1, 30_000) }));
    let sent_call = harness.answer(201, Ok(Reply::Int(4_800)));
    assert_eq!(sent_call.verb(), Verb::Acquire, "a new question, under a new wire owner");
    assert!(matches!(harness.claim(201, 2), Some(Outcome::Acquired(Err(_)))));
}

#[test]
fn a_failed_min_hold_extension_is_reported_and_retried() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.release(900, 1, 9);
    harness.answer(901, refused(StoreErrorKind::Unreachable));
    assert!(matches!(harness.claim(901, 9), Some(Outcome::Released(Err(_)))));
    harness.step(2_500, Event::Tick);
    assert_eq!(harness.answer(2_501, Ok(Reply::Int(1))).verb(), Verb::Renew);
    harness.step(60_000, Event::Tick);
    assert_eq!(harness.answer(60_001, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn a_deleted_key_ends_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.release(900, 1, 9);
    harness.answer(901, Ok(Reply::Int(0)));
    assert_eq!(harness.claim(901, 9), Some(Outcome::Released(Ok(false))));
    harness.step(60_000, Event::Tick);
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

/// Lets the timers fire with every renewal confirmed until no more are sent. Returns the ends of the key and of the
/// hold.
fn renewed_until(harness: &mut Harness) -> [u64; 2] {
    let mut ends = 0;
    loop {
        let at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
        if harness.sent.is_empty() {
            return [ends, at];
        }
        while !harness.sent.is_empty() {
            let call = harness.answer(at, Ok(Reply::Int(1)));
            assert_eq!(call.verb(), Verb::Renew, "at {at}");
            ends = at + call.argument("lease_ms").unwrap().parse::<u64>().unwrap();
        }
    }
}

#[test]
fn a_hold_with_a_fixed_lease_lasts_for_min_hold_too() {
    let fixed = Request { watchdog: false, ..with_min_hold(3_000, 10_000) };
    let counted = Request { max_renewals: Some(1), ..with_min_hold(3_000, 10_000) };
    for (request, reason) in [(fixed, LostReason::Expired), (counted, LostReason::MaxRenewals)] {
        let mut harness = Harness::new();
        harness.hold(0, 1, request);
        assert_eq!(renewed_until(&mut harness), [10_000, 9_968]);
        assert_eq!(harness.engine.lost(Id(1), ms(9_968)), Some(reason));
    }
}

#[test]
fn a_later_min_hold_extends_a_fixed_lease_too() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { watchdog: false, ..request(1, 3_000) });
    harness.step(500, Event::SetMinHold(Id(1), Duration::from_secs(10)));
    assert!(renewed_until(&mut harness)[0] >= 10_500);
}

#[test]
fn a_sibling_hold_that_expires_does_not_shorten_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 10_000));
    harness.hold(10, 2, Request { watchdog: false, ..request(1, 3_000) });
    harness.release(20, 1, 9);
    harness.answer(21, Ok(Reply::Int(0)));
    assert!(renewed_until(&mut harness)[0] >= 10_000);
}

#[test]
fn a_sibling_hold_that_reaches_max_hold_does_not_shorten_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 10_000));
    harness.hold(10, 2, bounded(request(1, 3_000), 5_000));
    harness.release(20, 1, 9);
    harness.answer(21, Ok(Reply::Int(0)));
    let (mut ends, mut at) = (3_000, 21);
    while at < 10_000 {
        at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
        while at < 10_000 && !harness.sent.is_empty() {
            let call = harness.answer(at, Ok(Reply::Int(1)));
            assert_eq!(call.verb(), Verb::Renew, "at {at}");
            ends = at + call.argument("lease_ms").unwrap().parse::<u64>().unwrap();
        }
        assert!(!harness.engine.is_held(Id(2), ms(5_011)), "its own bound counts, whatever the server keeps");
        assert!(ends > at || at >= 10_000, "the key ended at {ends}");
    }
    assert_eq!(harness.answer(10_000, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn a_close_extends_short_leases_and_does_not_cut_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.step(900, Event::Close(Id(5)));
    let extended = harness.answer(901, Ok(Reply::Int(1)));
    assert_eq!((extended.verb(), extended.argument("lease_ms")), (Verb::Renew, Some("59101")));
    assert!(matches!(harness.claim(901, 5), Some(Outcome::Closed(_))));
    assert!(harness.engine.is_finished());
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_close_during_an_extension_waits_for_its_reply() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.release(900, 1, 9);
    harness.step(900, Event::Close(Id(5)));
    assert!(!harness.engine.is_finished());
    harness.answer(901, Ok(Reply::Int(1)));
    assert_eq!(harness.claim(901, 9), Some(Outcome::Released(Ok(true))));
    assert!(matches!(harness.claim(901, 5), Some(Outcome::Closed(_))));
    assert!(harness.engine.is_finished());
}

#[test]
fn an_unclaimed_grant_has_no_min_hold() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), with_min_hold(30_000, 5_000)));
    harness.answer(1, Ok(Reply::Nil));
    harness.step(2, Event::Cancel(Id(1)));
    assert_eq!(harness.answer(3, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn the_longest_min_hold_of_the_holds_counts() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(30_000, 5_000));
    harness.hold(10, 2, request(1, 30_000));
    harness.release(20, 1, 8);
    harness.answer(21, Ok(Reply::Int(0)));
    harness.release(30, 2, 9);
    assert_eq!(harness.claim(30, 9), Some(Outcome::Released(Ok(true))));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.step(5_000, Event::Tick);
    assert_eq!(harness.answer(5_001, Ok(Reply::Int(1))).verb(), Verb::Release);
    assert!(next_timer(&mut harness.engine) > ms(1_000_000_000), "nothing is left to come back to");
}

#[test]
fn a_detached_hold_has_no_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.step(10, Event::Detach(Id(1)));
    harness.step(60_001, Event::Tick);
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_detached_sibling_hold_does_not_shorten_min_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, with_min_hold(3_000, 60_000));
    harness.hold(10, 2, request(1, 3_000));
    harness.step(20, Event::Detach(Id(2)));
    harness.release(30, 1, 9);
    let extended = harness.answer(31, Ok(Reply::Int(1)));
    assert_eq!((extended.verb(), extended.argument("lease_ms")), (Verb::Renew, Some("59971")));
    assert_eq!(harness.claim(31, 9), Some(Outcome::Released(Ok(true))));
    harness.step(60_000, Event::Tick);
    assert!(harness.sent.is_empty(), "what was kept is not released: {:?}", harness.sent);
}

fn plain_with_min_hold(lease_ms: u64, least_ms: u64) -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), &PLAIN);
    Request { subject, ..with_min_hold(lease_ms, least_ms) }
}

#[test]
fn a_plain_lock_gets_the_lease_of_its_min_hold_before_the_release_is_reported() {
    for lease_ms in [30_000, 3_000] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), plain_with_min_hold(lease_ms, 5_000)));
        harness.answer(0, Ok(Reply::Nil));
        assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
        harness.release(100, 1, 9);
        assert_eq!(harness.claim(100, 9), None);
        let set = harness.answer(101, Ok(Reply::Int(2)));
        assert_eq!((set.verb(), set.argument("lease_ms")), (Verb::Renew, Some("4901")));
        assert_eq!(harness.claim(101, 9), Some(Outcome::Released(Ok(true))));
        assert!(harness.sent.is_empty(), "it is set once: {:?}", harness.sent);
        harness.step(5_000, Event::Tick);
        assert_eq!(harness.answer(5_001, Ok(Reply::Nil)).verb(), Verb::Release);
    }
}

#[test]
fn a_failed_end_of_a_plain_min_hold_is_reported_and_retried() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), plain_with_min_hold(30_000, 5_000)));
    harness.answer(0, Ok(Reply::Nil));
    harness.claim(0, 1);
    harness.release(100, 1, 9);
    harness.answer(101, refused(StoreErrorKind::Unreachable));
    assert!(matches!(harness.claim(101, 9), Some(Outcome::Released(Err(_)))));
    harness.step(1_500, Event::Tick);
    let again = harness.answer(1_501, Ok(Reply::Int(4)));
    assert_eq!((again.verb(), again.argument("lease_ms")), (Verb::Renew, Some("3501")));
}
