//! Tests of the times that the guarantees name, to the millisecond: polling, renewal, expiry, deadlines, unclaimed
//! grants.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, Action, EnsureFailure, Event, Id, LostReason, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::{Moment, Name, Reply, StoreErrorKind, Verb};

use crate::harness::{Harness, bounded, millis, ms, next_timer, refused, request, subject};

fn polling(poll_ms: u64) -> Settings {
    Settings { poll_interval: Duration::from_millis(poll_ms), ..Settings::default() }
}

fn unwatched(request: Request) -> Request {
    Request { watchdog: false, ..request }
}

/// Lets time pass to the next timer, and returns that time.
fn wait(harness: &mut Harness) -> u64 {
    let at = millis(next_timer(&mut harness.engine));
    harness.step(at, Event::Tick);
    at
}

/// Returns the times of the next two attempts of a waiter. `remaining` has the remaining times of the lock in the
/// replies to the attempt before each of them. The first reply comes at 1 ms.
fn retry_times(mut harness: Harness, request: Request, remaining: [i64; 2]) -> [u64; 2] {
    harness.step(0, Event::Acquire(Id(1), request));
    let mut now = 1;
    remaining.map(|remaining| {
        assert_eq!(harness.answer(now, Ok(Reply::Int(remaining))).verb(), Verb::Acquire);
        now = wait(&mut harness);
        now
    })
}

#[test]
fn a_waiter_retries_after_exactly_the_polling_interval() {
    for poll in [700, 1_000, 15_000] {
        let harness = Harness::with(polling(poll));
        let attempt_times = retry_times(harness, request(1, 30_000), [600_000, 600_000]);
        assert_eq!(attempt_times, [1 + poll, 1 + 2 * poll]);
    }
    assert_eq!(Settings::default().poll_interval, Duration::from_secs(1));
}

#[test]
fn a_waiter_retries_when_the_hold_should_have_expired() {
    let [first, second] = retry_times(Harness::new(), request(1, 30_000), [300, 0]);
    assert!((302..=322).contains(&first), "{first}");
    assert_eq!(second, first + 1, "what has ended by then is free a millisecond later");
}

#[test]
fn a_fair_waiter_polls_every_one_and_a_half_seconds_at_any_polling_interval() {
    let subject = Subject::new(&Name::new("x").unwrap(), &FAIR);
    let fair = Request { subject, ..request(1, 30_000) };
    assert_eq!(retry_times(Harness::with(polling(60_000)), fair, [600_000, 600_000]), [1_501, 3_001]);
}

#[test]
fn a_renewal_is_sent_up_to_a_tenth_before_a_third_of_the_lease_after_the_last_confirmed_call_was() {
    for owner in 1..200 {
        let mut harness = Harness::new();
        harness.hold(0, owner, request(owner, 30_000));
        let first = wait(&mut harness);
        assert!((9_000..=10_000).contains(&first), "{first}: counted from when the acquire was sent");
        assert_eq!(harness.answer(first + 900, Ok(Reply::Int(1))).argument("lease_ms"), Some("30000"));
        let second = wait(&mut harness);
        let apart = second - first;
        assert!((9_000..=10_000).contains(&apart), "{apart}: counted from when the renewal was sent");
        assert!(harness.engine.is_held(Id(owner), ms(first + 29_697)));
        assert!(!harness.engine.is_held(Id(owner), ms(first + 29_698)));
    }
}

#[test]
fn a_limited_number_of_renewals_is_not_early() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(2), ..request(1, 30_000) });
    assert_eq!(wait(&mut harness), 10_000);
    harness.answer(10_001, Ok(Reply::Int(1)));
    assert_eq!(wait(&mut harness), 20_000);
}

/// Makes this many holds of 30 s, one each `apart` ms.
fn holds(many: u64, apart: u64) -> Harness {
    let mut harness = Harness::new();
    for id in 1..=many {
        let subject = subject(&format!("x{id}"));
        harness.hold(apart * id, id, Request { subject, ..request(id, 30_000) });
    }
    harness
}

/// Lets time pass to the next renewals, confirms them, and returns their time and number.
fn renew(harness: &mut Harness) -> (u64, usize) {
    let at = wait(harness);
    let many = harness.sent.len();
    while !harness.sent.is_empty() {
        assert_eq!(harness.answer(at, Ok(Reply::Int(1))).verb(), Verb::Renew);
    }
    (at, many)
}

