//! Single orders of events in which a wrong engine reports a false outcome or forgets a caller.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, CloseReport, EnsureFailure, Event, Id, LostReason, Outcome, Request, Subject, Wait,
};
use leasehold_proto::recipe::fair::Fair;
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::{Applied, Channel, Moment, Name, Reply, StoreError, StoreErrorKind, Verb};

use crate::desk::{Desk, bounded, millis, ms, refused, request, subject};

#[test]
fn a_bounded_re_entry_takes_nothing_from_the_outer_hold() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 3_000));
    desk.hold(10, 2, bounded(request(1, 3_000), 1_000));
    desk.release(20, 2, 9);
    desk.answer(21, Ok(Reply::Int(0)));
    desk.step(1_100, Event::Tick);
    let renewal = desk.answer(1_101, Ok(Reply::Int(1)));
    assert_eq!((renewal.verb(), renewal.argument("lease_ms")), (Verb::Renew, Some("3000")));
    assert!(desk.engine.is_held(Id(1), ms(3_500)));
}

#[test]
fn the_most_generous_hold_decides_about_the_lease_of_a_re_entry() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    let entered = desk.hold(2, 2, bounded(request(1, 30_000), 1_000));
    assert_eq!(entered.argument("lease_ms"), Some("30000"));
    let again = desk.hold(500, 3, request(1, 30_000));
    assert_eq!((again.verb(), again.argument("lease_ms")), (Verb::Renew, Some("30000")));
}

#[test]
fn a_re_entry_that_was_refused_is_asked_again_also_when_the_outer_hold_has_gone() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.step(2, Event::Acquire(Id(2), request(1, 30_000)));
    desk.answer(3, refused(StoreErrorKind::Unreachable));
    desk.release(4, 1, 9);
    let entered = desk.answer(5, Ok(Reply::Int(1)));
    assert_eq!(
        (entered.verb(), entered.argument("count")),
        (Verb::Renew, Some("1")),
        "never a fresh acquire"
    );
    assert!(matches!(desk.claim(6, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(matches!(desk.claim(6, 9), Some(Outcome::Released(Ok(true)))));
}

#[test]
fn a_lease_that_is_too_short_is_nobody_elses_trouble() {
    let mut desk = Desk::new();
    desk.step(0, Event::Acquire(Id(1), request(1, 3)));
    desk.step(0, Event::Acquire(Id(2), request(2, 30_000)));
    let mut now = 0;
    while desk.claim(now, 1).is_none() {
        now += 5;
        // Each answer takes 5 ms, which is more than the lease of the first waiter.
        for _ in 0..desk.sent.len() {
            let reply = if desk.sent[0].1.verb() == Verb::Release { Reply::Int(1) } else { Reply::Nil };
            desk.answer(now, Ok(reply));
        }
        desk.step(now, Event::Tick);
        assert!(now < 20_000, "the first waiter is never told");
    }
    while !desk.sent.is_empty() {
        let reply = if desk.sent[0].1.verb() == Verb::Release { Reply::Int(1) } else { Reply::Nil };
        desk.answer(now + 1, Ok(reply));
    }
    let told = desk.claim(now + 2, 2);
    assert!(matches!(told, Some(Outcome::Acquired(Ok(_)))), "{told:?}");
}

#[test]
fn a_close_says_what_it_could_not_release() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.hold(0, 2, Request { subject: subject("y"), ..request(2, 30_000) });
    desk.step(2, Event::Close(Id(5)));
    desk.answer(3, Ok(Reply::Int(1)));
    desk.answer(3, refused(StoreErrorKind::Misconfigured));
    assert_eq!(desk.claim(4, 5), None, "it goes on being tried");
    desk.step(3_010, Event::Tick);
    let Some(Outcome::Closed(CloseReport { released, unconfirmed, .. })) = desk.claim(3_011, 5) else {
        panic!("nobody was told");
    };
    assert_eq!((released, unconfirmed), (1, 1));
}

#[test]
fn a_release_goes_on_being_tried_whatever_the_server_says() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.release(2, 1, 9);
    desk.answer(3, refused(StoreErrorKind::PermissionDenied));
    assert!(matches!(desk.claim(4, 9), Some(Outcome::Released(Err(_)))), "who waits is told at once");
    desk.step(5_000, Event::Tick);
    assert_eq!(desk.answer(5_001, Ok(Reply::Int(1))).verb(), Verb::Release);
}

