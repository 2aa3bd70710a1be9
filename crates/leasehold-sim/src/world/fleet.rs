//! The roles of the servers of a fleet, and the data of each.
//!
//! Invariant: a key is at the server that answers for its slot. A former master that others have replaced has a copy of its
//! own, which ends with its demotion.
//!
//! # How it works
//! A slot moves by a change of its owner, and a failover by a change of the master. The keys follow at once. A server that
//! is not the owner answers `MOVED`, `ASK` or `READONLY` before the database sees the command (`fleet_answers`). What
//! servers and sentinels say of the others may be old, as in a real fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::Channel;
use leasehold_store::embedded::{self, Database};

use super::slot_map::Map;
use super::timeline::Timeline;
use crate::plan::{Plan, REPLICAS, Shape, stream};

/// The servers that can serve names.
pub(super) const SERVERS: usize = 4;
/// The sentinels behind them.
const SENTINELS: usize = 3;
/// The name of the fleet at its sentinels.
const SERVICE: &str = "fleet";
/// The channel on which a sentinel announces a new master.
const SWITCH: &str = "+switch-master";

/// A fleet. Its nodes are numbered: the servers first, then the sentinels.
pub(super) struct Fleet {
    pub(super) shape: Shape,
    pub(super) timeline: Arc<Timeline>,
    /// The server process of each node.
    processes: Vec<Arc<embedded::Server>>,
    state: Mutex<State>,
}

pub(super) struct State {
    /// The maps so far, the last of which is true.
    maps: Vec<Map>,
    /// The slots that are on their way, each with the server that receives it.
    pub(super) moving: BTreeMap<u16, usize>,
    /// The number of replicas that are connected to each master.
    pub(super) replicas: u32,
    /// The data of the most recent replica of each server.
    snapshots: Vec<Database>,
    pub(super) former: Option<Former>,
    rng: Rng,
}

/// A former master that does not know that another server has taken over.
pub(super) struct Former {
    pub(super) node: usize,
    /// The number of replicas that are still connected to it.
    pub(super) replicas: u32,
    /// The map that it knows.
    map: Map,
    /// The slots that were on their way when the other server took over.
    moving: BTreeSet<u16>,
}

impl Former {
    fn serves(&self, slot: u16) -> bool {
        self.map.owner(slot) == self.node && !self.moving.contains(&slot)
    }
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
    /// Returns the number of nodes of a fleet.
    pub(super) const fn nodes_of(shape: Shape) -> usize {
        match shape {
            Shape::Sentinel => SERVERS + SENTINELS,
            Shape::Cluster => SERVERS,
        }
    }

    /// Creates the fleet of these server processes.
    pub(super) fn new(
        plan: &Plan,
        shape: Shape,
        timeline: &Arc<Timeline>,
        processes: Vec<Arc<embedded::Server>>,
    ) -> Self {
        let halves = if shape == Shape::Cluster { [0, 1] } else { [0, 0] };
        let state = State {
            maps: vec![Map::new(halves, processes.len())],
            moving: BTreeMap::new(),
            replicas: REPLICAS,
            snapshots: vec![Database::new(); SERVERS],
            former: None,
            rng: stream(plan.seed, "fleet"),
        };
        Self { shape, timeline: Arc::clone(timeline), processes, state: Mutex::new(state) }
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
        SERVERS..self.processes.len()
    }

    /// Returns the server that serves a slot now.
    pub(super) fn owner(&self, slot: u16) -> usize {
        self.state().truth().owner(slot)
    }

    /// Returns the server that has the keys of a slot now.
    pub(super) fn place(&self, slot: u16) -> usize {
        self.state().place(slot)
    }

    /// Gives all that one server has to another. The other nodes learn of it within `learned_by`. Returns when each
    /// node learns of it.
    pub(super) fn switch(&self, from: usize, to: usize, learned_by: Duration) -> Vec<Duration> {
        let learned = self.change(&[from, to], learned_by, |map| map.give_all(from, to));
        self.state().moving.values_mut().filter(|node| **node == from).for_each(|node| *node = to);
        self.settle();
        learned
    }

    /// Gives all that one server has to another, as [`switch`](Self::switch) does, and lets the former master go on with
    /// its own copy until it is demoted. Of its replicas, `replicas` stay connected to it.
    pub(super) fn split(
        &self,
        (from, to): (usize, usize),
        replicas: u32,
        copy: Database,
        learned_by: Duration,
    ) -> Vec<Duration> {
        let (map, moving) = {
            let state = self.state();
            (state.truth().clone(), state.moving.keys().copied().collect())
        };
        self.switch(from, to, learned_by);
        self.put(from, copy);
        let mut state = self.state();
        state.former = Some(Former { node: from, replicas, map, moving });
        let truth = state.truth_mut();
        truth.learned[from] = learned_by;
        truth.learned.clone()
    }

