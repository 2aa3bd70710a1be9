//! The work of the users of a world.
//!
//! Invariant: a workload tells the recorder of an operation before it begins, and of a guard in the very poll that
//! returns it.

mod election;
pub(crate) mod foreign;
mod held;
mod latch;
mod locks;
mod multi;
mod read_write;
mod rush;
pub(crate) mod semaphore;
mod user;

use std::sync::Arc;

use crate::environment::Env;
use crate::primitive::{Primitive, fence_of, name_of};

use self::user::User;

/// Runs one user with the names of the plan. Each primitive has its own file here.
pub(crate) async fn live(env: Env) {
    let Some(client) = env.client.clone() else { return };
    let mut user = User::new(env, client);
    while user.may_continue() {
        if user.rushes() {
            rush::work(&mut user).await;
        }
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
            Primitive::Plain => locks::work(&mut user, client.plain_lock(known), &name, |_| None).await,
            Primitive::PlainFenced => {
                let lock = client.plain_lock(known).fenced(fence_of(&name));
                locks::work(&mut user, lock, &name, |guard| Some(guard.token())).await;
            }
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
            // Redlock has a world of its own, with its own servers.
            Primitive::Redlock => {}
            Primitive::Election => election::work(&mut user, client.election(known)).await,
        }
    }
    user.leave().await;
}
