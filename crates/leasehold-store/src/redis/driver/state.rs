//! A wire with its streams and the recipients of its outcomes.
//!
//! Invariant: the state is behind the lock of its link, so the bytes of a stream have one writer at a time. No foreign
//! code runs under the lock but that of the streams.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_proto::{Call, Moment, Scope, StoreError, StoreErrorKind, engine};
use tokio::io::ReadBuf;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::super::executor::Executor;
use super::super::foreign::guarded_poll;
use super::super::notices::{Change, ConnectionNotice, MissingNotice, Serving};
use super::super::peer::Peer;
use super::super::socket::Socket;
use super::super::wire::{CallId, ConnId, Input, Output, SubscriberId, Wire};
use super::carrier::{Carrier, Turns};
use super::deliveries::{Deliveries, Outcome};
use super::turns::come_back;
use crate::store::{Heard, Outcomes};
use crate::url::{Address, Credentials};

/// The most reads of one stream before the task lets others run. Calls wait for the lock meanwhile: a turn of a flood takes
/// a few milliseconds at most.
const READS: usize = 8;
/// The most outputs for which the buffer keeps its memory.
const BUFFERED: usize = 128;

/// The recipient of a call's outcome.
pub(super) enum Recipient {
    Future(oneshot::Sender<Outcome>),
    /// The recipient of all submitted calls, with its id of the call.
    Submitter(engine::CallId),
}

/// A connection to dial.
pub(super) struct Dialed {
    pub(super) id: ConnId,
    pub(super) address: Address,
    pub(super) limit: Duration,
    pub(super) peer: Peer,
    /// True if the provider of the credentials is asked first.
    pub(super) wants_login: bool,
}

pub(super) struct State {
    pub(super) wire: Wire,
    /// The buffer of the wire's outputs, empty between steps.
    outputs: Vec<Output>,
    pub(super) streams: BTreeMap<ConnId, Stream>,
    pub(super) calls: HashMap<CallId, Recipient, BuildHasherDefault<Counted>>,
    /// The recipient of the outcomes of submitted calls.
    pub(super) outcomes: Option<Weak<dyn Outcomes>>,
    pub(super) subscribers: BTreeMap<SubscriberId, UnboundedSender<Heard>>,
    pub(super) opened: Option<oneshot::Sender<Result<(), StoreError>>>,
    last_id: u64,
    /// The connections to dial, those that the task dials, and the dials that are not wanted any more.
    pub(super) dials: Vec<Dialed>,
    pub(super) dialing: Vec<ConnId>,
    pub(super) resets: Vec<ConnId>,
    /// True if the task is to ask the provider of the credentials.
    pub(super) wants_login: bool,
    /// The function that hears of missing replicas.
    pub(super) missing_notice: Option<MissingNotice>,
    /// The function that hears of connections.
    pub(super) connection_notice: Option<ConnectionNotice>,
    /// The turns of the link's own task.
    pub(super) own: Turns,
    /// The runtime of the link's own task.
    pub(super) runtime: Arc<dyn Executor>,
    /// The runtime of the callers, if there is one.
    pub(super) carrier: Option<Carrier>,
    /// The time until which the task sleeps.
    pub(super) alarm: Moment,
    /// The outcomes of other calls that a submitter's step met, and the names of other servers, which the own task
    /// delivers.
    left: (Vec<(engine::CallId, Outcome)>, Vec<Scope>),
    /// True if a panic has ended the link's own task. All calls fail then, and say so.
    pub(super) has_panicked: bool,
}

pub(super) struct Stream {
    pub(super) socket: Socket,
    /// True once a write has failed. The end of the stream is then read.
    is_broken: bool,
    /// True while the stream keeps bytes that it has taken and not passed on, as an encrypted stream does.
    pub(super) is_unflushed: bool,
    /// True once the stream has brought a byte.
    is_heard: bool,
    /// What observers were told of the connection, once it serves.
    serves: Option<Serving>,
}

impl Stream {
    const fn new(socket: Socket) -> Self {
        Self { socket, is_broken: false, is_unflushed: false, is_heard: false, serves: None }
    }
}

