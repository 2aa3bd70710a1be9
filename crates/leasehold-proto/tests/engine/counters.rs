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
    Verb,
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

#[test]
fn a_latch_wait_sends_its_last_observation_and_leaves_nothing() {
    let mut harness = Harness::new();
    harness.acquire(1, request(&LATCH, 1, Wait::Forever));
    assert_eq!(harness.answer(Ok(Reply::Int(2))).argument("refused"), Some("0"));
    harness.wait();
    assert_eq!(harness.answer(Ok(Reply::Int(-1))).argument("refused"), Some("1"));
    assert_eq!(harness.claim(1), Some(Outcome::Acquired(Err(AcquireFailure::Deleted))));
    // A second waiter has seen nothing yet, whatever its place.
    harness.acquire(2, request(&LATCH, 1, Wait::Forever));
    harness.acquire(3, request(&LATCH, 1, Wait::Forever));
    assert_eq!(harness.lose().argument("refused"), Some("0"));
    assert_eq!(harness.answer(Ok(Reply::Int(0))).argument("refused"), Some("0"));
    assert!(matches!(harness.claim(3), Some(Outcome::Acquired(Ok(_)))));
    harness.step(Event::Cancel(Id(2)));
    assert!(harness.sent.is_empty(), "there is nothing to undo");
    assert_eq!(next_timer(&mut harness.engine), Moment::NEVER);
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
