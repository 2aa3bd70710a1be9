//! Tests of the question of a hold that passes on: it renews the hold, and asks whether other clients listen.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use leasehold_proto::engine::{CallId, Event, Id, LostReason, Outcome, Request, Subject};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::spin::SPIN;
use leasehold_proto::{Applied, Call, Channel, Moment, Name, Reply, StoreError, StoreErrorKind, Verb};

use crate::harness::{Harness, ms, request, unknown};

/// The users of the client. Each requests the lock again as soon as it has released it.
const USERS: u64 = 3;
/// The length of each hold.
const SECTION: Duration = Duration::from_micros(50);
/// The time from a call to its answer.
const TRIP: Duration = Duration::from_millis(1);

/// A busy client and a server of one lock.
struct Busy {
    harness: Harness,
    now: Moment,
    /// The calls on their way, each with the time of its answer.
    calls: VecDeque<(Moment, CallId, Call)>,
    /// The verbs of all calls.
    sent: Vec<Verb>,
    holding: Option<u64>,
    waiting: BTreeSet<u64>,
    last_id: u64,
    grants: u32,
    /// The answer to a question, unless the server counts its listeners.
    answer: fn(u32) -> Result<Reply, StoreError>,
    /// The listeners of other clients.
    others: u32,
}

fn counted(listeners: u32) -> Result<Reply, StoreError> {
    Ok(Reply::Int(2 + i64::from(listeners)))
}

impl Busy {
    fn new() -> Self {
        let mut busy = Self {
            harness: Harness::new(),
            now: ms(0),
            calls: VecDeque::new(),
            sent: Vec::new(),
            holding: None,
            waiting: BTreeSet::new(),
            last_id: 0,
            grants: 0,
            answer: counted,
            others: 0,
        };
        (0..USERS).for_each(|_| busy.acquire());
        busy
    }

    fn acquire(&mut self) {
        self.last_id += 1;
        self.waiting.insert(self.last_id);
        self.step(Event::Acquire(Id(self.last_id), request(self.last_id, 30_000)));
    }

    fn step(&mut self, event: Event) -> Option<Outcome> {
        let outcome = self.harness.step_at(self.now, event);
        for (id, call) in self.harness.sent.drain(..) {
            self.sent.push(call.verb());
            self.calls.push_back((self.now + TRIP, id, call));
        }
        for woken in std::mem::take(&mut self.harness.woken) {
            if self.waiting.contains(&woken.0)
                && let Some(Outcome::Acquired(Ok(_))) = self.step(Event::Claim(woken))
            {
                self.waiting.remove(&woken.0);
                assert_eq!(self.holding.replace(woken.0), None, "two users hold the lock");
                self.grants += 1;
            }
        }
        outcome
    }

    fn questions(&self) -> usize {
        self.sent.iter().filter(|verb| **verb == Verb::HandOff).count()
    }

    fn asking(&self) -> usize {
        self.calls.iter().filter(|(_, _, call)| call.verb() == Verb::HandOff).count()
    }

    fn has_released(&self) -> bool {
        self.sent.contains(&Verb::Release)
    }

    /// Lets one section pass: answers what is due, and lets the holder release and wait again.
    fn pass(&mut self) {
        self.now = self.now + SECTION;
        while self.calls.front().is_some_and(|(at, ..)| *at <= self.now)
            && let Some((_, id, call)) = self.calls.pop_front()
        {
            let own = u32::from(!self.harness.listening.is_empty());
            let reply = match call.verb() {
                Verb::HandOff => (self.answer)(own + self.others),
                Verb::Release => Ok(Reply::Int(1 + i64::from(own + self.others))),
                Verb::Renew => Ok(Reply::Int(1)),
                _ if self.grants > 0 && !self.has_released() => Ok(Reply::Int(30_000)),
                _ => Ok(Reply::Nil),
            };
            self.step(Event::Replied(id, reply));
        }
        if self.grants == 1 && self.holding.is_some() {
            let channel = Channel::new("redisson_lock__channel:{x}");
            self.step(Event::Listening(channel));
        }
        if let Some(holder) = self.holding.take() {
            self.step(Event::Release { hold: Id(holder), report: None });
            self.acquire();
        }
        assert!(self.asking() <= 1, "two questions are on their way");
    }

    fn pass_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.now < until {
            self.pass();
        }
    }

    /// Passes until a question is on its way.
    fn pass_until_asked(&mut self) {
        for _ in 0..1_000 {
            if self.asking() > 0 {
                return;
            }
            self.pass();
        }
        panic!("no question was sent: {:?}", self.sent);
    }
}

