//! The server of the simulated network: the embedded server behind its listener.
//!
//! Invariant: the data lives outside the host, so that the fault decides which data survives a crash. A command executes
//! at one instant, and its messages go to the listeners of that instant.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use leasehold_proto::Call;
use leasehold_store::embedded::{
    self, Condition, ConnectionHook, Database, Executed, Frame, Message, serve_watched,
};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use turmoil::net::TcpListener;

use super::barrier::Barrier;
use super::cuts::Cuts;
use super::hosts::{PORT, PROCESS};
use super::process::Truth;
use super::runtime::spawn;
use super::server_socket::ServerSocket;
use crate::clock::Clock;
use crate::history::By;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::wire::{self, Decoded, Witness};

pub(super) struct Server {
    truth: Truth,
    cuts: Cuts,
    witness: Witness,
    /// The number of our processes. Higher numbers are foreign clients.
    processes: usize,
    embedded: Arc<embedded::Server>,
    state: Mutex<State>,
    /// Closed while the server is frozen, so received requests wait.
    pub(super) running: Barrier,
    /// Closed while the server accepts no connections.
    door: Barrier,
}

#[derive(Default)]
struct State {
    /// The state of a replica at earlier times, for later failovers.
    replicas: Vec<(Duration, Database)>,
    /// The processes whose wake-ups are lost.
    deaf: Vec<usize>,
    connections: Vec<(Option<usize>, AbortHandle)>,
    /// True if the host next runs the process that crashed, and not a replica.
    begins_anew: bool,
}

impl Server {
    pub(super) fn new(plan: &Arc<Plan>, truth: Truth, cuts: Cuts, clock: Clock, recorder: Recorder) -> Self {
        let witness = Witness::new(plan, recorder, clock);
        let (says, now) = (witness.clone(), truth.clone());
        Self {
            truth,
            cuts,
            witness,
            processes: plan.processes,
            embedded: Arc::new(embedded::Server::new(move || says.now_ms(now.now()))),
            state: Mutex::default(),
            running: Barrier::default(),
            door: Barrier::default(),
        }
    }

    /// Runs `work` with the data and the server's time in milliseconds.
    pub(super) fn with_database<T>(&self, work: impl FnOnce(&mut Database, u64) -> T) -> T {
        let now_ms = self.witness.now_ms(self.truth.now());
        self.embedded.database(|database| work(database, now_ms))
    }

    /// Runs a call of an operator, which bypasses the network.
    pub(super) fn operate(&self, call: &Call) {
        let (now, script) = (self.truth.now(), Some(Decoded::from(call)));
        let run = |database: &mut Database, now_ms| database.run(now_ms, call);
        self.embedded.run_by(call, |database, _| self.witness.see(now, By::Operator, script, database, run));
    }

    /// Sets whether the wake-ups of a process are lost.
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

    /// Ends all connections and accepts no more.
    pub(super) fn refuse(&self) {
        self.door.close();
        self.end_connections(|_| true);
    }

    /// Accepts connections again.
    pub(super) fn admit(&self) {
        self.door.open();
    }

    fn end_connections(&self, which: impl Fn(Option<usize>) -> bool) {
        let ended = self.state().connections.extract_if(.., |(whose, _)| which(*whose)).collect::<Vec<_>>();
        for (_, connection) in ended {
            connection.abort();
        }
    }

    /// Handles the crash of the host, with or without the loss of its data.
    pub(super) fn crash(&self, keeps_data: bool) {
        self.state().begins_anew = true;
        self.with_database(|database, now_ms| {
            if !keeps_data {
                database.execute(now_ms, &["FLUSHALL".into()]);
            }
            database.forget_scripts();
        });
    }

    /// Saves the state of a replica, for a later failover.
    pub(super) fn replicate(&self) {
        let replica = self.embedded.database(|database| database.clone());
        self.state().replicas.push((self.truth.now(), replica));
    }

    /// Fails over by replacing the data with a replica's data of an earlier time.
    pub(super) fn fail_over(&self, seen_until: Duration) {
        let state = self.state();
        let replica = state.replicas.iter().find(|(at, _)| *at >= seen_until).map(|(_, data)| data.clone());
        drop(state);
        if let Some(replica) = replica {
            self.embedded.take_over(replica);
            self.state().begins_anew = false;
        }
    }

    /// Handles the return of the host. A replica has been up all the time, so it counts no restart.
    pub(super) fn begin(&self) {
        if mem::take(&mut self.state().begins_anew) {
            self.with_database(Database::restart);
        }
    }

    pub(super) fn set_condition(&self, condition: Option<Condition>) {
        self.embedded.set_condition(condition);
    }

    /// Returns the keys that are left and should not be.
    pub(super) fn left_over(&self, plan: &Plan) -> Vec<String> {
        let now = self.truth.now();
        self.with_database(|database, _| self.witness.left_over(database, now, plan))
    }

    /// Returns the channels that have listeners.
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

    pub(super) fn jump(&self, by_ns: i64) {
        self.witness.clock.jump(by_ns);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of a process.
struct Visit {
    process: usize,
    server: Arc<Server>,
}

impl ConnectionHook for Visit {
    fn execute(&self, database: &mut Database, _now_ms: u64, command: &[Vec<u8>]) -> Executed {
        let Server { witness, truth, .. } = &*self.server;
        let foreign = self.process >= self.server.processes;
        let by = if foreign { By::Foreigner } else { By::Process(self.process) };
        let execute = |database: &mut Database, now_ms| database.execute(now_ms, command);
        witness.see(truth.now(), by, wire::decode(command), database, execute)
    }

    fn lets_through(&self, _message: &Message) -> bool {
        !self.server.state().deaf.contains(&self.process)
    }
}

/// Runs on the server's host.
pub(super) async fn run_host(server: Arc<Server>) -> turmoil::Result {
    loop {
        server.door.passed().await;
        let (ended, until_ended) = oneshot::channel::<()>();
        let accepting = accept(Arc::clone(&server));
        let task = spawn(async move {
            let _ended = ended;
            accepting.await;
        });
        server.state().connections.push((None, task));
        // The wait ends when connections are refused.
        let _ = until_ended.await;
    }
}

/// Accepts connections even while the server is frozen, because its operating system does that.
async fn accept(server: Arc<Server>) {
    let listener =
        TcpListener::bind(("0.0.0.0", PORT)).await.expect("no other program listens on the server's host");
    while let Ok((stream, peer)) = listener.accept().await {
        let name = turmoil::reverse_lookup(peer.ip()).expect("every host has a name");
        let number = name.strip_prefix(PROCESS).and_then(|number| number.parse().ok());
        let process: usize = number.expect("only processes connect");
        let server_socket = ServerSocket::new(stream, peer, server.cuts.clone(), server.running.clone());
        let visit = Visit { process, server: Arc::clone(&server) };
        let task = spawn(serve_watched(server_socket, Arc::clone(&server.embedded), visit));
        let mut state = server.state();
        state.connections.retain(|(_, task)| !task.is_finished());
        state.connections.push((Some(process), task));
    }
}
