//! Tests of the end of a wait whose calls get no reply: it outlives a call that was swallowed, and takes back one that was
//! not sent.

use leasehold_proto::engine::{AcquireFailure, Action, Event, Id, Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::{Applied, Name, Reply, StoreErrorKind, Verb};

use crate::harness::{Harness, millis, ms, request, unknown};
use crate::outcomes::{fair, is_unknown, side, wait};

/// Lets the path swallow the first call of each acquire, which fails after a whole timeout. Returns the harness with the
/// call that follows, and the time of its sending.
fn after_a_swallowed_call(request: Request) -> (Harness, u64) {
    let mut harness = Harness::new();
    let timeout = millis(ms(0) + harness.engine.settings().timeout);
    harness.step(0, Event::Acquire(Id(1), request));
    harness.answer(timeout, unknown(Verb::Acquire));
    assert_eq!(harness.claim(timeout, 1), None, "the wait goes on");
    let at = wait(&mut harness);
    assert!(at < timeout + 1_000, "it tries again at once, over a new connection: {at}");
    (harness, at)
}

#[test]
fn a_wait_survives_a_path_that_swallows_its_call() {
    for request in [request(1, 30_000), fair(request(1, 30_000)), side(&READ_LOCK, 30_000)] {
        let (mut harness, at) = after_a_swallowed_call(request);
        harness.answer(at + 1, Ok(Reply::Nil));
        assert!(matches!(harness.claim(at + 1, 1), Some(Outcome::Acquired(Ok(_)))));
    }
}

#[test]
fn a_wait_ends_when_the_store_has_failed_for_a_timeout_after_a_swallowed_call() {
    let (mut harness, at) = after_a_swallowed_call(request(1, 30_000));
    let timeout = millis(ms(0) + harness.engine.settings().timeout);
    harness.answer(at + timeout, unknown(Verb::Acquire));
    assert!(is_unknown(harness.claim(at + timeout, 1).as_ref()), "it does not wait for ever");
}

#[test]
fn a_re_entry_survives_a_path_that_swallows_its_call() {
    let mut harness = Harness::new();
    let timeout = millis(ms(0) + harness.engine.settings().timeout);
    harness.hold(0, 1, request(1, 30_000));
    harness.step(5, Event::Acquire(Id(2), request(1, 30_000)));
    harness.answer(5 + timeout, unknown(Verb::Renew));
    assert_eq!(harness.claim(5 + timeout, 2), None, "the wait goes on");
    let at = wait(&mut harness);
    harness.answer(at, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(at, 2), Some(Outcome::Acquired(Ok(_)))));
}

/// Acquires with a wait that is shorter than the timeout, and returns its failure.
fn failed_at_its_deadline(harness: &mut Harness, request: Request) -> AcquireFailure {
    harness.step(10, Event::Acquire(Id(2), Request { wait: Wait::Until(ms(210)), ..request }));
    harness.step(210, Event::Tick);
    match harness.claim(210, 2) {
        Some(Outcome::Acquired(Err(failure))) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_wait_whose_calls_were_not_sent_has_acquired_nothing() {
    let requests = [request(2, 30_000), fair(request(2, 30_000)), side(&WRITE_LOCK, 30_000)];
    for request in requests {
        let mut harness = Harness::new();
        harness.unsent = true;
        let failure = failed_at_its_deadline(&mut harness, request);
        let AcquireFailure::Failed(error) = failure else { panic!("{failure:?}") };
        assert_eq!((error.kind, error.applied), (StoreErrorKind::Unreachable, Applied::No));
        assert!(harness.sent.is_empty(), "nothing is to be undone: {:?}", harness.sent);
    }
}

#[test]
fn a_re_entry_whose_call_was_not_sent_has_entered_nothing() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.unsent = true;
    let failure = failed_at_its_deadline(&mut harness, request(1, 30_000));
    let AcquireFailure::Failed(error) = failure else { panic!("{failure:?}") };
    assert_eq!((error.kind, error.applied), (StoreErrorKind::Unreachable, Applied::No));
}

#[test]
fn a_waiter_whose_further_attempt_was_not_sent_has_acquired_nothing() {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &SEMAPHORE);
    for id in 1..=3 {
        let wait = Wait::Until(ms(210));
        let request = Request { subject: subject.clone(), wait, ..request(id, 30_000) };
        harness.step(0, Event::Acquire(Id(id), request));
    }
    harness.answer(0, Ok(Reply::Int(1)));
    assert_eq!(harness.verbs(), [Verb::Acquire; 2]);
    harness.unsent = true;
    harness.step(210, Event::Tick);
    for id in [2, 3] {
        let outcome = harness.claim(210, id);
        assert!(matches!(outcome, Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))), "{outcome:?}");
    }
}

#[test]
fn a_wait_that_ends_before_the_reply_names_the_wait() {
    let mut harness = Harness::new();
    let failure = failed_at_its_deadline(&mut harness, request(2, 30_000));
    let AcquireFailure::Unknown { error, .. } = failure else { panic!("{failure:?}") };
    assert_eq!(error.to_string(), r#"acquire of "x": no reply within the wait of 200ms"#);
}

#[test]
fn a_waiter_whose_time_is_over_gets_no_grant_while_its_call_is_asked_for() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { wait: Wait::Until(ms(50)), ..request(1, 30_000) }));
    let (call, _) = harness.sent.remove(0);
    let asked = harness.engine.step(ms(50), Event::Tick);
    assert!(matches!(asked[..], [Action::Withdraw(id)] if id == call), "{asked:?}");
    harness.step(50, Event::Replied(call, Ok(Reply::Nil)));
    assert!(is_unknown(harness.claim(50, 1).as_ref()));
    assert_eq!(harness.verbs(), [Verb::Release], "the grant is undone");
    harness.step(51, Event::Kept(call));
    assert_eq!(harness.verbs(), [Verb::Release], "a late answer changes nothing");
}
