//! The simulated network: the links of the processes, and the streams over them.
//!
//! Invariant: the bytes of one stream arrive in order and once. A stream that is cut delivers nothing that the server's
//! machine has not received, but a frozen server still executes what it has received (docs/guarantees.md, rule 3).
//!
//! # How it works
//! A process dials streams, writes to them, and takes what happened to them from their inboxes. `carriage` moves the bytes,
//! and `windows` has the periods of faults. The network knows nothing of commands: the server's end of a stream is a
//! session of the embedded server.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
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
    /// The inbox of each stream whose process has not closed it.
    inboxes: BTreeMap<StreamId, Inbox>,
    plan: Arc<Plan>,
    pub(super) windows: Windows,
    pub(super) streams: BTreeMap<StreamId, Stream>,
    pub(super) outages: Outages,
    pub(super) rng: Rng,
    last_stream: u64,
}

/// What happened at the process's end of a stream and was not taken yet, in order.
#[derive(Default)]
struct Inbox {
    happened: VecDeque<Happened>,
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
        let state = State {
            inboxes: BTreeMap::new(),
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
        for id in state.streams_of(|stream| stream.process == process) {
            state.inboxes.remove(&id);
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

    /// Takes the next event of a stream, or wakes the waker when there is one. A stream of a killed process has none.
    pub(super) fn poll_happened(&self, id: StreamId, waker: &Waker) -> Poll<Happened> {
        let mut state = self.state();
        let Some(inbox) = state.inboxes.get_mut(&id) else { return Poll::Pending };
        inbox.waker = Some(waker.clone());
        inbox.happened.pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    /// Wakes the waker when a stream takes bytes again.
    pub(super) fn wake_later(&self, id: StreamId, waker: &Waker) {
        if let Some(inbox) = self.state().inboxes.get_mut(&id) {
            inbox.waker = Some(waker.clone());
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    pub(super) fn streams_of(&self, which: impl Fn(&Stream) -> bool) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| which(stream)).map(|(id, _)| *id).collect()
    }

    /// Tells a process what happened to one of its streams.
    pub(super) fn tell(&mut self, id: StreamId, happened: Happened) {
        let Some(inbox) = self.inboxes.get_mut(&id) else { return };
        match (inbox.happened.back_mut(), happened) {
            // One read takes all bytes that lie ready.
            (Some(Happened::Bytes(ready)), Happened::Bytes(more)) => ready.extend(more),
            (_, happened) => inbox.happened.push_back(happened),
        }
        self.wake(id);
    }

    /// Wakes the process that uses a stream.
    pub(super) fn wake(&self, id: StreamId) {
        if let Some(waker) = self.inboxes.get(&id).and_then(|inbox| inbox.waker.as_ref()) {
            waker.wake_by_ref();
        }
    }

    /// Adds a stream that a process dials.
    pub(super) fn add_stream(&mut self, stream: Stream) -> StreamId {
        self.last_stream += 1;
        let id = StreamId(self.last_stream);
        self.streams.insert(id, stream);
        self.inboxes.insert(id, Inbox::default());
        id
    }

    /// Forgets what the process would hear of a stream that it has closed.
    pub(super) fn close_inbox(&mut self, id: StreamId) {
        self.inboxes.remove(&id);
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
