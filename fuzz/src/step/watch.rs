//! An engine under watch. Every action is checked against the promises.
//!
//! Invariant: the watch keeps the knowledge of callers and of the network, never the engine's own state.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::engine::{Action, CallId, Event, Grant, Id, Outcome, Request, Settings};
use leasehold_proto::{Call, Channel, ClientId, Engine, Moment, Owner, Reply, StoreError, Verb, WireOwner};

use super::server::Server;

/// The largest number of iterations until the engine has finished.
const ITERATIONS_TO_END: usize = 5_000;

/// The distance that a search keeps from the end of time, some 584 years after the start. Each timer of the engine fits
/// in it.
const BEFORE_THE_END: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A pending ticket.
struct Waiting {
    kind: Kind,
    /// True if the caller has not polled yet, or was woken, and so has a reason to poll.
    woken: bool,
}

#[derive(Debug, PartialEq)]
enum Kind {
    Acquire(String, Owner),
    Release,
    Ensure(Id),
    Close,
}

/// A claimed hold that was not released.
struct Held {
    name: String,
    owner: Owner,
    wire: WireOwner,
}

/// A call without an answer yet.
struct Transit {
    id: CallId,
    call: Call,
    reply: Option<Reply>,
}

pub(super) struct Watch {
    engine: Engine,
    now: Moment,
    honest: bool,
    last_id: u64,
    waiting: BTreeMap<Id, Waiting>,
    held: BTreeMap<Id, Held>,
    /// The claimed holds, each with the moment until which the engine has published that it may be trusted.
    trusted: BTreeMap<Id, Moment>,
    calls: Vec<Transit>,
    last_call: Option<CallId>,
    repeatable: Vec<Call>,
    undelivered: Vec<Event>,
    channels: BTreeSet<Channel>,
    /// The wire owners whose last hold was released, for which no later call may acquire or renew.
    parted: BTreeSet<String>,
    server: Server,
    /// True if the events are printed, for the analysis of a failed input.
    told: bool,
}

impl Watch {
    pub(super) fn new(settings: Settings, honest: bool) -> Self {
        Self {
            engine: Engine::new(ClientId::from_random([9; 16]), settings),
            now: Moment::from_millis(1_000),
            honest,
            last_id: 0,
            waiting: BTreeMap::new(),
            held: BTreeMap::new(),
            trusted: BTreeMap::new(),
            calls: Vec::new(),
            last_call: None,
            repeatable: Vec::new(),
            undelivered: Vec::new(),
            channels: BTreeSet::new(),
            parted: BTreeSet::new(),
            server: Server::default(),
            told: std::env::var_os("LEASEHOLD_STORY").is_some(),
        }
    }

    pub(super) fn is_honest(&self) -> bool {
        self.honest
    }

    pub(super) fn now(&self) -> Moment {
        self.now
    }

    pub(super) fn fresh(&mut self) -> Id {
        self.last_id += 1;
        Id(self.last_id)
    }

    pub(super) fn unused_id(&self) -> Id {
        Id(u64::MAX)
    }

    pub(super) fn waiting(&self) -> Vec<Id> {
        self.waiting.keys().copied().collect()
    }

    pub(super) fn holds(&self) -> Vec<Id> {
        self.held.keys().copied().collect()
    }

    fn wait_for(&mut self, id: Id, kind: Kind) {
        self.waiting.insert(id, Waiting { kind, woken: true });
    }

    pub(super) fn acquire(&mut self, id: Id, request: Request) {
        self.wait_for(id, Kind::Acquire(request.subject.name.to_string(), request.owner));
        self.bring(Event::Acquire(id, request));
    }

    pub(super) fn cancel(&mut self, id: Id) {
        self.waiting.remove(&id);
        self.bring(Event::Cancel(id));
    }

    pub(super) fn release(&mut self, hold: Id, report: Option<Id>) {
        self.give_up(hold);
        if let Some(id) = report {
            self.wait_for(id, Kind::Release);
        }
        self.bring(Event::Release { hold, report });
    }

    pub(super) fn keep(&mut self, hold: Id) {
        self.give_up(hold);
        self.bring(Event::Detach(hold));
    }

