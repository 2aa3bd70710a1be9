//! What the users of a world do.
//!
//! Invariant: a workload tells the recorder what it wants before it asks, and what it has in the very poll in which it
//! gets it.
//! Called by: the worlds, for each user.

pub(crate) mod foreign;
mod held;
mod latch;
mod locks;
mod multi;
mod read_write;
pub(crate) mod semaphore;
mod taken;
mod user;

use std::sync::Arc;
use std::time::Duration;

use crate::ground::Env;
use crate::plan::Plan;
use crate::primitive::{Primitive, name_of};

pub(crate) use self::taken::Taken;
use self::user::User;

/// One user's life, with whatever names the plan has. Another primitive is another file here.
pub(crate) async fn live(env: Env) {
    let Some(client) = env.client.clone() else { return };
    let mut user = User::new(env, client);
    while user.goes_on() {
        user.think().await;
        let name = Arc::clone(user.env.rng.choice(&user.env.plan.names).expect("there are names"));
        if multi::is_chosen(&mut user) {
            multi::work(&mut user).await;
            continue;
        }
        let (client, known) = (user.client.clone(), name_of(&name));
        match Primitive::of(&name) {
            Primitive::Lock => locks::work(&mut user, client.lock(known), &name, |_| None).await,
            Primitive::Fair => locks::work(&mut user, client.fair_lock(known), &name, |_| None).await,
            Primitive::Spin => locks::work(&mut user, client.spin_lock(known), &name, |_| None).await,
            Primitive::Fenced | Primitive::Hybrid => {
                let lock = client.fenced_lock(known).tokens(locks::tokens(&name));
                locks::work(&mut user, lock, &name, |guard| Some(guard.token())).await;
            }
            Primitive::ReadWrite => read_write::work(&mut user, client.rw_lock(known), &name).await,
            Primitive::Semaphore | Primitive::Fifo => {
                semaphore::work(&mut user, client.semaphore(known), &name).await;
            }
            Primitive::Permits => {
                semaphore::work_expirable(&mut user, client.expirable_semaphore(known), &name).await;
            }
            Primitive::Latch => latch::work(&mut user, client.count_down_latch(known), &name).await,
            // It has a world of its own, since it has servers of its own.
            Primitive::Redlock => {}
        }
    }
    user.leave().await;
}

/// The longest that a user holds a lock by its own will.
#[must_use]
pub(crate) fn hold_max(plan: &Plan) -> Duration {
    // A hold, one inside it, and what they ask of the server meanwhile.
    plan.longest_lease().mul_f64(1.5) * 2 + plan.timeout * 6
}
