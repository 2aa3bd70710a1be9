//! Tests of the outcomes that callers get after calls with an unknown outcome, and of the state that is left after they
//! are gone.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, CallId, Event, Id, LostReason, OperationFailure, Outcome, Request, Subject, Wait,
};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::latch::count_down;
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::recipe::upgrade::UPGRADE;
use leasehold_proto::{
    Applied, Call, ClientId, FreeWithin, Moment, Name, Recipe, Reply, StoreError, StoreErrorKind, Verb,
};

use crate::harness::{Harness, millis, ms, next_timer, refused, request, unknown};

fn once(request: Request) -> Request {
    Request { wait: Wait::Once, ..request }
}

pub(crate) fn fair(request: Request) -> Request {
    Request { subject: Subject::new(&Name::new("x").unwrap(), &FAIR), ..request }
}

fn operation(harness: &Harness) -> Call {
    let operation = leasehold_proto::marker::Operation::new(
        ClientId::from_random([1; 16]),
        Id(1),
        harness.engine.settings(),
    );
    count_down(&Name::new("x").unwrap(), &operation)
}

/// Lets time pass to the next timer, and returns that time.
pub(crate) fn wait(harness: &mut Harness) -> u64 {
    let at = millis(next_timer(&mut harness.engine));
    harness.step(at, Event::Tick);
    at
}

#[test]
fn a_later_refusal_does_not_hide_that_an_operation_may_have_run() {
    let mut harness = Harness::new();
    harness.step(0, Event::Perform(Id(1), operation(&harness)));
    harness.answer(100, unknown(Verb::Adjust));
    let at = wait(&mut harness);
    harness.answer(at, refused(StoreErrorKind::PermissionDenied));
    match harness.claim(at, 1) {
        Some(Outcome::Performed(Err(OperationFailure::Failed(error)))) => {
            assert_eq!((error.kind, error.applied), (StoreErrorKind::PermissionDenied, Applied::Unknown));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_operation_that_was_only_refused_is_reported_as_not_applied() {
    let mut harness = Harness::new();
    harness.step(0, Event::Perform(Id(1), operation(&harness)));
    harness.answer(1, refused(StoreErrorKind::PermissionDenied));
    match harness.claim(1, 1) {
        Some(Outcome::Performed(Err(OperationFailure::Failed(error)))) => {
            assert_eq!(error.applied, Applied::No);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_uncertain_re_entry_is_unknown_and_its_count_is_corrected() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(10, Event::Acquire(Id(2), once(request(1, 30_000))));
    assert_eq!(harness.answer(20, unknown(Verb::Renew)).argument("count"), Some("2"));
    let told = harness.claim(20, 2);
    let Some(Outcome::Acquired(Err(AcquireFailure::Unknown { error, .. }))) = told else {
        panic!("its count may stand on the server: {told:?}");
    };
    assert_eq!(error.applied, Applied::Unknown);
    let at = if harness.sent.is_empty() { wait(&mut harness) } else { 20 };
    let mended = harness.answer(at, Ok(Reply::Int(0)));
    assert_eq!((mended.verb(), mended.argument("remaining")), (Verb::Release, Some("1")));
}

#[test]
fn a_hold_that_expires_after_an_unknown_re_entry_is_undone() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { watchdog: false, ..request(1, 3_000) });
    // The re-entry may have extended the lease of the key, whatever its outcome says.
    harness.step(2_000, Event::Acquire(Id(2), once(Request { watchdog: false, ..request(1, 30_000) })));
    harness.answer(2_100, unknown(Verb::Renew));
    harness.claim(2_100, 2);
    assert_eq!(harness.answer(2_101, Ok(Reply::Int(0))).argument("remaining"), Some("1"));
    assert_eq!(wait(&mut harness), 2_968, "the end of the validity that was confirmed");
    assert_eq!(harness.engine.lost(Id(1), ms(2_968)), Some(LostReason::Expired));
    assert_eq!(harness.answer(2_969, Ok(Reply::Int(1))).argument("remaining"), Some("0"));
}

#[test]
fn a_partial_release_of_a_deleted_lock_reports_not_held() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(2, 2, request(1, 30_000));
    harness.release(10, 2, 9);
    assert_eq!(harness.answer(11, Ok(Reply::Nil)).argument("remaining"), Some("1"));
    assert_eq!(harness.claim(11, 9), Some(Outcome::Released(Ok(false))));
    assert_eq!(harness.engine.lost(Id(1), ms(11)), Some(LostReason::Deleted));
}

#[test]
fn a_close_ends_operations_in_flight() {
    let mut harness = Harness::new();
    harness.step(0, Event::Perform(Id(1), operation(&harness)));
    harness.step(0, Event::Perform(Id(2), operation(&harness)));
    harness.answer(1, refused(StoreErrorKind::Busy));
    harness.step(2, Event::Close(Id(5)));
    for id in [1, 2] {
        assert_eq!(harness.claim(2, id), Some(Outcome::Performed(Err(OperationFailure::Closed))), "{id}");
    }
    harness.answer(3, refused(StoreErrorKind::Busy));
    assert!(matches!(harness.claim(3, 5), Some(Outcome::Closed(_))));
    harness.step(3_000, Event::Tick);
    assert!(harness.sent.is_empty(), "nothing is tried again: {:?}", harness.sent);
}

#[test]
fn a_failed_queue_ends_its_subscription() {
    let mut harness = Harness::new();
    for id in [1, 2] {
        harness.step(0, Event::Acquire(Id(id), request(id, 30_000)));
    }
    harness.answer(1, Ok(Reply::Int(20_000)));
    assert_eq!(harness.listening.len(), 1);
    let mut at = 1;
    while harness.claim(at, 1).is_none() {
        at = if harness.sent.is_empty() { wait(&mut harness) } else { at };
        harness.answer(at, refused(StoreErrorKind::Unreachable));
        assert!(at < 10_000, "it is told within a timeout");
    }
    assert!(matches!(harness.claim(at, 2), Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))));
    assert!(harness.listening.is_empty(), "{:?}", harness.listening);
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
}