/// Hashes a number that the client counts up, which nobody else chooses.
#[derive(Default)]
pub(super) struct Counted(u64);

impl Hasher for Counted {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Fibonacci hashing spreads numbers that follow each other over the whole range.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }
}

impl State {
    pub(super) fn new(wire: Wire, runtime: Arc<dyn Executor>) -> Self {
        Self {
            wire,
            outputs: Vec::new(),
            streams: BTreeMap::new(),
            calls: HashMap::default(),
            outcomes: None,
            subscribers: BTreeMap::new(),
            opened: None,
            last_id: 0,
            dials: Vec::new(),
            dialing: Vec::new(),
            resets: Vec::new(),
            wants_login: false,
            missing_notice: None,
            connection_notice: None,
            own: Turns::new(),
            runtime,
            carrier: None,
            alarm: Moment::NEVER,
            left: Default::default(),
            has_panicked: false,
        }
    }

    pub(super) const fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn submit(
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

    /// Takes what these calls ended with in their own step. All other outcomes stay for the link's own task: their delivery
    /// takes a lock, and the submitter holds it.
    pub(super) fn take_own(
        &mut self,
        ids: &[engine::CallId],
        deliveries: &mut Deliveries,
    ) -> Vec<(engine::CallId, Outcome)> {
        let outcomes = std::mem::take(&mut deliveries.outcomes);
        let (own, others): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(id, _)| ids.contains(id));
        if !others.is_empty() || !deliveries.replaced.is_empty() {
            self.left.0.extend(others);
            self.left.1.append(&mut deliveries.replaced);
            self.own.wake(deliveries);
        }
        own
    }

    /// Takes a submitted call back that was not sent, and returns the error by which it fails.
    pub(super) fn withdraw(&mut self, id: engine::CallId) -> Option<StoreError> {
        let is_it = |recipient: &Recipient| matches!(recipient, Recipient::Submitter(other) if *other == id);
        let on_wire = *self.calls.iter().find(|(_, recipient)| is_it(recipient))?.0;
        let error = self.wire.withdraw(on_wire)?;
        self.calls.remove(&on_wire);
        Some(error)
    }

    /// Takes the outcomes that submitters have left to the link's own task.
    pub(super) fn take_left(&mut self, deliveries: &mut Deliveries) {
        deliveries.outcomes.append(&mut self.left.0);
        deliveries.replaced.append(&mut self.left.1);
    }

    /// Steps the wire, and carries out what it says.
    pub(super) fn step(&mut self, now: Moment, input: Input<'_>, deliveries: &mut Deliveries) {
        // A write takes steps of its own, with a buffer of their own.
        let mut outputs = std::mem::take(&mut self.outputs);
        self.wire.step(now, input, &mut outputs);
        for output in outputs.drain(..) {
            match output {
                Output::Dial(id, address, limit) => {
                    let (peer, wants_login) = (self.wire.peer_of(id), self.wire.wants_login(id));
                    self.dials.push(Dialed { id, address, limit, peer, wants_login });
                }
                Output::Login => self.wants_login = true,
                Output::Missing { connected, wanted } => {
                    let notice = self.missing_notice.clone();
                    deliveries.missing.extend(notice.map(|notice| (notice, connected, wanted)));
                }
                Output::Serves(id, serving) => {
                    if let (Some(stream), Some(notice)) = (self.streams.get_mut(&id), &self.connection_notice)
                    {
                        stream.serves = Some(serving.clone());
                        deliveries.connections.push((notice.clone(), serving, Change::Opened));
                    }
                }
                Output::Write(id) => self.write(now, id, deliveries),
                Output::Reset(id) => self.reset(id, deliveries),
                Output::Opened(outcome) => deliveries.opened = self.opened.take().map(|tell| (tell, outcome)),
                Output::Reply(id, outcome) => {
                    let outcome = if self.has_panicked { outcome.map_err(of_panic) } else { outcome };
                    match self.calls.remove(&id) {
                        Some(Recipient::Future(reply_to)) => deliveries.replies.push((reply_to, outcome)),
                        Some(Recipient::Submitter(id)) => deliveries.outcomes.push((id, outcome)),
                        None => {}
                    }
                }
                Output::Heard(id, heard) => {
                    if let Some(hear) = self.subscribers.get(&id) {
                        deliveries.hear(id, hear, heard);
                    }
                }
                Output::Replaced(scope) => deliveries.replaced.push(scope),
            }
        }
        outputs.shrink_to(BUFFERED);
        self.outputs = outputs;
    }

