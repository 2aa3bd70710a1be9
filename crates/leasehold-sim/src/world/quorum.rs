//! Redlock over three simulated servers: the real client, its clients of each node, and the real scripts.
//!
//! Invariant: a fault of one node affects no other node. The three nodes share nothing but time.
//!
//! # How it works
//! Each node is a network of its own, with a server at its far end. A process has a client for each node. The checks are
//! few. At a claim, no other hold is valid by the clock of its own client (Q1, Q4). A wait ends on time (G3). After the
//! end of all users, nothing is left on any node (Q2, G4).

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use leasehold::{Client, QuorumGuard, QuorumLock, Redlock};
use tokio::sync::Notify;

use super::executor::{Executor, Home, spawn};
use super::net::Net;
use super::runtime::SimRuntime;
use super::store::Reach;
use super::timeline::Timeline;
use super::windows::Impairment;
use crate::clock::Clock;
use crate::fault::{Fault, Kind};
use crate::history::Event;
use crate::lifecycle;
use crate::plan::{Plan, stream};
use crate::primitive::Primitive;
use crate::recorder::Recorder;
use crate::schedule::Action;
use crate::wire::Witness;

/// The number of nodes.
const NODES: usize = 3;
/// The name of the lock.
const NAME: &str = "redlock-0";

struct World {
    plan: Arc<Plan>,
    executor: Executor,
    environment: Environment,
    clocks: Vec<Clock>,
    /// The number of starts of each process.
    starts: Vec<u64>,
    /// True for each process that lives.
    alive: Vec<bool>,
}

/// A process, and the hold that it believes to have.
type Believer = (usize, Weak<QuorumGuard>);

/// The environment of the users.
#[derive(Clone)]
struct Environment {
    timeline: Arc<Timeline>,
    nodes: Vec<Net>,
    recorder: Recorder,
    held: Arc<Mutex<Vec<Believer>>>,
}

/// Runs a plan to its end. The recorder has the history.
pub(crate) fn run(plan: &Arc<Plan>, keep: bool) -> Recorder {
    let clocks: Vec<_> = (0..plan.processes).map(|process| plan.clock_of(process)).collect();
    let recorder = Recorder::without_invariants(plan, clocks.clone(), plan.server_clock(), keep);
    let timeline = Arc::new(Timeline::default());
    let nodes = (0..NODES).map(|node| {
        let clock = plan.clock_of(usize::from(u8::MAX) + node);
        // The checks judge the guards of the users, not the scripts that a node executes.
        let unseen = Recorder::without_invariants(plan, clocks.clone(), clock.clone(), false);
        Net::new(&timeline, plan, Witness::new(plan, unseen, clock))
    });
    let nodes = nodes.collect();
    let environment = Environment {
        timeline: Arc::clone(&timeline),
        nodes,
        recorder: recorder.clone(),
        held: Arc::default(),
    };
    let mut world = World {
        plan: Arc::clone(plan),
        executor: Executor::new(&timeline, plan.processes, stream(plan.seed, "schedule")),
        environment,
        clocks,
        starts: vec![0; plan.processes],
        alive: vec![false; plan.processes],
    };
    for process in 0..plan.processes {
        world.start(process);
    }
    lifecycle::live(&mut world);
    recorder
}

