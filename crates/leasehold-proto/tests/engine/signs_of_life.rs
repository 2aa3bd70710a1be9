//! Holds that need a sign of life, that are extended, or that are trusted for less than their lease.

use std::time::Duration;

use leasehold_proto::engine::{EnsureFailure, Event, Id, LostReason, Outcome, Request};
use leasehold_proto::{Reply, Scope, StoreErrorKind, Verb};

use crate::harness::{Harness, ms, refused, request, unknown};

fn silent_for(millis: u64, request: Request) -> Request {
    Request { silent_for: Some(Duration::from_millis(millis)), ..request }
}

/// Lets time pass up to `until`, answers each renewal at once, and returns the times at which they were sent.
fn renewals(harness: &mut Harness, until: u64) -> Vec<u64> {
    let mut sent = Vec::new();
    loop {
        let next = harness.engine.next_timer();
        if next > ms(until) {
            return sent;
        }
        harness.step_at(next, Event::Tick);
        while !harness.sent.is_empty() {
            let at = u64::try_from(next.since(ms(0)).as_millis()).unwrap();
            assert_eq!(harness.answer(at + 1, Ok(Reply::Int(1))).verb(), Verb::Renew);
            sent.push(at);
        }
    }
}

#[test]
fn a_hold_without_a_beat_is_not_renewed_and_lost_as_silent() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(5_000, request(1, 30_000)));
    assert!(renewals(&mut harness, 29_000).is_empty());
    assert_eq!(harness.engine.lost(Id(1), ms(29_697)), None);
    assert_eq!(harness.engine.lost(Id(1), ms(29_698)), Some(LostReason::Silent));
    assert!(renewals(&mut harness, 60_000).is_empty());
    assert_eq!(
        harness.engine.lost(Id(1), ms(60_000)),
        Some(LostReason::Silent),
        "the engine says it as the clock did"
    );
}

#[test]
fn a_hold_is_renewed_as_long_as_beats_come() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(5_000, request(1, 30_000)));
    let mut sent = Vec::new();
    for at in (4_000..100_000).step_by(4_000) {
        sent.extend(renewals(&mut harness, at));
        harness.step(at, Event::Beat(Id(1)));
    }
    assert!((9..=11).contains(&sent.len()), "{sent:?}");
    let after = renewals(&mut harness, 200_000);
    assert!(after.len() <= 1, "one within 5 s of the last beat: {after:?}");
    assert_eq!(harness.engine.lost(Id(1), ms(200_000)), Some(LostReason::Silent));
}

#[test]
fn a_beat_after_the_look_and_before_the_end_renews_at_once() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(1_000, request(1, 30_000)));
    assert!(renewals(&mut harness, 25_000).is_empty());
    harness.step(25_000, Event::Beat(Id(1)));
    assert_eq!(harness.verbs(), [Verb::Renew]);
    harness.step(25_000, Event::Beat(Id(1)));
    assert_eq!(harness.verbs(), [Verb::Renew], "only once");
    harness.answer(25_001, Ok(Reply::Int(1)));
    assert!(harness.engine.is_held(Id(1), ms(54_000)));
}

#[test]
fn a_beat_between_two_looks_sends_nothing_and_counts() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(9_000, request(1, 30_000)));
    harness.step(3_000, Event::Beat(Id(1)));
    assert!(harness.sent.is_empty());
    assert_eq!(renewals(&mut harness, 11_000).len(), 1);
}

#[test]
fn a_beat_never_revives_a_lost_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(1_000, request(1, 30_000)));
    harness.step(29_698, Event::Beat(Id(1)));
    assert!(harness.sent.is_empty());
    assert_eq!(harness.engine.lost(Id(1), ms(29_698)), Some(LostReason::Silent));
}

#[test]
fn a_hold_whose_renewals_fail_is_unreachable_even_if_it_is_silent() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(10_500, request(1, 30_000)));
    let mut attempts = 0;
    for at in (9_000..40_000).step_by(100) {
        harness.step(at, Event::Tick);
        while !harness.sent.is_empty() {
            harness.answer(at, refused(StoreErrorKind::Busy));
            attempts += 1;
        }
    }
    assert!(attempts > 0);
    assert_eq!(harness.engine.lost(Id(1), ms(40_000)), Some(LostReason::Unreachable));
}

