//! The check that sections exclude each other, in this process and over all processes of the workload.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use anyhow::{Context, Result};

use crate::contract::{Kind, What, Workload};
use crate::{Request, Side};

/// The weight of a writer, above the number of all readers.
const WRITER: i64 = 1 << 32;

/// The sections that run, and the number of those that overlapped wrongly.
pub(crate) struct Exclusion {
    inside: AtomicI64,
    violations: AtomicU64,
    witness: Option<File>,
    index: u8,
    /// True if all tasks use one lock. Otherwise sections may overlap.
    is_shared: bool,
}

impl Exclusion {
    pub(crate) fn new(workload: &Workload) -> Result<Self> {
        let open = |path| {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
            file.with_context(|| format!("cannot open the witness {path:?}"))
        };
        Ok(Self {
            inside: AtomicI64::new(0),
            violations: AtomicU64::new(0),
            witness: workload.witness.as_ref().map(open).transpose()?,
            index: u8::try_from(workload.index)?,
            is_shared: matches!(workload.what, What::Hot | What::Handover),
        })
    }

    /// Enters a section. An exclusive section also locks the witness, without waiting.
    pub(crate) fn enter(&self, request: &Request) {
        if !self.is_shared {
            return;
        }
        let others = self.inside.fetch_add(weight(request), Ordering::SeqCst);
        let alone = match (request.kind, request.side) {
            (Kind::Semaphore, _) => others < i64::from(request.permits),
            (Kind::Rw, Side::Read) => others < WRITER,
            _ => others == 0,
        };
        let witnessed = self
            .witness
            .as_ref()
            .is_none_or(|file| file.try_lock().is_ok() && file.write_at(&[b'0' + self.index], 0).is_ok());
        if !alone || !witnessed {
            self.violations.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(crate) fn leave(&self, request: &Request) {
        if !self.is_shared {
            return;
        }
        if let Some(file) = &self.witness {
            // The file stays open, and the next section of any process reports a lock that is left.
            let _ = file.unlock();
        }
        self.inside.fetch_sub(weight(request), Ordering::SeqCst);
    }

    /// Returns true if the last section that entered was one of another process, or if there was none.
    pub(crate) fn is_our_turn(&self) -> bool {
        let mut last = [0];
        let read = self.witness.as_ref().map_or(Ok(0), |file| file.read_at(&mut last, 0));
        read.is_ok() && last[0] != b'0' + self.index
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::SeqCst)
    }
}

fn weight(request: &Request) -> i64 {
    if request.side == Side::Write && request.kind == Kind::Rw { WRITER } else { 1 }
}
