//! The move of a slot from one master to another, in steps, so that a test can stop in the middle, and the removal of
//! a node, which moves all of its slots.
//!
//! Invariant: a step that returns was accepted by every node that it names.

use std::io;

use super::super::node::{REACTS_WITHIN, order};
use super::fleet::Cluster;
use super::view::SLOTS;
use crate::servers::Reply;
use crate::wait::eventually;

/// The number of keys that one step of a whole move carries.
const BATCH: usize = 100;

/// A slot on its way between two masters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotMove {
    /// The slot.
    pub slot: u16,
    /// The index of the master that has it.
    pub from: usize,
    /// The index of the master that gets it.
    pub to: usize,
}

impl Cluster {
    /// Marks a slot as importing on its new master and as migrating on its old one. Keys stay where they are.
    ///
    /// # Panics
    /// Panics if a node refuses, as when it already has the slot.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, to: usize) -> SlotMove {
        let from = self.node_of_slot(slot);
        let moving = SlotMove { slot, from, to };
        self.set_slot(to, slot, &["IMPORTING", &self.ids[from]]);
        self.set_slot(from, slot, &["MIGRATING", &self.ids[to]]);
        moving
    }

    /// Moves up to `count` keys of the slot and returns the number of moved keys.
    ///
    /// # Panics
    /// Panics if a node refuses.
    #[track_caller]
    pub fn move_keys(&self, moving: SlotMove, count: usize) -> usize {
        let keys = self
            .keys_in_slot(moving.from, moving.slot, count)
            .unwrap_or_else(|error| panic!("the master does not list the keys of a slot: {error}"));
        let port = self.nodes[moving.to].announced_port().to_string();
        for key in &keys {
            let mut command = vec!["MIGRATE", "127.0.0.1", &port, key, "0", "5000"];
            if let Some(password) = &self.options.password {
                command.extend(["AUTH", password]);
            }
            order(&self.nodes[moving.from], &command);
        }
        keys.len()
    }

    /// Gives the slot to its new master and tells the other masters. Keys that were not moved are lost with their
    /// server's word, so move all of them first.
    ///
    /// # Panics
    /// Panics if a node refuses.
    #[track_caller]
    pub fn finish_move(&self, moving: SlotMove) {
        let others = self.masters().into_iter().filter(|&index| index != moving.to && index != moving.from);
        for node in [moving.to, moving.from].into_iter().chain(others) {
            self.set_slot(node, moving.slot, &["NODE", &self.ids[moving.to]]);
        }
    }

    /// Leaves the slot at its old master. Keys that were moved stay at the new one, which answers for none of them.
    ///
    /// # Panics
    /// Panics if a node refuses.
    #[track_caller]
    pub fn cancel_move(&self, moving: SlotMove) {
        self.set_slot(moving.from, moving.slot, &["STABLE"]);
        self.set_slot(moving.to, moving.slot, &["STABLE"]);
    }

    /// Moves a slot with all of its keys.
    ///
    /// # Panics
    /// Panics if a node refuses.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to);
        while self.move_keys(moving, BATCH) > 0 {}
        self.finish_move(moving);
    }

    /// Moves the slots of a node to the other masters, makes the others forget it, and kills it. Its replicas follow
    /// another master.
    ///
    /// # Panics
    /// Panics if a step is refused.
    #[track_caller]
    pub fn remove_node(&mut self, node: usize) {
        self.move_all_slots(node);
        let heir = self.masters().into_iter().find(|&other| other != node).expect("another master is up");
        for replica in self.replicas_of(node) {
            self.follow(replica, heir);
        }
        self.removed[node] = true;
        for other in self.up() {
            order(&self.nodes[other], &["CLUSTER", "FORGET", &self.ids[node]]);
        }
        self.nodes[node].kill();
    }

    /// Moves all slots of a node to the other masters, each of which gets a part.
    #[track_caller]
    fn move_all_slots(&self, node: usize) {
        let view = self.view_of(node).expect("the node answers");
        let slots: Vec<_> = (0..SLOTS).filter(|&slot| view.owner(slot) == Some(&self.ids[node])).collect();
        let heirs: Vec<_> = self.masters().into_iter().filter(|&index| index != node).collect();
        let share = slots.len().div_ceil(heirs.len()).max(1);
        for (part, &to) in slots.chunks(share).zip(&heirs) {
            self.set_slots(to, part, &["IMPORTING", &self.ids[node]]);
            self.set_slots(node, part, &["MIGRATING", &self.ids[to]]);
            for &slot in part {
                while self.move_keys(SlotMove { slot, from: node, to }, BATCH) > 0 {}
            }
            // The new master's word reaches the others by itself. A master without slots turns into a replica, which
            // would refuse this order.
            self.set_slots(to, part, &["NODE", &self.ids[to]]);
            let heir = Some(self.ids[to].as_str());
            eventually(REACTS_WITHIN, "all nodes to know the new master of slots", || {
                self.views().iter().all(|view| part.iter().all(|&slot| view.owner(slot) == heir))
            });
        }
    }

    fn keys_in_slot(&self, node: usize, slot: u16, count: usize) -> io::Result<Vec<String>> {
        let command = ["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), &count.to_string()];
        let reply = self.nodes[node].command(&command)?;
        Ok(reply.list().iter().map(Reply::text).map(str::to_owned).collect())
    }

    #[track_caller]
    fn set_slot(&self, node: usize, slot: u16, words: &[&str]) {
        self.set_slots(node, &[slot], words);
    }

    /// Sends the same order for many slots at once. A node saves its file once for all commands of one read.
    #[track_caller]
    fn set_slots(&self, node: usize, slots: &[u16], words: &[&str]) {
        let names: Vec<_> = slots.iter().map(u16::to_string).collect();
        let order = |slot| ["CLUSTER", "SETSLOT", slot].into_iter().chain(words.iter().copied()).collect();
        let orders: Vec<Vec<&str>> = names.iter().map(|name| order(name.as_str())).collect();
        self.nodes[node]
            .connect()
            .and_then(|mut wire| wire.request_all(&orders))
            .unwrap_or_else(|error| panic!("node {node} refuses SETSLOT {slots:?} {words:?}: {error}"));
    }
}
