//! The simulated network: one command connection for each process, and its subscriptions.
//!
//! Invariant: the requests of one connection arrive in order and once. A connection that is cut delivers nothing that
//! the server's machine has not received, but a frozen server still executes what it has received (docs/guarantees.md,
//! rule 3).
//!
//! # How it works
//! A connection is a queue and a task that takes from it. The task waits until the head has arrived and the server can
//! execute, executes it and sends the reply. A new *generation* follows each connection that ends. Messages that still
//! travel for an old generation are dropped on arrival.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::{Applied, Channel, StoreErrorKind};
use leasehold_store::Heard;
use leasehold_store::embedded::{Frame, Message};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::executor::{Home, spawn};
use super::server::{Listener, Server, Work};
use super::timeline::Timeline;
use crate::history::By;
use crate::plan::{Plan, stream};

/// The reason why a call got no reply.
pub(super) type Failure = (StoreErrorKind, Applied);
type Answer = Result<Frame, Failure>;

/// The delay before a broken subscription is requested again.
const SUBSCRIBE_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// The network of a world. Clones are the same network.
#[derive(Clone)]
pub(super) struct Net {
    pub(super) timeline: Arc<Timeline>,
    plan: Arc<Plan>,
    state: Arc<Mutex<State>>,
}

struct State {
    server: Server,
    links: Vec<Link>,
    rng: Rng,
    last_listener: u64,
}

/// The link of one process, with the effects of its faults.
#[derive(Default)]
struct Link {
    generation: u64,
    /// The time at which each earlier generation ended.
    cut_at: Vec<Duration>,
    wire: Wire,
    /// The calls of this generation that wait for a reply.
    pending: BTreeMap<u64, oneshot::Sender<Answer>>,
    last_call: u64,
    last_request: Duration,
    last_reply: Duration,
    requests_stall: Window,
    replies_stall: Window,
    refused: Window,
    slow: Window,
    repeated: Window,
    messages_lost: Window,
    drops_futures: Window,
}

#[derive(Default)]
enum Wire {
    #[default]
    Closed,
    /// The calls that wait for the connection, in order.
    Opening(Vec<(Work, oneshot::Sender<Answer>)>),
    Open(UnboundedSender<Request>),
}

/// The period in which a fault is active.
#[derive(Clone, Copy, Default)]
pub(super) struct Window {
    from: Duration,
    until: Duration,
}

/// The effect of a fault on one link, during a window of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Impairment {
    RequestsStall,
    RepliesStall,
    Refused,
    Slow,
    Repeated,
    MessagesLost,
    DropsFutures,
}

struct Request {
    number: u64,
    work: Work,
    arrives: Duration,
    epoch: u64,
}

impl Window {
    fn holds(self, now: Duration) -> bool {
        (self.from..self.until).contains(&now)
    }

    /// Returns the time at which a message that arrives at `at` gets through.
    fn lets_through(self, at: Duration) -> Duration {
        if self.holds(at) { self.until } else { at }
    }
}

