//! The simulated network: the links of the processes, and the streams over them.
//!
//! Invariant: the bytes of one stream arrive in order and once. A stream that is cut delivers nothing that the server's
//! machine has not received, but a frozen server still executes what it has received (docs/guarantees.md, rule 3).
//!
//! # How it works
//! A process dials streams, writes to them, and takes what happened to them from its inbox. `carriage` moves the bytes,
//! and `windows` has the periods of faults. The network knows nothing of commands: the server's end of a stream is a
//! session of the embedded server.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use fastrand::Rng;
use leasehold_store::embedded;

use super::executor::{Home, spawn};
use super::fleet::Fleet;
use super::server::{self, Node, Outages, Server};
use super::stream::{Happened, Stream, StreamId};
use super::timeline::Timeline;
use super::windows::{Impairment, Windows};
use crate::fault::{Fault, Kind};
use crate::plan::{Plan, Shape, stream};
use crate::wire::Witness;

/// The network of a world. Clones are the same network.
#[derive(Clone)]
pub(super) struct Net(Arc<Inner>);

pub(super) struct Inner {
    pub(super) timeline: Arc<Timeline>,
    pub(super) plan: Arc<Plan>,
    pub(super) server: Server,
    pub(super) windows: Windows,
    state: Mutex<State>,
}

pub(super) struct State {
    links: Vec<Link>,
    plan: Arc<Plan>,
    pub(super) windows: Windows,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) outages: Outages,
    pub(super) rng: Rng,
    last_stream: u64,
}

/// The link of one process.
#[derive(Default)]
struct Link {
    /// The number of kills of the process.
    lives: u64,
    /// What happened to the streams of the process, in order.
    inbox: VecDeque<(StreamId, Happened)>,
    waker: Option<Waker>,
}

impl Deref for Net {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Net {
    pub(super) fn new(timeline: &Arc<Timeline>, plan: &Arc<Plan>, witness: Witness) -> Self {
        let embedded = server::embedded(timeline, &witness);
        let windows = Windows::new(timeline, plan.processes + plan.foreigners);
        let server = Server::new(plan, &windows, timeline, (witness, embedded), None);
        Self::to(timeline, plan, server, (windows, stream(plan.seed, "network")))
    }

    /// Creates the networks of the nodes of a fleet.
    pub(super) fn of_fleet(
        timeline: &Arc<Timeline>,
        plan: &Arc<Plan>,
        witness: &Witness,
        shape: Shape,
    ) -> (Vec<Self>, Arc<Fleet>) {
        let embedded = || server::embedded(timeline, witness);
        let processes: Vec<_> = std::iter::repeat_with(embedded).take(Fleet::nodes_of(shape)).collect();
        let fleet = Arc::new(Fleet::new(plan, shape, timeline, processes.clone()));
        let net = |(number, process): (usize, Arc<embedded::Server>)| {
            let windows = Windows::new(timeline, plan.processes + plan.foreigners);
            let node = Node { fleet: Arc::clone(&fleet), number };
            let server = Server::new(plan, &windows, timeline, (witness.clone(), process), Some(node));
            Self::to(timeline, plan, server, (windows, stream(plan.seed, &format!("network {number}"))))
        };
        let nets = processes.into_iter().enumerate().map(net).collect();
        (nets, fleet)
    }

    fn to(
        timeline: &Arc<Timeline>,
        plan: &Arc<Plan>,
        server: Server,
        (windows, rng): (Windows, Rng),
    ) -> Self {
        let links = plan.processes + plan.foreigners;
        let state = State {
            links: (0..links).map(|_| Link::default()).collect(),
            plan: Arc::clone(plan),
            windows: windows.clone(),
            streams: BTreeMap::new(),
            outages: Outages::default(),
            rng,
            last_stream: 0,
        };
        let (timeline, plan) = (Arc::clone(timeline), Arc::clone(plan));
        Self(Arc::new(Inner { timeline, plan, server, windows, state: Mutex::new(state) }))
    }

    /// Injects a fault of this network, or of the server behind it. Faults of other kinds are the world's.
    pub(super) fn disturb(&self, fault: &Fault) {
        let (process, until) = (fault.process, fault.ends());
        let impair = |impairment| self.impair(process, impairment, until);
        match fault.kind {
            Kind::RequestsStall => impair(Impairment::RequestsStall),
            Kind::RepliesStall => impair(Impairment::RepliesStall),
            Kind::Partition => {
                impair(Impairment::RequestsStall);
                impair(Impairment::RepliesStall);
            }
            Kind::Reset => self.reset(process),
            Kind::Slow => impair(Impairment::Slow),
            Kind::HalfOpen => self.halve(process),
            Kind::Torn => impair(Impairment::Torn),
            Kind::SlowReader => impair(Impairment::Trickles),
            Kind::Duplicate => impair(Impairment::Repeated),
            Kind::MessagesLost => impair(Impairment::MessagesLost),
            Kind::ServerFreeze => self.freeze(until),
            Kind::Restart | Kind::RestartEmpty => self.restart(until, fault.kind == Kind::Restart),
            _ => {}
        }
    }

    /// Begins an effect of a fault on the link of a process.
    pub(super) fn impair(&self, process: usize, impairment: Impairment, until: Duration) {
        self.windows.begin(process, impairment, until);
    }

