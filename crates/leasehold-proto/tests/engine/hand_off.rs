//! Tests of the hand-off: a hold that passes to the next waiter of its client without a call.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, Event, Grant, Id, LostReason, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::fenced::{Tokens, with_tokens};
use leasehold_proto::recipe::read_write::WRITE_LOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Channel, Confirm, Name, Reply, StoreErrorKind, Verb};

use crate::harness::{Harness, bounded, millis, ms, next_timer, refused, request, unknown};

/// Creates a harness with hold 1 of owner 1, which was granted at 1 ms, and waiter 2 of owner 2.
fn with_waiter(hold: Request, waiter: Request) -> Harness {
    let mut harness = Harness::new();
    harness.hold_at_once(1, 1, hold);
    harness.step(1, Event::Acquire(Id(2), waiter));
    while !harness.sent.is_empty() {
        harness.answer(1, Ok(Reply::Int(30_000)));
    }
    harness
}

fn grant_of(outcome: Option<Outcome>) -> Grant {
    match outcome {
        Some(Outcome::Acquired(Ok(grant))) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

/// Releases hold 1 within the bound. Returns the verbs of the calls that were sent.
fn verbs_of_release(harness: &mut Harness) -> Vec<Verb> {
    harness.release(2, 1, 9);
    harness.verbs()
}

#[test]
fn a_hold_passes_to_the_next_waiter_without_a_call() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Acquire(Id(3), request(3, 30_000)));
    assert_eq!(verbs_of_release(&mut harness), []);
    assert_eq!(harness.claim(2, 9), Some(Outcome::Released(Ok(true))));
    let first = grant_of(harness.claim(2, 2));
    assert_eq!(harness.engine.remaining(Id(1), ms(2)), Duration::ZERO, "the first guard has nothing left");
    assert!(!harness.engine.remaining(Id(2), ms(2)).is_zero());
    harness.release(2, 2, 10);
    assert_eq!(grant_of(harness.claim(2, 3)).wire, first.wire, "the server sees one hold");
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.step(3, Event::Tick);
    assert!(harness.sent.is_empty(), "the bound is over: {:?}", harness.sent);
    let renewed_at = millis(next_timer(&mut harness.engine));
    assert!((9_000..=10_000).contains(&renewed_at), "{renewed_at}: the watchdog counts from the acquire");
}

#[test]
fn a_hold_is_released_when_its_bound_is_over() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.release(3, 1, 9);
    assert_eq!(
        harness.verbs(),
        [Verb::Release, Verb::Acquire],
        "the client's next attempt goes out behind its release"
    );
}

#[test]
fn a_hold_that_was_passed_on_does_not_get_a_new_bound() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    assert_eq!(verbs_of_release(&mut harness), []);
    grant_of(harness.claim(2, 2));
    harness.step(2, Event::Acquire(Id(3), request(3, 30_000)));
    harness.release(3, 2, 10);
    assert_eq!(harness.sent[0].1.verb(), Verb::Release);
}

#[test]
fn a_hold_passes_only_to_a_waiter_whose_terms_it_fits() {
    let off = Some(Duration::ZERO);
    let unfit: [(&str, Request); 9] = [
        ("a fixed lease", Request { watchdog: false, ..request(2, 30_000) }),
        ("a longer lease", request(2, 30_001)),
        ("a shorter lease", request(2, 3_000)),
        ("a maximum hold that is shorter than the lease", bounded(request(2, 60_000), 29_999)),
        ("a maximum hold that ends before the lease", bounded(request(2, 30_000), 29_000)),
        ("a minimum hold", Request { min_hold: Some(Duration::from_secs(1)), ..request(2, 30_000) }),
        ("no hand-off", Request { hand_off: off, ..request(2, 30_000) }),
        ("a server's uptime", Request { uptime: Duration::from_secs(1), ..request(2, 30_000) }),
        ("a replica", Request { replicas: Some(Confirm::AtLeast(1)), ..request(2, 30_000) }),
    ];
    for (what, waiter) in unfit {
        let mut harness = with_waiter(request(1, 30_000), waiter);
        assert_eq!(verbs_of_release(&mut harness).first(), Some(&Verb::Release), "{what}");
    }
    for fit in [request(2, 30_000), bounded(request(2, 30_000), 60_000), bounded(request(2, 60_000), 30_000)]
    {
        let mut harness = with_waiter(request(1, 30_000), fit);
        assert_eq!(verbs_of_release(&mut harness), []);
    }
}

