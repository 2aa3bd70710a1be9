//! The engine behind one short lock. A caller with an event steps the engine on its own thread, unless it leaves the event to
//! the thread that reads the replies (`gathering`).
//!
//! Invariant: the lock is held for one step and nothing else. Wakers are woken and the driver is notified outside the
//! lock. The clock is read inside the lock, so the engine never sees time go back. Calls of the application refuse a
//! forked process before they take the lock.
//!
//! # How it works
//! A caller that adds work for the driver notifies it, but only if it sleeps. The driver is *awake* from a
//! notification, or from an event that it brings itself, until it takes its commands. It takes them before it sleeps
//! again, so it sees work that is added in between without a notification. Its alarm only moves to an earlier time,
//! because most timers are put off or cleared before they are due, and an alarm that fires in vain once in a while
//! costs less than a new alarm each time.
//!
//! A call of the engine leaves on the thread whose step wants it, when the store has an entrance. Otherwise it is a
//! command for the driver.
//!
//! The end of the driver, for any reason, closes the client. Every call is then answered at once with
//! [`StoreErrorKind::Closed`].

mod entrance;
mod gathering;
mod inventory;
mod joining;
mod listeners;
mod permits_set;
mod queries;
mod report;
pub(crate) mod sleeping;
mod step;

use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use futures_util::future::BoxFuture;
use leasehold_proto::engine::{AFTER_CLOSE, Action, CallId, Event, Fact, Group, Id, Outcome};
use leasehold_proto::{
    Applied, Call, Channel, ClientId, Engine, Moment, Name, Reply, StoreError, StoreErrorKind,
};
use leasehold_store::{Heard, Submit, Subscription, Watch};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, oneshot};

use crate::defaults::Defaults;
use crate::error::{BadName, Forked, Subject, SubjectKind};
use crate::name::{IntoName, Named, named};
use crate::observe::Observers;
use crate::runtime::identity::Identity;
use crate::runtime::inbox::{Inbox, Left};
use crate::runtime::process::Process;
use crate::runtime::pulse::Pulse;
use crate::runtime::signal::{Listener, Signal};
use crate::runtime::sync::{AtomicU64, Mutex, MutexGuard, yield_point};

/// A command for the driver.
pub(crate) enum Command {
    /// An action of the engine.
    Act(Action),
    /// A future to run along with the calls, for as long as the client lives.
    Spawn(BoxFuture<'static, ()>),
    /// An inspect or other call of the application, in which the engine has no part.
    Query(Call, oneshot::Sender<Result<Reply, StoreError>>),
    /// Listen on a channel for a part of the client beside the engine.
    Listen(Channel, UnboundedSender<Heard>, oneshot::Sender<Subscription>),
    /// Become visible to operators.
    Join,
}

/// One client: its engine, and the state that connects the engine to the driver and to waiting futures.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// The entrance of the store, if callers run their calls themselves.
    entrance: OnceLock<Arc<dyn Submit>>,
    /// Held by the one thread that submits calls, so that they leave in the order of their steps. It is locked before the
    /// state.
    submitting: Mutex<()>,
    /// What callers leave to the thread that reads the replies.
    inbox: Inbox,
    /// Notified when the driver sleeps and has commands, or a timer earlier than its alarm.
    notifier: Notify,
    last_id: AtomicU64,
    clock: Box<dyn Fn() -> Moment + Send + Sync>,
    /// The runtime's watch over waiting futures. Only tests on a virtual clock have a watch.
    watch: Option<Watch>,
    process: Process,
    client: ClientId,
    /// The server's URL, with its password masked.
    server: String,
    defaults: Defaults,
    /// The semaphores whose number of permits is known to be set, each with the end of that knowledge.
    permits_set: Mutex<BTreeMap<Name, Moment>>,
    /// What all handles of one name share, as long as one of them lives.
    common: Mutex<BTreeMap<Name, Weak<dyn Any + Send + Sync>>>,
    /// The observers, which the state has too.
    observers: Option<Arc<Observers>>,
    /// Who the client says that it is, if operators may see it.
    identity: Option<Arc<Identity>>,
    /// Whether its card is on the server.
    registration: AtomicU8,
    /// The number of times that the state was locked.
    #[cfg(test)]
    locks: std::sync::atomic::AtomicUsize,
}

