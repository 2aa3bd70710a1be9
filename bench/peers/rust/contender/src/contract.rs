//! The lines of the contract: a workload, and its figures.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The action of a workload.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Each task acquires and releases a lock of its own.
    Pairs,
    /// All tasks of all processes want one lock.
    Hot,
    /// Each task holds a lock of its own, which the peer renews.
    Held,
    /// The tasks wait for locks that other tasks hold, and are served at the end.
    Idle,
    /// Two processes hold one lock in turns.
    Handover,
}

/// The kind of the lock.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The plain lock.
    Lock,
    /// The lock that serves its waiters in order.
    Fair,
    /// The read-write lock.
    Rw,
    /// The semaphore.
    Semaphore,
}

/// A workload.
#[derive(Clone, Debug, Deserialize)]
pub struct Workload {
    /// The action.
    pub what: What,
    /// The kind of the lock.
    pub kind: Kind,
    /// The tasks of this process.
    pub tasks: usize,
    /// The number of names that the tasks of an idle workload wait for.
    pub names: usize,
    /// The permits of a semaphore.
    pub permits: u32,
    /// The duration of a section in microseconds.
    pub section_us: u64,
    /// The window in seconds.
    pub seconds: f64,
    /// The time in seconds in which the waiters of an idle workload are served at the end.
    pub drain_seconds: f64,
    /// The lease in milliseconds.
    pub lease_ms: u64,
    /// The beginning of each name.
    pub prefix: String,
    /// The number of this process, from zero.
    pub index: u32,
    /// The number of processes that run this workload together.
    pub processes: u32,
    /// The file that all processes of this workload share.
    pub witness: Option<PathBuf>,
}

impl Workload {
    /// Returns the names of all locks of this process.
    pub fn lock_names(&self) -> Vec<String> {
        let count = match self.what {
            What::Pairs | What::Held => self.tasks,
            What::Idle => self.names,
            What::Hot | What::Handover => 1,
        };
        (0..count).map(|number| self.lock_name(number)).collect()
    }

    /// Returns the name of the lock of a task.
    pub(crate) fn lock_name(&self, task: usize) -> String {
        let Self { what, names, index, prefix, .. } = self;
        match what {
            What::Pairs | What::Held => format!("{prefix}:{index}:{task}"),
            What::Idle => format!("{prefix}:{}", task % names),
            What::Hot | What::Handover => prefix.clone(),
        }
    }

    /// Returns the lease.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Returns the duration of a section.
    pub fn section(&self) -> Duration {
        Duration::from_micros(self.section_us)
    }

    /// Returns the duration of the window.
    pub fn window(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// The distribution of a duration, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Spread {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// The figures of a workload.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Figures {
    /// The grants inside the window.
    pub(crate) grants: u64,
    pub(crate) elapsed_us: f64,
    /// The acquire and the release of a section, without its body.
    pub(crate) latency: Spread,
    /// The acquire alone. Waits that the window cut off are in it with their whole length.
    pub(crate) wait: Spread,
    /// The grants of each task inside the window.
    pub(crate) per_task: Vec<u64>,
    /// The processor time of this process inside the window.
    pub(crate) cpu_us: f64,
    /// The memory of this process at the end of the window, and before the workload.
    pub(crate) rss_kib: u64,
    pub(crate) rss_before_kib: u64,
    /// The sections that overlapped another section.
    pub(crate) violations: u64,
    /// The sections that failed, and the first error.
    pub(crate) errors: u64,
    pub(crate) error: Option<String>,
    /// The time from the release of the locks of an idle workload until its last waiter was served, if all were.
    pub(crate) drain_us: Option<f64>,
    /// The grants and the begins of the releases of a hand-over workload, by the clock of the machine in microseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) holds: Vec<(f64, f64)>,
}
