//! Tests of wait queues: whom a grant reaches, how many attempts are on their way, and how a line stays alive.

use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::read_write::READ_LOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::{FIFO_SEMAPHORE, SEMAPHORE};
use leasehold_proto::{Lease, Name, Recipe, Reply, StoreError, Verb};

use crate::harness::{Harness, millis, next_timer, request, unknown};

fn of(recipe: &'static Recipe, owner: u64) -> Request {
    Request { subject: Subject::new(&Name::new("x").unwrap(), recipe), ..request(owner, 30_000) }
}

#[test]
fn a_grant_goes_only_to_a_waiter_whose_terms_it_fits() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.step(1, Event::Acquire(Id(2), request(2, 60_000)));
    harness.step(2, Event::Cancel(Id(1)));
    assert_eq!(harness.answer(3, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert_eq!(harness.claim(3, 2), None, "the grant has a lease of 30 s");
    assert_eq!(harness.answer(4, Ok(Reply::Int(1))).verb(), Verb::Release, "no waiter wants it");
    assert_eq!(harness.answer(5, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(matches!(harness.claim(5, 2), Some(Outcome::Acquired(Ok(_)))));
}

#[test]
fn a_grant_whose_waiter_has_left_goes_to_the_next_one() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), request(1, 30_000)));
    harness.step(1, Event::Acquire(Id(2), request(2, 30_000)));
    harness.step(2, Event::Cancel(Id(1)));
    harness.answer(3, Ok(Reply::Nil));
    assert!(matches!(harness.claim(3, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_late_grant_burns_its_wire_owner() {
    for recipe in [&REENTRANT, &FAIR] {
        let mut harness = Harness::new();
        let short = Lease::new(Duration::from_secs(1)).unwrap();
        harness.step(0, Event::Acquire(Id(1), Request { lease: short, ..of(recipe, 1) }));
        let late = harness.answer(1_100, Ok(Reply::Nil));
        let undo = harness.answer(1_101, Ok(Reply::Int(1)));
        assert_eq!((undo.verb(), undo.argument("owner")), (Verb::Release, late.argument("owner")));
        while harness.sent.is_empty() {
            let at = millis(next_timer(&mut harness.engine));
            harness.step(at, Event::Tick);
        }
        let (_, again) = &harness.sent[0];
        assert_eq!(again.verb(), Verb::Acquire);
        assert_ne!(again.argument("owner"), late.argument("owner"));
    }
}

#[test]
fn each_grant_of_a_permit_doubles_the_attempts_until_one_is_refused() {
    let mut harness = Harness::new();
    for id in 1..=40 {
        harness.step(0, Event::Acquire(Id(id), of(&SEMAPHORE, id)));
    }
    for attempts in [1, 2, 4, 8] {
        assert_eq!(harness.sent.len(), attempts);
        harness.answer(1, Ok(Reply::Int(1)));
    }
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(Reply::Int(0)));
    }
    let channel = harness.listening.first().unwrap().clone();
    harness.step(3, Event::Listening(channel.clone()));
    assert_eq!(harness.sent.len(), 1, "nothing suggests that more is there");
    harness.answer(4, Ok(Reply::Int(0)));
    harness.step(5, Event::Message(channel));
    assert_eq!(harness.sent.len(), 1);
}

/// The replies that refuse and grant a primitive which several waiters can have at once.
const SHARED: [(&Recipe, Reply, Reply); 2] =
    [(&READ_LOCK, Reply::Int(20_000), Reply::Nil), (&SEMAPHORE, Reply::Int(0), Reply::Int(1))];

fn with_eight_waiters(recipe: &'static Recipe) -> Harness {
    let mut harness = Harness::new();
    for id in 1..=8 {
        harness.step(0, Event::Acquire(Id(id), of(recipe, id)));
    }
    harness
}

/// Grants one attempt after the other, and checks that each grant doubles the attempts.
fn check_doubling(harness: &mut Harness, at: u64, recipe: &Recipe, granted: &Reply) {
    for attempts in [1, 2, 4] {
        assert_eq!(harness.sent.len(), attempts, "of {}", recipe.kind);
        harness.answer(at, Ok(granted.clone()));
    }
}

#[test]
fn a_refusal_from_before_a_message_does_not_stop_the_waiters_behind_the_next_grant() {
    for (recipe, refused, granted) in SHARED {
        let mut harness = with_eight_waiters(recipe);
        harness.answer(1, Ok(refused.clone()));
        let channel = harness.listening.first().unwrap().clone();
        harness.step(2, Event::Listening(channel.clone()));
        assert_eq!(harness.sent.len(), 1);
        // The message comes on another connection than the refusal, and overtakes it.
        harness.step(3, Event::Message(channel));
        harness.answer(4, Ok(refused));
        check_doubling(&mut harness, 5, recipe, &granted);
    }
}

#[test]
fn a_grant_to_an_attempt_after_a_refusal_lets_the_next_readers_try() {
    let (recipe, refused, granted) = SHARED[0].clone();
    let mut harness = with_eight_waiters(recipe);
    harness.answer(1, Ok(refused));
    harness.step(2, Event::Acquire(Id(9), Request { wait: Wait::Once, ..of(recipe, 9) }));
    harness.answer(3, Ok(granted.clone()));
    assert!(matches!(harness.claim(3, 9), Some(Outcome::Acquired(Ok(_)))));
    // The message of another client's release was lost, so the end of the own hold is the first news.
    harness.release(4, 9, 99);
    while harness.sent[0].1.verb() == Verb::Release {
        harness.answer(5, Ok(Reply::Int(0)));
    }
    check_doubling(&mut harness, 6, recipe, &granted);
}

#[test]
fn a_grant_of_the_permit_that_the_client_gave_back_costs_no_further_attempt() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), of(&SEMAPHORE, 1)));
    harness.answer(0, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    for id in 2..=8 {
        harness.step(1, Event::Acquire(Id(id), of(&SEMAPHORE, id)));
    }
    answer_all(&mut harness, &Reply::Int(0));
    harness.release(10, 1, 99);
    assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire]);
    harness.answer(11, Ok(Reply::Int(1)));
    harness.answer(12, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(12, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_further_refusal_from_before_a_message_does_not_stop_the_waiters_either() {
    for (recipe, refused, granted) in SHARED {
        let mut harness = with_eight_waiters(recipe);
        harness.answer(0, Ok(granted.clone()));
        assert_eq!(harness.sent.len(), 2);
        harness.answer(1, Ok(refused.clone()));
        let channel = harness.listening.first().unwrap().clone();
        harness.step(2, Event::Listening(channel));
        assert_eq!(harness.sent.len(), 2, "the further attempt is still on its way");
        harness.answer(3, Ok(refused));
        check_doubling(&mut harness, 4, recipe, &granted);
    }
}

#[test]
fn a_further_refusal_from_before_a_release_does_not_count_against_it() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { units: 3, ..of(&SEMAPHORE, 1) }));
    harness.answer(0, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    for id in 2..=8 {
        harness.step(1, Event::Acquire(Id(id), of(&SEMAPHORE, id)));
    }
    harness.answer(1, Ok(Reply::Int(1)));
    assert_eq!(harness.sent.len(), 2);
    harness.answer(2, Ok(Reply::Int(0)));
    harness.release(3, 1, 99);
    assert_eq!(harness.verbs()[..2], [Verb::Acquire, Verb::Release]);
    harness.answer(4, Ok(Reply::Int(0)));
    harness.answer(5, Ok(Reply::Int(2)));
    for left in [3, 2, 1] {
        assert!(!harness.sent.is_empty(), "{left} of 3 units have no attempt");
        harness.answer(6, Ok(Reply::Int(1)));
    }
}

