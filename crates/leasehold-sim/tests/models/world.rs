//! A small world around real engines: clients that each follow a plan, one server, and a network with faults.
//!
//! Invariant: every event is one [`Move`], chosen from outside. Time passes only in ticks, and it passes during a call
//! in flight only where the budget allows it.

mod channels;
mod memory;
mod net;
mod server;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use leasehold_proto::engine::{Event, Id, Outcome, Request, Settings};
use leasehold_proto::{Call, ClientId, Engine, Moment, WireOwner};

use channels::Channels;
pub(crate) use memory::{Effect, Shared};
pub(crate) use net::{Arrival, Net, Repeats, Seen};
pub(crate) use server::{BrokenVariant, Server};

/// The initial time of every clock.
pub(crate) const START_MS: u64 = 1_000_000;

/// The result of a check: `Err` names the broken rule.
pub(crate) type Verdict = Result<(), &'static str>;

/// The budget of time and faults, which the moves use up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// The number of ticks.
    pub(crate) ticks: u8,
    /// The number of ticks with calls in flight, and of delayed replies.
    pub(crate) delays: u8,
    /// The number of lost requests or replies. The client sees a timeout.
    pub(crate) losses: u8,
    /// The number of late or repeated deliveries, of a lost request or of an executed request.
    pub(crate) repeats: u8,
    /// The number of futures that are dropped while they wait.
    pub(crate) cancels: u8,
    /// The number of killed processes.
    pub(crate) crashes: u8,
    /// The number of subscription connections that break.
    pub(crate) breaks: u8,
}

pub(crate) const QUIET: Budget =
    Budget { ticks: 0, delays: 0, losses: 0, repeats: 0, cancels: 0, crashes: 0, breaks: 0 };

/// What the clients hear of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hearing {
    /// Nothing, so waiters poll.
    Deaf,
    /// Messages and confirmations.
    Full,
    /// Messages alone. A confirmation of a subscription wakes nobody.
    Unconfirmed,
}

/// One step of a client's plan. The scene defines the meaning of the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Acquires. If that fails, the client acquires nothing else and releases its holds.
    Take(u8),
    /// Acquires. A failure does not matter.
    Try(u8),
    /// Releases.
    Give(u8),
    /// Makes a call that takes no hold.
    Do(u8),
}

/// A scene to explore.
pub(crate) struct Scene {
    /// The plan of each client.
    pub(crate) plans: &'static [&'static [Step]],
    pub(crate) budget: Budget,
    pub(crate) repeats: Repeats,
    pub(crate) tick_ms: u64,
    /// The request for a number.
    pub(crate) request: fn(u8) -> Request,
    /// The call of an operation without a hold, for a number.
    pub(crate) operation: fn(&Engine, Id, u8) -> Call,
    /// The outer hold of a number, whose loss ends the wait.
    pub(crate) within: fn(u8) -> Option<u8>,
    /// The commands that prepare the server.
    pub(crate) before: &'static [&'static [&'static str]],
    /// The number of ticks without a fault after which every client must be served and every key gone.
    pub(crate) ticks_to_end: u8,
    /// A condition that some path must reach. Otherwise the scene tested nothing.
    pub(crate) wanted: fn(&[Client]) -> bool,
    pub(crate) variant: Option<BrokenVariant>,
    pub(crate) hearing: Hearing,
    /// True if the server has the native commands.
    pub(crate) has_native: bool,
}

impl Scene {
    /// A scene in which every client must be served, and which nothing but the budget disturbs.
    pub(crate) fn new(
        plans: &'static [&'static [Step]],
        budget: Budget,
        tick_ms: u64,
        request: fn(u8) -> Request,
    ) -> Self {
        Self {
            plans,
            budget,
            repeats: Repeats::All,
            tick_ms,
            request,
            operation: |_, _, _| unreachable!("nothing is done without a hold"),
            within: |_| None,
            before: &[],
            ticks_to_end: 10,
            wanted: |clients| count(clients, End::Granted) >= clients.len(),
            variant: None,
            hearing: Hearing::Deaf,
            has_native: false,
        }
    }
}

