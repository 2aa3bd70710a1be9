//! Runs the tasks of a world, one at a time, in an order that the seed decides.
//!
//! Invariant: the executor does not poll a task of a paused process, and never again a task of a killed process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use fastrand::Rng;

use super::timeline::Timeline;

/// The number of polls at one moment after which a world counts as caught in a loop.
const POLLS_MAX: u32 = 200_000;

type Job = Pin<Box<dyn Future<Output = ()>>>;

thread_local! {
    /// The tasks spawned since the executor last adopted them. A world lives on one thread.
    static SPAWNED: RefCell<Vec<(Home, Job)>> = const { RefCell::new(Vec::new()) };
}

/// The owner of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The network or the server, which is never paused.
    World,
    /// The driver of a process. A kill drops it first.
    Driver(usize),
    /// The runtime of the users of a process, for what it does besides running them.
    Callers(usize),
    /// A user of a process.
    User(usize),
}

/// Gives a task to the executor that runs on this thread.
pub(crate) fn spawn(home: Home, job: impl Future<Output = ()> + 'static) {
    SPAWNED.with_borrow_mut(|spawned| spawned.push((home, Box::pin(job))));
}

/// The tasks of a world.
pub(crate) struct Executor {
    timeline: Arc<Timeline>,
    tasks: BTreeMap<u64, Task>,
    last_task: u64,
    ready: Arc<Mutex<Vec<u64>>>,
    /// The indexes of the ready tasks that may run, as of the last choice.
    able: Vec<usize>,
    paused: Vec<bool>,
    starved: Vec<bool>,
    late: Vec<bool>,
    rng: Rng,
    /// The number of polls since time last passed.
    polls: u32,
}

struct Task {
    home: Home,
    job: Job,
    notice: Arc<Notice>,
    /// Wakes the task by its notice.
    waker: Waker,
}

/// Puts a task among the ready tasks, at most once.
struct Notice {
    task: u64,
    queued: AtomicBool,
    ready: Arc<Mutex<Vec<u64>>>,
}

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(self.task);
        }
    }
}

impl Executor {
    pub(crate) fn new(timeline: &Arc<Timeline>, processes: usize, rng: Rng) -> Self {
        // A world that ended early may have left tasks on this thread.
        drop(SPAWNED.take());
        Self {
            timeline: Arc::clone(timeline),
            tasks: BTreeMap::new(),
            last_task: 0,
            ready: Arc::default(),
            able: Vec::new(),
            paused: vec![false; processes],
            starved: vec![false; processes],
            late: vec![false; processes],
            rng,
            polls: 0,
        }
    }

    /// Runs until a true time, or until `stop` returns true after a poll. Returns `false` if the world is caught in a
    /// loop.
    pub(crate) fn run_until(&mut self, limit: Duration, mut stop: impl FnMut() -> bool) -> bool {
        loop {
            self.adopt();
            if let Some(task) = self.choose() {
                self.poll(task);
                self.polls += 1;
                if self.polls > POLLS_MAX {
                    return false;
                }
            } else {
                self.polls = 0;
                if !self.timeline.pass(limit) {
                    return true;
                }
            }
            if stop() {
                return true;
            }
        }
    }

    /// Pauses or resumes a process.
    pub(crate) fn pause(&mut self, process: usize, paused: bool) {
        self.paused[process] = paused;
    }

    /// Stops or resumes the polls of a process's users.
    pub(crate) fn starve(&mut self, process: usize, starved: bool) {
        self.starved[process] = starved;
    }

    /// Lets the runtime of a process's users come late to what it does besides running them, or in time again.
    pub(crate) fn delay(&mut self, process: usize, late: bool) {
        self.late[process] = late;
    }

    /// Kills a process. Its driver goes first, so that the drops of its futures send nothing.
    pub(crate) fn kill(&mut self, process: usize) {
        for home in [Home::Driver(process), Home::Callers(process), Home::User(process)] {
            self.end(home);
        }
        (self.paused[process], self.starved[process], self.late[process]) = (false, false, false);
    }

    /// Ends the tasks of an owner, the last one first.
    pub(crate) fn end(&mut self, home: Home) {
        self.adopt();
        let is_its = |(_, task): &(&u64, &Task)| task.home == home;
        let dead: Vec<u64> = self.tasks.iter().filter(is_its).map(|(id, _)| *id).collect();
        for id in dead.iter().rev() {
            drop(self.tasks.remove(id));
        }
    }

    /// Returns the number of user tasks that have not ended.
    pub(crate) fn users(&self) -> usize {
        self.tasks.values().filter(|task| matches!(task.home, Home::User(_))).count()
    }

    fn adopt(&mut self) {
        for (home, job) in SPAWNED.take() {
            self.last_task += 1;
            let task = self.last_task;
            let notice = Notice { task, queued: AtomicBool::new(false), ready: Arc::clone(&self.ready) };
            let notice = Arc::new(notice);
            notice.wake_by_ref();
            let waker = Waker::from(Arc::clone(&notice));
            self.tasks.insert(task, Task { home, job, notice, waker });
        }
    }

    /// Takes a random task among those that are ready and may run.
    fn choose(&mut self) -> Option<u64> {
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        let (tasks, able) = (&self.tasks, &mut self.able);
        able.clear();
        let mut kept = 0;
        ready.retain(|task| {
            let Some(task) = tasks.get(task) else { return false };
            let runs = match task.home {
                Home::Driver(process) => !self.paused[process],
                Home::Callers(process) => {
                    !self.paused[process] && !self.starved[process] && !self.late[process]
                }
                Home::User(process) => !self.paused[process] && !self.starved[process],
                Home::World => true,
            };
            able.extend(runs.then_some(kept));
            kept += 1;
            true
        });
        let place = *self.rng.choice(&*able)?;
        Some(ready.remove(place))
    }

    fn poll(&mut self, id: u64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        task.notice.queued.store(false, Ordering::Relaxed);
        if task.job.as_mut().poll(&mut Context::from_waker(&task.waker)).is_ready() {
            drop(self.tasks.remove(&id));
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // Drivers go first here too, so that the drops of the other tasks send nothing.
        self.tasks.retain(|_, task| !matches!(task.home, Home::Driver(_)));
        self.tasks.retain(|_, task| !matches!(task.home, Home::Callers(_)));
        self.tasks.clear();
        drop(SPAWNED.take());
    }
}
