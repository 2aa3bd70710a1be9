//! The users of several locks at once.
//!
//! Invariant: as in the parent module. Each user lists the names in a random order.

use std::sync::Arc;
use std::time::Duration;

use leasehold::multi::Member;
use leasehold::{MultiGuard, MultiLock};

use super::locks::{on, tokens};
use super::user::{Policy, User};
use crate::history::What;
use crate::name_state::Side;
use crate::primitive::{Primitive, fence_of, name_of, wire_of};
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// Returns true if this user acquires several locks now. The plan must have several locks.
pub(super) fn is_chosen(user: &mut User) -> bool {
    let locks = user.env.plan.names.iter().filter(|name| Primitive::of(name).is_lock()).count();
    locks > 1 && user.env.rng.u8(0..3) == 0
}

/// Acquires several locks, holds them and releases them.
pub(super) async fn work(user: &mut User) {
    let mut names: Vec<Arc<str>> =
        user.env.plan.names.iter().filter(|name| Primitive::of(name).is_lock()).cloned().collect();
    user.env.rng.shuffle(&mut names);
    names.truncate(user.env.rng.usize(2..=names.len()));
    let (terms, policy) = user.terms();
    let members: Vec<Member> = names.iter().map(|name| member(user, name, terms, policy)).collect();
    let multi = MultiLock::of(members);
    let choice = [What::LockAll, What::LockAll, What::TryLockAll, What::TryLockAllFor];
    let what = *user.env.rng.choice(&choice).expect("some");
    let (wait, within) = user.wait(what, terms.lease);
    // Each of the locks, one after the other, may make a last attempt at the end of the wait.
    let more = user.env.plan.timeout * u32::try_from(names.len()).unwrap_or(u32::MAX);
    let all: Vec<&str> = names.iter().map(|name| &**name).collect();
    let all = all.join(" ");
    let op = user.begin(&all, what, within.map(|within: Duration| within + more));
    let waiting = async {
        match what {
            What::TryLockAll => multi.try_lock().await,
            What::TryLockAllFor => multi.try_lock_for(wait).await,
            _ => multi.lock().await.map(Some),
        }
    };
    let Some(held) = user.acquire(op, waiting, |guard| claims(guard, &names, terms)).await else { return };
    user.hold(&held, terms).await;
    user.end(held, &all).await;
}

fn member(user: &User, name: &str, terms: Terms, policy: Policy) -> Member {
    let (client, known) = (&user.client, name_of(name));
    match Primitive::of(name) {
        Primitive::Fair => on(client.fair_lock(known), terms, policy).into(),
        Primitive::Fenced | Primitive::Hybrid => {
            on(client.fenced_lock(known).tokens(tokens(name)), terms, policy).into()
        }
        Primitive::Spin => on(client.spin_lock(known), terms, policy).into(),
        Primitive::Plain => on(client.plain_lock(known), terms, policy).into(),
        Primitive::PlainFenced => on(client.plain_lock(known).fenced(fence_of(name)), terms, policy).into(),
        Primitive::ReadWrite => on(client.rw_lock(known).write_lock(), terms, policy).into(),
        _ => on(client.lock(known), terms, policy).into(),
    }
}

/// Returns one claim for each name, with the guard of the name or the single guard for all.
pub(super) fn claims(guard: MultiGuard, names: &[Arc<str>], terms: Terms) -> (Taken, Vec<Claim>) {
    let guards = guard.as_ref();
    let claim = |name: &Arc<str>| {
        let place = guards.iter().position(|guard| guard.name() == &**name).filter(|_| guards.len() > 1);
        let place = place.unwrap_or_default();
        let wire = wire_of(name, guards[place].wire_owner());
        let written = Primitive::of(name) == Primitive::ReadWrite;
        let side = if written { Side::Writer } else { Side::Alone };
        Claim { name: Arc::clone(name), wire, side, owner: 0, units: 1, token: None, terms, place }
    };
    // The claims are in the order of the guards, because `Held` finds a guard by its position.
    let mut claims: Vec<Claim> = names.iter().map(claim).collect();
    claims.sort_by_key(|claim| claim.place);
    (Taken::Several(guard), claims)
}
