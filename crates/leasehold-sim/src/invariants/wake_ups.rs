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
}

impl Invariant for WakeUps {
    fn id(&self) -> &'static str {
        "L4"
    }

    fn see(&mut self, event: &Event, view: &View) -> Result<(), String> {
        match event {
            Event::Asked { op, process, name, what: What::Lock, .. } => {
                self.waiting.insert(*op, (Arc::clone(name), view.now, *process));
            }
            Event::Answered { op, .. } | Event::Dropped { op } => {
                self.waiting.remove(op);
            }
            Event::Killed { process } => self.waiting.retain(|_, (_, _, waits)| waits != process),
            Event::Executed { verb, name, reply, after, .. } => {
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
        let trip = view.plan.latency_max * 12 + Duration::from_millis(40);
        for (name, freed_at) in &self.freed {
            let since = view.now - *freed_at;
            // Faults leave partings, failures and pauses of a second behind them.
            let behind = since + Duration::from_secs(2) + view.plan.longest_lease();
            let within = if view.hears_for(behind) { trip } else { trip + view.plan.poll_interval };
            if since <= within || !view.is_quiet_for(behind) {
                continue;
            }
            let waits = self.waiting.iter().find(|(_, (of, asked_at, process))| {
                of == name && *asked_at < *freed_at && view.paused_since(*process, *asked_at).is_zero()
            });
            if let Some((op, (_, asked_at, _))) = waits {
                return Err(format!(
                    "{name} has been free for {since:?}, and op {} waits for it since {asked_at:?}",
                    op.0
                ));
            }
        }
        Ok(())
    }
}
