//! The engine behind its one short lock, stepped by whoever brings an event.
//!
//! Invariant: the lock is held for a step and nothing else; wakers are woken and the driver is rung outside it. The
//! clock is read inside it, so the engine never sees time go back. What a user can call refuses a forked process before
//! it takes the lock.
//! Called by: tickets and guards, inline on the user's thread; the driver.
//!
//! # How it works
//! Whoever gives the driver something to do rings for it, but only when it sleeps. It is *awake* from when it was rung,
//! or brings an event itself, until it takes its orders, which it does before it sleeps again; so what is added
//! meanwhile is seen without a ring. Its alarm is only ever moved to an earlier time: most timers are put off or cleared
//! before they are due, and an alarm that rings for nothing once in a while costs less than setting it anew each time.
//!
//! When the driver has ended, in whichever way, nothing waits for it: the client is closed, and every call is answered
//! on the spot with [`StoreErrorKind::Closed`].

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Waker};

use futures_util::future::BoxFuture;
use leasehold_proto::engine::{Action, CallId, Event, Id, Outcome};
use leasehold_proto::{
    Applied, Call, ClientId, Engine, Moment, Name, Reply, StoreError, StoreErrorKind, Verb,
};
use leasehold_store::Watch;
use tokio::sync::{Notify, oneshot};

use crate::defaults::Defaults;
use crate::error::{BadName, InspectErrorKind, Subject, SubjectKind};
use crate::name::{IntoName, Named, named};
use crate::sync::{AtomicU64, Mutex, MutexGuard, gap};

/// Something for the driver to carry out.
pub(crate) enum Order {
    /// For the engine.
    Act(Action),
    /// To run beside the calls, for as long as the client lives.
    Keep(BoxFuture<'static, ()>),
    /// A look at the server on behalf of a caller; the engine has no part in it.
    Look(Call, oneshot::Sender<Result<Reply, StoreError>>),
}

/// One client: its engine, and what connects the engine to the driver and to waiting futures.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rung when the driver sleeps and has orders, or a timer earlier than the one it sleeps for.
    bell: Notify,
    last_id: AtomicU64,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    /// The runtime's watch over users that wait; tests on a virtual clock have one.
    watch: Option<Watch>,
    /// The process that made the client; in another one nothing of it may be touched.
    process: u32,
    client: ClientId,
    /// The server's URL, with its password masked.
    server: String,
    defaults: Defaults,
    /// Semaphores whose number of permits was set, and until when that is believed.
    set: Mutex<BTreeMap<Name, Moment>>,
}

/// Of so many semaphores a client remembers that their permits are set; then it forgets them all.
const SET_MAX: usize = 1024;

struct State {
    engine: Engine,
    orders: Vec<Order>,
    /// What the driver has taken and not answered, each with what is said of it if the driver ends.
    calls: BTreeMap<CallId, StoreError>,
    /// Whether there is no driver any more.
    ended: bool,
    /// By what there may be news for, and by who waits for it; none from when it was woken until it comes to look.
    wakers: BTreeMap<(Id, Id), Option<Waker>>,
    /// What the driver sleeps for; not later than the engine's next timer.
    alarm: Moment,
    /// Whether the driver will take its orders without being rung.
    awake: bool,
}

/// The caller's process is not the one that made the client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forked;

impl Shared {
    /// A client of this process.
    pub(crate) fn new(
        engine: Engine,
        process: u32,
        clock: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        let client = engine.client();
        let state = State {
            engine,
            orders: Vec::new(),
            calls: BTreeMap::new(),
            ended: false,
            wakers: BTreeMap::new(),
            alarm: Moment::NEVER,
            awake: false,
        };
        Self {
            state: Mutex::new(state),
            bell: Notify::new(),
            last_id: AtomicU64::new(0),
            clock: Box::new(clock),
            watch: None,
            process,
            client,
            server: String::new(),
            defaults: Defaults::default(),
            set: Mutex::new(BTreeMap::new()),
        }
    }

    /// Whether the number of this semaphore's permits was set a short time ago.
    pub(crate) fn was_set(&self, name: &Name, now: Moment) -> bool {
        if self.check_process().is_err() {
            return false;
        }
        let set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        set.get(name).is_some_and(|until| now < *until)
    }