#[test]
fn each_unit_that_the_client_gives_back_lets_a_waiter_try() {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), Request { units: 2, ..of(&SEMAPHORE, 1) }));
    harness.answer(0, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    for id in 2..=4 {
        harness.step(1, Event::Acquire(Id(id), of(&SEMAPHORE, id)));
    }
    answer_all(&mut harness, &Reply::Int(0));
    let channel = harness.listening.first().unwrap().clone();
    harness.step(3, Event::Listening(channel));
    answer_all(&mut harness, &Reply::Int(0));
    harness.release(10, 1, 9);
    assert_eq!(harness.answer(11, Ok(Reply::Int(2))).verb(), Verb::Release);
    let mut left = 2;
    while let Some((_, call)) = harness.sent.first() {
        assert_eq!(call.verb(), Verb::Acquire);
        let granted = i64::from(left > 0);
        left -= granted;
        harness.answer(12, Ok(Reply::Int(granted)));
    }
    assert_eq!(left, 0, "each permit that came back has a waiter at once");
}

#[test]
fn one_call_shows_that_all_queued_waiters_are_alive_and_each_tries_again_when_places_are_lost() {
    let mut harness = Harness::new();
    for id in 1..=3 {
        harness.step(0, Event::Acquire(Id(id), of(&FAIR, id)));
        harness.answer(0, Ok(Reply::Int(600_000)));
    }
    let channel = harness.listening.first().unwrap().clone();
    harness.step(1, Event::Listening(channel));
    harness.answer(1, Ok(Reply::Int(600_000)));
    for (found, asking) in [(3, vec![]), (2, vec![Verb::Acquire; 3])] {
        assert!(harness.sent.is_empty(), "{:?}", harness.sent);
        let at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
        assert_eq!(harness.sent.len(), 1, "one call for the whole line: {:?}", harness.sent);
        let shown = harness
            .answer(at, Ok(Reply::Array(vec![Reply::Int(found), Reply::Int(found), Reply::Text(vec![])])));
        assert_ne!(shown.verb(), Verb::Acquire);
        assert_eq!(harness.verbs(), asking, "{found} of 3 places are there");
    }
}

