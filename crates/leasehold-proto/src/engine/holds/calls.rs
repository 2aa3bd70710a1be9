//! The calls of holds on their way.

use crate::engine::base::keys::Number;
use crate::lease::Lease;
use crate::moment::Moment;

/// A call of a hold on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) enum HoldCall {
    Renew(Number, Renewing),
    Probe(Number, ProbeSent),
    /// The one call that changes what is on the server under a wire owner: the count of a hold, the lease of a minimum
    /// hold, or a release.
    Change(Number),
}

/// A renewal on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Renewing {
    pub(in crate::engine) sent_at: Moment,
    pub(in crate::engine) lease: Lease,
    /// True if the renewal is one of those that the guards have.
    pub(in crate::engine) counts: bool,
}

/// A probe on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct ProbeSent {
    pub(in crate::engine) sent_at: Moment,
    pub(in crate::engine) lease: Lease,
    /// True if the server had confirmed this client's own subscription.
    pub(in crate::engine) listened: bool,
}
