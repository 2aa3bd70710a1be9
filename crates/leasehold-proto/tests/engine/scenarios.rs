//! Single orders of events in which a wrong engine reports a false outcome or forgets a caller.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, CloseReport, EnsureFailure, Event, Id, LostReason, Outcome, Request, Subject, Wait,
};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::{Applied, Channel, Moment, Name, Reply, StoreError, StoreErrorKind, Verb};

use crate::harness::{Harness, bounded, millis, ms, next_timer, refused, request, subject, unknown};

#[test]
fn a_bounded_re_entry_does_not_shorten_the_outer_hold() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 3_000));
    harness.hold(10, 2, bounded(request(1, 3_000), 1_000));
    harness.release(20, 2, 9);
    harness.answer(21, Ok(Reply::Int(0)));
    harness.step(1_100, Event::Tick);
    let renewal = harness.answer(1_101, Ok(Reply::Int(1)));
    assert_eq!((renewal.verb(), renewal.argument("lease_ms")), (Verb::Renew, Some("3000")));
    assert!(harness.engine.is_held(Id(1), ms(3_500)));
}

#[test]
fn the_most_generous_hold_sets_the_lease_of_a_re_entry() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    let entered = harness.hold(2, 2, bounded(request(1, 30_000), 1_000));
    assert_eq!(entered.argument("lease_ms"), Some("30000"));
    let again = harness.hold(500, 3, request(1, 30_000));
    assert_eq!((again.verb(), again.argument("lease_ms")), (Verb::Renew, Some("30000")));
}

#[test]
fn a_refused_re_entry_is_retried_after_the_outer_hold_has_ended() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(2, Event::Acquire(Id(2), request(1, 30_000)));
    harness.answer(3, refused(StoreErrorKind::Unreachable));
    harness.release(4, 1, 9);
    let entered = harness.answer(5, Ok(Reply::Int(1)));
    assert_eq!(
        (entered.verb(), entered.argument("count")),
        (Verb::Renew, Some("1")),
        "never a fresh acquire"
    );
    assert!(matches!(harness.claim(6, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(matches!(harness.claim(6, 9), Some(Outcome::Released(Ok(true)))));
}

#[test]
fn a_too_short_lease_of_one_waiter_does_not_block_the_others() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 3)));
    harness.step(0, Event::Acquire(Id(2), request(2, 30_000)));
    let mut now = 0;
    while harness.claim(now, 1).is_none() {
        now += 5;
        // Each answer takes 5 ms, which is more than the lease of the first waiter.
        for _ in 0..harness.sent.len() {
            let reply = if harness.sent[0].1.verb() == Verb::Release { Reply::Int(1) } else { Reply::Nil };
            harness.answer(now, Ok(reply));
        }
        harness.step(now, Event::Tick);
        assert!(now < 20_000, "the first waiter is never told");
    }
    while !harness.sent.is_empty() {
        let reply = if harness.sent[0].1.verb() == Verb::Release { Reply::Int(1) } else { Reply::Nil };
        harness.answer(now + 1, Ok(reply));
    }
    let told = harness.claim(now + 2, 2);
    assert!(matches!(told, Some(Outcome::Acquired(Ok(_)))), "{told:?}");
}

#[test]
fn a_close_reports_unconfirmed_releases() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(0, 2, Request { subject: subject("y"), ..request(2, 30_000) });
    harness.step(2, Event::Close(Id(5)));
    harness.answer(3, Ok(Reply::Int(1)));
    harness.answer(3, refused(StoreErrorKind::Misconfigured));
    assert_eq!(harness.claim(4, 5), None, "it goes on being tried");
    harness.step(3_010, Event::Tick);
    let Some(Outcome::Closed(CloseReport { released, unconfirmed, .. })) = harness.claim(3_011, 5) else {
        panic!("no outcome was reported");
    };
    assert_eq!((released, unconfirmed), (1, 1));
}