struct State {
    engine: Engine,
    commands: Vec<Command>,
    /// The calls to submit at the store's entrance, in the order of their steps.
    calls_to_submit: Vec<(CallId, Call, Duration)>,
    /// The calls to take back from the store, after those that are to be submitted.
    calls_to_withdraw: Vec<CallId>,
    /// True if the store has an entrance.
    has_entrance: bool,
    /// The requests that were left by callers, and that are brought next.
    left: VecDeque<Left>,
    /// The calls that the driver has taken and not answered, each with its error if the driver ends.
    calls: BTreeMap<CallId, StoreError>,
    /// True once the driver has ended.
    ended: bool,
    /// The waiting futures, by the id whose changes they await and by their own id.
    listeners: BTreeMap<(Id, Id), Listener>,
    /// The buffer of the engine's actions, empty between steps.
    actions: Vec<Action>,
    /// The signals of the claimed holds, whose validity the engine publishes.
    holds: BTreeMap<Id, Arc<Signal>>,
    /// What the program says about its holds.
    notes: BTreeMap<Id, Arc<str>>,
    /// The futures that wait for a time.
    sleepers: BTreeMap<(Moment, Id), Arc<Signal>>,
    /// Who asked for a hold last.
    asked: BTreeMap<Id, Arc<str>>,
    /// True if the runtime looks for listeners that are woken and have not polled.
    is_watched: bool,
    /// The time until which the driver sleeps, at most the engine's next timer.
    alarm: Moment,
    /// True if the driver takes its commands without a notification.
    awake: bool,
    pulse: Pulse,
    observers: Option<Arc<Observers>>,
    /// True if the client becomes visible with its first wait, renewal or long lease.
    joins: bool,
    /// True while a caller waits for the removal of the card, for which the driver stays.
    is_leaving: bool,
    /// The number of steps of the engine.
    #[cfg(test)]
    steps: usize,
}

