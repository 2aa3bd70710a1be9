//! The fenced lock: Redisson's `RFencedLock` on the wire (docs/protocol.md#7-fenced-lock). The fencing token of each
//! grant is higher than all earlier tokens.
//!
//! One script grants the hold and its token. A re-entry or a repeated call gives the same token.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::time::Duration;

use super::reentrant::Reentrant;
use super::rules::{Answer, CallArgs, LockRecipe, Recipe, Renewal};
use crate::call::{Call, Reply};
use crate::name::{Channel, Name};
use crate::outcome::Verb;
use crate::owner::WireOwner;
use crate::script::Script;

static ACQUIRE: Script = Script::new(Verb::Acquire, include_str!("../../scripts/fenced/acquire.lua"));

/// The scripts that only this recipe has.
pub static SCRIPTS: [&Script; 1] = [&ACQUIRE];

/// The time after a grant for which the counter of [`Tokens::HybridCollected`] is kept, if the lease is not longer.
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

/// The fenced lock's rules.
#[derive(Clone, Copy, Debug)]
pub struct Fenced(Tokens);

impl Fenced {
    /// Returns the rules with these tokens.
    #[must_use]
    pub const fn with(tokens: Tokens) -> &'static Self {
        match tokens {
            Tokens::Counter => &Self(Tokens::Counter),
            Tokens::Hybrid => &Self(Tokens::Hybrid),
            Tokens::HybridCollected => &Self(Tokens::HybridCollected),
        }
    }
}

impl Recipe for Fenced {
    fn kind(&self) -> &'static str {
        "fenced lock"
    }

    fn channels(&self, name: &Name, others: &[Name], owner: WireOwner) -> Vec<Channel> {
        Reentrant.channels(name, others, owner)
    }

    fn acquire(&self, args: &CallArgs<'_>) -> Call {
        let kept = if self.0 == Tokens::HybridCollected { KEPT } else { Duration::ZERO };
        Call::of(&ACQUIRE)
            .key("lock", args.name)
            .key("token", args.name.prefixed("redisson_lock_token").as_str())
            .arg("lease_ms", args.lease.as_millis())
            .arg("owner", args.owner)
            .arg("hybrid", u8::from(self.0 != Tokens::Counter))
            .arg("token_kept", kept.as_millis())
    }

    fn read_acquire(&self, reply: &Reply) -> Option<Answer> {
        let Reply::Array(items) = reply else { return None };
        let [Reply::Int(pttl), Reply::Text(token)] = items.as_slice() else { return None };
        match *pttl {
            -2 => {
                let token = std::str::from_utf8(token).ok()?.parse().ok()?;
                Some(Answer::Granted { token: Some(token) })
            }
            _ => Reentrant.read_acquire(&Reply::Int(*pttl)),
        }
    }

    fn renew(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.renew(args)
    }

    fn read_renew(&self, reply: &Reply) -> Option<Renewal> {
        Reentrant.read_renew(reply)
    }

    fn release(&self, args: &CallArgs<'_>) -> Call {
        Reentrant.release(args)
    }

    fn read_release(&self, reply: &Reply) -> Option<bool> {
        Reentrant.read_release(reply)
    }
}

impl LockRecipe for Fenced {
    fn force_release(&self, name: &Name) -> Call {
        Reentrant.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        Reentrant.inspect(name, owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_has_its_token_and_a_refusal_has_none() {
        let read = |pttl, token: &str| {
            Fenced::with(Tokens::Counter)
                .read_acquire(&Reply::Array(vec![Reply::Int(pttl), Reply::Text(token.into())]))
        };
        assert_eq!(read(-2, "7"), Some(Answer::Granted { token: Some(7) }));
        assert_eq!(read(-1, ""), Some(Answer::NoExpiry));
        assert_eq!(read(20, ""), Some(Answer::Refused { remaining: Duration::from_millis(20) }));
        assert_eq!(read(-2, "many"), None);
        assert_eq!(read(-3, ""), None);
    }
}