    /// Removes a guard. A pending `ensure` borrows the guard, so it is canceled first.
    fn give_up(&mut self, hold: Id) {
        let ensuring = self.waiting.iter().filter(|(_, waiting)| waiting.kind == Kind::Ensure(hold));
        for id in ensuring.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.cancel(id);
        }
        self.held.remove(&hold);
    }

    pub(super) fn ensure(&mut self, id: Id, hold: Id, least: Duration) {
        self.wait_for(id, Kind::Ensure(hold));
        self.bring(Event::Ensure { id, hold, least });
    }

    pub(super) fn close(&mut self, id: Id) {
        self.wait_for(id, Kind::Close);
        self.bring(Event::Close(id));
    }

    pub(super) fn pass(&mut self, span: Duration) {
        let end = Moment::NEVER - BEFORE_THE_END;
        self.now = (self.now + span).min(end.max(self.now));
        self.bring(Event::Tick);
    }

    pub(super) fn pass_to_next_timer(&mut self) {
        if self.engine.next_timer() < Moment::NEVER - BEFORE_THE_END / 2 {
            self.now = self.now.max(self.engine.next_timer());
            self.bring(Event::Tick);
        }
    }

    fn place(&self, place: u8) -> Option<usize> {
        (!self.calls.is_empty()).then(|| usize::from(place) % self.calls.len())
    }

    pub(super) fn outstanding(&self, place: u8) -> Option<Call> {
        self.place(place).map(|at| self.calls[at].call.clone())
    }

    /// Executes a call that is in flight.
    pub(super) fn execute(&mut self, place: u8) {
        let Some(at) = self.place(place) else { return };
        if self.calls[at].reply.is_none() {
            let reply = self.run(at);
            self.calls[at].reply = Some(reply);
        }
    }

    fn run(&mut self, at: usize) -> Reply {
        let call = self.calls[at].call.clone();
        let (reply, tells) = self.server.run(&call, self.now, &self.channels);
        if tells {
            self.undelivered.extend(self.channels.iter().cloned().map(Event::Message));
        }
        reply
    }

    /// Delivers the reply to a call, and executes the call first if that is still to be done.
    pub(super) fn answer(&mut self, place: u8) {
        self.execute(place);
        let Some(at) = self.place(place) else { return };
        let Transit { id, call, reply } = self.calls.remove(at);
        self.repeatable.push(call);
        self.bring(Event::Replied(id, Ok(reply.expect("it was executed"))));
    }

    /// Fails a call without a reply. If the call was not executed, it may be later.
    pub(super) fn fail(&mut self, place: u8, error: StoreError) {
        let Some(at) = self.place(place) else { return };
        let Transit { id, call, .. } = self.calls.remove(at);
        self.repeatable.push(call);
        self.bring(Event::Replied(id, Err(error)));
    }

    /// Fails a call that certainly does not run.
    pub(super) fn refuse(&mut self, place: u8, error: StoreError) {
        let Some(at) = self.place(place) else { return };
        if self.calls[at].reply.is_none() || !self.honest {
            let id = self.calls.remove(at).id;
            self.bring(Event::Replied(id, Err(error)));
        }
    }

    /// Delivers a false reply.
    pub(super) fn lie(&mut self, place: u8, reply: Reply) {
        let Some(at) = self.place(place) else { return };
        let id = self.calls.remove(at).id;
        self.bring(Event::Replied(id, Ok(reply)));
    }

    /// Delivers a second reply to the newest call if that was answered. Otherwise a dishonest server lies.
    pub(super) fn answer_again(&mut self, place: u8, reply: Reply) {
        let answered = self.last_call.filter(|id| self.calls.iter().all(|transit| transit.id != *id));
        if let Some(id) = answered {
            self.bring(Event::Replied(id, Ok(reply)));
        } else if !self.honest {
            self.lie(place, reply);
        }
    }

    /// Delivers a call once more: a lost call late, or an answered call again.
    pub(super) fn repeat(&mut self, place: u8) {
        if !self.repeatable.is_empty() {
            let call = self.repeatable.remove(usize::from(place) % self.repeatable.len());
            self.server.run(&call, self.now, &self.channels);
        }
    }

    /// Takes a free lock for another client.
    pub(super) fn server_takes(&mut self, name: &str, lease: Duration) {
        self.server.take(name, lease, self.now);
    }

    /// Delivers an event of the channels.
    pub(super) fn hear(&mut self, place: u8) {
        if !self.undelivered.is_empty() {
            let event = self.undelivered.remove(usize::from(place) % self.undelivered.len());
            self.bring(event);
        }
    }

    pub(super) fn claim(&mut self, id: Id) {
        // A wake-up during the claim sets `woken` again.
        let woken =
            self.waiting.get_mut(&id).is_some_and(|waiting| std::mem::replace(&mut waiting.woken, false));
        let Some(outcome) = self.bring_and_settle(Event::Claim(id), Some(id)) else {
            return self.check();
        };
        let waiting = self.waiting.remove(&id).expect("an outcome is told once, and only to who waits");
        assert!(woken || waiting.woken, "{id:?} has an outcome, {outcome:?}, and was not woken for it");
        match (waiting.kind, outcome) {
            (Kind::Acquire(name, owner), Outcome::Acquired(Ok(Grant { wire, .. }))) => {
                assert!(self.engine.is_held(id, self.now), "a hold that was just claimed is lost");
                self.held.insert(id, Held { name, owner, wire });
            }
            (Kind::Acquire(..), Outcome::Acquired(Err(_)))
            | (Kind::Release, Outcome::Released(_))
            | (Kind::Ensure(_), Outcome::Ensured(_))
            | (Kind::Close, Outcome::Closed(_)) => {}
            (kind, other) => panic!("{kind:?} settled as {other:?}"),
        }
        self.check();
    }

    pub(super) fn bring(&mut self, event: Event) {
        let settled = self.bring_and_settle(event, None);
        assert_eq!(settled, None, "an outcome without a request");
        self.check();
    }

    fn bring_and_settle(&mut self, event: Event, asker: Option<Id>) -> Option<Outcome> {
        let mut settled = None;
        let mut withdrawn = Vec::new();
        self.trace(&event);
        for action in self.engine.step(self.now, event) {
            self.trace(&action);
            match action {
                Action::Run(id, call, limit) => {
                    assert!(limit > Duration::ZERO, "a call has time for an answer");
                    assert!(self.last_call < Some(id), "a call is run once");
                    self.last_call = Some(id);
                    self.check_call(&call);
                    self.calls.push(Transit { id, call, reply: None });
                }
                Action::Withdraw(id) => withdrawn.push(id),
                Action::Subscribe(channel) => {
                    self.undelivered.push(Event::Listening(channel.clone()));
                    assert!(self.channels.insert(channel), "it listens already");
                }
                Action::Unsubscribe(channel) => assert!(self.channels.remove(&channel), "it does not listen"),
                Action::Wake(id) => {
                    if let Some(waiting) = self.waiting.get_mut(&id) {
                        waiting.woken = true;
                    }
                }
                Action::Trusted(id, until) if until == Moment::default() => {
                    assert!(self.trusted.remove(&id).is_some(), "{id:?} ends twice, or was never published");
                }
                Action::Trusted(id, until) => {
                    self.trusted.insert(id, until);
                }
                Action::Complete(id, outcome) => {
                    assert!(asker == Some(id) && settled.is_none(), "{id:?} is told, and has not asked");
                    settled = Some(outcome);
                }
            }
        }
        for (id, until) in &self.trusted {
            let (published, left) = (until.since(self.now), self.engine.remaining(*id, self.now));
            assert_eq!(published, left, "the published validity of {id:?}");
        }
        for id in withdrawn {
            // Each call is on its way, so the driver says at once that it keeps it.
            let further = self.bring_and_settle(Event::Kept(id), asker);
            assert!(settled.is_none() || further.is_none(), "an outcome is told once");
            settled = settled.or(further);
        }
        settled
    }

    fn trace(&self, what: &dyn std::fmt::Debug) {
        if self.told {
            eprintln!("{:?}: {what:?}", self.now);
        }
    }

    fn check_call(&mut self, call: &Call) {
        let owner = call.argument("owner").expect("every call of the engine has an owner").to_owned();
        if call.verb() == Verb::Release {
            if call.argument("remaining") == Some("0") {
                self.parted.insert(owner);
            }
            return;
        }
        assert!(!self.parted.contains(&owner), "{call:?} after its owner has parted");
        if call.verb() == Verb::Renew && call.argument("count") == Some("0") {
            let held = self.held.values().any(|held| held.wire.to_string() == owner);
            assert!(held, "{call:?} renews a hold that was not claimed, or was undone");
        }
    }

    /// Checks the promises that hold at any moment.
    fn check(&mut self) {
        // A timer may be due at once, but not again and again.
        for _ in 0..8 {
            if self.engine.next_timer() <= self.now {
                assert_eq!(self.bring_and_settle(Event::Tick, None), None, "an outcome without a request");
            }
        }
        let busy = self.engine.next_timer() <= self.now;
        assert!(!busy, "a timer stays due, so the driver would never sleep");
        if self.honest {
            self.check_holds();
        }
    }

    /// Checks that valid holds exist on the server, under one owner for each name.
    fn check_holds(&self) {
        let valid = self.held.iter().filter(|(id, _)| self.engine.is_held(**id, self.now));
        let mut owners: BTreeMap<&str, (Owner, WireOwner)> = BTreeMap::new();
        for (_, held) in valid {
            let first = *owners.entry(&held.name).or_insert((held.owner, held.wire));
            assert_eq!(first, (held.owner, held.wire), "two owners hold {:?} at one moment", held.name);
            let kept = self.server.is_held_by(&held.name, &held.wire.to_string(), self.now);
            assert!(kept, "{:?} is trusted, and the server does not keep it", held.name);
        }
    }

    /// Cancels half of the tickets, polls the others to their end, and answers every call. Every wait must end, and the
    /// client must finish.
    pub(super) fn quiesce(&mut self) {
        for id in self.waiting().into_iter().filter(|id| id.0 % 2 == 0) {
            self.cancel(id);
        }
        for hold in self.holds() {
            self.release(hold, None);
        }
        let close = self.fresh();
        self.close(close);
        for _ in 0..ITERATIONS_TO_END {
            let woken = self.waiting.iter().filter(|(_, waiting)| waiting.woken).map(|(id, _)| *id);
            for id in woken.collect::<Vec<_>>() {
                self.claim(id);
            }
            if self.engine.is_finished() && self.waiting.is_empty() {
                assert!(self.channels.is_empty(), "a client that has ended listens");
                return;
            }
            match self.calls.is_empty() {
                false => self.answer(0),
                true => self.pass_to_next_timer(),
            }
        }
        let left: Vec<_> = self.waiting.iter().map(|(id, waiting)| (id, &waiting.kind)).collect();
        let (held, now, next) = (self.server.held(self.now), self.now, self.engine.next_timer());
        panic!("at {now:?} {left:?} still wait, the next timer is due at {next:?}, held are {held:?}");
    }
}