impl Shared {
    /// Makes a client of a process.
    pub(crate) fn new(
        engine: Engine,
        process: Process,
        clock: impl Fn() -> Moment + Send + Sync + 'static,
    ) -> Self {
        let client = engine.client();
        let state = State {
            engine,
            commands: Vec::new(),
            calls_to_submit: Vec::new(),
            calls_to_withdraw: Vec::new(),
            has_entrance: false,
            left: VecDeque::new(),
            calls: BTreeMap::new(),
            ended: false,
            listeners: BTreeMap::new(),
            actions: Vec::new(),
            holds: BTreeMap::new(),
            notes: BTreeMap::new(),
            sleepers: BTreeMap::new(),
            asked: BTreeMap::new(),
            is_watched: false,
            alarm: Moment::NEVER,
            awake: false,
            pulse: Pulse::new(),
            observers: None,
            joins: false,
            is_leaving: false,
            #[cfg(test)]
            steps: 0,
        };
        Self {
            state: Mutex::new(state),
            entrance: OnceLock::new(),
            submitting: Mutex::new(()),
            inbox: Inbox::default(),
            notifier: Notify::new(),
            last_id: AtomicU64::new(0),
            clock: Box::new(clock),
            watch: None,
            process,
            client,
            server: String::new(),
            defaults: Defaults::default(),
            permits_set: Mutex::new(BTreeMap::new()),
            common: Mutex::new(BTreeMap::new()),
            observers: None,
            identity: None,
            registration: AtomicU8::new(0),
            #[cfg(test)]
            locks: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Replaces the defaults of the client's locks.
    pub(crate) fn with(self, defaults: Defaults) -> Self {
        Self { defaults, ..self }
    }

    /// Replaces the server's URL.
    pub(crate) fn of_server(self, server: &str) -> Self {
        Self { server: server.to_owned(), ..self }
    }

    /// Replaces the watch over waiting futures.
    pub(crate) fn watched_by(self, watch: Option<Watch>) -> Self {
        if watch.is_some() {
            let mut state = self.lock();
            state.is_watched = true;
            // The age of a record is a timer that no user knows, and a test on a virtual clock would wait for it.
            state.engine.close_lane();
        }
        Self { watch, ..self }
    }

    /// Replaces the observers.
    pub(crate) fn observed_by(self, observers: Option<Arc<Observers>>) -> Self {
        if let Some(observers) = &observers {
            let mut state = self.lock();
            observers.observe(&mut state.engine);
            state.observers = Some(Arc::clone(observers));
        }
        Self { observers, ..self }
    }

    /// Returns the server's URL, with its password masked.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Returns the defaults of the client's locks.
    pub(crate) const fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    /// Returns the name on the server of an object that users call `name`.
    pub(crate) fn name(&self, name: impl IntoName) -> Named {
        named(name).and_then(|name| self.on_server(name))
    }

    /// Does the same for a name that is parsed already.
    pub(crate) fn on_server(&self, name: Name) -> Named {
        let written = name.clone();
        self.defaults.on_server(name).map_err(|error| BadName::new(error, written.as_str()))
    }

    /// Returns the subject of an error.
    pub(crate) fn subject(&self, kind: SubjectKind, name: &Named) -> Subject {
        match name {
            Ok(name) => Subject::new(kind, self.defaults.as_written(name)),
            Err(bad) => Subject { kind, name: Arc::clone(&bad.text) },
        }
    }

    /// Returns what spans have in place of a name.
    pub(crate) fn shown<'a>(&self, name: &'a Name, group: Option<&'static Group>) -> Cow<'a, str> {
        let name = self.defaults.as_written(name);
        match &self.observers {
            Some(observers) => observers.shown(name, group),
            None => Cow::Borrowed(name),
        }
    }

    /// Refuses a forked child.
    pub(crate) fn check_process(&self) -> Result<(), Forked> {
        self.process.check()
    }

    /// Locks the state for a call of the application.
    fn enter(&self) -> Result<MutexGuard<'_, State>, Forked> {
        self.check_process()?;
        Ok(self.lock())
    }

    /// Does the same for a call that steps or reads the engine, behind the requests that were left before.
    fn enter_in_order(&self, effects: &mut Effects) -> Result<MutexGuard<'_, State>, Forked> {
        let mut state = self.enter()?;
        self.bring_all_left(&mut state, effects);
        Ok(state)
    }

    pub(crate) const fn client(&self) -> ClientId {
        self.client
    }

