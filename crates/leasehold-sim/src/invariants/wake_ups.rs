//! L4: after a release the next waiter is granted within a round trip, or what a lost message costs.
//!
//! Invariant: judged only while nothing disturbs; a round trip is counted generously.
//! Called by: the recorder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Verb;

use super::Invariant;
use crate::history::{Event, Op, Reply, What};
use crate::recorder::View;

#[derive(Default)]
pub(super) struct WakeUps {
    waiting: BTreeMap<Op, (Arc<str>, Duration, usize)>,
    /// Locks that were freed while somebody waited, and when.
    freed: BTreeMap<Arc<str>, Duration>,
    /// When a lock's key expires, by the server's clock.
    expires: BTreeMap<Arc<str>, Option<u64>>,
    /// Locks that ran out, and when.
    ran_out: BTreeMap<Arc<str>, Duration>,
}

impl Invariant for WakeUps {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Asked { op, process, name, what: What::Lock | What::TryLockFor, .. } => {
                self.waiting.insert(*op, (Arc::clone(name), view.now, *process));
            }
            Event::Answered { op, .. } | Event::Dropped { op } => {
                self.waiting.remove(op);
            }
            Event::Killed { process } => self.waiting.retain(|_, (_, _, waits)| waits != process),
            Event::Executed { verb, name, reply, after, .. } => {
                self.expires.insert(Arc::clone(name), after.expires_at_ms);
                if !after.is_free() {
                    self.freed.remove(name);
                } else if matches!(verb, Verb::Release | Verb::ForceRelease) && *reply == Reply::Int(1) {
                    self.freed.insert(Arc::clone(name), view.now);
                }
            }
            _ => {}
        }
        self.look(view)
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        let says = u64::try_from(view.server_clock.says(view.now).as_millis()).unwrap_or(u64::MAX);
        for (name, expires_at_ms) in &self.expires {
            if expires_at_ms.is_some_and(|at| at < says) {
                self.ran_out.entry(Arc::clone(name)).or_insert(view.now);
            } else {
                self.ran_out.remove(name);
            }
        }
        let trip = view.plan.latency_max * 12 + Duration::from_millis(40);
        let poll = trip + view.plan.poll_interval;
        for (name, freed_at) in &self.freed {
            // What was lost is found by polling.
            let within = if view.hears_for(behind(view, *freed_at)) { trip } else { poll };
            self.granted_within(view, name, *freed_at, within)?;
        }
        self.ran_out.iter().try_for_each(|(name, at)| self.granted_within(view, name, *at, poll))
    }
}

impl WakeUps {
    fn granted_within(
        &self,
        view: &View,
        name: &str,
        free_at: Duration,
        within: Duration,
    ) -> Result<(), String> {
        let since = view.now - free_at;
        if since <= within || !view.is_quiet_for(behind(view, free_at)) {
            return Ok(());
        }
        let waits = self.waiting.iter().find(|(_, (of, asked_at, process))| {
            **of == *name && *asked_at < free_at && view.paused_since(*process, *asked_at).is_zero()
        });
        match waits {
            None => Ok(()),
            Some((op, (_, asked_at, _))) => {
                let op = op.0;
                Err(format!(
                    "{name} has been free for {since:?}, and op {op} waits for it since {asked_at:?}"
                ))
            }
        }
    }
}

/// For how long nothing may have disturbed: faults leave partings, failures and pauses of a second behind them.
fn behind(view: &View, free_at: Duration) -> Duration {
    view.now - free_at + Duration::from_secs(2) + view.plan.longest_lease()
}
