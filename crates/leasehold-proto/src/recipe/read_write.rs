//! The two sides of the read-write lock and their modes (docs/protocol.md#9-read-write-lock).
//!
//! Each side is the other's companion, so the values stand above both recipes.

pub use super::sides::MARK_LASTS;

use super::rules::{Recipe, Waiters};
use super::sides::SEEN_EVERY;
use super::{read, write};

/// The rules of readers that join other readers at any time, like Redisson's.
pub static READ_LOCK: Recipe = Recipe { companion: Some(&WRITE_LOCK), ..read::ROW };
/// The rules of readers that let a waiting writer go first. A hold under them is a hold under [`READ_LOCK`].
pub static YIELDING: Recipe = Recipe { acquire: |args| read::acquire(args, true), ..READ_LOCK };

/// The rules of writers that wait until there are no readers, like Redisson's.
///
/// The companion is the read lock, so that a waiter whose owner begins to read learns that it would wait for itself.
pub static WRITE_LOCK: Recipe =
    Recipe { companion: Some(&READ_LOCK), blocked_by: Some(&READ_LOCK), ..write::ROW };
/// The rules of writers that go before yielding readers. A hold under them is a hold under [`WRITE_LOCK`].
pub static PREFERRED: Recipe = Recipe {
    waiters: Waiters::Marked { seen_every: SEEN_EVERY },
    acquire: |args| write::acquire(args, true),
    ..WRITE_LOCK
};
