//! What a world may do: its limits, and the deliberate faults of its variants.

use leasehold_proto::engine::{Id, Request};
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::values;
use leasehold_proto::{Lease, WireOwner};

use super::TICK;

/// The limits of the world. Each move uses up its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    /// The steps of time.
    pub(crate) ticks: u16,
    /// The acquires of each client.
    pub(crate) acquires: u8,
    /// The futures that are dropped while they wait.
    pub(crate) cancels: u8,
    /// The lost requests or replies, for which the client gets a timeout.
    pub(crate) losses: u8,
    /// The requests that the server executes at any later time: a lost request that arrives after all, or a request that
    /// it has executed already. No byte stream repeats the latter. Such repetitions represent a proxy or a library that
    /// sends a request twice, and show that every script may run twice.
    pub(crate) repeats: u8,
    /// The requests that the server refuses without running them.
    pub(crate) refusals: u8,
    /// The guards that are detached.
    pub(crate) keeps: u8,
    /// The number of owners that the users of one client share. Users of one owner re-enter each other's holds.
    pub(crate) owners: usize,
    /// True if acquires differ in their terms: lease, bound on the hold, bound on the renewals, no watchdog.
    pub(crate) varied: bool,
    /// True if one user bounds its holds, to less than the lease.
    pub(crate) bounded: bool,
    /// The ticks after a grant for which the hold passes on inside its client.
    pub(crate) passes_for: u32,
    /// The processes that are killed.
    pub(crate) crashes: u8,
    /// The processes that are suspended and resumed.
    pub(crate) pauses: u8,
    /// The keys that are deleted under their holder.
    pub(crate) deletions: u8,
    /// True for a plain lock, and false for a reentrant one.
    pub(crate) plain: bool,
    /// True for a model, which tries every order. Waiters are not woken but poll, and a grant is claimed at once.
    pub(crate) terse: bool,
}

/// A variant with a deliberate fault, which shows that the checks can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Variant {
    /// The variant without a fault.
    Sound,
    /// The client's clock stops while its process is suspended, as `CLOCK_MONOTONIC` does.
    ClockStopsInSuspend,
    /// The server releases without a check of the owner.
    ReleaseIgnoresOwner,
    /// The client's library sends every call twice and reports only the second.
    AcquireOverwrites,
    /// A hold passes on inside its client without a bound.
    HandsOffForever,
    /// A user drops its future, and the client does not learn of that.
    LeavesUnseen,
    /// A renewal of a hold that is gone is answered as if it was there.
    RenewsWhatIsGone,
    /// A user's bound on its hold does not reach the engine.
    ForgetsMaxHold,
}

/// Returns the same request with other terms, which follow from its id.
pub(super) fn varied(request: Request, id: Id) -> Request {
    let longer = Lease::clamped(request.lease.duration() * 2);
    match id.0 % 5 {
        0 => Request { watchdog: false, ..request },
        1 => Request { max_hold: Some(TICK * 2), ..request },
        2 => Request { max_renewals: Some(1), ..request },
        3 => Request { lease: longer, max_hold: Some(TICK * 5), ..request },
        _ => request,
    }
}

/// Returns a wire owner as the server has it.
pub(super) fn shown(budget: Budget, owner: WireOwner) -> String {
    if budget.plain {
        let [value, _] = values(&Format::default(), owner);
        return String::from_utf8(value).unwrap();
    }
    owner.to_string()
}