#[test]
fn one_client_alone_keeps_passing_on_without_a_release() {
    let mut busy = Busy::new();
    busy.pass_for(Duration::from_millis(500));
    assert!(!busy.has_released(), "{:?}", busy.sent);
    assert!(busy.grants > 9_900, "{} grants", busy.grants);
    assert!((100..400).contains(&busy.questions()), "{} questions", busy.questions());
}

#[test]
fn another_listener_ends_the_passing_at_the_bound() {
    let mut busy = Busy::new();
    busy.pass_for(Duration::from_millis(50));
    assert!(!busy.has_released());
    busy.others = 1;
    let since = busy.now;
    while !busy.has_released() && busy.now.since(since) < Duration::from_millis(20) {
        busy.pass();
    }
    // A question may have counted just before, and its answer is a trip older than the bound that it extends.
    assert!(busy.now.since(since) <= Duration::from_millis(4) + TRIP, "{:?}", busy.now.since(since));
}

#[test]
fn another_queue_of_the_client_ends_the_passing_at_the_bound() {
    let mut busy = Busy::new();
    busy.pass_for(Duration::from_millis(50));
    assert!(!busy.has_released());
    let name = |name: &str| Name::new(name).unwrap();
    let both = Subject { others: vec![name("y")].into(), ..Subject::new(&name("x"), &MULTI) };
    busy.step(Event::Acquire(Id(100_000), Request { subject: both, ..request(100_000, 30_000) }));
    busy.pass_for(Duration::from_millis(4) + TRIP);
    assert!(busy.has_released(), "the waiter of both names gets a turn: {:?}", busy.sent);
}

#[test]
fn an_answer_without_a_count_extends_nothing() {
    let mut busy = Busy::new();
    busy.answer = |_| Ok(Reply::Int(1));
    busy.pass_for(Duration::from_millis(4));
    assert!(busy.has_released());
    busy.pass_for(Duration::from_millis(100));
    assert_eq!(busy.questions(), 1, "a server that does not tell is left alone for a time");
}

#[test]
fn a_failed_answer_extends_nothing() {
    for (kind, applied) in
        [(StoreErrorKind::ConnectionLost, Applied::Unknown), (StoreErrorKind::Loading, Applied::No)]
    {
        let mut busy = Busy::new();
        busy.pass_until_asked();
        let (_, id, _) = busy.calls.pop_back().unwrap();
        busy.step(Event::Replied(id, Err(StoreError::new(kind, Verb::HandOff, "x".into(), applied))));
        assert_eq!(busy.harness.engine.lost(Id(busy.holding.unwrap()), busy.now), None);
        busy.pass_for(Duration::from_millis(2));
        assert!(busy.has_released(), "{kind:?}");
    }
}

#[test]
fn a_late_answer_extends_nothing() {
    let mut busy = Busy::new();
    busy.pass_until_asked();
    let (_, id, _) = busy.calls.pop_back().unwrap();
    // The section of the present holder goes on beyond the bound.
    busy.now = busy.now + Duration::from_millis(2);
    busy.step(Event::Replied(id, counted(1)));
    busy.pass();
    assert!(busy.has_released(), "{:?}", busy.sent);
}

#[test]
fn a_question_that_finds_no_hold_ends_it() {
    for (reply, reason) in [(0, LostReason::Deleted), (-1, LostReason::TakenOver)] {
        let mut busy = Busy::new();
        busy.pass_until_asked();
        let (_, id, _) = busy.calls.pop_back().unwrap();
        let holder = Id(busy.holding.unwrap());
        busy.step(Event::Replied(id, Ok(Reply::Int(reply))));
        assert_eq!(busy.harness.engine.lost(holder, busy.now), Some(reason));
    }
}

#[test]
fn a_question_confirms_the_validity() {
    let mut busy = Busy::new();
    busy.pass_until_asked();
    let asked_at = busy.now;
    let (_, id, call) = busy.calls.pop_back().unwrap();
    assert_eq!(call.argument("lease_ms"), Some("30000"));
    busy.step(Event::Replied(id, counted(1)));
    let remaining = busy.harness.engine.remaining(Id(busy.holding.unwrap()), asked_at);
    assert_eq!(remaining, Duration::from_millis(29_698));
}

