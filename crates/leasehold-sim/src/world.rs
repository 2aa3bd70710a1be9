//! The modes of one server and of a fleet: the real client, engine, wire and scripts, over a simulated network.
//!
//! Invariant: the plan and its random numbers decide everything outside the client.

mod carriage;
mod environment;
mod executor;
mod fleet;
mod fleet_answers;
mod foreign;
mod net;
pub(crate) mod quorum;
mod runtime;
mod server;
mod slot_map;
mod socket;
mod store;
mod stream;
mod timeline;
mod windows;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::Client;
use leasehold_store::embedded::Condition;
use tokio::sync::Notify;

use self::environment::SimEnvironment;
use self::executor::{Executor, Home, spawn};
use self::runtime::SimRuntime;
use self::server::Server;
use self::timeline::Timeline;
use self::windows::Impairment;
use crate::clock::Clock;
use crate::environment::{Env, Environment};
use crate::fault::{Fault, Kind};
use crate::history::Event;
use crate::lifecycle;
use crate::observe::{Book, Observed};
use crate::plan::{Plan, stream};
use crate::primitive::Primitive;
use crate::recorder::Recorder;
use crate::schedule::Action;
use crate::wire::Witness;
use crate::workload;

/// The pause between two attempts of a process to connect.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(100);

struct World {
    plan: Arc<Plan>,
    executor: Executor,
    environment: Arc<SimEnvironment>,
    clocks: Vec<Clock>,
    /// The signal of each process that its clock has jumped, for which the alarms of the process wait.
    jumped: Vec<Arc<Notify>>,
    recorder: Recorder,
    /// The number of starts of each process.
    starts: Vec<u64>,
    /// True for each process that lives.
    alive: Vec<bool>,
}

/// Runs a plan to its end. The recorder has the history.
pub(crate) fn run(plan: &Arc<Plan>, keep: bool) -> Recorder {
    let clocks: Vec<_> = (0..plan.processes).map(|process| plan.clock_of(process)).collect();
    let server_clock = plan.server_clock();
    let recorder = Recorder::new(plan, clocks.clone(), server_clock.clone(), keep);
    let timeline = Arc::new(Timeline::default());
    let witness = Witness::new(plan, recorder.clone(), server_clock);
    let environment = SimEnvironment::new(&timeline, plan, witness);
    let mut world = World {
        plan: Arc::clone(plan),
        executor: Executor::new(&timeline, plan.processes + plan.foreigners, stream(plan.seed, "schedule")),
        environment: Arc::new(environment),
        clocks,
        jumped: (0..plan.processes).map(|_| Arc::default()).collect(),
        recorder: recorder.clone(),
        starts: vec![0; plan.processes],
        alive: vec![false; plan.processes],
    };
    world.live();
    recorder
}

impl World {
    fn live(&mut self) {
        for process in 0..self.plan.processes {
            self.start(process);
        }
        for foreigner in self.plan.processes..self.plan.processes + self.plan.foreigners {
            let env = self.env(foreigner, foreigner as u64, None);
            spawn(Home::User(foreigner), workload::foreign::live(env));
        }
        lifecycle::live(self);
    }

