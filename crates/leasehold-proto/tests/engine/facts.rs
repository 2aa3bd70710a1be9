//! The facts that observers are told.

use std::time::Duration;

use leasehold_proto::engine::{Detail, Event, Fact, GrantedBy, Group, Id, LostReason, Request, Told, Wait};
use leasehold_proto::{Reply, Verb};

use crate::harness::{Harness, ms, request, unknown};

const PATIENCE: Duration = Duration::from_secs(5);

fn observed(detail: Detail) -> Harness {
    let mut harness = Harness::new();
    harness.engine.observe(PATIENCE, detail);
    harness
}

fn facts(harness: &mut Harness) -> Vec<Fact> {
    let mut facts = Vec::new();
    harness.engine.take_facts(&mut facts);
    facts
}

/// Returns the facts without those of each call.
fn decisions(harness: &mut Harness) -> Vec<Fact> {
    facts(harness).into_iter().filter(|fact| !matches!(fact, Fact::Called { .. })).collect()
}

#[test]
fn an_acquire_and_its_release_are_told_with_their_times() {
    let mut harness = observed(Detail::All);
    harness.hold(0, 1, request(1, 30_000));
    let told = facts(&mut harness);
    let [Fact::Called { verb: Verb::Acquire, took, error: None }, acquired] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(*took, Duration::from_millis(1));
    let Fact::Acquired { hold: Id(1), waited, attempts: 1, by: GrantedBy::Server, told, .. } = acquired
    else {
        panic!("{acquired:?}")
    };
    assert_eq!((*waited, *told), (Duration::from_millis(1), Told::default()));
    harness.release(40, 1, 9);
    let told = decisions(&mut harness);
    let [Fact::Released { hold: Id(1), held, detached: false, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(*held, Duration::from_millis(39), "from the claim");
}

#[test]
fn a_waiter_is_told_once_and_a_long_wait_once_per_patience_and_name() {
    let mut harness = observed(Detail::All);
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.answer(1, Ok(Reply::Int(20_000)));
    harness.step(2, Event::Acquire(Id(2), request(2, 30_000)));
    let told = decisions(&mut harness);
    let waiting = |fact: &Fact| match fact {
        Fact::Waiting { ticket, .. } => ticket.0,
        other => panic!("{other:?}"),
    };
    assert_eq!(told.iter().map(waiting).collect::<Vec<_>>(), [1, 2]);
    assert!(harness.engine.next_timer() <= ms(5_001));
    for (at, again) in [(5_001, false), (10_002, true)] {
        harness.step(at, Event::Tick);
        harness.step(at + 1, Event::Tick);
        let told = decisions(&mut harness);
        let [Fact::Patient { ticket: Id(1), waited, again: before, .. }] = &told[..] else {
            panic!("{told:?}")
        };
        assert_eq!((waited.as_millis(), *before), (at.into(), again));
    }
    harness.step(10_010, Event::Cancel(Id(1)));
    let told = decisions(&mut harness);
    let [
        Fact::NotAcquired {
            ticket: Id(1), failure: None, told: Told { waiting: true, patient: true }, ..
        },
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    // The second waiter stands for the name now.
    harness.step(15_010, Event::Tick);
    let told = decisions(&mut harness);
    assert!(matches!(told[..], [Fact::Patient { ticket: Id(2), .. }]), "{told:?}");
}

#[test]
fn a_candidate_that_stands_by_waits_and_never_for_long() {
    let mut harness = observed(Detail::All);
    harness.step(0, Event::Acquire(Id(1), Request { stands_by: true, ..request(1, 30_000) }));
    harness.answer(1, Ok(Reply::Int(20_000)));
    let told = decisions(&mut harness);
    assert!(matches!(told[..], [Fact::Waiting { ticket: Id(1), .. }]), "{told:?}");
    harness.step(2, Event::Acquire(Id(2), request(2, 30_000)));
    harness.step(5_100, Event::Tick);
    let told = decisions(&mut harness);
    assert!(matches!(told[..], [Fact::Waiting { .. }, Fact::Patient { ticket: Id(2), .. }]), "{told:?}");
    harness.step(5_200, Event::Cancel(Id(1)));
    let told = decisions(&mut harness);
    let [Fact::NotAcquired { told: Told { waiting: true, patient: false }, .. }] = &told[..] else {
        panic!("{told:?}")
    };
}

#[test]
fn a_loss_is_told_for_each_guard_and_its_release_is_not() {
    let mut harness = observed(Detail::Rare);
    harness.hold(0, 1, request(1, 30_000));
    harness.step(10_000, Event::Tick);
    harness.answer(10_001, Ok(Reply::Int(0)));
    let told = facts(&mut harness);
    let [Fact::Lost { hold: Id(1), held, reason: LostReason::Deleted, late, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((held.as_millis(), late.is_zero()), (10_000, true));
    harness.release(10_002, 1, 9);
    assert_eq!(facts(&mut harness), []);
}

#[test]
fn where_only_what_is_rare_is_told_a_pair_tells_nothing_and_an_unknown_outcome_does() {
    let mut harness = observed(Detail::Rare);
    harness.hold(0, 1, request(1, 30_000));
    harness.release(1, 1, 9);
    harness.answer(2, Ok(Reply::Int(1)));
    harness.step(3, Event::Acquire(Id(2), Request { wait: Wait::Once, ..request(2, 30_000) }));
    harness.answer(3, Ok(Reply::Int(20_000)));
    assert_eq!(facts(&mut harness), [], "busy is no outcome that an operator acts on");
    harness.step(4, Event::Acquire(Id(3), Request { wait: Wait::Once, ..request(3, 30_000) }));
    harness.answer(7, unknown(Verb::Acquire));
    let told = facts(&mut harness);
    let [Fact::NotAcquired { ticket: Id(3), waited, failure: Some(_), .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(*waited, Duration::from_millis(3));
}

#[test]
fn the_loss_of_a_taken_offer_has_the_group_of_its_request() {
    let mut harness = observed(Detail::Rare);
    let mut grouped = request(1, 30_000);
    grouped.subject.group = Some(Box::leak(Box::new(Group::new("orders"))));
    harness.step(0, Event::Acquire(Id(1), grouped));
    harness.answer(1, Ok(Reply::Nil));
    harness.take_offer(1);
    harness.step(10_000, Event::Tick);
    harness.answer(10_001, Ok(Reply::Int(0)));
    let told = facts(&mut harness);
    let [Fact::Lost { subject, .. }] = &told[..] else { panic!("{told:?}") };
    assert_eq!(subject.group.map(Group::as_str), Some("orders"));
}

#[test]
fn a_hand_over_within_the_client_is_told_by_its_source() {
    let mut harness = observed(Detail::All);
    harness.hold(0, 1, request(1, 30_000));
    harness.step(1, Event::Acquire(Id(2), request(2, 30_000)));
    facts(&mut harness);
    harness.release(1, 1, 9);
    harness.claim(1, 2);
    let told = decisions(&mut harness);
    let [Fact::Released { .. }, Fact::Acquired { hold: Id(2), by: GrantedBy::HandOff, attempts: 0, .. }] =
        &told[..]
    else {
        panic!("{told:?}")
    };
}
