//! The roles of the servers of a fleet, and what each server and each sentinel says of them.
//!
//! Invariant: one server serves a name at a time. What the others say of it may be old, as in a real fleet.
//!
//! # How it works
//! All servers share one database, so a slot moves by a change of its owner, and a failover by a change of the master. A
//! server that is not the owner answers `MOVED`, `ASK` or `READONLY` before the database sees the command. A failover to
//! a stale replica replaces the data.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::Channel;
use leasehold_store::embedded::{self, Database, Frame, Message};

use super::timeline::Timeline;
use crate::plan::{Plan, Shape, stream};

/// The servers that can serve names.
pub(super) const SERVERS: usize = 4;
/// The sentinels behind them.
const SENTINELS: usize = 3;
const SLOTS: u16 = 16_384;
/// The name of the fleet at its sentinels.
const SERVICE: &str = "fleet";
/// The channel on which a sentinel tells of a new master.
const SWITCH: &str = "+switch-master";
const PORT: u16 = 6379;

/// A fleet. Its nodes are numbered: the servers first, then the sentinels.
pub(super) struct Fleet {
    pub(super) shape: Shape,
    timeline: Arc<Timeline>,
    embedded: Arc<embedded::Server>,
    state: Mutex<State>,
}

struct State {
    /// The maps so far, the last of which is true.
    maps: Vec<Map>,
    /// The slots that are on their way, each with the server that receives it.
    moving: BTreeMap<u16, usize>,
    /// The number of replicas that are connected.
    replicas: i64,
    /// The data of the most recent replica.
    replica: Option<Database>,
    /// The sentinel that tells of a new master now.
    speaker: Option<usize>,
    rng: Rng,
}

/// Who serves what, from a time on.
#[derive(Clone)]
struct Map {
    epoch: u64,
    /// The server of each half of the slots.
    halves: [usize; 2],
    /// The servers of single slots that have moved.
    moved: BTreeMap<u16, usize>,
    /// The time at which each node learns of it.
    learned: Vec<Duration>,
}

impl Map {
    fn owner(&self, slot: u16) -> usize {
        let half = self.halves[usize::from(slot >= SLOTS / 2)];
        self.moved.get(&slot).copied().unwrap_or(half)
    }

    /// Returns the ranges of slots, each with its server.
    fn ranges(&self) -> Vec<(u16, u16, usize)> {
        let mut ranges: Vec<(u16, u16, usize)> = Vec::new();
        for slot in 0..SLOTS {
            let owner = self.owner(slot);
            match ranges.last_mut() {
                Some((_, last, same)) if *same == owner => *last = slot,
                _ => ranges.push((slot, slot, owner)),
            }
        }
        ranges
    }
}

/// Returns the name of a node's host.
fn host(node: usize) -> String {
    format!("n{node}")
}

/// Returns the node of a host.
pub(super) fn node_of(host: &str) -> Option<usize> {
    host.strip_prefix('n')?.parse().ok()
}

/// Returns the slot of a key.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    Channel::new(&String::from_utf8_lossy(key)).slot()
}

impl Fleet {
    pub(super) fn new(
        plan: &Plan,
        shape: Shape,
        timeline: &Arc<Timeline>,
        embedded: &Arc<embedded::Server>,
    ) -> Self {
        let halves = if shape == Shape::Cluster { [0, 1] } else { [0, 0] };
        let learned = vec![Duration::ZERO; SERVERS + SENTINELS];
        let map = Map { epoch: 1, halves, moved: BTreeMap::new(), learned };
        let state = State {
            maps: vec![map],
            moving: BTreeMap::new(),
            replicas: 1,
            replica: None,
            speaker: None,
            rng: stream(plan.seed, "fleet"),
        };
        let (timeline, embedded) = (Arc::clone(timeline), Arc::clone(embedded));
        Self { shape, timeline, embedded, state: Mutex::new(state) }
    }

    /// Returns the number of nodes.
    pub(super) fn nodes(&self) -> usize {
        match self.shape {
            Shape::Sentinel => SERVERS + SENTINELS,
            Shape::Cluster => SERVERS,
        }
    }

    /// Returns the URL of the fleet, with some of its nodes.
    pub(super) fn url(&self) -> String {
        match self.shape {
            Shape::Sentinel => format!("redis+sentinel://n{SERVERS},n{}/{SERVICE}", SERVERS + 1),
            Shape::Cluster => "redis+cluster://n0,n3".to_owned(),
        }
    }

    /// Returns the sentinels.
    pub(super) fn sentinels(&self) -> std::ops::Range<usize> {
        SERVERS..self.nodes()
    }

    /// Returns the server that serves a slot now.
    pub(super) fn owner(&self, slot: u16) -> usize {
        self.state().truth().owner(slot)
    }