    /// Wakes the tasks that have work.
    pub(super) fn wake_for_work(&mut self, now: Moment, deliveries: &mut Deliveries) {
        self.watch_carrier(now);
        if self.wire.wants_flush() {
            let carrier = self.carrier.as_mut().filter(|carrier| !carrier.carries.is_empty());
            carrier.map_or(&mut self.own, |carrier| &mut carrier.turns).wake(deliveries);
        }
        if !self.dials.is_empty()
            || self.wants_login
            || !self.resets.is_empty()
            || self.can_lend(now)
            || self.timer() < self.alarm
        {
            self.own.wake(deliveries);
        }
    }

    /// Returns the time at which the link's own task has work.
    pub(super) fn timer(&self) -> Moment {
        self.wire.timer().min(self.carrier_timer())
    }

    /// Ends a stream or a dial. A stream that has ended already needs no end.
    fn reset(&mut self, id: ConnId, deliveries: &mut Deliveries) {
        if self.drop_stream(id, Change::GivenUp, deliveries) {
            return;
        }
        self.dials.retain(|dial| dial.id != id);
        if let Some(index) = self.dialing.iter().position(|dialing| *dialing == id) {
            self.dialing.swap_remove(index);
            self.resets.push(id);
        }
    }

    /// Drops a stream outside the lock. Returns true if there was one.
    pub(super) fn drop_stream(&mut self, id: ConnId, change: Change, deliveries: &mut Deliveries) -> bool {
        let Some(stream) = self.streams.remove(&id) else { return false };
        if let (Some(serving), Some(notice)) = (stream.serves, &self.connection_notice) {
            deliveries.connections.push((notice.clone(), serving, change));
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.forget(id);
        }
        deliveries.closed.push(stream.socket);
        true
    }

    pub(super) fn dialed(
        &mut self,
        now: Moment,
        id: ConnId,
        outcome: std::io::Result<(Socket, Option<Credentials>)>,
        deliveries: &mut Deliveries,
    ) {
        let Some(index) = self.dialing.iter().position(|dialing| *dialing == id) else { return };
        self.dialing.swap_remove(index);
        match outcome {
            Ok((socket, login)) => {
                if let Some(login) = login {
                    self.step(now, Input::DialLogin(id, login), deliveries);
                }
                self.streams.insert(id, Stream::new(socket));
                self.step(now, Input::Connected(id), deliveries);
            }
            Err(error) => self.step(now, Input::Refused(id, error), deliveries),
        }
    }