    /// Turns the former master into a replica, which drops its own copy. Returns its number.
    pub(super) fn demote(&self) -> Option<usize> {
        let former = self.state().former.take()?.node;
        self.processes[former].database(|database| drop(database.take(|_| true)));
        let now = self.timeline.now();
        self.state().maps.iter_mut().for_each(|map| map.learned[former] = map.learned[former].min(now));
        Some(former)
    }

    /// Moves a slot to a server.
    pub(super) fn give(&self, slot: u16, to: usize, learned_by: Duration) {
        let from = self.owner(slot);
        self.state().moving.remove(&slot);
        self.change(&[from, to], learned_by, |map| {
            map.moved.insert(slot, to);
        });
        self.settle();
    }

    /// Lets the server of a slot send its calls to the server that receives the slot, with the keys.
    pub(super) fn begin_move(&self, slot: u16, to: usize) {
        if self.is_former(to) {
            return;
        }
        self.state().moving.insert(slot, to);
        self.settle();
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

    /// Moves each key to the server that has its slot now. The replicas of both servers follow.
    fn settle(&self) {
        let masters: Vec<usize> = (0..SERVERS).filter(|node| !self.is_former(*node)).collect();
        for from in masters {
            let left = self.processes[from]
                .database(|database| database.take(|key| self.place(slot_of(key)) != from));
            for entry in left {
                let to = self.place(slot_of(&entry.key));
                self.processes[to].database(|database| database.put([entry.clone()]));
                let mut state = self.state();
                state.snapshots[from].take(|key| *key == *entry.key);
                state.snapshots[to].put([entry]);
            }
        }
    }

    /// Replaces the keys of a server.
    fn put(&self, node: usize, mut keys: Database) {
        let keys = keys.take(|_| true);
        self.processes[node].database(|database| {
            database.take(|_| true);
            database.put(keys);
        });
    }

    /// Sets the number of replicas that are connected to each master.
    pub(super) fn connect_replicas(&self, replicas: u32) {
        self.state().replicas = replicas;
    }

    /// Lets the replicas of each master catch up.
    pub(super) fn replicate(&self) {
        (0..SERVERS).filter(|node| !self.is_former(*node)).for_each(|node| self.replicate_at(node));
    }

    /// Lets the replicas of one master catch up.
    pub(super) fn replicate_at(&self, node: usize) {
        let data = self.processes[node].database(|database| database.clone());
        self.state().snapshots[node] = data;
    }

    /// Replaces a server's data with its replica's, which is to take over. Returns the data that it had.
    pub(super) fn lose_last_writes(&self, node: usize) -> Database {
        let data = self.processes[node].database(|database| database.clone());
        let mut replica = self.state().snapshots[node].clone();
        replica.take(|key| self.place(slot_of(key)) != node);
        self.put(node, replica);
        data
    }

    /// Lets a sentinel tell its listeners of the present master.
    pub(super) fn announce(&self, sentinel: usize) {
        self.processes[sentinel].execute(&["PUBLISH", SWITCH, "a new master"]);
    }

    /// Returns true if a server is a former master that goes on to grant.
    pub(super) fn is_former(&self, node: usize) -> bool {
        self.state().is_former(node)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn truth(&self) -> &Map {
        self.maps.last().expect("a fleet has a map")
    }

    fn truth_mut(&mut self) -> &mut Map {
        self.maps.last_mut().expect("a fleet has a map")
    }

    /// Returns the server that has the keys of a slot.
    fn place(&self, slot: u16) -> usize {
        self.moving.get(&slot).copied().unwrap_or_else(|| self.truth().owner(slot))
    }

    /// Returns true if a server is a former master that goes on to grant.
    pub(super) fn is_former(&self, node: usize) -> bool {
        self.former.as_ref().is_some_and(|former| former.node == node)
    }

    /// Returns true once in `of` draws.
    pub(super) fn draws(&mut self, of: u8) -> bool {
        self.rng.u8(0..of) == 0
    }

    /// Returns true if a server takes a slot for its own.
    pub(super) fn serves(&self, node: usize, slot: u16) -> bool {
        match self.former.as_ref().filter(|former| former.node == node) {
            Some(former) => former.serves(slot),
            None => self.truth().owner(slot) == node,
        }
    }

    /// Returns the last map of which a node has learned.
    pub(super) fn seen_by(&self, node: usize, now: Duration) -> &Map {
        let known = self.maps.iter().rev().find(|map| map.learned[node] <= now);
        known.unwrap_or(&self.maps[0])
    }
}