impl Net {
    pub(super) fn new(timeline: &Arc<Timeline>, plan: &Arc<Plan>, server: Server) -> Self {
        let links = (0..plan.processes + plan.foreigners).map(|_| Link::default()).collect();
        let state = State { server, links, rng: stream(plan.seed, "network"), last_listener: 0 };
        Self { timeline: Arc::clone(timeline), plan: Arc::clone(plan), state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with the server and the current time.
    pub(super) fn with_server<T>(&self, work: impl FnOnce(&mut Server, Duration) -> T) -> T {
        work(&mut self.state().server, self.timeline.now())
    }

    /// Begins an effect of a fault on the link of a process.
    pub(super) fn impair(&self, process: usize, impairment: Impairment, until: Duration) {
        let now = self.timeline.now();
        let mut state = self.state();
        let link = &mut state.links[process];
        let window = match impairment {
            Impairment::RequestsStall => &mut link.requests_stall,
            Impairment::RepliesStall => &mut link.replies_stall,
            Impairment::Refused => &mut link.refused,
            Impairment::Slow => &mut link.slow,
            Impairment::Repeated => &mut link.repeated,
            Impairment::MessagesLost => &mut link.messages_lost,
            Impairment::DropsFutures => &mut link.drops_futures,
        };
        // An active window is extended.
        let from = if window.holds(now) { window.from } else { now };
        *window = Window { from, until: window.until.max(until) };
    }

    pub(super) fn drops_futures(&self, process: usize) -> bool {
        self.state().links[process].drops_futures.holds(self.timeline.now())
    }

    /// Ends the command connection of a process.
    pub(super) fn cut(&self, process: usize) {
        let pending = self.state().links[process].cut(self.timeline.now());
        for (_, reply_to) in pending {
            let _ = reply_to.send(Err((StoreErrorKind::ConnectionLost, Applied::Unknown)));
        }
    }

    /// Ends all connections of a process.
    pub(super) fn reset(&self, process: usize) {
        self.cut(process);
        self.state().server.listeners.retain(|_, listener| listener.process != process);
    }

    /// Ends the command connections of all processes, as a restart of the server does.
    pub(super) fn cut_all(&self) {
        for process in 0..self.plan.processes + self.plan.foreigners {
            self.cut(process);
        }
    }

    /// Puts work on the connection of a process, behind earlier work.
    pub(super) fn put(&self, process: usize, work: Work) -> Placed {
        let (reply_to, answer) = oneshot::channel();
        let mut state = self.state();
        match &mut state.links[process].wire {
            Wire::Open(_) => {
                let number = state.enqueue(self, process, work, reply_to);
                return Placed { answer, number: Some(number) };
            }
            Wire::Opening(queue) => queue.push((work, reply_to)),
            closed => {
                *closed = Wire::Opening(vec![(work, reply_to)]);
                spawn(Home::World, self.clone().open(process, state.links[process].generation));
            }
        }
        Placed { answer, number: None }
    }

    /// Returns true if the calls that waited for a connection are on one now.
    pub(super) fn is_on_the_wire(&self, process: usize) -> bool {
        matches!(self.state().links[process].wire, Wire::Open(_))
    }

    async fn open(self, process: usize, generation: u64) {
        let there = self.travel_time(process);
        self.timeline.sleep(there).await;
        loop {
            let now = self.timeline.now();
            let (refused, through) = {
                let state = self.state();
                let link = &state.links[process];
                let refused = link.refused.holds(now) || now < state.server.down_until;
                let through = link.requests_stall.lets_through(link.replies_stall.lets_through(now));
                (refused, through.max(state.server.frozen_until))
            };
            if refused {
                return self.refuse(process, generation);
            }
            if through <= now {
                break;
            }
            self.timeline.sleep_until(through).await;
        }
        let back = self.travel_time(process);
        self.timeline.sleep(back).await;
        let mut state = self.state();
        if state.links[process].generation != generation {
            return;
        }
        let (sender, received) = unbounded_channel();
        let queue = std::mem::replace(&mut state.links[process].wire, Wire::Open(sender));
        spawn(Home::World, self.clone().carry(process, generation, received));
        if let Wire::Opening(queue) = queue {
            for (work, reply_to) in queue {
                if !reply_to.is_closed() {
                    state.enqueue(&self, process, work, reply_to);
                }
            }
        }
    }

    fn refuse(&self, process: usize, generation: u64) {
        let mut state = self.state();
        let link = &mut state.links[process];
        if link.generation != generation {
            return;
        }
        let Wire::Opening(queue) = std::mem::take(&mut link.wire) else { return };
        drop(state);
        for (_, reply_to) in queue {
            let _ = reply_to.send(Err((StoreErrorKind::Unreachable, Applied::No)));
        }
    }

    /// Takes requests off one connection, in order, until it ends.
    async fn carry(self, process: usize, generation: u64, mut requests: UnboundedReceiver<Request>) {
        while let Some(request) = requests.recv().await {
            self.timeline.sleep_until(request.arrives).await;
            let received = {
                let link = &self.state().links[process];
                link.requests_stall.lets_through(request.arrives)
            };
            self.timeline.sleep_until(received).await;
            // A cut withdraws the request only before the server's machine has received it.
            if self.state().links[process].was_cut_before(generation, received) {
                continue;
            }
            loop {
                let thaws = self.state().server.frozen_until;
                if thaws <= self.timeline.now() {
                    break;
                }
                self.timeline.sleep_until(thaws).await;
            }
            self.execute(process, generation, request);
        }
    }

    fn execute(&self, process: usize, generation: u64, request: Request) {
        let now = self.timeline.now();
        let mut state = self.state();
        if state.server.epoch != request.epoch || now < state.server.down_until {
            return;
        }
        let by = if process < self.plan.processes { By::Process(process) } else { By::Foreigner };
        let (frame, mut messages) = state.server.execute(now, by, &request.work);
        if state.links[process].repeated.holds(now) && process < self.plan.processes {
            if state.rng.bool() {
                messages.extend(state.server.execute(now, By::Duplicate(process), &request.work).1);
            }
            if state.rng.u8(0..3) == 0 {
                let later = self.plan.longest_lease().mul_f64(state.rng.f64() * 2.0);
                let latest = self.plan.quiesce_at.saturating_sub(now);
                spawn(Home::World, self.clone().repeat(process, request.work.clone(), later.min(latest)));
            }
        }
        self.publish(&mut state, &messages);
        if state.links[process].generation != generation {
            return;
        }
        let takes = state.travel_time(&self.plan, process, now);
        let link = &mut state.links[process];
        let arrives = (now + takes).max(link.last_reply);
        link.last_reply = arrives;
        spawn(Home::World, self.clone().reply(process, generation, request.number, frame, arrives));
    }

    /// Executes a request again, some time after its first execution.
    async fn repeat(self, process: usize, work: Work, later: Duration) {
        self.timeline.sleep(later).await;
        let mut state = self.state();
        let now = self.timeline.now();
        if now < state.server.down_until || now < state.server.frozen_until {
            return;
        }
        let (_, messages) = state.server.execute(now, By::Duplicate(process), &work);
        self.publish(&mut state, &messages);
    }

    async fn reply(self, process: usize, generation: u64, number: u64, frame: Frame, arrives: Duration) {
        self.timeline.sleep_until(arrives).await;
        let through = self.state().links[process].replies_stall.lets_through(arrives);
        self.timeline.sleep_until(through).await;
        let reply_to = {
            let mut state = self.state();
            let link = &mut state.links[process];
            (link.generation == generation).then(|| link.pending.remove(&number)).flatten()
        };
        if let Some(reply_to) = reply_to {
            let _ = reply_to.send(Ok(frame));
        }
    }

    /// Sends messages to the current listeners.
    fn publish(&self, state: &mut State, messages: &[Message]) {
        let now = self.timeline.now();
        for message in messages {
            let hear: Vec<_> = state
                .server
                .listeners
                .values()
                .filter(|listener| listener.channel.as_str().as_bytes() == message.channel)
                .map(|listener| (listener.process, listener.channel.clone(), listener.heard.clone()))
                .collect();
            for (process, channel, heard) in hear {
                let takes = state.travel_time(&self.plan, process, now);
                let link = &state.links[process];
                if link.messages_lost.holds(now) || link.replies_stall.holds(now + takes) {
                    continue;
                }
                let (timeline, payload) = (Arc::clone(&self.timeline), message.payload.clone());
                spawn(Home::World, async move {
                    timeline.sleep(takes).await;
                    let _ = heard.send(Heard::Message(channel, payload));
                });
            }
        }
    }

    /// Executes work of an operator, which bypasses the network.
    pub(super) fn operate(&self, work: &Work) {
        let mut state = self.state();
        let (_, messages) = state.server.execute(self.timeline.now(), By::Operator, work);
        self.publish(&mut state, &messages);
    }

    /// Returns a number for a new subscription.
    pub(super) fn next_listener(&self) -> u64 {
        let mut state = self.state();
        state.last_listener += 1;
        state.last_listener
    }

    pub(super) fn unsubscribe(&self, id: u64) {
        self.state().server.listeners.remove(&id);
    }

    /// Keeps a subscription alive until its client ends it.
    pub(super) async fn keep_subscribed(
        self,
        process: usize,
        id: u64,
        channel: Channel,
        heard: UnboundedSender<Heard>,
        mut ended: oneshot::Receiver<()>,
    ) {
        loop {
            let there = self.travel_time(process);
            self.timeline.sleep(there).await;
            let through = self.way_is_free_at(process);
            self.timeline.sleep_until(through).await;
            if heard.is_closed() || !matches!(ended.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                return;
            }
            let (_alive, broken) = oneshot::channel();
            let listener = Listener { process, channel: channel.clone(), heard: heard.clone(), _alive };
            self.state().server.listeners.insert(id, listener);
            let back = self.travel_time(process);
            self.timeline.sleep(back).await;
            let through = self.way_is_free_at(process);
            self.timeline.sleep_until(through).await;
            if self.state().server.listeners.contains_key(&id) {
                let _ = heard.send(Heard::Listening(channel.clone()));
            }
            // The wait ends when the connection breaks, or with an unsubscribe.
            let _ = broken.await;
            self.timeline.sleep(SUBSCRIBE_AGAIN_AFTER).await;
        }
    }

    /// Returns the time at which a message sent now gets through in both directions.
    fn way_is_free_at(&self, process: usize) -> Duration {
        let now = self.timeline.now();
        let state = self.state();
        let link = &state.links[process];
        let through = link.requests_stall.lets_through(link.replies_stall.lets_through(now));
        link.refused.lets_through(through).max(state.server.frozen_until).max(state.server.down_until)
    }

    fn travel_time(&self, process: usize) -> Duration {
        let now = self.timeline.now();
        self.state().travel_time(&self.plan, process, now)
    }
}

/// A call that was given to the network.
pub(super) struct Placed {
    pub(super) answer: oneshot::Receiver<Answer>,
    /// The number of the call, if it went onto the wire at once.
    pub(super) number: Option<u64>,
}

impl State {
    fn enqueue(&mut self, net: &Net, process: usize, work: Work, reply_to: oneshot::Sender<Answer>) -> u64 {
        let now = net.timeline.now();
        let takes = self.travel_time(&net.plan, process, now);
        let epoch = self.server.epoch;
        let link = &mut self.links[process];
        link.last_call += 1;
        let number = link.last_call;
        link.last_request = (now + takes).max(link.last_request);
        let request = Request { number, work, arrives: link.last_request, epoch };
        link.pending.insert(number, reply_to);
        if let Wire::Open(requests) = &link.wire {
            // The send fails only if the task of the connection has ended with the world.
            let _ = requests.send(request);
        }
        number
    }

    fn travel_time(&mut self, plan: &Plan, process: usize, now: Duration) -> Duration {
        let usual = plan.latency_max.mul_f64(0.1 + 0.9 * self.rng.f64());
        if self.links[process].slow.holds(now) {
            usual + Duration::from_secs(1).mul_f64(self.rng.f64())
        } else {
            usual
        }
    }
}

impl Link {
    /// Returns true if a connection of this generation ended before the time `received`.
    fn was_cut_before(&self, generation: u64, received: Duration) -> bool {
        let ended = usize::try_from(generation).ok().and_then(|generation| self.cut_at.get(generation));
        ended.is_some_and(|ended| *ended < received)
    }

    fn cut(&mut self, now: Duration) -> BTreeMap<u64, oneshot::Sender<Answer>> {
        self.cut_at.push(now);
        self.generation += 1;
        self.wire = Wire::Closed;
        (self.last_request, self.last_reply) = (Duration::ZERO, Duration::ZERO);
        std::mem::take(&mut self.pending)
    }
}