    fn begin(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        self.record(Event::Fault { index, kind: fault.kind, begins: true });
        let (net, until) = (self.environment.net_of(&fault).clone(), fault.ends());
        let place = self.environment.net_at(&fault).clone();
        match fault.kind {
            Kind::RequestsStall
            | Kind::RepliesStall
            | Kind::Partition
            | Kind::Reset
            | Kind::Slow
            | Kind::HalfOpen
            | Kind::Torn
            | Kind::SlowReader
            | Kind::Duplicate
            | Kind::MessagesLost
            | Kind::ServerFreeze
            | Kind::Restart => net.disturb(&fault),
            Kind::RestartEmpty => {
                place.disturb(&fault);
                self.environment.lose_replicas();
            }
            Kind::Failover | Kind::SplitBrain | Kind::Switch | Kind::Migration | Kind::ReplicasAway => {
                self.environment.change(&fault);
            }
            Kind::Refuse => {
                for process in 0..self.plan.processes + self.plan.foreigners {
                    net.impair(process, Impairment::Refused, until);
                    net.reset(process);
                }
            }
            Kind::DropFutures => {
                self.environment.reach.nets[0].impair(fault.process, Impairment::DropsFutures, until);
            }
            Kind::ForgetScripts => place.server.forget_scripts(),
            Kind::OutOfMemory => place.server.refuse(Some(Condition::OutOfMemory)),
            Kind::ReadOnly => place.server.refuse(Some(Condition::ReadOnly)),
            Kind::Busy => place.server.refuse(Some(Condition::Busy)),
            Kind::ServerClockForward => net.server.jump(fault.jump_ns()),
            Kind::ServerClockBack => net.server.jump(-fault.jump_ns()),
            Kind::Delete => place.server.delete(&fault.name),
            Kind::ForceRelease => {
                for mut call in Primitive::force_release(&fault.name) {
                    call.set_arg("publish", self.environment.publish());
                    place.server.operate(&call);
                }
                place.ship();
            }
            Kind::ClockForward
            | Kind::Pause
            | Kind::Starve
            | Kind::LateRuntime
            | Kind::EndedRuntime
            | Kind::Crash => self.hit(&fault),
        }
    }

    /// Injects a fault into a process itself. Foreign clients are spared.
    fn hit(&mut self, fault: &Fault) {
        let process = fault.process;
        if process >= self.plan.processes {
            return;
        }
        match fault.kind {
            Kind::ClockForward => {
                self.clocks[process].jump(fault.jump_ns());
                self.jumped[process].notify_waiters();
            }
            Kind::Pause => {
                self.executor.pause(process, true);
                self.recorder.pause(self.environment.now(), process, true);
            }
            Kind::Starve => {
                self.executor.starve(process, true);
                self.recorder.pause(self.environment.now(), process, true);
            }
            Kind::LateRuntime => self.executor.delay(process, true),
            Kind::EndedRuntime => self.executor.end(Home::Callers(process)),
            _ => {
                self.recorder.pause(self.environment.now(), process, false);
                self.recorder.kill(self.environment.now(), process);
                self.environment.reach.nets.iter().for_each(|net| net.kill(process));
                self.executor.kill(process);
                self.alive[process] = false;
            }
        }
    }

    fn end(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        match fault.kind {
            // Another fault of this kind is still active.
            _ if self.lasts_elsewhere(index) => {}
            Kind::OutOfMemory | Kind::ReadOnly | Kind::Busy => {
                self.environment.servers().for_each(|server| server.refuse(None));
            }
            Kind::HalfOpen => self.environment.net_of(&fault).find_out(fault.process),
            Kind::Migration | Kind::ReplicasAway | Kind::SplitBrain => self.environment.end_change(&fault),
            Kind::Pause | Kind::Starve if fault.process < self.plan.processes => {
                self.executor.pause(fault.process, false);
                self.executor.starve(fault.process, false);
                self.recorder.pause(self.environment.now(), fault.process, false);
            }
            Kind::LateRuntime if fault.process < self.plan.processes => {
                self.executor.delay(fault.process, false);
            }
            Kind::Crash if self.alive.get(fault.process) == Some(&false) => self.start(fault.process),
            _ => {}
        }
        self.record(Event::Fault { index, kind: fault.kind, begins: false });
    }

    /// Returns true if another fault with the same effect is still active.
    fn lasts_elsewhere(&self, index: usize) -> bool {
        let (ended, now) = (&self.plan.faults[index], self.environment.now());
        self.plan.faults.iter().enumerate().any(|(other, fault)| {
            let same_place = match fault.kind {
                Kind::HalfOpen => self.environment.are_on_one_net(fault, ended),
                Kind::Migration => fault.name == ended.name,
                _ => true,
            };
            let same = fault.kind == ended.kind && fault.process == ended.process && same_place;
            other != index && same && fault.begins <= now && fault.ends() > now
        })
    }

