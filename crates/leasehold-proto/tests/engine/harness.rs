//! A harness for one engine. The test brings each event and answers each call.
//!
//! Invariant: the test sets the time, and calls are answered in the order in which they were sent.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::engine::{Action, CallId, Event, Id, Outcome, Request, Settings, Subject, Wait};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{
    Applied, Call, Channel, ClientId, Engine, Lease, Moment, Name, Owner, Reply, StoreError, StoreErrorKind,
    Verb,
};

/// The harness: an engine and the calls that it has sent.
pub(crate) struct Harness {
    pub(crate) engine: Engine,
    pub(crate) sent: Vec<(CallId, Call)>,
    /// True while there is no connection, so that no call was sent.
    pub(crate) unsent: bool,
    /// The channels to which the engine subscribes.
    pub(crate) listening: BTreeSet<Channel>,
    /// The tickets and holds that the last event woke.
    pub(crate) woken: Vec<Id>,
    /// The claimed holds, each with the moment until which the engine has published that it may be trusted.
    trusted: BTreeMap<Id, Moment>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(Settings::default())
    }

    pub(crate) fn with(settings: Settings) -> Self {
        let engine = Engine::new(ClientId::from_random([1; 16]), settings);
        Self {
            engine,
            sent: Vec::new(),
            unsent: false,
            listening: BTreeSet::new(),
            woken: Vec::new(),
            trusted: BTreeMap::new(),
        }
    }

    /// Steps the engine with an event, and returns the outcome that it reports.
    pub(crate) fn step(&mut self, at: u64, event: Event) -> Option<Outcome> {
        self.step_at(ms(at), event)
    }

    pub(crate) fn step_at(&mut self, now: Moment, event: Event) -> Option<Outcome> {
        let mut settled = None;
        self.woken.clear();
        let asked = event.clone();
        let mut withdrawn = Vec::new();
        for action in self.engine.step(now, event) {
            match action {
                Action::Run(id, call, _) => self.sent.push((id, call)),
                Action::Withdraw(id) => withdrawn.push(id),
                Action::Complete(_, outcome) => settled = Some(outcome),
                Action::Subscribe(channel) => assert!(self.listening.insert(channel), "it listens already"),
                Action::Unsubscribe(channel) => {
                    assert!(self.listening.remove(&channel), "it does not listen");
                }
                Action::Wake(id) => self.woken.push(id),
                Action::Trusted(id, until) => trust(&mut self.trusted, id, until),
            }
        }
        if let (Event::Claim(id), Some(Outcome::Acquired(Ok(_)))) = (&asked, &settled) {
            assert!(self.trusted.contains_key(id), "{id:?} is claimed, and its validity is not published");
        }
        check_trust(&self.engine, &self.trusted, now);
        for id in withdrawn {
            let answer = if self.unsent { self.take_back(id) } else { Event::Kept(id) };
            let woken = std::mem::take(&mut self.woken);
            self.step_at(now, answer);
            self.woken.splice(0..0, woken);
        }
        settled
    }

    /// Takes a call back that was not sent.
    fn take_back(&mut self, id: CallId) -> Event {
        let index = self.sent.iter().position(|(sent, _)| *sent == id);
        let (_, call) = self.sent.remove(index.expect("the call has no answer yet"));
        let error = StoreError::new(StoreErrorKind::Unreachable, call.verb(), "x".into(), Applied::No);
        Event::Replied(id, Err(error))
    }

    /// Returns the verbs of the calls without an answer.
    pub(crate) fn verbs(&self) -> Vec<Verb> {
        self.sent.iter().map(|(_, call)| call.verb()).collect()
    }

    /// Answers the oldest call that has no answer yet.
    pub(crate) fn answer(&mut self, at: u64, result: Result<Reply, StoreError>) -> Call {
        let (id, call) = self.sent.remove(0);
        self.step(at, Event::Replied(id, result));
        call
    }

    /// Makes an acquire that is granted after a millisecond and claimed then. Returns its call.
    pub(crate) fn hold(&mut self, at: u64, id: u64, request: Request) -> Call {
        self.step(at, Event::Acquire(Id(id), request));
        self.take(at + 1, id)
    }

    /// Makes an acquire that is granted and claimed at the same time.
    pub(crate) fn hold_at_once(&mut self, at: u64, id: u64, request: Request) {
        self.step(at, Event::Acquire(Id(id), request));
        self.take(at, id);
    }

    /// Grants the acquire that was sent last, and claims it.
    fn take(&mut self, at: u64, id: u64) -> Call {
        let reply = match self.sent[0].1.verb() {
            Verb::Acquire => Reply::Nil,
            _ => Reply::Int(1),
        };
        let call = self.answer(at, Ok(reply));
        let claimed = self.step(at, Event::Claim(Id(id)));
        assert!(matches!(claimed, Some(Outcome::Acquired(Ok(_)))), "{claimed:?}");
        call
    }

    pub(crate) fn claim(&mut self, at: u64, id: u64) -> Option<Outcome> {
        self.step(at, Event::Claim(Id(id)))
    }

    /// Takes an offer, of which the engine learns now.
    pub(crate) fn take_offer(&mut self, id: u64) {
        let offer = self.engine.offer(Id(id)).unwrap();
        self.trusted.insert(Id(id), offer.valid_until);
        self.engine.claim_taken(Id(id));
    }

    pub(crate) fn release(&mut self, at: u64, hold: u64, report: u64) {
        self.step(at, Event::Release { hold: Id(hold), report: Some(Id(report)) });
    }
}

