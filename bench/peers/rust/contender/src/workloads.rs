//! The workloads, over any peer.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::sync::{oneshot, watch};

use crate::contract::{Figures, Kind, What, Workload};
use crate::exclusion::Exclusion;
use crate::sample::Sample;
use crate::serve::Verb;
use crate::tasks::{pause, start};
use crate::usage::{cpu_us, now, rss_kib};
use crate::{Peer, Request, Side};

/// The pause between two looks at the witness, and at tasks that set up.
const LOOK: Duration = Duration::from_millis(1);

/// The most acquires of the set-up at one time. Thousands at once run into the time limits of some libraries.
const AT_ONCE: usize = 256;

/// The phases of a workload, which the tasks follow.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Phase {
    SetUp,
    /// The window, until this time.
    Window(u64),
    Over,
}

/// One workload of one peer.
struct Run<P> {
    peer: P,
    workload: Workload,
    exclusion: Exclusion,
    phase: watch::Sender<Phase>,
    /// The holds that the set-up has made, and the waiters that it has started.
    set_up: AtomicUsize,
    errors: AtomicU64,
    first_error: watch::Sender<Option<String>>,
}

/// The figures of one task.
#[derive(Default)]
struct Record {
    grants: u64,
    latency: Sample,
    wait: Sample,
    holds: Vec<(f64, f64)>,
}

/// Runs a workload and returns its figures.
pub(crate) async fn run<P: Peer>(url: &str, workload: &Workload, verb: &mut Verb) -> Result<Figures> {
    let rss_before_kib = rss_kib();
    let run = Arc::new(Run {
        peer: P::connect(url, workload).await?,
        workload: workload.clone(),
        exclusion: Exclusion::new(workload)?,
        phase: watch::Sender::new(Phase::SetUp),
        set_up: AtomicUsize::new(0),
        errors: AtomicU64::new(0),
        first_error: watch::Sender::new(None),
    });
    let (holders, tasks) = run.start_tasks().await?;
    verb.ready()?;
    let (began, cpu) = (now(), cpu_us());
    let deadline = began + u64::try_from(workload.window().as_nanos())?;
    run.phase.send_replace(Phase::Window(deadline));
    tokio::time::sleep(workload.window()).await;
    let (ended, cpu_us, rss_kib) = (now(), cpu_us() - cpu, rss_kib());
    verb.end()?;
    let released = now();
    run.phase.send_replace(Phase::Over);
    let mut figures = Figures { rss_kib, rss_before_kib, cpu_us, ..Figures::default() };
    figures.elapsed_us = (ended - began) as f64 / 1e3;
    let (mut latency, mut wait) = (Sample::default(), Sample::default());
    let drain = Duration::from_secs_f64(workload.drain_seconds);
    let mut all_served = workload.what == What::Idle;
    for task in tasks {
        let record = if workload.what == What::Idle {
            let left = drain.saturating_sub(Duration::from_nanos(now() - released));
            let served = tokio::time::timeout(left, task).await;
            all_served &= served.is_ok();
            served.unwrap_or_else(|_| Ok(Record::default()))
        } else {
            task.await
        };
        let record = record.context("a task panicked")?;
        figures.per_task.push(record.grants);
        figures.holds.extend(record.holds);
        latency.extend(record.latency);
        wait.extend(record.wait);
    }
    figures.drain_us = all_served.then(|| (now() - released) as f64 / 1e3);
    for holder in holders {
        holder.await.context("a task panicked")?;
    }
    figures.grants = figures.per_task.iter().sum();
    (figures.latency, figures.wait) = (latency.spread(), wait.spread());
    figures.violations = run.exclusion.violations();
    figures.errors = run.errors.load(Ordering::SeqCst);
    figures.error = run.first_error.borrow().clone();
    Ok(figures)
}

type Tasks = Vec<oneshot::Receiver<Record>>;

impl<P: Peer> Run<P> {
    /// Starts the holders and the tasks of the workload. Returns when the holders hold and the waiters have started.
    async fn start_tasks(self: &Arc<Self>) -> Result<(Tasks, Tasks)> {
        let Workload { what, tasks, names, .. } = self.workload;
        let holding = match what {
            What::Held => tasks,
            What::Idle => names,
            What::Pairs | What::Hot | What::Handover => 0,
        };
        let mut holders = Vec::new();
        while holders.len() < holding {
            let end = holding.min(holders.len() + AT_ONCE);
            holders.extend(self.start_each(holders.len()..end, Self::hold)?);
            self.until_set_up(holders.len()).await?;
        }
        let tasks = match what {
            What::Held => Vec::new(),
            What::Idle => self.start_each(0..tasks, Self::wait)?,
            What::Pairs | What::Hot => self.start_each(0..tasks, Self::contend)?,
            What::Handover => self.start_each(0..tasks, Self::take_turns)?,
        };
        self.until_set_up(holders.len() + tasks.len()).await?;
        Ok((holders, tasks))
    }