#[test]
fn the_undo_of_an_unknown_acquire_outlives_the_lease() {
    let mut desk = Desk::new();
    desk.step(0, Event::Acquire(Id(1), Request { wait: Wait::Once, ..request(1, 500) }));
    let unknown =
        || Err(StoreError::new(StoreErrorKind::Timeout, Verb::Acquire, "x".into(), Applied::Unknown));
    desk.answer(100, unknown());
    for at in [1_000, 5_000, 20_000] {
        desk.step(at, Event::Tick);
        assert_eq!(desk.answer(at + 1, unknown()).verb(), Verb::Release, "at {at} ms");
    }
    desk.step(30_000, Event::Tick);
    desk.answer(30_001, Ok(Reply::Int(1)));
    assert_eq!(desk.engine.next_timer(), Moment::NEVER, "an answer ends it");
}

#[test]
fn the_reason_of_a_loss_does_not_change() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    assert_eq!(
        desk.engine.lost(Id(1), ms(100_000)),
        Some(LostReason::Unreachable),
        "before the engine has seen it"
    );
    desk.step(100_000, Event::Tick);
    assert_eq!(desk.engine.lost(Id(1), ms(100_000)), Some(LostReason::Unreachable));
}

#[test]
fn a_fixed_lease_that_ends_has_expired_whatever_else_failed() {
    let mut desk = Desk::new();
    desk.hold(0, 1, Request { watchdog: false, ..request(1, 3_000) });
    desk.step(500, Event::Ensure { id: Id(3), hold: Id(1), least: Duration::from_millis(2_800) });
    desk.answer(501, refused(StoreErrorKind::Busy));
    assert!(matches!(desk.claim(502, 3), Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. })))));
    desk.step(5_000, Event::Tick);
    assert_eq!(desk.engine.lost(Id(1), ms(5_000)), Some(LostReason::Expired));
}

#[test]
fn one_hold_of_several_is_given_back_whatever_the_server_counts() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.hold(2, 2, request(1, 30_000));
    desk.release(4, 2, 9);
    desk.answer(5, refused(StoreErrorKind::Unreachable));
    assert!(matches!(desk.claim(6, 9), Some(Outcome::Released(Ok(true)))));
    assert!(desk.engine.is_held(Id(1), ms(7)));
    desk.step(600, Event::Tick);
    assert_eq!(desk.answer(601, Ok(Reply::Int(0))).argument("remaining"), Some("1"), "the count follows");
}

