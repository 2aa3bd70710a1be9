//! A small world around the real engine: a server, a network that loses and repeats, processes that pause and crash.
//!
//! Invariant: every event is one [`Move`], chosen from outside, so a model checker can try all of them and a property
//! test a random walk. The engines are real. Only the server and the network are a model.

mod budget;
mod hand_off;
mod observed;
mod offers;
mod rules;
mod server;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, Action, CallId, Event, Id, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::plain::PLAIN;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{
    Applied, Call, Channel, ClientId, Engine, Lease, Moment, Name, Owner, Reply, StoreError, StoreErrorKind,
    Verb,
};

use crate::harness::{check_trust, trust};
use budget::varied;
pub(crate) use budget::{Budget, Variant};
use hand_off::{MAX_HOLD, Passing, has_max_hold};
use observed::Observed;
pub(crate) use server::Server;
use server::{keeps, owner_of};

/// One step of time.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// The next event of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    Tick,
    /// An acquire of a client and of one of its users, given by their indexes. The next three variants have the same
    /// fields.
    Acquire(usize, usize),
    Claim(usize, usize),
    Cancel(usize, usize),
    Release(usize, usize),
    Execute(usize),
    Answer(usize),
    Lose(usize),
    Refuse(usize),
    Keep(usize, usize),
    Repeat(usize),
    Hear(usize),
    Crash(usize),
    Suspend(usize),
    Resume(usize),
    Delete,
}

/// The state of one of a client's users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum User {
    Idle,
    Waiting { id: Id, news: bool },
    Holding(Id),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) engine: Engine,
    pub(crate) users: Vec<User>,
    acquires_left: u8,
    last_id: u64,
    alive: bool,
    suspended: bool,
    /// The time that its clock has lost, only in the variant with the wrong clock.
    behind: Duration,
    channels: BTreeSet<Channel>,
    /// The claimed holds, each with the moment until which the engine has published that it may be trusted.
    trusted: BTreeMap<Id, Moment>,
    /// The same engine with an observer, in the walks.
    observed: Option<Observed>,
    /// The offers that users have taken, of which the engine does not know.
    taken: BTreeSet<Id>,
    pub(crate) passing: Passing,
    pub(crate) refused: u32,
    pub(crate) granted: u32,
    pub(crate) failed: u32,
}

/// A call between its sending and the arrival of its outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Transit {
    client: usize,
    id: CallId,
    call: Call,
    /// The reply, or `None` until the server has executed the call.
    reply: Option<Reply>,
    /// True if no other client listened when the server executed a question.
    is_alone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) now: Moment,
    pub(crate) server: Server,
    pub(crate) clients: Vec<Client>,
    transits: Vec<Transit>,
    /// The calls that a network could still deliver again.
    ghosts: Vec<Call>,
    /// The events that have not arrived yet: wake-ups, confirmations of subscriptions, failures for suspended clients.
    news: Vec<(usize, Event)>,
    budget: Budget,
    lease: Lease,
    wait: Wait,
    variant: Variant,
    deleted: bool,
    /// The first broken rule.
    pub(crate) broken: Option<&'static str>,
}

impl World {
    pub(crate) fn new(
        clients: usize,
        users: usize,
        lease: Duration,
        wait: Wait,
        budget: Budget,
        variant: Variant,
    ) -> Self {
        let hand_off =
            if variant == Variant::HandsOffForever { TICK * 1_000 } else { TICK * budget.passes_for };
        let settings = Settings { timeout: TICK * 2, poll_interval: TICK * 4, hand_off };
        let client = |index: usize| Client {
            engine: Engine::new(ClientId::from_random([u8::try_from(index).unwrap(); 16]), settings),
            users: vec![User::Idle; users],
            acquires_left: budget.acquires,
            last_id: 0,
            alive: true,
            suspended: false,
            behind: Duration::ZERO,
            channels: BTreeSet::new(),
            trusted: BTreeMap::new(),
            observed: None,
            taken: BTreeSet::new(),
            passing: Passing::default(),
            refused: 0,
            granted: 0,
            failed: 0,
        };
        Self {
            now: Moment::from_millis(1_000_000),
            server: Server::new(variant),
            clients: (0..clients).map(client).collect(),
            transits: Vec::new(),
            ghosts: Vec::new(),
            news: Vec::new(),
            budget,
            lease: Lease::new(lease).unwrap(),
            wait,
            variant,
            deleted: false,
            broken: None,
        }
    }

