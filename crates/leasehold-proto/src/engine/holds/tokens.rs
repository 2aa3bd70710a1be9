//! The fencing tokens of a server hold, of which each of its successive holders gets one.
//!
//! Invariant: a token is given out once. The tokens of a hold are those that its grant has reserved, in their order.

use std::num::NonZeroU64;

/// The tokens that an acquire reserves if waiters of this client are there. The tokens of `Tokens::Hybrid` must not run
/// ahead of the server's clock, which counts microseconds: two grants of a lock are a round trip apart, which takes
/// longer than 16.
const RESERVED: u32 = 16;

/// The lowest bit of the number of tokens that are left. It stands above the token, which is less than 2^53.
const LEFT: u32 = 56;

/// The token of a hold's present holder, and the number of those that are left for the next ones, in one number, since
/// each hold has it. A hold of a primitive without tokens has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Tokens(Option<NonZeroU64>);

impl Tokens {
    /// Returns the tokens of a grant that reserved so many from `first` on. No script gives the token 0.
    pub(in crate::engine) fn granted(first: Option<u64>, reserved: u32) -> Self {
        let left = u64::from(reserved.saturating_sub(1).min(RESERVED)) << LEFT;
        Self(first.filter(|first| *first > 0).and_then(|first| NonZeroU64::new(first | left)))
    }

    /// Returns the number of tokens that an acquire reserves, with those for the waiters that its hold may pass on to. A
    /// reserved token that no holder gets is left out.
    pub(in crate::engine) const fn to_reserve(may_pass_on: bool) -> u32 {
        if may_pass_on { RESERVED } else { 1 }
    }

    /// Returns the token of the present holder.
    pub(in crate::engine) fn present(self) -> Option<u64> {
        self.0.map(|both| both.get() & ((1 << LEFT) - 1))
    }

    /// Returns true if the next holder can have what it needs.
    pub(in crate::engine) fn can_pass_on(self) -> bool {
        self.0.is_none_or(|both| both.get() >> LEFT > 0)
    }

    /// Gives the next token to the next holder.
    pub(in crate::engine) fn pass_on(&mut self) {
        let next = |both: NonZeroU64| (both.get() + 1).checked_sub(1 << LEFT).and_then(NonZeroU64::new);
        self.0 = self.0.and_then(next);
    }
}