    /// Starts a process: its client, and its users once the client has connected.
    fn start(&mut self, process: usize) {
        self.starts[process] += 1;
        self.alive[process] = true;
        let incarnation = (process as u64) << 32 | self.starts[process];
        let runtime = SimRuntime {
            timeline: Arc::clone(&self.environment.timeline),
            clock: self.clocks[process].clone(),
            process,
            rng: Arc::new(Mutex::new(stream(self.plan.seed ^ incarnation, "identity"))),
            jumped: Arc::clone(&self.jumped[process]),
        };
        let client = self.connected(process, runtime, stream(self.plan.seed ^ incarnation, "wire"));
        let envs: Vec<_> = (0..self.plan.users)
            .map(|user| self.env(process, incarnation << 8 | user as u64, None))
            .collect();
        self.record(Event::Started { process });
        spawn(Home::User(process), async move {
            let client = client.await;
            for env in envs {
                spawn(Home::User(process), workload::live(Env { client: Some(client.clone()), ..env }));
            }
        });
    }

    /// Connects the client of a process, and tries again until it has.
    fn connected(
        &self,
        process: usize,
        runtime: SimRuntime,
        mut rng: fastrand::Rng,
    ) -> impl Future<Output = Client> + use<> {
        let (environment, recorder, plan) =
            (Arc::clone(&self.environment), self.recorder.clone(), Arc::clone(&self.plan));
        async move {
            loop {
                let builder = Client::builder().timeout(plan.timeout).poll_interval(plan.poll_interval);
                let builder = builder.hand_off(plan.hand_off);
                let (reach, rng) = (environment.reach.clone(), rng.fork());
                let (recorder, observing) = (recorder.clone(), Arc::clone(&environment));
                let open = async move || {
                    let store = reach.connect(process, rng).await?;
                    Ok(Observed { store, book: Book { process, recorder, environment: observing } })
                };
                match builder.connect_over(&runtime, "sim", open).await {
                    Ok(client) => return client,
                    Err(_) => environment.timeline.sleep(CONNECT_AGAIN_AFTER).await,
                }
            }
        }
    }

    fn env(&self, process: usize, salt: u64, client: Option<Client>) -> Env {
        Env {
            environment: self.environment.clone(),
            plan: Arc::clone(&self.plan),
            recorder: self.recorder.clone(),
            process,
            rng: stream(self.plan.seed ^ salt.wrapping_mul(0x0002_0000_0001), "user"),
            client,
        }
    }

    fn record(&self, event: Event) {
        self.recorder.record(self.environment.now(), event);
    }

    fn violate(&self, id: &'static str, what: String) {
        self.recorder.violate(self.environment.now(), id, what);
    }
}

impl lifecycle::World for World {
    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn now(&self) -> Duration {
        self.environment.now()
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn users(&self) -> usize {
        self.executor.users()
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Begin(index) => self.begin(index),
            Action::End(index) => self.end(index),
            Action::Replicate => self.environment.replicate(),
        }
    }

    fn run_until(&mut self, at: Duration) -> bool {
        let (recorder, environment) = (&self.recorder, &self.environment);
        let went_on = self.executor.run_until(at, || !recorder.check_time(environment.now()));
        if !went_on {
            self.violate("L", "the world is caught in a loop at one moment".into());
        }
        self.recorder.violation().is_none()
    }

    fn left_over(&self) -> (Vec<String>, Vec<String>) {
        let servers = || self.environment.servers();
        let keys = servers().flat_map(|server| server.left_over(&self.plan)).collect();
        (keys, servers().flat_map(Server::channels).collect())
    }
}