#[test]
fn the_renewals_of_neighbors_are_sent_in_one_step() {
    let mut harness = holds(20, 10);
    let mut before = 0;
    for round in 0..5 {
        let (at, many) = renew(&mut harness);
        assert_eq!(many, 20, "round {round} at {at} ms");
        assert!(at - before >= 8_000 && at - before <= 10_200, "{before} to {at}");
        before = at;
    }
}

#[test]
fn a_burst_of_holds_does_not_renew_in_a_burst() {
    let mut engine = holds(2_000, 0).engine;
    let mut sent = Vec::new();
    while sent.len() < 3 * 2_000 {
        let now = engine.next_timer();
        let before = sent.len();
        for action in engine.step(now, Event::Tick) {
            let Action::Run(call, ..) = action else { panic!("{action:?}") };
            sent.push(millis(now));
            engine.step(now, Event::Replied(call, Ok(Reply::Int(1))));
        }
        assert!(sent.len() - before <= 64, "{} in one step", sent.len() - before);
    }
    // The first renewals take a second, and each later one spreads them more.
    for (round, sent) in sent.chunks(2_000).enumerate() {
        let busiest = sent.chunk_by(|one, other| one / 100 == other / 100).map(<[u64]>::len).max();
        assert!(busiest <= Some(400), "{busiest:?} of 2,000 within 100 ms in round {round}");
    }
    let (first, last) = (sent[0], sent[sent.len() - 1]);
    assert!(first >= 8_900 && last <= 30_000, "none is later than a third of its lease: {first} to {last}");
}

#[test]
fn a_failed_renewal_is_retried_at_least_every_second_and_lease_twelfth() {
    for (lease, pause) in [(60_000, 1_000), (30_000, 1_000), (3_000, 250)] {
        let mut harness = Harness::new();
        harness.hold(0, 1, request(1, lease));
        let (mut at, mut attempts) = (wait(&mut harness), 0);
        assert!((lease * 3 / 10..=lease / 3).contains(&at), "{at}");
        let end = lease - lease / 100 - 2;
        while !harness.sent.is_empty() {
            assert_eq!(harness.answer(at, refused(StoreErrorKind::Busy)).verb(), Verb::Renew);
            attempts += 1;
            let next = wait(&mut harness);
            assert!(next <= at + pause, "{lease}: {at} to {next}");
            at = next;
        }
        assert_eq!(at, end, "{lease}: until the validity ends");
        assert!(attempts > 8, "{lease}: {attempts}");
        assert_eq!(harness.engine.lost(Id(1), ms(at)), Some(LostReason::Unreachable));
    }
}

#[test]
fn a_hold_is_lost_exactly_at_its_lease_minus_the_drift() {
    for lease in [3_000, 30_000, 600_000] {
        let mut harness = Harness::new();
        harness.hold(0, 1, unwatched(request(1, lease)));
        let end = lease - lease / 100 - 2;
        assert!(harness.engine.is_held(Id(1), ms(end - 1)));
        assert!(!harness.engine.is_held(Id(1), ms(end)), "by the clock, before the engine has seen it");
        assert_eq!(wait(&mut harness), end, "one lease at the most");
        assert_eq!(harness.woken, [Id(1)], "a task that waits for the loss is woken then");
        assert_eq!(harness.engine.lost(Id(1), ms(end)), Some(LostReason::Expired));
    }
}

#[test]
fn a_hold_without_further_renewals_is_lost_at_its_last_confirmed_lease() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(1), ..request(1, 30_000) });
    assert_eq!(wait(&mut harness), 10_000);
    harness.answer(10_500, Ok(Reply::Int(1)));
    assert_eq!(wait(&mut harness), 39_698);
    assert_eq!(harness.woken, [Id(1)]);
}

#[test]
fn a_renewal_that_finds_no_hold_reports_the_loss_at_once() {
    for (reply, reason) in [(0, LostReason::Deleted), (-1, LostReason::TakenOver)] {
        let mut harness = Harness::new();
        harness.hold(0, 1, request(1, 30_000));
        wait(&mut harness);
        harness.answer(10_001, Ok(Reply::Int(reply)));
        assert_eq!(harness.woken, [Id(1)], "within a third of the lease and a round trip");
        assert_eq!(harness.engine.lost(Id(1), ms(10_001)), Some(reason));
    }
}