#[test]
fn a_re_entry_whose_every_attempt_was_refused_is_certainly_not_held() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.step(2, Event::Acquire(Id(2), Request { wait: Wait::Until(ms(5)), ..request(1, 30_000) }));
    desk.answer(3, refused(StoreErrorKind::Unreachable));
    desk.step(5, Event::Tick);
    match desk.claim(5, 2) {
        Some(Outcome::Acquired(Err(AcquireFailure::Failed(error)))) => {
            assert_eq!((error.kind, error.applied), (StoreErrorKind::Unreachable, Applied::No));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_hold_has_its_own_number_of_renewals() {
    let mut desk = Desk::new();
    desk.hold(0, 1, Request { max_renewals: Some(0), ..request(1, 3_000) });
    desk.step(1_100, Event::Tick);
    assert!(desk.sent.is_empty(), "a hold that may not be renewed is not");
    desk.hold(1_200, 2, Request { max_renewals: Some(1), ..request(1, 3_000) });
    desk.step(2_300, Event::Tick);
    assert_eq!(desk.answer(2_301, Ok(Reply::Int(1))).verb(), Verb::Renew);
    desk.step(3_500, Event::Tick);
    assert!(desk.sent.is_empty(), "once is once");
    desk.step(10_000, Event::Tick);
    assert_eq!(desk.engine.lost(Id(1), ms(10_000)), Some(LostReason::MaxRenewals));
}

#[test]
fn a_hold_that_its_own_terms_end_says_which() {
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
        let mut desk = Desk::new();
        desk.hold(0, 1, bound(request(1, 3_000)));
        assert_eq!(desk.engine.lost(Id(1), ms(10_000)), Some(reason), "before the engine has seen it");
        desk.step(1_000, Event::Tick);
        while !desk.sent.is_empty() {
            desk.answer(1_001, Ok(Reply::Int(1)));
        }
        desk.step(10_000, Event::Tick);
        assert_eq!(desk.engine.lost(Id(1), ms(10_000)), Some(reason));
        assert!(reason.is_by_own_terms());
    }
}

#[test]
fn a_longer_lease_goes_with_the_hold_that_asked_for_it() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 3_000));
    let entered = desk.hold(2, 2, request(1, 30_000));
    assert_eq!(entered.argument("lease_ms"), Some("30000"));
    desk.release(4, 2, 9);
    desk.answer(5, Ok(Reply::Int(0)));
    desk.step(1_100, Event::Tick);
    desk.step(2_200, Event::Tick);
    let renewal = desk.sent.iter().find(|(_, call)| call.verb() == Verb::Renew);
    assert_eq!(renewal.map(|(_, call)| call.argument("lease_ms")), Some(Some("3000")));
}

#[test]
fn an_unknown_acquire_is_bounded_from_when_it_may_still_arrive() {
    let mut desk = Desk::new();
    let soon = Wait::Until(ms(37));
    desk.step(0, Event::Acquire(Id(1), Request { wait: soon, ..request(1, 900) }));
    desk.step(37, Event::Tick);
    let Some(Outcome::Acquired(Err(AcquireFailure::Unknown { free_within, .. }))) = desk.claim(37, 1) else {
        panic!("its question is on its way");
    };
    // A stalled network delays the attempt until its connection is closed, after the timeout of 3 s.
    assert!(free_within.bound() >= Some(Duration::from_millis(3_000 + 900 - 37)), "{free_within:?}");
}

#[test]
fn a_release_is_bounded_from_when_a_renewal_may_still_arrive() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 3_000));
    desk.step(1_000, Event::Tick);
    assert_eq!(desk.sent[0].1.verb(), Verb::Renew);
    desk.release(1_500, 1, 2);
    desk.step(4_500, Event::Tick);
    let Some(Outcome::Released(Err(failure))) = desk.claim(4_500, 2) else {
        panic!("nothing was answered within the timeout");
    };
    let bound = failure.free_within.bound();
    assert!(bound >= Some(Duration::from_millis(3_000)), "{bound:?}");
}

#[test]
fn a_failed_renewal_is_tried_again_in_time_whatever_its_holds_do_meanwhile() {
    let mut desk = Desk::new();
    for hold in 1..=9 {
        desk.hold(hold, hold, request(1, 60_000));
    }
    let mut at = 20_100;
    desk.step(at, Event::Tick);
    for _ in 0..8 {
        assert_eq!(desk.answer(at, refused(StoreErrorKind::Busy)).verb(), Verb::Renew);
        at = millis(desk.engine.next_timer());
        desk.step(at, Event::Tick);
    }
    desk.answer(at, refused(StoreErrorKind::Busy));
    let retry = millis(desk.engine.next_timer());
    assert!(retry > at + 200, "the pauses have grown");
    for hold in 2..=8 {
        desk.release(at + hold, hold, 100 + hold);
        desk.answer(at + hold, Ok(Reply::Int(0)));
    }
    desk.step(retry, Event::Tick);
    assert_eq!(desk.answer(retry, Ok(Reply::Int(1))).verb(), Verb::Renew, "it is sent when it was due");
}

