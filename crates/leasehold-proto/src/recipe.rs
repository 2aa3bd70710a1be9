//! The rules of each primitive as pure values: scripts, replies, channels and undos.
//!
//! A recipe is a value without state, so the same arguments give the same call. The engine knows primitives only as
//! values of the type [`Recipe`]. Each file has the functions of one primitive and the row that names them.

pub(crate) mod event;
pub mod expirable;
pub mod fair;
pub mod fence;
pub mod fenced;
pub mod foreign;
pub mod format;
pub mod grants;
mod held_as;
pub mod latch;
pub mod multi;
pub mod one_server;
pub mod plain;
pub mod read;
pub mod read_write;
pub mod redlock;
pub mod reentrant;
pub mod rights;
pub(crate) mod rules;
pub mod semaphore;
pub(crate) mod sides;
pub mod spin;
pub mod write;

use crate::script::Script;

pub use fenced::election;
pub use held_as::{adopt, upgrade};

pub use event::{EventState, WaitEnd};
pub use rules::{
    Answer, CallArgs, CallContext, HandOffAnswer, Holder, Holders, Holding, Inspection, KEEP_ALIVE_WINDOW,
    KeepAliveArgs, KeptAlive, LockCalls, Recipe, ReleaseAnswer, Remaining, Renewal, Waiters,
};
pub(crate) use rules::{NUMSUB, PUBLISH};

/// Returns all scripts of all recipes.
pub fn scripts() -> impl Iterator<Item = &'static Script> {
    let all = [
        &election::SCRIPTS[..],
        &adopt::SCRIPTS[..],
        &expirable::SCRIPTS,
        &fair::SCRIPTS,
        &fence::SCRIPTS,
        &fenced::SCRIPTS,
        &multi::SCRIPTS,
        &latch::SCRIPTS,
        &plain::SCRIPTS,
        &plain::MULTI_SCRIPTS,
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_primitive_has_its_own_kind() {
        let recipes: [&Recipe; 16] = [
            &expirable::EXPIRABLE_SEMAPHORE,
            &fair::FAIR,
            fenced::with_tokens(fenced::Tokens::Counter),
            &latch::LATCH,
            &multi::MULTI,
            &plain::MULTI,
            &plain::PLAIN,
            &plain::REDLOCK,
            &read_write::READ_LOCK,
            &read_write::WRITE_LOCK,
            &redlock::REDLOCK,
            &reentrant::REENTRANT,
            &semaphore::FIFO_SEMAPHORE,
            &semaphore::SEMAPHORE,
            &spin::SPIN,
            &upgrade::UPGRADE,
        ];
        let kinds: BTreeSet<_> = recipes.iter().map(|recipe| recipe.kind).collect();
        assert_eq!(kinds.len(), recipes.len(), "{kinds:?}");
    }

    #[test]
    fn both_modes_of_one_side_have_one_kind() {
        assert_eq!(read_write::YIELDING.kind, read_write::READ_LOCK.kind);
        assert_eq!(read_write::PREFERRED.kind, read_write::WRITE_LOCK.kind);
    }
}