/// Holds two locks, and releases the first one at 100 ms behind a call of the second one that is answered at `at`.
fn release_behind_an_answer(at: u64) -> Harness {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(0, 2, Request { subject: subject("y"), ..request(2, 30_000) });
    harness.step(100, Event::Ensure { id: Id(3), hold: Id(2), least: Duration::from_millis(29_690) });
    harness.release(100, 1, 9);
    assert_eq!(harness.answer(at, Ok(Reply::Int(1))).verb(), Verb::Renew);
    harness
}

#[test]
fn a_release_behind_calls_that_are_answered_is_not_late() {
    let mut harness = release_behind_an_answer(2_000);
    harness.step(4_999, Event::Tick);
    assert_eq!(harness.claim(4_999, 9), None, "the server answered another call within the timeout");
    harness.answer(4_999, Ok(Reply::Int(1)));
    assert_eq!(harness.claim(4_999, 9), Some(Outcome::Released(Ok(true))));
}

#[test]
fn a_release_is_reported_a_timeout_after_the_last_answer_and_within_two() {
    for (answered_at, reported_at) in [(101, 3_101), (2_000, 5_000), (3_099, 6_099)] {
        let mut harness = release_behind_an_answer(answered_at);
        assert_eq!(harness.claim(reported_at - 1, 9), None);
        let told = harness.claim(reported_at, 9);
        assert!(matches!(told, Some(Outcome::Released(Err(_)))), "{told:?} at {reported_at}");
    }
    let mut harness = release_behind_an_answer(2_000);
    for (id, at) in [(4, 4_000), (5, 6_000)] {
        harness.step(at, Event::Ensure { id: Id(id), hold: Id(2), least: Duration::from_millis(29_690) });
        let (call, _) = harness.sent.pop().expect("it is the renewal");
        harness.step(at, Event::Replied(call, Ok(Reply::Int(1))));
    }
    assert_eq!(harness.claim(6_099, 9), None);
    let told = harness.claim(6_100, 9);
    assert!(matches!(told, Some(Outcome::Released(Err(_)))), "{told:?}, however many others are answered");
}

#[test]
fn a_release_behind_answered_calls_is_reported_when_its_own_call_fails() {
    let mut harness = release_behind_an_answer(3_000);
    harness.answer(3_100, unknown(Verb::Release));
    let told = harness.claim(3_100, 9);
    assert!(matches!(told, Some(Outcome::Released(Err(_)))), "{told:?}");
}

#[test]
fn a_release_that_is_sent_again_is_reported_a_timeout_after_its_begin() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.release(100, 1, 9);
    harness.answer(2_000, unknown(Verb::Release));
    harness.step(2_500, Event::Tick);
    assert_eq!(harness.sent.len(), 1, "it is on its way again");
    assert_eq!(harness.claim(3_099, 9), None);
    let told = harness.claim(3_100, 9);
    assert!(matches!(told, Some(Outcome::Released(Err(_)))), "{told:?}");
}

#[test]
fn a_release_is_retried_after_any_server_error() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.release(2, 1, 9);
    harness.answer(3, refused(StoreErrorKind::PermissionDenied));
    assert!(matches!(harness.claim(4, 9), Some(Outcome::Released(Err(_)))), "who waits is told at once");
    harness.step(5_000, Event::Tick);
    assert_eq!(harness.answer(5_001, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn the_undo_of_an_unknown_acquire_outlives_the_lease() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { wait: Wait::Once, ..request(1, 500) }));
    let unknown =
        || Err(StoreError::new(StoreErrorKind::Timeout, Verb::Acquire, "x".into(), Applied::Unknown));
    harness.answer(100, unknown());
    for at in [1_000, 5_000, 20_000] {
        harness.step(at, Event::Tick);
        assert_eq!(harness.answer(at + 1, unknown()).verb(), Verb::Release, "at {at} ms");
    }
    harness.step(30_000, Event::Tick);
    harness.answer(30_001, Ok(Reply::Int(1)));
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER, "an answer ends it");
}

