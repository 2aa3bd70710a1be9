//! The driver of a wire: streams, timers, and the delivery of outcomes.
//!
//! Invariant: the driver decides nothing. The wire and its streams are behind one short lock, so the bytes of a stream
//! have one writer at a time. No foreign code runs under the lock but that of the streams.
//!
//! # How it works
//! Each caller that submits a call steps the wire on its own thread, and writes what the step gives it to write. One
//! task does the rest: it dials, reads, writes what a stream did not take at once, and lets time pass. A caller that
//! leaves work for the task wakes the task, unless it is awake. A stream is polled with the waker of the task alone, so
//! bytes that a caller could not write are written by the task.

use std::collections::{BTreeMap, HashMap};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_proto::{Call, Channel, Moment, Reply, StoreError, engine};
use tokio::io::ReadBuf;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::socket::{Dial, Socket};
use super::url::Address;
use super::wire::{CallId, ConnId, Input, Output, SubscriberId, Wire};
use crate::store::{Heard, Outcomes, Submit};
use crate::tokio_runtime::{Instant, after, pause_until};

/// The outcome of a call.
type Outcome = Result<Reply, StoreError>;
/// A dial under way.
type Dialing = (ConnId, BoxFuture<'static, std::io::Result<Socket>>);

/// The outcome of connecting, and its recipient.
type Opened = (oneshot::Sender<Result<(), StoreError>>, Result<(), StoreError>);

/// The recipient of a call's outcome.
enum Recipient {
    Future(oneshot::Sender<Outcome>),
    /// The recipient of all submitted calls, with its id of the call.
    Submitter(engine::CallId),
}

/// The size of a read.
const READ: usize = 16 << 10;
/// The most reads of one stream before the task lets others run.
const READS: usize = 64;
/// The most outputs for which the buffer keeps its memory.
const BUFFERED: usize = 128;

/// A wire, its streams, and the recipients of its outcomes.
pub(super) struct Link {
    state: Mutex<State>,
    dialer: Arc<dyn Dial>,
    address: Address,
    /// The zero of the wire's clock.
    begin: Instant,
}

struct State {
    wire: Wire,
    /// The buffer of the wire's outputs, empty between steps.
    outputs: Vec<Output>,
    streams: BTreeMap<ConnId, Stream>,
    calls: HashMap<CallId, Recipient>,
    /// The recipient of the outcomes of submitted calls.
    outcomes: Option<Weak<dyn Outcomes>>,
    subscribers: HashMap<SubscriberId, UnboundedSender<Heard>>,
    opened: Option<oneshot::Sender<Result<(), StoreError>>>,
    last_id: u64,
    /// The connections to dial, those that the task dials, and the dials that are not wanted any more.
    dials: Vec<(ConnId, Duration)>,
    dialing: Vec<ConnId>,
    resets: Vec<ConnId>,
    /// The waker of the task, once it runs.
    waker: Waker,
    /// True if the task looks at the state without being woken.
    is_awake: bool,
    /// The time until which the task sleeps.
    alarm: Moment,
}

struct Stream {
    socket: Socket,
    /// True once a write has failed. The end of the stream is then read.
    is_broken: bool,
}

/// What a step leaves to do outside the lock.
#[derive(Default)]
struct Deliveries {
    replies: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    /// The outcomes of submitted calls, and their recipient.
    outcomes: Vec<(engine::CallId, Outcome)>,
    to: Option<Weak<dyn Outcomes>>,
    heard: Vec<(UnboundedSender<Heard>, Heard)>,
    opened: Option<Opened>,
    closed: Vec<Stream>,
    waker: Option<Waker>,
}

impl Link {
    pub(super) fn new(wire: Wire, address: Address, dialer: Arc<dyn Dial>) -> Arc<Self> {
        let state = State {
            wire,
            outputs: Vec::new(),
            streams: BTreeMap::new(),
            calls: HashMap::new(),
            outcomes: None,
            subscribers: HashMap::new(),
            opened: None,
            last_id: 0,
            dials: Vec::new(),
            dialing: Vec::new(),
            resets: Vec::new(),
            waker: Waker::noop().clone(),
            is_awake: true,
            alarm: Moment::NEVER,
        };
        Arc::new(Self { state: Mutex::new(state), dialer, address, begin: after(Duration::ZERO) })
    }

    /// Connects, and returns the outcome of the first attempt.
    pub(super) async fn open(&self) -> Option<Result<(), StoreError>> {
        let (tell, told) = oneshot::channel();
        self.change(|state, now, deliveries| {
            state.opened = Some(tell);
            state.step(now, Input::Open, deliveries);
        });
        told.await.ok()
    }

    /// Runs a call. The call is on the wire, or in its queue, after the first poll.
    pub(super) async fn run(self: Arc<Self>, call: Call, timeout: Duration) -> Option<Outcome> {
        let (reply_to, reply) = oneshot::channel();
        let id = self.change(|state, now, deliveries| {
            state.submit(now, Recipient::Future(reply_to), (call, timeout), deliveries)
        });
        let mut caller = Caller { link: &self, id, has_outcome: false };
        let outcome = reply.await.ok();
        caller.has_outcome = true;
        outcome
    }

    /// Passes the outcomes of submitted calls to this recipient.
    pub(super) fn pass_outcomes_to(&self, outcomes: Weak<dyn Outcomes>) {
        self.state().outcomes = Some(outcomes);
    }

    /// Listens on a channel. Returns the subscriber, which unsubscribes by it.
    pub(super) fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> SubscriberId {
        self.change(|state, now, deliveries| {
            let id = SubscriberId(state.next_id());
            state.subscribers.insert(id, heard);
            state.step(now, Input::Subscribe(id, channel), deliveries);
            id
        })
    }

    pub(super) fn unsubscribe(&self, id: SubscriberId, channel: Channel) {
        let sender = self.change(|state, now, deliveries| {
            state.step(now, Input::Unsubscribe(id, channel), deliveries);
            state.subscribers.remove(&id)
        });
        drop(sender);
    }

    /// Ends all calls, subscriptions and streams.
    pub(super) fn close(&self) {
        let subscribers = self.change(|state, now, deliveries| {
            state.step(now, Input::Close, deliveries);
            std::mem::take(&mut state.subscribers)
        });
        drop(subscribers);
    }

    /// Changes the state, and then delivers the outcomes and wakes the task if there is work for it.
    fn change<T>(&self, change: impl FnOnce(&mut State, Moment, &mut Deliveries) -> T) -> T {
        let mut state = self.state();
        let mut deliveries = Deliveries::default();
        let changed = change(&mut state, self.now(), &mut deliveries);
        let has_work = state.wire.wants_flush()
            || !state.dials.is_empty()
            || !state.resets.is_empty()
            || state.wire.timer() < state.alarm;
        if has_work && !std::mem::replace(&mut state.is_awake, true) {
            deliveries.waker = Some(state.waker.clone());
        }
        if !deliveries.outcomes.is_empty() {
            deliveries.to = state.outcomes.clone();
        }
        drop(state);
        deliveries.deliver();
        changed
    }

    fn now(&self) -> Moment {
        Moment::default() + after(Duration::ZERO).saturating_duration_since(self.begin)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of a moment on the runtime's clock, or `None` if it never comes.
    fn instant(&self, at: Moment) -> Option<Instant> {
        if at == Moment::NEVER { None } else { self.begin.checked_add(at.since(Moment::default())) }
    }
}

impl Submit for Link {
    fn submit(&self, id: engine::CallId, call: Call, timeout: Duration) -> Result<(), StoreError> {
        self.change(|state, now, deliveries| {
            state.submit(now, Recipient::Submitter(id), (call, timeout), deliveries);
            // The step that submits a call has no outcome but a refusal of this call.
            match deliveries.outcomes.pop() {
                Some((_, outcome)) => outcome.map(drop),
                None => Ok(()),
            }
        })
    }
}

/// Drives a link until it is dropped.
pub(super) async fn drive(link: Arc<Link>) {
    let _ends = Ends(&link);
    let mut dialing: Vec<Dialing> = Vec::new();
    let mut buffer = vec![0; READ];
    loop {
        let mut alarm = None;
        poll_fn(|cx| {
            loop {
                let next = link.poll(cx, &mut dialing, &mut buffer);
                if alarm.as_ref().is_none_or(|(at, _)| *at != next) {
                    alarm = Some((next, link.instant(next).map(|at| Box::pin(pause_until(at)))));
                }
                if let Some((_, Some(sleep))) = &mut alarm
                    && sleep.as_mut().poll(cx).is_ready()
                {
                    return Poll::Ready(());
                }
                // Dials and resets of this turn come without a wake-up.
                if !link.state().is_awake {
                    return Poll::Pending;
                }
            }
        })
        .await;
        // Replies that arrived while this thread stood still are read first.
        let mut others = pin!(others_run());
        poll_fn(|cx| {
            let _ = link.poll(cx, &mut dialing, &mut buffer);
            others.as_mut().poll(cx)
        })
        .await;
        poll_fn(|cx| Poll::Ready(link.poll(cx, &mut dialing, &mut buffer))).await;
        link.change(|state, now, deliveries| {
            state.alarm = Moment::NEVER;
            state.step(now, Input::Tick, deliveries);
        });
    }
}

/// Lets the runtime read its sockets, and then run the tasks that these woke.
async fn others_run() {
    yield_now().await;
    yield_now().await;
}

impl Link {
    /// Dials, reads and flushes. Returns the time of the next tick.
    fn poll(&self, cx: &mut Context<'_>, dialing: &mut Vec<Dialing>, buffer: &mut [u8]) -> Moment {
        let (dials, resets) = {
            let mut state = self.state();
            state.is_awake = true;
            if !state.waker.will_wake(cx.waker()) {
                state.waker = cx.waker().clone();
            }
            let dials = std::mem::take(&mut state.dials);
            state.dialing.extend(dials.iter().map(|(id, _)| *id));
            (dials, std::mem::take(&mut state.resets))
        };
        dialing.extend(dials.into_iter().map(|(id, limit)| (id, self.dial(limit))));
        dialing.retain(|(id, _)| !resets.contains(id));
        let mut dialed = Vec::new();
        dialing.retain_mut(|(id, dial)| match dial.as_mut().poll(cx) {
            Poll::Ready(outcome) => {
                dialed.push((*id, outcome));
                false
            }
            Poll::Pending => true,
        });
        self.change(|state, now, deliveries| {
            for (id, outcome) in dialed {
                state.dialed(now, id, outcome, deliveries);
            }
            state.read(now, cx, buffer, deliveries);
            state.write_all(now, deliveries);
            state.step(now, Input::Flush, deliveries);
            state.is_awake = !(state.dials.is_empty() && state.resets.is_empty());
            // The alarm moves to an earlier time only. Most timers are gone before they are due, and an alarm that fires
            // in vain once in a while costs less than a new alarm for each call.
            state.alarm = state.alarm.min(state.wire.timer());
            state.alarm
        })
    }

    fn dial(&self, limit: Duration) -> BoxFuture<'static, std::io::Result<Socket>> {
        let (dialer, address) = (Arc::clone(&self.dialer), self.address.clone());
        Box::pin(async move { dialer.dial(&address, limit).await })
    }
}

impl State {
    const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn submit(
        &mut self,
        now: Moment,
        recipient: Recipient,
        (call, timeout): (Call, Duration),
        deliveries: &mut Deliveries,
    ) -> CallId {
        let id = CallId(self.next_id());
        self.calls.insert(id, recipient);
        self.step(now, Input::Submit(id, call, timeout), deliveries);
        id
    }

    /// Steps the wire, and carries out what it says.
    fn step(&mut self, now: Moment, input: Input<'_>, deliveries: &mut Deliveries) {
        // A write takes steps of its own, with a buffer of their own.
        let mut outputs = std::mem::take(&mut self.outputs);
        self.wire.step(now, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Dial(id, limit) => self.dials.push((id, limit)),
                Output::Write(id) => self.write(now, id, deliveries),
                Output::Reset(id) => match self.streams.remove(&id) {
                    Some(stream) => deliveries.closed.push(stream),
                    None => self.reset_dial(id),
                },
                Output::Opened(outcome) => deliveries.opened = self.opened.take().map(|tell| (tell, outcome)),
                Output::Reply(id, outcome) => match self.calls.remove(&id) {
                    Some(Recipient::Future(reply_to)) => deliveries.replies.push((reply_to, outcome)),
                    Some(Recipient::Submitter(id)) => deliveries.outcomes.push((id, outcome)),
                    None => {}
                },
                Output::Heard(id, heard) => {
                    deliveries.heard.extend(self.subscribers.get(&id).map(|hear| (hear.clone(), heard)));
                }
            }
        }
        outputs.shrink_to(BUFFERED);
        self.outputs = outputs;
    }

    /// Ends a dial. A reset of a stream that has ended has no effect.
    fn reset_dial(&mut self, id: ConnId) {
        self.dials.retain(|(dial, _)| *dial != id);
        if let Some(index) = self.dialing.iter().position(|dialing| *dialing == id) {
            self.dialing.swap_remove(index);
            self.resets.push(id);
        }
    }

    fn dialed(
        &mut self,
        now: Moment,
        id: ConnId,
        outcome: std::io::Result<Socket>,
        deliveries: &mut Deliveries,
    ) {
        let Some(index) = self.dialing.iter().position(|dialing| *dialing == id) else { return };
        self.dialing.swap_remove(index);
        match outcome {
            Ok(socket) => {
                self.streams.insert(id, Stream { socket, is_broken: false });
                self.step(now, Input::Connected(id), deliveries);
            }
            Err(error) => self.step(now, Input::Refused(id, error), deliveries),
        }
    }

    /// Writes the bytes of a connection, as far as its stream takes them. The task is woken when it takes more.
    fn write(&mut self, now: Moment, id: ConnId, deliveries: &mut Deliveries) {
        let waker = self.waker.clone();
        let mut cx = Context::from_waker(&waker);
        while let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_broken) {
            let bytes = self.wire.unwritten(id);
            if bytes.is_empty() {
                stream.is_broken = matches!(stream.socket.as_mut().poll_flush(&mut cx), Poll::Ready(Err(_)));
                return;
            }
            match stream.socket.as_mut().poll_write(&mut cx, bytes) {
                Poll::Ready(Ok(0) | Err(_)) => stream.is_broken = true,
                Poll::Ready(Ok(count)) => self.step(now, Input::Wrote(id, count), deliveries),
                Poll::Pending => return,
            }
        }
    }

    /// Goes on with the bytes that the streams did not take.
    fn write_all(&mut self, now: Moment, deliveries: &mut Deliveries) {
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids.into_iter().filter(|id| !self.wire.unwritten(*id).is_empty()).collect::<Vec<_>>() {
            self.write(now, id, deliveries);
        }
    }

    /// Reads the streams until they have no more bytes.
    fn read(&mut self, now: Moment, cx: &mut Context<'_>, buffer: &mut [u8], deliveries: &mut Deliveries) {
        let ids: Vec<_> = self.streams.keys().copied().collect();
        for id in ids {
            let mut reads = 0;
            while let Some(stream) = self.streams.get_mut(&id) {
                if reads == READS {
                    cx.waker().wake_by_ref();
                    break;
                }
                reads += 1;
                let mut read = ReadBuf::new(buffer);
                match stream.socket.as_mut().poll_read(cx, &mut read) {
                    Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                        self.step(now, Input::Bytes(id, read.filled()), deliveries);
                    }
                    Poll::Ready(_) => {
                        deliveries.closed.extend(self.streams.remove(&id));
                        self.step(now, Input::Closed(id), deliveries);
                    }
                    Poll::Pending => break,
                }
            }
        }
    }
}

impl Deliveries {
    fn deliver(self) {
        drop(self.closed);
        if let Some(to) = self.to.as_ref().and_then(Weak::upgrade) {
            to.take(self.outcomes);
        }
        for (reply_to, outcome) in self.replies {
            // The caller may have dropped its future.
            drop(reply_to.send(outcome));
        }
        for (hear, heard) in self.heard {
            drop(hear.send(heard));
        }
        if let Some((tell, outcome)) = self.opened {
            drop(tell.send(outcome));
        }
        if let Some(waker) = self.waker {
            waker.wake();
        }
    }
}

/// Abandons a call when its future is dropped.
struct Caller<'a> {
    link: &'a Link,
    id: CallId,
    has_outcome: bool,
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if self.has_outcome {
            return;
        }
        let reply_to = self.link.change(|state, now, deliveries| {
            state.step(now, Input::Abandon(self.id), deliveries);
            state.calls.remove(&self.id)
        });
        drop(reply_to);
    }
}

/// Ends the link when its task ends, for example with its runtime.
struct Ends<'a>(&'a Link);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Link({:?})", self.address)
    }
}