/// Refuses all attempts of a waiter for two seconds, which is less than a timeout, and then grants the next one.
fn a_wait_survives(kind: StoreErrorKind) {
    for request in [request(1, 30_000), fair(request(1, 30_000))] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), request));
        harness.answer(1, Ok(Reply::Int(20_000)));
        let (mut at, mut refusals) = (1, 0);
        while at < 2_000 {
            at = if harness.sent.is_empty() { wait(&mut harness) } else { at };
            if !harness.sent.is_empty() {
                assert_eq!(harness.answer(at, refused(kind)).verb(), Verb::Acquire);
                refusals += 1;
            }
            assert_eq!(harness.claim(at, 1), None, "{kind:?} after {refusals} refusals, at {at} ms");
        }
        assert!(refusals > 2, "{refusals} refusals of {kind:?}");
        while harness.sent.is_empty() {
            at = wait(&mut harness);
        }
        harness.answer(at, Ok(Reply::Nil));
        assert!(matches!(harness.claim(at, 1), Some(Outcome::Acquired(Ok(_)))), "{kind:?}");
    }
}

#[test]
fn a_wait_survives_keys_that_move_between_nodes() {
    a_wait_survives(StoreErrorKind::TryAgain);
}

#[test]
fn a_wait_survives_a_cluster_that_is_down() {
    a_wait_survives(StoreErrorKind::ClusterDown);
}

#[test]
fn a_wait_survives_a_server_that_loads_its_data() {
    a_wait_survives(StoreErrorKind::Loading);
}

#[test]
fn a_wait_survives_a_replica_that_has_lost_its_master() {
    a_wait_survives(StoreErrorKind::MasterDown);
}

#[test]
fn a_wait_survives_a_master_that_becomes_a_replica() {
    a_wait_survives(StoreErrorKind::ReadOnly);
}

#[test]
fn a_waiter_that_leaves_ends_its_subscription() {
    for request in [request(1, 30_000), fair(request(1, 30_000))] {
        for leaves in [Event::Cancel(Id(1)), Event::Tick, Event::Close(Id(5))] {
            let mut harness = Harness::new();
            let request = Request { wait: Wait::Until(ms(40)), ..request.clone() };
            harness.step(0, Event::Acquire(Id(1), request));
            harness.answer(1, Ok(Reply::Int(20_000)));
            assert_eq!(harness.listening.len(), 1);
            harness.step(40, leaves.clone());
            assert!(harness.listening.is_empty(), "{leaves:?}: {:?}", harness.listening);
        }
    }
}

