//! The environment of the workloads: the networks of the servers, and their roles in a fleet.
//!
//! Invariant: the roles change only by the faults of the plan.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold_store::embedded::Frame;
use leasehold_store::{Confirm, Confirmation, ShardedPubsub};

use super::executor::{Home, spawn};
use super::fleet::{Fleet, SERVERS, slot_of};
use super::foreign;
use super::net::Net;
use super::server::Server;
use super::store::Reach;
use super::timeline::Timeline;
use crate::environment::Environment;
use crate::fault::{Fault, Kind};
use crate::plan::{Confirmed, Plan, REPLICAS, Shape};
use crate::schedule::replicated_at;
use crate::wire::Witness;

/// The environment of the workloads of one server, or of one fleet.
pub(super) struct SimEnvironment {
    pub(super) timeline: Arc<Timeline>,
    pub(super) reach: Reach,
    fleet: Option<Arc<Fleet>>,
}

impl SimEnvironment {
    pub(super) fn new(timeline: &Arc<Timeline>, plan: &Arc<Plan>, witness: Witness) -> Self {
        let timeline = Arc::clone(timeline);
        let Some(terms) = plan.fleet else {
            let reach = Reach::one(&Net::new(&timeline, plan, witness));
            return Self { timeline, reach, fleet: None };
        };
        let (nets, fleet) = Net::of_fleet(&timeline, plan, &witness, terms.shape);
        let replicas =
            if terms.confirmed == Confirmed::OfClient { Confirm::all(REPLICAS) } else { Confirm::None };
        let reach = Reach {
            nets: nets.into(),
            url: fleet.url(),
            channels: if terms.shape == Shape::Cluster { ShardedPubsub::On } else { ShardedPubsub::Off },
            confirmation: Confirmation::new(replicas, plan.timeout / 3),
        };
        Self { timeline, reach, fleet: Some(fleet) }
    }

