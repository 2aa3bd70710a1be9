//! A cluster: masters that share the names by slots.
//!
//! Invariant: a call is on the way to one server at a time, and moves to another server only if it has not run.
//!
//! # How it works
//! The map says which master has a slot. `MOVED` corrects one slot at once and asks for the whole map, at most once a
//! second. `ASK` directs one call to the node that a slot moves to. The client also asks for the map when a server is
//! unreachable, does not serve, or is silent for a while. Sharded channels follow their slots, and plain channels are
//! with any one master. Two servers that direct a channel to each other do so a few times, and then it stays until a
//! map decides. A node that has lost its slots is dropped after its last reply.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use leasehold_proto::{Applied, Call, Channel, Moment, Scope, StoreErrorKind, Verb};

use super::lookup::{Found, Lookup};
use super::map::Map;
use super::slots::Slots;
use crate::redis::channels::Channels;
use crate::redis::error::{Failure, Redirection};
use crate::redis::wire::batch::PendingCall;
use crate::redis::wire::commands::refuse;
use crate::redis::wire::deadline::Deadline;
use crate::redis::wire::ids::{CallId, NodeId, SubscriberId};
use crate::redis::wire::io::Output;
use crate::redis::wire::node::Node;
use crate::redis::wire::nodes::{Nodes, Turn};
use crate::redis::wire::part::Part;
use crate::redis::wire::queue::Queue;
use crate::redis::wire::report::Report;
use crate::redis::wire::value::{Value, server_error};
use crate::url::Address;

/// The most servers to which one call, or the channels of one slot between two maps, are redirected in turn. More means
/// that the servers do not know each other.
const REDIRECTIONS_MAX: usize = 5;

/// The masters of a cluster.
#[derive(Debug)]
pub(crate) struct Cluster {
    seeds: Vec<Address>,
    nodes: BTreeMap<Address, NodeId>,
    slots: Slots,
    /// The epoch of the map.
    epoch: u64,
    lookup: Lookup,
    /// The calls without a map.
    parked: Queue,
    subscribers: BTreeMap<SubscriberId, Subscriber>,
    /// For each slot whose channels were directed elsewhere since the last map, how many times.
    directed: BTreeMap<u16, usize>,
    /// The kind of channels, once it is known.
    channels: Option<Channels>,
    /// The master with the plain channels.
    hub: Option<NodeId>,
    /// True if the outcome of the first round is to be reported.
    is_opening: bool,
    /// The number of rounds, which decides where the next one begins.
    rounds: usize,
    is_closed: bool,
}

/// A subscriber, and the server at which it listens.
#[derive(Debug)]
struct Subscriber {
    channel: Channel,
    node: Option<NodeId>,
}

impl Cluster {
    pub(super) fn new(nodes: &mut Nodes, seeds: Vec<Address>, seed: u64) -> Self {
        let channels = Channels::of_setting(nodes.settings().options.sharded_pubsub);
        Self {
            seeds,
            nodes: BTreeMap::new(),
            slots: Slots::unknown(),
            epoch: 0,
            lookup: Lookup::new(seed),
            parked: Queue::new(),
            subscribers: BTreeMap::new(),
            directed: BTreeMap::new(),
            channels,
            hub: None,
            is_opening: false,
            rounds: 0,
            is_closed: false,
        }
    }

    pub(super) fn open(&mut self, turn: &mut Turn<'_>) {
        self.is_opening = true;
        self.look_up(turn);
    }

    pub(super) fn submit(&mut self, turn: &mut Turn<'_>, id: CallId, call: Call, timeout: Duration) {
        let call = PendingCall::new(id, call, Deadline::new(turn.now, timeout));
        if self.is_closed {
            return refuse(turn.outputs, call, Failure::new(StoreErrorKind::Closed, Applied::No));
        }
        if let Some((one, other)) = call.call.keys_of_two_slots() {
            let failure = Failure::of_two_slots(one, other);
            return refuse(turn.outputs, call, failure);
        }
        self.route(turn, call);
    }