/// Returns the reply to a call that shows waiters alive.
fn shown(found: i64, length: i64, next: &str) -> Reply {
    Reply::Array(vec![Reply::Int(found), Reply::Int(length), Reply::Text(next.into())])
}

/// Creates a harness with two fair waiters, 1 and 2, behind a third one whose place was released when it left. The call
/// that shows them alive is on its way. Returns the number of the third one too.
fn behind_a_waiter_that_left() -> (Harness, u64, String) {
    behind_a_waiter_that_left_after(Ok(Reply::Int(600_000)))
}

/// The same, with this answer to the attempt of the one that left.
fn behind_a_waiter_that_left_after(answer: Result<Reply, StoreError>) -> (Harness, u64, String) {
    let mut harness = Harness::new();
    for id in [3, 1, 2] {
        harness.step(0, Event::Acquire(Id(id), of(&FAIR, id)));
    }
    let left = harness.sent[0].1.argument("owner").unwrap().to_owned();
    harness.answer(0, answer);
    while !harness.sent.is_empty() {
        harness.answer(0, Ok(Reply::Int(600_000)));
    }
    harness.step(0, Event::Cancel(Id(3)));
    let undo = harness.answer(1, Ok(Reply::Nil));
    assert_eq!((undo.verb(), undo.argument("owner")), (Verb::Release, Some(&*left)));
    for channel in harness.listening.clone() {
        harness.step(2, Event::Listening(channel));
    }
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(Reply::Int(600_000)));
    }
    let at = millis(next_timer(&mut harness.engine));
    harness.step(at, Event::Tick);
    assert_eq!(harness.verbs(), [Verb::KeepAlive]);
    (harness, at, left)
}

#[test]
fn a_place_that_belongs_to_no_waiter_is_released_as_soon_as_it_is_next() {
    let (mut harness, at, left) = behind_a_waiter_that_left();
    let number = left.rsplit(':').next().unwrap();
    harness.answer(at, Ok(shown(3, 3, number)));
    assert_eq!(harness.verbs(), [Verb::Release], "it blocks the queue for five seconds");
    assert_eq!(harness.sent[0].1.argument("owner"), Some(&*left));
    harness.answer(at + 1, Ok(Reply::Nil));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the next waiter may have the lock now");
}