#[test]
fn a_hold_whose_own_terms_forbid_it_is_not_passed_on() {
    let least = Request { min_hold: Some(Duration::from_secs(1)), ..request(1, 30_000) };
    let off = Request { hand_off: Some(Duration::ZERO), ..request(1, 30_000) };
    for hold in [least, off] {
        let mut harness = with_waiter(hold, request(2, 30_000));
        verbs_of_release(&mut harness);
        assert_eq!(harness.claim(2, 2), None);
    }
}

/// The reply of a fenced lock.
fn numbered(pttl: i64, token: &str) -> Reply {
    Reply::Array(vec![Reply::Int(pttl), Reply::Text(token.into())])
}

/// Returns an acquire of a fenced lock.
fn fenced(owner: u64) -> Request {
    let subject = Subject::new(&Name::new("x").unwrap(), with_tokens(Tokens::Hybrid));
    Request { subject, ..request(owner, 30_000) }
}

/// Answers the oldest call, an acquire. Returns the number of tokens that it reserves.
fn reserved(harness: &mut Harness, reply: Reply) -> u64 {
    let call = harness.answer(1, Ok(reply));
    assert_eq!(call.verb(), Verb::Acquire);
    call.argument("tokens").unwrap().parse().unwrap()
}

/// Creates a harness with a bound of a minute, and 20 waiters for a fenced lock that another waiter has just released.
/// The attempt for them is on its way.
fn with_fenced_waiters() -> Harness {
    with_waiters(fenced)
}

fn with_waiters(waiter: impl Fn(u64) -> Request) -> Harness {
    let mut harness = Harness::with(Settings { hand_off: Duration::from_secs(60), ..Settings::default() });
    harness.step(1, Event::Acquire(Id(1), fenced(1)));
    assert_eq!(reserved(&mut harness, numbered(-2, "7")), 1, "a waiter alone needs one token");
    assert_eq!(grant_of(harness.claim(1, 1)).token, Some(7));
    for id in 2..=21 {
        harness.step(1, Event::Acquire(Id(id), waiter(id)));
    }
    harness.release(1, 1, 30);
    let released = Reply::Array(vec![Reply::Int(1), Reply::Int(0)]);
    assert_eq!(harness.answer(1, Ok(released)).verb(), Verb::Release);
    harness
}

/// Grants the waiters the tokens from 100 on.
fn with_tokens_reserved() -> Harness {
    let mut harness = with_fenced_waiters();
    assert_eq!(reserved(&mut harness, numbered(-2, "100")), 16);
    harness
}

#[test]
fn no_tokens_are_reserved_for_a_hold_that_does_not_pass_on() {
    let off = |id| Request { hand_off: Some(Duration::ZERO), ..fenced(id) };
    let off_for = |off_for: u64| move |id| if id == off_for { off(id) } else { fenced(id) };
    for (waiters, tokens) in [(off_for(2), 1), (off_for(3), 1), (off_for(4), 16)] {
        assert_eq!(reserved(&mut with_waiters(waiters), numbered(-2, "100")), tokens);
    }
}

