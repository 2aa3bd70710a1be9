//! The fast mode: the real client, engine and scripts, over a simulated store.
//!
//! Invariant: the plan and its random numbers decide everything outside the client.

mod executor;
mod net;
pub(crate) mod quorum;
mod runtime;
mod server;
mod store;
mod timeline;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold::Client;
use leasehold_store::embedded::{Condition, Frame};
use tokio::sync::Notify;

use self::executor::{Executor, Home, spawn};
use self::net::{Impairment, Net, Placed};
use self::runtime::FastRuntime;
use self::server::{Server, Work};
use self::store::FastStore;
use self::timeline::Timeline;
use crate::clock::Clock;
use crate::environment::{Env, Environment};
use crate::fault::{Fault, Kind};
use crate::history::Event;
use crate::lifecycle;
use crate::observe::Observed;
use crate::plan::{Plan, stream};
use crate::primitive::Primitive;
use crate::recorder::Recorder;
use crate::schedule::{Action, replicated_at};
use crate::workload;

struct World {
    plan: Arc<Plan>,
    executor: Executor,
    environment: Arc<FastEnvironment>,
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
    let server = Server::new(plan, server_clock, recorder.clone());
    let net = Net::new(&timeline, plan, server);
    let mut world = World {
        plan: Arc::clone(plan),
        executor: Executor::new(&timeline, plan.processes + plan.foreigners, stream(plan.seed, "schedule")),
        environment: Arc::new(FastEnvironment { timeline, net }),
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
        let (net, until) = (self.environment.net.clone(), fault.ends());
        let process = fault.process;
        let impair = |impairment| net.impair(process, impairment, until);
        match fault.kind {
            Kind::RequestsStall => impair(Impairment::RequestsStall),
            Kind::RepliesStall => impair(Impairment::RepliesStall),
            Kind::Partition => {
                impair(Impairment::RequestsStall);
                impair(Impairment::RepliesStall);
            }
            Kind::Reset => net.reset(process),
            Kind::Refuse => {
                for process in 0..self.plan.processes + self.plan.foreigners {
                    net.impair(process, Impairment::Refused, until);
                    net.reset(process);
                }
            }
            Kind::Slow => impair(Impairment::Slow),
            Kind::Duplicate => impair(Impairment::Repeated),
            Kind::MessagesLost => impair(Impairment::MessagesLost),
            Kind::DropFutures => impair(Impairment::DropsFutures),
            Kind::ServerFreeze => net.with_server(|server, _| {
                server.frozen_until = server.frozen_until.max(until);
            }),
            Kind::Restart | Kind::RestartEmpty => {
                let keeps = fault.kind == Kind::Restart;
                net.with_server(|server, now| server.restart(now, until, keeps));
                net.cut_all();
            }
            Kind::Failover => {
                net.with_server(|server, _| server.fail_over(replicated_at(&fault), until));
                net.cut_all();
            }
            Kind::OutOfMemory => net.with_server(|server, _| server.refuse(Some(Condition::OutOfMemory))),
            Kind::ReadOnly => net.with_server(|server, _| server.refuse(Some(Condition::ReadOnly))),
            Kind::Busy => net.with_server(|server, _| server.refuse(Some(Condition::Busy))),
            Kind::ServerClockForward => net.with_server(|server, _| server.jump(fault.jump_ns())),
            Kind::ServerClockBack => net.with_server(|server, _| server.jump(-fault.jump_ns())),
            Kind::Delete => net.with_server(|server, now| server.delete(now, &fault.name)),
            Kind::ForceRelease => {
                Primitive::force_release(&fault.name)
                    .into_iter()
                    .for_each(|call| net.operate(&Work::Call(call)));
            }
            Kind::ClockForward | Kind::Pause | Kind::Starve | Kind::Crash => self.hit(&fault),
            Kind::ForgetScripts => {}
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
            _ => {
                self.recorder.pause(self.environment.now(), process, false);
                self.recorder.kill(self.environment.now(), process);
                self.executor.kill(process);
                self.environment.net.reset(process);
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
                self.environment.net.with_server(|server, _| server.refuse(None));
            }
            Kind::Pause | Kind::Starve if fault.process < self.plan.processes => {
                self.executor.pause(fault.process, false);
                self.executor.starve(fault.process, false);
                self.recorder.pause(self.environment.now(), fault.process, false);
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
            let same = fault.kind == ended.kind && fault.process == ended.process;
            other != index && same && fault.begins <= now && fault.ends() > now
        })
    }

    /// Starts a process: its client, and its users once the client has connected.
    fn start(&mut self, process: usize) {
        self.starts[process] += 1;
        self.alive[process] = true;
        let incarnation = (process as u64) << 32 | self.starts[process];
        let runtime = FastRuntime {
            timeline: Arc::clone(&self.environment.timeline),
            clock: self.clocks[process].clone(),
            process,
            rng: Arc::new(Mutex::new(stream(self.plan.seed ^ incarnation, "identity"))),
            jumped: Arc::clone(&self.jumped[process]),
        };
        let builder = Client::builder().timeout(self.plan.timeout).poll_interval(self.plan.poll_interval);
        let observed = {
            let (net, recorder) = (self.environment.net.clone(), self.recorder.clone());
            let environment: Arc<dyn Environment> = self.environment.clone();
            Observed { store: FastStore { net, process }, process, recorder, environment }
        };
        let connecting =
            async move { builder.connect_over(&runtime, "sim", async move || Ok(observed)).await };
        let envs: Vec<_> = (0..self.plan.users)
            .map(|user| self.env(process, incarnation << 8 | user as u64, None))
            .collect();
        self.record(Event::Started { process });
        spawn(Home::User(process), async move {
            let client = connecting.await.expect("a store that is there can be opened");
            for env in envs {
                spawn(Home::User(process), workload::live(Env { client: Some(client.clone()), ..env }));
            }
        });
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
            Action::Replicate => self.environment.net.with_server(Server::replicate),
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
        self.environment.net.with_server(|server, now| (server.left_over(now, &self.plan), server.channels()))
    }
}

/// The environment of the workloads in the fast mode.
struct FastEnvironment {
    timeline: Arc<Timeline>,
    net: Net,
}

impl Environment for FastEnvironment {
    fn now(&self) -> Duration {
        self.timeline.now()
    }

    fn sleep(&self, span: Duration) -> BoxFuture<'static, ()> {
        self.timeline.sleep(span).boxed()
    }

    fn command(&self, process: usize, command: Vec<Vec<u8>>) -> BoxFuture<'static, Option<Frame>> {
        let Placed { answer, .. } = self.net.put(process, Work::Command(command));
        async move { answer.await.ok().and_then(Result::ok) }.boxed()
    }

    fn drops_futures(&self, process: usize) -> bool {
        self.net.drops_futures(process)
    }
}