#[test]
fn a_place_of_an_undone_attempt_is_released_as_soon_as_it_is_next() {
    let (mut harness, at, left) = behind_a_waiter_that_left_after(unknown(Verb::Acquire));
    harness.answer(at, Ok(shown(3, 3, left.rsplit(':').next().unwrap())));
    assert_eq!(harness.verbs(), [Verb::Release], "a server that took over has brought it back");
    assert_eq!(harness.sent[0].1.argument("owner"), Some(&*left));
    let (mut harness, at, left) = behind_a_waiter_that_left_after(unknown(Verb::Acquire));
    harness.answer(at, Ok(shown(2, 2, left.rsplit(':').next().unwrap())));
    assert_eq!(
        harness.verbs(),
        [Verb::Release, Verb::Acquire, Verb::Acquire],
        "the server has as many places as there are waiters, and has lost one of them"
    );
}

#[test]
fn a_place_that_a_frozen_server_gave_after_the_undo_is_released_before_it_is_next() {
    let unanswered = || unknown(Verb::Acquire);
    let (mut harness, at, left) = behind_a_waiter_that_left_after(unanswered());
    harness.answer(at, Ok(shown(3, 4, "")));
    assert_eq!(harness.verbs(), [Verb::Release], "the signs of life would keep it");
    assert_eq!(harness.sent[0].1.argument("owner"), Some(&*left));
    let (mut harness, at, _) = behind_a_waiter_that_left_after(unanswered());
    harness.answer(at, Ok(shown(2, 4, "")));
    assert!(harness.sent.is_empty(), "the server has two places for two waiters: {:?}", harness.sent);
}

#[test]
fn a_place_that_belongs_to_no_waiter_does_not_hide_that_another_is_lost() {
    let (mut harness, at, left) = behind_a_waiter_that_left();
    harness.answer(at, Ok(shown(2, 2, left.rsplit(':').next().unwrap())));
    assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire, Verb::Acquire]);
}

#[test]
fn a_number_that_the_client_never_used_is_not_released() {
    let (mut harness, at, _) = behind_a_waiter_that_left();
    harness.answer(at, Ok(shown(2, 3, "1000")));
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn each_window_of_a_long_queue_shows_who_is_next() {
    let (mut harness, at, _) = behind_a_waiter_that_left();
    harness.answer(at, Ok(shown(0, 1_500, "")));
    assert_eq!(harness.verbs(), [Verb::KeepAlive], "the next window");
    harness.answer(at + 1, Ok(shown(2, 1_500, "2")));
    assert_eq!(harness.verbs(), [Verb::Acquire], "its waiter has become the first one meanwhile");
}

#[test]
fn a_queued_waiter_of_a_semaphore_waits_for_the_message_of_the_grant_before_it() {
    let mut harness = Harness::new();
    for id in 1..=20 {
        harness.step(0, Event::Acquire(Id(id), of(&FIFO_SEMAPHORE, id)));
        harness.answer(0, Ok(Reply::Int(0)));
    }
    let channel = harness.listening.first().unwrap().clone();
    harness.step(1, Event::Listening(channel.clone()));
    harness.answer(1, Ok(Reply::Int(0)));
    for attempts in [1, 2, 8] {
        harness.step(2, Event::Message(channel.clone()));
        assert_eq!(harness.sent.len(), attempts, "each grant doubles the attempts");
        while !harness.sent.is_empty() {
            harness.answer(2, Ok(Reply::Int(1)));
        }
    }
    assert!(harness.sent.is_empty(), "the last grant has left no permit: {:?}", harness.sent);
}

#[test]
fn a_message_that_comes_before_the_grant_is_for_the_next_waiter_of_a_semaphore() {
    let mut harness = Harness::new();
    for id in [1, 2] {
        harness.step(0, Event::Acquire(Id(id), of(&FIFO_SEMAPHORE, id)));
        harness.answer(0, Ok(Reply::Int(0)));
    }
    let channel = harness.listening.first().unwrap().clone();
    harness.step(1, Event::Listening(channel.clone()));
    while !harness.sent.is_empty() {
        harness.answer(1, Ok(Reply::Int(0)));
    }
    harness.step(2, Event::Message(channel.clone()));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the first waiter tries");
    harness.step(3, Event::Message(channel));
    harness.answer(4, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(4, 1), Some(Outcome::Acquired(Ok(_)))));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the message of the grant came before its answer");
    harness.answer(5, Ok(Reply::Int(1)));
    assert!(matches!(harness.claim(5, 2), Some(Outcome::Acquired(Ok(_)))));
}

