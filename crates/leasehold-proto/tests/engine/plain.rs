//! The plain lock in the engine: what each attempt and release sends, and how long a waiter sleeps.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Request, Subject};
use leasehold_proto::recipe::CallContext;
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::PLAIN;
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Name, Reply, Verb, WireOwner};

use crate::harness::{Harness, millis, ms, next_timer, request, unknown};

fn plain(owner: u64) -> Request {
    Request { subject: Subject::new(&Name::new("x").unwrap(), &PLAIN), ..request(owner, 30_000) }
}

/// Returns true if the call may go out as a native command.
fn is_native(call: &Call) -> bool {
    call.script().native().is_some()
}

/// The reply of the script of a waiter: a holder of this library, or another one.
fn refused(millis: i64) -> Reply {
    Reply::Int(millis)
}

fn polled(millis: i64) -> Reply {
    Reply::Array(vec![Reply::Int(millis)])
}

/// The reply of the first attempt: the value of the holder.
fn held() -> Reply {
    Reply::Text(b"another".to_vec())
}

/// Lets a waiter be refused once and listen. Its second attempt is on its way then.
fn with_waiter() -> Harness {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), plain(1)));
    assert!(is_native(&harness.answer(1, Ok(held()))));
    let channel = harness.listening.iter().next().unwrap().clone();
    harness.step(2, Event::Listening(channel));
    harness
}

#[test]
fn a_waiter_that_listens_marks_and_a_single_attempt_does_not() {
    let mut harness = with_waiter();
    let second = harness.answer(3, Ok(refused(20_000)));
    assert!(!is_native(&second) && second.argument("marks") == Some("1"), "{second:?}");
    let mut harness = Harness::new();
    let once = Request { wait: leasehold_proto::engine::Wait::Once, ..plain(1) };
    harness.step(0, Event::Acquire(Id(1), once));
    assert!(is_native(&harness.answer(1, Ok(held()))));
}

#[test]
fn an_attempt_after_an_unknown_outcome_is_no_native_one() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), plain(1)));
    let first = harness.answer(1, unknown(Verb::Acquire));
    let at = millis(next_timer(&mut harness.engine));
    harness.step(at, Event::Tick);
    let (_, second) = &harness.sent[0];
    assert!(is_native(&first) && !is_native(second));
    assert_eq!(first.argument("value"), second.argument("value"), "it may be its own");
}

#[test]
fn a_release_is_native_only_while_no_waiter_is_known() {
    let mut harness = Harness::new();
    harness.hold_at_once(0, 1, plain(1));
    harness.release(10, 1, 99);
    assert!(is_native(&harness.answer(11, Ok(Reply::Int(0)))));
    harness.hold_at_once(20, 2, plain(2));
    harness.step(21, Event::Acquire(Id(3), plain(3)));
    harness.release(5_000, 2, 98);
    let release = harness.sent.iter().find(|(_, call)| call.verb() == Verb::Release).unwrap();
    assert!(!is_native(&release.1), "the attempt of the waiter is right behind it");
}

#[test]
fn a_holder_that_sends_no_message_is_polled_and_watched() {
    let mut harness = with_waiter();
    let mut at = 3;
    for poll in 0..12 {
        let call = harness.answer(at, Ok(polled(20_000)));
        assert_eq!(call.script().is_tracked(), poll > 0, "the second poll knows that no message will come");
        let next = millis(next_timer(&mut harness.engine));
        assert!((at + 1..=at + 280).contains(&next), "{at} {next}");
        harness.step(next, Event::Tick);
        at = next;
    }
    harness.answer(at, Ok(refused(20_000)));
    let next = millis(next_timer(&mut harness.engine));
    assert!(next > at + 500, "a holder of this library sends a message");
}

#[test]
fn a_silent_release_hides_no_message_of_another_client() {
    let mut harness = Harness::new();
    harness.hold_at_once(0, 1, plain(1));
    for owner in [2, 3] {
        harness.step(1, Event::Acquire(Id(owner), plain(owner)));
    }
    let channel = harness.listening.iter().next().unwrap().clone();
    harness.step(2, Event::Listening(channel.clone()));
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(Reply::Int(2)));
    }
    harness.release(5_000, 1, 99);
    assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire]);
    harness.answer(5_001, Ok(Reply::Int(0)));
    harness.answer(5_001, Ok(refused(20_000)));
    let before = harness.sent.len();
    harness.step(5_002, Event::Message(channel));
    let at = millis(next_timer(&mut harness.engine)).min(5_020);
    harness.step(at, Event::Tick);
    assert!(harness.sent.len() > before, "another client has released the lock, not this one");
}