    /// Returns the servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.reach.nets.iter().map(|net| &net.server)
    }

    /// Returns the network of the server that has the keys of the fault's name.
    pub(super) fn net_at(&self, fault: &Fault) -> &Net {
        let place = self.fleet.as_ref().map(|fleet| fleet.place(slot_of(fault.name.as_bytes())));
        &self.reach.nets[place.unwrap_or_default()]
    }

    /// Returns the network that a fault affects.
    pub(super) fn net_of(&self, fault: &Fault) -> &Net {
        &self.reach.nets[self.node_of(fault)]
    }

    fn node_of(&self, fault: &Fault) -> usize {
        usize::try_from(fault.chance % self.reach.nets.len() as u64).unwrap_or_default()
    }

    pub(super) fn are_on_one_net(&self, one: &Fault, other: &Fault) -> bool {
        self.node_of(one) == self.node_of(other)
    }

    pub(super) fn replicate(&self) {
        match &self.fleet {
            Some(fleet) => fleet.replicate(),
            None => self.reach.nets[0].replicate(),
        }
    }

    /// Returns the command that publishes wake-ups.
    pub(super) fn publish(&self) -> &'static str {
        match self.reach.channels {
            ShardedPubsub::On => "SPUBLISH",
            _ => "PUBLISH",
        }
    }

    /// Lets the replicas of a server that has lost its data lose it too.
    pub(super) fn lose_replicas(&self) {
        if let Some(fleet) = &self.fleet {
            fleet.replicate();
        }
    }

    /// Changes the roles of the servers.
    pub(super) fn change(&self, fault: &Fault) {
        let Some(fleet) = &self.fleet else {
            return self.reach.nets[0].fail_over(replicated_at(fault), fault.ends());
        };
        let slot = slot_of(fault.name.as_bytes());
        let from = fleet.owner(slot);
        let to = successor(from, fault);
        let takes_over = matches!(fault.kind, Kind::SplitBrain | Kind::Failover | Kind::Switch);
        if takes_over && self.reach.nets[to].is_frozen() {
            // What a frozen server had received before would have run on the data that it lost as a replica.
            self.reach.nets[to].take_down(self.timeline.now());
        }
        match fault.kind {
            Kind::Migration => fleet.begin_move(slot, to),
            Kind::ReplicasAway => fleet.connect_replicas(few(fault)),
            Kind::SplitBrain => {
                self.demote(fleet, true);
                let copy = fleet.lose_last_writes(from);
                let learned = fleet.split((from, to), few(fault), copy, fault.ends());
                self.announce(fleet, &learned);
            }
            _ => {
                // A former master that is chosen again has lost its connections with its own copy.
                if fleet.is_former(to) {
                    self.demote(fleet, true);
                }
                if fault.kind == Kind::Failover {
                    fleet.lose_last_writes(from);
                }
                let learned = fleet.switch(from, to, fault.ends());
                self.leave(fleet, from, fault);
                self.announce(fleet, &learned);
            }
        }
    }

    pub(super) fn end_change(&self, fault: &Fault) {
        let Some(fleet) = &self.fleet else { return };
        match fault.kind {
            Kind::ReplicasAway => return fleet.connect_replicas(REPLICAS),
            Kind::SplitBrain => return self.demote(fleet, (fault.chance / 100).is_multiple_of(2)),
            _ => {}
        }
        let slot = slot_of(fault.name.as_bytes());
        let from = fleet.owner(slot);
        let learned_by = self.timeline.now() + Duration::from_millis(fault.chance % 500);
        if let Some(to) = fleet.receiver(slot) {
            fleet.give(slot, to, learned_by);
            self.leave_shards(fleet, from);
        }
    }

    /// Lets the former master end, freeze, or go on as a replica.
    fn leave(&self, fleet: &Fleet, from: usize, fault: &Fault) {
        let net = &self.reach.nets[from];
        if fault.freezes_master() {
            net.freeze(fault.ends());
        } else if (fault.chance / 100).is_multiple_of(3) {
            net.take_down(fault.ends());
        }
        self.leave_shards(fleet, from);
    }

    /// Turns a former master into a replica. Its connections end, or it answers `READONLY` or `MOVED` on them.
    fn demote(&self, fleet: &Fleet, ends_connections: bool) {
        let Some(former) = fleet.demote() else { return };
        if ends_connections {
            self.reach.nets[former].take_down(self.timeline.now());
        }
        self.leave_shards(fleet, former);
    }

    fn leave_shards(&self, fleet: &Fleet, from: usize) {
        self.reach.nets[from].leave_shards(|channel| fleet.owner(slot_of(channel)) != from);
    }

    /// Lets each sentinel tell of the new master once it knows.
    fn announce(&self, fleet: &Arc<Fleet>, learned: &[Duration]) {
        for sentinel in fleet.sentinels() {
            let (fleet, timeline, at) = (Arc::clone(fleet), Arc::clone(&self.timeline), learned[sentinel]);
            let net = self.reach.nets[sentinel].clone();
            spawn(Home::World, async move {
                timeline.sleep_until(at).await;
                fleet.announce(sentinel);
                net.ship();
            });
        }
    }
}

/// Returns a number of replicas that confirms nothing.
fn few(fault: &Fault) -> u32 {
    u32::from((fault.chance / 5).is_multiple_of(2))
}

/// Returns the server that gets what another one served.
fn successor(from: usize, fault: &Fault) -> usize {
    let steps = usize::try_from(fault.chance / 7 % (SERVERS as u64 - 1)).unwrap_or_default();
    (from + 1 + steps) % SERVERS
}

impl Environment for SimEnvironment {
    fn now(&self) -> Duration {
        self.timeline.now()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.timeline.sleep(span).boxed()
    }

    fn command(&self, process: usize, command: Vec<Vec<u8>>) -> BoxFuture<'static, Option<Frame>> {
        foreign::command(self.reach.nets[0].clone(), process, command).boxed()
    }

    fn drops_futures(&self, process: usize) -> bool {
        self.reach.nets[0].drops_futures(process)
    }
}
