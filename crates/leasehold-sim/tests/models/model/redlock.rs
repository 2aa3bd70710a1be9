//! Redlock: two clients, three servers of which one loses its data, and the rounds of the public lock.
//!
//! The rules are those of the library: [`Round`] and [`Hold`] count the votes, and decide about the loss and the node
//! holds to release. Each node hold has a real engine of its own. The model sends one round of attempts and carries out
//! the decisions.

use std::time::Duration;

use leasehold_proto::engine::{
    AcquireFailure, Event, Id, LostReason, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::quorum::{self, Hold, Next, Progress, Quorum, Round, Undo, Vote};
use leasehold_proto::recipe::redlock::REDLOCK;
use leasehold_proto::{Engine, Lease, Moment, Name, Owner, Verb};

use crate::check::{Space, assert_found_in_space, assert_sound_space};
use crate::world::{Arrival, Effect, Net, START_MS, Server, Shared, Verdict, client_id};

/// A server reports its uptime in whole seconds.
const TICK_MS: u64 = 1_000;
const NODES: usize = 3;
/// The number of ticks without a fault after which nothing may be left.
const TICKS_TO_END: u8 = 8;

/// A deliberate defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Variant {
    Sound,
    /// A recently restarted server counts at once.
    RecentlyRestartedNodesCount,
    /// The best node speaks for all nodes, so one grant is a majority.
    OneIsEnough,
    /// A failed round releases only the known grants.
    OnlyKnownGrantsAreReleased,
}

#[derive(Clone, Copy, Debug)]
struct Rounds {
    budget: Budget,
    lease_ms: u64,
    variant: Variant,
}