#[test]
fn the_reason_of_a_loss_does_not_change() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    assert_eq!(
        harness.engine.lost(Id(1), ms(100_000)),
        Some(LostReason::Unreachable),
        "before the engine has seen it"
    );
    harness.step(100_000, Event::Tick);
    assert_eq!(harness.engine.lost(Id(1), ms(100_000)), Some(LostReason::Unreachable));
}

#[test]
fn an_ended_fixed_lease_has_expired_despite_other_failures() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { watchdog: false, ..request(1, 3_000) });
    harness.step(500, Event::Ensure { id: Id(3), hold: Id(1), least: Duration::from_millis(2_800) });
    harness.answer(501, refused(StoreErrorKind::Busy));
    assert!(matches!(harness.claim(502, 3), Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. })))));
    harness.step(5_000, Event::Tick);
    assert_eq!(harness.engine.lost(Id(1), ms(5_000)), Some(LostReason::Expired));
}

#[test]
fn a_partial_release_succeeds_before_the_server_count_follows() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(2, 2, request(1, 30_000));
    harness.release(4, 2, 9);
    harness.answer(5, refused(StoreErrorKind::Unreachable));
    assert!(matches!(harness.claim(6, 9), Some(Outcome::Released(Ok(true)))));
    assert!(harness.engine.is_held(Id(1), ms(7)));
    harness.step(600, Event::Tick);
    assert_eq!(harness.answer(601, Ok(Reply::Int(0))).argument("remaining"), Some("1"), "the count follows");
}

#[test]
fn a_re_entry_refused_in_every_attempt_is_not_applied() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(2, Event::Acquire(Id(2), Request { wait: Wait::Until(ms(5)), ..request(1, 30_000) }));
    harness.answer(3, refused(StoreErrorKind::Unreachable));
    harness.step(5, Event::Tick);
    match harness.claim(5, 2) {
        Some(Outcome::Acquired(Err(AcquireFailure::Failed(error)))) => {
            assert_eq!((error.kind, error.applied), (StoreErrorKind::Unreachable, Applied::No));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_hold_has_its_own_number_of_renewals() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(0), ..request(1, 3_000) });
    harness.step(1_100, Event::Tick);
    assert!(harness.sent.is_empty(), "a hold that may not be renewed is not");
    harness.hold(1_200, 2, Request { max_renewals: Some(1), ..request(1, 3_000) });
    harness.step(2_300, Event::Tick);
    assert_eq!(harness.answer(2_301, Ok(Reply::Int(1))).verb(), Verb::Renew);
    harness.step(3_500, Event::Tick);
    assert!(harness.sent.is_empty(), "once is once");
    harness.step(10_000, Event::Tick);
    assert_eq!(harness.engine.lost(Id(1), ms(10_000)), Some(LostReason::MaxRenewals));
}

#[test]
fn a_hold_ended_by_its_own_terms_names_the_term() {
    type Bound = fn(Request) -> Request;
    let bounds: [(Bound, LostReason); 4] = [
        (|request| Request { watchdog: false, ..request }, LostReason::Expired),
        (|request| Request { max_hold: Some(Duration::from_millis(2_000)), ..request }, LostReason::MaxHold),
        (
            |request| Request { watchdog: false, max_hold: Some(Duration::from_millis(2_000)), ..request },
            LostReason::MaxHold,
        ),
        (|request| Request { max_renewals: Some(0), ..request }, LostReason::MaxRenewals),
    ];
    for (bound, reason) in bounds {
        let mut harness = Harness::new();
        harness.hold(0, 1, bound(request(1, 3_000)));
        assert_eq!(harness.engine.lost(Id(1), ms(10_000)), Some(reason), "before the engine has seen it");
        harness.step(1_000, Event::Tick);
        while !harness.sent.is_empty() {
            harness.answer(1_001, Ok(Reply::Int(1)));
        }
        harness.step(10_000, Event::Tick);
        assert_eq!(harness.engine.lost(Id(1), ms(10_000)), Some(reason));
        assert!(reason.is_by_own_terms());
    }
}

