//! The answers that the nodes of a fleet give before their databases see a command.
//!
//! Invariant: a server lets its database see a command only if it takes the slot of the command's keys for its own.

use std::collections::BTreeMap;

use leasehold_store::embedded::Frame;

use super::fleet::{Fleet, SERVERS, slot_of};
use crate::plan::{REPLICAS, Shape};

const PORT: u16 = 6379;

/// Returns the name of a node's host.
fn host(node: usize) -> String {
    format!("n{node}")
}

impl Fleet {
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
            (Shape::Cluster, ["asking"]) => {
                *asking = true;
                Some(Frame::ok())
            }
            (_, ["wait", ..]) => Some(self.wait(node)),
            (_, ["info", "replication"]) => Some(Frame::bulk(self.replication(node))),
            (_, ["eval" | "evalsha", _, count, ..]) => {
                let count = count.parse().unwrap_or_default();
                let keys = command.iter().skip(3).take(count);
                self.refuse(node, keys.map(|key| slot_of(key)), asked)
            }
            // The native commands of a plain lock.
            (_, ["set" | "delifeq", ..]) => {
                self.refuse(node, command.iter().skip(1).take(1).map(|key| slot_of(key)), asked)
            }
            // A slot keeps its subscribers until it has moved.
            (Shape::Cluster, ["ssubscribe", ..]) => {
                let mut other = command.iter().skip(1).map(|channel| slot_of(channel));
                let other = other.find(|slot| !self.state().serves(node, *slot))?;
                Some(self.moved(node, other))
            }
            _ => None,
        }
    }

    /// Returns the error of a command on these slots, if the node does not serve them.
    fn refuse(&self, node: usize, slots: impl Iterator<Item = u16>, asked: bool) -> Option<Frame> {
        let slots: Vec<u16> = slots.collect();
        let slot = *slots.first()?;
        let mut state = self.state();
        let (serves, is_former) = (state.serves(node, slot), state.is_former(node));
        let receiver = state.moving.get(&slot).copied();
        let error = match self.shape {
            Shape::Sentinel if serves => return None,
            Shape::Sentinel => "READONLY You can't write against a read only replica.".to_owned(),
            Shape::Cluster if slots.iter().any(|other| *other != slot) => {
                "CROSSSLOT Keys in request don't hash to the same slot".to_owned()
            }
            // Some keys of the call have not arrived.
            Shape::Cluster if receiver == Some(node) && asked && slots.len() > 1 && state.draws(3) => {
                "TRYAGAIN Multiple keys request during rehashing of slot".to_owned()
            }
            Shape::Cluster if receiver == Some(node) && asked => return None,
            Shape::Cluster if serves && is_former => return None,
            Shape::Cluster if serves => format!("ASK {slot} {}:{PORT}", host(receiver?)),
            Shape::Cluster if is_former => "CLUSTERDOWN Hash slot not served".to_owned(),
            Shape::Cluster => {
                drop(state);
                return Some(self.moved(node, slot));
            }
        };
        Some(Frame::Error(error))
    }

    /// Returns the redirection of a node that does not serve a slot. A node that would name itself knows the owner.
    fn moved(&self, node: usize, slot: u16) -> Frame {
        let state = self.state();
        let known = state.seen_by(node, self.timeline.now()).owner(slot);
        let known = if known == node { state.truth().owner(slot) } else { known };
        Frame::Error(format!("MOVED {slot} {}:{PORT}", host(known)))
    }

    fn role(&self, node: usize) -> Frame {
        let is_master = self.state().serves(node, 0);
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

    /// Lets the connected replicas catch up, and returns the number of replicas that have all writes.
    fn wait(&self, node: usize) -> Frame {
        if self.shape == Shape::Sentinel && !self.state().serves(node, 0) {
            return Frame::Error("ERR WAIT cannot be used with replica instances.".into());
        }
        let replicas = self.replicas_of(node);
        // The replica that took over is none of those that a former master still has.
        if replicas == REPLICAS && !self.is_former(node) {
            self.replicate_at(node);
        }
        Frame::Int(i64::from(replicas))
    }

    /// Returns the number of replicas that are connected to a master.
    fn replicas_of(&self, node: usize) -> u32 {
        let state = self.state();
        let former = state.former.as_ref().filter(|former| former.node == node);
        former.map_or(state.replicas, |former| former.replicas)
    }

    fn replication(&self, node: usize) -> String {
        let online =
            (0..self.replicas_of(node)).map(|number| format!("slave{number}:ip=r,port=1,state=online\r\n"));
        format!("role:master\r\n{}", online.collect::<String>())
    }
}

/// Returns the entry of a node in the answer of a sentinel.
fn entry(node: usize, epoch: Option<u64>) -> Frame {
    let mut fields = vec![("ip", host(node)), ("port", PORT.to_string())];
    fields.extend(epoch.map(|epoch| ("config-epoch", epoch.to_string())));
    Frame::Array(
        fields.into_iter().flat_map(|(name, value)| [Frame::bulk(name), Frame::bulk(value)]).collect(),
    )
}
