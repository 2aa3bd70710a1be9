//! The host of a process: its client and its users, or the user of a foreign client.
//!
//! Invariant: a restarted process shares only its clock with the process before it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Client;
use leasehold_store::redis::{ConnectOptions, Redis, ServerUrl};

use super::client_runtime::FullRuntime;
use super::environment::FullEnvironment;
use super::hosts::HOST;
use super::net::Dialer;
use super::process::Process;
use super::runtime::pause;
use crate::clock::Clock;
use crate::environment::{Env, Environment};
use crate::history::Event;
use crate::observe::Observed;
use crate::plan::{Plan, stream};
use crate::recorder::Recorder;
use crate::workload;

/// The delay after a failed connect.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The host of a process, which may start several times.
pub(super) struct Host {
    pub(super) number: usize,
    pub(super) plan: Arc<Plan>,
    pub(super) environment: Arc<FullEnvironment>,
    pub(super) recorder: Recorder,
    pub(super) clock: Clock,
    /// The number of starts on this host.
    pub(super) starts: Mutex<u64>,
}

impl Host {
    /// Creates a new process in place of the previous process.
    pub(super) fn begin(&self) -> (Arc<Process>, u64) {
        let mut starts = self.starts.lock().expect("no thread panics with the lock");
        *starts += 1;
        let incarnation = (self.number as u64) << 32 | *starts;
        let identity = stream(self.plan.seed ^ incarnation, "identity");
        let (truth, cuts) = (self.environment.truth.clone(), self.environment.cuts.clone());
        let process = Arc::new(Process::new(self.number, truth, cuts, self.clock.clone(), identity));
        self.environment.set_process(Arc::clone(&process));
        (process, incarnation)
    }

    /// Runs the process: a client and its users, or the user of a foreign client.
    pub(super) fn live(
        &self,
        (process, incarnation): (Arc<Process>, u64),
    ) -> impl Future<Output = ()> + use<> {
        let env = |salt: u64| Env {
            environment: self.environment.clone(),
            plan: Arc::clone(&self.plan),
            recorder: self.recorder.clone(),
            process: self.number,
            rng: stream(self.plan.seed ^ salt.wrapping_mul(0x0002_0000_0001), "user"),
            client: None,
        };
        let foreign = self.number >= self.plan.processes;
        let envs: Vec<_> = match foreign {
            true => vec![env(self.number as u64)],
            false => (0..self.plan.users).map(|user| env(incarnation << 8 | user as u64)).collect(),
        };
        if !foreign {
            self.recorder.record(self.environment.now(), Event::Started { process: self.number });
        }
        async move {
            let home = Arc::clone(&process);
            home.start(async move {
                let client = if foreign { None } else { Some(connect(&process, &envs[0]).await) };
                for env in envs {
                    let env = Env { client: client.clone(), ..env };
                    match foreign {
                        true => process.start(workload::foreign::live(env)),
                        false => process.start(workload::live(env)),
                    }
                }
            });
            std::future::pending::<()>().await;
        }
    }
}

/// Connects the client of a process, and tries again until it has.
async fn connect(process: &Arc<Process>, env: &Env) -> Client {
    let url = ServerUrl::parse(&format!("redis://{HOST}")).expect("a host's name makes a URL");
    loop {
        let (url, dialer) = (url.clone(), Arc::new(Dialer(Arc::clone(process))));
        let (number, recorder, environment) =
            (process.number, env.recorder.clone(), Arc::clone(&env.environment));
        let timeout = env.plan.timeout;
        let open = async move || {
            let options = ConnectOptions::default().timeout(timeout);
            let store = Redis::connect_through(&url, options, dialer).await?;
            Ok(Observed { store, process: number, recorder, environment })
        };
        let builder = Client::builder().timeout(timeout).poll_interval(env.plan.poll_interval);
        match builder.connect_over(&FullRuntime(Arc::clone(process)), "sim", open).await {
            Ok(client) => return client,
            Err(_) => pause(CONNECT_AGAIN_AFTER).await,
        }
    }
}