/// Takes the validity that the engine publishes. Zero is the last word about a hold.
pub(crate) fn trust(trusted: &mut BTreeMap<Id, Moment>, id: Id, until: Moment) {
    if until == Moment::default() {
        assert!(trusted.remove(&id).is_some(), "{id:?} ends twice, or was never published");
    } else {
        trusted.insert(id, until);
    }
}

/// Checks that the published validity of each hold is that which the engine reports.
pub(crate) fn check_trust(engine: &Engine, trusted: &BTreeMap<Id, Moment>, now: Moment) {
    for (id, until) in trusted {
        assert_eq!(until.since(now), engine.remaining(*id, now), "the published validity of {id:?}");
    }
}

/// Returns the time at which the engine does something next, and lets it come to that time. A timer that was moved to a
/// later time may fire in vain before, as may the time of a record in the lane.
pub(crate) fn next_timer(engine: &mut Engine) -> Moment {
    loop {
        let at = engine.next_timer();
        let mut ahead = engine.clone();
        if at == Moment::NEVER || !ahead.step(at, Event::Tick).is_empty() || ahead.next_timer() <= at {
            return at;
        }
        *engine = ahead;
    }
}

pub(crate) fn ms(at: u64) -> Moment {
    Moment::from_millis(1_000_000 + at)
}

/// Returns the first whole millisecond at or after a moment.
pub(crate) fn millis(moment: Moment) -> u64 {
    let since = moment.since(ms(0));
    u64::try_from(since.as_millis()).unwrap() + u64::from(!since.subsec_nanos().is_multiple_of(1_000_000))
}

pub(crate) fn request(owner: u64, lease_ms: u64) -> Request {
    let lease = Lease::new(Duration::from_millis(lease_ms)).unwrap();
    Request::new(subject("x"), Owner::from_number(owner), lease, Wait::Forever)
}

pub(crate) fn subject(name: &str) -> Subject {
    Subject::new(&Name::new(name).unwrap(), &REENTRANT)
}

pub(crate) fn bounded(request: Request, most_ms: u64) -> Request {
    Request { max_hold: Some(Duration::from_millis(most_ms)), ..request }
}

/// Returns the outcome of a call that may have run and got no answer.
pub(crate) fn unknown(during: Verb) -> Result<Reply, StoreError> {
    Err(StoreError::new(StoreErrorKind::Timeout, during, "x".into(), Applied::Unknown))
}

pub(crate) fn refused(kind: StoreErrorKind) -> Result<Reply, StoreError> {
    Err(StoreError::new(kind, Verb::Acquire, "x".into(), Applied::No))
}
