//! Tests of the checks that follow when another server answers for a name.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::{Event, Id, LostReason, Request, Subject, Wait};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Call, Channel, Lease, Name, Owner, Reply, Scope, StoreErrorKind, Verb};

use crate::harness::{Harness, millis, ms, next_timer, refused, request, unknown};

fn of(name: &str, owner: u64) -> Request {
    let subject = Subject::new(&Name::new(name).unwrap(), &REENTRANT);
    let lease = Lease::new(Duration::from_secs(30)).unwrap();
    Request::new(subject, Owner::from_number(owner), lease, Wait::Forever)
}

fn fixed(owner: u64) -> Request {
    Request { watchdog: false, ..request(owner, 30_000) }
}

fn replaced(harness: &mut Harness, at: u64) {
    harness.step(at, Event::Replaced(Scope::All));
}

fn lease_of(call: &Call) -> u64 {
    let lease = call.args().next().expect("a renewal has a lease");
    std::str::from_utf8(lease).unwrap().parse().unwrap()
}

#[test]
fn a_hold_that_the_new_server_lacks_is_lost_within_a_round_trip() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    replaced(&mut harness, 1_000);
    assert_eq!(harness.verbs(), [Verb::Renew]);
    harness.answer(1_001, Ok(Reply::Int(0)));
    assert_eq!(harness.engine.lost(Id(1), ms(1_001)), Some(LostReason::Deleted));
}

#[test]
fn a_hold_that_the_new_server_has_is_renewed() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    replaced(&mut harness, 1_000);
    harness.answer(1_001, Ok(Reply::Int(1)));
    assert!(harness.engine.remaining(Id(1), ms(1_001)) > Duration::from_secs(29));
    let next = millis(next_timer(&mut harness.engine));
    assert!(
        (9_000..=11_000).contains(&next),
        "{next}: the next renewal is a third of a lease after the check"
    );
}

#[test]
fn a_grant_without_a_claim_is_checked_once_it_is_claimed() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.answer(1, Ok(Reply::Nil));
    replaced(&mut harness, 1_000);
    assert_eq!(harness.verbs(), []);
    assert!(harness.step(1_001, Event::Claim(Id(1))).is_some());
    assert_eq!(harness.verbs(), [Verb::Renew]);
    harness.answer(1_002, Ok(Reply::Int(0)));
    assert_eq!(harness.engine.lost(Id(1), ms(1_002)), Some(LostReason::Deleted));
}

/// Acquires, replaces the server of a scope, and answers the acquire after that. Returns the calls behind the claim.
fn granted_by_the_server_before(request: Request, scope: Scope) -> (Harness, Vec<Verb>) {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request));
    harness.step(5, Event::Replaced(scope));
    harness.answer(1_000, Ok(Reply::Nil));
    assert!(harness.step(1_001, Event::Claim(Id(1))).is_some());
    let verbs = harness.verbs();
    (harness, verbs)
}

#[test]
fn a_grant_that_was_sent_before_another_server_took_over_is_checked() {
    let slot = Name::new("x").unwrap().slot();
    for request in [request(1, 30_000), fixed(1)] {
        for scope in [Scope::All, Scope::slots([slot])] {
            let (mut harness, verbs) = granted_by_the_server_before(request.clone(), scope);
            assert_eq!(
                verbs,
                [Verb::Renew],
                "the server before may have run it when it was replaced already"
            );
            harness.answer(1_002, Ok(Reply::Int(0)));
            assert_eq!(harness.engine.lost(Id(1), ms(1_002)), Some(LostReason::Deleted));
        }
    }
    let other = Scope::slots([(slot + 1) % 16_384]);
    assert_eq!(granted_by_the_server_before(request(1, 30_000), other).1, [], "another name moved");
}

#[test]
fn a_grant_that_was_sent_to_the_server_that_took_over_is_not_checked() {
    let mut harness = Harness::new();
    harness.step(5, Event::Replaced(Scope::All));
    harness.hold(6, 1, request(1, 30_000));
    assert_eq!(harness.verbs(), []);
}