#[test]
fn a_repeated_acquire_reserves_as_many_tokens_as_the_first_one() {
    let mut harness = with_fenced_waiters();
    let call = harness.answer(1, unknown(Verb::Acquire));
    assert_eq!(call.argument("tokens"), Some("16"));
    for id in 3..=21 {
        harness.step(1, Event::Cancel(Id(id)));
    }
    let again_at = millis(next_timer(&mut harness.engine));
    harness.step(again_at, Event::Tick);
    assert_eq!(reserved(&mut harness, numbered(-2, "100")), 16, "one waiter is left");
    assert_eq!(grant_of(harness.claim(again_at, 2)).token, Some(100));
}

#[test]
fn a_fenced_hold_passes_on_with_the_tokens_that_its_grant_reserved() {
    let mut harness = with_tokens_reserved();
    let wire = grant_of(harness.claim(100, 2)).wire;
    for id in 3..=17 {
        harness.release(100, id - 1, 40 + id);
        let grant = grant_of(harness.claim(100, id));
        assert_eq!((grant.wire, grant.token), (wire, Some(98 + id)));
    }
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    harness.release(100, 17, 60);
    assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire], "the sixteenth holder has the last token");
}

#[test]
fn a_hold_passes_to_no_waiter_for_other_tokens() {
    let counted = Subject::new(&Name::new("x").unwrap(), with_tokens(Tokens::Counter));
    let waiter = |id| match id {
        4 => Request { subject: counted.clone(), ..fenced(id) },
        _ => fenced(id),
    };
    let mut harness = with_waiters(waiter);
    assert_eq!(reserved(&mut harness, numbered(-2, "100")), 16);
    grant_of(harness.claim(100, 2));
    harness.release(100, 2, 40);
    grant_of(harness.claim(100, 3));
    harness.release(100, 3, 41);
    assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire], "the server gives tokens of the other kind");
}

#[test]
fn a_re_entry_keeps_the_token_of_a_hold_that_was_passed_on() {
    let mut harness = with_tokens_reserved();
    grant_of(harness.claim(100, 2));
    harness.release(100, 2, 40);
    assert_eq!(grant_of(harness.claim(100, 3)).token, Some(101));
    harness.step(100, Event::Acquire(Id(22), fenced(3)));
    harness.answer(100, Ok(Reply::Int(1)));
    assert_eq!(grant_of(harness.claim(100, 22)).token, Some(101));
}

#[test]
fn the_server_hands_over_what_it_orders_or_counts() {
    let recipes = [
        (&FAIR, Reply::Nil, Reply::Int(30_000)),
        (&WRITE_LOCK, Reply::Nil, Reply::Int(30_000)),
        // A token that was granted without waiters has no successor.
        (with_tokens(Tokens::Counter), numbered(-2, "7"), numbered(30_000, "")),
    ];
    for (recipe, granted, refused) in recipes {
        let subject = Subject::new(&Name::new("x").unwrap(), recipe);
        let of = |owner| Request { subject: subject.clone(), ..request(owner, 30_000) };
        let mut harness = Harness::new();
        harness.step(1, Event::Acquire(Id(1), of(1)));
        harness.answer(1, Ok(granted));
        grant_of(harness.claim(1, 1));
        harness.step(1, Event::Acquire(Id(2), of(2)));
        while !harness.sent.is_empty() {
            harness.answer(1, Ok(refused.clone()));
        }
        assert_eq!(verbs_of_release(&mut harness).first(), Some(&Verb::Release), "{recipe:?}");
    }
}

/// Creates a harness with a bound of a minute, hold 1, waiter 2, and a renewal of the hold on its way at 1,000 ms.
fn with_renewal() -> Harness {
    let mut harness = Harness::with(Settings { hand_off: Duration::from_secs(60), ..Settings::default() });
    harness.hold(0, 1, request(1, 30_000));
    harness.step(1, Event::Acquire(Id(2), request(2, 30_000)));
    harness.step(1_000, Event::Ensure { id: Id(5), hold: Id(1), least: Duration::from_millis(29_500) });
    assert_eq!(harness.sent[0].1.verb(), Verb::Renew);
    harness
}

