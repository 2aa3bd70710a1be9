//! The rules of each primitive as pure values: scripts, replies, channels and undos.
//!
//! A recipe keeps no state, so the same arguments give the same call. The engine knows primitives only through the
//! trait [`Recipe`].

pub mod expirable;
pub mod fair;
pub mod fence;
pub mod fenced;
pub mod latch;
pub mod multi;
pub mod read;
pub mod read_write;
pub mod redlock;
pub mod reentrant;
pub mod rights;
pub(crate) mod rules;
pub mod semaphore;
mod sides;
pub mod spin;
pub mod upgrade;
pub mod write;

use crate::script::Script;

pub use rules::{
    Answer, CallArgs, CallContext, Holding, Inspection, LockRecipe, Policy, Polling, Recipe, Remaining,
    Renewal,
};

/// Returns all scripts of all recipes.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    let all = [
        &expirable::SCRIPTS[..],
        &fair::SCRIPTS,
        &fence::SCRIPTS,
        &fenced::SCRIPTS,
        &multi::SCRIPTS,
        &latch::SCRIPTS,
        &read::SCRIPTS,
        &sides::SCRIPTS,
        &redlock::SCRIPTS,
        &reentrant::SCRIPTS,
        &semaphore::SCRIPTS,
        &spin::SCRIPTS,
        &upgrade::SCRIPTS,
        &write::SCRIPTS,
    ];
    all.into_iter().flatten().copied()
}
