//! The machine of the waiters.
//!
//! Invariant: it stands above the holds, which it reads, and begins and undoes. What the parts above have to do is an
//! [`Effect`](crate::engine::effect::Effect).

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::base::keys::{PlaceId, Side};
use crate::engine::base::terms::Terms;
use crate::engine::holds::Holds;
use crate::id::Id;
use crate::owner::Owner;

/// The acquires of a client until they are granted, with the queues in which they wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Waits {
    pub(in crate::engine) holds: Holds,
    /// The acquires that wait for a counted hold, by what they wait to hold and for whom.
    pub(in crate::engine::waits) waiters: BTreeSet<(PlaceId, Side, Owner, Id)>,
    /// The terms of the last acquire, which those of the next one mostly equal.
    pub(in crate::engine::waits) last_terms: Option<Arc<Terms>>,
}

impl Waits {
    pub(in crate::engine) const fn new(holds: Holds) -> Self {
        Self { holds, waiters: BTreeSet::new(), last_terms: None }
    }
}