#[test]
fn a_release_is_told_though_the_other_hold_is_kept_meanwhile() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.hold(2, 2, request(1, 30_000));
    desk.release(10, 1, 9);
    desk.step(11, Event::Detach(Id(2)));
    desk.answer(12, Ok(Reply::Int(0)));
    assert_eq!(desk.claim(12, 9), Some(Outcome::Released(Ok(true))));
}

#[test]
fn an_ensure_ends_within_a_timeout_also_behind_a_renewal_that_gave_too_little() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    desk.step(10_000, Event::Tick);
    desk.step(12_000, Event::Ensure { id: Id(2), hold: Id(1), least: Duration::from_millis(29_000) });
    // The renewal in flight gives less than that, so another one is sent.
    assert_eq!(desk.answer(12_500, Ok(Reply::Int(1))).verb(), Verb::Renew);
    assert_eq!(desk.sent.len(), 1);
    desk.step(15_000, Event::Tick);
    let outcome = desk.claim(15_000, 2);
    let Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. }))) = outcome else {
        panic!("3 s have passed: {outcome:?}");
    };
    assert!(desk.engine.is_held(Id(1), ms(15_000)));
}

#[test]
fn a_grant_that_is_given_back_unseen_is_not_forgotten_when_asking_again_fails() {
    let mut desk = Desk::new();
    desk.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    desk.answer(1, Ok(Reply::Nil));
    // The caller does not claim the grant for five seconds. From then on its release fails, and so does every attempt.
    let mut at = 5_002;
    desk.step(at, Event::Tick);
    assert_eq!(desk.claim(at, 1), None);
    let outcome = loop {
        while !desk.sent.is_empty() {
            desk.answer(at, refused(StoreErrorKind::Unreachable));
        }
        if let Some(outcome) = desk.claim(at, 1) {
            break outcome;
        }
        at = millis(desk.engine.next_timer());
        desk.step(at, Event::Tick);
    };
    let Outcome::Acquired(Err(AcquireFailure::Unknown { free_within, .. })) = outcome else {
        panic!("the first grant may still stand: {outcome:?}");
    };
    assert!(free_within.bound() > Some(Duration::from_secs(20)), "{free_within:?}");
}

#[test]
fn whoever_leaves_a_queue_is_taken_off_it_also_when_its_lease_would_be_over() {
    let mut desk = Desk::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &Fair);
    let soon = Wait::Until(ms(100));
    desk.step(0, Event::Acquire(Id(1), Request { subject, wait: soon, ..request(1, 300) }));
    desk.answer(1, Ok(Reply::Int(10_000)));
    desk.step(100, Event::Tick);
    assert!(matches!(desk.claim(100, 1), Some(Outcome::Acquired(Err(AcquireFailure::Contended)))));
    // Its place in the queue lasts for seconds, whatever its lease.
    let mut at = 100;
    while at < 2_000 {
        assert_eq!(desk.answer(at, refused(StoreErrorKind::Busy)).verb(), Verb::Release);
        at = millis(desk.engine.next_timer());
        desk.step(at, Event::Tick);
    }
    assert_eq!(desk.answer(at, Ok(Reply::Nil)).verb(), Verb::Release);
    assert!(desk.sent.is_empty());
}

#[test]
fn a_write_hold_that_runs_out_is_taken_off_before_its_owner_reads_beside_it() {
    let mut desk = Desk::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &WRITE_LOCK);
    desk.hold(0, 1, Request { subject, watchdog: false, ..request(1, 30_000) });
    // The hold is over by its own clock. The server keeps it for the drift that was subtracted, and a reader of the
    // same owner that is admitted now would keep it for longer.
    desk.step(29_700, Event::Tick);
    let (_, call) = desk.sent.first().expect("it is given back");
    assert_eq!(call.verb(), Verb::Release);
}