#[test]
fn a_fixed_lease_is_checked_and_not_prolonged() {
    let mut harness = Harness::new();
    harness.hold(0, 1, fixed(1));
    replaced(&mut harness, 10_000);
    let check = harness.answer(10_001, Ok(Reply::Int(1)));
    assert_eq!((check.verb(), lease_of(&check)), (Verb::Renew, 20_000));
    assert!(harness.engine.remaining(Id(1), ms(10_001)) < Duration::from_secs(20));
    replaced(&mut harness, 11_000);
    harness.answer(11_001, Ok(Reply::Int(-1)));
    assert_eq!(harness.engine.lost(Id(1), ms(11_001)), Some(LostReason::TakenOver));
}

#[test]
fn a_check_is_none_of_the_renewals_that_a_hold_has() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(1), ..request(1, 30_000) });
    replaced(&mut harness, 1_000);
    harness.answer(1_001, Ok(Reply::Int(1)));
    assert!(harness.engine.remaining(Id(1), ms(1_001)) < Duration::from_secs(29), "the end stays");
    let due = millis(next_timer(&mut harness.engine));
    harness.step(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Renew], "the renewal is still there");
}

#[test]
fn a_check_that_fails_is_repeated_whatever_the_terms_and_is_none_of_the_renewals() {
    for terms in [fixed(1), Request { max_renewals: Some(1), ..request(1, 30_000) }] {
        let mut harness = Harness::new();
        harness.hold(0, 1, terms);
        replaced(&mut harness, 1_000);
        let mut at = 1_000;
        for failure in
            [refused(StoreErrorKind::Unreachable), unknown(Verb::Renew), refused(StoreErrorKind::Busy)]
        {
            let check = harness.answer(at + 1, failure);
            assert_eq!((check.verb(), lease_of(&check)), (Verb::Renew, 30_000 - at));
            assert!(harness.sent.is_empty());
            let next = millis(next_timer(&mut harness.engine));
            assert!((at + 1..at + 1_002).contains(&next), "{next} after {at}");
            at = next;
            harness.step(at, Event::Tick);
        }
        let check = harness.answer(at + 1, Ok(Reply::Int(1)));
        assert_eq!(lease_of(&check), 30_000 - at, "it keeps the end");
        replaced(&mut harness, 9_000);
        harness.answer(9_001, Ok(Reply::Int(0)));
        assert_eq!(harness.engine.lost(Id(1), ms(9_001)), Some(LostReason::Deleted));
    }
}

#[test]
fn a_renewal_that_is_due_goes_before_a_check_that_has_failed() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(1), ..request(1, 30_000) });
    replaced(&mut harness, 9_000);
    let mut at = 9_000;
    let renewal = loop {
        let sent = harness.answer(at + 1, refused(StoreErrorKind::Unreachable));
        if lease_of(&sent) == 30_000 {
            break at;
        }
        at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
    };
    assert!(
        (10_000..11_500).contains(&renewal),
        "the renewal after a third of the lease was at {renewal} ms"
    );
}

#[test]
fn a_check_does_not_put_the_next_renewal_off() {
    let mut harness = Harness::new();
    harness.hold(0, 1, Request { max_renewals: Some(1), ..request(1, 30_000) });
    replaced(&mut harness, 9_000);
    harness.answer(9_001, Ok(Reply::Int(1)));
    let due = millis(next_timer(&mut harness.engine));
    assert!((9_500..=10_001).contains(&due), "{due}");
}

