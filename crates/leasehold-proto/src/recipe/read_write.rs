//! The two sides of the read-write lock and their modes (docs/protocol.md#9-read-write-lock).
//!
//! Each side is the other's companion, so the values stand above both recipes.

pub use super::sides::MARK_LASTS;

use super::read::Read;
use super::write::Write;

/// The rules of readers that join other readers at any time, like Redisson's.
pub static READ_LOCK: Read = Read { yields: false, companion: &WRITE_LOCK };
/// The rules of readers that let a waiting writer go first.
pub static YIELDING: Read = Read { yields: true, companion: &WRITE_LOCK };
/// The rules of writers that wait until there are no readers, like Redisson's.
pub static WRITE_LOCK: Write = Write { preferred: false, companion: &READ_LOCK };
/// The rules of writers that go before yielding readers.
pub static PREFERRED: Write = Write { preferred: true, companion: &READ_LOCK };