    /// Gives a call to the server of its slot, or lets it wait for a map.
    fn route(&mut self, turn: &mut Turn<'_>, call: PendingCall) {
        let server = match call.call.slot() {
            // A slot without a master is refused by any node, and the engine tries again.
            Some(slot) => self.slots.get(slot).or_else(|| self.slots.first()),
            None => self.slots.first(),
        };
        match server {
            Some(node) => self.give(turn, node, call),
            None if self.parked.is_full() => {
                refuse(turn.outputs, call, Failure::new(StoreErrorKind::Timeout, Applied::No));
            }
            None => {
                // The step of a call takes no map, because a map can end other calls, and move what was granted.
                self.parked.push(call);
                self.lookup.want();
                self.ask(turn);
            }
        }
    }

    fn give(&self, turn: &mut Turn<'_>, node: NodeId, call: PendingCall) {
        turn.with(node, |parts| parts.take(call));
    }

    pub(super) fn abandon(&mut self, turn: &mut Turn<'_>, id: CallId) {
        if self.parked.abandon(id) {
            return;
        }
        for node in turn.nodes.ids() {
            if turn.with(node, |parts| parts.abandon(id)) == Some(true) {
                return;
            }
        }
    }

    /// Takes a call back that waits for a map, with the reason.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<(PendingCall, Failure)> {
        self.parked.withdraw(id).map(|call| (call, Failure::unsent(false)))
    }

    pub(super) fn subscribe(&mut self, turn: &mut Turn<'_>, id: SubscriberId, channel: Channel) {
        if !self.is_closed {
            self.subscribers.insert(id, Subscriber { channel, node: None });
            self.settle(turn, id);
        }
    }

    pub(super) fn unsubscribe(&mut self, turn: &mut Turn<'_>, id: SubscriberId, channel: &Channel) {
        if let Some(Subscriber { node: Some(node), .. }) = self.subscribers.remove(&id) {
            turn.with(node, |parts| parts.subscriptions.unsubscribe(&mut parts.step, id, channel));
        }
    }

    /// Lets a subscriber listen at the server of its channel.
    fn settle(&mut self, turn: &mut Turn<'_>, id: SubscriberId) {
        let Some(channels) = self.channels else { return };
        let Some(Subscriber { channel, node }) = self.subscribers.get(&id) else { return };
        let (channel, before) = (channel.clone(), *node);
        let next = match channels {
            Channels::Sharded => self.slots.get(channel.slot()),
            Channels::Plain => self.hub.or_else(|| self.slots.first()),
        };
        if channels == Channels::Plain {
            self.hub = next;
        }
        // A channel without a server stays where it is until a map says more.
        let Some(next) = next.filter(|next| before != Some(*next)) else { return };
        if let Some(before) = before {
            turn.with(before, |parts| parts.subscriptions.unsubscribe(&mut parts.step, id, &channel));
        }
        turn.with(next, |parts| parts.subscriptions.subscribe(&mut parts.step, id, channel));
        if let Some(subscriber) = self.subscribers.get_mut(&id) {
            subscriber.node = Some(next);
        }
    }

    fn settle_all(&mut self, turn: &mut Turn<'_>) {
        let ids: Vec<SubscriberId> = self.subscribers.keys().copied().collect();
        for id in ids {
            self.settle(turn, id);
        }
    }

    pub(super) fn reported(&mut self, turn: &mut Turn<'_>, node: NodeId, report: Report) {
        if self.is_closed {
            if let Report::Redirected(call, _, failure) = report {
                refuse(turn.outputs, call, failure);
            }
            return;
        }
        match report {
            Report::Opened { channels, again } => self.opened(turn, node, channels, again),
            Report::Redirected(call, redirection, failure) => {
                self.redirected(turn, node, call, &redirection, failure);
            }
            Report::Moved(redirection) => self.channels_moved(turn, node, &redirection),
            Report::Deaf => {
                self.leave_hub(turn, node);
                self.look_up(turn);
            }
            Report::Unfit | Report::Silent | Report::Unconfirmed => self.look_up(turn),
            Report::Answered(answer) => self.answered(turn, node, answer),
            Report::Unknown | Report::Heard | Report::Changed(_) | Report::LoggedIn(_) => {}
        }
    }

    fn opened(&mut self, turn: &mut Turn<'_>, node: NodeId, channels: Option<Channels>, again: bool) {
        if again {
            let slots = (0..crate::redis::error::SLOTS).filter(|slot| self.slots.get(*slot) == Some(node));
            turn.outputs.push(Output::Replaced(Scope::slots(slots)));
        }
        if self.channels.is_none()
            && let Some(channels) = channels
        {
            self.channels = Some(channels);
            turn.each(|parts| parts.step.server.set_channels(channels));
            self.settle_all(turn);
        }
    }

    /// Sends a call to the server that another one named.
    fn redirected(
        &mut self,
        turn: &mut Turn<'_>,
        from: NodeId,
        mut call: PendingCall,
        redirection: &Redirection,
        failure: Failure,
    ) {
        if call.directed_to.len() >= REDIRECTIONS_MAX {
            self.look_up(turn);
            let failure = failure.of_redirections(&call.directed_to);
            return refuse(turn.outputs, call, failure);
        }
        call.directed_to.push(redirection.address());
        call.asks = redirection.asks;
        let node = if redirection.asks {
            self.named(turn, from, redirection)
        } else {
            self.note_move(turn, from, redirection)
        };
        match node {
            Some(node) => self.give(turn, node, call),
            None => refuse(turn.outputs, call, failure),
        }
    }

    /// Lets the channels of a slot follow it. After a few redirections they stay with their server, which asks again after
    /// a pause, until a map decides.
    fn channels_moved(&mut self, turn: &mut Turn<'_>, from: NodeId, redirection: &Redirection) {
        let times = self.directed.entry(redirection.slot).or_default();
        if *times < REDIRECTIONS_MAX {
            *times += 1;
            self.note_move(turn, from, redirection);
            // The slot may have moved before the server told the subscribers.
            self.settle_slots(turn, &[redirection.slot]);
        } else {
            self.look_up(turn);
        }
    }

    /// Corrects the server of one slot, and asks for the whole map. Returns the server.
    fn note_move(&mut self, turn: &mut Turn<'_>, from: NodeId, redirection: &Redirection) -> Option<NodeId> {
        self.look_up(turn);
        let node = self.named(turn, from, redirection)?;
        if self.slots.set(redirection.slot, node) {
            self.moved(turn, &[redirection.slot]);
        }
        Some(node)
    }

    /// Returns the server that another one named.
    fn named(&mut self, turn: &mut Turn<'_>, from: NodeId, redirection: &Redirection) -> Option<NodeId> {
        let Redirection { host, port, .. } = redirection;
        let host = if host.is_empty() { host_of(turn.nodes, from)? } else { host.clone() };
        let address = turn.nodes.settings().options.mapped(Address::Tcp { host, port: *port });
        Some(self.node_at(turn, address))
    }

    fn node_at(&mut self, turn: &mut Turn<'_>, address: Address) -> NodeId {
        if let Some(node) = self.nodes.get(&address) {
            return *node;
        }
        let node = turn.nodes.add(Part::Shard, Some(address.clone()));
        if let Some(channels) = self.channels {
            turn.with(node, |parts| parts.step.server.set_channels(channels));
        }
        self.nodes.insert(address, node);
        node
    }

    /// Handles slots that another server has now.
    fn moved(&mut self, turn: &mut Turn<'_>, slots: &[u16]) {
        turn.outputs.push(Output::Replaced(Scope::slots(slots.iter().copied())));
        self.settle_slots(turn, slots);
    }

    /// Lets the subscribers of these slots, in ascending order, listen at the servers of their channels.
    fn settle_slots(&mut self, turn: &mut Turn<'_>, slots: &[u16]) {
        if self.channels == Some(Channels::Sharded) {
            let of_slots = |subscriber: &Subscriber| slots.binary_search(&subscriber.channel.slot()).is_ok();
            let ids = self.subscribers.iter().filter(|(_, subscriber)| of_slots(subscriber));
            let ids: Vec<SubscriberId> = ids.map(|(id, _)| *id).collect();
            for id in ids {
                self.settle(turn, id);
            }
        }
    }

    /// Moves the plain channels to another master, if their own cannot be reached.
    fn leave_hub(&mut self, turn: &mut Turn<'_>, node: NodeId) {
        if self.hub != Some(node) {
            return;
        }
        let masters = || self.nodes.values().copied().filter(|other| self.slots.has(*other));
        self.hub = masters().find(|other| *other > node).or_else(|| masters().next());
        self.settle_all(turn);
    }

    /// Asks for the map, as soon as the pace allows.
    fn look_up(&mut self, turn: &mut Turn<'_>) {
        self.lookup.want();
        self.advance(turn);
    }

    /// Ends a round that is overdue, begins one that is due, and asks the next server.
    fn advance(&mut self, turn: &mut Turn<'_>) {
        if let Some(map) = self.lookup.overdue(turn.now) {
            self.take_map(turn, map);
        }
        self.ask(turn);
    }

    /// Begins a round that is due, and asks the next server of a round.
    fn ask(&mut self, turn: &mut Turn<'_>) {
        if self.lookup.is_due(turn.now) {
            let candidates = self.candidates(turn);
            self.lookup.begin(turn.now, candidates);
        }
        while let Some(node) = self.lookup.next(turn.now) {
            let is_old = turn.nodes.get(node).is_some_and(|node| node.server.lacks_shards());
            let map = if is_old { "SLOTS" } else { "SHARDS" };
            let commands = [map, "INFO"].map(|word| vec!["CLUSTER".to_owned(), word.to_owned()]);
            turn.with(node, |parts| parts.query.ask(&mut parts.step, commands.to_vec()));
        }
    }

    /// Returns the servers to ask: the masters, each round beginning with another one, and the seeds.
    fn candidates(&mut self, turn: &mut Turn<'_>) -> VecDeque<NodeId> {
        let masters = self.nodes.values().copied().filter(|node| self.slots.has(*node));
        let mut candidates: VecDeque<NodeId> = masters.collect();
        let masters = candidates.len().max(1);
        candidates.rotate_left(self.rounds % masters);
        self.rounds += 1;
        for seed in self.seeds.clone() {
            let node = self.node_at(turn, seed);
            if !candidates.contains(&node) {
                candidates.push_back(node);
            }
        }
        candidates
    }

    fn answered(&mut self, turn: &mut Turn<'_>, node: NodeId, answer: Result<Vec<Value>, Failure>) {
        let answer = match answer {
            Ok(values) => {
                let is_error = matches!(values.first(), Some(Value::Error(_)));
                if is_error && turn.with(node, |parts| parts.step.server.note_no_shards()) == Some(true) {
                    let commands = ["SLOTS", "INFO"].map(|word| vec!["CLUSTER".to_owned(), word.to_owned()]);
                    turn.with(node, |parts| parts.query.ask(&mut parts.step, commands.to_vec()));
                    return;
                }
                self.read(turn, node, &values)
            }
            Err(failure) => Err(failure),
        };
        match self.lookup.answered(turn.now, node, answer, self.epoch) {
            Some(Found::Map(map)) => self.take_map(turn, map),
            Some(Found::Nothing(failure)) => self.not_found(turn, failure),
            None => {}
        }
        self.advance(turn);
    }

    fn read(&self, turn: &Turn<'_>, node: NodeId, values: &[Value]) -> Result<Map, Failure> {
        let malformed = Failure::new(StoreErrorKind::Malformed, Applied::No);
        match values {
            [Value::Error(text), ..]
                if text.starts_with(b"ERR This instance has cluster support disabled") =>
            {
                Err(Failure::lacks("the server is not a cluster node; use a URL that begins with `redis://`"))
            }
            [Value::Error(text), ..] => Err(server_error(text).of_unsent()),
            [map, rest @ ..] => {
                let host = host_of(turn.nodes, node).unwrap_or_default();
                Map::read(map, rest.first(), &host, turn.nodes.settings().url.tls).ok_or(malformed)
            }
            [] => Err(malformed),
        }
    }

    fn take_map(&mut self, turn: &mut Turn<'_>, map: Map) {
        let mut slots = Slots::unknown();
        for (first, last, address) in map.ranges {
            let address = turn.nodes.settings().options.mapped(address);
            let node = self.node_at(turn, address);
            for slot in first..=last {
                slots.set(slot, node);
            }
        }
        if slots.is_unknown() {
            return self.not_found(turn, Some(Failure::new(StoreErrorKind::ClusterDown, Applied::No)));
        }
        self.epoch = map.epoch;
        self.directed.clear();
        let is_first = self.slots.is_unknown();
        let moved = self.slots.replace(slots);
        if !moved.is_empty() {
            self.moved(turn, &moved);
        }
        if is_first {
            self.settle_all(turn);
        }
        if std::mem::take(&mut self.is_opening)
            && let Some(node) = self.slots.first()
        {
            turn.with(node, |parts| parts.commands.open(&mut parts.step));
        }
        let parked: Vec<PendingCall> = self.parked.drain().collect();
        for call in parked {
            self.route(turn, call);
        }
        self.retire(turn);
    }

    /// Takes the calls off the servers that have no slot any more, and gives them to those that have.
    fn retire(&mut self, turn: &mut Turn<'_>) {
        let nodes: Vec<NodeId> = self.nodes.values().copied().collect();
        for node in nodes.into_iter().filter(|node| !self.slots.has(*node)).collect::<Vec<_>>() {
            if self.hub == Some(node) {
                self.hub = None;
                self.settle_all(turn);
            }
            let calls = turn.with(node, |parts| -> Vec<PendingCall> { parts.give_up() }).unwrap_or_default();
            for mut call in calls {
                call.asks = false;
                self.route(turn, call);
            }
        }
        self.drop_unused(turn);
    }

    /// Forgets the servers without a slot that have nothing to do. A round under way may still ask a seed of these.
    fn drop_unused(&mut self, turn: &mut Turn<'_>) {
        if self.lookup.is_under_way() {
            return;
        }
        let is_unused =
            |node: &NodeId| turn.nodes.get(*node).is_some_and(Node::is_idle) && !self.slots.has(*node);
        let unused: Vec<NodeId> = self.nodes.values().copied().filter(is_unused).collect();
        for node in unused {
            turn.remove(node);
            self.nodes.retain(|_, other| *other != node);
            self.hub = self.hub.filter(|hub| *hub != node);
        }
    }

    /// Fails what waits for a map.
    fn not_found(&mut self, turn: &mut Turn<'_>, failure: Option<Failure>) {
        let failure = failure.unwrap_or(Failure::new(StoreErrorKind::Unreachable, Applied::No)).of_unsent();
        let parked: Vec<PendingCall> = self.parked.drain().collect();
        for call in parked {
            refuse(turn.outputs, call, failure.clone());
        }
        if std::mem::take(&mut self.is_opening) {
            turn.outputs.push(Output::Opened(Err(failure.during(Verb::Connect, "".into()))));
        }
    }

    pub(super) fn tick(&mut self, turn: &mut Turn<'_>) {
        for call in self.parked.overdue(turn.now, None) {
            refuse(turn.outputs, call, Failure::new(StoreErrorKind::Timeout, Applied::No));
        }
        if !self.is_closed {
            self.advance(turn);
            self.drop_unused(turn);
        }
    }

    pub(super) fn timer(&self) -> Moment {
        self.lookup.timer().min(self.parked.timer())
    }

    pub(super) fn close(&mut self, turn: &mut Turn<'_>) {
        self.is_closed = true;
        self.lookup.stop();
        self.subscribers.clear();
        let parked: Vec<PendingCall> = self.parked.drain().collect();
        for call in parked {
            refuse(turn.outputs, call, Failure::new(StoreErrorKind::Closed, Applied::No));
        }
    }
}

/// Returns the host of a server.
fn host_of(nodes: &Nodes, node: NodeId) -> Option<String> {
    match nodes.get(node)?.server.address()? {
        Address::Tcp { host, .. } => Some(host.clone()),
        Address::Unix { .. } => None,
    }
}
