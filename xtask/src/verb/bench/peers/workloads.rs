//! The workloads, in the order of the report.

use serde_json::{Value, json};

/// The lease of locks, in milliseconds.
const LEASE_MS: u32 = 30_000;
/// The lease of held locks. The window is as long, so that each library renews each lock in it.
const RENEWED_MS: u32 = 30_000;
/// The time in which the waiters of an idle workload are served at the end.
const DRAIN_SECONDS: f64 = 20.0;
/// The permits of a semaphore.
const PERMITS: u32 = 4;
/// The processes of a fleet.
const FLEET: u32 = 4;

/// The action of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Pairs,
    Hot,
    Held,
    Idle,
    Handover,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Hot => "hot",
            Self::Held => "held",
            Self::Idle => "idle",
            Self::Handover => "handover",
        }
    }
}

/// A workload, as the report names it and as a contender reads it.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    /// The group of the report, and the name, which begins with it.
    pub(super) group: &'static str,
    pub(super) name: String,
    pub(super) title: String,
    pub(super) what: What,
    pub(super) kind: &'static str,
    pub(super) tasks: u32,
    names: u32,
    section_us: u32,
    pub(super) seconds: f64,
    lease_ms: u32,
    pub(super) processes: u32,
    /// The pause between the set-up and the window in seconds.
    pub(super) settle: f64,
}

impl Workload {
    fn new(group: &'static str, name: String, title: String, what: What) -> Self {
        Self {
            group,
            name,
            title,
            what,
            kind: "lock",
            tasks: 1,
            names: 1,
            section_us: 0,
            seconds: 1.0,
            lease_ms: LEASE_MS,
            processes: 1,
            settle: 0.0,
        }
    }

    /// Returns true for the name of this workload and the name of its group.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.group == name
    }

    /// Returns the lease in milliseconds.
    pub(super) fn lease_ms(&self) -> f64 {
        f64::from(self.lease_ms)
    }

    /// Returns true if a longer window changes no figure but its error.
    pub(super) fn is_measured_by_rate(&self) -> bool {
        matches!(self.what, What::Pairs | What::Hot | What::Handover)
    }

    /// Returns true if the memory of a process is a figure. Each round then has a new process.
    pub(super) fn measures_memory(&self) -> bool {
        matches!(self.what, What::Held | What::Idle)
    }

    /// Makes the workload as short as a check that it runs.
    pub(super) fn shorten(&mut self) {
        self.seconds = match self.what {
            What::Held => 1.5,
            What::Handover => 1.0,
            What::Pairs | What::Hot | What::Idle => 0.3,
        };
        self.settle = self.settle.min(0.5);
        // Longer than the set-up of many locks.
        if self.what == What::Held && self.tasks <= 1_000 {
            self.lease_ms = 3_000;
        }
    }

    /// Returns the line for one process.
    pub(super) fn line(&self, prefix: &str, index: u32, seconds: f64, witness: Option<&str>) -> Value {
        json!({
            "what": self.what.name(),
            "kind": self.kind,
            "tasks": self.tasks,
            "names": self.names,
            "permits": PERMITS,
            "section_us": self.section_us,
            "seconds": seconds,
            "drain_seconds": DRAIN_SECONDS,
            "lease_ms": self.lease_ms,
            "prefix": prefix,
            "index": index,
            "processes": self.processes,
            "witness": witness,
        })
    }
}

/// Returns all workloads.
pub(super) fn all() -> Vec<Workload> {
    let mut all: Vec<Workload> = [1, 8, 64, 512].map(pairs).into();
    for section_us in [0, 1_000] {
        all.extend([2, 8, 64, 512].map(|tasks| hot(tasks, section_us)));
    }
    all.extend([0, 1_000].map(fleet));
    all.push(handover());
    all.extend([1_000, 10_000, 100_000].map(held));
    for is_one in [true, false] {
        all.extend([1_000, 10_000].map(|tasks| idle(tasks, is_one)));
    }
    for (kind, title) in [("fair", "fair lock"), ("rw", "read-write lock"), ("semaphore", "semaphore")] {
        all.extend([false, true].map(|is_hot| other_kind(kind, title, is_hot)));
    }
    all
}

