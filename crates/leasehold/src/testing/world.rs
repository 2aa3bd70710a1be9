//! The thread of a test's drivers, and their clock.
//!
//! Invariant: only [`World::pass`] moves the time. A caller that gives the drivers work, on any thread, continues when
//! they are idle again.
//!
//! # How it works
//! All drivers are tasks of one thread, which polls them in the order in which they were woken. A wake-up from outside
//! waits until all of them are idle, as if the driver were a function call. So at any await point of a test nothing is
//! in flight, and the actions of its clients have one order, the order of the test's own steps. A caller that wakes a
//! driver must not hold a lock that drivers need, so only the thread itself touches the server.
//!
//! The world knows a user's waiting future from its first poll on. While there is one, the idle thread counts real
//! time ([`standstill`](super::standstill)).

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::span::Rounded;

use super::standstill::{LIMIT, Party, SLICES, Standstill, Wait};

/// The start time of a world, late enough that subtractions in it do not underflow.
const BEGINNING: Moment = Moment::from_millis(1_000_000_000);

type Task = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// True on the thread of a world's drivers.
    static DRIVES: Cell<bool> = const { Cell::new(false) };
}

/// The clock, and the timers and drivers that it wakes.
pub(super) struct World {
    now_ns: AtomicU64,
    /// The last number of a party, or of a poll of a wait.
    last_number: AtomicU64,
    /// The real time after which the idle thread looks at the waits.
    slice: Duration,
    state: Mutex<State>,
    /// Notified when there is work, or when the thread may end.
    work: Condvar,
    /// Notified when there is no work left.
    rest: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    ready: VecDeque<u64>,
    timers: BTreeMap<(Moment, u64), (Party, Waker)>,
    last_timer: u64,
    standstill: Standstill,
    /// The number of times that the drivers got work.
    turns: u64,
    /// The thread, while there is one.
    thread: Option<ThreadId>,
    busy: bool,
    /// Returns true while the drivers are needed. Set when the server of the test is dropped.
    wanted: Option<Box<dyn Fn() -> bool + Send>>,
}

enum Job {
    Start(Box<dyn FnOnce() -> Task + Send>),
    Do(Box<dyn FnOnce() + Send>),
}

impl World {
    pub(super) fn new() -> Arc<Self> {
        Self::with_limit(LIMIT)
    }

    /// Makes a world in which a wait may stand still for this much real time.
    pub(super) fn with_limit(limit: Duration) -> Arc<Self> {
        Arc::new(Self {
            now_ns: AtomicU64::new(BEGINNING.as_nanos()),
            last_number: AtomicU64::new(0),
            slice: limit / SLICES,
            state: Mutex::default(),
            work: Condvar::new(),
            rest: Condvar::new(),
        })
    }

    pub(super) fn now(&self) -> Moment {
        Moment::from_nanos(self.now_ns.load(Ordering::SeqCst))
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.now().since(BEGINNING)
    }

    /// Returns the number of times that the drivers got work.
    pub(super) fn work_count(&self) -> u64 {
        self.lock().turns
    }

