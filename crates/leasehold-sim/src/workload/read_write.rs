//! The users of the read-write lock: readers, writers, and users that change from one to the other.
//!
//! Invariant: as in the parent module.

use std::sync::Arc;

use leasehold::{AcquireError, Guard, Owner, RwLock, UpgradeError};

use super::held::Held;
use super::user::{LeaseMode, Policy, User};
use crate::history::{Event, What};
use crate::name_state::Side;
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// One use of the lock by a user, with its terms and owner.
struct Visit<'a> {
    user: &'a mut User,
    lock: RwLock,
    name: &'a Arc<str>,
    terms: Terms,
    owner: u64,
}

/// Reads, writes, or both.
pub(super) async fn work(user: &mut User, lock: RwLock, name: &Arc<str>) {
    let (terms, policy) = user.terms();
    let terms = Terms { min_hold: None, ..terms };
    let own = user.env.rng.bool();
    let (owner, number) = user.owner(own);
    let lock = on(lock, &owner, terms, policy);
    let lock = if user.env.rng.u8(0..3) == 0 { lock.prefer_writers() } else { lock };
    let choice = user.env.rng.u8(0..12);
    let mut visit = Visit { user, lock, name, terms, owner: number };
    match choice {
        0..=3 => visit.only(Side::Reader).await,
        4..=6 => visit.only(Side::Writer).await,
        7 | 8 => visit.both(Side::Writer, Side::Reader).await,
        9 | 10 => visit.upgrade().await,
        _ => visit.both(Side::Reader, Side::Writer).await,
    }
}

fn on(lock: RwLock, owner: &Owner, terms: Terms, policy: Policy) -> RwLock {
    let lock = lock.owned_by(owner);
    let lock = match policy.replicas {
        Some(replicas) => lock.replicas(replicas),
        None => lock,
    };
    match policy.mode {
        LeaseMode::Watched | LeaseMode::AtLeast(_) => lock.watchdog(terms.lease),
        LeaseMode::Fixed => lock.lease(terms.lease),
        LeaseMode::AtMost(most) => lock.watchdog(terms.lease).max_hold(most),
        LeaseMode::Renewals(most) => lock.watchdog(terms.lease).max_renewals(most),
    }
}

impl Visit<'_> {
    /// Takes one side, sometimes twice.
    async fn only(&mut self, side: Side) {
        let Some(held) = self.acquire(side, None).await else { return };
        self.user.hold(&held, self.terms).await;
        if self.user.env.rng.u8(0..4) == 0
            && let Some(inner) = self.acquire(side, Some(What::Reenter)).await
        {
            self.user.hold(&inner, self.terms).await;
            self.user.end(inner, self.name).await;
        }
        self.user.end(held, self.name).await;
    }

    /// Takes one side and the other inside it, and releases them in any order. A writer may read. A reader that wants to
    /// write gets an error instead of a wait.
    async fn both(&mut self, first: Side, second: Side) {
        let Some(outer) = self.acquire(first, None).await else { return };
        self.user.hold(&outer, self.terms).await;
        let Some(inner) = self.acquire(second, None).await else {
            return self.user.end(outer, self.name).await;
        };
        self.user.hold(&inner, self.terms).await;
        self.in_any_order(outer, inner).await;
    }

    /// Upgrades from reading to writing.
    async fn upgrade(&mut self) {
        let Some(reader) = self.acquire(Side::Reader, None).await else { return };
        self.user.hold(&reader, self.terms).await;
        let what = What::Upgrade;
        let once = self.user.env.rng.u8(0..3);
        let way = [What::Lock, What::TryLock, What::TryLockFor][usize::from(once)];
        let (wait, within) = self.user.wait(way, self.terms.lease);
        let op = self.user.begin(self.name, what, within);
        let lock = self.lock.clone();
        let waiting = async {
            let upgraded = match way {
                What::TryLock => lock.try_upgrade(reader.guard()).await,
                What::TryLockFor => lock.try_upgrade_for(reader.guard(), wait).await,
                _ => lock.upgrade(reader.guard()).await.map(Some),
            };
            upgraded.map_err(|error| match error {
                UpgradeError::Acquire(error) => error,
                other => panic!("the guard is a read guard of this lock: {other}"),
            })
        };
        let claims = self.claims(Side::Writer);
        let Some(writer) = self.user.acquire(op, waiting, claims).await else {
            return self.user.end(reader, self.name).await;
        };
        self.user.hold(&writer, self.terms).await;
        self.in_any_order(reader, writer).await;
    }

    async fn in_any_order(&mut self, one: Held, other: Held) {
        let (first, last) = if self.user.env.rng.bool() { (one, other) } else { (other, one) };
        self.user.end(first, self.name).await;
        self.user.hold(&last, self.terms).await;
        self.user.end(last, self.name).await;
    }

    async fn acquire(&mut self, side: Side, what: Option<What>) -> Option<Held> {
        let choice = [What::Lock, What::Lock, What::TryLock, What::TryLockFor];
        let what = what.unwrap_or_else(|| *self.user.env.rng.choice(&choice).expect("some"));
        let (wait, within) = self.user.wait(what, self.terms.lease);
        let op = self.user.begin(self.name, what, within);
        let (reads, lock) = (side == Side::Reader, self.lock.clone());
        if reads {
            self.user.env.record(Event::Reads { op });
        }
        let waiting = async {
            let taken: Result<Option<Guard>, AcquireError> = match (what, reads) {
                (What::TryLock, true) => lock.try_read().await,
                (What::TryLock, false) => lock.try_write().await,
                (What::TryLockFor, true) => lock.try_read_for(wait).await,
                (What::TryLockFor, false) => lock.try_write_for(wait).await,
                (_, true) => lock.read().await.map(Some),
                (_, false) => lock.write().await.map(Some),
            };
            taken
        };
        let claims = self.claims(side);
        self.user.acquire(op, waiting, claims).await
    }

    fn claims(&self, side: Side) -> impl FnOnce(Guard) -> (Taken, Vec<Claim>) + use<> {
        let (name, owner, terms) = (Arc::clone(self.name), self.owner, self.terms);
        move |guard| {
            let wire = guard.wire_owner().to_string().into();
            let claim = Claim { name, wire, side, owner, units: 1, token: None, terms, place: 0 };
            (Taken::One(guard), vec![claim])
        }
    }
}