/// The budget of time and faults, as in the other worlds. A restart hits the first server, which loses its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Budget {
    ticks: u8,
    delays: u8,
    losses: u8,
    restarts: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Move {
    Tick,
    /// A client starts a round.
    Start(usize),
    /// A client releases.
    Release(usize),
    /// A client claims the outcome of a node.
    Claim(usize, usize),
    /// A call is executed and answered. The next four variants name a call too.
    Execute(usize),
    Stall(usize),
    Answer(usize),
    LoseReply(usize),
    Lose(usize),
    Restart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeHold {
    Empty,
    Requested { woken: bool },
    Granted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Idle,
    Requesting(Round),
    Holding(Hold),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Client {
    engines: Vec<Shared<Engine>>,
    node_holds: [NodeHold; NODES],
    /// True for each node that has reported a grant.
    reported: [bool; NODES],
    phase: Phase,
    held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    now_ms: u64,
    net: Net,
    clients: Vec<Client>,
    budget: Budget,
    broken: Option<&'static str>,
}

/// The id of the acquire, the same in each node hold.
const ID: Id = Id(1);

impl Client {
    fn new(index: usize) -> Self {
        let tick = Duration::from_millis(TICK_MS);
        let settings = Settings { timeout: tick * 2, poll_interval: tick, hand_off: tick };
        Self {
            engines: vec![Shared::new(Engine::new(client_id(index), settings)); NODES],
            node_holds: [NodeHold::Empty; NODES],
            reported: [false; NODES],
            phase: Phase::Idle,
            held: false,
        }
    }

    fn requested(&self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(|node| matches!(self.node_holds[*node], NodeHold::Requested { .. }))
    }

    /// Returns the validity of each node hold.
    fn validities(&self, rules: &Rounds, now: Moment) -> [Option<Duration>; NODES] {
        let node_hold = |node: usize| {
            (self.node_holds[node] == NodeHold::Granted).then(|| self.engines[node].remaining(ID, now))
        };
        let validities = [0, 1, 2].map(node_hold);
        if rules.variant == Variant::OneIsEnough {
            return [validities.into_iter().max().flatten(); NODES];
        }
        validities
    }

    fn is_valid(&self, rules: &Rounds, now: Moment) -> bool {
        match &self.phase {
            Phase::Holding(hold) => !hold.remaining(&self.validities(rules, now)).is_zero(),
            _ => false,
        }
    }
}

/// The quorum of all nodes.
const QUORUM: Quorum = Quorum::of(NODES);

impl Rounds {
    fn request(&self) -> Request {
        let lease = Lease::new(Duration::from_millis(self.lease_ms)).unwrap();
        let subject = Subject::new(&Name::new("x").unwrap(), &REDLOCK);
        let uptime = if self.variant == Variant::RecentlyRestartedNodesCount {
            Duration::ZERO
        } else {
            quorum::uptime(lease.duration(), lease.duration())
        };
        let request = Request::new(subject, Owner::from_number(7), lease, Wait::Once);
        Request { watchdog: false, uptime, ..request }
    }
}

impl World {
    fn new(rules: &Rounds) -> Self {
        Self {
            now_ms: START_MS,
            net: Net::new(vec![Server::after(&[], START_MS); NODES]),
            clients: (0..2).map(Client::new).collect(),
            budget: rules.budget,
            broken: None,
        }
    }

    fn now(&self) -> Moment {
        Moment::from_millis(self.now_ms)
    }

    fn moves(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, client) in self.clients.iter().enumerate() {
            if let Some(node) =
                client.node_holds.iter().position(|hold| *hold == NodeHold::Requested { woken: true })
            {
                return vec![Move::Claim(index, node)];
            }
            match client.phase {
                Phase::Idle => moves.push(Move::Start(index)),
                Phase::Holding(_) => moves.push(Move::Release(index)),
                Phase::Requesting(_) | Phase::Over => {}
            }
        }
        for (index, transit) in self.net.transits.iter().enumerate() {
            let executed = transit.reply.is_some();
            moves.push(if executed { Move::Answer(index) } else { Move::Execute(index) });
            if !executed && self.budget.delays > 0 {
                moves.push(Move::Stall(index));
            }
            if self.budget.losses > 0 {
                moves.extend((!executed).then_some(Move::LoseReply(index)));
                moves.push(Move::Lose(index));
            }
        }
        if self.budget.restarts > 0 {
            moves.push(Move::Restart);
        }
        if self.budget.ticks > 0 && (self.net.transits.is_empty() || self.budget.delays > 0) {
            moves.push(Move::Tick);
        }
        moves
    }

    fn make(&mut self, rules: &Rounds, chosen: Move) {
        match chosen {
            Move::Tick => self.tick(rules),
            Move::Start(client) => {
                self.clients[client].phase = Phase::Requesting(Round::new(QUORUM));
                for node in Round::missing(&[None; NODES]) {
                    self.clients[client].node_holds[node] = NodeHold::Requested { woken: false };
                    self.step(rules, client, node, Event::Acquire(ID, rules.request()));
                }
            }
            Move::Release(client) => self.end(rules, client),
            Move::Claim(client, node) => self.claim(rules, client, node),
            Move::Execute(call) => {
                let _ = self.net.execute(call, self.now_ms, None);
                self.arrive(rules, call);
            }
            Move::Stall(call) => {
                self.budget.delays -= 1;
                let _ = self.net.execute(call, self.now_ms, None);
            }
            Move::Answer(call) => self.arrive(rules, call),
            Move::LoseReply(call) => {
                let _ = self.net.execute(call, self.now_ms, None);
                self.lose(rules, call);
            }
            Move::Lose(call) => self.lose(rules, call),
            Move::Restart => {
                self.budget.restarts -= 1;
                self.net.servers[0].restart_empty(self.now_ms);
            }
        }
        self.note_losses(rules);
        let now = self.now();
        if self.clients.iter().filter(|client| client.is_valid(rules, now)).count() > 1 {
            self.broken.get_or_insert("Q1, M: two majorities are valid at one moment");
        }
    }

    fn tick(&mut self, rules: &Rounds) {
        self.budget.ticks -= 1;
        if !self.net.transits.is_empty() {
            self.budget.delays -= 1;
        }
        self.now_ms += TICK_MS;
        self.net.pass_to(self.now_ms);
        for client in 0..self.clients.len() {
            for node in 0..NODES {
                self.step(rules, client, node, Event::Tick);
            }
        }
    }

    fn arrive(&mut self, rules: &Rounds, call: usize) {
        let arrival = self.net.arrive(call, None);
        self.hear(rules, arrival);
    }

    fn lose(&mut self, rules: &Rounds, call: usize) {
        self.budget.losses -= 1;
        let arrival = self.net.lose(call, None);
        self.hear(rules, arrival);
    }

    fn hear(&mut self, rules: &Rounds, arrival: Arrival) {
        let Arrival { sender, id, result } = arrival;
        self.step(rules, sender / NODES, sender % NODES, Event::Replied(id, result));
    }

    fn step(&mut self, rules: &Rounds, client: usize, node: usize, event: Event) -> Option<Outcome> {
        let now = self.now();
        let this = &mut self.clients[client];
        let mut completed = None;
        for effect in this.engines[node].step(now, event).iter() {
            match effect {
                Effect::Run(id, call) => {
                    let known = call.verb() != Verb::Release || this.reported[node];
                    if known || rules.variant != Variant::OnlyKnownGrantsAreReleased {
                        self.net.send(client * NODES + node, node, *id, call.clone());
                    }
                }
                Effect::Wake(ID) => {
                    if let NodeHold::Requested { woken } = &mut this.node_holds[node] {
                        *woken = true;
                    }
                }
                Effect::Wake(_) | Effect::Subscribe(_) | Effect::Unsubscribe(_) => {}
                Effect::Complete(outcome) => completed = Some(outcome.clone()),
            }
        }
        completed
    }

    /// Claims the outcome of a node, and applies it to the round or to the hold.
    fn claim(&mut self, rules: &Rounds, index: usize, node: usize) {
        let now = self.now();
        let Some(outcome) = self.step(rules, index, node, Event::Claim(ID)) else {
            self.clients[index].node_holds[node] = NodeHold::Requested { woken: false };
            return;
        };
        let vote = match outcome {
            Outcome::Acquired(Ok(_)) => Vote::Granted,
            Outcome::Acquired(Err(AcquireFailure::Contended)) => Vote::Refused,
            _ => Vote::Failed { transient: true },
        };
        let client = &mut self.clients[index];
        let without = client.validities(rules, now);
        let is_granted = vote == Vote::Granted;
        client.node_holds[node] = if is_granted { NodeHold::Granted } else { NodeHold::Empty };
        client.reported[node] |= is_granted;
        match &mut client.phase {
            Phase::Requesting(round) => {
                round.note(node, vote);
                self.count(rules, index);
            }
            Phase::Holding(hold) if is_granted => {
                let undo = hold.join(&without, None);
                self.undo(rules, index, node, undo);
            }
            Phase::Idle | Phase::Holding(_) | Phase::Over => {}
        }
    }

    /// Ends the round if its answers decide it, or if all answers have arrived.
    fn count(&mut self, rules: &Rounds, index: usize) {
        let now = self.now();
        let client = &mut self.clients[index];
        let (validities, open) = (client.validities(rules, now), client.requested().next().is_some());
        let Phase::Requesting(round) = &mut client.phase else { return };
        match round.progress(&validities) {
            Progress::Majority => (client.phase, client.held) = (Phase::Holding(Hold::new(QUORUM)), true),
            Progress::Open if open => {}
            Progress::Open | Progress::NoMajority => {
                let next = round.next(now, Duration::ZERO, &validities);
                assert!(matches!(next, Next::Contended | Next::Unavailable), "no client waits: {next:?}");
                self.end(rules, index);
            }
        }
    }

    fn undo(&mut self, rules: &Rounds, index: usize, node: usize, undo: Undo) {
        let nodes = match undo {
            Undo::Nothing => 0..0,
            Undo::NodeHold => node..node + 1,
            Undo::All => 0..NODES,
        };
        for node in nodes {
            if self.clients[index].node_holds[node] == NodeHold::Granted {
                self.clients[index].node_holds[node] = NodeHold::Empty;
                self.step(rules, index, node, Event::Release { hold: ID, report: None });
            }
        }
    }

    /// Releases all node holds, and cancels the requests that may still be granted.
    fn end(&mut self, rules: &Rounds, index: usize) {
        for node in 0..NODES {
            let event = match self.clients[index].node_holds[node] {
                NodeHold::Granted => Event::Release { hold: ID, report: None },
                NodeHold::Requested { .. } => Event::Cancel(ID),
                NodeHold::Empty => continue,
            };
            self.clients[index].node_holds[node] = NodeHold::Empty;
            self.step(rules, index, node, event);
        }
        self.clients[index].phase = Phase::Over;
    }

    /// Removes lost node holds from the holds.
    fn note_losses(&mut self, rules: &Rounds) {
        let now = self.now();
        for (index, node) in
            (0..self.clients.len()).flat_map(|index| (0..NODES).map(move |node| (index, node)))
        {
            let client = &mut self.clients[index];
            if client.node_holds[node] != NodeHold::Granted || client.engines[node].is_held(ID, now) {
                continue;
            }
            let mut without = client.validities(rules, now);
            without[node] = None;
            if let Phase::Holding(hold) = &mut client.phase {
                let undo = hold.leave(&without, LostReason::Expired);
                self.undo(rules, index, node, undo);
            }
        }
    }
}

impl Space for Rounds {
    type State = World;
    type Move = Move;

    fn first(&self) -> World {
        World::new(self)
    }

    fn moves(&self, world: &World) -> Vec<Move> {
        world.moves()
    }

    fn make(&self, world: &mut World, chosen: Move) {
        world.make(self, chosen);
    }

    fn broken(&self, world: &World) -> Option<&'static str> {
        world.broken
    }

    fn ends_well(&self, world: &World) -> Verdict {
        let mut world = world.clone();
        world.budget = Budget { ticks: TICKS_TO_END, ..QUIET };
        while let Some(next) = world.moves().first().copied() {
            world.make(self, next);
        }
        if world.clients.iter().any(|client| client.phase != Phase::Over) {
            return Err("L: a round has no end");
        }
        let left = world.net.servers.iter().any(|server| !server.entries().is_empty());
        if left {
            Err("Q2: a node keeps a hold that no client has")
        } else {
            world.broken.map_or(Ok(()), Err)
        }
    }

    fn wanted(&self, world: &World) -> bool {
        world.clients.iter().all(|client| client.held)
    }
}

