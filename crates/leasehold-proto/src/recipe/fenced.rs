//! The fenced lock: Redisson's `RFencedLock` on the wire (docs/protocol.md#7-fenced-lock). The fencing token of each
//! grant is higher than all earlier tokens.
//!
//! One script grants the hold and its token. A re-entry or a repeated call gives the same token. A grant can reserve
//! further tokens, for the holds that its client passes on without a call.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

pub mod election;

use std::time::Duration;

use super::reentrant::{self, REENTRANT};
use super::rules::{Answer, CallArgs, Recipe};
use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;
use crate::text::Text;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/fenced/acquire.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The first number that is no token. The script stops before it, because a number of Lua is exact only below it.
const TOKENS_END: u64 = 1 << 53;

/// The time after a grant for which the counter of [`Tokens::HybridCollected`] is kept, if the lease is not longer. The
/// clock that the next counter starts from may step back by less than a day.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// The source of fencing tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tokens {
    /// Redisson's counter: 1, 2, 3 and so on. It starts again at 1 when the server loses its data.
    #[default]
    Counter,
    /// At least one more than the last token, and at least the server's time in unix microseconds. The token also grows
    /// across a loss of the counter, as long as the server's clock does not go back by more than the time since the
    /// last grant. Java clients continue to count from it.
    Hybrid,
    /// Like [`Hybrid`](Self::Hybrid), but a counter that no client used for a day is collected. Only for locks whose
    /// participants all have hybrid tokens, because a client that only counts would begin at 1 after that.
    HybridCollected,
}

impl Tokens {
    /// Returns 1 if a token is at least the server's time.
    pub(in crate::recipe) const fn is_hybrid(self) -> u8 {
        !matches!(self, Self::Counter) as u8
    }

    /// Returns how long the counter outlives a grant, or zero if it is never collected.
    pub(in crate::recipe) const fn kept(self) -> Duration {
        if matches!(self, Self::HybridCollected) { KEPT } else { Duration::ZERO }
    }
}

/// The rules of the fenced lock with [`Tokens::Counter`].
static COUNTER: Recipe =
    Recipe { kind: "fenced lock", acquire: |args| acquire(args, Tokens::Counter), read_acquire, ..REENTRANT };
static HYBRID: Recipe = Recipe { acquire: |args| acquire(args, Tokens::Hybrid), ..COUNTER };
static HYBRID_COLLECTED: Recipe =
    Recipe { acquire: |args| acquire(args, Tokens::HybridCollected), ..COUNTER };

/// Returns the fenced lock's rules with these tokens.
#[must_use]
pub const fn with_tokens(tokens: Tokens) -> &'static Recipe {
    match tokens {
        Tokens::Counter => &COUNTER,
        Tokens::Hybrid => &HYBRID,
        Tokens::HybridCollected => &HYBRID_COLLECTED,
    }
}

fn acquire(args: &CallArgs<'_>, tokens: Tokens) -> Call {
    Call::of(&ACQUIRE)
        .key("lock", args.name)
        .key("token", token_key(args.name))
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("hybrid", tokens.is_hybrid())
        .arg("token_kept", tokens.kept().as_millis())
        .arg("tokens", args.tokens)
}

/// Returns the key of the tokens.
pub(crate) fn token_key(name: &Name) -> impl Text {
    name.prefixed_text("redisson_lock_token")
}

pub(in crate::recipe) fn read_acquire(reply: &Reply) -> Option<Answer> {
    let Reply::Array(items) = reply else { return None };
    let [Reply::Int(pttl), Reply::Text(token)] = items.as_slice() else { return None };
    match *pttl {
        -2 => {
            let token = std::str::from_utf8(token).ok()?.parse().ok().filter(|token| *token < TOKENS_END)?;
            Some(Answer::Granted { token: Some(token) })
        }
        _ => reentrant::read_acquire(&Reply::Int(*pttl)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_has_a_token_and_a_refusal_has_none() {
        let read = |pttl, token: &str| {
            read_acquire(&Reply::Array(vec![Reply::Int(pttl), Reply::Text(token.into())]))
        };
        assert_eq!(read(-2, "7"), Some(Answer::Granted { token: Some(7) }));
        assert_eq!(read(-1, ""), Some(Answer::NoExpiry));
        assert_eq!(read(20, ""), Some(Answer::Refused { remaining: Duration::from_millis(20) }));
        assert_eq!(read(-2, "9007199254740991"), Some(Answer::Granted { token: Some((1 << 53) - 1) }));
        assert_eq!(read(-2, "9007199254740992"), None);
        assert_eq!(read(-2, "many"), None);
        assert_eq!(read(-3, ""), None);
    }
}
