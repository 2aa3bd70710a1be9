//! The server of the simulated network: the embedded database behind connections.
//!
//! Invariant: the data lives outside the host, so that what a crash leaves of it is the fault's to decide. A command is
//! executed at one instant, and what it publishes goes to those who listen at that instant.
//! Called by: its host, with connections; the world, with the server's faults.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_store::embedded::{Condition, Database, Executed, Frame, Message};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use turmoil::net::TcpListener;

use super::gate::Gate;
use super::net::{Cuts, Landing};
use super::parse::Command;
use super::process::Truth;
use super::resp::{Commands, serve};
use super::runtime::spawn;
use crate::clock::Clock;
use crate::history::{By, Event};
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::wire::{self, Decoded};

/// Where it listens.
pub(super) const HOST: &str = "server";
pub(super) const PORT: u16 = 6379;

/// The beginning of a process's host name; its number follows.
pub(super) const PROCESS: &str = "process-";

/// The server.
pub(super) struct Server {
    truth: Truth,
    cuts: Cuts,
    clock: Clock,
    plan: Arc<Plan>,
    recorder: Recorder,
    state: Mutex<State>,
    /// Closed while it stands still: what it has received waits.
    pub(super) running: Gate,
    /// Closed while nobody can connect.
    door: Gate,
}

#[derive(Default)]
struct State {
    database: Database,
    /// What a replica had at earlier times, for the failovers to come.
    replicas: Vec<(Duration, Database)>,
    ears: Vec<Ear>,
    /// The processes whose wake-ups are lost.
    deaf: Vec<usize>,
    connections: Vec<(Option<usize>, AbortHandle)>,
}

/// Somebody who listens to a channel.
struct Ear {
    process: usize,
    channel: Vec<u8>,
    tell: UnboundedSender<Frame>,
}

impl Server {
    pub(super) fn new(plan: &Arc<Plan>, truth: Truth, cuts: Cuts, clock: Clock, recorder: Recorder) -> Self {
        Self {
            truth,
            cuts,
            clock,
            plan: Arc::clone(plan),
            recorder,
            state: Mutex::default(),
            running: Gate::default(),
            door: Gate::default(),
        }
    }

    /// Looks at the data, or changes it.
    pub(super) fn with_database<T>(&self, work: impl FnOnce(&mut Database, u64) -> T) -> T {
        let now_ms = u64::try_from(self.clock.says(self.truth.now()).as_millis()).unwrap_or(u64::MAX);
        work(&mut self.state().database, now_ms)
    }

    /// Executes a command, and sends what it publishes.
    pub(super) fn execute_by(&self, by: By, command: &Command) -> Frame {
        let decoded = wire::decode(command);
        let (Executed { reply, messages }, event) = self.with_database(|database, now_ms| {
            let Some(Decoded { verb, name, wire, .. }) = decoded else {
                return (database.execute(now_ms, command), None);
            };
            let before = wire::key(database, now_ms, &name);
            let executed = database.execute(now_ms, command);
            let after = wire::key(database, now_ms, &name);
            let known = |key: &String| self.plan.names.iter().any(|name| **name == **key);
            let stray = wire::keys(database, now_ms).into_iter().find(|key| !known(key));
            let reply = wire::reply(&executed.reply);
            (executed, Some(Event::Executed { verb, name, wire, by, reply, before, after, stray }))
        });
        if let Some(event) = event {
            self.recorder.record(self.truth.now(), event);
        }
        self.publish(messages);
        reply
    }

    fn publish(&self, messages: Vec<Message>) {
        let state = self.state();
        for Message { channel, payload, .. } in messages {
            for ear in state.ears.iter().filter(|ear| ear.channel == channel) {
                if !state.deaf.contains(&ear.process) {
                    let parts = [b"message".to_vec(), channel.clone(), payload.clone()];
                    // Its connection may be about to end.
                    let _ = ear.tell.send(Frame::Array(parts.into_iter().map(Frame::Bulk).collect()));
                }
            }
        }
    }