#[test]
fn waiters_leave_clients_that_poll_a_part_of_their_share() {
    let share = Some(Duration::from_millis(400));
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { share, ..plain(1) }));
    harness.answer(1, Ok(held()));
    let channel = harness.listening.iter().next().unwrap().clone();
    let mut pauses = Vec::new();
    for round in 0..8 {
        let at = 1_000 * (round + 1);
        harness.step(at, Event::Message(channel.clone()));
        assert_eq!(harness.sent.len(), 0, "the first attempt after a message waits");
        let next = millis(next_timer(&mut harness.engine));
        assert!((at..=at + 400).contains(&next), "{at} {next}");
        pauses.push(next - at);
        harness.step_at(ms(next), Event::Tick);
        harness.answer(next, Ok(refused(60_000)));
    }
    pauses.sort_unstable();
    pauses.dedup();
    assert!(pauses.len() > 4, "the part is random: {pauses:?}");
}

#[test]
fn releases_without_end_do_not_prolong_the_share_of_others() {
    let share = Some(Duration::from_millis(400));
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { share, ..plain(1) }));
    harness.answer(1, Ok(held()));
    let channel = harness.listening.iter().next().unwrap().clone();
    let begin = 1_000;
    // Another client's tasks hold the lock for 5 ms each, and each release is marked, so it sends a message.
    let attempted = (0..200).map(|message| begin + 5 * message).find(|at| {
        harness.step(*at, Event::Message(channel.clone()));
        harness.step(*at, Event::Tick);
        !harness.sent.is_empty()
    });
    assert!(attempted.is_some_and(|at| at <= begin + 405), "{attempted:?}");
}

#[test]
fn a_renewal_asks_for_the_rest_of_a_longer_lease() {
    let mut harness = Harness::new();
    let long = Request { watchdog: false, lease: Lease::clamped(Duration::from_secs(60)), ..plain(1) };
    harness.hold_at_once(0, 1, long);
    let short = Request { watchdog: true, lease: Lease::clamped(Duration::from_secs(3)), ..plain(1) };
    harness.step(1_000, Event::Acquire(Id(2), short));
    harness.answer(1_001, Ok(Reply::Int(2)));
    harness.step(1_002, Event::Claim(Id(2)));
    harness.release(1_003, 1, 99);
    assert_eq!(harness.answer(1_004, Ok(Reply::Int(0))).verb(), Verb::Release);
    let renewal = (0..5).find_map(|_| {
        let at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
        (!harness.sent.is_empty()).then(|| harness.answer(at, Ok(Reply::Int(2))))
    });
    let renewal = renewal.expect("the watchdog renews");
    assert_eq!(renewal.verb(), Verb::Renew);
    let lease: u64 = renewal.argument("lease_ms").unwrap().parse().unwrap();
    assert!(lease > 50_000, "{lease}");
}

#[test]
fn a_release_that_others_have_to_be_told_of_is_no_native_one() {
    let formats: [fn(&mut Format); 3] = [
        |format| format.list = Some(Name::new("list").unwrap()),
        |format| format.channel = Some("channel".into()),
        |format| format.token = Some("token".into()),
    ];
    for set in formats {
        let mut format = Format::default();
        set(&mut format);
        let subject = Subject::new(&Name::new("x").unwrap(), &PLAIN).formatted(format.clone());
        let owner = WireOwner::new(ClientId::from_random([7; 16]), 1);
        let args = CallArgs::new(&subject, owner, Lease::clamped(Duration::from_secs(9))).count(0);
        let context = CallContext { quiet: true, ..CallContext::default() };
        assert!(!is_native(&(PLAIN.release)(&CallArgs { context, ..args })), "{format:?}");
    }
}

#[test]
fn the_own_next_waiter_leaves_a_share_behind_a_release_too() {
    let share = Some(Duration::from_millis(400));
    let mut harness = Harness::new();
    harness.hold_at_once(0, 1, Request { share, ..plain(1) });
    harness.step(1, Event::Acquire(Id(2), Request { share, ..plain(2) }));
    let channel = harness.listening.iter().next().unwrap().clone();
    harness.step(2, Event::Listening(channel));
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(refused(30_000)));
    }
    harness.release(5_000, 1, 99);
    assert_eq!(harness.verbs(), [Verb::Release], "no attempt is right behind it");
    harness.answer(5_001, Ok(Reply::Int(0)));
    assert_eq!(harness.verbs(), [], "clients that poll come first");
    let next = millis(next_timer(&mut harness.engine));
    assert!((5_001..=5_401).contains(&next), "{next}");
}
