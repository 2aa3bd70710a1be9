//! The simulated server: a database, a clock and the listeners.
//!
//! Invariant: a command executes at one instant, and its messages go only to the listeners of that instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Call, Channel};
use leasehold_store::Heard;
use leasehold_store::embedded::{Condition, Database, Executed, Frame, Message};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::history::By;
use crate::plan::Plan;
use crate::primitive::delete;
use crate::recorder::Recorder;
use crate::wire::{Decoded, Witness, decode};

/// A request that arrives at the server.
#[derive(Clone)]
pub(super) enum Work {
    Call(Call),
    Command(Vec<Vec<u8>>),
}

/// A subscriber of one channel.
pub(super) struct Listener {
    pub(super) process: usize,
    pub(super) channel: Channel,
    pub(super) heard: UnboundedSender<Heard>,
    /// Dropped when the connection breaks.
    pub(super) _alive: oneshot::Sender<()>,
}

pub(super) struct Server {
    database: Database,
    witness: Witness,
    /// The state of a replica at earlier times, for later failovers.
    replicas: Vec<(Duration, Database)>,
    /// Grows with each restart. Requests received before a restart are gone.
    pub(super) epoch: u64,
    pub(super) down_until: Duration,
    pub(super) frozen_until: Duration,
    pub(super) listeners: BTreeMap<u64, Listener>,
}

impl Server {
    pub(super) fn new(plan: &Arc<Plan>, clock: Clock, recorder: Recorder) -> Self {
        let witness = Witness::new(plan, recorder, clock);
        let mut database = Database::new();
        database.restart(witness.now_ms(Duration::ZERO));
        Self {
            database,
            witness,
            replicas: Vec::new(),
            epoch: 0,
            down_until: Duration::ZERO,
            frozen_until: Duration::ZERO,
            listeners: BTreeMap::new(),
        }
    }

    fn now_ms(&self, now: Duration) -> u64 {
        self.witness.now_ms(now)
    }

    /// Executes work and returns the reply and the messages to publish.
    pub(super) fn execute(&mut self, now: Duration, by: By, work: &Work) -> (Frame, Vec<Message>) {
        let script = match work {
            Work::Call(call) => Some(Decoded::from(call)),
            Work::Command(command) => decode(command),
        };
        let execute = |database: &mut Database, now_ms| match work {
            Work::Call(call) => database.run(now_ms, call),
            Work::Command(command) => database.execute(now_ms, command),
        };
        let Executed { reply, messages } = self.witness.see(now, by, script, &mut self.database, execute);
        (reply, messages)
    }

    /// Ends the server process and starts a new one.
    pub(super) fn restart(&mut self, now: Duration, back_at: Duration, keeps_data: bool) {
        self.down_until = back_at;
        self.end_connections();
        if !keeps_data {
            let now_ms = self.now_ms(now);
            self.database.execute(now_ms, &["FLUSHALL".into()]);
        }
        let begins_ms = self.now_ms(back_at);
        self.database.restart(begins_ms);
    }

    /// Fails over by replacing the data with a replica's data of an earlier time.
    pub(super) fn fail_over(&mut self, seen_until: Duration, back_at: Duration) {
        self.down_until = back_at;
        self.end_connections();
        if let Some((_, replica)) = self.replicas.iter().find(|(at, _)| *at == seen_until) {
            // A condition such as a lack of memory affects the new server too.
            let condition = self.database.condition();
            self.database = replica.clone();
            self.database.set_condition(condition);
        }
    }

    /// Saves the state of a replica, for a later failover.
    pub(super) fn replicate(&mut self, now: Duration) {
        self.replicas.push((now, self.database.clone()));
    }

    fn end_connections(&mut self) {
        self.epoch += 1;
        self.listeners.clear();
    }

    pub(super) fn refuse(&mut self, condition: Option<Condition>) {
        self.database.set_condition(condition);
    }

    pub(super) fn delete(&mut self, now: Duration, name: &str) {
        let now_ms = self.now_ms(now);
        let command = delete(name);
        self.database.execute(now_ms, &command);
    }

    pub(super) fn jump(&self, by_ns: i64) {
        self.witness.clock.jump(by_ns);
    }

    /// Returns the keys that are left and should not be.
    pub(super) fn left_over(&mut self, now: Duration, plan: &Plan) -> Vec<String> {
        self.witness.left_over(&mut self.database, now, plan)
    }

    /// Returns the channels that have listeners.
    pub(super) fn channels(&self) -> Vec<String> {
        self.listeners.values().map(|listener| listener.channel.as_str().to_owned()).collect()
    }
}