const QUIET: Budget = Budget { ticks: 0, delays: 0, losses: 0, restarts: 0 };
/// A lease that ends just before the second tick.
const SHORT: u64 = 2 * TICK_MS - 1;
/// A lease longer than the run, so only a release frees the lock.
const LONG: u64 = 90 * TICK_MS;

#[test]
fn a_server_that_loses_its_data_causes_no_second_majority() {
    let budget = Budget { ticks: 4, delays: 1, restarts: 1, ..QUIET };
    let rounds = Rounds { budget, lease_ms: SHORT, variant: Variant::Sound };
    assert_sound_space("redlock, restart", rounds);
}

#[test]
fn a_round_leaves_nothing_on_a_slow_and_lossy_network() {
    let budget = Budget { ticks: 1, delays: 1, losses: 1, ..QUIET };
    let rounds = Rounds { budget, lease_ms: LONG, variant: Variant::Sound };
    assert_sound_space("redlock, loss", rounds);
}

fn variant(name: &str, variant: Variant, budget: Budget, lease_ms: u64, rule: &str) {
    assert_found_in_space(name, Rounds { budget, lease_ms, variant }, &[rule]);
}

#[test]
fn the_model_detects_a_recently_restarted_server_that_counts() {
    let budget = Budget { restarts: 1, ..QUIET };
    variant("twin: a young node counts", Variant::RecentlyRestartedNodesCount, budget, SHORT, "Q1");
}

#[test]
fn the_model_detects_a_majority_of_one() {
    variant("twin: one node is enough", Variant::OneIsEnough, QUIET, SHORT, "Q1");
}

#[test]
fn the_model_detects_a_failure_without_an_undo() {
    let (what, budget) = (Variant::OnlyKnownGrantsAreReleased, Budget { losses: 1, ..QUIET });
    variant("twin: the unknown is not given back", what, budget, LONG, "Q2");
}