    /// Writes the bytes of a connection, as far as its stream takes them. The task that carries the connection is woken
    /// when the stream takes more.
    pub(super) fn write(&mut self, now: Moment, id: ConnId, deliveries: &mut Deliveries) {
        let carrier = self.carrier.as_ref().filter(|carrier| carrier.carries.contains(&id));
        let waker = carrier.map_or(&self.own, |carrier| &carrier.turns).waker.clone();
        let mut cx = Context::from_waker(&waker);
        while let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.is_broken) {
            let bytes = self.wire.unwritten(id);
            if bytes.is_empty() {
                let flushed = guarded_poll(|| stream.socket.stream().poll_flush(&mut cx));
                stream.is_unflushed = flushed.is_pending();
                stream.is_broken = matches!(flushed, Poll::Ready(Err(_)));
                return;
            }
            match guarded_poll(|| stream.socket.stream().poll_write(&mut cx, bytes)) {
                Poll::Ready(Ok(0) | Err(_)) => stream.is_broken = true,
                Poll::Ready(Ok(count)) => self.step(now, Input::Wrote(id, count), deliveries),
                Poll::Pending => return,
            }
        }
    }

    /// Reads a stream until it has no more bytes, and goes on with the bytes that it did not take.
    pub(super) fn exchange(
        &mut self,
        now: Moment,
        id: ConnId,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        deliveries: &mut Deliveries,
    ) {
        let mut reads = 0;
        while let Some(stream) = self.streams.get_mut(&id) {
            if reads == READS {
                come_back(cx);
                break;
            }
            reads += 1;
            let mut read = ReadBuf::new(buffer);
            match guarded_poll(|| stream.socket.stream().poll_read(cx, &mut read)) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => {
                    stream.is_heard = true;
                    self.step(now, Input::Bytes(id, read.filled()), deliveries);
                }
                Poll::Ready(outcome) => {
                    let refusal = outcome.err().filter(|_| !stream.is_heard);
                    let refusal = refusal.and_then(|error| stream.socket.refusal(&error));
                    self.drop_stream(id, Change::Ended, deliveries);
                    let ended = refusal.map_or(Input::Closed(id), |error| Input::Refused(id, error));
                    self.step(now, ended, deliveries);
                }
                Poll::Pending => break,
            }
        }
        let is_unflushed = self.streams.get(&id).is_some_and(|stream| stream.is_unflushed);
        if is_unflushed || !self.wire.unwritten(id).is_empty() {
            self.write(now, id, deliveries);
        }
    }
}

/// Returns the error of a call after a panic has ended the link, whose user did not close it.
fn of_panic(error: StoreError) -> StoreError {
    match error.kind {
        StoreErrorKind::Closed => error.with_source(
            "a panic has ended the client's connections, as the program's panic hook has reported; make a new client",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use leasehold_proto::Reply;
    use leasehold_proto::recipe::rights::may_subscribe;

    use tokio::runtime::Handle;

    use super::super::super::connect::ConnectOptions;
    use super::super::super::executor::TokioExecutor;
    use super::*;
    use crate::url::ServerUrl;

    fn state_of(url: ServerUrl) -> State {
        let wire = Wire::new(url, ConnectOptions::default(), 7);
        State::new(wire, Arc::new(TokioExecutor(Handle::current())))
    }

    #[tokio::test]
    async fn the_calls_of_a_link_that_a_panic_has_ended_say_so() {
        let url = ServerUrl::parse("redis://nowhere.invalid").unwrap();
        let mut state = state_of(url);
        state.has_panicked = true;
        let mut deliveries = Deliveries::default();
        state.step(Moment::default(), Input::Close, &mut deliveries);
        let id = engine::CallId::new(NonZeroU64::MIN);
        let call = (may_subscribe("c"), Duration::from_secs(1));
        state.submit(Moment::default(), Recipient::Submitter(id), call, &mut deliveries);
        let (_, outcome) = state.take_own(&[id], &mut deliveries).remove(0);
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, StoreErrorKind::Closed);
        assert!(error.reason().to_string().contains("a panic has ended"), "{}", error.reason());
    }

    #[tokio::test]
    async fn the_outcomes_of_others_are_left_to_the_links_own_task() {
        let url = ServerUrl::parse("redis://nowhere.invalid").unwrap();
        let mut state = state_of(url);
        let [other, own] = [1, 2].map(|id| engine::CallId::new(NonZeroU64::new(id).unwrap()));
        let mut deliveries = Deliveries::default();
        deliveries.outcomes.extend([other, own].map(|id| (id, Ok(Reply::Nil))));
        deliveries.replaced.push(Scope::All);
        state.own.is_awake = false;
        assert_eq!(state.take_own(&[own], &mut deliveries), [(own, Ok(Reply::Nil))]);
        assert!(deliveries.outcomes.is_empty() && deliveries.replaced.is_empty());
        assert!(deliveries.wakers.len() == 1 && state.own.is_awake, "the task takes them");
        state.take_left(&mut deliveries);
        assert_eq!((deliveries.outcomes[0].0, deliveries.replaced.len()), (other, 1));
        assert_eq!(state.take_own(&[own], &mut Deliveries::default()), []);
    }
}