#[test]
fn a_granted_waiter_ends_its_subscription() {
    for request in [request(1, 30_000), fair(request(1, 30_000))] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), request));
        harness.answer(1, Ok(Reply::Int(20_000)));
        let channel = harness.listening.first().unwrap().clone();
        harness.step(2, Event::Message(channel));
        harness.answer(3, Ok(Reply::Nil));
        assert!(harness.listening.is_empty(), "{:?}", harness.listening);
    }
}

#[test]
fn a_close_undoes_an_unclaimed_grant_regardless_of_min_hold() {
    let mut harness = Harness::new();
    let least = Some(Duration::from_secs(60));
    harness.step(0, Event::Acquire(Id(1), Request { min_hold: least, ..request(1, 30_000) }));
    harness.answer(1, Ok(Reply::Nil));
    harness.step(2, Event::Close(Id(5)));
    let released = harness.answer(3, Ok(Reply::Int(1)));
    assert_eq!((released.verb(), released.argument("remaining")), (Verb::Release, Some("0")));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn an_unclaimed_re_entry_adds_no_min_hold() {
    for ends in [Event::Close(Id(5)), Event::Release { hold: Id(1), report: None }] {
        let mut harness = Harness::new();
        harness.hold(0, 1, request(1, 30_000));
        let least = Some(Duration::from_secs(60));
        harness.step(10, Event::Acquire(Id(2), Request { min_hold: least, ..request(1, 30_000) }));
        harness.answer(11, Ok(Reply::Int(1)));
        harness.step(12, ends);
        harness.step(12, Event::Cancel(Id(2)));
        let last = |harness: &mut Harness| harness.answer(13, Ok(Reply::Int(1)));
        let mut released = last(&mut harness);
        while !harness.sent.is_empty() {
            released = last(&mut harness);
        }
        assert_eq!((released.verb(), released.argument("remaining")), (Verb::Release, Some("0")));
        assert!(!harness.engine.is_held(Id(1), ms(13)));
    }
}

pub(crate) fn side(recipe: &'static Recipe, lease_ms: u64) -> Request {
    Request { subject: Subject::new(&Name::new("x").unwrap(), recipe), ..request(1, lease_ms) }
}

#[test]
fn an_upgrade_of_unknown_outcome_has_no_bound_because_its_read_hold_is_renewed() {
    let mut harness = Harness::new();
    harness.hold(0, 1, side(&READ_LOCK, 30_000));
    harness.step(5, Event::Acquire(Id(2), once(side(&UPGRADE, 30_000))));
    assert_eq!(harness.answer(6, unknown(Verb::Acquire)).verb(), Verb::Acquire);
    let told = harness.claim(6, 2);
    let Some(Outcome::Acquired(Err(AcquireFailure::Unknown { free_within, .. }))) = told else {
        panic!("{told:?}")
    };
    assert_eq!(free_within, FreeWithin::Unbounded);
    assert_eq!(harness.sent[0].1.verb(), Verb::Release, "it is undone");
}

#[test]
fn the_write_hold_of_an_owner_that_reads_is_released_until_the_server_answers() {
    let mut harness = Harness::new();
    harness.hold(0, 1, side(&WRITE_LOCK, 1_000));
    harness.hold(2, 2, side(&READ_LOCK, 60_000));
    harness.release(4, 1, 9);
    let writer = harness.answer(5, unknown(Verb::Release)).argument("owner").unwrap().to_owned();
    let (mut at, mut releases, mut told) = (5, 0, None);
    while at < 10_000 {
        at = wait(&mut harness);
        told = told.or_else(|| harness.claim(at, 9));
        while let Some((_, call)) = harness.sent.first() {
            let is_release = call.verb() == Verb::Release;
            assert!(!is_release || call.argument("owner") == Some(&*writer), "the reader reads on");
            releases += u32::from(is_release && at > 5_000);
            let reply = if is_release { unknown(Verb::Release) } else { Ok(Reply::Int(1)) };
            harness.answer(at, reply);
        }
    }
    assert!(releases > 0, "the renewals of the read hold keep the write hold");
    let Some(Outcome::Released(Err(failure))) = told else { panic!("{told:?}") };
    assert_eq!(failure.free_within, FreeWithin::Unbounded);
}

/// Releases a hold with a lease of 3 s at a silent server, half a second before or after its first renewal was sent.
/// Returns the times of the releases that follow.
fn releases_at_a_silent_server(renews: bool) -> Vec<u64> {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 3_000));
    if renews {
        harness.step(1_000, Event::Tick);
        assert_eq!(harness.sent[0].1.verb(), Verb::Renew);
    }
    let mut at = if renews { 1_500 } else { 500 };
    harness.release(at, 1, 9);
    let mut releases = Vec::new();
    loop {
        while !harness.sent.is_empty() {
            let verb = harness.sent[0].1.verb();
            harness.answer(at, unknown(verb));
        }
        if at > 600_000 || next_timer(&mut harness.engine) == Moment::NEVER {
            return releases;
        }
        at = wait(&mut harness);
        releases.extend(harness.sent.iter().filter(|(_, call)| call.verb() == Verb::Release).map(|_| at));
    }
}

