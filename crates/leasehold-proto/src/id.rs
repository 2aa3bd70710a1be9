//! The ids of tickets and of store calls.
//!
//! Invariant: one client never uses an id twice.

use std::num::NonZeroU64;

/// The id of one ticket: an acquire, release or renewal that a caller waits for. A granted acquire's id is also the id
/// of its hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

/// The id of one in-flight store call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub(crate) NonZeroU64);

impl CallId {
    /// Creates the id of this number, for stores and their tests.
    #[must_use]
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }
}
