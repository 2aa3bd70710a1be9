//! An engine before an operation, and a server that answers it at once.
//!
//! Invariant: the inputs are fixed, and the buffers have room, so each run executes the same instructions.

use std::collections::VecDeque;
use std::time::Duration;

use leasehold_proto::engine::{
    Action, CallId, Detail, Event, Fact, Id, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Channel, ClientId, Engine, Lease, Moment, Name, Owner, Reply, Verb};

/// The lease of every hold, which the watchdog renews after a third of it at the latest.
const LEASE: Duration = Duration::from_secs(30);
/// The pairs that run before the operation, so that the engine and the allocator have their memory.
const WARM_UP_PAIRS: u64 = 100;
/// The release of a lock for which nobody listened.
const RELEASED: Reply = Reply::Int(1);

pub(crate) struct Scene {
    engine: Engine,
    now: Moment,
    actions: Vec<Action>,
    /// The facts of one step, with observers.
    facts: Option<Vec<Fact>>,
    /// The calls without an answer, oldest first.
    sent: VecDeque<(CallId, Verb)>,
    /// The channels whose subscription is not confirmed.
    subscribed: VecDeque<Channel>,
    /// The tickets that the engine woke.
    woken: VecDeque<Id>,
    last_id: u64,
    /// The request of the next acquire.
    request: Option<Request>,
    /// The last hold that was claimed.
    hold: Id,
    /// The calls and the good outcomes since the last reset.
    done: (usize, usize),
    /// The calls and the good outcomes that the operation must have.
    expected: (usize, usize),
}

impl Scene {
    fn new(room: usize) -> Self {
        let mut scene = Self {
            engine: Engine::new(ClientId::from_random([1; 16]), Settings::default()),
            now: Moment::from_millis(1_000_000),
            actions: Vec::with_capacity(2 * room + 16),
            facts: None,
            sent: VecDeque::with_capacity(2 * room + 16),
            subscribed: VecDeque::with_capacity(16),
            woken: VecDeque::with_capacity(2 * room + 16),
            last_id: 0,
            request: None,
            hold: Id(0),
            done: (0, 0),
            expected: (0, 0),
        };
        for owner in 0..WARM_UP_PAIRS {
            scene.take(request("warm-up", owner));
            scene.release();
            scene.settle();
        }
        // The first renewal reads the header of its script, as the first acquire and the first release do.
        scene.take(request("warm-up", 0));
        scene.now = scene.now + LEASE / 3;
        scene.tick();
        scene.release();
        scene.settle();
        scene
    }

    /// Creates a scene with the request for a free lock.
    pub(crate) fn with_request() -> Self {
        Self { request: Some(request("lock", 1)), ..Self::new(1) }
    }

    /// Creates a scene with a held lock.
    pub(crate) fn with_hold() -> Self {
        let mut scene = Self::new(1);
        scene.take(request("lock", 1));
        scene
    }

    /// Creates a scene with a held lock of this client and the waiters that want it.
    pub(crate) fn with_waiters(waiters: u64) -> Self {
        let mut scene = Self::new(usize::try_from(waiters).unwrap_or(usize::MAX));
        scene.take(request("lock", 0));
        for owner in 1..=waiters {
            scene.request = Some(request("lock", owner));
            scene.acquire();
            scene.answer_all(|_| Reply::Int(30_000));
        }
        scene
    }

    /// Creates a scene with holds of different locks whose renewal is due.
    pub(crate) fn with_due_renewals(holds: u64) -> Self {
        let mut scene = Self::new(usize::try_from(holds).unwrap_or(usize::MAX));
        for hold in 0..holds {
            scene.take(request(&format!("lock:{hold}"), hold));
        }
        let mut scene = scene.after_a_while();
        while scene.engine.next_timer() <= scene.now {
            scene.tick();
        }
        scene.now = scene.now + LEASE / 6;
        scene
    }