#[test]
fn a_hold_whose_renewal_may_still_run_is_released_until_the_server_answers() {
    let releases = releases_at_a_silent_server(true);
    assert!(releases.last() > Some(&500_000), "a frozen server may run the renewal: {releases:?}");
    let late: Vec<u64> =
        releases.windows(2).filter(|pair| pair[0] > 11_000).map(|pair| pair[1] - pair[0]).collect();
    assert!(late.iter().all(|pause| (2_000..=30_000).contains(pause)), "{late:?}");
    assert!(late.last() >= Some(&25_000), "a long outage costs little: {late:?}");
}

#[test]
fn a_hold_without_an_unknown_renewal_is_released_for_at_most_its_lease() {
    let releases = releases_at_a_silent_server(false);
    assert!(!releases.is_empty() && releases.last() < Some(&11_000), "{releases:?}");
}

#[test]
fn a_failure_behind_a_late_grant_says_until_when_the_grant_may_stand() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { wait: Wait::Until(ms(1_200)), ..request(1, 500) }));
    harness.answer(900, Ok(Reply::Nil));
    let mut at = 901;
    while at < 1_200 {
        harness.step(at, Event::Tick);
        while !harness.sent.is_empty() {
            harness.answer(at, refused(StoreErrorKind::Busy));
        }
        at = millis(next_timer(&mut harness.engine));
    }
    harness.step(1_200, Event::Tick);
    let outcome = harness.claim(1_200, 1);
    assert!(
        matches!(
            outcome,
            Some(Outcome::Acquired(Err(AcquireFailure::Unknown { free_within: FreeWithin::Time(within), .. })))
                if within <= Duration::from_millis(500)
        ),
        "{outcome:?}"
    );
}

/// Lets two more waiters of a semaphore try behind a grant, and answers the attempt for the second of them. The store then
/// refuses all other calls until that waiter has failed. Returns its outcome.
fn with_a_further_attempt(answer: impl FnOnce(&mut Harness, CallId)) -> Option<Outcome> {
    let mut harness = Harness::new();
    let subject = Subject::new(&Name::new("x").unwrap(), &SEMAPHORE);
    for id in 1..=3 {
        harness.step(0, Event::Acquire(Id(id), Request { subject: subject.clone(), ..request(id, 30_000) }));
    }
    harness.answer(0, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    let (further, call) = harness.sent.remove(1);
    assert_eq!((call.verb(), harness.sent.len()), (Verb::Acquire, 1));
    answer(&mut harness, further);
    refuse_until_failed(&mut harness, 3)
}

/// Refuses all calls until this waiter has failed. Returns its outcome.
fn refuse_until_failed(harness: &mut Harness, waiter: u64) -> Option<Outcome> {
    let at = refuse_until_woken(harness, 1, waiter);
    harness.claim(at, waiter)
}

/// Refuses all calls until this waiter is woken, and returns that time.
fn refuse_until_woken(harness: &mut Harness, from: u64, waiter: u64) -> u64 {
    for at in from..from + 100_000 {
        harness.step(at, Event::Tick);
        while !harness.woken.contains(&Id(waiter)) && !harness.sent.is_empty() {
            harness.answer(at, refused(StoreErrorKind::Busy));
        }
        if harness.woken.contains(&Id(waiter)) {
            return at;
        }
    }
    panic!("the waiter has not failed");
}

pub(crate) fn is_unknown(outcome: Option<&Outcome>) -> bool {
    matches!(outcome, Some(Outcome::Acquired(Err(AcquireFailure::Unknown { .. }))))
}

#[test]
fn a_failure_behind_a_further_attempt_without_an_answer_is_unknown() {
    let outcome = with_a_further_attempt(|harness, further| {
        harness.step(1, Event::Replied(further, unknown(Verb::Acquire)));
    });
    assert!(is_unknown(outcome.as_ref()), "its undo was refused: {outcome:?}");
}

#[test]
fn a_failure_while_a_further_attempt_is_on_its_way_is_unknown() {
    let outcome = with_a_further_attempt(|_, _| {});
    assert!(is_unknown(outcome.as_ref()), "{outcome:?}");
}

#[test]
fn a_failure_behind_a_further_attempt_that_was_not_made_says_so() {
    let outcome = with_a_further_attempt(|harness, further| {
        harness.step(1, Event::Replied(further, refused(StoreErrorKind::Busy)));
    });
    assert!(matches!(outcome, Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))), "{outcome:?}");
}

