//! Tests of the arguments with which the engine makes the scripts of semaphores and latches safe to repeat.

use crate::harness::next_timer;
use leasehold_proto::engine::{
    AcquireFailure, Action, CallId, Event, Id, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::expirable::EXPIRABLE_SEMAPHORE;
use leasehold_proto::recipe::latch::LATCH;
use leasehold_proto::recipe::semaphore::{FIFO_SEMAPHORE, SEMAPHORE, add};
use leasehold_proto::{
    Applied, Call, ClientId, Engine, Lease, Moment, Name, Owner, Recipe, Reply, StoreError, StoreErrorKind,
    Verb, WireOwner,
};

/// The harness: an engine and the calls that it has sent.
struct Harness {
    engine: Engine,
    at: u64,
    sent: Vec<(CallId, Call)>,
}

impl Harness {
    fn new() -> Self {
        let engine = Engine::new(ClientId::from_random([1; 16]), Settings::default());
        Self { engine, at: 0, sent: Vec::new() }
    }

    /// Steps the engine with an event, and returns the outcome that it reports.
    fn step(&mut self, event: Event) -> Option<Outcome> {
        self.at += 1;
        self.step_at(Moment::from_millis(self.at), event)
    }

    fn step_at(&mut self, now: Moment, event: Event) -> Option<Outcome> {
        let mut settled = None;
        for action in self.engine.step(now, event) {
            match action {
                Action::Run(id, call, _) => self.sent.push((id, call)),
                Action::Complete(_, outcome) => settled = Some(outcome),
                Action::Subscribe(_)
                | Action::Withdraw(_)
                | Action::Unsubscribe(_)
                | Action::Wake(_)
                | Action::Trusted(..) => {}
            }
        }
        settled
    }

    /// Lets time pass until a call is sent.
    fn wait(&mut self) {
        while self.sent.is_empty() {
            let next = next_timer(&mut self.engine);
            assert!(next < Moment::NEVER, "nothing is to come");
            self.at = self.at.max(next.as_nanos().div_ceil(1_000_000));
            self.step(Event::Tick);
        }
    }

    /// Answers the oldest call that has no answer yet.
    fn answer(&mut self, result: Result<Reply, StoreError>) -> Call {
        let (id, call) = self.sent.remove(0);
        self.step(Event::Replied(id, result));
        call
    }

    /// Fails the oldest call with a timeout, so it may still arrive.
    fn lose(&mut self) -> Call {
        let verb = self.sent[0].1.verb();
        self.answer(Err(StoreError::new(StoreErrorKind::Timeout, verb, "s".into(), Applied::Unknown)))
    }

    fn acquire(&mut self, id: u64, request: Request) {
        assert_eq!(self.step(Event::Acquire(Id(id), request)), None);
    }

    fn claim(&mut self, id: u64) -> Option<Outcome> {
        self.step(Event::Claim(Id(id)))
    }
}

fn request(recipe: &'static Recipe, units: u32, wait: Wait) -> Request {
    let subject = Subject::new(&Name::new("s").unwrap(), recipe);
    let lease = Lease::clamped(std::time::Duration::from_secs(30));
    Request { units, watchdog: false, ..Request::new(subject, Owner::unique(), lease, wait) }
}

/// Returns the arguments of a call that describe its context.
fn context_arguments(call: &Call) -> [Option<&str>; 3] {
    ["permits", "expired", "uncertain"].map(|name| call.argument(name))
}

const BOTH: [&Recipe; 2] = [&SEMAPHORE, &FIFO_SEMAPHORE];

#[test]
fn an_ordinary_permit_hold_sends_certain_calls() {
    for recipe in BOTH {
        let mut harness = Harness::new();
        harness.acquire(1, request(recipe, 2, Wait::Forever));
        let sent_call = harness.answer(Ok(Reply::Int(1)));
        assert_eq!(context_arguments(&sent_call), [Some("2"), None, Some("0")]);
        assert!(matches!(harness.claim(1), Some(Outcome::Acquired(Ok(_)))));
        assert_eq!(next_timer(&mut harness.engine), Moment::NEVER, "nothing renews it, and nothing ends it");
        harness.step(Event::Release { hold: Id(1), report: Some(Id(2)) });
        let released = harness.answer(Ok(Reply::Int(1)));
        assert_eq!(context_arguments(&released), [Some("2"), Some("0"), Some("0")]);
        assert_eq!(harness.claim(2), Some(Outcome::Released(Ok(true))));
    }
}

#[test]
fn a_second_attempt_marks_the_first_as_uncertain() {
    for recipe in BOTH {
        let mut harness = Harness::new();
        harness.acquire(1, request(recipe, 2, Wait::Forever));
        let first = harness.lose();
        harness.wait();
        let second = harness.answer(Ok(Reply::Int(1)));
        assert_eq!(context_arguments(&second), [Some("2"), None, Some("1")]);
        assert!(first.keys().eq(second.keys()), "as the same acquisition");
        harness.claim(1);
        harness.step(Event::Release { hold: Id(1), report: Some(Id(2)) });
        assert_eq!(context_arguments(&harness.lose()), [Some("2"), Some("0"), Some("0")]);
        harness.wait();
        let again = harness.answer(Ok(Reply::Int(0)));
        assert_eq!(context_arguments(&again), [Some("2"), Some("0"), Some("1")]);
        assert_eq!(harness.claim(2), Some(Outcome::Released(Ok(true))), "the first one had returned them");
    }
}

#[test]
fn a_release_after_an_hour_returns_permits_without_their_marker_once() {
    const MINUTE: u64 = 60_000;
    for (age, expired) in [(31 * MINUTE, "0"), (58 * MINUTE, "0"), (59 * MINUTE, "1"), (600 * MINUTE, "1")] {
        let mut harness = Harness::new();
        harness.acquire(1, request(&SEMAPHORE, 2, Wait::Forever));
        harness.answer(Ok(Reply::Int(1)));
        harness.claim(1);
        harness.at += age;
        harness.step(Event::Release { hold: Id(1), report: Some(Id(2)) });
        // The release leaves a zero, so a repeated one returns nothing, and one after a lost one returns them.
        let arguments = [Some("2"), Some(expired), Some("1")];
        assert_eq!(context_arguments(&harness.lose()), arguments, "{age}");
        harness.wait();
        assert_eq!(context_arguments(&harness.lose()), arguments, "{age}");
        // That zero does not outlive an hour.
        harness.at += 54 * MINUTE;
        harness.wait();
        assert_eq!(context_arguments(&harness.answer(Ok(Reply::Int(0)))), [Some("2"), Some("0"), Some("1")]);
    }
}

#[test]
fn a_release_that_finds_no_permits_says_so() {
    let mut harness = Harness::new();
    harness.acquire(1, request(&SEMAPHORE, 2, Wait::Forever));
    harness.answer(Ok(Reply::Int(1)));
    harness.claim(1);
    harness.at += 3_600_000;
    harness.step(Event::Release { hold: Id(1), report: Some(Id(2)) });
    harness.answer(Ok(Reply::Int(0)));
    assert_eq!(harness.claim(2), Some(Outcome::Released(Ok(false))), "the semaphore is gone");
}

#[test]
fn the_undo_of_an_unknown_acquire_stays_uncertain_until_it_is_answered() {
    for recipe in BOTH {
        let mut harness = Harness::new();
        harness.acquire(1, request(recipe, 2, Wait::Once));
        harness.lose();
        let outcome = harness.claim(1);
        assert!(
            matches!(outcome, Some(Outcome::Acquired(Err(AcquireFailure::Unknown { .. })))),
            "{outcome:?}"
        );
        for _ in 0..20 {
            harness.wait();
            assert_eq!(context_arguments(&harness.lose()), [Some("2"), Some("0"), Some("1")]);
        }
        harness.wait();
        harness.answer(Ok(Reply::Int(0)));
        assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
    }
}

#[test]
fn a_leaving_waiter_is_removed_from_the_queue_with_certainty() {
    let mut harness = Harness::new();
    harness.acquire(1, request(&FIFO_SEMAPHORE, 1, Wait::Forever));
    harness.answer(Ok(Reply::Int(0)));
    harness.step(Event::Cancel(Id(1)));
    let left = harness.answer(Ok(Reply::Int(0)));
    assert_eq!((left.verb(), context_arguments(&left)), (Verb::Release, [Some("1"), Some("0"), Some("0")]));
    harness.acquire(2, request(&FIFO_SEMAPHORE, 1, Wait::Once));
    let once = harness.answer(Ok(Reply::Int(0)));
    assert_eq!(once.argument("once"), Some("1"));
    assert!(harness.sent.is_empty(), "it does not stand there");
}

#[test]
fn each_permit_uses_one_owner_number() {
    let mut harness = Harness::new();
    for (id, permits) in [(1, 3), (2, 1), (3, 2)] {
        harness.acquire(id, request(&EXPIRABLE_SEMAPHORE, permits, Wait::Once));
        let sent_call = harness.answer(Ok(Reply::Nil));
        assert!(sent_call.args().any(|ids| ids.len() == 16 * permits as usize), "{sent_call:?}");
        harness.claim(id);
    }
    let numbers: Vec<String> =
        (1..=3).map(|id| harness.engine.wire_owner(Id(id)).unwrap().to_string().split_off(37)).collect();
    assert_eq!(numbers, ["1", "4", "5"]);
}

/// Returns the reply to an attempt of a latch's waiter: the count, and the numbers of the last opening and deletion.
fn state(count: i64, opened: i64, deleted: i64) -> Result<Reply, StoreError> {
    Ok(Reply::Array([count, opened, deleted].map(Reply::Int).into()))
}

const OPENED: Option<Result<(), AcquireFailure>> = Some(Ok(()));
const DELETED: Option<Result<(), AcquireFailure>> = Some(Err(AcquireFailure::Deleted));

impl Harness {
    /// Returns how the wait with this number has ended.
    fn end_of_wait(&mut self, id: u64) -> Option<Result<(), AcquireFailure>> {
        match self.claim(id)? {
            Outcome::Acquired(outcome) => Some(outcome.map(|_| ())),
            other => panic!("{other:?}"),
        }
    }

    /// Makes waiters with these numbers wait, and refuses their first attempts with this state.
    fn wait_for_latch(&mut self, ids: &[u64], (count, opened, deleted): (i64, i64, i64)) {
        for id in ids {
            self.acquire(*id, request(&LATCH, 1, Wait::Forever));
            self.answer(state(count, opened, deleted));
        }
        assert!(self.sent.is_empty(), "they sleep");
    }

    /// Wakes the waiters, and answers the attempt for all of them.
    fn wake_with(&mut self, (count, opened, deleted): (i64, i64, i64)) {
        let channel = Subject::new(&Name::new("s").unwrap(), &LATCH)
            .channels(WireOwner::new(ClientId::from_random([1; 16]), 0));
        self.step(Event::Message(channel[0].clone()));
        assert_eq!(self.sent.len(), 1, "one attempt is for all of them");
        self.answer(state(count, opened, deleted));
    }
}

#[test]
fn a_latch_wait_leaves_nothing() {
    let mut harness = Harness::new();
    harness.acquire(2, request(&LATCH, 1, Wait::Forever));
    harness.acquire(3, request(&LATCH, 1, Wait::Forever));
    harness.lose();
    // A waiter that has seen nothing yet goes on at zero, however the last round ended.
    harness.answer(state(0, 0, 7));
    assert_eq!(harness.end_of_wait(3), OPENED);
    harness.step(Event::Cancel(Id(2)));
    assert!(harness.sent.is_empty(), "there is nothing to undo");
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
}

#[test]
fn all_waiters_of_a_latch_that_is_set_again_at_once_learn_how_their_round_ended() {
    for (deletes, expected) in [(false, OPENED), (true, DELETED)] {
        let mut harness = Harness::new();
        harness.wait_for_latch(&[1, 2, 3], (2, 5, 4));
        harness.wake_with(if deletes { (2, 5, 6) } else { (2, 6, 4) });
        for id in 1..=3 {
            assert_eq!(harness.end_of_wait(id), expected);
        }
        assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
    }
}

#[test]
fn waiters_of_several_rounds_share_an_attempt_and_end_with_their_own_round() {
    let mut harness = Harness::new();
    harness.wait_for_latch(&[1], (1, 0, 0));
    harness.wait_for_latch(&[2, 3], (1, 7, 0));
    harness.wake_with((1, 7, 0));
    let ends = |harness: &mut Harness| [1, 2, 3].map(|id| harness.end_of_wait(id));
    assert_eq!(ends(&mut harness), [OPENED, None, None]);
    harness.wake_with((1, 7, 0));
    // A missing note says nothing about a round.
    harness.wake_with((1, 0, 0));
    assert_eq!(ends(&mut harness), [None, None, None]);
    harness.wake_with((1, 0, 8));
    assert_eq!(ends(&mut harness), [None, DELETED, DELETED]);
    // A round that a Redisson client opens has no note.
    harness.wait_for_latch(&[4], (1, 0, 8));
    harness.wake_with((0, 0, 0));
    assert_eq!(harness.end_of_wait(4), OPENED);
}

#[test]
fn a_waiter_of_a_latch_that_asks_once_is_refused_after_an_earlier_round() {
    let mut harness = Harness::new();
    harness.acquire(1, request(&LATCH, 1, Wait::Once));
    harness.answer(state(1, 7, 8));
    assert_eq!(harness.end_of_wait(1), Some(Err(AcquireFailure::Contended)));
}

#[test]
fn a_retried_operation_repeats_the_same_call() {
    let mut harness = Harness::new();
    let name = Name::new("s").unwrap();
    let operation =
        leasehold_proto::marker::Operation::new(ClientId::from_random([1; 16]), Id(1), &Settings::default());
    harness.step(Event::Perform(Id(1), add(&name, &operation, 5)));
    let first = harness.lose();
    harness.wait();
    let second = harness.answer(Ok(Reply::Int(5)));
    assert_eq!(first, second);
    assert_eq!(harness.claim(1), Some(Outcome::Performed(Ok(Reply::Int(5)))));
}
