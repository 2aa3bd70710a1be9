//! The driver of a wire: streams, timers, and the delivery of outcomes.
//!
//! Invariant: the driver decides nothing. The wire and its streams are behind one short lock, so the bytes of a stream
//! have one writer at a time. No foreign code runs under the lock but that of the streams.
//!
//! # How it works
//! Each caller that submits a call steps the wire on its own thread, and writes what the step gives it to write. The
//! link's own task does the rest: it dials, reads, writes what a stream did not take at once, and lets time pass. A
//! second task, on the runtime of the callers, reads the command connections while they are lent to it (`lending`). A caller
//! that leaves work for a task wakes the task, unless it is awake. A stream is polled with the waker of the task that
//! carries it alone, so bytes that a caller could not write are written by that task.

mod carrier;
mod deliveries;
mod lending;
mod state;
mod turns;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_proto::{Call, Channel, Moment, StoreError, engine};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use self::carrier::Carrier;
use self::deliveries::{Deliveries, Outcome, Turn};
use self::state::{Dialed, Recipient, State};
use super::connect::ConnectOptions;
use super::credentials_provider::CredentialsSource;
use super::executor::Executor;
use super::foreign::guarded;
use super::notices::{ConnectionNotice, MissingNotice, PlainTextNotice};
use super::peer::Peer;
use super::socket::{Dial, Socket};
use super::wire::{CallId, ConnId, Input, SubscriberId, Wire};
use crate::store::{Heard, Outcomes, Submit};
use crate::sync::{Mutex, MutexGuard};
use crate::tokio_runtime::Task;
use crate::url::{Credentials, ServerUrl};