    /// Returns the number of a new ticket.
    pub(crate) fn next_id(&self) -> Id {
        Id(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Brings an event to the engine.
    pub(crate) fn step(&self, event: Event) -> Result<(), Forked> {
        let mut effects = Effects::default();
        let mut state = self.enter_in_order(&mut effects)?;
        state.step(self.now(), event, &mut effects);
        self.leave(state, effects);
        Ok(())
    }

    /// Brings an event of the driver to the engine.
    pub(crate) fn step_awake(&self, event: Event) {
        let mut state = self.lock();
        let mut effects = Effects { by_driver: true, ..Effects::default() };
        state.awake = true;
        if matches!(event, Event::Tick) {
            // The alarm has fired. The driver sets the next alarm when it takes its commands.
            state.alarm = Moment::NEVER;
        }
        if let Event::Replied(call, _) = &event {
            state.calls.remove(call);
        }
        let now = self.now();
        state.wake_sleepers(now, &mut effects);
        state.step(now, event, &mut effects);
        self.leave(state, effects);
    }

    /// Gives up a ticket, and removes its listener.
    pub(crate) fn cancel(&self, id: Id) -> Result<(), Forked> {
        let mut effects = Effects::default();
        let mut state = self.enter_in_order(&mut effects)?;
        state.step(self.now(), Event::Cancel(id), &mut effects);
        effects.idle.extend(state.take_listeners(id));
        self.leave(state, effects);
        Ok(())
    }

    /// Returns what a ticket can take without a lock: the outcome of a release, or an offer. A forked process can take
    /// neither.
    pub(crate) fn delivered(&self, signal: &Signal) -> Option<Outcome> {
        self.check_process().ok()?;
        if !signal.has_offer() {
            return signal.released();
        }
        signal.take_offer(self.now(), self.client).inspect(|_| signal.forget_waker())
    }

    /// Brings a ticket's event if the ticket has not brought it, and takes the outcome if it is known. Otherwise the
    /// signal wakes the ticket's task.
    pub(crate) fn claim(
        &self,
        id: Id,
        first: Option<Event>,
        signal: &Arc<Signal>,
        waker: &Waker,
    ) -> Result<Option<Outcome>, Forked> {
        self.register(id, signal, waker)?;
        self.check_process()?;
        let first = match first {
            Some(event) if self.is_to_be_left(&event) => match self.inbox.leave(id, event, signal) {
                None => return Ok(None),
                brought_here => brought_here,
            },
            first => first,
        };
        let mut effects = Effects { polled: Some((id, Arc::clone(signal))), ..Effects::default() };
        let mut state = self.enter_in_order(&mut effects)?;
        let now = self.now();
        // An event whose outcome is known at once wakes the ticket. Most outcomes need an answer of the server.
        let may_be_known = first.is_none_or(|event| {
            state.step(now, event, &mut effects);
            std::mem::take(&mut effects.poll_again)
        });
        if may_be_known {
            state.step(now, Event::Claim(id), &mut effects);
        }
        // Another thread may have delivered the outcome of a release since the poll looked for it.
        let outcome = effects.outcome.take().or_else(|| signal.released());
        if outcome.is_some() {
            effects.idle.extend(state.take_listeners(id));
        } else {
            state.listen((id, id), signal, effects.poll_again);
            effects.signals.extend(effects.poll_again.then(|| Arc::clone(signal)));
        }
        // The store may refuse a call of this poll while it is submitted, and this poll looks for no outcome any more.
        effects.polled = None;
        self.leave(state, effects);
        if outcome.is_some() {
            signal.forget_waker();
        }
        Ok(outcome)
    }

    /// Registers the waker of a poll, outside the lock.
    fn register(&self, wait: Id, signal: &Signal, waker: &Waker) -> Result<(), Forked> {
        let watched = self.watched(wait, waker)?;
        signal.register(watched.as_ref().unwrap_or(waker));
        Ok(())
    }

    /// Registers a polled wait with the runtime's watch. Returns the waker to register, if it differs from the
    /// caller's.
    fn watched(&self, wait: Id, waker: &Waker) -> Result<Option<Waker>, Forked> {
        let Some(watch) = &self.watch else { return Ok(None) };
        self.check_process()?;
        Ok(Some(watch(wait, waker)))
    }

    /// Ends a change of the state. Unlocks the state and submits its calls, then notifies the driver and wakes the
    /// listeners.
    fn leave(&self, mut state: MutexGuard<'_, State>, mut effects: Effects) {
        let mut notify = state.wakes_driver();
        if state.calls_to_submit.is_empty() && state.calls_to_withdraw.is_empty() {
            drop(state);
        } else {
            notify |= self.submit(state, &mut effects);
        }
        yield_point();
        drop((effects.idle, effects.refused));
        if notify {
            self.notifier.notify_one();
            yield_point();
        }
        effects.signals.into_iter().for_each(|signal| signal.wake());
        if let Some(observers) = self.observers.as_ref().filter(|_| !effects.facts.is_empty()) {
            observers.deliver(effects.facts, (self.now(), effects.by_driver));
        }
        if let Some(observers) = self.observers.as_ref().filter(|_| !effects.facts_of_left.is_empty()) {
            observers.deliver(effects.facts_of_left, (self.now(), true));
        }
    }

    /// Reads the engine.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Engine, Moment) -> T) -> Result<T, Forked> {
        let mut effects = Effects::default();
        let state = self.enter_in_order(&mut effects)?;
        let value = read(&state.engine, self.now());
        self.leave(state, effects);
        Ok(value)
    }

    /// Returns the driver's commands and the time until which it may sleep, or `None` when the client has ended.
    pub(crate) fn take_commands(&self) -> Option<(Vec<Command>, Moment)> {
        let mut state = self.lock();
        // Remaining commands end with the driver, because no event would wake it for them.
        if state.engine.is_finished()
            && !state.is_leaving
            && !state.commands.iter().any(|command| matches!(command, Command::Query(..)))
        {
            return None;
        }
        state.alarm = state.alarm.min(state.next_timer());
        state.awake = false;
        state.pulse.turned_at = self.now();
        let commands = std::mem::take(&mut state.commands);
        for command in &commands {
            if let Command::Act(Action::Run(id, call, _)) = command {
                state.calls.insert(*id, gone(call, Applied::Unknown));
            }
        }
        Some((commands, state.alarm))
    }

    /// Closes the client after its driver and its store have ended, by a panic or regularly, and completes everything that
    /// waits.
    pub(crate) fn end(&self) {
        let submitting = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.lock();
        let mut effects = Effects::default();
        let now = self.now();
        state.ended = true;
        self.close_inbox(&mut state, &mut effects);
        let close = self.next_id();
        state.step(now, Event::Close(close), &mut effects);
        state.step(now, Event::Cancel(close), &mut effects);
        for (call, error) in std::mem::take(&mut state.calls) {
            state.step(now, Event::Replied(call, Err(error)), &mut effects);
        }
        // No driver brings timers any more, so time passes here. A close ends within two periods, whatever its retries do,
        // and those are not worth a step each.
        let mut later = now + state.engine.settings().timeout;
        for _ in 0..2 {
            while !state.engine.is_finished() && state.engine.next_timer() <= later {
                state.step(later, Event::Tick, &mut effects);
            }
            later = later + AFTER_CLOSE;
        }
        debug_assert!(state.engine.is_finished(), "a close ends by its second period");
        let listeners = std::mem::take(&mut state.listeners).into_values();
        effects.signals.extend(listeners.map(|listener| listener.signal));
        state.wake_sleepers(Moment::NEVER, &mut effects);
        drop(submitting);
        self.leave(state, effects);
    }

    /// Completes when the driver may have new commands or an earlier timer.
    pub(crate) async fn notified(&self) {
        self.notifier.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        #[cfg(test)]
        self.locks.fetch_add(1, Ordering::Relaxed);
        // A panic inside a step is a bug of the engine. The state that it leaves is still the best known.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The effects of a step for waiting futures.
#[derive(Default)]
struct Effects {
    /// The signals of the futures to wake.
    signals: Vec<Arc<Signal>>,
    outcome: Option<Outcome>,
    /// The ticket that is being polled, with its signal. `poll_again` is true if the ticket has an effect since the
    /// last claim.
    polled: Option<(Id, Arc<Signal>)>,
    poll_again: bool,
    /// The listeners and signals that are not needed any more. They are dropped outside the lock, since dropping a waker
    /// runs foreign code.
    idle: Vec<Arc<Signal>>,
    /// Commands without a driver. They are dropped outside the lock too, since that wakes their callers.
    refused: Vec<Command>,
    /// The facts for observers, which are told outside the lock.
    facts: Vec<Fact>,
    /// The facts of other callers, whose requests were left.
    facts_of_left: Vec<Fact>,
    /// True if the driver brings the events, whose thread an observer must not stop.
    by_driver: bool,
}

impl State {
    /// Returns true if the driver sleeps and has to be notified. It counts as awake from then on.
    fn wakes_driver(&mut self) -> bool {
        let wanted = !self.commands.is_empty() || self.next_timer() < self.alarm || self.engine.is_finished();
        let wakes = wanted && !self.awake;
        self.awake |= wakes;
        wakes
    }
}

/// Returns the error of a call whose driver has ended.
fn gone(call: &Call, applied: Applied) -> StoreError {
    StoreError::new(StoreErrorKind::Closed, call.verb(), call.subject(), applied)
}

/// The application's handle of a client, directly or through locks, guards and futures. Dropping the last handle ends
/// the client. Holds are released, and the driver stops.
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
        // A forked process leaves the holds to the parent.
        let _ = self.0.step(Event::Close(id)).and_then(|()| self.0.step(Event::Cancel(id)));
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod waking;
