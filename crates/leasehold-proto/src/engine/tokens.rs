//! The fencing tokens of a server hold, of which each of its successive holders gets one.
//!
//! Invariant: a token is given out once. The tokens of a hold are those that its grant has reserved, in their order.

use std::num::NonZeroU64;

use super::queue::Queue;

/// The tokens that an acquire reserves if waiters of this client are there. The tokens of `Tokens::Hybrid` must not run
/// ahead of the server's clock, which counts microseconds: two grants of a lock are a round trip apart, which takes
/// longer than 16.
const RESERVED: u32 = 16;

/// The token of a hold's present holder, and the number of those that are left for the next ones. A hold of a primitive
/// without tokens has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Tokens {
    present: Option<NonZeroU64>,
    left: u32,
}

impl Tokens {
    /// Returns the tokens of a grant that reserved so many from `first` on. No script gives the token 0.
    pub(super) fn granted(first: Option<u64>, reserved: u32) -> Self {
        Self { present: first.and_then(NonZeroU64::new), left: reserved.saturating_sub(1) }
    }

    /// Returns the number of tokens that an acquire reserves for the waiters of a queue. A reserved token that no holder
    /// gets is left out.
    pub(super) const fn to_reserve(queue: &Queue) -> u32 {
        if queue.len() > 1 { RESERVED } else { 1 }
    }

    /// Returns the token of the present holder.
    pub(super) fn present(self) -> Option<u64> {
        self.present.map(NonZeroU64::get)
    }

    /// Returns true if the next holder can have what it needs.
    pub(super) const fn can_pass_on(self) -> bool {
        self.present.is_none() || self.left > 0
    }

    /// Gives the next token to the next holder.
    pub(super) fn pass_on(&mut self) {
        self.present = self.present.and_then(|token| token.checked_add(1));
        self.left = self.left.saturating_sub(1);
    }
}