#[test]
fn a_hold_whose_renewal_is_on_its_way_is_released() {
    let mut harness = with_renewal();
    harness.release(1_001, 1, 9);
    assert_eq!(harness.sent[1].1.verb(), Verb::Release);
    assert_eq!(harness.claim(1_001, 2), None);
}

#[test]
fn a_hold_whose_renewal_has_an_unknown_outcome_is_released() {
    let mut harness = with_renewal();
    harness.answer(1_001, unknown(Verb::Renew));
    harness.release(1_002, 1, 9);
    assert_eq!(harness.verbs().first(), Some(&Verb::Release));
    assert_eq!(harness.claim(1_002, 2), None);
}

/// Creates a harness with a bound of a minute, holds 1 and 3 of one owner, and waiter 2 of another one.
fn with_re_entry() -> Harness {
    let mut harness = Harness::with(Settings { hand_off: Duration::from_secs(60), ..Settings::default() });
    harness.hold(0, 1, request(1, 30_000));
    harness.hold(1, 3, request(1, 30_000));
    harness.step(2, Event::Acquire(Id(2), request(2, 30_000)));
    assert_eq!(harness.verbs(), []);
    harness
}

#[test]
fn a_hold_whose_count_is_being_raised_is_released() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Acquire(Id(3), request(1, 30_000)));
    harness.step(1, Event::Cancel(Id(3)));
    assert_eq!(verbs_of_release(&mut harness)[..2], [Verb::Renew, Verb::Release]);
    assert_eq!(harness.claim(2, 2), None);
}

#[test]
fn a_hold_whose_count_is_being_lowered_is_released() {
    let mut harness = with_re_entry();
    harness.release(3, 3, 8);
    harness.release(3, 1, 9);
    let remaining: Vec<_> = harness.sent.iter().map(|(_, call)| call.argument("remaining")).collect();
    assert_eq!(remaining[..2], [Some("1"), Some("0")]);
    assert_eq!(harness.claim(3, 2), None);
}

#[test]
fn a_hold_whose_count_was_not_lowered_is_released() {
    let mut harness = with_re_entry();
    harness.release(3, 3, 8);
    harness.answer(4, refused(StoreErrorKind::Busy));
    harness.release(5, 1, 9);
    assert_eq!(harness.verbs().first(), Some(&Verb::Release));
    assert_eq!(harness.claim(5, 2), None);
}

#[test]
fn a_hold_whose_count_was_lowered_passes_on() {
    let mut harness = with_re_entry();
    harness.release(3, 3, 8);
    harness.answer(4, Ok(Reply::Int(0)));
    harness.release(5, 1, 9);
    assert_eq!(harness.verbs(), []);
    grant_of(harness.claim(5, 2));
}

#[test]
fn a_renewed_hold_passes_on() {
    let mut harness = with_renewal();
    harness.answer(1_001, Ok(Reply::Int(1)));
    harness.release(1_002, 1, 9);
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    grant_of(harness.claim(1_002, 2));
}

#[test]
fn a_lost_hold_passes_to_no_waiter() {
    let mut harness = with_renewal();
    harness.answer(1_001, Ok(Reply::Int(0)));
    assert_eq!(harness.engine.lost(Id(1), ms(1_001)), Some(LostReason::Deleted));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the waiter makes an attempt");
    harness.release(1_002, 1, 9);
    assert_eq!(harness.claim(1_002, 9), Some(Outcome::Released(Ok(false))));
    assert_eq!(harness.claim(1_002, 2), None);
    harness.answer(1_003, Ok(Reply::Nil));
    grant_of(harness.claim(1_003, 2));
}

#[test]
fn a_hold_with_less_than_nine_tenths_of_its_validity_is_released() {
    let settings = Settings { hand_off: Duration::from_secs(60), ..Settings::default() };
    for (at, verbs) in [(2_000, 0), (4_000, 2)] {
        let mut harness = Harness::with(settings);
        harness.hold(0, 1, request(1, 30_000));
        harness.step(1, Event::Acquire(Id(2), request(2, 30_000)));
        harness.release(at, 1, 9);
        assert_eq!(harness.sent.len(), verbs, "at {at} ms: {:?}", harness.sent);
    }
}