#[test]
fn a_failure_of_a_waiter_that_left_its_queue_behind_an_unknown_attempt_is_unknown() {
    for answers_first in [true, false] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), side(&READ_LOCK, 30_000)));
        let (of_queue, _) = harness.sent.remove(0);
        let answer = |harness: &mut Harness| {
            harness.step(0, Event::Replied(of_queue, unknown(Verb::Acquire)));
        };
        if answers_first {
            answer(&mut harness);
        }
        // The owner may read within its own write, so the waiting reader makes attempts of its own.
        harness.hold_at_once(0, 2, once(side(&WRITE_LOCK, 30_000)));
        assert!(harness.sent.iter().any(|(_, call)| call.verb() == Verb::Acquire), "{:?}", harness.sent);
        if !answers_first {
            answer(&mut harness);
        }
        let outcome = refuse_until_failed(&mut harness, 1);
        assert!(is_unknown(outcome.as_ref()), "{answers_first}: {outcome:?}");
    }
}

/// Lets two waiters of a fair lock make an attempt, the second one later, and returns these answers to the second one's
/// attempts. The store then refuses all calls until it has failed for the first waiter. Returns the outcome of the second.
fn failed_with_the_first(answers: &[Result<Reply, StoreError>]) -> Option<Outcome> {
    let mut harness = Harness::new();
    let later = millis(ms(0) + harness.engine.settings().timeout / 2);
    harness.step(0, Event::Acquire(Id(1), fair(request(1, 30_000))));
    harness.answer(0, refused(StoreErrorKind::Busy));
    wait(&mut harness);
    harness.step(later, Event::Acquire(Id(2), fair(request(2, 30_000))));
    let (mut attempt, _) = harness.sent.remove(1);
    let mut at = later;
    for (number, answer) in answers.iter().enumerate() {
        harness.step(at, Event::Replied(attempt, answer.clone()));
        if number + 1 < answers.len() {
            at = wait(&mut harness);
            attempt = harness.sent.remove(1).0;
        }
    }
    let at = refuse_until_woken(&mut harness, at, 2);
    assert_eq!(harness.woken, [Id(1), Id(2)], "they fail together");
    harness.claim(at, 2)
}

#[test]
fn a_waiter_that_fails_with_the_first_of_its_queue_behind_an_unknown_attempt_is_told_so() {
    let outcome = failed_with_the_first(&[unknown(Verb::Acquire)]);
    assert!(is_unknown(outcome.as_ref()), "{outcome:?}");
}

#[test]
fn a_waiter_that_fails_with_the_first_of_its_queue_is_in_doubt_although_it_was_refused_later() {
    let outcome = failed_with_the_first(&[unknown(Verb::Acquire), Ok(Reply::Int(20_000))]);
    assert!(is_unknown(outcome.as_ref()), "a frozen server may run the first attempt: {outcome:?}");
}

#[test]
fn a_waiter_that_fails_with_the_first_of_its_queue_without_doubt_has_acquired_nothing() {
    let outcome = failed_with_the_first(&[Ok(Reply::Int(20_000))]);
    let Some(Outcome::Acquired(Err(AcquireFailure::Failed(error)))) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.applied, Applied::No);
}