#[test]
fn a_read_hold_that_runs_out_is_taken_off_the_hash_that_other_readers_keep() {
    let mut desk = Desk::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &READ_LOCK);
    let acquired = desk.hold(0, 1, Request { subject, watchdog: false, ..request(1, 30_000) });
    desk.step(29_698, Event::Tick);
    let given_back = desk.answer(29_699, Ok(Reply::Int(0)));
    assert_eq!((given_back.verb(), given_back.argument("remaining")), (Verb::Release, Some("0")));
    assert_eq!(given_back.argument("owner"), acquired.argument("owner"));
}

#[test]
fn a_renewal_with_a_shorter_lease_takes_nothing_off_what_was_confirmed() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 3_000));
    desk.hold(2, 2, request(1, 30_000));
    desk.release(4, 2, 9);
    desk.answer(5, Ok(Reply::Int(0)));
    desk.step(1_100, Event::Tick);
    assert_eq!(desk.answer(1_101, Ok(Reply::Int(1))).argument("lease_ms"), Some("3000"));
    assert!(desk.engine.is_held(Id(1), ms(29_699)), "the server keeps the longer one");
    assert!(!desk.engine.is_held(Id(1), ms(29_700)));
}

#[test]
fn whoever_joins_a_subscription_that_stands_asks_again() {
    let mut desk = Desk::new();
    let subject = |recipe| Subject::new(&Name::new("x").unwrap(), recipe);
    let held = || Ok(Reply::Int(20_000));
    desk.step(0, Event::Acquire(Id(1), Request { subject: subject(&WRITE_LOCK), ..request(1, 30_000) }));
    let call = desk.answer(1, held());
    let channel = Channel::new("redisson_rwlock:{x}");
    desk.step(2, Event::Listening(channel.clone()));
    desk.answer(3, held());
    // A reader's attempt is refused. The holder releases before that reply arrives, and only the writer gets the
    // message.
    desk.step(4, Event::Acquire(Id(2), Request { subject: subject(&READ_LOCK), ..request(2, 30_000) }));
    desk.step(5, Event::Message(channel));
    assert_eq!(desk.answer(6, held()).verb(), Verb::Acquire);
    let again = desk.sent.iter().filter(|(_, sent)| sent.argument("yields").is_some()).count();
    assert_eq!(again, 1, "the reader asks once more, {call:?} does anyway");
}

#[test]
fn a_turn_that_comes_too_late_for_an_answer_was_another_waiters() {
    let mut desk = Desk::new();
    desk.hold(0, 1, request(1, 30_000));
    for (id, until) in [(2, 40), (3, 39)] {
        let wait = Wait::Until(ms(until));
        desk.step(id, Event::Acquire(Id(id), Request { wait, ..request(id, 30_000) }));
    }
    desk.release(30, 1, 9);
    desk.answer(31, Ok(Reply::Int(1)));
    assert_eq!(desk.sent.len(), 1, "the first in line asks");
    desk.step(40, Event::Tick);
    for id in [2, 3] {
        let told = desk.claim(40, id);
        assert_eq!(told, Some(Outcome::Acquired(Err(AcquireFailure::Contended))), "{id}");
    }
    desk.answer(41, Ok(Reply::Nil));
    assert_eq!(desk.answer(42, Ok(Reply::Int(1))).verb(), Verb::Release, "what came too late is given back");
}

#[test]
fn a_turn_at_a_server_that_is_silent_is_not_another_waiters() {
    let mut desk = Desk::new();
    desk.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    let wait = Wait::Until(ms(40));
    desk.step(2, Event::Acquire(Id(2), Request { wait, ..request(2, 30_000) }));
    desk.step(40, Event::Tick);
    let told = desk.claim(40, 2);
    assert!(matches!(told, Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))), "{told:?}");
}