    /// Starts a driver on the thread. The first driver starts the thread.
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread of a test's drivers, on a clock that the test moves"
    )]
    pub(super) fn start(self: &Arc<Self>, make: impl FnOnce() -> Task + Send + 'static) -> io::Result<()> {
        {
            let mut state = self.lock();
            if state.thread.is_none() {
                let world = Arc::clone(self);
                let work = move || Hands { world, tasks: BTreeMap::new(), last_task: 0 }.work();
                state.thread =
                    Some(thread::Builder::new().name("leasehold-testing".into()).spawn(work)?.thread().id());
            }
        }
        self.bring(|state| state.jobs.push_back(Job::Start(Box::new(make))));
        Ok(())
    }

    /// Runs a job between two steps of the drivers, and returns when they are idle again.
    pub(super) fn run<T: Send + 'static>(&self, act: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = self.lock().thread;
        if thread.is_none_or(|thread| thread == thread::current().id()) {
            return act();
        }
        let made = Arc::new(Mutex::new(None));
        let place = Arc::clone(&made);
        let job = move || *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(act());
        self.bring(|state| state.jobs.push_back(Job::Do(Box::new(job))));
        let value = made.lock().unwrap_or_else(PoisonError::into_inner).take();
        value.expect("the thread of the drivers does all jobs before it rests")
    }

    /// Moves the clock to the next timer, if one is due by `limit`, else to `limit`. Returns when the drivers are idle
    /// again, with true if a timer fired.
    pub(super) fn pass(self: &Arc<Self>, limit: Moment) -> bool {
        let world = Arc::clone(self);
        self.run(move || {
            let mut due = Vec::new();
            {
                let mut state = world.lock();
                let next = state.timers.first_key_value().map(|((at, _), _)| *at);
                let now = next.map_or(limit, |at| at.min(limit)).as_nanos();
                let now = Moment::from_nanos(world.now_ns.fetch_max(now, Ordering::SeqCst).max(now));
                while let Some(timer) = state.timers.first_entry().filter(|timer| timer.key().0 <= now) {
                    due.push(timer.remove());
                }
            }
            let some = !due.is_empty();
            due.into_iter().for_each(|(_, waker)| waker.wake());
            some
        })
    }

    /// Returns the party of a new client, or of a new sleep of the test.
    pub(super) fn party(&self) -> Party {
        Party(self.next_number())
    }

    /// Waits for a moment, on behalf of one party.
    pub(super) fn sleep_until(self: &Arc<Self>, at: Moment, of: Party) -> Sleep {
        Sleep { world: Arc::clone(self), at, of, timer: None }
    }

    /// Returns the waker that a user's future registers in place of `waker`, at the beginning of each poll.
    ///
    /// # Panics
    /// Panics if the wait is stalled. The message begins with `what`.
    pub(super) fn watch(self: &Arc<Self>, wait: Wait, what: &str, waker: &Waker) -> Waker {
        if DRIVES.get() {
            // The task belongs to a client, and no test moves it. A wait that the task took over from a user ends with
            // the old waker.
            return waker.clone();
        }
        let poll = self.next_number();
        let mut state = self.lock();
        if let Some(panic) =
            state.standstill.is_stalled(wait).then(|| state.stall_message(wait.0, self)).flatten()
        {
            drop(state);
            panic!("{what} {panic}");
        }
        if state.standstill.is_empty() {
            self.work.notify_one();
        }
        let known = state.standstill.enter(wait, poll, waker.clone());
        drop(state);
        drop(known);
        Waker::from(Arc::new(Waiter { world: Arc::clone(self), wait, poll, waker: waker.clone() }))
    }

    /// Stops the count of real time until the returned value is dropped, because the test is moving its clock.
    pub(super) fn advancing(&self) -> Advancing<'_> {
        self.lock().standstill.begin_advance();
        Advancing(self)
    }

    /// Returns true if a wait is stalled and its task has not been polled since.
    #[cfg(test)]
    pub(super) fn is_stalled(&self) -> bool {
        self.lock().standstill.has_stalled()
    }

    fn next_number(&self) -> u64 {
        self.last_number.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Ends the server of the test. The clock stands still, and the thread ends when the drivers are not wanted either.
    pub(super) fn leave(&self, wanted: impl Fn() -> bool + Send + 'static) {
        self.bring(|state| state.wanted = Some(Box::new(wanted)));
    }

    /// Gives the thread work, and waits until it is idle again.
    fn bring(&self, add: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        add(&mut state);
        state.turns += 1;
        if state.thread == Some(thread::current().id()) {
            return;
        }
        self.work.notify_one();
        drop(self.rest.wait_while(state, |state| state.is_at_work()));
    }

    /// Returns the next work of the thread, or `None` when the thread ends.
    fn next(&self) -> Option<Next> {
        let mut state = self.lock();
        loop {
            state.busy = true;
            if let Some(job) = state.jobs.pop_front() {
                return Some(Next::Job(job));
            }
            if let Some(task) = state.ready.pop_front() {
                return Some(Next::Poll(task));
            }
            if state.wanted.as_ref().is_some_and(|wanted| !wanted()) {
                return None;
            }
            state.busy = false;
            self.rest.notify_all();
            state = self.idle(state);
        }
    }

    /// Waits for work on the thread, for at most one slice of real time while users wait.
    fn idle<'w>(&'w self, state: MutexGuard<'w, State>) -> MutexGuard<'w, State> {
        if state.standstill.is_empty() {
            return self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut state, wait) =
            self.work.wait_timeout(state, self.slice).unwrap_or_else(PoisonError::into_inner);
        if !wait.timed_out() {
            return state;
        }
        let turns = state.turns;
        let stalled = state.standstill.slice(turns);
        if stalled.is_empty() {
            return state;
        }
        // Outside the lock, since wakers are foreign code.
        drop(state);
        stalled.into_iter().for_each(Waker::wake);
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_at_work(&self) -> bool {
        self.thread.is_some() && (self.busy || !self.jobs.is_empty() || !self.ready.is_empty())
    }

    /// Returns the message of a stalled wait, with its time and the missing call, or `None` if this party has no timer.
    fn stall_message(&self, of: Party, world: &World) -> Option<String> {
        let ((until, _), _) = self.timers.iter().find(|(_, (party, _))| *party == of)?;
        let (until, now) = (Rounded::up(until.since(BEGINNING)), Rounded::down(world.elapsed()));
        let forgotten = match self.wanted {
            None => "call `testing::Server::advance`",
            Some(_) => "the last clone of its `testing::Server` is dropped: keep one, and call `advance`",
        };
        Some(format!("waits until {until} of the test's clock, which stands still at {now}; {forgotten}"))
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "World({:?})", self.elapsed())
    }
}