    /// Gives all that one server has to another. The other nodes learn of it within `learned_by`. Returns when each
    /// node learns of it.
    pub(super) fn switch(&self, from: usize, to: usize, learned_by: Duration) -> Vec<Duration> {
        self.change(&[from, to], learned_by, |map| {
            for half in &mut map.halves {
                *half = if *half == from { to } else { *half };
            }
            map.moved.values_mut().filter(|owner| **owner == from).for_each(|owner| *owner = to);
        })
    }

    /// Moves a slot to a server.
    pub(super) fn give(&self, slot: u16, to: usize, learned_by: Duration) {
        let from = self.owner(slot);
        self.state().moving.remove(&slot);
        self.change(&[from, to], learned_by, |map| {
            map.moved.insert(slot, to);
        });
    }

    /// Lets the server of a slot send its calls to the server that receives the slot.
    pub(super) fn begin_move(&self, slot: u16, to: usize) {
        self.state().moving.insert(slot, to);
    }

    /// Returns the server that receives a slot.
    pub(super) fn receiver(&self, slot: u16) -> Option<usize> {
        self.state().moving.get(&slot).copied()
    }

    fn change(
        &self,
        knowing: &[usize],
        learned_by: Duration,
        change: impl FnOnce(&mut Map),
    ) -> Vec<Duration> {
        let now = self.timeline.now();
        let mut state = self.state();
        let mut map = state.truth().clone();
        map.epoch += 1;
        change(&mut map);
        let span = learned_by.saturating_sub(now);
        for node in 0..map.learned.len() {
            let later = now + span.mul_f64(state.rng.f64());
            let at = if knowing.contains(&node) { now } else { later };
            map.learned[node] = at.max(map.learned[node]);
        }
        let learned = map.learned.clone();
        state.maps.push(map);
        learned
    }

    /// Sets the number of replicas that are connected.
    pub(super) fn connect_replicas(&self, replicas: i64) {
        self.state().replicas = replicas;
    }

    /// Lets the replica catch up.
    pub(super) fn replicate(&self) {
        let data = self.embedded.database(|database| database.clone());
        self.state().replica = Some(data);
    }

    /// Replaces the data with that of the replica.
    pub(super) fn promote_stale(&self) {
        if let Some(replica) = self.state().replica.clone() {
            self.embedded.take_over(replica);
        }
    }

    /// Lets a sentinel tell its listeners of the present master.
    pub(super) fn announce(&self, sentinel: usize) {
        self.state().speaker = Some(sentinel);
        self.embedded.execute(&["PUBLISH", SWITCH, "a new master"]);
        self.state().speaker = None;
    }

    /// Returns true if a connection to a node gets a message.
    pub(super) fn hears(&self, node: usize, message: &Message) -> bool {
        let state = self.state();
        if message.channel == SWITCH.as_bytes() {
            return state.speaker == Some(node);
        }
        match self.shape {
            Shape::Cluster if !message.sharded => true,
            _ => state.truth().owner(slot_of(&message.channel)) == node,
        }
    }

    /// Answers a command at a node, unless the database is to see it. `asking` is true after an `ASKING`.
    pub(super) fn answer(&self, node: usize, command: &[Vec<u8>], asking: &mut bool) -> Option<Frame> {
        let words: Vec<String> =
            command.iter().take(3).map(|word| String::from_utf8_lossy(word).to_ascii_lowercase()).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let asked = std::mem::take(asking);
        match (self.shape, words.as_slice()) {
            (Shape::Sentinel, ["sentinel", "master", _]) => Some(self.master_by(node)),
            (Shape::Sentinel, ["sentinel", "sentinels", _]) => Some(self.sentinels_by(node)),
            (Shape::Sentinel, ["role"]) => Some(self.role(node)),
            (Shape::Cluster, ["cluster", "shards"]) => Some(self.shards_by(node)),
            (Shape::Cluster, ["cluster", "info"]) => Some(Frame::bulk(self.info_by(node))),
            (Shape::Cluster, ["hello"]) => Some(hello()),
            (Shape::Cluster, ["asking"]) => {
                *asking = true;
                Some(Frame::ok())
            }
            (_, ["wait", ..]) => Some(self.wait(node)),
            (_, ["info", "replication"]) => Some(Frame::bulk(self.replication())),
            (_, ["eval" | "evalsha", _, count, ..]) => {
                let count = count.parse().unwrap_or_default();
                let keys = command.iter().skip(3).take(count);
                self.refuse(node, keys.map(|key| slot_of(key)), asked)
            }
            // A slot keeps its subscribers until it has moved.
            (Shape::Cluster, ["ssubscribe", ..]) => {
                let mut other = command.iter().skip(1).map(|channel| slot_of(channel));
                let other = other.find(|slot| self.owner(*slot) != node)?;
                Some(self.moved(node, other))
            }
            _ => None,
        }
    }