fn pairs(tasks: u32) -> Workload {
    let title = match tasks {
        1 => "a lone task acquires and releases one lock".to_owned(),
        _ => format!("{tasks} tasks acquire and release, each a lock of its own"),
    };
    Workload { tasks, ..Workload::new("pairs", format!("pairs-{tasks}"), title, What::Pairs) }
}

fn hot(tasks: u32, section_us: u32) -> Workload {
    let milliseconds = section_us / 1_000;
    let name = format!("hot-{tasks}-{milliseconds}ms");
    let title = format!("{tasks} tasks of one process want one lock, sections of {milliseconds} ms");
    Workload { tasks, section_us, ..Workload::new("hot", name, title, What::Hot) }
}

fn fleet(section_us: u32) -> Workload {
    let milliseconds = section_us / 1_000;
    let title = format!("{FLEET} processes of 8 tasks each want one lock, sections of {milliseconds} ms");
    let workload = Workload::new("fleet", format!("fleet-{milliseconds}ms"), title, What::Hot);
    // The longest wait needs a window longer than the waits of libraries that poll.
    Workload { tasks: 8, section_us, processes: FLEET, seconds: 3.0, ..workload }
}

fn handover() -> Workload {
    let title = "two processes hold one lock in turns, 5 ms each".to_owned();
    let workload = Workload::new("handover", "handover".to_owned(), title, What::Handover);
    Workload { processes: 2, section_us: 5_000, seconds: 3.0, ..workload }
}

fn held(tasks: u32) -> Workload {
    let title = format!("{tasks} held locks with leases of {} s are renewed", RENEWED_MS / 1_000);
    let workload = Workload::new("held", format!("held-{tasks}"), title, What::Held);
    let seconds = f64::from(RENEWED_MS) / 1e3;
    Workload { tasks, lease_ms: RENEWED_MS, seconds, settle: 2.0, ..workload }
}

fn idle(tasks: u32, is_one: bool) -> Workload {
    let (suffix, locks, names) =
        if is_one { ("one", "one held lock", 1) } else { ("many", "as many held locks", tasks) };
    let title = format!("{tasks} tasks wait for {locks}, and are served at the end");
    let workload = Workload::new("idle", format!("idle-{tasks}-{suffix}"), title, What::Idle);
    Workload { tasks, names, seconds: 3.0, settle: 2.0, ..workload }
}

fn other_kind(kind: &'static str, title: &str, is_hot: bool) -> Workload {
    let (suffix, rest, what) = if is_hot {
        ("hot", "8 tasks want one", What::Hot)
    } else {
        ("pairs", "8 tasks, each with one of its own", What::Pairs)
    };
    let name = format!("kinds-{kind}-{suffix}");
    Workload { tasks: 8, kind, ..Workload::new("kinds", name, format!("{title}: {rest}"), what) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_begin_with_their_group() {
        let all = all();
        let names: BTreeSet<&String> = all.iter().map(|workload| &workload.name).collect();
        assert_eq!(names.len(), all.len());
        assert!(all.iter().all(|workload| workload.name.starts_with(workload.group)));
    }

    #[test]
    fn a_process_reads_its_index_and_the_witness() {
        let line = handover().line("p", 1, 0.5, Some("/w"));
        assert_eq!((line["what"].as_str(), line["index"].as_u64()), (Some("handover"), Some(1)));
        assert_eq!((line["witness"].as_str(), line["processes"].as_u64()), (Some("/w"), Some(2)));
        assert_eq!(line["seconds"].as_f64(), Some(0.5));
    }

    #[test]
    fn a_held_lock_is_renewed_within_its_window() {
        let held = held(1_000);
        assert!(held.seconds * 1e3 >= held.lease_ms() / 2.0);
    }
}
