//! The plain lock: waiters mark the value of the holder, and a release without a mark sends no message.
//!
//! These worlds have subscriptions. A waiter that sleeps although a release has freed the lock has lost its wake-up.

use std::time::Duration;

use leasehold_proto::engine::{Outcome, Request, Subject, Wait};
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::{FENCED, PLAIN, values};
use leasehold_proto::{Lease, Name, Owner, Verb};

use crate::check::{assert_found, assert_sound};
use crate::world::Step::{Give, Take};
use crate::world::{BrokenVariant, Budget, Hearing, Ledger, QUIET, Scene, Seen, Step, Verdict, World};

const TICK_MS: u64 = 100;
/// The requests. The first attempt of the second one is a script, since it must tell a key without an expiry.
const LOCK: u8 = 0;
const BY_SCRIPT: u8 = 1;
const WITH_TOKEN: u8 = 2;
const RENEWED: u8 = 3;

const ONCE: [Step; 2] = [Take(LOCK), Give(LOCK)];
const PAIR: &[&[Step]] = &[&ONCE, &ONCE];
const CROWD: &[&[Step]] = &[&ONCE, &ONCE, &ONCE];
const AGAIN: &[&[Step]] = &[&[Take(LOCK), Give(LOCK), Take(LOCK), Give(LOCK)], &ONCE];
const SCRIPTED: &[&[Step]] = &[&[Take(BY_SCRIPT), Give(BY_SCRIPT)], &[Take(BY_SCRIPT), Give(BY_SCRIPT)]];
const FENCED_PAIR: &[&[Step]] =
    &[&[Take(WITH_TOKEN), Give(WITH_TOKEN)], &[Take(WITH_TOKEN), Give(WITH_TOKEN)]];
const RENEWING: &[&[Step]] = &[&[Take(RENEWED), Give(RENEWED)], &[Take(RENEWED), Give(RENEWED)]];

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Rules {
    /// True if a release has freed the lock, and it was not acquired since.
    is_released: bool,
    /// The token of the last grant.
    token: u64,
}

/// Returns a value without its mark.
fn unmarked(value: &[u8]) -> &[u8] {
    &value[..value.len() - 1]
}

impl Ledger for Rules {
    fn executed(world: &mut World<Self>, seen: &Seen) -> Verdict {
        let [before, after] = [&seen.before, world.server()].map(|server| server.entry("x"));
        let [was, is] = [&seen.before, world.server()].map(|server| server.string("x"));
        let freed = was.is_some() && is.is_none();
        let is_own = was.map(unmarked) == seen.call.argument("value").map(|value| unmarked(value.as_bytes()));
        if freed && !is_own {
            return Err("L3: a call frees the hold of another owner");
        }
        if seen.call.verb() == Verb::Release && is_own && is.is_some() {
            return Err("L4: a release leaves its hold");
        }
        if after.is_some_and(|entry| entry.expires_at_ms.is_none()) {
            return Err("G1: the lock has no expiry");
        }
        let is_same = was.is_some() && was.map(unmarked) == is.map(unmarked);
        let ends = [before, after].map(|entry| entry.and_then(|entry| entry.expires_at_ms));
        if is_same && ends[1] < ends[0] {
            return Err("M: a call shortens a lease");
        }
        if was.is_some() && is.is_some() && !is_same {
            return Err("L1: a call replaces a hold");
        }
        let is_free = is.is_none();
        let rules = &mut world.ledger;
        rules.is_released = if freed { seen.call.verb() == Verb::Release } else { rules.is_released };
        rules.is_released &= is_free;
        Ok(())
    }

    fn completed(world: &mut World<Self>, _client: usize, what: u8, outcome: &Outcome) -> Verdict {
        let Outcome::Acquired(Ok(grant)) = outcome else { return Ok(()) };
        if what != WITH_TOKEN {
            return Ok(());
        }
        let Some(token) = grant.token else { return Err("T1: a grant has no token") };
        let before = std::mem::replace(&mut world.ledger.token, token);
        if token <= before { Err("T1: a token is not greater than the one before") } else { Ok(()) }
    }

    fn always(world: &World<Self>) -> Verdict {
        let requests = [LOCK, BY_SCRIPT, WITH_TOKEN, RENEWED];
        let clients = 0..world.clients.len();
        let valid: Vec<_> = clients
            .flat_map(|client| requests.into_iter().filter_map(move |what| world.valid_wire(client, what)))
            .collect();
        if valid.len() > 1 {
            return Err("L1: two holds are valid at one moment");
        }
        let held = world.server().string("x");
        let is_kept =
            |wire| values(&Format::default(), wire).iter().any(|value| Some(value.as_slice()) == held);
        if !valid.into_iter().all(is_kept) {
            return Err("M: a hold is valid that the server does not keep");
        }
        // A lost call puts the next attempt off.
        if world.ledger.is_released && !world.lossy && world.sleeping() > 0 {
            return Err("L4: a waiter sleeps although the lock was released");
        }
        Ok(())
    }