/// Holds a lock for at most 4 s, and once more without a bound. The second hold ends by an event while a renewal that
/// keeps the key for 5 s is on its way. Returns what is sent after the 4 s.
fn sent_behind_the_shorter_bound(ends: Event) -> Vec<Verb> {
    let mut harness = Harness::new();
    harness.hold(0, 1, bounded(request(1, 3_000), 4_000));
    harness.hold(2, 2, request(1, 3_000));
    harness.step(2_000, Event::Tick);
    assert_eq!(harness.sent[0].1.verb(), Verb::Renew);
    harness.step(2_001, ends);
    for at in 2_002..5_000 {
        while !harness.sent.is_empty() && at < 4_000 {
            harness.answer(at, Ok(Reply::Int(1)));
        }
        harness.step(at, Event::Tick);
    }
    assert_eq!(harness.engine.lost(Id(1), ms(4_100)), Some(LostReason::MaxHold));
    harness.verbs()
}

#[test]
fn a_key_that_a_hold_that_left_has_kept_is_released_at_the_bound_of_the_other() {
    let left = sent_behind_the_shorter_bound(Event::Release { hold: Id(2), report: None });
    assert_eq!(left, [Verb::Release], "the others wait for as long as the renewal has set");
    let detached = sent_behind_the_shorter_bound(Event::Detach(Id(2)));
    assert_eq!(detached, [], "it is left to its lease");
}

#[test]
fn a_longer_lease_ends_with_the_hold_that_requested_it() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 3_000));
    let entered = harness.hold(2, 2, request(1, 30_000));
    assert_eq!(entered.argument("lease_ms"), Some("30000"));
    harness.release(4, 2, 9);
    harness.answer(5, Ok(Reply::Int(0)));
    harness.step(1_100, Event::Tick);
    harness.step(2_200, Event::Tick);
    let renewal = harness.sent.iter().find(|(_, call)| call.verb() == Verb::Renew);
    assert_eq!(renewal.map(|(_, call)| call.argument("lease_ms")), Some(Some("3000")));
}

#[test]
fn an_unknown_acquire_is_bounded_from_when_it_may_still_arrive() {
    let mut harness = Harness::new();
    let soon = Wait::Until(ms(37));
    harness.step(0, Event::Acquire(Id(1), Request { wait: soon, ..request(1, 900) }));
    harness.step(37, Event::Tick);
    let Some(Outcome::Acquired(Err(AcquireFailure::Unknown { free_within, .. }))) = harness.claim(37, 1)
    else {
        panic!("its question is on its way");
    };
    // A stalled network delays the attempt until its connection is closed, after the timeout of 3 s.
    assert!(free_within.bound() >= Some(Duration::from_millis(3_000 + 900 - 37)), "{free_within:?}");
}

#[test]
fn a_release_is_bounded_from_when_a_renewal_may_still_arrive() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 3_000));
    harness.step(1_000, Event::Tick);
    assert_eq!(harness.sent[0].1.verb(), Verb::Renew);
    harness.release(1_500, 1, 2);
    harness.step(4_500, Event::Tick);
    let Some(Outcome::Released(Err(failure))) = harness.claim(4_500, 2) else {
        panic!("nothing was answered within the timeout");
    };
    let bound = failure.free_within.bound();
    assert!(bound >= Some(Duration::from_millis(3_000)), "{bound:?}");
}

