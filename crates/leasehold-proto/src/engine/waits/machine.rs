//! The machine of the waiters.
//!
//! Invariant: it stands above the holds, which it reads, and begins and undoes. What the parts above have to do is an
//! [`Effect`](crate::engine::effect::Effect).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::base::keys::{NameId, Side};
use crate::engine::base::terms::Terms;
use crate::engine::holds::Holds;
use crate::engine::waits::calls::WaitCall;
use crate::id::{CallId, Id};
use crate::moment::Moment;
use crate::outcome::StoreError;
use crate::owner::Owner;
use crate::reply::Reply;

/// The acquires of a client until they are granted, with the queues in which they wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Waits {
    pub(in crate::engine) holds: Holds,
    /// The acquires that wait for a counted hold, by what they wait to hold and for whom.
    pub(in crate::engine::waits) waiters: BTreeSet<(NameId, Side, Owner, Id)>,
    /// The terms of the last acquire, which those of the next one mostly equal.
    pub(in crate::engine::waits) last_terms: Option<Arc<Terms>>,
}

impl Waits {
    pub(in crate::engine) const fn new(holds: Holds) -> Self {
        Self { holds, waiters: BTreeSet::new(), last_terms: None }
    }

    /// Handles the answer to a call of waiters.
    pub(in crate::engine) fn answered(
        &mut self,
        now: Moment,
        call: CallId,
        purpose: WaitCall,
        result: Result<Reply, StoreError>,
    ) {
        match purpose {
            WaitCall::Attempt(attempt) => self.attempt_answered(now, call, &attempt, result),
            WaitCall::KeepAlive(id) => self.kept_alive(now, call, id, result),
        }
    }
}