#[test]
fn another_guard_of_the_owner_keeps_a_silent_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(1_000, request(1, 30_000)));
    harness.hold(2, 2, request(1, 30_000));
    assert!(renewals(&mut harness, 60_000).len() > 4);
    harness.release(60_000, 2, 9);
    harness.answer(60_001, Ok(Reply::Int(0)));
    assert!(renewals(&mut harness, 120_000).is_empty());
    assert_eq!(harness.engine.lost(Id(1), ms(120_000)), Some(LostReason::Silent));
}

#[test]
fn an_ensure_counts_as_a_beat() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(5_000, request(1, 30_000)));
    harness.step(8_000, Event::Ensure { id: Id(2), hold: Id(1), least: Duration::from_secs(1) });
    assert_eq!(renewals(&mut harness, 12_000).len(), 1);
}

#[test]
fn a_hold_is_valid_for_its_lease_without_the_margin_also_after_renewals() {
    let mut harness = Harness::new();
    let margin = Duration::from_secs(10);
    harness.hold(0, 1, Request { margin, ..request(1, 30_000) });
    assert_eq!(harness.engine.remaining(Id(1), ms(1)), Duration::from_millis(19_697));
    let sent = renewals(&mut harness, 7_000);
    assert_eq!(sent.len(), 1, "renewals take a third of what is trusted");
    let left = harness.engine.remaining(Id(1), ms(sent[0]));
    assert!(left >= Duration::from_millis(19_698) && left < Duration::from_millis(19_699), "{left:?}");
    let most = Duration::from_millis(19_698);
    harness.step(7_100, Event::Ensure { id: Id(2), hold: Id(1), least: most });
    let too_long = harness.claim(7_100, 2);
    assert_eq!(too_long, Some(Outcome::Ensured(Err(EnsureFailure::TooLong { most }))));
}

#[test]
fn a_reentry_with_a_margin_shortens_the_trust_of_the_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(2, 2, Request { margin: Duration::from_secs(10), ..request(1, 30_000) });
    for hold in [1, 2] {
        assert_eq!(harness.engine.remaining(Id(hold), ms(3)), Duration::from_millis(19_697));
    }
}

#[test]
fn a_hold_with_a_margin_passes_only_to_a_waiter_with_the_same() {
    for (margin, passes) in [(0, false), (2, true)] {
        let mut harness = Harness::new();
        harness.hold(0, 1, Request { margin: Duration::from_secs(2), ..request(1, 30_000) });
        let margin = Duration::from_secs(margin);
        harness.step(1, Event::Acquire(Id(2), Request { margin, ..request(2, 30_000) }));
        harness.step(1, Event::Release { hold: Id(1), report: None });
        assert_eq!(harness.claim(1, 2).is_some(), passes);
    }
}

#[test]
fn a_grant_that_arrives_within_the_margin_is_undone() {
    let mut harness = Harness::new();
    let margin = Duration::from_secs(25);
    harness.step(0, Event::Acquire(Id(1), Request { margin, ..request(1, 30_000) }));
    harness.answer(4_900, Ok(Reply::Nil));
    assert_eq!(harness.claim(4_900, 1), None);
    assert_eq!(harness.sent[0].1.verb(), Verb::Release);
}

#[test]
fn an_extension_sets_its_lease_once() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(100, Event::Extend { id: Id(2), hold: Id(1), by: Duration::from_secs(600) });
    assert_eq!(harness.answer(101, Ok(Reply::Int(1))).argument("lease_ms"), Some("600000"));
    assert_eq!(harness.claim(101, 2), Some(Outcome::Ensured(Ok(()))));
    assert_eq!(harness.engine.remaining(Id(1), ms(100)), Duration::from_millis(593_998));
    harness.step(10_200, Event::Tick);
    assert_eq!(harness.answer(10_201, Ok(Reply::Int(1))).argument("lease_ms"), Some("30000"));
    assert_eq!(harness.engine.remaining(Id(1), ms(100)), Duration::from_millis(593_998), "it stays");
}

