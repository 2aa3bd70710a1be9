//! The terms of an acquire, shared by all acquires with the same ones.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::confirm::Confirm;
use crate::engine::interface::{Request, Wait};
use crate::lease::Lease;
use crate::owner::{Owner, WireOwner};
use crate::recipe::Recipe;
use crate::subject::Subject;

/// The longest time that a grant waits for its claim. A caller that is polled claims within a poll, so only a future that
/// nobody polls reaches it, and keeps others waiting for that long. Chosen, not measured.
const UNCLAIMED_MAX: Duration = Duration::from_secs(5);

/// The terms of acquires that could stand in for each other, shared by all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Terms {
    pub(in crate::engine) recipe: ByAddress,
    pub(in crate::engine) units: u32,
    pub(in crate::engine) reenters: bool,
    pub(in crate::engine) lease: Lease,
    pub(in crate::engine) watchdog: bool,
    pub(in crate::engine) max_renewals: Option<u32>,
    pub(in crate::engine) max_hold: Option<Duration>,
    pub(in crate::engine) min_hold: Option<Duration>,
    pub(in crate::engine) silent_for: Option<Duration>,
    pub(in crate::engine) margin: Duration,
    pub(in crate::engine) uptime: Duration,
    pub(in crate::engine) backoff: Option<Backoff>,
    pub(in crate::engine) share: Option<Duration>,
    pub(in crate::engine) hand_off: Option<Duration>,
    pub(in crate::engine) replicas: Option<Confirm>,
    /// The wire owner whose hold an adoption takes.
    pub(in crate::engine) giver: Option<WireOwner>,
    pub(in crate::engine) stands_by: bool,
}

/// What two grants must agree on to stand in for each other, besides their leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Requested {
    pub(in crate::engine) recipe: ByAddress,
    pub(in crate::engine) units: u32,
    pub(in crate::engine) margin: Duration,
    pub(in crate::engine) uptime: Duration,
    pub(in crate::engine) replicas: Option<Confirm>,
    pub(in crate::engine) giver: Option<WireOwner>,
}

/// A recipe that equals itself only. Two recipes of one kind may acquire differently.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct ByAddress(pub(in crate::engine) &'static Recipe);

impl PartialEq for ByAddress {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for ByAddress {}

impl std::hash::Hash for ByAddress {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.kind.hash(state);
    }
}

impl Terms {
    /// Splits a request into what it is about and its terms.
    pub(in crate::engine) fn of(request: Request) -> (Subject, Owner, Wait, Self) {
        let Request { subject, owner, units, reenters, lease, watchdog, max_renewals, .. } = request;
        let Request { max_hold, min_hold, uptime, wait, backoff, share, hand_off, .. } = request;
        let Request { silent_for, margin, replicas, giver, stands_by, .. } = request;
        let recipe = ByAddress(subject.recipe);
        let terms = Self {
            recipe,
            units,
            reenters,
            lease,
            watchdog,
            max_renewals,
            max_hold,
            min_hold,
            silent_for,
            margin,
            uptime,
            backoff,
            share,
            hand_off,
            replicas,
            giver,
            stands_by,
        };
        (subject, owner, wait, terms)
    }

    /// Returns the lease to begin with, which is no longer than the hold may last.
    pub(in crate::engine) fn first_lease(&self) -> Lease {
        self.max_hold.map_or(self.lease, |most| self.lease.min(Lease::clamped(most)))
    }

    /// Returns the time within which a grant is claimed, or undone.
    pub(in crate::engine) fn claim_within(&self) -> Duration {
        (self.first_lease().duration() / 3).min(UNCLAIMED_MAX)
    }

    /// Returns true if what was granted under the other terms is what these terms request.
    pub(in crate::engine) fn fit(&self, other: &Self) -> bool {
        self.requested() == other.requested() && self.first_lease() == other.first_lease()
    }

    /// Returns what a grant must have besides its lease, whether a queue gives it to another waiter or a hold passes on.
    pub(in crate::engine) const fn requested(&self) -> Requested {
        let Self { recipe, units, margin, uptime, replicas, giver, .. } = *self;
        Requested { recipe, units, margin, uptime, replicas, giver }
    }

    pub(in crate::engine) const fn recipe(&self) -> &'static Recipe {
        self.recipe.0
    }
}