impl World {
    fn start(&mut self, process: usize) {
        self.starts[process] += 1;
        self.alive[process] = true;
        let incarnation = (process as u64) << 32 | self.starts[process];
        let plan = Arc::clone(&self.plan);
        let connecting = self.environment.nodes.iter().enumerate().map(|(node, net)| {
            let identity = stream(plan.seed ^ incarnation ^ ((node as u64) << 16), "identity");
            let runtime = SimRuntime {
                timeline: Arc::clone(&self.environment.timeline),
                clock: self.clocks[process].clone(),
                process,
                rng: Arc::new(Mutex::new(identity)),
                jumped: Arc::new(Notify::new()),
            };
            let wire = stream(plan.seed ^ incarnation ^ ((node as u64) << 16), "wire");
            let store = Reach::one(net).lazy(process, wire);
            let builder = Client::builder().timeout(plan.timeout).poll_interval(plan.poll_interval);
            let builder = builder.hand_off(plan.hand_off);
            async move { builder.connect_over(&runtime, "node", async move || Ok(store)).await }
        });
        let connecting: Vec<_> = connecting.collect();
        let environment = self.environment.clone();
        self.record(Event::Started { process });
        spawn(Home::User(process), async move {
            let clients = join_all(connecting).await.into_iter().collect::<Result<Vec<_>, _>>();
            let clients = clients.expect("a store that is there can be opened");
            let builder = Redlock::builder().longest_lease(plan.longest_lease());
            let redlock = builder.over(clients);
            for user in 0..plan.users {
                let rng = stream(
                    plan.seed ^ (incarnation << 8 | user as u64).wrapping_mul(0x0002_0000_0001),
                    "user",
                );
                let (plan, environment, redlock) = (Arc::clone(&plan), environment.clone(), redlock.clone());
                let user = User { plan, environment, process, rng };
                spawn(Home::User(process), user.live(redlock));
            }
        });
    }

    fn record(&self, event: Event) {
        self.environment.recorder.record(self.environment.timeline.now(), event);
    }

    /// Injects a fault between a process and a node, into the node, or into the process.
    fn begin(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        self.record(Event::Fault { index, kind: fault.kind, begins: true });
        let (net, until, process) = (self.node_of(&fault).clone(), fault.ends(), fault.process);
        match fault.kind {
            Kind::DropFutures => {
                self.environment
                    .nodes
                    .iter()
                    .for_each(|net| net.impair(process, Impairment::DropsFutures, until));
            }
            Kind::Pause => self.executor.pause(process, true),
            Kind::Starve => self.executor.starve(process, true),
            Kind::LateRuntime => self.executor.delay(process, true),
            Kind::EndedRuntime => self.executor.end(Home::Callers(process)),
            Kind::Crash => {
                self.environment.nodes.iter().for_each(|net| net.kill(process));
                self.executor.kill(process);
                self.alive[process] = false;
            }
            _ => net.disturb(&fault),
        }
    }

    fn end(&mut self, index: usize) {
        let fault = self.plan.faults[index].clone();
        match fault.kind {
            Kind::HalfOpen => self.node_of(&fault).find_out(fault.process),
            Kind::Pause => self.executor.pause(fault.process, false),
            Kind::Starve => self.executor.starve(fault.process, false),
            Kind::LateRuntime => self.executor.delay(fault.process, false),
            Kind::Crash if !self.alive[fault.process] => self.start(fault.process),
            _ => {}
        }
        self.record(Event::Fault { index, kind: fault.kind, begins: false });
    }

    fn node_of(&self, fault: &Fault) -> &Net {
        &self.environment.nodes[usize::try_from(fault.chance % NODES as u64).unwrap_or_default()]
    }
}

impl lifecycle::World for World {
    fn plan(&self) -> Arc<Plan> {
        Arc::clone(&self.plan)
    }

    fn now(&self) -> Duration {
        self.environment.timeline.now()
    }

    fn recorder(&self) -> &Recorder {
        &self.environment.recorder
    }

    fn users(&self) -> usize {
        self.executor.users()
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Begin(index) => self.begin(index),
            Action::End(index) => self.end(index),
            Action::Replicate => {}
        }
    }

    fn run_until(&mut self, at: Duration) -> bool {
        let Environment { recorder, timeline, .. } = &self.environment;
        if !self.executor.run_until(at, || !recorder.check_time(timeline.now())) {
            recorder.violate(timeline.now(), "L", "the world is caught in a loop at one moment".into());
        }
        recorder.violation().is_none()
    }

    fn left_over(&self) -> (Vec<String>, Vec<String>) {
        let of_each = self
            .environment
            .nodes
            .iter()
            .map(|net| (net.server.left_over(&self.plan), net.server.channels()));
        let (keys, channels): (Vec<_>, Vec<_>) = of_each.unzip();
        (keys.concat(), channels.concat())
    }
}

