//! Adoption: a hold passes from one client to another (docs/protocol.md#59-adoption).
//!
//! Invariant: of all that adopt one hold, one gets it. The adopter has a wire owner of its own, as after every acquire, so two
//! processes with the same ticket never hold as the same owner.
//!
//! # How it works
//! An adoption is an acquire by another script, whose grant is held by the rules of the lock. A fenced hold gets a new token,
//! since the giver may still write with its own.

use crate::call::Call;
use crate::outcome::Verb;
use crate::recipe::fair::FAIR;
use crate::recipe::fenced::{self, Tokens};
use crate::recipe::reentrant::{self, CHANNEL, MESSAGE, REENTRANT};
use crate::recipe::rules::{CallArgs, PUBLISH, Recipe, Waiters};
use crate::recipe::spin::SPIN;
use crate::script::Script;
use crate::text::{Text, or_empty};

pub(crate) static ADOPT: Script =
    Script::new(Verb::Acquire, include_str!("../../../scripts/reentrant/adopt.lua"));
pub(crate) static ADOPT_FENCED: Script =
    Script::new(Verb::Acquire, include_str!("../../../scripts/fenced/adopt.lua"));

/// The scripts of all adoptions.
pub static SCRIPTS: [&Script; 2] = [&ADOPT, &ADOPT_FENCED];

static LOCK: Recipe = Recipe { held_as: Some(&REENTRANT), acquire: adopt_lock, ..REENTRANT };
static SPIN_LOCK: Recipe = Recipe { held_as: Some(&SPIN), acquire: adopt_silently, ..SPIN };
/// Nobody queues for a hold that is given away, and the waiters of the lock keep their places.
static FAIR_LOCK: Recipe = Recipe {
    held_as: Some(&FAIR),
    waiters: Waiters::Local,
    keep_alive: None,
    acquire: adopt_silently,
    read_acquire: reentrant::read_acquire,
    ..FAIR
};
static COUNTER: Recipe = fenced_lock(Tokens::Counter, |args| adopt_fenced(args, Tokens::Counter));
static HYBRID: Recipe = fenced_lock(Tokens::Hybrid, |args| adopt_fenced(args, Tokens::Hybrid));
static HYBRID_COLLECTED: Recipe =
    fenced_lock(Tokens::HybridCollected, |args| adopt_fenced(args, Tokens::HybridCollected));

static ALL: [&Recipe; 6] = [&LOCK, &SPIN_LOCK, &FAIR_LOCK, &COUNTER, &HYBRID, &HYBRID_COLLECTED];

const fn fenced_lock(tokens: Tokens, acquire: fn(&CallArgs<'_>) -> Call) -> Recipe {
    let held_as = fenced::with_tokens(tokens);
    Recipe { held_as: Some(held_as), acquire, ..*held_as }
}

/// Returns the rules by which a hold of this recipe is adopted, or `None` if it cannot be.
#[must_use]
pub fn of(held_as: &'static Recipe) -> Option<&'static Recipe> {
    ALL.into_iter().find(|recipe| recipe.held_as.is_some_and(|held| std::ptr::eq(held, held_as)))
}

fn adopt_lock(args: &CallArgs<'_>) -> Call {
    adopt(args, args.name.prefixed_text(CHANNEL))
}

/// The waiters of a spin lock poll. Those of a fair lock have channels of their own.
fn adopt_silently(args: &CallArgs<'_>) -> Call {
    adopt(args, "")
}

fn adopt(args: &CallArgs<'_>, channel: impl Text) -> Call {
    Call::of(&ADOPT)
        .key("lock", args.name)
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("giver", or_empty(args.giver))
        .arg("publish", PUBLISH)
        .arg("channel", channel)
        .arg("message", MESSAGE)
}

fn adopt_fenced(args: &CallArgs<'_>, tokens: Tokens) -> Call {
    Call::of(&ADOPT_FENCED)
        .key("lock", args.name)
        .key("token", fenced::token_key(args.name))
        .arg("lease_ms", args.lease.as_millis())
        .arg("owner", args.owner)
        .arg("giver", or_empty(args.giver))
        .arg("hybrid", tokens.is_hybrid())
        .arg("token_kept", tokens.kept().as_millis())
        .arg("tokens", args.tokens)
        .arg("publish", PUBLISH)
        .arg("channel", args.name.prefixed_text(CHANNEL))
        .arg("message", MESSAGE)
}