/// The memory of a model about a run, with its rules.
pub(crate) trait Ledger: Clone + Debug + Default + PartialEq + Hash + Send + Sync + 'static {
    /// Checks after every script.
    fn executed(_world: &mut World<Self>, _seen: &Seen) -> Verdict {
        Ok(())
    }

    /// Checks when a client gets an outcome.
    fn completed(_world: &mut World<Self>, _client: usize, _what: u8, _outcome: &Outcome) -> Verdict {
        Ok(())
    }

    /// Checks in every state.
    fn always(world: &World<Self>) -> Verdict;

    /// Checks after the faults have ended and all clients have had time.
    fn at_end(world: &World<Self>) -> Verdict;
}

/// An event of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    Tick,
    /// A client takes the next step of its plan. The next three variants name a client too.
    Go(usize),
    Claim(usize),
    Cancel(usize),
    Crash(usize),
    /// A call is executed and answered.
    Execute(usize),
    /// A call is executed, and its reply is slow.
    Stall(usize),
    Answer(usize),
    /// A call is executed, and its reply is lost.
    LoseReply(usize),
    Lose(usize),
    Repeat(usize),
    /// The server executes the next subscription command of a client.
    Subscribe(usize),
    /// A client hears of a confirmation or a message.
    Hear(usize),
    /// The subscription connection of a client breaks.
    Break(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiting {
    id: Id,
    what: u8,
    woken: bool,
    /// True if the client acquires nothing else after a failure.
    needed: bool,
}

/// The end of a client's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum End {
    Granted,
    /// Another owner had the lock until the wait was over.
    Refused,
    Deadlock,
    Failed,
    GivenUp,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    pub(crate) engine: Shared<Engine>,
    pub(crate) alive: bool,
    at: usize,
    last_id: u64,
    waiting: Option<Waiting>,
    /// True if a needed acquire has failed.
    stopped: bool,
    /// The holds that the client has, or believes to have.
    pub(crate) holds: Vec<(u8, Id)>,
    pub(crate) ends: Vec<(u8, End)>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub(crate) struct World<L> {
    pub(crate) now_ms: u64,
    pub(crate) net: Net,
    pub(crate) clients: Vec<Client>,
    pub(crate) ledger: L,
    budget: Budget,
    /// True once a call was lost, in a world with wake-ups.
    pub(crate) lossy: bool,
    /// The first rule that was broken.
    pub(crate) broken: Option<&'static str>,
}

impl<L: Ledger> World<L> {
    pub(crate) fn new(scene: &Scene) -> Self {
        assert!(scene.variant.is_none_or(|variant| variant.exists()), "the twin breaks nothing");
        let tick = Duration::from_millis(scene.tick_ms);
        let settings = Settings { timeout: tick * 2, poll_interval: tick, hand_off: tick };
        let client = |index: usize| Client {
            engine: Shared::new(Engine::new(client_id(index), settings)),
            alive: true,
            at: 0,
            last_id: 0,
            waiting: None,
            stopped: false,
            holds: Vec::new(),
            ends: Vec::new(),
        };
        let mut net = Net::new(vec![Server::after(scene.before, START_MS)]);
        net.has_native = scene.has_native;
        if scene.hearing != Hearing::Deaf {
            net.channels = Channels::of(scene.plans.len(), scene.hearing == Hearing::Full);
        }
        Self {
            now_ms: START_MS,
            net,
            lossy: false,
            clients: (0..scene.plans.len()).map(client).collect(),
            ledger: L::default(),
            budget: scene.budget,
            broken: None,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        Moment::from_millis(self.now_ms)
    }

    pub(crate) fn server(&self) -> &Server {
        &self.net.servers[0]
    }

    /// Returns all events that are possible now.
    pub(crate) fn moves(&self, scene: &Scene) -> Vec<Move> {
        let is_woken = |client: &Client| client.waiting.is_some_and(|waiting| waiting.woken);
        if let Some(client) = self.clients.iter().position(is_woken) {
            return vec![Move::Claim(client)];
        }
        let mut moves = Vec::new();
        for (index, client) in self.clients.iter().enumerate().filter(|(_, client)| client.alive) {
            match client.waiting {
                Some(_) if self.budget.cancels > 0 => moves.push(Move::Cancel(index)),
                Some(_) => {}
                None if client.next(scene.plans[index]).is_some() => moves.push(Move::Go(index)),
                None => {}
            }
            if self.budget.crashes > 0 {
                moves.push(Move::Crash(index));
            }
        }
        for (index, transit) in self.net.transits.iter().enumerate() {
            let executed = transit.reply.is_some();
            moves.push(if executed { Move::Answer(index) } else { Move::Execute(index) });
            if !executed && self.budget.delays > 0 && self.clients[transit.sender].alive {
                moves.push(Move::Stall(index));
            }
            if !executed && self.budget.losses > 0 {
                moves.push(Move::LoseReply(index));
            }
            if self.budget.losses > 0 {
                moves.push(Move::Lose(index));
            }
        }
        moves.extend((0..self.net.repeatable()).map(Move::Repeat));
        moves.extend(self.net.channels.commanding().map(Move::Subscribe));
        moves.extend(self.net.channels.told().map(Move::Hear));
        if self.budget.breaks > 0 {
            moves.extend(self.net.channels.breakable().map(Move::Break));
        }
        if self.budget.ticks > 0 && (self.is_idle() || self.budget.delays > 0) {
            moves.push(Move::Tick);
        }
        moves
    }

    /// Returns true if nothing is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.net.transits.is_empty() && self.net.channels.are_idle()
    }

    /// Returns the live clients that wait, if none of them was woken and nothing is on its way.
    pub(crate) fn sleeping(&self) -> usize {
        let waiting = self.clients.iter().filter(|client| client.alive).filter_map(|client| client.waiting);
        if !self.is_idle() || waiting.clone().any(|waiting| waiting.woken) {
            return 0;
        }
        waiting.count()
    }

    /// Carries out one of [`World::moves`].
    pub(crate) fn make(&mut self, scene: &Scene, chosen: Move) {
        match chosen {
            Move::Tick => self.tick(scene),
            Move::Go(client) => self.go(scene, client),
            Move::Claim(client) => self.claim(client),
            Move::Cancel(client) => {
                self.budget.cancels -= 1;
                self.cancel(client);
            }
            Move::Crash(client) => {
                self.budget.crashes -= 1;
                let dead = &mut self.clients[client];
                (dead.alive, dead.waiting) = (false, None);
                dead.holds.clear();
                self.net.hang_up(client);
            }
            Move::Execute(call) => {
                if self.execute(scene, call) {
                    self.arrive(scene, call);
                }
            }
            Move::Stall(call) => {
                self.budget.delays -= 1;
                self.execute(scene, call);
            }
            Move::Answer(call) => self.arrive(scene, call),
            Move::LoseReply(call) => {
                self.execute(scene, call);
                self.lose(scene, call);
            }
            Move::Subscribe(client) => self.net.subscribe(client),
            Move::Hear(client) => {
                if let Some(event) = self.net.channels.hear(client) {
                    self.step(client, event);
                }
            }
            Move::Break(client) => {
                self.budget.breaks -= 1;
                self.net.break_off(client);
            }
            Move::Lose(call) => self.lose(scene, call),
            Move::Repeat(place) => {
                self.budget.repeats -= 1;
                let seen = self.net.repeat(place, self.now_ms, scene.variant);
                self.observe(&seen);
                if self.budget.repeats == 0 {
                    self.net.forget_repeatable();
                }
            }
        }
        self.give_up_what_is_pointless(scene);
        self.judge(L::always(self));
    }

    fn judge(&mut self, verdict: Verdict) {
        if let Err(rule) = verdict {
            self.broken.get_or_insert(rule);
        }
    }

    fn tick(&mut self, scene: &Scene) {
        self.budget.ticks -= 1;
        if !self.is_idle() {
            self.budget.delays -= 1;
        }
        self.now_ms += scene.tick_ms;
        self.net.pass_to(self.now_ms);
        for client in 0..self.clients.len() {
            if self.clients[client].alive {
                self.step(client, Event::Tick);
            }
        }
    }

    /// Takes the next step of a client's plan.
    fn go(&mut self, scene: &Scene, index: usize) {
        let client = &mut self.clients[index];
        let Some((at, step)) = client.next(scene.plans[index]) else { return };
        client.at = at + 1;
        match step {
            Step::Give(what) => {
                let place = client.holds.iter().position(|(held, _)| *held == what).unwrap();
                let (_, hold) = client.holds.remove(place);
                self.step(index, Event::Release { hold, report: None });
            }
            Step::Take(what) | Step::Try(what) | Step::Do(what) => {
                client.last_id += 1;
                let id = Id(client.last_id);
                let needed = matches!(step, Step::Take(_));
                client.waiting = Some(Waiting { id, what, woken: false, needed });
                let event = match step {
                    Step::Do(_) => Event::Perform(id, (scene.operation)(&client.engine, id, what)),
                    _ => Event::Acquire(id, (scene.request)(what)),
                };
                self.step(index, event);
            }
        }
    }

    fn claim(&mut self, index: usize) {
        let Some(waiting) = self.clients[index].waiting.as_mut() else { return };
        waiting.woken = false;
        let Waiting { id, what, needed, .. } = *waiting;
        let Some(outcome) = self.step(index, Event::Claim(id)) else { return };
        let client = &mut self.clients[index];
        client.waiting = None;
        let end = client.end_of(&outcome);
        client.ends.push((what, end));
        match end {
            End::Granted => client.holds.push((what, id)),
            End::Refused | End::Deadlock | End::Failed => client.stopped |= needed,
            End::GivenUp | End::Done => {}
        }
        let verdict = L::completed(self, index, what, &outcome);
        self.judge(verdict);
    }

    fn cancel(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let Some(Waiting { id, what, needed, .. }) = client.waiting.take() else { return };
        client.ends.push((what, End::GivenUp));
        client.stopped |= needed;
        self.step(index, Event::Cancel(id));
    }

    /// Cancels a wait inside a hold that is lost, as the public types do.
    fn give_up_what_is_pointless(&mut self, scene: &Scene) {
        for index in 0..self.clients.len() {
            let client = &self.clients[index];
            let Some(outer) = client.waiting.and_then(|waiting| (scene.within)(waiting.what)) else {
                continue;
            };
            if self.valid(index, outer).is_none() {
                self.cancel(index);
            }
        }
    }

    /// Executes a call. Returns false if its script is still to follow a native command.
    fn execute(&mut self, scene: &Scene, call: usize) -> bool {
        let seen = self.net.execute(call, self.now_ms, scene.variant);
        seen.inspect(|seen| self.observe(seen)).is_some()
    }

    fn observe(&mut self, seen: &Seen) {
        let verdict = L::executed(self, seen);
        self.judge(verdict);
    }

    fn repeats(&self, scene: &Scene) -> Option<Repeats> {
        (self.budget.repeats > 0).then_some(scene.repeats)
    }

    fn arrive(&mut self, scene: &Scene, call: usize) {
        let arrival = self.net.arrive(call, self.repeats(scene));
        self.hear(arrival);
    }

    fn lose(&mut self, scene: &Scene, call: usize) {
        self.budget.losses -= 1;
        self.lossy |= scene.hearing != Hearing::Deaf;
        let arrival = self.net.lose(call, self.repeats(scene));
        self.hear(arrival);
    }

    fn hear(&mut self, arrival: Arrival) {
        let Arrival { sender, id, result } = arrival;
        if self.clients[sender].alive {
            self.step(sender, Event::Replied(id, result));
        }
    }

    fn step(&mut self, index: usize, event: Event) -> Option<Outcome> {
        let now = self.now();
        let client = &mut self.clients[index];
        let mut completed = None;
        for effect in client.engine.step(now, event).iter() {
            match effect {
                Effect::Run(id, call) => self.net.send(index, 0, *id, call.clone()),
                Effect::Wake(woken) => {
                    if let Some(waiting) = client.waiting.as_mut().filter(|waiting| waiting.id == *woken) {
                        waiting.woken = true;
                    }
                }
                Effect::Complete(outcome) => completed = Some(outcome.clone()),
                Effect::Subscribe(channel) => self.net.channels.subscribe(index, channel, true),
                Effect::Unsubscribe(channel) => self.net.channels.subscribe(index, channel, false),
            }
        }
        completed
    }

    /// Returns the wire owner of a client's hold, if the hold is valid.
    pub(crate) fn valid(&self, index: usize, what: u8) -> Option<String> {
        self.valid_wire(index, what).map(|owner| owner.to_string())
    }

    pub(crate) fn valid_wire(&self, index: usize, what: u8) -> Option<WireOwner> {
        let client = &self.clients[index];
        let (_, hold) = client.holds.iter().find(|(held, _)| *held == what)?;
        let valid = client.alive && client.engine.is_held(*hold, self.now());
        valid.then(|| client.engine.wire_owner(*hold)).flatten()
    }

    /// Returns the clients with a valid hold, each with its wire owner.
    pub(crate) fn all_valid(&self, what: u8) -> Vec<(usize, String)> {
        let clients = 0..self.clients.len();
        clients.filter_map(|client| Some((client, self.valid(client, what)?))).collect()
    }

    /// Runs the world without further faults, and checks that all clients are served and nothing is left.
    pub(crate) fn ends_well(&self, scene: &Scene) -> Verdict {
        let mut world = self.clone();
        world.budget = Budget { ticks: scene.ticks_to_end, ..QUIET };
        world.net.forget_repeatable();
        while let Some(next) = world.moves(scene).first().copied() {
            world.make(scene, next);
            if let Some(rule) = world.broken {
                return Err(rule);
            }
        }
        let finished = |(client, plan): (&Client, &&[Step])| {
            !client.alive || (client.waiting.is_none() && client.next(plan).is_none())
        };
        if !world.clients.iter().zip(scene.plans).all(finished) {
            return Err("L: a client waits forever");
        }
        L::at_end(&world)
    }
}

impl Client {
    /// Returns the next applicable step of its plan, with its index.
    fn next(&self, plan: &[Step]) -> Option<(usize, Step)> {
        let means = |step: &Step| match step {
            Step::Give(what) => self.holds.iter().any(|(held, _)| held == what),
            _ => !self.stopped,
        };
        plan.iter().copied().enumerate().skip(self.at).find(|(_, step)| means(step))
    }

    pub(crate) fn ended(&self, what: u8, end: End) -> bool {
        self.ends.contains(&(what, end))
    }

    fn end_of(&self, outcome: &Outcome) -> End {
        use leasehold_proto::engine::AcquireFailure;
        match outcome {
            Outcome::Acquired(Ok(_)) => End::Granted,
            Outcome::Acquired(Err(AcquireFailure::Contended)) => End::Refused,
            Outcome::Acquired(Err(AcquireFailure::Deadlock)) => End::Deadlock,
            Outcome::Performed(Ok(_)) => End::Done,
            _ => End::Failed,
        }
    }
}

/// Returns the number of operations with this end.
pub(crate) fn count(clients: &[Client], end: End) -> usize {
    clients.iter().flat_map(|client| &client.ends).filter(|(_, ended)| *ended == end).count()
}

pub(crate) fn client_id(index: usize) -> ClientId {
    ClientId::from_random([u8::try_from(index).unwrap(); 16])
}
