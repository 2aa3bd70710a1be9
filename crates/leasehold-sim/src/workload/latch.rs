//! The users of the count-down latch.
//!
//! Invariant: as in the parent module. Every wait has a bound, since the count may never reach zero.

use std::sync::Arc;

use leasehold::error::WaitErrorKind;
use leasehold::{CountDownLatch, WaitError};

use super::semaphore::operate;
use super::user::User;
use crate::history::{Outcome, What};
use crate::primitive::Primitive;

/// Sets the count, counts down, ends a round and begins the next one at once, or waits for zero.
pub(super) async fn work(user: &mut User, latch: CountDownLatch, name: &Arc<str>) {
    match user.env.rng.u8(0..26) {
        0..=3 => set(user, &latch, name).await,
        4..=11 => operate(user, name, latch.count_down()).await,
        12 => operate(user, name, latch.delete()).await,
        13 => {
            operate(user, name, latch.count_down()).await;
            set(user, &latch, name).await;
        }
        14 => {
            operate(user, name, latch.delete()).await;
            set(user, &latch, name).await;
        }
        _ => wait(user, &latch, name).await,
    }
}

async fn set(user: &mut User, latch: &CountDownLatch, name: &Arc<str>) {
    let count = user.env.rng.u32(1..=3);
    operate(user, name, latch.try_set_count(count)).await;
}

async fn wait(user: &mut User, latch: &CountDownLatch, name: &Arc<str>) {
    let lease = user.env.plan.longest_lease();
    let (wait, within) = user.wait(What::Wait, lease);
    let op = user.begin(name, What::Wait, within);
    let Some(outcome) = user.unless_dropped(op, latch.wait_for(wait)).await else { return };
    let outcome = match outcome {
        Ok(true) => Outcome::Done,
        Ok(false) => Outcome::Contended,
        Err(WaitError { kind: WaitErrorKind::Closed, .. }) => Outcome::Closed,
        Err(WaitError { kind: WaitErrorKind::Deleted, .. }) => Outcome::Deleted,
        Err(error) => Outcome::Other(error.to_string()),
    };
    if outcome == Outcome::Done {
        user.env.recorder.count(Primitive::Latch);
    }
    user.finish(op, outcome);
}