    /// It was set.
    pub(crate) fn is_set(&self, name: &Name, until: Moment) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.len() >= SET_MAX {
            set.clear();
        }
        set.insert(name.clone(), until);
    }

    /// The same, with other defaults for what is made of it.
    pub(crate) fn with(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    /// The same, with a name for its server.
    pub(crate) fn of_server(self, server: &str) -> Self {
        Self { server: server.to_owned(), ..self }
    }

    /// The same, with a watch over users that wait.
    pub(crate) fn watched_by(self, watch: Option<Watch>) -> Self {
        Self { watch, ..self }
    }

    /// The server's URL, with its password masked.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// What locks are like unless they are told otherwise.
    pub(crate) const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// What the server calls an object that users call so.
    pub(crate) fn name(&self, name: impl IntoName) -> Named {
        named(name).and_then(|name| self.on_server(name))
    }

    /// The same of a name that was read before.
    pub(crate) fn on_server(&self, name: Name) -> Named {
        let written = name.clone();
        self.defaults.on_server(name).map_err(|error| BadName::new(error, written.as_str()))
    }

    /// What an error is about.
    pub(crate) fn subject(&self, kind: SubjectKind, name: &Named) -> Subject {
        match name {
            Ok(name) => Subject::new(kind, self.defaults.as_written(name)),
            Err(bad) => Subject { kind, name: Arc::clone(&bad.text) },
        }
    }

    /// Refuses a forked child: its copy of the engine believes in holds that are the parent's, and the parent's lock
    /// may be taken for ever.
    pub(crate) fn check_process(&self) -> Result<(), Forked> {
        if std::process::id() == self.process { Ok(()) } else { Err(Forked) }
    }

    /// The lock, for what users call.
    fn enter(&self) -> Result<MutexGuard<'_, State>, Forked> {
        self.check_process()?;
        Ok(self.lock())
    }

    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }

    /// A number for a new ticket.
    pub(crate) fn next_id(&self) -> Id {
        Id(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Brings an event.
    pub(crate) fn step(&self, event: Event) -> Result<(), Forked> {
        let mut state = self.enter()?;
        let mut news = News::default();
        state.step(self.now(), event, &mut news);
        self.leave(state, news);
        Ok(())
    }

    /// For the driver: brings an event.
    pub(crate) fn step_awake(&self, event: Event) {
        let mut state = self.lock();
        let mut news = News::default();
        state.awake = true;
        if matches!(event, Event::Tick) {
            // The alarm has rung; the next one is set when the orders are taken.
            state.alarm = Moment::NEVER;
        }
        if let Event::Replied(call, _) = &event {
            state.calls.remove(call);
        }
        state.step(self.now(), event, &mut news);
        self.leave(state, news);
    }

    /// Brings a ticket's event if it has not been brought, and takes the outcome if it is there. If not, registers who
    /// is to be woken.
    pub(crate) fn claim(
        &self,
        id: Id,
        first: Option<Event>,
        waker: &Waker,
    ) -> Result<Option<Outcome>, Forked> {
        let watched = self.watched(id, waker)?;
        let waker = watched.as_ref().unwrap_or(waker);
        let mut state = self.enter()?;
        let mut news = News { asker: Some(id), ..News::default() };
        let now = self.now();
        if let Some(event) = first {
            state.step(now, event, &mut news);
        }
        state.step(now, Event::Claim(id), &mut news);
        let settled = news.settled.take();
        if settled.is_some() {
            news.idle = state.take_wakers(id);
        } else if news.look_again {
            news.wakers.push(waker.clone());
        } else {
            news.idle.extend(state.register(id, id, waker));
        }
        self.leave(state, news);
        Ok(settled)
    }

    /// Tells the runtime's watch of a wait that is being polled; the waker to keep, if it is another one.
    fn watched(&self, wait: Id, waker: &Waker) -> Result<Option<Waker>, Forked> {
        let Some(watch) = &self.watch else { return Ok(None) };
        self.check_process()?;
        Ok(Some(watch(wait, waker)))
    }

    /// Ends a change of the state: says what it has for others, outside the lock.
    fn leave(&self, mut state: MutexGuard<'_, State>, news: News) {
        let wanted =
            !state.orders.is_empty() || state.engine.next_timer() < state.alarm || state.engine.is_finished();
        let ring = wanted && !state.awake;
        state.awake |= ring;
        drop(state);
        gap();
        drop((news.idle, news.refused));
        if ring {
            self.bell.notify_one();
            gap();
        }
        news.wakers.into_iter().for_each(Waker::wake);
    }

    /// Reads the engine.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Engine, Moment) -> T) -> Result<T, Forked> {
        let state = self.enter()?;
        Ok(look(&state.engine, self.now()))
    }

    /// Reads the engine, and registers who is to be woken when there is news for this id.
    pub(crate) fn read_as<T>(
        &self,
        id: Id,
        listener: Id,
        waker: &Waker,
        look: impl FnOnce(&Engine, Moment) -> T,
    ) -> Result<T, Forked> {
        let mut state = self.enter()?;
        let known = state.register(id, listener, waker);
        let seen = look(&state.engine, self.now());
        drop(state);
        drop(known);
        Ok(seen)
    }

    /// One of those who wait for news of this id does so no more.
    pub(crate) fn forget_listener(&self, id: Id, listener: Id) -> Result<(), Forked> {
        let waker = self.enter()?.wakers.remove(&(id, listener)).flatten();
        drop(waker);
        Ok(())
    }

    /// Nobody waits for news of this id any more.
    pub(crate) fn forget(&self, id: Id) -> Result<(), Forked> {
        let wakers = self.enter()?.take_wakers(id);
        drop(wakers);
        Ok(())
    }

    /// Who was woken and has neither come to look since nor gone.
    #[cfg(feature = "embedded")]
    pub(crate) fn woken(&self) -> Vec<(Id, Id)> {
        let state = self.lock();
        state.wakers.iter().filter(|(_, waker)| waker.is_none()).map(|(who, _)| *who).collect()
    }

    /// Has a future run on the driver's thread, until it ends or the client does.
    pub(crate) fn keep(&self, future: BoxFuture<'static, ()>) -> Result<(), Forked> {
        let mut state = self.enter()?;
        if !state.ended {
            state.orders.push(Order::Keep(future));
        }
        self.leave(state, News::default());
        Ok(())
    }

    /// Asks the server something that the engine has no part in.
    async fn look(&self, call: Call) -> Result<Option<Result<Reply, StoreError>>, Forked> {
        let (tell, mut told) = oneshot::channel();
        let wait = self.next_id();
        {
            let mut state = self.enter()?;
            if state.engine.is_closed() {
                return Ok(None);
            }
            state.orders.push(Order::Look(call, tell));
            self.leave(state, News::default());
        }
        poll_fn(|cx| {
            self.check_process()?;
            let watched = self.watched(wait, cx.waker())?;
            let mut cx = Context::from_waker(watched.as_ref().unwrap_or(cx.waker()));
            Pin::new(&mut told).poll(&mut cx).map(|answer| Ok(answer.ok()))
        })
        .await
    }

    /// Asks the server something, and reads its reply.
    pub(crate) async fn ask<T>(
        &self,
        call: Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, InspectErrorKind> {
        let (verb, key) = (call.verb(), call.subject());
        let answer = self.look(call).await?.ok_or(InspectErrorKind::Closed)?;
        let malformed = || StoreError::new(StoreErrorKind::Malformed, verb, key, Applied::Unknown);
        let read = answer.and_then(|reply| read(&reply).ok_or_else(malformed));
        Ok(read.map_err(surely_untouched)?)
    }

    /// For the driver, before it sleeps: what to do now, and until when to sleep; `None` when the client has ended.
    pub(crate) fn take_orders(&self) -> Option<(Vec<Order>, Moment)> {
        let mut state = self.lock();
        // What else is left ends with the driver: nothing would wake it once more.
        if state.engine.is_finished() && !state.orders.iter().any(|order| matches!(order, Order::Look(..))) {
            return None;
        }
        state.alarm = state.alarm.min(state.engine.next_timer());
        state.awake = false;
        let orders = std::mem::take(&mut state.orders);
        for order in &orders {
            if let Order::Act(Action::Run(id, call, _)) = order {
                state.calls.insert(*id, gone(call, Applied::Unknown));
            }
        }
        Some((orders, state.alarm))
    }

    /// The driver has ended, because the client has or by a panic: closes the client, and settles all that waits.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        let mut news = News::default();
        let now = self.now();
        state.ended = true;
        let close = self.next_id();
        state.step(now, Event::Close(close), &mut news);
        state.step(now, Event::Cancel(close), &mut news);
        for (call, error) in std::mem::take(&mut state.calls) {
            state.step(now, Event::Replied(call, Err(error)), &mut news);
        }
        // What waits for its next attempt, a fraction of a second away, has it now: nobody brings timers any more.
        while !state.engine.is_finished() && state.engine.next_timer() < Moment::NEVER {
            let due = state.engine.next_timer();
            state.step(due, Event::Tick, &mut news);
        }
        news.wakers.extend(std::mem::take(&mut state.wakers).into_values().flatten());
        self.leave(state, news);
    }

    /// For the driver: completes when there may be new orders or an earlier timer.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside a step is a bug of the engine; what it left is still the best that is known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a step has for others than the driver.
#[derive(Default)]
struct News {
    wakers: Vec<Waker>,
    settled: Option<Outcome>,
    /// The ticket that is being polled, and whether there was news for it since it was polled.
    asker: Option<Id>,
    look_again: bool,
    /// Need not be woken any more; only kept until the lock is free, since dropping a waker runs foreign code.
    idle: Vec<Waker>,
    /// Orders without a driver; dropped outside the lock too, since that wakes who asked.
    refused: Vec<Order>,
}

impl State {
    fn step(&mut self, now: Moment, event: Event, news: &mut News) {
        for action in self.engine.step(now, event) {
            self.take(action, news);
        }
        if self.ended {
            self.refuse_orders(now, news);
        }
    }

    /// In the place of a driver that has ended: no call is sent, and nothing is listened to.
    fn refuse_orders(&mut self, now: Moment, news: &mut News) {
        while let Some(order) = self.orders.pop() {
            if let Order::Act(Action::Run(id, call, _)) = &order {
                for action in self.engine.step(now, Event::Replied(*id, Err(gone(call, Applied::No)))) {
                    self.take(action, news);
                }
            }
            news.refused.push(order);
        }
    }

    /// Remembers whom to wake, in place of the one that is returned.
    fn register(&mut self, id: Id, listener: Id, waker: &Waker) -> Option<Waker> {
        match self.wakers.get(&(id, listener)) {
            Some(Some(known)) if known.will_wake(waker) => None,
            _ => self.wakers.insert((id, listener), Some(waker.clone())).flatten(),
        }
    }

    fn take_wakers(&mut self, id: Id) -> Vec<Waker> {
        let mut taken = Vec::new();
        while let Some((&key, _)) = self.wakers.range((id, Id(0))..=(id, Id(u64::MAX))).next() {
            taken.extend(self.wakers.remove(&key).flatten());
        }
        taken
    }

    fn wake(&mut self, id: Id, news: &mut News) {
        let waiting = self.wakers.range_mut((id, Id(0))..=(id, Id(u64::MAX)));
        news.wakers.extend(waiting.filter_map(|(_, waker)| waker.take()));
    }

    fn take(&mut self, action: Action, news: &mut News) {
        match action {
            Action::Wake(id) => {
                news.look_again |= news.asker == Some(id);
                self.wake(id, news);
            }
            Action::Complete(_, outcome) => news.settled = Some(outcome),
            order => self.orders.push(Order::Act(order)),
        }
    }
}

/// The failed inspection or forced release, told as certainly not applied where it is: an inspection writes nothing, and
/// a forced release refuses a key of another type before it writes.
fn surely_untouched(error: StoreError) -> StoreError {
    match (error.during, error.kind) {
        (Verb::Inspect, _) | (Verb::ForceRelease, StoreErrorKind::WrongType) => error.not_applied(),
        _ => error,
    }
}

/// What became of a call whose driver has ended.
fn gone(call: &Call, applied: Applied) -> StoreError {
    StoreError::new(StoreErrorKind::Closed, call.verb(), call.subject(), applied)
}

/// What users hold of a client, directly or through locks, guards and futures. When the last one is dropped the client
/// ends: what is held is released, and the driver stops.
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self(shared))
    }
}

impl std::ops::Deref for Handle {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let id = self.0.next_id();
        // In a forked process what is held is the parent's.
        let _ = self.0.step(Event::Close(id)).and_then(|()| self.0.step(Event::Cancel(id)));
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod waking;