#[test]
fn an_extension_waits_for_the_renewal_on_its_way_and_follows_it() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(10_100, Event::Tick);
    harness.step(10_101, Event::Extend { id: Id(2), hold: Id(1), by: Duration::from_secs(600) });
    assert_eq!(harness.verbs(), [Verb::Renew]);
    harness.answer(10_102, Ok(Reply::Int(1)));
    assert_eq!(harness.claim(10_102, 2), None);
    assert_eq!(harness.answer(10_103, Ok(Reply::Int(1))).argument("lease_ms"), Some("600000"));
    assert_eq!(harness.claim(10_103, 2), Some(Outcome::Ensured(Ok(()))));
}

#[test]
fn an_unanswered_extension_extends_no_trust_and_is_undone_with_the_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { watchdog: false, ..request(1, 3_000) });
    harness.step(100, Event::Extend { id: Id(2), hold: Id(1), by: Duration::from_secs(600) });
    harness.answer(200, unknown(Verb::Renew));
    let failed = harness.claim(201, 2);
    assert!(matches!(failed, Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. })))), "{failed:?}");
    assert_eq!(harness.engine.remaining(Id(1), ms(100)), Duration::from_millis(2_868));
    harness.step(2_968, Event::Tick);
    assert_eq!(harness.engine.lost(Id(1), ms(2_968)), Some(LostReason::Expired));
    assert_eq!(harness.verbs(), [Verb::Release], "the server may keep the key for ten minutes");
}

#[test]
fn a_server_that_takes_over_gives_a_silent_hold_no_more_than_it_has() {
    let mut harness = Harness::new();
    harness.hold(0, 1, silent_for(5_000, request(1, 30_000)));
    harness.step(20_000, Event::Replaced(Scope::All));
    assert_eq!(harness.answer(20_001, Ok(Reply::Int(1))).argument("lease_ms"), Some("10000"));
    assert!(renewals(&mut harness, 60_000).is_empty());
    assert_eq!(harness.engine.lost(Id(1), ms(29_698)), Some(LostReason::Silent));
}

/// A hold that was extended to ten minutes, and whose server is replaced.
fn extended_and_replaced() -> Harness {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(100, Event::Extend { id: Id(2), hold: Id(1), by: Duration::from_secs(600) });
    harness.answer(101, Ok(Reply::Int(1)));
    harness.step(5_000, Event::Replaced(Scope::All));
    harness
}

#[test]
fn a_server_that_takes_over_gets_the_rest_of_an_extension() {
    let mut harness = extended_and_replaced();
    assert_eq!(harness.answer(5_001, Ok(Reply::Int(1))).argument("lease_ms"), Some("595100"));
    assert!(harness.engine.remaining(Id(1), ms(100)) >= Duration::from_millis(593_998));
}

#[test]
fn a_failed_check_of_an_extension_is_repeated_with_its_rest() {
    let mut harness = extended_and_replaced();
    let (mut at, mut checks) = (5_001, 0);
    while at < 20_000 {
        while !harness.sent.is_empty() {
            let call = harness.answer(at, refused(StoreErrorKind::Busy));
            let lease: u64 = call.argument("lease_ms").unwrap().parse().unwrap();
            assert!(lease > 500_000, "at {at} the new server was asked for {lease} ms");
            checks += 1;
        }
        let next = harness.engine.next_timer();
        at = u64::try_from(next.since(ms(0)).as_millis()).unwrap() + 1;
        harness.step(at, Event::Tick);
    }
    assert!(checks > 5, "{checks}");
    harness.answer(at, Ok(Reply::Int(1)));
    let sent = renewals(&mut harness, 60_000);
    assert!((2..=6).contains(&sent.len()), "then renewals go on: {sent:?}");
}

#[test]
fn a_margin_ends_with_its_guard() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 10_000));
    harness.hold(2, 2, Request { margin: Duration::from_secs(15), ..request(1, 60_000) });
    harness.release(10, 2, 9);
    harness.answer(11, Ok(Reply::Int(0)));
    let sent = renewals(&mut harness, 90_000);
    assert!((20..=40).contains(&sent.len()), "{sent:?}");
    assert_eq!(harness.engine.lost(Id(1), ms(90_000)), None);
}