/// A dial under way.
type Dialing = (ConnId, BoxFuture<'static, std::io::Result<(Socket, Option<Credentials>)>>);

/// A request to the provider of the credentials.
type AskingForCredentials = BoxFuture<'static, std::io::Result<Credentials>>;

/// The work of the link's own task besides its streams.
#[derive(Default)]
struct Tasks {
    dialing: Vec<Dialing>,
    /// The request for credentials that no dial has made.
    login: Option<AskingForCredentials>,
}

/// The way to servers or to sentinels.
pub(super) struct Access {
    dialer: Arc<dyn Dial>,
    /// The provider of the credentials, and the time that it has.
    credentials: Option<(CredentialsSource, Duration)>,
    /// The notice of a password in plain text, if the streams carry one.
    plain_text_notice: Option<PlainTextNotice>,
}

impl Access {
    /// Creates the access above a transport, by the options of a client.
    pub(super) fn new(dialer: &Arc<dyn Dial>, url: &ServerUrl, options: &ConnectOptions, peer: Peer) -> Self {
        let credentials = options.login_source(peer).cloned().map(|source| (source, options.timeout));
        let plain_text_notice = options.notice_of_login(url, peer);
        Self { dialer: options.secured(Arc::clone(dialer), url, peer), credentials, plain_text_notice }
    }

    /// Asks the provider of the credentials, if there is one.
    fn ask_for_credentials(&self) -> Option<AskingForCredentials> {
        let (source, limit) = self.credentials.clone()?;
        Some(Box::pin(async move { source.ask(limit).await }))
    }
}

/// The size of a read.
const READ: usize = 16 << 10;

/// A wire, its streams, and the recipients of its outcomes.
pub(super) struct Link {
    state: Mutex<State>,
    servers: Access,
    sentinels: Access,
}

impl Link {
    /// Creates the link of a wire, with the access to servers and to sentinels. Its own task runs on this runtime.
    pub(super) fn new(
        wire: Wire,
        servers: Access,
        sentinels: Access,
        runtime: Arc<dyn Executor>,
    ) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State::new(wire, runtime)), servers, sentinels })
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

    /// Tells these functions of missing replicas, and of connections.
    pub(super) fn tell(&self, (missing, connections): (Option<MissingNotice>, Option<ConnectionNotice>)) {
        let mut state = self.state();
        (state.missing_notice, state.connection_notice) = (missing, connections);
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
            deliveries.turn = Turn::Last;
            std::mem::take(&mut state.subscribers)
        });
        drop(subscribers);
    }

    /// Changes the state, and then delivers the outcomes and wakes the task if there is work for it.
    fn change<T>(&self, change: impl FnOnce(&mut State, Moment, &mut Deliveries) -> T) -> T {
        self.turn(change).0
    }

    /// Does the same. Returns true, too, if another turn of this thread is to follow.
    fn turn<T>(&self, change: impl FnOnce(&mut State, Moment, &mut Deliveries) -> T) -> (T, bool) {
        let mut state = self.state();
        let mut deliveries = Deliveries::default();
        let now = state.runtime.now();
        let changed = change(&mut state, now, &mut deliveries);
        state.wake_for_work(now, &mut deliveries);
        if !deliveries.outcomes.is_empty()
            || !deliveries.replaced.is_empty()
            || deliveries.turn != Turn::Alone
        {
            deliveries.to = state.outcomes.clone();
        }
        drop(state);
        (changed, deliveries.deliver())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Submit for Link {
    fn submit(&self, id: engine::CallId, call: Call, timeout: Duration) -> Result<(), StoreError> {
        self.change(|state, now, deliveries| {
            state.submit(now, Recipient::Submitter(id), (call, timeout), deliveries);
            let own = state.take_own(&[id], deliveries).pop();
            own.map_or(Ok(()), |(_, outcome)| outcome.map(drop))
        })
    }

    fn submit_all(&self, calls: Vec<(engine::CallId, Call, Duration)>) -> Vec<(engine::CallId, StoreError)> {
        self.change(|state, now, deliveries| {
            let ids: Vec<_> = calls.iter().map(|(id, ..)| *id).collect();
            state.step(now, Input::Gather, deliveries);
            for (id, call, timeout) in calls {
                state.submit(now, Recipient::Submitter(id), (call, timeout), deliveries);
            }
            state.step(now, Input::Gathered, deliveries);
            let own = state.take_own(&ids, deliveries).into_iter();
            own.filter_map(|(id, outcome)| Some((id, outcome.err()?))).collect()
        })
    }

    fn withdraw(&self, id: engine::CallId) -> Option<StoreError> {
        // Nothing is sent, so there is nothing to deliver, and no work for a task.
        self.state().withdraw(id)
    }
}

/// Starts the link's own task, which ends the link when it ends.
pub(super) fn start(link: &Arc<Link>) -> Task {
    let runtime = Arc::clone(&link.state().runtime);
    runtime.spawn(Box::pin(drive(Arc::clone(link), Arc::clone(&runtime))))
}

/// Drives a link until it is dropped.
async fn drive(link: Arc<Link>, runtime: Arc<dyn Executor>) {
    let _ends = Ends(&link);
    let mut tasks = Tasks::default();
    let mut buffer = vec![0; READ];
    loop {
        let mut alarm = None;
        poll_fn(|cx| {
            loop {
                let next = link.poll(cx, &mut tasks, &mut buffer);
                if alarm.as_ref().is_none_or(|(at, _)| *at != next) {
                    let sleeps = next != Moment::NEVER;
                    alarm = Some((next, sleeps.then(|| runtime.pause_until(next))));
                }
                if let Some((_, Some(sleep))) = &mut alarm
                    && sleep.as_mut().poll(cx).is_ready()
                {
                    return Poll::Ready(());
                }
                // Dials and resets of this turn come without a wake-up.
                if !link.state().own.is_awake {
                    return Poll::Pending;
                }
            }
        })
        .await;
        link.change(State::recall_if_due);
        // Replies that arrived while this thread stood still are read first.
        let mut others = pin!(others_run());
        poll_fn(|cx| {
            let _ = link.poll(cx, &mut tasks, &mut buffer);
            others.as_mut().poll(cx)
        })
        .await;
        poll_fn(|cx| Poll::Ready(link.poll(cx, &mut tasks, &mut buffer))).await;
        link.change(|state, now, deliveries| {
            state.alarm = Moment::NEVER;
            state.step(now, Input::Tick, deliveries);
        });
    }
}

/// Starts the task that carries the link's command connections on this runtime.
pub(super) fn carry_on(link: &Arc<Link>, runtime: &Arc<dyn Executor>) -> Task {
    link.change(|state, _, _| state.carrier = Some(Carrier::new(Arc::clone(runtime))));
    runtime.spawn(Box::pin(carry(Arc::downgrade(link), Arc::clone(runtime))))
}

/// Carries the command connections whenever they are lent, until the runtime or the store ends. A runtime that nobody drives
/// keeps its tasks, and this one then keeps neither the link nor what the user gave it.
async fn carry(link: Weak<Link>, runtime: Arc<dyn Executor>) {
    let _gives_back = GivesBack(&link);
    if !runtime.has_sockets() {
        return;
    }
    let mut buffer = vec![0; READ];
    let mut comes_back = false;
    poll_fn(|cx| {
        let Some(link) = link.upgrade() else { return Poll::Ready(()) };
        let (is_offered, is_awaited) = link.turn(|state, now, deliveries| {
            state.carry(now, cx, &mut buffer, deliveries);
            state.offer_turn(comes_back, deliveries)
        });
        if is_offered {
            link.change(|state, _, _| state.turn_is_awaited(is_awaited));
        }
        comes_back = is_awaited;
        if comes_back {
            // The tasks that are woken run first, as far as this thread runs them.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await;
}

/// Gives the connections back when the task ends, for example with its runtime.
struct GivesBack<'a>(&'a Weak<Link>);

impl Drop for GivesBack<'_> {
    fn drop(&mut self) {
        let Some(link) = self.0.upgrade() else { return };
        link.change(|state, now, deliveries| {
            state.recall(now, deliveries);
            state.carrier = None;
            deliveries.turn = Turn::Last;
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
    fn poll(&self, cx: &mut Context<'_>, tasks: &mut Tasks, buffer: &mut [u8]) -> Moment {
        let Tasks { dialing, login } = tasks;
        let (dials, resets, wants_login) = {
            let mut state = self.state();
            state.own.begin(cx);
            let dials = std::mem::take(&mut state.dials);
            state.dialing.extend(dials.iter().map(|dial| dial.id));
            let wants_login = std::mem::take(&mut state.wants_login);
            (dials, std::mem::take(&mut state.resets), wants_login)
        };
        if wants_login {
            *login = self.servers.ask_for_credentials();
        }
        let credentials = login.as_mut().and_then(|asking| match asking.as_mut().poll(cx) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        });
        if credentials.is_some() {
            *login = None;
        }
        dialing.extend(dials.into_iter().map(|dialed| (dialed.id, self.dial(dialed))));
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
            state.take_left(deliveries);
            if let Some(credentials) = credentials {
                state.step(now, Input::Login(credentials), deliveries);
            }
            for (id, outcome) in dialed {
                state.dialed(now, id, outcome, deliveries);
            }
            let is_lent =
                |id: &ConnId| state.carrier.as_ref().is_some_and(|carrier| carrier.carries.contains(id));
            let own: Vec<_> = state.streams.keys().copied().filter(|id| !is_lent(id)).collect();
            for id in own {
                state.exchange(now, id, cx, buffer, deliveries);
            }
            state.step(now, Input::Flush, deliveries);
            state.lend(now, deliveries);
            state.own.is_awake = !(state.dials.is_empty() && state.resets.is_empty()) || state.wants_login;
            // The alarm moves to an earlier time only. Most timers are gone before they are due, and an alarm that fires
            // in vain once in a while costs less than a new alarm for each call.
            state.alarm = state.alarm.min(state.timer());
            state.alarm
        })
    }

    /// Asks for credentials if the connection needs them, and opens its stream.
    fn dial(
        &self,
        Dialed { address, limit, peer, wants_login, .. }: Dialed,
    ) -> BoxFuture<'static, std::io::Result<(Socket, Option<Credentials>)>> {
        let access = match peer {
            Peer::Server => &self.servers,
            Peer::Sentinel => &self.sentinels,
        };
        let (dialer, notice) = (Arc::clone(&access.dialer), access.plain_text_notice.clone());
        let login = wants_login.then(|| access.ask_for_credentials()).flatten();
        Box::pin(async move {
            let login = match login {
                Some(asking) => Some(asking.await?),
                None => None,
            };
            let dialing = async { dialer.dial(&address, limit).await };
            let socket = guarded(dialing).await?;
            if let (Some(notice), Some(peer)) = (notice, socket.plain_peer()) {
                notice.connected(&address, peer);
            }
            Ok((socket, login))
        })
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
        self.0.state().has_panicked = std::thread::panicking();
        self.0.close();
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}
