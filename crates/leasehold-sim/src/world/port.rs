//! The real wire of one process, over streams of the simulated network.
//!
//! Invariant: a port decides nothing. It steps the wire as the driver of the Redis store does: a caller that submits a
//! call writes what the wire gives it to write, and a task of the process does the rest.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use leasehold_proto::{Applied, Call, Channel, Moment, Reply, Scope, StoreError, StoreErrorKind, engine};
use leasehold_store::redis::ConnectOptions;
use leasehold_store::redis::wire::{CallId, ConnId, Input, Output, SubscriberId, Wire};
use leasehold_store::url::{Address, ServerUrl};
use leasehold_store::{Confirmation, Heard, Outcomes, ShardedPubsub, Store, Submit, Subscription};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::executor::{Home, spawn};
use super::fleet::node_of;
use super::net::Net;
use super::stream::{Happened, StreamId};
use super::timeline::Sleep;

/// The outcome of a call.
type Outcome = Result<Reply, StoreError>;

/// The recipient of a call's outcome.
enum Recipient {
    Future(oneshot::Sender<Outcome>),
    /// The recipient of all submitted calls, with its id of the call.
    Submitter(engine::CallId),
}

/// The store of a process.
pub(super) struct SimStore(Arc<Port>);

/// The servers that a process can reach, and how it does.
#[derive(Clone)]
pub(super) struct Reach {
    /// The network of each server, in the order of their numbers.
    pub(super) nets: Arc<[Net]>,
    pub(super) url: String,
    /// The channels, if a setting decides.
    pub(super) channels: ShardedPubsub,
    pub(super) confirmation: Confirmation,
}

impl Reach {
    /// Returns the reach of one server.
    pub(super) fn one(net: &Net) -> Self {
        let (nets, url) = (Arc::new([net.clone()]), "redis://n0".to_owned());
        Self { nets, url, channels: ShardedPubsub::Auto, confirmation: Confirmation::default() }
    }
}

struct Port {
    nets: Arc<[Net]>,
    process: usize,
    /// The number of kills of the process before this port. A port of a killed process sends nothing.
    life: u64,
    state: Mutex<State>,
}

struct State {
    wire: Wire,
    /// The streams, each with the number of its server.
    streams: BTreeMap<ConnId, (usize, StreamId)>,
    calls: BTreeMap<CallId, Recipient>,
    /// The recipient of the outcomes of submitted calls.
    recipient: Option<Weak<dyn Outcomes>>,
    /// The outcomes of submitted calls, until no lock is held.
    outcomes: Vec<(engine::CallId, Outcome)>,
    /// The names that another server answers for, until no lock is held.
    replaced: Vec<Scope>,
    subscribers: BTreeMap<SubscriberId, UnboundedSender<Heard>>,
    opened: Option<oneshot::Sender<Result<(), StoreError>>>,
    last_id: u64,
    is_closed: bool,
    waker: Waker,
    /// The time until which the task sleeps.
    alarm: Moment,
    /// Decides the pieces in which the task reads.
    rng: Rng,
}

impl SimStore {
    /// Returns a store that connects with its first call.
    pub(super) fn lazy(reach: &Reach, process: usize, mut rng: Rng) -> Self {
        let net = &reach.nets[0];
        let terms = net.plan.wire;
        let options = ConnectOptions::default()
            .timeout(net.plan.timeout)
            .sharded_pubsub(reach.channels)
            .confirmation(reach.confirmation)
            .resp3(terms.client_has_resp3)
            .batch_rows(terms.batch_rows)
            .at_once(terms.at_once);
        let url = ServerUrl::parse(&reach.url).expect("the world's URL is one");
        let state = State {
            wire: Wire::new(url, options, rng.u64(..)),
            streams: BTreeMap::new(),
            calls: BTreeMap::new(),
            recipient: None,
            outcomes: Vec::new(),
            replaced: Vec::new(),
            subscribers: BTreeMap::new(),
            opened: None,
            last_id: 0,
            is_closed: false,
            waker: Waker::noop().clone(),
            alarm: Moment::NEVER,
            rng,
        };
        let (nets, life) = (Arc::clone(&reach.nets), net.lives(process));
        let port = Port { nets, process, life, state: Mutex::new(state) };
        let port = Arc::new(port);
        spawn(Home::Driver(process), drive(Arc::clone(&port)));
        Self(port)
    }

    /// Connects, and returns the store if the first attempt succeeds.
    pub(super) async fn connect(reach: &Reach, process: usize, rng: Rng) -> Result<Self, StoreError> {
        let store = Self::lazy(reach, process, rng);
        let (tell, told) = oneshot::channel();
        store.0.change(|port, state, now| {
            state.opened = Some(tell);
            state.step(port, now, Input::Open);
        });
        told.await.expect("a process that lives opens its store")?;
        Ok(store)
    }
}