    /// Returns all moves that are possible now.
    pub(crate) fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.budget.terse {
            let claims = self.clients.iter().enumerate().filter(|(_, client)| client.runs());
            let mut claims = claims.flat_map(|(index, client)| {
                let has_news = |user: &User| matches!(user, User::Waiting { news: true, .. });
                client.users.iter().position(has_news).map(|user| Move::Claim(index, user))
            });
            if let Some(claim) = claims.next() {
                return vec![claim];
            }
        }
        if self.budget.ticks > 0 {
            moves.push(Move::Tick);
        }
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            if client.suspended {
                moves.push(Move::Resume(index));
                continue;
            }
            self.user_moves(index, client, &mut moves);
            if self.budget.crashes > 0 {
                moves.push(Move::Crash(index));
            }
            if self.budget.pauses > 0 {
                moves.push(Move::Suspend(index));
            }
        }
        for (index, transit) in self.transits.iter().enumerate() {
            match transit.reply {
                None => moves.push(Move::Execute(index)),
                Some(_) if self.clients[transit.client].runs() => moves.push(Move::Answer(index)),
                Some(_) => {}
            }
            if self.budget.losses > 0 {
                moves.push(Move::Lose(index));
            }
            if self.budget.refusals > 0 && transit.reply.is_none() {
                moves.push(Move::Refuse(index));
            }
        }
        if self.budget.repeats > 0 {
            moves.extend((0..self.ghosts.len()).map(Move::Repeat));
        }
        let heard = self.news.iter().enumerate().filter(|(_, (client, _))| self.clients[*client].runs());
        moves.extend(heard.map(|(index, _)| Move::Hear(index)));
        if self.budget.deletions > 0 && self.server.is_locked(self.now) {
            moves.push(Move::Delete);
        }
        moves
    }

    fn user_moves(&self, index: usize, client: &Client, moves: &mut Vec<Move>) {
        let first_idle = client.users.iter().position(|user| *user == User::Idle);
        for (user, state) in client.users.iter().enumerate() {
            match state {
                // In a model the users of a client begin in order, because any other order is the same with other names.
                User::Idle if self.budget.terse && first_idle != Some(user) => {}
                User::Idle if client.acquires_left > 0 => moves.push(Move::Acquire(index, user)),
                User::Idle => {}
                User::Waiting { news, .. } => {
                    if *news {
                        moves.push(Move::Claim(index, user));
                    }
                    if self.budget.cancels > 0 {
                        moves.push(Move::Cancel(index, user));
                    }
                }
                User::Holding(_) => {
                    moves.push(Move::Release(index, user));
                    if self.budget.keeps > 0 {
                        moves.push(Move::Keep(index, user));
                    }
                }
            }
        }
    }

    /// Makes one of [`World::moves`].
    pub(crate) fn make(&mut self, chosen: Move) {
        match chosen {
            Move::Tick => self.tick(),
            Move::Acquire(client, user) => self.acquire(client, user),
            Move::Claim(client, user) => self.claim(client, user),
            Move::Cancel(client, user) => {
                self.budget.cancels -= 1;
                if let User::Waiting { id, .. } = std::mem::replace(self.user(client, user), User::Idle)
                    && self.variant != Variant::LeavesUnseen
                {
                    self.step(client, Event::Cancel(id));
                }
            }
            Move::Release(client, user) => {
                if let User::Holding(hold) = *self.user(client, user) {
                    self.step(client, Event::Release { hold, report: None });
                    *self.user(client, user) = User::Idle;
                }
            }
            Move::Keep(client, user) => {
                self.budget.keeps -= 1;
                if let User::Holding(hold) = *self.user(client, user) {
                    self.step(client, Event::Detach(hold));
                    *self.user(client, user) = User::Idle;
                }
            }
            Move::Execute(transit) => self.execute(transit),
            Move::Answer(transit) => {
                self.answer(transit);
            }
            Move::Lose(transit) => {
                self.budget.losses -= 1;
                self.fail(transit, StoreErrorKind::Timeout, Applied::Unknown);
            }
            Move::Refuse(transit) => {
                self.budget.refusals -= 1;
                self.fail(transit, StoreErrorKind::Unreachable, Applied::No);
            }
            Move::Repeat(ghost) => {
                self.budget.repeats -= 1;
                let call = self.ghosts.remove(ghost);
                self.server.run(&call, self.now);
            }
            Move::Hear(news) => {
                let (client, event) = self.news.remove(news);
                self.step(client, event);
            }
            Move::Crash(client) => {
                self.budget.crashes -= 1;
                self.clients[client].alive = false;
                self.clients[client].users.fill(User::Idle);
                self.transits.retain(|transit| transit.client != client || transit.reply.is_none());
                self.news.retain(|(listener, _)| *listener != client);
            }
            Move::Suspend(client) => {
                self.budget.pauses -= 1;
                self.clients[client].suspended = true;
            }
            Move::Resume(client) => self.clients[client].suspended = false,
            Move::Delete => {
                self.budget.deletions -= 1;
                self.server.delete();
                self.deleted = true;
            }
        }
        self.check();
    }

    fn tick(&mut self) {
        self.budget.ticks -= 1;
        self.now = self.now + TICK;
        for client in 0..self.clients.len() {
            if self.clients[client].suspended && self.variant == Variant::ClockStopsInSuspend {
                self.clients[client].behind += TICK;
            }
            if self.clients[client].runs() {
                self.step(client, Event::Tick);
            }
        }
    }

    fn acquire(&mut self, index: usize, user: usize) {
        let now = self.clock(index);
        let client = &mut self.clients[index];
        client.acquires_left -= 1;
        client.last_id += 1;
        let id = Id(client.last_id);
        client.users[user] = User::Waiting { id, news: false };
        let wait = match self.wait {
            Wait::Until(after) => Wait::Until(now + after.since(Moment::default())),
            other => other,
        };
        let recipe = if self.budget.plain { &PLAIN } else { &REENTRANT };
        let subject = Subject::new(&Name::new("x").unwrap(), recipe);
        let owner = Owner::from_number(7 + (user % self.budget.owners) as u64);
        let request = Request::new(subject, owner, self.lease, wait);
        let request = if self.budget.varied { varied(request, id) } else { request };
        let is_bounded = self.budget.bounded && has_max_hold(index, user);
        let max_hold = is_bounded.then_some(MAX_HOLD).filter(|_| self.variant != Variant::ForgetsMaxHold);
        let request = Request { max_hold: max_hold.or(request.max_hold), ..request };
        self.step(index, Event::Acquire(id, request));
    }

    fn claim(&mut self, index: usize, user: usize) {
        let User::Waiting { id, .. } = *self.user(index, user) else {
            return;
        };
        *self.user(index, user) = User::Waiting { id, news: false };
        if self.take_offer(index, user, id) {
            return;
        }
        let Some(outcome) = self.step(index, Event::Claim(id)) else {
            return;
        };
        let client = &mut self.clients[index];
        client.users[user] = User::Idle;
        match outcome {
            Outcome::Acquired(Ok(_)) => {
                client.granted += 1;
                client.users[user] = User::Holding(id);
            }
            Outcome::Acquired(Err(AcquireFailure::Contended)) => client.refused += 1,
            _ => client.failed += 1,
        }
    }

    fn answer(&mut self, transit: usize) {
        let Transit { client, id, call, reply, is_alone } = self.transits.remove(transit);
        let mut reply = reply.unwrap();
        if call.verb() == Verb::HandOff && is_alone {
            let (now, budget) = (self.clock(client), self.budget);
            self.clients[client].passing.note_alone(owner_of(&call), now, budget);
        }
        if matches!(call.verb(), Verb::Renew | Verb::HandOff) && reply == Reply::Int(0) {
            self.clients[client].passing.gone.insert(owner_of(&call).to_owned());
            if self.variant == Variant::RenewsWhatIsGone {
                reply = Reply::Int(1);
            }
        }
        self.step(client, Event::Replied(id, Ok(reply)));
    }

    fn user(&mut self, index: usize, user: usize) -> &mut User {
        &mut self.clients[index].users[user]
    }

    fn execute(&mut self, transit: usize) {
        let call = self.transits[transit].call.clone();
        let mut reply = self.server.run(&call, self.now);
        if call.verb() == Verb::HandOff && self.budget.plain {
            // No other client waits if none has marked the hold.
            self.transits[transit].is_alone = reply == Reply::Int(2);
        } else if call.verb() == Verb::HandOff && reply == Reply::Int(2) {
            let asking = self.transits[transit].client;
            let (own, others) = self.listeners(asking);
            reply = Reply::Int(2 + own + others);
            self.transits[transit].is_alone = others == 0;
        }
        if call.verb() == Verb::Release && reply == Reply::Int(1) {
            for (index, client) in self.clients.iter().enumerate() {
                let events = client.channels.iter().map(|channel| (index, Event::Message(channel.clone())));
                self.news.extend(events.filter(|_| client.alive));
            }
        }
        if self.budget.repeats > 0 {
            self.ghosts.push(call);
        }
        if self.clients[self.transits[transit].client].alive {
            self.transits[transit].reply = Some(reply);
        } else {
            self.transits.remove(transit);
        }
    }

    /// Loses or refuses a request or its reply. The client gets the error now, or when it resumes.
    fn fail(&mut self, transit: usize, kind: StoreErrorKind, applied: Applied) {
        let Transit { client, id, call, reply, .. } = self.transits.remove(transit);
        let error = StoreError::new(kind, call.verb(), call.subject(), applied);
        if applied == Applied::Unknown && reply.is_none() && self.budget.repeats > 0 {
            self.ghosts.push(call);
        }
        if self.clients[client].runs() {
            self.step(client, Event::Replied(id, Err(error)));
        } else if self.clients[client].alive {
            self.news.push((client, Event::Replied(id, Err(error))));
        }
    }

    /// Ends all faults, resumes the suspended clients, and removes the bound on time.
    pub(crate) fn end_faults(&mut self) {
        self.budget = Budget {
            cancels: 0,
            losses: 0,
            repeats: 0,
            crashes: 0,
            pauses: 0,
            deletions: 0,
            refusals: 0,
            keeps: 0,
            ..self.budget
        };
        self.budget.ticks = u16::MAX;
        for index in 0..self.clients.len() {
            if self.clients[index].alive && self.clients[index].suspended {
                self.make(Move::Resume(index));
            }
        }
    }

    /// Returns true if no hold, wait, call or key is left.
    pub(crate) fn is_quiescent(&self) -> bool {
        let calls = self.transits.is_empty() && self.news.is_empty();
        calls
            && !self.server.is_locked(self.now)
            && self.clients.iter().all(|client| client.users.iter().all(|user| *user == User::Idle))
    }

    /// Returns the time of a client's clock.
    pub(crate) fn clock(&self, client: usize) -> Moment {
        self.now - self.clients[client].behind
    }

    fn step(&mut self, index: usize, event: Event) -> Option<Outcome> {
        let now = self.clock(index);
        self.clients[index].resolve_offers(now, &event);
        let mut settled = None;
        let mut released = Vec::new();
        let (mut asked, mut withdrawn) = (Vec::new(), Vec::new());
        let (claimed, mut woken_up) = (self.claimed(index), Vec::new());
        let actions = self.clients[index].engine.step(now, event.clone());
        let mut told = Vec::new();
        self.clients[index].engine.take_facts(&mut told);
        if let Some(observed) = &mut self.clients[index].observed {
            self.broken = self.broken.or(observed.step(now, event, (&actions, &told)));
        }
        for action in actions {
            match action {
                Action::Run(id, call, _) => {
                    self.check_renewal(&call, &claimed, &released);
                    if call.verb() == Verb::HandOff {
                        asked.push(owner_of(&call).to_owned());
                    }
                    if call.verb() == Verb::Release && !keeps(&call) {
                        released.push(owner_of(&call).to_owned());
                    }
                    let transit = Transit { client: index, id, call, reply: None, is_alone: false };
                    let place = self.transits.partition_point(|other| (other.client, other.id) < (index, id));
                    self.transits.insert(place, transit);
                }
                Action::Withdraw(id) => withdrawn.push(id),
                Action::Subscribe(_) if self.budget.terse => {}
                Action::Subscribe(channel) => {
                    self.clients[index].channels.insert(channel.clone());
                    self.news.push((index, Event::Listening(channel)));
                }
                Action::Unsubscribe(channel) => {
                    self.clients[index].channels.remove(&channel);
                }
                Action::Wake(woken) => woken_up.push(woken),
                Action::Complete(_, outcome) => settled = Some(outcome),
                Action::Trusted(id, until) => trust(&mut self.clients[index].trusted, id, until),
            }
        }
        self.check_questions(&asked, (&claimed, &released), settled.as_ref());
        let client = &mut self.clients[index];
        for woken in woken_up {
            self.broken = self.broken.or(client.wake(woken));
        }
        for (wire, broken) in client.note_guards(index, now, self.budget) {
            let whole = self.lease.duration() / 10 * 9;
            // The server may have less of other terms, and nothing of a deleted key.
            let is_stale = !self.budget.varied && !self.deleted && self.server.left(&wire, self.now) < whole;
            let stale = is_stale.then_some("a hold passes on with a stale validity");
            self.broken = self.broken.or(broken).or(stale);
        }
        check_trust(&client.engine, &client.trusted, now);
        withdrawn.into_iter().for_each(|id| drop(self.step(index, Event::Kept(id))));
        settled
    }
}

impl Client {
    fn holds(&self) -> impl Iterator<Item = Id> {
        self.users.iter().filter_map(|user| match user {
            User::Holding(hold) => Some(*hold),
            _ => None,
        })
    }

    fn runs(&self) -> bool {
        self.alive && !self.suspended
    }
}
