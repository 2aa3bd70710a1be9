//! The simulated server: the embedded server, the witness of its scripts, and its sessions' hook.
//!
//! Invariant: a command executes at one instant, and its messages go only to the sessions of that instant.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::Call;
use leasehold_store::embedded::{
    self, Condition, ConnectionHook, Database, Executed, Frame, Message, Session,
};

use super::fleet::Fleet;
use super::timeline::Timeline;
use super::windows::{Impairment, Windows};
use crate::history::By;
use crate::plan::{Natives, Plan, Shape, stream};
use crate::primitive::delete;
use crate::wire::{Decoded, Witness, is_script};

/// The place of a server in its fleet.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) fleet: Arc<Fleet>,
    pub(super) number: usize,
}

/// Creates the database of a server, which runs by the clock of its witness.
pub(super) fn embedded(timeline: &Arc<Timeline>, witness: &Witness) -> Arc<embedded::Server> {
    let (says, time) = (witness.clone(), Arc::clone(timeline));
    Arc::new(embedded::Server::new(move || says.now_ms(time.now())))
}

pub(super) struct Server {
    embedded: Arc<embedded::Server>,
    shared: Arc<Shared>,
}

/// The times at which the server is not there, and its saved states.
#[derive(Default)]
pub(super) struct Outages {
    /// The state of a replica at earlier times, for later failovers.
    replicas: Vec<(Duration, Database)>,
    pub(super) down_until: Duration,
    pub(super) frozen_until: Duration,
}

impl Server {
    pub(super) fn new(
        plan: &Plan,
        windows: &Windows,
        timeline: &Arc<Timeline>,
        (witness, embedded): (Witness, Arc<embedded::Server>),
        node: Option<Node>,
    ) -> Self {
        let shared = Shared {
            timeline: Arc::clone(timeline),
            witness,
            processes: plan.processes,
            natives: plan.wire.natives,
            windows: windows.clone(),
            rng: Mutex::new(stream(plan.seed, "repeats")),
            repeats: Mutex::default(),
            node,
        };
        Self { embedded, shared: Arc::new(shared) }
    }

    /// Begins a session with a process.
    pub(super) fn session(&self, process: usize, offers_resp3: bool) -> Session<Visit> {
        let visit = Visit { process, server: Arc::clone(&self.shared), asking: AtomicBool::new(false) };
        let session = Session::new(Arc::clone(&self.embedded), visit);
        if offers_resp3 { session.offering_resp3() } else { session }
    }