#[test]
fn the_question_of_a_released_hold_is_forgotten() {
    let mut busy = Busy::new();
    busy.pass_until_asked();
    let (_, id, _) = busy.calls.pop_back().unwrap();
    busy.pass_for(Duration::from_millis(2));
    assert!(busy.has_released());
    let calls = busy.sent.len();
    busy.step(Event::Replied(id, Ok(Reply::Int(0))));
    assert_eq!(busy.sent.len(), calls);
}

/// Creates a harness with hold 1, granted after no time, and waiter 2.
fn with_waiter(hold: Request) -> Harness {
    let mut harness = Harness::new();
    let waiter = Request { owner: request(2, 30_000).owner, ..hold.clone() };
    harness.step(0, Event::Acquire(Id(1), hold));
    harness.answer(0, Ok(Reply::Nil));
    harness.claim(0, 1);
    harness.step(0, Event::Acquire(Id(2), waiter));
    harness
}

fn step_us(harness: &mut Harness, at: u64, event: Event) {
    harness.step_at(ms(0) + Duration::from_micros(at), event);
}

#[test]
fn a_question_leaves_after_three_quarters_of_the_bound() {
    let mut harness = with_waiter(request(1, 30_000));
    step_us(&mut harness, 1_499, Event::Tick);
    assert!(harness.sent.is_empty());
    step_us(&mut harness, 1_500, Event::Tick);
    assert_eq!(harness.sent[0].1.verb(), Verb::HandOff);
}

#[test]
fn a_long_section_does_not_ask_without_end() {
    let mut harness = with_waiter(request(1, 30_000));
    let mut questions = 0;
    for at in (0..100_000).step_by(100) {
        step_us(&mut harness, at, Event::Tick);
        while !harness.sent.is_empty() {
            let (id, call) = harness.sent.remove(0);
            questions += u32::from(call.verb() == Verb::HandOff);
            step_us(&mut harness, at, Event::Replied(id, Ok(Reply::Int(2))));
        }
    }
    assert_eq!(questions, 4);
}

#[test]
fn only_a_hold_that_a_question_may_renew_asks() {
    let spin = Request { subject: Subject::new(&Name::new("x").unwrap(), &SPIN), ..request(1, 30_000) };
    let silent: [(&str, Request); 4] = [
        ("a fixed lease", Request { watchdog: false, ..request(1, 30_000) }),
        ("a bound on the renewals", Request { max_renewals: Some(3), ..request(1, 30_000) }),
        ("no hand-off", Request { hand_off: Some(Duration::ZERO), ..request(1, 30_000) }),
        ("no listeners", spin),
    ];
    for (what, hold) in silent {
        let mut harness = with_waiter(hold);
        for at in 1..4 {
            harness.step(at, Event::Tick);
        }
        let asks = harness.sent.iter().any(|(_, call)| call.verb() == Verb::HandOff);
        assert!(!asks, "{what}: {:?}", harness.sent);
    }
    let mut harness = with_waiter(request(1, 30_000));
    harness.step(1, Event::Ensure { id: Id(9), hold: Id(1), least: Duration::from_micros(29_697_500) });
    let renewed = harness.answer(1, unknown(Verb::Renew));
    assert_eq!(renewed.verb(), Verb::Renew);
    harness.step(2, Event::Tick);
    assert!(harness.sent.is_empty(), "a hold in doubt: {:?}", harness.sent);
}

#[test]
fn a_hold_without_a_local_waiter_asks_nothing() {
    let mut harness = Harness::new();
    harness.hold(0, 1, request(1, 30_000));
    for at in 2..10 {
        harness.step(at, Event::Tick);
    }
    assert!(harness.sent.is_empty(), "{:?}", harness.sent);
}

#[test]
fn a_client_whose_last_release_was_heard_asks_nothing() {
    let mut busy = Busy::new();
    busy.others = 1;
    busy.pass_for(Duration::from_millis(60));
    assert_eq!(busy.questions(), 1, "the first release tells: {:?}", busy.sent);
}

#[test]
fn an_own_subscription_that_is_not_confirmed_counts_as_another_clients() {
    let mut harness = with_waiter(request(1, 30_000));
    step_us(&mut harness, 1_500, Event::Tick);
    let (id, _) = harness.sent.remove(0);
    step_us(&mut harness, 1_600, Event::Replied(id, counted(1)));
    harness.release(2, 1, 9);
    assert_eq!(harness.sent[0].1.verb(), Verb::Release);
}