#[test]
fn a_failed_renewal_is_retried_in_time_while_its_holds_change() {
    let mut harness = Harness::new();
    for hold in 1..=9 {
        harness.hold(hold, hold, request(1, 60_000));
    }
    let mut at = 20_100;
    harness.step(at, Event::Tick);
    for _ in 0..8 {
        assert_eq!(harness.answer(at, refused(StoreErrorKind::Busy)).verb(), Verb::Renew);
        at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
    }
    harness.answer(at, refused(StoreErrorKind::Busy));
    let retry = millis(next_timer(&mut harness.engine));
    assert!(retry > at + 200, "the pauses have grown");
    for hold in 2..=8 {
        harness.release(at + hold, hold, 100 + hold);
        harness.answer(at + hold, Ok(Reply::Int(0)));
    }
    harness.step(retry, Event::Tick);
    assert_eq!(harness.answer(retry, Ok(Reply::Int(1))).verb(), Verb::Renew, "it is sent when it was due");
}

#[test]
fn a_release_is_reported_while_the_other_hold_is_detached() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(2, 2, request(1, 30_000));
    harness.release(10, 1, 9);
    harness.step(11, Event::Detach(Id(2)));
    harness.answer(12, Ok(Reply::Int(0)));
    assert_eq!(harness.claim(12, 9), Some(Outcome::Released(Ok(true))));
}

#[test]
fn an_ensure_behind_a_short_renewal_ends_within_the_timeout() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(10_000, Event::Tick);
    harness.step(12_000, Event::Ensure { id: Id(2), hold: Id(1), least: Duration::from_millis(29_000) });
    // The renewal in flight gives less than that, so another one is sent.
    assert_eq!(harness.answer(12_500, Ok(Reply::Int(1))).verb(), Verb::Renew);
    assert_eq!(harness.sent.len(), 1);
    harness.step(15_000, Event::Tick);
    let outcome = harness.claim(15_000, 2);
    let Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. }))) = outcome else {
        panic!("3 s have passed: {outcome:?}");
    };
    assert!(harness.engine.is_held(Id(1), ms(15_000)));
}

#[test]
fn an_expired_unclaimed_grant_is_reported_when_the_retries_fail() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.answer(1, Ok(Reply::Nil));
    // The caller does not claim the grant for five seconds. From then on its release fails, and so does every attempt.
    let mut at = 5_002;
    harness.step(at, Event::Tick);
    assert_eq!(harness.claim(at, 1), None);
    let outcome = loop {
        while !harness.sent.is_empty() {
            harness.answer(at, refused(StoreErrorKind::Unreachable));
        }
        if let Some(outcome) = harness.claim(at, 1) {
            break outcome;
        }
        at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
    };
    let Outcome::Acquired(Err(AcquireFailure::Unknown { free_within, .. })) = outcome else {
        panic!("the first grant may still stand: {outcome:?}");
    };
    assert!(free_within.bound() > Some(Duration::from_secs(20)), "{free_within:?}");
}

#[test]
fn a_leaving_waiter_is_removed_even_after_its_lease_would_have_expired() {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &FAIR);
    let soon = Wait::Until(ms(100));
    harness.step(0, Event::Acquire(Id(1), Request { subject, wait: soon, ..request(1, 300) }));
    harness.answer(1, Ok(Reply::Int(10_000)));
    harness.step(100, Event::Tick);
    assert!(matches!(harness.claim(100, 1), Some(Outcome::Acquired(Err(AcquireFailure::Contended)))));
    // The place of a waiter in the queue lasts for seconds, whatever its lease.
    let mut at = 100;
    while at < 2_000 {
        assert_eq!(harness.answer(at, refused(StoreErrorKind::Busy)).verb(), Verb::Release);
        at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
    }
    assert_eq!(harness.answer(at, Ok(Reply::Nil)).verb(), Verb::Release);
    assert!(harness.sent.is_empty());
}

#[test]
fn an_expired_write_hold_is_removed_before_its_owner_reads() {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &WRITE_LOCK);
    harness.hold(0, 1, Request { subject, watchdog: false, ..request(1, 30_000) });
    // The hold is over by its own clock. The server keeps it for the drift that was subtracted, and a reader of the
    // same owner that is admitted now would keep it for longer.
    harness.step(29_700, Event::Tick);
    let (_, call) = harness.sent.first().expect("it is given back");
    assert_eq!(call.verb(), Verb::Release);
}

