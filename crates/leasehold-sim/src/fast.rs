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
use self::net::{Net, Placed, Trouble};
use self::runtime::FastRuntime;
use self::server::{Server, Work};
use self::store::FastStore;
use self::timeline::Timeline;
use crate::clock::Clock;
use crate::fault::{Fault, Kind};
use crate::ground::{Env, Ground};
use crate::history::Event;
use crate::life;
use crate::observe::Observed;
use crate::plan::{Plan, stream};
use crate::primitive::Primitive;
use crate::recorder::Recorder;
use crate::schedule::{Turn, replicated_at};
use crate::workload;

struct World {
    plan: Arc<Plan>,
    executor: Executor,
    ground: Arc<FastGround>,
    clocks: Vec<Clock>,
    /// The signal of each process that its clock has jumped; its alarms wait for it.
    jumped: Vec<Arc<Notify>>,
    recorder: Recorder,
    /// The number of starts of each process.
    lives: Vec<u64>,
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
        ground: Arc::new(FastGround { timeline, net }),
        clocks,
        jumped: (0..plan.processes).map(|_| Arc::default()).collect(),
        recorder: recorder.clone(),
        lives: vec![0; plan.processes],
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
        life::live(self);
    }

    fn begin(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        self.record(Event::Fault { index, kind: fault.kind, begins: true });
        let (net, until) = (self.ground.net.clone(), fault.ends());
        let process = fault.process;
        let trouble = |trouble| net.trouble(process, trouble, until);
        match fault.kind {
            Kind::RequestsStall => trouble(Trouble::RequestsStall),
            Kind::RepliesStall => trouble(Trouble::RepliesStall),
            Kind::Partition => {
                trouble(Trouble::RequestsStall);
                trouble(Trouble::RepliesStall);
            }
            Kind::Reset => net.reset(process),
            Kind::Refuse => {
                for process in 0..self.plan.processes + self.plan.foreigners {
                    net.trouble(process, Trouble::Refused, until);
                    net.reset(process);
                }
            }
            Kind::Slow => trouble(Trouble::Slow),
            Kind::Duplicate => trouble(Trouble::Repeated),
            Kind::MessagesLost => trouble(Trouble::MessagesLost),
            Kind::DropFutures => trouble(Trouble::DropsFutures),
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

    /// Injects a fault into a process itself; foreign clients are spared.
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
                self.recorder.pause(self.ground.now(), process, true);
            }
            Kind::Starve => {
                self.executor.starve(process, true);
                self.recorder.pause(self.ground.now(), process, true);
            }
            _ => {
                self.recorder.pause(self.ground.now(), process, false);
                self.recorder.kill(self.ground.now(), process);
                self.executor.kill(process);
                self.ground.net.reset(process);
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
                self.ground.net.with_server(|server, _| server.refuse(None));
            }
            Kind::Pause | Kind::Starve if fault.process < self.plan.processes => {
                self.executor.pause(fault.process, false);
                self.executor.starve(fault.process, false);
                self.recorder.pause(self.ground.now(), fault.process, false);
            }
            Kind::Crash if self.alive.get(fault.process) == Some(&false) => self.start(fault.process),
            _ => {}
        }
        self.record(Event::Fault { index, kind: fault.kind, begins: false });
    }

    /// Returns true if another fault with the same effect is still active.
    fn lasts_elsewhere(&self, index: usize) -> bool {
        let (ended, now) = (&self.plan.faults[index], self.ground.now());
        self.plan.faults.iter().enumerate().any(|(other, fault)| {
            let same = fault.kind == ended.kind && fault.process == ended.process;
            other != index && same && fault.begins <= now && fault.ends() > now
        })
    }

    /// Starts a process: its client, and its users once the client has connected.
    fn start(&mut self, process: usize) {
        self.lives[process] += 1;
        self.alive[process] = true;
        let life = (process as u64) << 32 | self.lives[process];
        let runtime = FastRuntime {
            timeline: Arc::clone(&self.ground.timeline),
            clock: self.clocks[process].clone(),
            process,
            rng: Arc::new(Mutex::new(stream(self.plan.seed ^ life, "identity"))),
            jumped: Arc::clone(&self.jumped[process]),
        };
        let builder = Client::builder().timeout(self.plan.timeout).poll_interval(self.plan.poll_interval);
        let observed = {
            let (net, recorder) = (self.ground.net.clone(), self.recorder.clone());
            let ground: Arc<dyn Ground> = self.ground.clone();
            Observed { store: FastStore { net, process }, process, recorder, ground }
        };
        let connecting =
            async move { builder.connect_over(&runtime, "sim", async move || Ok(observed)).await };
        let envs: Vec<_> =
            (0..self.plan.users).map(|user| self.env(process, life << 8 | user as u64, None)).collect();
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
            ground: self.ground.clone(),
            plan: Arc::clone(&self.plan),
            recorder: self.recorder.clone(),
            process,
            rng: stream(self.plan.seed ^ salt.wrapping_mul(0x0002_0000_0001), "user"),
            client,
        }
    }

    fn record(&self, event: Event) {
        self.recorder.record(self.ground.now(), event);
    }

    fn violate(&self, id: &'static str, what: String) {
        self.recorder.violate(self.ground.now(), id, what);
    }
}

impl life::World for World {
    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn now(&self) -> Duration {
        self.ground.now()
    }

    fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn users(&self) -> usize {
        self.executor.users()
    }

    fn turn(&mut self, turn: Turn) {
        match turn {
            Turn::Begin(index) => self.begin(index),
            Turn::End(index) => self.end(index),
            Turn::Replicate => self.ground.net.with_server(Server::replicate),
        }
    }

    fn run_until(&mut self, at: Duration) -> bool {
        let (recorder, ground) = (&self.recorder, &self.ground);
        let went_on = self.executor.run_until(at, || !recorder.look(ground.now()));
        if !went_on {
            self.violate("L", "the world is caught in a loop at one moment".into());
        }
        self.recorder.violation().is_none()
    }

    fn left_over(&self) -> (Vec<String>, Vec<String>) {
        self.ground.net.with_server(|server, now| (server.left_over(now, &self.plan), server.channels()))
    }
}

/// The environment of the workloads in the fast mode.
struct FastGround {
    timeline: Arc<Timeline>,
    net: Net,
}

impl Ground for FastGround {
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
