//! The users of the exclusive locks: reentrant, fair, fenced, spin.
//!
//! Invariant: as in the parent module.

use std::sync::Arc;

use leasehold::error::InspectErrorKind;
use leasehold::lock::{Kind, Tokens};
use leasehold::{InspectError, Lock};

use super::held::Held;
use super::user::{LeaseMode, Policy, User};
use crate::history::{Outcome, What};
use crate::name_state::Side;
use crate::primitive::{Primitive, wire_of};
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// Returns the kind of tokens of a name's lock.
pub(super) fn tokens(name: &str) -> Tokens {
    if Primitive::of(name) == Primitive::Hybrid { Tokens::Hybrid } else { Tokens::Counter }
}

/// Acquires a lock, holds it and releases it, or only inspects it.
pub(super) async fn work<K: Kind>(
    user: &mut User,
    lock: Lock<K>,
    name: &Arc<str>,
    token: fn(&K::Guard) -> Option<u64>,
) {
    if user.env.rng.u8(0..20) == 0 {
        return inspect(user, &lock, name).await;
    }
    let (terms, policy) = user.terms();
    let lock = on(lock, terms, policy);
    // The re-entry of a plain lock is a renewal on the wire, so only those with tokens re-enter, which are not judged by it.
    let reenters = user.env.rng.u8(0..4) == 0 && Primitive::of(name) != Primitive::Plain;
    let lock = if reenters { lock.owned_by(&user.owner) } else { lock };
    let choice = [What::Lock, What::Lock, What::TryLock, What::TryLockFor];
    let what = *user.env.rng.choice(&choice).expect("some");
    let Some(held) = acquire(user, &lock, name, what, terms, token).await else { return };
    user.hold(&held, terms).await;
    if reenters {
        // Some re-entries use a non-reentrant lock, which refuses them.
        let lock = if user.env.rng.u8(0..6) == 0 { lock.non_reentrant() } else { lock };
        if let Some(inner) = acquire(user, &lock, name, What::Reenter, terms, token).await {
            user.hold(&inner, terms).await;
            user.end(inner, name).await;
        }
        user.hold(&held, terms).await;
    }
    user.end(held, name).await;
}

/// Returns a lock with these terms.
pub(super) fn on<K: Kind>(lock: Lock<K>, terms: Terms, policy: Policy) -> Lock<K> {
    let lock = match policy.replicas {
        Some(replicas) => lock.replicas(replicas),
        None => lock,
    };
    match policy.mode {
        LeaseMode::Watched => lock.watchdog(terms.lease),
        LeaseMode::Fixed => lock.lease(terms.lease),
        LeaseMode::AtMost(most) => lock.watchdog(terms.lease).max_hold(most),
        LeaseMode::Renewals(most) => lock.watchdog(terms.lease).max_renewals(most),
        LeaseMode::AtLeast(min_hold) => lock.watchdog(terms.lease).min_hold(min_hold),
    }
}

async fn acquire<K: Kind>(
    user: &mut User,
    lock: &Lock<K>,
    name: &Arc<str>,
    what: What,
    terms: Terms,
    token: fn(&K::Guard) -> Option<u64>,
) -> Option<Held> {
    let (wait, within) = user.wait(what, terms.lease);
    let op = user.begin(name, what, within);
    let waiting = async {
        match what {
            What::TryLock => lock.try_lock().await,
            What::TryLockFor => lock.try_lock_for(wait).await,
            _ => lock.lock().await.map(Some),
        }
    };
    let claims = |guard: K::Guard| {
        let token = token(&guard);
        let wire = wire_of(name, guard.as_ref().wire_owner());
        let name = Arc::clone(name);
        let claim = Claim { name, wire, side: Side::Alone, owner: 0, units: 1, token, terms, place: 0 };
        (Taken::One(guard.into()), vec![claim])
    };
    user.acquire(op, waiting, claims).await
}

async fn inspect<K: Kind>(user: &mut User, lock: &Lock<K>, name: &str) {
    let op = user.begin(name, What::Inspect, Some(user.env.plan.timeout));
    let Some(outcome) = user.unless_dropped(op, lock.remaining()).await else { return };
    let outcome = match outcome {
        Ok(_) => Outcome::Done,
        Err(InspectError { kind: InspectErrorKind::Closed, .. }) => Outcome::Closed,
        Err(error) => Outcome::Other(error.to_string()),
    };
    user.finish(op, outcome);
}