    /// Ends all streams of a process.
    pub(super) fn reset(&self, process: usize) {
        let mut state = self.state();
        for id in state.streams_of(|stream| stream.process == process) {
            state.break_stream(self.timeline.now(), id);
        }
    }

    /// Ends a process. Its machine resets its streams.
    pub(super) fn kill(&self, process: usize) {
        let mut state = self.state();
        let link = &mut state.links[process];
        link.lives += 1;
        link.inbox.clear();
        link.waker = None;
        for id in state.streams_of(|stream| stream.process == process) {
            state.reset_stream(self.timeline.now(), id);
        }
    }

    /// Lets the streams of a process lead nowhere. No end learns of it.
    pub(super) fn halve(&self, process: usize) {
        let mut state = self.state();
        state.streams.values_mut().filter(|stream| stream.process == process).for_each(Stream::halve);
    }

    /// Lets both machines find out that streams of a process led nowhere.
    pub(super) fn find_out(&self, process: usize) {
        let mut state = self.state();
        for id in state.streams_of(|stream| stream.process == process && stream.is_half) {
            state.break_stream(self.timeline.now(), id);
            state.end_session(id);
        }
    }

    /// Freezes the server.
    pub(super) fn freeze(&self, until: Duration) {
        let outages = &mut self.state().outages;
        outages.frozen_until = outages.frozen_until.max(until);
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.state().outages.frozen_until > self.timeline.now()
    }

    /// Restarts the server process.
    pub(super) fn restart(&self, back_at: Duration, keeps_data: bool) {
        self.take_down(back_at);
        self.server.restart(back_at, keeps_data);
    }

    /// Replaces the server with a replica.
    pub(super) fn fail_over(&self, seen_until: Duration, back_at: Duration) {
        self.take_down(back_at);
        self.server.fail_over(&self.state().outages, seen_until);
    }

    pub(super) fn replicate(&self) {
        self.server.replicate(&mut self.state().outages);
    }

    /// Ends the sharded subscriptions to slots that the server does not serve any more.
    pub(super) fn leave_shards(&self, which: impl Fn(&[u8]) -> bool) {
        for stream in self.state().streams.values_mut() {
            if let Some(session) = &mut stream.session {
                session.leave_shards(&which);
            }
        }
        self.ship();
    }

    /// Ends all sessions, with the requests that the server's machine has received.
    pub(super) fn take_down(&self, back_at: Duration) {
        let mut state = self.state();
        state.outages.down_until = state.outages.down_until.max(back_at);
        for id in state.streams_of(|_| true) {
            state.break_stream(self.timeline.now(), id);
            state.end_session(id);
        }
    }

    pub(super) fn drops_futures(&self, process: usize) -> bool {
        self.windows.holds(process, Impairment::DropsFutures)
    }

    /// Executes a command again, some time after its first execution.
    pub(super) fn repeat_later(&self, process: usize, command: Vec<Vec<u8>>) {
        let latest = self.plan.quiesce_at.saturating_sub(self.timeline.now());
        let later = self.plan.longest_lease().mul_f64(self.state().rng.f64() * 2.0).min(latest);
        let net = self.clone();
        spawn(Home::World, async move {
            net.timeline.sleep(later).await;
            let now = net.timeline.now();
            let is_away = {
                let Outages { down_until, frozen_until, .. } = net.state().outages;
                now < down_until || now < frozen_until
            };
            if !is_away {
                net.server.repeat(process, &command);
                net.ship();
            }
        });
    }

    /// Returns the number of kills of a process.
    pub(super) fn lives(&self, process: usize) -> u64 {
        self.state().links[process].lives
    }

    /// Takes what happened to the streams of a process. Wakes the waker when more happens.
    pub(super) fn take(&self, process: usize, waker: &Waker) -> VecDeque<(StreamId, Happened)> {
        let mut state = self.state();
        let link = &mut state.links[process];
        link.waker = Some(waker.clone());
        std::mem::take(&mut link.inbox)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) const fn next_stream(&mut self) -> StreamId {
        self.last_stream += 1;
        StreamId(self.last_stream)
    }

    pub(super) fn streams_of(&self, which: impl Fn(&Stream) -> bool) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| which(stream)).map(|(id, _)| *id).collect()
    }

    /// Tells a process what happened to one of its streams.
    pub(super) fn tell(&mut self, process: usize, id: StreamId, happened: Happened) {
        let link = &mut self.links[process];
        match (link.inbox.back_mut(), happened) {
            // One read takes all bytes that lie ready.
            (Some((last, Happened::Bytes(ready))), Happened::Bytes(more)) if *last == id => {
                ready.extend(more);
            }
            (_, happened) => link.inbox.push_back((id, happened)),
        }
        self.wake(process);
    }

    pub(super) fn wake(&self, process: usize) {
        if let Some(waker) = &self.links[process].waker {
            waker.wake_by_ref();
        }
    }

    pub(super) fn travel_time(&mut self, process: usize) -> Duration {
        let usual = self.plan.latency_max.mul_f64(0.1 + 0.9 * self.rng.f64());
        if self.windows.holds(process, Impairment::Slow) {
            usual + Duration::from_secs(1).mul_f64(self.rng.f64())
        } else {
            usual
        }
    }
}