/// A user that takes the lock again and again.
struct User {
    plan: Arc<Plan>,
    environment: Environment,
    process: usize,
    rng: fastrand::Rng,
}

impl User {
    async fn live(mut self, redlock: Redlock) {
        while self.environment.timeline.now() < self.plan.stop_at {
            self.nap(self.plan.think_max).await;
            let lease = *self.rng.choice(&self.plan.leases).expect("there are leases");
            let lock = redlock.lock(NAME);
            let lock = if self.rng.u8(0..4) == 0 { lock.lease(lease) } else { lock.watchdog(lease) };
            if let Some(guard) = self.acquire(&lock, lease).await {
                self.hold(guard, lease).await;
            }
        }
        if self.rng.u8(0..3) == 0 {
            redlock.close().await;
        }
    }

    async fn nap(&mut self, most: Duration) {
        let span = most.mul_f64(self.rng.f64());
        self.environment.timeline.sleep(span).await;
    }

    /// Acquires in one of three ways. Some requests give up, and some futures are dropped.
    async fn acquire(&mut self, lock: &QuorumLock, lease: Duration) -> Option<Arc<QuorumGuard>> {
        let wait = lease.mul_f64(self.rng.f64() * 1.5);
        let way = self.rng.u8(0..4);
        let request = async {
            match way {
                0 => lock.try_lock().await,
                1 | 2 => lock.try_lock_for(wait).await,
                _ => lock.lock().await.map(Some),
            }
        };
        let given_up_after = match self.environment.nodes[0].drops_futures(self.process) {
            true => lease.mul_f64(self.rng.f64() * 0.5),
            // Longer than any request takes while the nodes answer.
            false => Duration::from_secs(3_600),
        };
        let gives_up = self.environment.timeline.sleep(given_up_after);
        let outcome = match select(std::pin::pin!(request), std::pin::pin!(gives_up)).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(_) => return None,
        };
        let guard = Arc::new(outcome.ok().flatten()?);
        self.environment.claim(self.process, &guard);
        Some(guard)
    }

    /// Holds for a while, or until the hold is lost, and ends it in one of several ways.
    async fn hold(&mut self, guard: Arc<QuorumGuard>, lease: Duration) {
        let span = lease.mul_f64(self.rng.f64() * 1.5);
        let lost = {
            let (span, lost) = (self.environment.timeline.sleep(span), guard.lost());
            matches!(select(span, std::pin::pin!(lost)).await, Either::Right(_))
        };
        if lost && guard.is_held() {
            self.environment.violate("L5", "a hold that was told to be lost is valid".into());
        }
        let guard = Arc::into_inner(guard).expect("only its user keeps a guard");
        match self.rng.u8(0..6) {
            0..=2 => drop(guard.release().await),
            3 => guard.detach(),
            _ => drop(guard),
        }
    }
}

impl Environment {
    /// Checks that no other hold is valid when a new hold begins.
    fn claim(&self, process: usize, guard: &Arc<QuorumGuard>) {
        self.recorder.count(Primitive::Redlock);
        if !guard.is_held() {
            self.violate("M", "a hold is handed out that is not valid".into());
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|(_, guard)| guard.strong_count() > 0);
        for (other, theirs) in &*held {
            if theirs.upgrade().is_some_and(|theirs| theirs.is_held()) {
                let what =
                    format!("process {process} holds it although the hold of process {other} is valid");
                self.violate("Q1", what);
            }
        }
        held.push((process, Arc::downgrade(guard)));
    }

    fn violate(&self, id: &str, what: String) {
        self.recorder.violate(self.timeline.now(), id, what);
    }
}