impl Store for SimStore {
    fn run(&self, call: Call, timeout: Duration) -> impl Future<Output = Outcome> + Send + 'static {
        let port = Arc::clone(&self.0);
        let (verb, key) = (call.verb(), call.subject());
        async move {
            let (reply_to, reply) = oneshot::channel();
            let id = port.change(|port, state, now| {
                state.submit(port, now, Recipient::Future(reply_to), (call, timeout))
            });
            let mut caller = Caller { port: &port, id, has_outcome: false };
            let outcome = reply.await;
            caller.has_outcome = true;
            let closed = |_| Err(StoreError::new(StoreErrorKind::Closed, verb, key, Applied::Unknown));
            outcome.unwrap_or_else(closed)
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let id = self.0.change(|port, state, now| {
            let id = SubscriberId(state.next_id());
            state.subscribers.insert(id, heard);
            state.step(port, now, Input::Subscribe(id, channel.clone()));
            id
        });
        let port = Arc::downgrade(&self.0);
        Subscription::new(move || {
            if let Some(port) = port.upgrade() {
                port.change(|port, state, now| {
                    state.step(port, now, Input::Unsubscribe(id, channel));
                    state.subscribers.remove(&id);
                });
            }
        })
    }

    fn entrance(&self, outcomes: Weak<dyn Outcomes>) -> Option<Arc<dyn Submit>> {
        self.0.state().recipient = Some(outcomes);
        Some(Arc::clone(&self.0) as Arc<dyn Submit>)
    }
}

impl Submit for Port {
    fn submit(&self, id: engine::CallId, call: Call, timeout: Duration) -> Result<(), StoreError> {
        self.change(|port, state, now| {
            state.submit(port, now, Recipient::Submitter(id), (call, timeout));
            assert!(state.replaced.is_empty(), "the step of a call finds no other server");
            match state.outcomes.pop() {
                Some((of, outcome)) => {
                    assert!(of == id && state.outcomes.is_empty(), "the step of a call ends no other call");
                    outcome.map(drop)
                }
                None => Ok(()),
            }
        })
    }

    fn withdraw(&self, id: engine::CallId) -> Option<StoreError> {
        let mut state = self.state();
        let is_it = |recipient: &Recipient| matches!(recipient, Recipient::Submitter(other) if *other == id);
        let on_wire = *state.calls.iter().find(|(_, recipient)| is_it(recipient))?.0;
        let error = state.wire.withdraw(on_wire)?;
        state.calls.remove(&on_wire);
        Some(error)
    }
}

impl Drop for SimStore {
    fn drop(&mut self) {
        self.0.change(|port, state, now| {
            state.step(port, now, Input::Close);
            state.is_closed = true;
            state.waker.wake_by_ref();
        });
    }
}

/// The caller of one call. Its drop tells the wire that the caller has left.
struct Caller<'a> {
    port: &'a Port,
    id: CallId,
    has_outcome: bool,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if !self.has_outcome {
            self.port.change(|port, state, now| {
                state.calls.remove(&self.id);
                state.step(port, now, Input::Abandon(self.id));
            });
        }
    }
}