#[test]
fn a_hold_whose_check_has_failed_does_not_pass_on() {
    let mut harness = Harness::new();
    harness.hold_at_once(1, 1, Request { max_renewals: Some(3), ..request(1, 30_000) });
    harness.step(1, Event::Acquire(Id(2), request(2, 30_000)));
    while !harness.sent.is_empty() {
        harness.answer(1, Ok(Reply::Int(30_000)));
    }
    replaced(&mut harness, 1);
    while harness.sent[0].1.verb() != Verb::Renew {
        harness.answer(1, Ok(Reply::Int(30_000)));
    }
    harness.answer(1, refused(StoreErrorKind::Unreachable));
    harness.release(1, 1, 9);
    assert!(harness.claim(1, 2).is_none(), "the server is asked");
    assert!(harness.sent.iter().any(|(_, call)| call.verb() == Verb::Release));
}

#[test]
fn a_renewal_on_its_way_is_followed_by_a_check() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    let due = millis(next_timer(&mut harness.engine));
    harness.step(due, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::Renew]);
    replaced(&mut harness, due + 1);
    assert_eq!(harness.verbs(), [Verb::Renew], "one renewal is on its way at a time");
    harness.answer(due + 2, Ok(Reply::Int(1)));
    assert_eq!(harness.verbs(), [Verb::Renew], "the one before went to the old server");
    harness.answer(due + 3, Ok(Reply::Int(0)));
    assert_eq!(harness.engine.lost(Id(1), ms(due + 3)), Some(LostReason::Deleted));
}

#[test]
fn a_hold_outside_the_scope_is_left_alone() {
    let mut harness = Harness::new();
    harness.hold(0, 1, of("a", 1));
    harness.hold(0, 2, of("b", 2));
    let slot = Name::new("b").unwrap().slot();
    harness.step(1_000, Event::Replaced(Scope::slots([slot])));
    assert_eq!(harness.verbs(), [Verb::Renew]);
    assert_eq!(harness.sent[0].1.keys().next(), Some("b"));
    harness.step(1_001, Event::Replaced(Scope::Slots(Arc::new([]))));
    assert_eq!(harness.sent.len(), 1);
}

#[test]
fn a_waiter_tries_again_at_the_new_server() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.answer(1, Ok(Reply::Int(30_000)));
    harness.step(2, Event::Listening(Channel::new("redisson_lock__channel:{x}")));
    harness.answer(3, Ok(Reply::Int(30_000)));
    assert_eq!(harness.verbs(), []);
    replaced(&mut harness, 10);
    assert_eq!(harness.verbs(), [Verb::Acquire]);
}

#[test]
fn each_waiter_in_a_queue_of_the_server_takes_its_place_again_while_this_client_holds_the_lock() {
    let fair = |owner| {
        let subject = Subject::new(&Name::new("x").unwrap(), &FAIR);
        Request { subject, ..request(owner, 30_000) }
    };
    let mut harness = Harness::new();
    harness.hold(0, 1, fair(1));
    for id in [2, 3] {
        harness.step(0, Event::Acquire(Id(id), fair(id)));
        harness.answer(1, Ok(Reply::Int(30_000)));
    }
    assert_eq!(harness.verbs(), []);
    replaced(&mut harness, 10);
    assert_eq!(harness.verbs(), [Verb::Renew, Verb::Acquire, Verb::Acquire]);
}

#[test]
fn many_holds_are_checked_in_steps_within_a_quarter_of_a_second() {
    const HOLDS: u64 = 2_000;
    let mut harness = Harness::new();
    for number in 1..=HOLDS {
        harness.hold(0, number, of(&format!("name {number}"), number));
    }
    replaced(&mut harness, 1_000);
    let (mut at, mut most) = (1_000, harness.sent.len());
    let mut checked = harness.sent.len();
    harness.sent.clear();
    while at < 1_260 {
        at = millis(next_timer(&mut harness.engine));
        if at > 1_260 {
            break;
        }
        harness.step(at, Event::Tick);
        most = most.max(harness.sent.len());
        checked += harness.sent.len();
        harness.sent.clear();
    }
    assert_eq!(checked, HOLDS as usize);
    println!("2,000 holds: at most {most} checks in one step");
    assert!(most <= 256, "{most}");
}
