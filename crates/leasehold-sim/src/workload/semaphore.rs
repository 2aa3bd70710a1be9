//! The users of the semaphores: plain, in a queue, expirable.
//!
//! Invariant: as in the parent module. A wait for permits that a fault may have removed for good has a bound.

use std::sync::Arc;
use std::time::Duration;

use leasehold::error::OperationErrorKind;
use leasehold::semaphore::PermitId;
use leasehold::{ExpirableSemaphore, Guard, OperationError, PermitsError, Semaphore};

use super::held::Held;
use super::user::User;
use crate::fault::Kind;
use crate::history::{Outcome, What};
use crate::name_state::Side;
use crate::plan::UNITS_MAX;
use crate::primitive::Primitive;
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// Acquires permits of a plain semaphore, holds them and releases them, or changes the total.
pub(super) async fn work(user: &mut User, semaphore: Semaphore, name: &Arc<str>) {
    let semaphore = if Primitive::of(name) == Primitive::Fifo { semaphore.fifo() } else { semaphore };
    match user.env.rng.u8(0..24) {
        0..=4 => {
            let many = user.env.rng.u32(1..=4);
            operate(user, name, semaphore.try_set_permits(many)).await;
            return;
        }
        5 | 6 => return operate(user, name, semaphore.add_permits(1)).await,
        7 => return operate(user, name, semaphore.drain()).await,
        _ => {}
    }
    let units = user.env.rng.u32(1..=UNITS_MAX);
    let (terms, _) = user.terms();
    let terms = Terms { watched: false, min_hold: None, ..terms };
    let what = *user.env.rng.choice(&[What::TryLock, What::TryLockFor, What::TryLockFor]).expect("some");
    let (wait, within) = user.wait(what, terms.lease);
    let op = user.begin(name, what, within);
    let waiting = async {
        match what {
            What::TryLock => semaphore.try_acquire_many(units).await,
            _ => semaphore.try_acquire_many_for(units, wait).await,
        }
    };
    let claims = |guard: Guard| {
        let wire = guard.wire_owner().to_string().into();
        (Taken::One(guard), vec![claim(name, wire, units, terms)])
    };
    let Some(held) = user.acquire(op, waiting, claims).await else { return };
    user.hold(&held, terms).await;
    user.end(held, name).await;
}

/// Does the same with permits that expire.
pub(super) async fn work_expirable(user: &mut User, semaphore: ExpirableSemaphore, name: &Arc<str>) {
    let many = user.env.rng.u32(UNITS_MAX..=UNITS_MAX + 2);
    match user.env.rng.u8(0..24) {
        0..=3 => return operate(user, name, semaphore.try_set_permits(many)).await,
        4 => return operate(user, name, semaphore.add_permits(1)).await,
        5 => return operate(user, name, semaphore.set_permits(many)).await,
        _ => {}
    }
    let units = user.env.rng.u32(1..=UNITS_MAX);
    let (terms, _) = user.terms();
    let terms = Terms { min_hold: None, ..terms };
    let semaphore =
        if terms.watched { semaphore.watchdog(terms.lease) } else { semaphore.lease(terms.lease) };
    // A wait without a bound is safe only if the permits surely exist.
    let for_ever = user.env.rng.u8(0..3) == 0 && stays(user) && {
        let op = user.begin(name, What::Adjust, Some(user.env.plan.timeout));
        let outcome = user.unless_dropped(op, semaphore.set_permits(many)).await;
        let is_set = matches!(outcome, Some(Ok(_)));
        if let Some(outcome) = outcome {
            user.finish(op, outcome_of(&outcome));
        }
        is_set
    };
    let choice = if for_ever { [What::Lock, What::Lock] } else { [What::TryLock, What::TryLockFor] };
    let what = *user.env.rng.choice(&choice).expect("some");
    let (wait, within) = user.wait(what, terms.lease);
    let op = user.begin(name, what, within);
    let waiting = async {
        match what {
            What::TryLock => semaphore.try_acquire_many(units).await,
            What::TryLockFor => semaphore.try_acquire_many_for(units, wait).await,
            _ => semaphore.acquire_many(units).await.map(Some),
        }
    };
    let claims = |permits: leasehold::Permits| {
        let wire = permits.ids()[0].to_string().into();
        (Taken::One(permits.into()), vec![claim(name, wire, units, terms)])
    };
    let Some(held) = user.acquire(op, waiting, claims).await else { return };
    user.hold(&held, terms).await;
    if user.env.rng.u8(0..8) == 0 {
        return hand_over(user, &semaphore, held, units, name).await;
    }
    user.end(held, name).await;
}

/// Detaches the permits and releases them by their ids, as another process would.
async fn hand_over(user: &mut User, semaphore: &ExpirableSemaphore, held: Held, units: u32, name: &Arc<str>) {
    let ids: Vec<PermitId> = PermitId::of(held.guard().wire_owner(), units).collect();
    held.detach();
    let pause = user.env.plan.think_max;
    user.env.nap(pause).await;
    let released = async {
        semaphore.release_ids(&ids).await.map_err(|error| match error {
            PermitsError::Operation(error) => error,
            other => panic!("a few permits are not too many: {other}"),
        })
    };
    operate(user, name, released).await;
}

/// Returns true if no fault of the plan removes the permits for good.
fn stays(user: &User) -> bool {
    let takes = |kind: Kind| kind.loses_writes() || kind == Kind::Delete;
    !user.env.plan.faults.iter().any(|fault| takes(fault.kind))
}

fn claim(name: &Arc<str>, wire: Arc<str>, units: u32, terms: Terms) -> Claim {
    let (name, side) = (Arc::clone(name), Side::Permits);
    Claim { name, wire, side, owner: 0, units, token: None, terms, place: 0 }
}

pub(super) async fn operate<T>(
    user: &mut User,
    name: &str,
    operation: impl Future<Output = Result<T, OperationError>>,
) {
    let within: Option<Duration> = Some(user.env.plan.timeout);
    let op = user.begin(name, What::Adjust, within);
    let Some(outcome) = user.unless_dropped(op, operation).await else { return };
    user.finish(op, outcome_of(&outcome));
}

fn outcome_of<T>(outcome: &Result<T, OperationError>) -> Outcome {
    match outcome {
        Ok(_) => Outcome::Done,
        Err(OperationError { kind: OperationErrorKind::Closed, .. }) => Outcome::Closed,
        Err(error) => Outcome::Other(error.to_string()),
    }
}