#[test]
fn a_refused_attempt_that_overtook_the_release_before_it_is_made_again() {
    for recipe in [&FIFO_SEMAPHORE, &FAIR, &REENTRANT] {
        let (mut harness, refused) = with_a_waiter_that_listens(recipe);
        harness.release(10, 1, 9);
        assert_eq!(harness.verbs(), [Verb::Release, Verb::Acquire], "{}", recipe.kind);
        harness.sent.swap(0, 1);
        harness.answer(11, Ok(refused));
        assert_eq!(harness.answer(12, Ok(Reply::Int(1))).verb(), Verb::Release);
        assert_eq!(harness.verbs(), [Verb::Acquire], "{}: the release came later", recipe.kind);
    }
}

#[test]
fn an_attempt_that_left_before_a_release_does_not_count_as_the_one_behind_it() {
    for recipe in [&FIFO_SEMAPHORE, &FAIR] {
        let (mut harness, refused) = with_a_waiter_that_listens(recipe);
        let mut at = 3;
        while harness.sent.is_empty() {
            at = millis(next_timer(&mut harness.engine));
            harness.step(at, Event::Tick);
        }
        assert_eq!(harness.verbs(), [Verb::Acquire], "{}: the sign of life of a single waiter", recipe.kind);
        harness.release(at, 1, 9);
        harness.answer(at + 1, Ok(refused.clone()));
        // The server has forgotten the script of the release, so an attempt that was sent after it comes first.
        harness.sent.sort_by_key(|(_, call)| call.verb() == Verb::Release);
        while harness.verbs() != [Verb::Release] {
            harness.answer(at + 2, Ok(refused.clone()));
        }
        // The message of the release is lost.
        harness.answer(at + 3, Ok(Reply::Int(1)));
        assert_eq!(harness.verbs(), [Verb::Acquire], "{}: the lock is free", recipe.kind);
    }
}

/// Creates a harness with hold 1, and waiter 2 that was refused and listens. Returns the reply of a refusal too.
fn with_a_waiter_that_listens(recipe: &'static Recipe) -> (Harness, Reply) {
    let mut harness = Harness::new();
    let permits = recipe.kind == FIFO_SEMAPHORE.kind;
    let (granted, refused) =
        if permits { (Reply::Int(1), Reply::Int(0)) } else { (Reply::Nil, Reply::Int(9_000)) };
    for id in 1..=2 {
        harness.step(0, Event::Acquire(Id(id), of(recipe, id)));
    }
    harness.answer(1, Ok(granted));
    assert!(matches!(harness.claim(1, 1), Some(Outcome::Acquired(Ok(_)))));
    answer_all(&mut harness, &refused);
    for channel in harness.listening.clone() {
        harness.step(3, Event::Listening(channel));
    }
    answer_all(&mut harness, &refused);
    (harness, refused)
}

/// Refuses the acquires on their way.
fn answer_all(harness: &mut Harness, refused: &Reply) {
    while !harness.sent.is_empty() {
        harness.answer(2, Ok(refused.clone()));
    }
}

#[test]
fn a_fair_waiter_behind_its_own_clients_hold_hears_that_the_lock_is_freed_by_force() {
    let mut harness = Harness::new();
    harness.hold(0, 1, of(&FAIR, 1));
    harness.step(2, Event::Acquire(Id(2), of(&FAIR, 2)));
    harness.answer(3, Ok(Reply::Int(29_990)));
    assert!(harness.listening.is_empty(), "most locks are released before");
    harness.step(60, Event::Tick);
    let channel = harness.listening.first().expect("it listens").clone();
    harness.step(61, Event::Listening(channel.clone()));
    answer_all(&mut harness, &Reply::Int(29_930));
    harness.step(70, Event::Message(channel));
    assert_eq!(harness.verbs(), [Verb::Acquire], "it does not wait for its next sign of life");
    harness.answer(71, Ok(Reply::Nil));
    assert!(matches!(harness.claim(71, 2), Some(Outcome::Acquired(Ok(_)))));
    assert!(harness.listening.is_empty(), "{:?}", harness.listening);
}
