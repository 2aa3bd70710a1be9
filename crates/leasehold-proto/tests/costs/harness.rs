//! A harness for one engine, whose own work is outside of every measurement.
//!
//! Invariant: only the engine's steps are measured. Buffers that the harness keeps are made before.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use allocation_counter::{AllocationInfo, measure};
use leasehold_proto::engine::{Action, CallId, Event, Id, Outcome, Request, Settings, Subject, Wait};
use leasehold_proto::{Channel, ClientId, Engine, Lease, Moment, Name, Owner, Recipe, Reply, Verb};

/// The lease of every request. No renewal is due while a test runs.
const LEASE: Duration = Duration::from_secs(600);

pub(crate) struct Harness {
    engine: Engine,
    now: Moment,
    actions: Vec<Action>,
    /// The calls without an answer, oldest first.
    sent: VecDeque<(CallId, Verb)>,
    /// The channels whose subscription is not confirmed.
    subscribed: VecDeque<Channel>,
    /// The tickets that the engine woke, and that are not claimed.
    pub(crate) woken: VecDeque<Id>,
    last_id: u64,
    pub(crate) count: Count,
}

/// The work of the engine since the test has reset it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) steps: u64,
    /// The scripts that were sent.
    pub(crate) scripts: u64,
    /// The wake-ups of the longest step.
    pub(crate) wakes_max: usize,
    pub(crate) time: Duration,
    /// The time of the longest step.
    pub(crate) time_max: Duration,
    /// The allocations, and the bytes that remain allocated.
    pub(crate) allocated: AllocationInfo,
}

impl Harness {
    /// Creates a harness with room for this many calls and tickets at once.
    pub(crate) fn new(room: usize) -> Self {
        Self {
            engine: Engine::new(ClientId::from_random([1; 16]), Settings::default()),
            now: after(Duration::ZERO),
            actions: Vec::with_capacity(4 * room + 16),
            sent: VecDeque::with_capacity(2 * room + 16),
            subscribed: VecDeque::with_capacity(2 * room + 16),
            woken: VecDeque::with_capacity(2 * room + 16),
            last_id: 0,
            count: Count::default(),
        }
    }

    pub(crate) fn reset(&mut self) {
        self.count = Count::default();
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
    }

    /// Returns true if the engine wants a step now.
    pub(crate) fn is_due(&self) -> bool {
        self.engine.next_timer() <= self.now
    }

    /// Steps the engine with an event, and returns the outcome that it reports.
    #[expect(clippy::disallowed_methods, reason = "it measures how long the step takes")]
    pub(crate) fn step(&mut self, event: Event) -> Option<Outcome> {
        let Self { engine, now, actions, sent, subscribed, woken, count, .. } = self;
        let (mut outcome, woken_before) = (None, woken.len());
        count.steps += 1;
        count.allocated += measure(|| {
            let began = Instant::now();
            engine.step_into(*now, event, actions);
            let took = began.elapsed();
            count.time += took;
            count.time_max = count.time_max.max(took);
            // The effects end inside the measurement, so their bytes do not remain.
            for action in actions.drain(..) {
                match action {
                    Action::Run(id, call, _) => {
                        count.scripts += 1;
                        sent.push_back((id, call.verb()));
                    }
                    Action::Subscribe(channel) => subscribed.push_back(channel),
                    Action::Wake(id) => woken.push_back(id),
                    Action::Complete(_, reported) => outcome = Some(reported),
                    Action::Withdraw(_) | Action::Unsubscribe(_) | Action::Trusted(..) => {}
                }
            }
        });
        count.wakes_max = count.wakes_max.max(woken.len() - woken_before);
        outcome
    }

    /// Returns a ticket that was never used.
    pub(crate) fn id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    /// Begins an acquire.
    pub(crate) fn acquire(&mut self, request: Request) -> Id {
        let id = self.id();
        self.step(Event::Acquire(id, request));
        id
    }

    /// Claims a grant, and returns its hold.
    pub(crate) fn claim(&mut self, id: Id) -> Id {
        let outcome = self.step(Event::Claim(id));
        assert!(matches!(outcome, Some(Outcome::Acquired(Ok(_)))), "{outcome:?}");
        id
    }

    /// Releases a hold, and returns the ticket of the report.
    pub(crate) fn release(&mut self, hold: Id) -> Id {
        let report = self.id();
        self.step(Event::Release { hold, report: Some(report) });
        report
    }

    /// Answers all calls that are out by `reply`, confirms all subscriptions, and returns the number of calls.
    pub(crate) fn round_trip(&mut self, mut reply: impl FnMut(Verb) -> Reply) -> usize {
        let calls = self.sent.len();
        for _ in 0..calls {
            let (id, verb) = self.sent.pop_front().unwrap();
            self.step(Event::Replied(id, Ok(reply(verb))));
        }
        while let Some(channel) = self.subscribed.pop_front() {
            self.step(Event::Listening(channel));
        }
        calls
    }

    /// Makes round trips until no call is out.
    pub(crate) fn answer_all(&mut self, mut reply: impl FnMut(Verb) -> Reply) {
        while !self.sent.is_empty() || !self.subscribed.is_empty() {
            self.round_trip(&mut reply);
        }
    }

    /// Makes an acquire that is granted and claimed at once.
    pub(crate) fn hold(&mut self, request: Request) -> Id {
        let id = self.acquire(request);
        self.answer_all(grant);
        assert_eq!(self.woken.pop_front(), Some(id));
        self.claim(id)
    }

    /// Makes a release that is answered and reported at once.
    pub(crate) fn free(&mut self, hold: Id) {
        let report = self.release(hold);
        self.answer_all(grant);
        assert_eq!(self.woken.pop_front(), Some(report));
        let outcome = self.step(Event::Claim(report));
        assert_eq!(outcome, Some(Outcome::Released(Ok(true))));
    }

    /// Begins `waiters` acquires of a lock that another client holds, and answers until the engine sends nothing more.
    pub(crate) fn refuse(&mut self, waiters: u64, request: impl Fn(u64) -> Request) -> Vec<Id> {
        let ids = (0..waiters).map(|owner| self.acquire(request(owner))).collect();
        self.answer_all(refusal);
        ids
    }
}

/// Returns the moment this long after the beginning of a test.
pub(crate) fn after(time: Duration) -> Moment {
    Moment::from_millis(1_000_000) + time
}

/// Replies as a server on which the lock is free.
pub(crate) fn grant(verb: Verb) -> Reply {
    match verb {
        Verb::Acquire => Reply::Nil,
        _ => Reply::Int(1),
    }
}

/// Replies as a server on which another client holds the lock.
pub(crate) fn refusal(verb: Verb) -> Reply {
    match verb {
        Verb::Acquire => Reply::Int(60_000),
        _ => Reply::Int(1),
    }
}

pub(crate) fn subject(name: &str, recipe: &'static Recipe) -> Subject {
    Subject::new(&Name::new(name).unwrap(), recipe)
}

pub(crate) fn request(subject: &Subject, owner: u64) -> Request {
    let lease = Lease::new(LEASE).unwrap();
    Request::new(subject.clone(), Owner::from_number(owner), lease, Wait::Forever)
}