    /// Moves the time on to half of the time to a renewal, at which no hold is in the lane any more.
    pub(crate) fn after_a_while(mut self) -> Self {
        self.now = self.now + LEASE / 6;
        self
    }

    /// Moves the time on until a hold passes to no waiter any more.
    pub(crate) fn after_hand_offs(mut self) -> Self {
        self.now = self.now + Settings::default().hand_off;
        self
    }

    /// Adds observers that are told all facts.
    pub(crate) fn observed(mut self) -> Self {
        self.engine.observe(Duration::from_secs(5), Detail::All);
        self.facts = Some(Vec::with_capacity(16));
        let request = self.request.take();
        for owner in 0..WARM_UP_PAIRS {
            self.take(self::request("warm-up", owner));
            self.release();
            self.settle();
        }
        self.request = request;
        self
    }

    /// Sets what the operation must do: its calls, and the acquires and releases that it completes.
    pub(crate) fn expects(mut self, calls: usize, completed: usize) -> Self {
        self.done = (0, 0);
        self.expected = (calls, completed);
        self
    }

    /// Checks that the operation did what it is counted for.
    pub(crate) fn check(self) {
        assert_eq!(self.done, self.expected, "the calls and the completed acquires and releases");
    }

    /// Begins an acquire.
    pub(crate) fn acquire(&mut self) {
        let request = self.request.take().expect("the scene has a request");
        let id = self.id();
        self.step(Event::Acquire(id, request));
    }

    /// Begins the release of the last hold.
    pub(crate) fn release(&mut self) {
        let report = self.id();
        self.step(Event::Release { hold: self.hold, report: Some(report) });
    }

    /// Fires the due timers.
    pub(crate) fn tick(&mut self) {
        self.step(Event::Tick);
    }

    /// Answers every call as a server on which the lock is free, and takes every outcome as a client does.
    pub(crate) fn settle(&mut self) {
        self.answer_all(|verb| if verb == Verb::Acquire { Reply::Nil } else { RELEASED });
        while let Some(id) = self.woken.pop_front() {
            match self.engine.take_released(id) {
                Some(held) => self.done.1 += usize::from(held),
                None => self.step(Event::Claim(id)),
            }
        }
    }

    fn take(&mut self, request: Request) {
        self.request = Some(request);
        self.acquire();
        self.settle();
    }

    fn id(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    fn answer_all(&mut self, reply: fn(Verb) -> Reply) {
        loop {
            if let Some((id, verb)) = self.sent.pop_front() {
                self.step(Event::Replied(id, Ok(reply(verb))));
            } else if let Some(channel) = self.subscribed.pop_front() {
                self.step(Event::Listening(channel));
            } else {
                return;
            }
        }
    }

    fn step(&mut self, event: Event) {
        self.engine.step_into(self.now, event, &mut self.actions);
        if let Some(facts) = &mut self.facts {
            self.engine.take_facts(facts);
            facts.clear();
        }
        for action in self.actions.drain(..) {
            match action {
                Action::Run(id, call, _) => {
                    self.done.0 += 1;
                    self.sent.push_back((id, call.verb()));
                }
                Action::Subscribe(channel) => self.subscribed.push_back(channel),
                Action::Wake(id) => self.woken.push_back(id),
                Action::Complete(id, outcome) => match outcome {
                    Outcome::Acquired(Ok(_)) => {
                        self.done.1 += 1;
                        self.hold = id;
                    }
                    other => panic!("{other:?}"),
                },
                Action::Withdraw(_) | Action::Unsubscribe(_) | Action::Trusted(..) => {}
            }
        }
    }
}

fn request(name: &str, owner: u64) -> Request {
    let subject = Subject::new(&Name::new(name).expect("a name"), &REENTRANT);
    let lease = Lease::new(LEASE).expect("a lease");
    Request::new(subject, Owner::from_number(owner), lease, Wait::Forever)
}