#[test]
fn a_waiter_that_left_or_is_late_gets_no_hold() {
    let until = Request { wait: Wait::Until(ms(2)), ..request(2, 30_000) };
    let mut harness = with_waiter(request(1, 30_000), until);
    harness.step(1, Event::Acquire(Id(3), request(3, 30_000)));
    harness.step(1, Event::Acquire(Id(4), request(4, 30_000)));
    harness.step(1, Event::Cancel(Id(3)));
    assert_eq!(verbs_of_release(&mut harness), []);
    assert_eq!(harness.claim(2, 2), Some(Outcome::Acquired(Err(AcquireFailure::Contended))));
    grant_of(harness.claim(2, 4));
}

#[test]
fn a_first_waiter_that_left_gets_no_hold() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Acquire(Id(3), request(3, 30_000)));
    harness.step(1, Event::Cancel(Id(2)));
    assert_eq!(verbs_of_release(&mut harness), []);
    grant_of(harness.claim(2, 3));
    harness.release(2, 3, 10);
    assert_eq!(harness.verbs(), [Verb::Release], "no waiter is left");
}

#[test]
fn a_waiter_whose_timer_is_late_gets_no_hold() {
    let mut harness = Harness::with(Settings { hand_off: Duration::from_secs(60), ..Settings::default() });
    harness.hold(0, 1, request(1, 30_000));
    // More timers are due before that of the waiter than one step of a caller fires.
    for (id, name, until) in (10..30).map(|id| (id, format!("x{id}"), ms(2))).chain([(2, "x".into(), ms(3))])
    {
        let subject = Subject::new(&Name::new(&name).unwrap(), &REENTRANT);
        let wait = Wait::Until(until);
        harness.step(1, Event::Acquire(Id(id), Request { subject, wait, ..request(2, 30_000) }));
    }
    harness.sent.clear();
    harness.release(4, 1, 9);
    assert_eq!(harness.claim(4, 2), Some(Outcome::Acquired(Err(AcquireFailure::Contended))));
}

#[test]
fn an_unclaimed_hold_is_released_in_time() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    assert_eq!(verbs_of_release(&mut harness), []);
    assert_eq!(millis(next_timer(&mut harness.engine)), 2 + 5_000);
    harness.step(5_002, Event::Tick);
    assert_eq!(harness.sent[0].1.verb(), Verb::Release);
}

#[test]
fn the_acquires_of_one_owner_get_one_hold() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Acquire(Id(3), request(2, 30_000)));
    harness.release(2, 1, 9);
    grant_of(harness.claim(2, 2));
    assert_eq!(harness.answer(3, Ok(Reply::Int(1))).verb(), Verb::Renew, "the second one raises the count");
    grant_of(harness.claim(3, 3));
}

#[test]
fn a_closed_client_hands_nothing_off() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Close(Id(20)));
    assert_eq!(harness.claim(1, 2), Some(Outcome::Acquired(Err(AcquireFailure::Closed))));
    assert!(harness.sent.iter().all(|(_, call)| call.verb() == Verb::Release), "{:?}", harness.sent);
}

#[test]
fn the_remaining_waiters_still_listen() {
    let mut harness = with_waiter(request(1, 30_000), request(2, 30_000));
    harness.step(1, Event::Acquire(Id(3), request(3, 30_000)));
    let channel = Channel::new("redisson_lock__channel:{x}");
    harness.step(1, Event::Listening(channel.clone()));
    harness.release(2, 1, 9);
    grant_of(harness.claim(2, 2));
    assert!(harness.listening.contains(&channel));
    harness.step(100, Event::Message(channel));
    assert_eq!(harness.sent[0].1.verb(), Verb::Acquire, "the message says that the hold was taken away");
}
