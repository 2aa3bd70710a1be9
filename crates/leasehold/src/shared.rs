//! The engine behind its one short lock, stepped by whoever brings an event.
//!
//! Invariant: the lock is held for a step and nothing else; wakers are woken and the driver is rung outside it. The
//! clock is read inside it, so the engine never sees time go back.
//! Called by: tickets and guards, inline on the user's thread; the driver.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use leasehold_proto::engine::{Action, Event, Id, Settlement};
use leasehold_proto::{Call, Engine, Moment, Reply, StoreError};
use tokio::sync::{Notify, oneshot};

/// Something for the driver to carry out.
pub(crate) enum Order {
    /// For the engine.
    Act(Action),
    /// A look at the server on behalf of a caller; the engine has no part in it.
    Look(Call, oneshot::Sender<Result<Reply, StoreError>>),
}

/// One client: its engine, and what connects the engine to the driver and to waiting futures.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rung when the driver has orders, or a timer earlier than the one it sleeps for.
    bell: Notify,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    process: u32,
}

struct State {
    engine: Engine,
    orders: Vec<Order>,
    wakers: HashMap<Id, Vec<Waker>>,
    last_id: u64,
    /// What the driver sleeps for.
    alarm: Moment,
}

/// The caller's process is not the one that made the client.
#[derive(Debug)]
pub(crate) struct Forked;

impl Shared {
    pub(crate) fn new(engine: Engine, clock: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        let state = State {
            engine,
            orders: Vec::new(),
            wakers: HashMap::new(),
            last_id: 0,
            alarm: Moment::NEVER,
        };
        Self {
            state: Mutex::new(state),
            bell: Notify::new(),
            clock: Box::new(clock),
            process: std::process::id(),
        }
    }

    /// Refuses a forked child: its copy of the engine believes in holds that are the parent's, and the parent's lock
    /// may be taken for ever.
    pub(crate) fn check_process(&self) -> Result<(), Forked> {
        if std::process::id() == self.process {
            Ok(())
        } else {
            Err(Forked)
        }
    }

    /// A number for a new ticket.
    pub(crate) fn next_id(&self) -> Id {
        let mut state = self.lock();
        state.last_id += 1;
        Id(state.last_id)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Brings an event.
    pub(crate) fn step(&self, event: Event) -> Option<Settlement> {
        self.step_and_wake(None, event)
    }

    /// Brings an event, and registers who is to be woken when there is news for this id.
    pub(crate) fn step_as(&self, id: Id, waker: &Waker, event: Event) -> Option<Settlement> {
        self.step_and_wake(Some((id, waker)), event)
    }

    fn step_and_wake(&self, waiter: Option<(Id, &Waker)>, event: Event) -> Option<Settlement> {
        let mut news = News::default();
        let mut state = self.lock();
        if let Some((id, waker)) = waiter {
            state.register(id, waker);
        }
        let now = self.now();
        for action in state.engine.step(now, event) {
            state.take(action, &mut news);
        }
        let ring =
            !state.orders.is_empty() || state.engine.next_timer() < state.alarm || state.engine.is_finished();
        drop(state);
        if ring {
            self.bell.notify_one();
        }
        news.wakers.into_iter().for_each(Waker::wake);
        news.settled
    }

    /// Reads the engine.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Engine, Moment) -> T) -> T {
        let state = self.lock();
        look(&state.engine, self.now())
    }

    /// Reads the engine, and registers who is to be woken when there is news for this id.
    pub(crate) fn read_as<T>(&self, id: Id, waker: &Waker, look: impl FnOnce(&Engine, Moment) -> T) -> T {
        let mut state = self.lock();
        state.register(id, waker);
        look(&state.engine, self.now())
    }

    /// Nobody waits for news of this id any more.
    pub(crate) fn forget(&self, id: Id) {
        let wakers = self.lock().wakers.remove(&id);
        drop(wakers);
    }

    /// Asks the server something that the engine has no part in.
    pub(crate) async fn look(&self, call: Call) -> Option<Result<Reply, StoreError>> {
        let (tell, told) = oneshot::channel();
        {
            let mut state = self.lock();
            if state.engine.is_closed() {
                return None;
            }
            state.orders.push(Order::Look(call, tell));
        }
        self.bell.notify_one();
        told.await.ok()
    }

    /// For the driver: what to do now, and when the next timer is due; `None` when the client has ended.
    pub(crate) fn take_orders(&self) -> Option<(Vec<Order>, Moment)> {
        let mut state = self.lock();
        if state.engine.is_finished() && state.orders.is_empty() {
            return None;
        }
        state.alarm = state.engine.next_timer();
        Some((std::mem::take(&mut state.orders), state.alarm))
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
    settled: Option<Settlement>,
}

impl State {
    fn register(&mut self, id: Id, waker: &Waker) {
        let wakers = self.wakers.entry(id).or_default();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
    }

    fn take(&mut self, action: Action, news: &mut News) {
        match action {
            Action::Wake(id) => {
                if let Entry::Occupied(wakers) = self.wakers.entry(id) {
                    news.wakers.extend(wakers.remove());
                }
            }
            Action::Settle(_, settlement) => news.settled = Some(settlement),
            order => self.orders.push(Order::Act(order)),
        }
    }
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
        if self.0.check_process().is_ok() {
            let id = self.0.next_id();
            self.0.step(Event::Close(id));
            self.0.step(Event::Cancel(id));
        }
    }
}