#[test]
fn a_bounded_hold_ends_at_its_bound() {
    let mut harness = Harness::new();
    let acquired = harness.hold(0, 1, bounded(request(1, 30_000), 10_000));
    assert_eq!(acquired.argument("lease_ms"), Some("10000"), "also for a holder that crashes");
    while !harness.woken.contains(&Id(1)) {
        let at = wait(&mut harness);
        assert!(at <= 10_000, "{at}");
        while !harness.sent.is_empty() {
            harness.answer(at, Ok(Reply::Int(1)));
        }
    }
    assert!(!harness.engine.is_held(Id(1), ms(10_000)));
}

#[test]
fn a_wait_ends_at_its_deadline() {
    for ahead in [false, true] {
        let mut harness = Harness::new();
        if ahead {
            harness.hold(0, 9, request(9, 600_000));
        }
        harness.step(2, Event::Acquire(Id(1), Request { wait: Wait::Until(ms(202)), ..request(1, 30_000) }));
        if !ahead {
            harness.answer(3, Ok(Reply::Int(600_000)));
        }
        harness.step(201, Event::Tick);
        assert_eq!(harness.claim(201, 1), None);
        assert_eq!(wait(&mut harness), 202);
        assert_eq!(harness.woken, [Id(1)]);
        assert_eq!(harness.claim(202, 1), Some(Outcome::Acquired(Err(AcquireFailure::Contended))));
    }
}

#[test]
fn a_waiter_at_a_silent_server_fails_after_the_timeout() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    harness.step(100, Event::Ensure { id: Id(2), hold: Id(1), least: Duration::from_millis(29_690) });
    assert_eq!(harness.claim(3_099, 2), None);
    let ensured = harness.claim(3_100, 2);
    assert!(matches!(ensured, Some(Outcome::Ensured(Err(EnsureFailure::Unconfirmed { .. })))), "{ensured:?}");
    harness.release(4_000, 1, 3);
    assert_eq!(harness.claim(6_999, 3), None);
    assert!(matches!(harness.claim(7_000, 3), Some(Outcome::Released(Err(_)))));
    harness.step(8_000, Event::Close(Id(4)));
    assert_eq!(harness.claim(10_999, 4), None);
    assert!(matches!(harness.claim(11_000, 4), Some(Outcome::Closed(_))));
}

#[test]
fn an_unclaimed_grant_is_undone_after_a_third_of_its_lease_or_five_seconds() {
    let endless = bounded(request(1, 60_000), 1_500);
    for (request, after) in [(request(1, 600_000), 5_000), (request(1, 3_000), 1_000), (endless, 500)] {
        let mut harness = Harness::new();
        harness.step(0, Event::Acquire(Id(1), request));
        harness.answer(7, Ok(Reply::Nil));
        assert_eq!(harness.woken, [Id(1)]);
        assert_eq!(wait(&mut harness), 7 + after, "nothing is due before, no renewal either");
        assert_eq!(harness.answer(7 + after, Ok(Reply::Int(1))).verb(), Verb::Release);
        assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
    }
}

/// Creates a harness in which 300 waits end at 100 ms, and their lock is asked for by the first call.
fn with_many_deadlines() -> Harness {
    let mut harness = Harness::new();
    for id in 1..=300 {
        harness
            .step(0, Event::Acquire(Id(id), Request { wait: Wait::Until(ms(100)), ..request(id, 30_000) }));
    }
    harness
}

#[test]
fn timers_beyond_the_bound_of_a_step_fire_in_the_next_ones() {
    let mut harness = with_many_deadlines();
    let mut ended = 0;
    for (event, least) in [(Event::Claim(Id(999)), 1), (Event::Tick, 200), (Event::Tick, 1), (Event::Tick, 0)]
    {
        harness.step(100, event);
        assert!(harness.woken.len() >= least, "{} waits ended in one step", harness.woken.len());
        ended += harness.woken.len();
    }
    assert_eq!(ended, 300);
    assert!(next_timer(&mut harness.engine) > ms(100));
}

#[test]
fn a_grant_after_the_deadline_is_not_given_while_many_timers_are_late() {
    let mut harness = with_many_deadlines();
    let other = Request { subject: subject("y"), wait: Wait::Until(ms(101)), ..request(999, 30_000) };
    harness.step(0, Event::Acquire(Id(999), other));
    let (call, _) = harness.sent.remove(1);
    harness.step(200, Event::Replied(call, Ok(Reply::Nil)));
    assert!(matches!(harness.claim(200, 999), Some(Outcome::Acquired(Err(_)))));
    assert!(harness.sent.iter().any(|(_, call)| call.verb() == Verb::Release), "the grant is undone");
}