enum Next {
    Job(Job),
    Poll(u64),
}

/// The state of the thread.
struct Hands {
    world: Arc<World>,
    tasks: BTreeMap<u64, (Task, Arc<Bell>)>,
    last_task: u64,
}

impl Hands {
    fn work(mut self) {
        DRIVES.set(true);
        while let Some(next) = self.world.next() {
            match next {
                Next::Job(Job::Do(act)) => act(),
                Next::Job(Job::Start(make)) => {
                    self.last_task += 1;
                    let world = Arc::clone(&self.world);
                    let bell = Bell { world, task: self.last_task, queued: AtomicBool::new(true) };
                    self.tasks.insert(self.last_task, (make(), Arc::new(bell)));
                    self.poll(self.last_task);
                }
                Next::Poll(task) => self.poll(task),
            }
        }
    }

    fn poll(&mut self, id: u64) {
        let Some((task, bell)) = self.tasks.get_mut(&id) else { return };
        bell.queued.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(bell));
        if task.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.remove(&id));
        }
    }
}

impl Drop for Hands {
    /// This runs after a panic of a job too, so that no caller waits for a thread that is gone.
    fn drop(&mut self) {
        self.tasks.clear();
        let left = {
            let mut state = self.world.lock();
            let mut left = std::mem::take(&mut *state);
            (state.turns, state.last_timer) = (left.turns, left.last_timer);
            state.standstill = std::mem::take(&mut left.standstill);
            left
        };
        self.world.rest.notify_all();
        drop(left);
    }
}

/// The waker of a driver.
struct Bell {
    world: Arc<World>,
    task: u64,
    queued: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.world.bring(|state| state.ready.push_back(self.task));
        }
    }
}

/// The waker of a user's waiting future, which ends the wait.
struct Waiter {
    world: Arc<World>,
    wait: Wait,
    poll: u64,
    waker: Waker,
}

impl Waiter {
    fn leave(&self) {
        let waker = self.world.lock().standstill.leave(self.wait, self.poll);
        drop(waker);
    }
}

impl Wake for Waiter {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.leave();
        self.waker.wake_by_ref();
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A running `advance`.
pub(super) struct Advancing<'w>(&'w World);

impl Drop for Advancing<'_> {
    fn drop(&mut self) {
        self.0.lock().standstill.end_advance();
    }
}

/// A wait for a moment. Cancel safe.
pub(super) struct Sleep {
    world: Arc<World>,
    at: Moment,
    of: Party,
    timer: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let world = Arc::clone(&self.world);
        let mut state = world.lock();
        if world.now() >= self.at {
            return Poll::Ready(());
        }
        let timer = *self.timer.get_or_insert_with(|| {
            state.last_timer += 1;
            state.last_timer
        });
        let known = state.timers.insert((self.at, timer), (self.of, cx.waker().clone()));
        // Dropping a waker may run foreign code.
        drop(state);
        drop(known);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            let known = self.world.lock().timers.remove(&(self.at, timer));
            drop(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use leasehold_testkit::wait;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn begun() -> Arc<World> {
        let world = World::new();
        world.start(|| Box::pin(std::future::pending())).unwrap();
        world
    }

    #[test]
    fn the_thread_ends_with_its_last_user() {
        let world = begun();
        assert!(Arc::strong_count(&world) > 1);
        world.leave(|| false);
        wait::eventually(SOON, "the thread to end", || Arc::strong_count(&world) == 1);
        assert!(!world.pass(world.now() + SOON), "and still can be used");
        assert_eq!(world.elapsed(), SOON);
    }

    #[test]
    fn a_panic_on_the_thread_ends_every_wait() {
        let world = begun();
        let panics = || world.run(|| panic!("a job panics"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(world.run(|| 42), 42);
        world.start(|| Box::pin(std::future::pending())).unwrap();
        assert_eq!(world.run(|| 43), 43);
    }

    #[test]
    fn timers_wake_by_time_and_then_by_creation() {
        let world = begun();
        let woken = Arc::new(Mutex::new(Vec::new()));
        for (number, seconds) in [(0, 2), (1, 1), (2, 2), (3, 5)] {
            let (sleeping, woken) = (Arc::clone(&world), Arc::clone(&woken));
            let sleep = world.sleep_until(world.now() + Duration::from_secs(seconds), world.party());
            let task = async move {
                sleep.await;
                woken.lock().unwrap().push((number, sleeping.elapsed().as_secs()));
            };
            world.start(|| Box::pin(task)).unwrap();
        }
        let limit = world.now() + Duration::from_secs(3);
        while world.pass(limit) {}
        assert_eq!(*woken.lock().unwrap(), [(1, 1), (0, 2), (2, 2)]);
        assert_eq!(world.elapsed(), Duration::from_secs(3));
    }
}