/// Reads, flushes and lets time pass, until the store is dropped.
async fn drive(port: Arc<Port>) {
    let mut sleep: Option<(Moment, Sleep)> = None;
    poll_fn(|cx| {
        let Some(next) = port.poll(cx) else { return Poll::Ready(()) };
        if sleep.as_ref().is_none_or(|(at, _)| *at != next) {
            let at = Duration::from_nanos(next.as_nanos());
            sleep = (next != Moment::NEVER).then(|| (next, port.nets[0].timeline.sleep_until(at)));
        }
        if let Some((_, sleep)) = &mut sleep
            && Pin::new(sleep).poll(cx).is_ready()
        {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

impl Port {
    /// Changes the state, and wakes the task if there is work for it.
    fn change<T>(&self, change: impl FnOnce(&Self, &mut State, Moment) -> T) -> T {
        let mut state = self.state();
        let changed = change(self, &mut state, self.now());
        if state.wire.wants_flush() || state.wire.timer() < state.alarm {
            state.waker.wake_by_ref();
        }
        deliver(state);
        changed
    }

    /// Does what there is to do. Returns the time of the next tick, or `None` once the store is dropped.
    fn poll(&self, cx: &Context<'_>) -> Option<Moment> {
        let now = self.now();
        let happened = self.nets.iter().enumerate().flat_map(|(node, net)| {
            net.take(self.process, cx.waker()).into_iter().map(move |(stream, what)| ((node, stream), what))
        });
        let happened: Vec<_> = happened.collect();
        let mut state = self.state();
        state.waker = cx.waker().clone();
        if state.is_closed {
            return None;
        }
        for (stream, happened) in happened {
            state.take(self, now, stream, happened);
        }
        for conn in state.streams.keys().copied().collect::<Vec<_>>() {
            state.write(self, now, conn);
        }
        state.step(self, now, Input::Flush);
        if state.wire.timer() <= now {
            state.step(self, now, Input::Tick);
        }
        state.alarm = state.wire.timer();
        let alarm = state.alarm;
        deliver(state);
        Some(alarm)
    }

    fn now(&self) -> Moment {
        Moment::default() + self.nets[0].timeline.now()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of the server at an address.
fn node_in(address: &Address) -> usize {
    match address {
        Address::Tcp { host, .. } => node_of(host).expect("the world names its servers"),
        Address::Unix { .. } => unreachable!("no server of a world has a path"),
    }
}

/// Passes the outcomes of submitted calls to their recipient, without the lock.
fn deliver(mut state: MutexGuard<'_, State>) {
    let outcomes = std::mem::take(&mut state.outcomes);
    let replaced = std::mem::take(&mut state.replaced);
    let recipient = state.recipient.as_ref().and_then(Weak::upgrade);
    drop(state);
    let Some(recipient) = recipient else { return };
    for scope in replaced {
        recipient.replaced(scope);
    }
    if !outcomes.is_empty() {
        recipient.take(outcomes);
    }
}

impl State {
    fn submit(
        &mut self,
        port: &Port,
        now: Moment,
        recipient: Recipient,
        (call, timeout): (Call, Duration),
    ) -> CallId {
        let id = CallId(self.next_id());
        self.calls.insert(id, recipient);
        self.step(port, now, Input::Submit(id, call, timeout));
        id
    }

    const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Passes an event of a stream to the wire.
    fn take(&mut self, port: &Port, now: Moment, stream: (usize, StreamId), happened: Happened) {
        // A stream that the wire has reset is unknown.
        let known = self.streams.iter().find(|(_, known)| **known == stream);
        let Some(conn) = known.map(|(conn, _)| *conn) else { return };
        match happened {
            Happened::Connected => self.step(port, now, Input::Connected(conn)),
            Happened::Refused => {
                self.streams.remove(&conn);
                self.step(port, now, Input::Refused(conn, io::ErrorKind::ConnectionRefused.into()));
            }
            Happened::Bytes(bytes) => {
                port.nets[stream.0].server.hear(port.process);
                let cut = if self.rng.u8(0..8) == 0 { self.rng.usize(0..bytes.len()) } else { 0 };
                for read in [&bytes[..cut], &bytes[cut..]] {
                    if !read.is_empty() {
                        self.step(port, now, Input::Bytes(conn, read));
                    }
                }
            }
            Happened::Closed => {
                self.streams.remove(&conn);
                self.step(port, now, Input::Closed(conn));
            }
        }
    }

    /// Steps the wire, and carries out what it says.
    fn step(&mut self, port: &Port, now: Moment, input: Input<'_>) {
        if port.nets[0].lives(port.process) != port.life {
            return;
        }
        let mut outputs = Vec::new();
        self.wire.step(now, input, &mut outputs);
        for output in outputs {
            match output {
                Output::Dial(conn, address, _) => {
                    let node = node_in(&address);
                    self.streams.insert(conn, (node, port.nets[node].dial(port.process)));
                }
                // The policy of the world fails without its replicas, and says nothing else.
                Output::Missing { .. } | Output::Serves(..) => {}
                Output::Login => unreachable!("the simulator's clients have no provider of credentials"),
                Output::Write(conn) => self.write(port, now, conn),
                Output::Reset(conn) => {
                    if let Some((node, stream)) = self.streams.remove(&conn) {
                        port.nets[node].hang_up(stream);
                    }
                }
                Output::Opened(outcome) => {
                    if let Some(tell) = self.opened.take() {
                        let _ = tell.send(outcome);
                    }
                }
                Output::Reply(id, outcome) => match self.calls.remove(&id) {
                    Some(Recipient::Future(reply_to)) => drop(reply_to.send(outcome)),
                    Some(Recipient::Submitter(id)) => self.outcomes.push((id, outcome)),
                    None => {}
                },
                Output::Heard(id, heard) => {
                    if let Some(hear) = self.subscribers.get(&id) {
                        let _ = hear.send(heard);
                    }
                }
                Output::Replaced(scope) => self.replaced.push(scope),
            }
        }
    }

    /// Writes the bytes of a connection, as far as its stream takes them.
    fn write(&mut self, port: &Port, now: Moment, conn: ConnId) {
        while let Some((node, stream)) = self.streams.get(&conn).copied() {
            let bytes = self.wire.unwritten(conn);
            let count = if bytes.is_empty() { 0 } else { port.nets[node].write(stream, bytes) };
            if count == 0 {
                return;
            }
            self.step(port, now, Input::Wrote(conn, count));
        }
    }
}