    /// Returns the error of a command on these slots, if the node does not serve them.
    fn refuse(&self, node: usize, slots: impl Iterator<Item = u16>, asked: bool) -> Option<Frame> {
        let slots: Vec<u16> = slots.collect();
        let slot = *slots.first()?;
        let state = self.state();
        let owner = state.truth().owner(slot);
        let receiver = state.moving.get(&slot).copied();
        match self.shape {
            Shape::Sentinel if owner == node => None,
            Shape::Sentinel => {
                Some(Frame::Error("READONLY You can't write against a read only replica.".into()))
            }
            Shape::Cluster if slots.iter().any(|other| *other != slot) => {
                Some(Frame::Error("CROSSSLOT Keys in request don't hash to the same slot".into()))
            }
            Shape::Cluster if receiver == Some(node) && asked => None,
            Shape::Cluster if owner == node => {
                receiver.map(|to| Frame::Error(format!("ASK {slot} {}:{PORT}", host(to))))
            }
            Shape::Cluster => {
                drop(state);
                Some(self.moved(node, slot))
            }
        }
    }

    /// Returns the redirection of a node that does not serve a slot.
    fn moved(&self, node: usize, slot: u16) -> Frame {
        let known = self.state().seen_by(node, self.timeline.now()).owner(slot);
        Frame::Error(format!("MOVED {slot} {}:{PORT}", host(known)))
    }

    fn role(&self, node: usize) -> Frame {
        let is_master = self.state().truth().owner(0) == node;
        let role = if is_master { "master" } else { "slave" };
        Frame::Array(vec![Frame::bulk(role), Frame::Int(0), Frame::Array(Vec::new())])
    }

    fn master_by(&self, sentinel: usize) -> Frame {
        let state = self.state();
        let map = state.seen_by(sentinel, self.timeline.now());
        entry(map.owner(0), Some(map.epoch))
    }

    fn sentinels_by(&self, sentinel: usize) -> Frame {
        Frame::Array(
            self.sentinels().filter(|other| *other != sentinel).map(|other| entry(other, None)).collect(),
        )
    }

    fn shards_by(&self, node: usize) -> Frame {
        let state = self.state();
        let map = state.seen_by(node, self.timeline.now());
        let mut shards: BTreeMap<usize, Vec<Frame>> = (0..SERVERS).map(|node| (node, Vec::new())).collect();
        for (first, last, owner) in map.ranges() {
            shards.entry(owner).or_default().extend([first, last].map(|slot| Frame::Int(i64::from(slot))));
        }
        let shards = shards.into_iter().map(|(owner, slots)| {
            let owner = vec![
                Frame::bulk("port"),
                Frame::Int(i64::from(PORT)),
                Frame::bulk("endpoint"),
                Frame::bulk(host(owner)),
                Frame::bulk("role"),
                Frame::bulk("master"),
                Frame::bulk("health"),
                Frame::bulk("online"),
            ];
            let nodes = Frame::Array(vec![Frame::Array(owner)]);
            Frame::Array(vec![Frame::bulk("slots"), Frame::Array(slots), Frame::bulk("nodes"), nodes])
        });
        Frame::Array(shards.collect())
    }

    fn info_by(&self, node: usize) -> String {
        let epoch = self.state().seen_by(node, self.timeline.now()).epoch;
        format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\ncluster_size:2\r\n")
    }

    /// Lets the connected replica catch up, and returns the number of replicas that have all writes.
    fn wait(&self, node: usize) -> Frame {
        if self.shape == Shape::Sentinel && self.owner(0) != node {
            return Frame::Error("ERR WAIT cannot be used with replica instances.".into());
        }
        let replicas = self.state().replicas;
        if replicas > 0 {
            self.replicate();
        }
        Frame::Int(replicas)
    }

    fn replication(&self) -> String {
        let online =
            (0..self.state().replicas).map(|number| format!("slave{number}:ip=r,port=1,state=online\r\n"));
        format!("role:master\r\n{}", online.collect::<String>())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn truth(&self) -> &Map {
        self.maps.last().expect("a fleet has a map")
    }

    /// Returns the last map of which a node has learned.
    fn seen_by(&self, node: usize, now: Duration) -> &Map {
        let known = self.maps.iter().rev().find(|map| map.learned[node] <= now);
        known.unwrap_or(&self.maps[0])
    }
}

/// Returns the answer of a node of a cluster to `HELLO`.
fn hello() -> Frame {
    let fields =
        [("server", Frame::bulk("redis")), ("proto", Frame::Int(2)), ("mode", Frame::bulk("cluster"))];
    Frame::Array(fields.into_iter().flat_map(|(name, value)| [Frame::bulk(name), value]).collect())
}

/// Returns the entry of a node in the answer of a sentinel.
fn entry(node: usize, epoch: Option<u64>) -> Frame {
    let mut fields = vec![("ip", host(node)), ("port", PORT.to_string())];
    fields.extend(epoch.map(|epoch| ("config-epoch", epoch.to_string())));
    Frame::Array(
        fields.into_iter().flat_map(|(name, value)| [Frame::bulk(name), Frame::bulk(value)]).collect(),
    )
}