    fn at_end(world: &World<Self>) -> Verdict {
        if world.server().entry("x").is_some() { Err("G4: a lock is left") } else { Ok(()) }
    }
}

fn request(what: u8) -> Request {
    let name = Name::new("x").unwrap();
    let mut format = Format::default();
    let recipe = match what {
        WITH_TOKEN => &FENCED,
        _ => &PLAIN,
    };
    format.fails_endless = what == BY_SCRIPT;
    format.fence = (what == WITH_TOKEN).then(|| Name::new("fence").unwrap());
    let subject = Subject::new(&name, recipe).formatted(format);
    let ticks = if what == RENEWED { 3 } else { 2 };
    let lease = Lease::new(Duration::from_millis(ticks * TICK_MS - 1)).unwrap();
    let watchdog = what == RENEWED;
    Request { watchdog, ..Request::new(subject, Owner::from_number(7), lease, Wait::Forever) }
}

fn scene(plans: &'static [&'static [Step]], budget: Budget) -> Scene {
    Scene {
        ticks_to_end: 14,
        hearing: Hearing::Full,
        has_native: true,
        ..Scene::new(plans, budget, TICK_MS, request)
    }
}

fn without_native(scene: Scene) -> Scene {
    Scene { has_native: false, ..scene }
}

#[test]
fn a_mark_before_the_release_wakes_each_waiter() {
    let budget = Budget { cancels: 1, ..QUIET };
    assert_sound::<Rules>("plain, crowd", scene(CROWD, budget));
    assert_sound::<Rules>("plain, crowd, scripts alone", without_native(scene(CROWD, budget)));
    assert_sound::<Rules>("plain, by script", scene(SCRIPTED, budget));
}

#[test]
fn a_plain_lock_excludes_under_every_fault() {
    let budget = Budget { ticks: 2, losses: 1, repeats: 1, crashes: 1, ..QUIET };
    assert_sound::<Rules>("plain, faults", scene(PAIR, budget));
    let budget = Budget { ticks: 2, delays: 1, losses: 1, cancels: 1, ..QUIET };
    assert_sound::<Rules>("plain, faults, leaving", scene(PAIR, budget));
}

#[test]
fn a_broken_subscription_loses_no_wake_up() {
    let budget = Budget { ticks: 1, delays: 1, breaks: 1, ..QUIET };
    assert_sound::<Rules>("plain, broken subscription", scene(AGAIN, budget));
}

#[test]
fn a_renewed_hold_keeps_its_mark() {
    let budget = Budget { ticks: 3, delays: 2, ..QUIET };
    assert_sound::<Rules>("plain, renewals", scene(RENEWING, budget));
}

#[test]
fn tokens_of_a_plain_lock_grow() {
    let budget = Budget { ticks: 2, losses: 1, repeats: 1, ..QUIET };
    assert_sound::<Rules>("plain, tokens", scene(FENCED_PAIR, budget));
}

#[test]
fn the_model_detects_a_mark_that_is_trusted_before_the_subscription() {
    let variant = Some(BrokenVariant { find: "if marks and held:sub(28)", put: "if held:sub(28)" });
    let scene = Scene { variant, hearing: Hearing::Unconfirmed, ..scene(SCRIPTED, QUIET) };
    assert_found::<Rules>("twin: mark before subscription", scene, &["L4"]);
}

#[test]
fn the_model_detects_a_release_that_ignores_the_mark() {
    let variant =
        Some(BrokenVariant { find: "if held ~= marked then return 0 end", put: "if held then return 0 end" });
    let scene = Scene { variant, ..scene(PAIR, QUIET) };
    assert_found::<Rules>("twin: the mark is ignored", scene, &["L4"]);
}

#[test]
fn the_model_detects_a_renewal_that_drops_the_mark() {
    let variant = Some(BrokenVariant {
        find: "then redis.call('pexpire', lock, ARGV[3]) end\nreturn held == value and 2 or 4",
        put: "then redis.call('set', lock, value, 'PX', ARGV[3]) end\nreturn held == value and 2 or 4",
    });
    let scene = Scene { variant, ..scene(RENEWING, Budget { ticks: 1, delays: 1, ..QUIET }) };
    assert_found::<Rules>("twin: a renewal drops the mark", scene, &["L4"]);
}

#[test]
fn the_model_detects_a_mark_that_drops_the_expiry() {
    let variant = Some(BrokenVariant {
        find: "redis.call('setrange', lock, 27, '1')",
        put: "redis.call('set', lock, held:sub(1, 27) .. '1')",
    });
    assert_found::<Rules>("twin: a mark drops the expiry", Scene { variant, ..scene(PAIR, QUIET) }, &["G1"]);
}

#[test]
fn the_model_detects_a_release_that_compares_the_unmarked_value_alone() {
    let variant = Some(BrokenVariant {
        find: "if held ~= value and held ~= marked then return nil end",
        put: "if held ~= value then return nil end",
    });
    assert_found::<Rules>(
        "twin: a marked hold is not released",
        Scene { variant, ..scene(PAIR, QUIET) },
        &["L4"],
    );
}
