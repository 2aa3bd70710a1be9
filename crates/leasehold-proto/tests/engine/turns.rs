//! Tests of the turns that a client leaves to other clients after its releases.

use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::engine::{Event, Id, Outcome, Request, Settings, Subject};
use leasehold_proto::recipe::expirable::EXPIRABLE_SEMAPHORE;
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::SEMAPHORE;
use leasehold_proto::recipe::spin::SPIN;
use leasehold_proto::{Channel, Name, Owner, Recipe, Reply, Verb};

use crate::harness::{Harness, millis, ms, next_timer, request, unknown};

const LONGEST: Duration = Duration::from_millis(128);

fn spin(owner: u64) -> Request {
    let backoff = Backoff { first: Duration::from_millis(1), longest: LONGEST };
    let subject = Subject::new(&Name::new("x").unwrap(), &SPIN);
    Request { subject, backoff: Some(backoff), ..request(owner, 30_000) }
}

/// Hands a spin lock over from one waiter of the client to the next. Returns the pause between the two.
fn hand_over(harness: &mut Harness, at: u64, id: u64) -> Duration {
    harness.release(at, id, 100_000 + id);
    assert_eq!(harness.sent.len(), 1, "nothing goes out behind the release: {:?}", harness.sent);
    assert_eq!(harness.answer(at + 1, Ok(Reply::Int(1))).verb(), Verb::Release);
    assert!(harness.sent.is_empty(), "the lock is free for others: {:?}", harness.sent);
    let next = next_timer(&mut harness.engine);
    harness.step(millis(next), Event::Tick);
    assert_eq!(harness.answer(millis(next), Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(matches!(harness.claim(millis(next), id + 1), Some(Outcome::Acquired(Ok(_)))));
    next.since(ms(at + 1))
}

#[test]
fn a_client_leaves_a_spin_lock_free_between_its_own_waiters() {
    let mut harness = Harness::new();
    harness.hold(0, 1, spin(1));
    for owner in 2..=60 {
        harness.step(1, Event::Acquire(Id(owner), spin(owner)));
    }
    let pauses: Vec<Duration> = (1..=48).map(|id| hand_over(&mut harness, 200 * id, id)).collect();
    let first = Duration::from_millis(1);
    let (short, long): (Vec<Duration>, Vec<Duration>) = pauses.iter().partition(|pause| **pause <= first);
    assert!(short.iter().all(|pause| *pause >= first / 2), "{short:?}");
    assert_eq!(long, [LONGEST; 3], "every waiter elsewhere polls once in 16 grants");
    assert!(pauses[15] == LONGEST && pauses[31] == LONGEST && pauses[47] == LONGEST);
}

#[test]
fn a_refusal_ends_the_run_of_a_client() {
    let mut harness = Harness::new();
    harness.hold(0, 1, spin(1));
    for owner in 2..=40 {
        harness.step(1, Event::Acquire(Id(owner), spin(owner)));
    }
    for id in 1..=15 {
        assert!(hand_over(&mut harness, 200 * id, id) < LONGEST);
    }
    harness.release(4_000, 16, 99);
    harness.answer(4_001, Ok(Reply::Int(1)));
    for reply in [Reply::Int(30_000), Reply::Nil] {
        let at = millis(next_timer(&mut harness.engine));
        harness.step(at, Event::Tick);
        harness.answer(at, Ok(reply));
    }
    assert!(matches!(harness.claim(4_100, 17), Some(Outcome::Acquired(Ok(_)))));
    assert!(hand_over(&mut harness, 4_200, 17) < LONGEST, "another client has had the lock meanwhile");
}

/// Creates a request for a primitive whose releases wake waiters.
fn of(recipe: &'static Recipe, owner: u64) -> Request {
    let [name, other] = ["x", "y"].map(|name| Name::new(name).unwrap());
    let others: Vec<Name> = if recipe.kind == MULTI.kind { vec![other] } else { Vec::new() };
    let subject = Subject { others: others.into(), ..Subject::new(&name, recipe) };
    Request { subject, ..request(owner, 30_000) }
}

/// Returns the reply that grants the primitive.
fn grant(recipe: &Recipe) -> Reply {
    if recipe.kind == SEMAPHORE.kind { Reply::Int(1) } else { Reply::Nil }
}

/// Returns the reply that refuses the primitive.
fn refusal(recipe: &Recipe) -> Reply {
    Reply::Int(if recipe.kind == SEMAPHORE.kind { 0 } else { 30_000 })
}

/// Answers the calls on their way: acquires with a refusal, others with `reply`.
fn answer_all(harness: &mut Harness, at: u64, recipe: &Recipe, reply: i64) {
    while let Some((_, call)) = harness.sent.first() {
        let reply = if call.verb() == Verb::Acquire { refusal(recipe) } else { Reply::Int(reply) };
        harness.answer(at, Ok(reply));
    }
}

/// Creates a harness in which the client holds one of a primitive as owner 1 and listens for the waiters 2 to 9. One
/// other client listens to its releases.
fn with_waiters(recipe: &'static Recipe) -> (Harness, Vec<Channel>) {
    let mut harness = Harness::new();
    harness.step(0, Event::Acquire(Id(1), of(recipe, 1)));
    harness.answer(0, Ok(grant(recipe)));
    assert!(matches!(harness.claim(0, 1), Some(Outcome::Acquired(Ok(_)))));
    for owner in 2..=9 {
        harness.step(1, Event::Acquire(Id(owner), of(recipe, owner)));
    }
    answer_all(&mut harness, 1, recipe, 1);
    let channels: Vec<Channel> = harness.listening.iter().cloned().collect();
    for channel in &channels {
        harness.step(2, Event::Listening(channel.clone()));
    }
    answer_all(&mut harness, 3, recipe, 1);
    (harness, channels)
}

/// The reply of a release to which this client and one other listened.
const HEARD_BY_ANOTHER: i64 = 3;

#[test]
fn a_client_stands_back_from_whatever_reports_its_listeners() {
    for recipe in [&SEMAPHORE, &EXPIRABLE_SEMAPHORE, &MULTI] {
        let (mut harness, channels) = with_waiters(recipe);
        harness.release(20, 1, 99);
        assert_eq!(harness.answer(21, Ok(Reply::Int(HEARD_BY_ANOTHER))).verb(), Verb::Release);
        assert_eq!(harness.answer(21, Ok(grant(recipe))).verb(), Verb::Acquire, "{}", recipe.kind);
        assert!(matches!(harness.claim(21, 2), Some(Outcome::Acquired(Ok(_)))));
        answer_all(&mut harness, 22, recipe, 1);
        for channel in &channels {
            harness.step(22, Event::Message(channel.clone()));
        }
        answer_all(&mut harness, 22, recipe, 1);
        harness.release(30, 2, 98);
        assert_eq!(harness.sent.len(), 1, "{}: {:?}", recipe.kind, harness.sent);
        harness.answer(31, Ok(Reply::Int(HEARD_BY_ANOTHER)));
        for channel in &channels {
            harness.step(31, Event::Message(channel.clone()));
        }
        assert!(harness.sent.is_empty(), "{}: it stands back: {:?}", recipe.kind, harness.sent);
        let at = millis(next_timer(&mut harness.engine));
        assert!((32..=35).contains(&at), "{}: a round trip or two: {at} ms", recipe.kind);
        harness.step(32, Event::Message(channels[0].clone()));
        assert_eq!(harness.sent[0].1.verb(), Verb::Acquire, "{}: the other has had its turn", recipe.kind);
    }
}

#[test]
fn one_contended_release_after_the_other_keeps_no_waiter_from_its_turn() {
    let (mut harness, _) = with_waiters(&SEMAPHORE);
    for owner in 10..=14 {
        let at = 20 + owner;
        harness.step(at, Event::Message(harness.listening.first().unwrap().clone()));
        harness.answer(at, Ok(Reply::Int(1)));
        answer_all(&mut harness, at, &SEMAPHORE, 1);
        assert!(matches!(harness.claim(at, owner - 8), Some(Outcome::Acquired(Ok(_)))));
    }
    harness.release(40, 1, 90);
    harness.answer(45, Ok(Reply::Int(HEARD_BY_ANOTHER)));
    answer_all(&mut harness, 45, &SEMAPHORE, 1);
    harness.release(50, 2, 91);
    harness.answer(60, Ok(Reply::Int(HEARD_BY_ANOTHER)));
    let asks_by = millis(next_timer(&mut harness.engine));
    assert!((80..=90).contains(&asks_by), "a round trip or two: {asks_by} ms");
    for (hold, at) in [(3, 61), (4, 63), (5, 65)] {
        harness.release(at, hold, 90 + hold);
        harness.answer(at + 10, Ok(Reply::Int(HEARD_BY_ANOTHER)));
        assert!(harness.sent.is_empty(), "{:?}", harness.sent);
    }
    assert_eq!(millis(next_timer(&mut harness.engine)), asks_by, "later releases do not move it");
}

/// The longest pause in which no other client shows that it takes part.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);
/// The reply of a release to which only this client listened.
const HEARD_BY_NONE: i64 = 2;
/// The reply of a release to which this client and three others listened.
const HEARD_BY_THREE: i64 = 5;

/// Creates a harness whose client holds a lock as owner 1 and listens for the waiters 2 to `last`. Its release at 20 ms,
/// which one other client heard, has given the lock to waiter 2.
fn contended(settings: Settings, last: u64) -> (Harness, Channel) {
    let mut harness = Harness::with(settings);
    harness.hold_at_once(1, 1, request(1, 30_000));
    for owner in 2..=last {
        harness.step(1, Event::Acquire(Id(owner), request(owner, 30_000)));
    }
    let channel = harness.listening.first().unwrap().clone();
    harness.step(2, Event::Listening(channel.clone()));
    harness.release(20, 1, 100_001);
    assert_eq!(harness.answer(20, Ok(Reply::Int(HEARD_BY_ANOTHER))).verb(), Verb::Release);
    harness.step(20, Event::Message(channel.clone()));
    claim_next(&mut harness, 20, 2);
    (harness, channel)
}

/// Grants the attempt on its way, which is for this waiter.
fn claim_next(harness: &mut Harness, at: u64, id: u64) {
    assert_eq!(harness.answer(at, Ok(Reply::Nil)).verb(), Verb::Acquire);
    assert!(matches!(harness.claim(at, id), Some(Outcome::Acquired(Ok(_)))), "{id} at {at} ms");
}

/// Releases hold `id`, which takes a round trip of 1 ms and is heard by another client, and grants the next attempt.
/// Returns the pause before it.
fn stand_back(harness: &mut Harness, channel: &Channel, id: u64) -> Duration {
    let at = 100 * id;
    harness.release(at, id, 100_000 + id);
    assert_eq!(harness.answer(at + 1, Ok(Reply::Int(HEARD_BY_ANOTHER))).verb(), Verb::Release);
    harness.step(at + 1, Event::Message(channel.clone()));
    assert!(harness.sent.is_empty(), "it stands back: {:?}", harness.sent);
    let next = next_timer(&mut harness.engine);
    harness.step(millis(next), Event::Tick);
    claim_next(harness, millis(next), id + 1);
    next.since(ms(at + 1))
}

#[test]
fn a_client_leaves_a_lock_to_slow_clients_and_not_to_listeners_that_do_not_wait() {
    let (mut harness, channel) = contended(Settings::default(), 60);
    let pauses: Vec<Duration> = (2..=40).map(|id| stand_back(&mut harness, &channel, id)).collect();
    let runs: Vec<&[Duration]> = pauses.split(|pause| *pause >= LONGEST_PAUSE).collect();
    assert_eq!(pauses[0], LONGEST_PAUSE, "the first pause is long enough for a slow client");
    let lengths: Vec<usize> = runs.iter().map(|run| run.len()).collect();
    assert_eq!(lengths[..5], [0, 2, 4, 8, 16], "the short pauses between two long ones: {pauses:?}");
}

#[test]
fn a_message_during_a_pause_is_not_lost_behind_an_attempt_on_its_way() {
    let (mut harness, channel) = contended(Settings::default(), 5);
    harness.release(200, 2, 99);
    assert_eq!(harness.answer(201, Ok(Reply::Int(HEARD_BY_THREE))).verb(), Verb::Release);
    harness.step(201, Event::Message(channel.clone()));
    assert!(harness.sent.is_empty(), "it stands back: {:?}", harness.sent);
    harness.step(202, Event::Listening(channel.clone()));
    assert_eq!(harness.sent.len(), 1, "what was sent before the subscription is lost");
    harness.step(203, Event::Message(channel));
    assert_eq!(harness.answer(204, Ok(Reply::Int(30_000))).verb(), Verb::Acquire);
    assert_eq!(harness.sent.len(), 1, "the lock may be free since");
}

#[test]
fn a_client_stands_back_for_long_again_after_the_turn_of_another() {
    let (mut harness, channel) = contended(Settings::default(), 20);
    assert_eq!(stand_back(&mut harness, &channel, 2), LONGEST_PAUSE);
    assert!(stand_back(&mut harness, &channel, 3) < LONGEST_PAUSE);
    harness.release(400, 4, 99);
    harness.answer(401, Ok(Reply::Int(HEARD_BY_ANOTHER)));
    harness.step(401, Event::Message(channel.clone()));
    harness.step(402, Event::Message(channel.clone()));
    claim_next(&mut harness, 402, 5);
    for id in 5..=7 {
        let pause = stand_back(&mut harness, &channel, id);
        assert_eq!(pause >= LONGEST_PAUSE, id == 5, "{id}: {pause:?}");
    }
}

#[test]
fn a_client_stands_back_for_long_again_when_another_begins_to_listen() {
    let (mut harness, channel) = contended(Settings::default(), 20);
    assert_eq!(stand_back(&mut harness, &channel, 2), LONGEST_PAUSE);
    assert!(stand_back(&mut harness, &channel, 3) < LONGEST_PAUSE);
    for (id, listeners) in [(4, HEARD_BY_NONE), (5, HEARD_BY_ANOTHER)] {
        let at = 100 * id;
        harness.release(at, id, 99);
        harness.answer(at + 1, Ok(Reply::Int(listeners)));
        harness.step(at + 1, Event::Message(channel.clone()));
        claim_next(&mut harness, at + 1, id + 1);
    }
    assert_eq!(stand_back(&mut harness, &channel, 6), LONGEST_PAUSE);
}

#[test]
fn the_turn_of_one_client_shortens_the_pause_for_the_others() {
    let (mut harness, channel) = contended(Settings { hand_off: Duration::ZERO, ..Settings::default() }, 9);
    harness.release(20, 2, 99);
    harness.answer(20, Ok(Reply::Int(HEARD_BY_THREE)));
    harness.step(20, Event::Message(channel.clone()));
    assert!(harness.sent.is_empty(), "it stands back: {:?}", harness.sent);
    assert_eq!(millis(next_timer(&mut harness.engine)), 24);
    harness.step(21, Event::Message(channel));
    assert_eq!(harness.sent.len(), 1, "the turns of the others take no time");
}

#[test]
fn a_client_whose_queue_is_empty_between_its_holds_stands_back_too() {
    let (mut harness, _) = contended(Settings::default(), 2);
    assert!(harness.listening.is_empty(), "nothing waits here");
    harness.step(25, Event::Acquire(Id(3), request(3, 30_000)));
    let channel = harness.listening.first().unwrap().clone();
    harness.step(26, Event::Listening(channel.clone()));
    assert_eq!(stand_back(&mut harness, &channel, 2), LONGEST_PAUSE);
}

/// Takes a lock as owner 1, lets owners 2 and 3 wait for it, and owner 4 for what `rival` requests, over the same channel.
fn with_rival(holding: &Request, rival: Request) -> (Harness, Channel) {
    let mut harness = Harness::with(Settings { hand_off: Duration::ZERO, ..Settings::default() });
    harness.hold_at_once(1, 1, holding.clone());
    for (id, request) in [(2, holding.clone()), (3, holding.clone()), (4, rival)] {
        let request = Request { owner: Owner::from_number(id), ..request };
        harness.step(1, Event::Acquire(Id(id), request));
        answer_all(&mut harness, 1, &REENTRANT, 1);
    }
    for channel in harness.listening.clone() {
        harness.step(2, Event::Listening(channel));
        answer_all(&mut harness, 2, &REENTRANT, 1);
    }
    let channel = harness.listening.first().unwrap().clone();
    (harness, channel)
}

#[test]
fn a_queue_leaves_its_turn_to_another_queue_of_its_client() {
    let rivals =
        [("multi", request(1, 30_000), of(&MULTI, 4)), ("readers", of(&WRITE_LOCK, 1), of(&READ_LOCK, 4))];
    for (name, holding, rival) in rivals {
        let (mut harness, channel) = with_rival(&holding, rival);
        harness.release(20, 1, 99);
        assert_eq!(harness.verbs(), [Verb::Release], "{name}: nothing goes out behind the release");
        harness.answer(21, Ok(Reply::Int(HEARD_BY_NONE)));
        harness.step(21, Event::Message(channel));
        assert_eq!(harness.verbs(), [Verb::Acquire], "{name}: the other queue alone asks");
        harness.answer(22, Ok(Reply::Nil));
        assert!(matches!(harness.claim(22, 4), Some(Outcome::Acquired(Ok(_)))), "{name}: it has its turn");
    }
}

#[test]
fn a_lone_user_that_comes_again_at_once_leaves_others_their_turn() {
    let (mut harness, _) = contended(Settings { hand_off: Duration::ZERO, ..Settings::default() }, 2);
    harness.release(30, 2, 99);
    harness.step(30, Event::Acquire(Id(3), request(3, 30_000)));
    assert_eq!(harness.verbs(), [Verb::Release], "the attempt would come before those of the others");
    assert_eq!(harness.answer(31, Ok(Reply::Int(HEARD_BY_ANOTHER))).verb(), Verb::Release);
    assert!(harness.sent.is_empty(), "it stands back: {:?}", harness.sent);
    let at = millis(next_timer(&mut harness.engine));
    assert_eq!(at, 35, "the longest pause");
    harness.step(at, Event::Tick);
    claim_next(&mut harness, at, 3);
}

#[test]
fn a_lone_user_does_not_wait_for_a_release_that_fails() {
    let (mut harness, _) = contended(Settings { hand_off: Duration::ZERO, ..Settings::default() }, 2);
    harness.release(30, 2, 99);
    harness.step(30, Event::Acquire(Id(3), request(3, 30_000)));
    harness.answer(31, unknown(Verb::Release));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the store tells the waiter that it fails");
}

#[test]
fn a_lone_user_that_comes_again_at_once_leaves_another_queue_its_turn() {
    let writes = |owner| Request { owner: Owner::from_number(owner), ..of(&WRITE_LOCK, owner) };
    let (mut harness, channel) = with_rival(&writes(1), of(&READ_LOCK, 4));
    for waiter in [2, 3] {
        harness.step(3, Event::Cancel(Id(waiter)));
    }
    harness.release(20, 1, 99);
    harness.step(20, Event::Acquire(Id(5), writes(5)));
    assert_eq!(harness.verbs(), [Verb::Release], "the attempt would come before that of the reader");
    harness.answer(21, Ok(Reply::Int(HEARD_BY_NONE)));
    harness.step(21, Event::Message(channel));
    assert_eq!(harness.verbs(), [Verb::Acquire], "the reader asks");
    harness.answer(22, Ok(Reply::Nil));
    assert!(matches!(harness.claim(22, 4), Some(Outcome::Acquired(Ok(_)))));
}