    /// Takes the commands that the network will deliver again.
    pub(super) fn take_repeats(&self) -> Vec<(usize, Vec<Vec<u8>>)> {
        std::mem::take(&mut self.shared.repeats.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes that a process reads bytes of the server.
    pub(super) fn hear(&self, process: usize) {
        self.shared.witness.hear(self.now(), process);
    }

    fn now(&self) -> Duration {
        self.shared.timeline.now()
    }

    fn now_ms(&self) -> u64 {
        self.shared.witness.now_ms(self.now())
    }

    /// Ends the server process and starts a new one.
    pub(super) fn restart(&self, back_at: Duration, keeps_data: bool) {
        let now_ms = self.now_ms();
        let begins_ms = self.shared.witness.now_ms(back_at);
        self.embedded.database(|database| {
            if !keeps_data {
                database.execute(now_ms, &["FLUSHALL".into()]);
            }
            database.restart(begins_ms);
        });
    }

    /// Fails over by replacing the data with a replica's data of an earlier time.
    pub(super) fn fail_over(&self, outages: &Outages, seen_until: Duration) {
        if let Some((_, replica)) = outages.replicas.iter().find(|(at, _)| *at == seen_until) {
            self.embedded.take_over(replica.clone());
        }
    }

    /// Saves the state of a replica, for a later failover.
    pub(super) fn replicate(&self, outages: &mut Outages) {
        let replica = self.embedded.database(|database| database.clone());
        outages.replicas.push((self.now(), replica));
    }

    pub(super) fn refuse(&self, condition: Option<Condition>) {
        self.embedded.set_condition(condition);
    }

    pub(super) fn forget_scripts(&self) {
        self.embedded.database(Database::forget_scripts);
    }

    pub(super) fn delete(&self, name: &str) {
        let (now_ms, command) = (self.now_ms(), delete(name));
        self.embedded.database(|database| database.execute(now_ms, &command));
    }

    pub(super) fn jump(&self, by_ns: i64) {
        self.shared.witness.clock.jump(by_ns);
    }

    /// Runs a call of an operator, which bypasses the network.
    pub(super) fn operate(&self, call: &Call) {
        let (now, script) = (self.now(), Decoded::from(call));
        let run = |database: &mut Database, now_ms| database.run(now_ms, call);
        self.embedded.run_by(call, |database, _| {
            self.shared.witness.see(now, By::Operator, Some(script), database, run)
        });
    }

    /// Executes a repeated command.
    pub(super) fn repeat(&self, process: usize, command: &[Vec<u8>]) {
        let now = self.now();
        self.embedded.execute_by(command, |database, _| {
            self.shared.witness.execute(now, By::Duplicate(process), command, database)
        });
    }

    /// Returns the keys that are left and should not be.
    pub(super) fn left_over(&self, plan: &Plan) -> Vec<String> {
        let now = self.now();
        self.embedded.database(|database| self.shared.witness.left_over(database, now, plan))
    }

    /// Returns the channels that have subscribers.
    pub(super) fn channels(&self) -> Vec<String> {
        let Frame::Array(channels) = self.embedded.execute(&["PUBSUB", "CHANNELS"]) else {
            return Vec::new();
        };
        let text = |channel| match channel {
            Frame::Bulk(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
            _ => None,
        };
        channels.into_iter().filter_map(text).collect()
    }
}

/// The hook into a session: the process at the other end.
pub(super) struct Visit {
    pub(super) process: usize,
    server: Arc<Shared>,
    /// True between an `ASKING` and the command behind it.
    asking: AtomicBool,
}

/// The state that the server shares with its sessions.
struct Shared {
    timeline: Arc<Timeline>,
    witness: Witness,
    /// The number of our processes. Higher numbers are foreign clients.
    processes: usize,
    natives: Natives,
    windows: Windows,
    rng: Mutex<Rng>,
    /// The commands that the network will deliver again.
    repeats: Mutex<Vec<(usize, Vec<Vec<u8>>)>>,
    /// The place in the fleet, if there is one.
    node: Option<Node>,
}

impl Shared {
    /// Returns true once in `of` draws.
    fn chance(&self, of: u8) -> bool {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u8(0..of) == 0
    }
}

impl Natives {
    /// Returns the answer of a server that does not have the command.
    fn refusal(self, command: &[Vec<u8>]) -> Option<Frame> {
        let gets = command.iter().skip(3).any(|word| word == b"GET");
        let text = match &**command.first()? {
            b"DELIFEQ" if self != Self::All => "ERR unknown command 'DELIFEQ', with args beginning with: ",
            b"SET" if gets && self == Self::None => "ERR syntax error",
            _ => return None,
        };
        Some(Frame::Error(text.to_owned()))
    }
}

impl ConnectionHook for Visit {
    fn intercept(&self, command: &[Vec<u8>]) -> Option<Frame> {
        if let Some(refusal) = self.server.natives.refusal(command) {
            return Some(refusal);
        }
        let Node { fleet, number } = self.server.node.as_ref()?;
        let mut asking = self.asking.load(Ordering::Relaxed);
        let reply = fleet.answer(*number, command, &mut asking);
        self.asking.store(asking, Ordering::Relaxed);
        reply
    }

    fn execute(&self, database: &mut Database, _now_ms: u64, command: &[Vec<u8>]) -> Executed {
        let Shared { timeline, witness, processes, windows, repeats, node, .. } = &*self.server;
        let (now, process) = (timeline.now(), self.process);
        let ours = process < *processes;
        let is_apart = node.as_ref().is_some_and(|node| node.fleet.is_former(node.number));
        let by = match (ours, is_apart) {
            (true, true) => By::AtFormer(process),
            (true, false) => By::Process(process),
            (false, _) => By::Foreigner,
        };
        let mut executed = witness.execute(now, by, command, database);
        if ours && windows.holds(process, Impairment::Repeated) && is_script(command) {
            if self.server.chance(2) {
                let again = witness.execute(now, By::Duplicate(process), command, database);
                executed.messages.extend(again.messages);
            }
            if self.server.chance(3) {
                let mut repeats = repeats.lock().unwrap_or_else(PoisonError::into_inner);
                repeats.push((process, command.to_vec()));
            }
        }
        executed
    }

    fn mode(&self) -> &'static str {
        let is_cluster = self.server.node.as_ref().is_some_and(|node| node.fleet.shape == Shape::Cluster);
        if is_cluster { "cluster" } else { "standalone" }
    }

    fn lets_through(&self, _message: &Message) -> bool {
        !self.server.windows.holds(self.process, Impairment::MessagesLost)
    }
}