    fn start_each<F>(
        self: &Arc<Self>,
        numbers: Range<usize>,
        task: fn(Arc<Self>, usize) -> F,
    ) -> Result<Tasks>
    where
        F: Future<Output = Record> + Send + 'static,
    {
        numbers.map(|number| start(P::BLOCKS, task(Arc::clone(self), number))).collect()
    }

    async fn until_set_up(&self, count: usize) -> Result<()> {
        while self.set_up.load(Ordering::SeqCst) < count {
            if let Some(error) = self.first_error.borrow().clone() {
                bail!("the set-up failed: {error}");
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns the request of a task.
    fn request(&self, task: usize) -> Request {
        let Workload { what, kind, permits, .. } = self.workload;
        let name = self.workload.lock_name(task);
        // One task of four writes.
        let side = if kind == Kind::Rw && task % 4 != 0 { Side::Read } else { Side::Write };
        let renewed = what == What::Held;
        Request { name, kind, side, permits, lease: self.workload.lease(), renewed }
    }

    /// Waits for a phase.
    async fn reach(&self, phase: fn(Phase) -> bool) -> Phase {
        // The sender lives as long as the run, so the wait does not fail.
        self.phase.subscribe().wait_for(|now| phase(*now)).await.map_or(Phase::Over, |now| *now)
    }

    fn failed(&self, error: &anyhow::Error) {
        self.errors.fetch_add(1, Ordering::SeqCst);
        self.first_error.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert_with(|| format!("{error:#}"));
            is_first
        });
    }

    /// Holds a lock until the window is over.
    async fn hold(self: Arc<Self>, task: usize) -> Record {
        let body = async {
            self.set_up.fetch_add(1, Ordering::SeqCst);
            self.reach(|phase| phase == Phase::Over).await
        };
        let ended = self.peer.section(&self.request(task), body).await;
        // The release of a held lock is behind the window, and all are released at once.
        let counts = self.workload.what != What::Held || *self.phase.borrow() != Phase::Over;
        if let Some(error) = ended.err().filter(|_| counts) {
            self.failed(&error);
        }
        Record::default()
    }

    /// Waits for a lock until the window is over, and takes it.
    async fn wait(self: Arc<Self>, task: usize) -> Record {
        self.set_up.fetch_add(1, Ordering::SeqCst);
        let mut record = Record::default();
        match self.peer.section(&self.request(task), async {}).await {
            Ok(()) => record.grants = 1,
            Err(error) => self.failed(&error),
        }
        record
    }

    /// Runs a section under a name of the task's own, so that scripts are loaded and connections are open.
    async fn warm_up(&self, request: &Request, task: usize) {
        // The permits of such a semaphore are not set.
        if request.kind != Kind::Semaphore {
            let name = format!("{}:warm:{}:{task}", self.workload.prefix, self.workload.index);
            if let Err(error) = self.peer.section(&Request { name, ..request.clone() }, async {}).await {
                self.failed(&error);
            }
        }
        self.set_up.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs one section after the other until the window is over.
    async fn contend(self: Arc<Self>, task: usize) -> Record {
        let request = self.request(task);
        self.warm_up(&request, task).await;
        let deadline = self.window().await;
        let mut record = Record::default();
        while now() < deadline {
            if let Err(error) = self.one_section(&request, deadline, &mut record).await {
                self.failed(&error);
            }
        }
        record
    }

    /// Runs a section whenever the last section was one of the other process.
    async fn take_turns(self: Arc<Self>, task: usize) -> Record {
        let request = self.request(task);
        self.warm_up(&request, task).await;
        let deadline = self.window().await;
        let mut record = Record::default();
        while now() < deadline {
            if !self.exclusion.is_our_turn() {
                pause(P::BLOCKS, LOOK).await;
            } else if let Err(error) = self.one_section(&request, deadline, &mut record).await {
                self.failed(&error);
            }
        }
        record
    }

    /// Returns the end of the window, once it has begun.
    async fn window(&self) -> u64 {
        match self.reach(|phase| phase != Phase::SetUp).await {
            Phase::Window(deadline) => deadline,
            Phase::SetUp | Phase::Over => 0,
        }
    }

    async fn one_section(&self, request: &Request, deadline: u64, record: &mut Record) -> Result<()> {
        let asked = now();
        let body = async {
            let granted = now();
            self.exclusion.enter(request);
            // A section that begins after the window only lets the next waiter pass.
            if self.workload.section_us > 0 && granted < deadline {
                pause(P::BLOCKS, self.workload.section()).await;
            }
            self.exclusion.leave(request);
            (granted, now())
        };
        let (granted, left) = self.peer.section(request, body).await?;
        record.latency.push((granted - asked) + (now() - left));
        record.wait.push(granted - asked);
        record.grants += u64::from(granted < deadline);
        if self.workload.what == What::Handover {
            record.holds.push((granted as f64 / 1e3, left as f64 / 1e3));
        }
        Ok(())
    }
}