#[test]
fn an_expired_read_hold_is_removed_from_the_shared_hash() {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &READ_LOCK);
    let acquired = harness.hold(0, 1, Request { subject, watchdog: false, ..request(1, 30_000) });
    harness.step(29_698, Event::Tick);
    let given_back = harness.answer(29_699, Ok(Reply::Int(0)));
    assert_eq!((given_back.verb(), given_back.argument("remaining")), (Verb::Release, Some("0")));
    assert_eq!(given_back.argument("owner"), acquired.argument("owner"));
}

#[test]
fn a_renewal_with_a_shorter_lease_does_not_shorten_the_confirmed_time() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 3_000));
    harness.hold(2, 2, request(1, 30_000));
    harness.release(4, 2, 9);
    harness.answer(5, Ok(Reply::Int(0)));
    harness.step(1_100, Event::Tick);
    assert_eq!(harness.answer(1_101, Ok(Reply::Int(1))).argument("lease_ms"), Some("3000"));
    assert!(harness.engine.is_held(Id(1), ms(29_699)), "the server keeps the longer one");
    assert!(!harness.engine.is_held(Id(1), ms(29_700)));
}

#[test]
fn a_waiter_that_joins_an_active_subscription_retries() {
    let mut harness = Harness::new();
    let subject = |recipe| Subject::new(&Name::new("x").unwrap(), recipe);
    let held = || Ok(Reply::Int(20_000));
    harness.step(0, Event::Acquire(Id(1), Request { subject: subject(&WRITE_LOCK), ..request(1, 30_000) }));
    let call = harness.answer(1, held());
    let channel = Channel::new("redisson_rwlock:{x}");
    harness.step(2, Event::Listening(channel.clone()));
    harness.answer(3, held());
    // A reader's attempt is refused. The holder releases before that reply arrives, and only the writer gets the
    // message.
    harness.step(4, Event::Acquire(Id(2), Request { subject: subject(&READ_LOCK), ..request(2, 30_000) }));
    harness.step(5, Event::Message(channel));
    assert_eq!(harness.answer(6, held()).verb(), Verb::Acquire);
    let again = harness.sent.iter().filter(|(_, sent)| sent.argument("yields").is_some()).count();
    assert_eq!(again, 1, "the reader asks once more, {call:?} does anyway");
}

#[test]
fn an_attempt_cut_by_the_deadline_behind_another_waiter_is_contended() {
    let mut harness = Harness::new();
    harness.hold_at_once(1, 1, request(1, 30_000));
    for (id, until) in [(2, 40), (3, 39)] {
        let wait = Wait::Until(ms(until));
        harness.step(id, Event::Acquire(Id(id), Request { wait, ..request(id, 30_000) }));
    }
    harness.release(30, 1, 9);
    harness.answer(31, Ok(Reply::Int(1)));
    assert_eq!(harness.sent.len(), 1, "the first in line asks");
    harness.step(40, Event::Tick);
    for id in [2, 3] {
        let told = harness.claim(40, id);
        assert_eq!(told, Some(Outcome::Acquired(Err(AcquireFailure::Contended))), "{id}");
    }
    harness.answer(41, Ok(Reply::Nil));
    assert_eq!(
        harness.answer(42, Ok(Reply::Int(1))).verb(),
        Verb::Release,
        "what came too late is given back"
    );
}

#[test]
fn a_deadline_at_a_silent_server_is_a_failure_and_not_contention() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    let wait = Wait::Until(ms(40));
    harness.step(2, Event::Acquire(Id(2), Request { wait, ..request(2, 30_000) }));
    harness.step(40, Event::Tick);
    let told = harness.claim(40, 2);
    assert!(matches!(told, Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))), "{told:?}");
}
