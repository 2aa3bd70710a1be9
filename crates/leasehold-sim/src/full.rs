//! The full mode: the real client with the real redis-rs, over a simulated network, against the embedded server behind
//! its listener.
//!
//! Invariant: the plan and its seed determine every host and link. A crashed host leaves only the data that its fault
//! allows.
//!
//! # How it works
//! The server and each process are hosts of one `turmoil` simulation, which steps by a millisecond. No timer is finer,
//! so all hosts have the same time within a step. A message takes one step at least, so no host sees another host's
//! future. The world begins and ends faults between two steps, the only time of changes from outside.

mod active_faults;
mod barrier;
mod client_runtime;
mod cuts;
mod environment;
mod faults;
mod host;
mod hosts;
mod net;
mod parse;
mod process;
mod runtime;
mod server;
mod server_socket;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turmoil::{Builder, Sim};

use self::active_faults::ActiveFaults;
use self::cuts::Cuts;
use self::environment::FullEnvironment;
use self::host::Host;
use self::hosts::{HOST, PROCESS};
use self::process::Truth;
use self::server::{Server, run_host};
use crate::clock::Clock;
use crate::lifecycle;
use crate::plan::{Plan, stream};
use crate::recorder::Recorder;
use crate::schedule::Action;

/// One step of the simulation.
const STEP: Duration = Duration::from_millis(1);

/// Runs a plan to its end. The recorder has the history.
pub(crate) fn run(plan: &Arc<Plan>, keep: bool) -> Recorder {
    let clocks: Vec<_> = (0..plan.processes).map(|process| plan.clock_of(process)).collect();
    let server_clock = plan.server_clock();
    let recorder = Recorder::new(plan, clocks.clone(), server_clock.clone(), keep);
    let (truth, cuts) = (Truth::default(), Cuts::default());
    let server = Arc::new(Server::new(plan, truth.clone(), cuts.clone(), server_clock, recorder.clone()));
    let environment = Arc::new(FullEnvironment {
        truth: truth.clone(),
        cuts,
        timeout: plan.timeout,
        processes: Mutex::default(),
        dropping: Mutex::new(BTreeSet::new()),
    });
    let mut sim = Builder::new()
        .tick_duration(STEP)
        .simulation_duration(Duration::MAX)
        .min_message_latency(STEP)
        .max_message_latency(usual_latency(plan))
        .rng_seed(stream(plan.seed, "network").u64(..))
        .build();
    let hosted = Arc::clone(&server);
    sim.host(HOST, move || run_host(Arc::clone(&hosted)));
    let active_faults = ActiveFaults::new(plan, clocks.clone());
    let mut world = World {
        plan: Arc::clone(plan),
        sim,
        truth,
        server,
        environment,
        recorder: recorder.clone(),
        active_faults,
    };
    world.settle(clocks);
    lifecycle::live(&mut world);
    recorder
}

/// Returns the longest travel time of a message in a healthy network.
fn usual_latency(plan: &Plan) -> Duration {
    STEP + Duration::from_millis(u64::try_from(plan.latency_max.as_millis()).unwrap_or(u64::MAX).max(1))
}

struct World {
    plan: Arc<Plan>,
    sim: Sim<'static>,
    truth: Truth,
    server: Arc<Server>,
    environment: Arc<FullEnvironment>,
    recorder: Recorder,
    active_faults: ActiveFaults,
}

impl World {
    /// Creates the host of every process.
    fn settle(&mut self, clocks: Vec<Clock>) {
        for number in 0..self.plan.processes + self.plan.foreigners {
            let host = Host {
                number,
                plan: Arc::clone(&self.plan),
                environment: Arc::clone(&self.environment),
                recorder: self.recorder.clone(),
                // A foreign client reads no clock of its own.
                clock: clocks.get(number).cloned().unwrap_or_else(|| self.plan.clock_of(number)),
                starts: Mutex::new(0),
            };
            self.sim.host(format!("{PROCESS}{number}"), move || {
                let process = host.begin();
                let running = host.live(process);
                async move {
                    running.await;
                    Ok(())
                }
            });
        }
    }
}

impl lifecycle::World for World {
    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn now(&self) -> Duration {
        self.truth.now()
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn users(&self) -> usize {
        let hosts = self.plan.processes + self.plan.foreigners;
        (0..hosts).map(|number| self.environment.process(number).users()).sum()
    }

    fn apply(&mut self, action: Action) {
        self.carry_through(&action);
    }

    fn run_until(&mut self, at: Duration) -> bool {
        while self.sim.elapsed() < at {
            self.sim.step().expect("no host ends with an error");
            self.truth.pass(self.sim.elapsed());
            self.recorder.check_time(self.truth.now());
            if self.recorder.violation().is_some() {
                return false;
            }
        }
        true
    }

    fn left_over(&self) -> (Vec<String>, Vec<String>) {
        (self.server.left_over(&self.plan), self.server.channels())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::mode::Mode;

    /// The last seed kills a process with two streams, whose FINs left in an order that varied between runs.
    const SEEDS: [u64; 4] = [0, 1, 2, 100_600];

    fn histories() -> String {
        let plans = SEEDS.map(|seed| Arc::new(Plan::from_seed(seed, Mode::Full)));
        let hashes = plans.map(|plan| format!("{:016x}", run(&plan, false).hash()));
        format!("histories {}", hashes.join(" "))
    }

    #[test]
    fn histories_are_printed() {
        println!("{}", histories());
    }

    #[test]
    fn a_seed_has_one_history_in_every_process() {
        let here = histories();
        assert_eq!(here, histories());
        let told = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "full::tests::histories_are_printed", "--nocapture"])
            .output()
            .unwrap();
        let told = String::from_utf8(told.stdout).unwrap();
        assert!(told.contains(&here), "{here} there: {told}");
    }
}