    /// The wake-ups of a process are lost, or not any more.
    pub(super) fn set_deaf(&self, process: usize, deaf: bool) {
        let mut state = self.state();
        state.deaf.retain(|known| *known != process);
        if deaf {
            state.deaf.push(process);
        }
    }

    /// Ends the connections of a process.
    pub(super) fn reset(&self, process: usize) {
        self.end_connections(|whose| whose == Some(process));
    }

    /// Ends all connections and takes no more.
    pub(super) fn refuse(&self) {
        self.door.close();
        self.end_connections(|_| true);
    }

    /// Takes connections again.
    pub(super) fn admit(&self) {
        self.door.open();
    }

    fn end_connections(&self, which: impl Fn(Option<usize>) -> bool) {
        let ended = self.state().connections.extract_if(.., |(whose, _)| which(*whose)).collect::<Vec<_>>();
        for (_, connection) in ended {
            connection.abort();
        }
    }

    /// Its host has crashed; the data may be gone with it.
    pub(super) fn crash(&self, keeps_data: bool) {
        self.with_database(|database, now_ms| {
            if !keeps_data {
                database.execute(now_ms, &["FLUSHALL".into()]);
            }
            database.forget_scripts();
        });
    }

    /// What a replica has now, for a failover later.
    pub(super) fn replicate(&self) {
        let mut state = self.state();
        let replica = (self.truth.now(), state.database.clone());
        state.replicas.push(replica);
    }

    /// Has what a replica had at a time.
    pub(super) fn fail_over(&self, seen_until: Duration) {
        let mut state = self.state();
        if let Some(at) = state.replicas.iter().position(|(at, _)| *at >= seen_until) {
            state.database = state.replicas[at].1.clone();
        }
    }

    pub(super) fn set_condition(&self, condition: Option<Condition>) {
        self.state().database.set_condition(condition);
    }

    /// What is left.
    pub(super) fn keys(&self) -> Vec<String> {
        self.with_database(wire::keys)
    }

    pub(super) fn jump(&self, by_ns: i64) {
        self.clock.jump(by_ns);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Commands for Server {
    fn execute(&self, process: usize, command: Command) -> Frame {
        let by = if process < self.plan.processes { By::Process(process) } else { By::Foreigner };
        self.execute_by(by, &command)
    }

    fn join(&self, process: usize, channel: &[u8], tell: &UnboundedSender<Frame>) {
        let mut state = self.state();
        if !state.ears.iter().any(|ear| ear.channel == channel && ear.tell.same_channel(tell)) {
            state.ears.push(Ear { process, channel: channel.to_vec(), tell: tell.clone() });
        }
    }

    fn leave(&self, channel: &[u8], tell: &UnboundedSender<Frame>) {
        self.state().ears.retain(|ear| ear.channel != channel || !ear.tell.same_channel(tell));
    }
}

/// What runs on the server's host.
pub(super) async fn host(server: Arc<Server>) -> turmoil::Result {
    loop {
        server.door.passed().await;
        let (ended, until_ended) = oneshot::channel::<()>();
        let accepting = accept(Arc::clone(&server));
        let task = spawn(async move {
            let _ended = ended;
            accepting.await;
        });
        server.state().connections.push((None, task));
        // It ends when connections are refused.
        let _ = until_ended.await;
    }
}

/// Accepts, even while the server stands still: that its system does for it.
async fn accept(server: Arc<Server>) {
    let listener =
        TcpListener::bind(("0.0.0.0", PORT)).await.expect("nobody else listens on the server's host");
    while let Ok((stream, peer)) = listener.accept().await {
        let name = turmoil::reverse_lookup(peer.ip()).expect("every host has a name");
        let number = name.strip_prefix(PROCESS).and_then(|number| number.parse().ok());
        let process: usize = number.expect("only processes connect");
        let landing = Landing { stream, peer, cuts: server.cuts.clone() };
        let serving = serve(landing, process, Arc::clone(&server), server.running.clone());
        // How it broke does not matter.
        let task = spawn(async move { drop(serving.await) });
        let mut state = server.state();
        state.connections.retain(|(_, task)| !task.is_finished());
        state.connections.push((Some(process), task));
    }
}
