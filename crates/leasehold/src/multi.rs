//! Several locks, acquired all together or not at all.
//!
//! # How it works
//! One script acquires plain locks of one client and one cluster slot. It grants all or none, and the request waits
//! for the members that are not free. Other members are acquired one after the other, in the order of name, server and
//! kind. If one of them cannot be acquired, the client undoes the earlier ones, in whichever way the wait ends.

// Invariant: a waiter for one member holds only members that precede it in the order that all multi-locks follow, so
// two multi-locks cannot wait for each other.

mod run;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, Either, FutureExt, join_all, select, select_all};
use leasehold_proto::engine::{LostReason, Subject, Wait};
use leasehold_proto::recipe::{Recipe, read_write};
use leasehold_proto::{Name, Owner};

use crate::error::{
    self, About, AcquireError, AcquireErrorKind, Cause, EnsureError, ReleaseError, SubjectKind,
};
use crate::lock::Lock;
use crate::lock::acquire::acquire;
use crate::lock::guard::{Asker, Guard, ReleaseOutcome};
use crate::lock::kind::Kind;
use crate::owner::{ambient, enclosing_owner};
use crate::runtime::shared::Handle;
use crate::runtime::shared::sleeping::sleep;
use crate::runtime::ticket::wait_for;
use crate::terms::HoldTerms;

/// The shortest time between two signs of life for members that wait for others.
const BEAT_MIN: Duration = Duration::from_millis(1);

/// Several locks, of any kinds and any clients, that are acquired together, all or none. Cheap to clone.
///
/// Each member keeps its own terms. The order of the members does not matter. All multi-locks acquire in one common
/// order the members that one script cannot grant together, so multi-locks never wait for each other. Do not acquire a
/// multi-lock while you hold one of its members under another owner, because the call would wait for your own hold.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// # let client = leasehold::Client::connect("memory://").await?;
/// use leasehold::MultiLock;
///
/// let transfer = MultiLock::of([client.lock("account:1").into(), client.fair_lock("account:2").into()]);
/// let guard = transfer.lock().await?; // both
/// assert!(client.lock("account:1").try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MultiLock {
    members: Arc<[Member]>,
}

/// A lock as a member of a [`MultiLock`], of any kind and client.
#[derive(Clone)]
pub struct Member(Arc<dyn AnyLock>);

/// The position of a member in the order that all multi-locks follow. A write lock precedes the read lock of its name,
/// which its owner can then acquire too.
type Rank = (String, String, Reverse<&'static str>);

/// The wait for one member.
#[derive(Clone, Copy)]
enum Waits {
    Once,
    For(Duration),
    Forever,
}

/// The operations on a member, independent of its kind.
trait AnyLock: Send + Sync {
    fn rank(&self) -> Rank;
    /// Acquires the member, for `owner` unless the member has an owner of its own. Its minimum hold begins only after
    /// all members are held.
    fn acquire(&self, owner: Owner, waits: Waits) -> BoxFuture<'_, Result<Option<Guard>, AcquireError>>;
    fn handle(&self) -> &Arc<Handle>;
    /// Returns the owner that the member has by itself, or `owner`.
    fn owner_or(&self, owner: Owner) -> Owner;
    fn terms(&self) -> &HoldTerms;
    /// Returns the object that errors name.
    fn subject(&self) -> error::Subject;
    /// Returns what spans have in place of the name.
    fn shown_name(&self) -> Cow<'_, str>;
    /// Refuses a name or terms that no hold can have.
    fn check(&self) -> Result<(), AcquireError>;
    /// Returns the name, the terms and the rules of one script if that can acquire this member together with others.
    fn joint(&self) -> Option<(Name, HoldTerms, &'static Recipe)>;
}

impl<K: Kind> AnyLock for Lock<K> {
    fn rank(&self) -> Rank {
        let name = self.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default();
        (name, self.handle.server().to_owned(), Reverse(self.kind.recipe().kind))
    }

    fn acquire(&self, owner: Owner, waits: Waits) -> BoxFuture<'_, Result<Option<Guard>, AcquireError>> {
        let lock = self.clone().owned_by(&self.owner_or(owner)).map_terms(HoldTerms::without_min_hold);
        async move {
            let guard = match waits {
                Waits::Once => lock.try_lock().await?,
                Waits::For(wait) => lock.try_lock_for(wait).await?,
                Waits::Forever => Some(lock.lock().await?),
            };
            Ok(guard.map(Into::into))
        }
        .boxed()
    }

    fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    fn owner_or(&self, owner: Owner) -> Owner {
        self.owner.or_else(|| self.owner_of_body()).unwrap_or(owner)
    }

    fn terms(&self) -> &HoldTerms {
        &self.terms
    }

    fn subject(&self) -> error::Subject {
        Self::subject(self)
    }

    fn shown_name(&self) -> Cow<'_, str> {
        Self::shown_name(self)
    }

    fn check(&self) -> Result<(), AcquireError> {
        let name = self.name.as_ref().map(drop).map_err(|bad| bad.clone().into());
        name.and_then(|()| self.terms.check()).about(|| self.subject())
    }

    fn joint(&self) -> Option<(Name, HoldTerms, &'static Recipe)> {
        let recipe = self.kind.joint_recipe().filter(|_| self.reenters)?;
        let has_owner = self.owner.is_some() || self.owner_of_body().is_some();
        let name = self.name.as_ref().ok().filter(|_| !has_owner)?;
        Some((name.clone(), self.terms.without_group(), recipe))
    }
}

impl<K: Kind> Lock<K> {
    /// Returns the owner of the innermost enclosing body that runs under this lock's name.
    fn owner_of_body(&self) -> Option<Owner> {
        enclosing_owner(self.handle.client(), self.name.as_ref().ok()?)
    }
}

impl<K: Kind> From<Lock<K>> for Member {
    fn from(lock: Lock<K>) -> Self {
        Self(Arc::new(lock))
    }
}

impl<K: Kind> From<&Lock<K>> for Member {
    fn from(lock: &Lock<K>) -> Self {
        lock.clone().into()
    }
}

impl Member {
    /// Returns true if a hold of this member keeps out a later member of the same name, when members without an owner
    /// have this one.
    fn excludes(&self, later: &Self, owner: Owner) -> bool {
        let (one, other) = (&self.0, &later.0);
        let (one_kind, other_kind) = (one.rank().2.0, other.rank().2.0);
        let (read, write) = (read_write::READ_LOCK.kind, read_write::WRITE_LOCK.kind);
        if !one.is_beside(&**other) || (one_kind, other_kind) == (read, read) {
            return false;
        }
        // An owner re-enters through one client only, and also reads beside its own write hold.
        let is_one_owner =
            Arc::ptr_eq(one.handle(), other.handle()) && one.owner_or(owner) == other.owner_or(owner);
        let reenters = one_kind == other_kind || (one_kind, other_kind) == (write, read);
        !(is_one_owner && reenters)
    }
}

impl dyn AnyLock {
    /// Returns true if both members are on one server, as far as the client can tell. The URL without a name is that of
    /// a new in-process server for each client, and a store of the program's own need not have a URL.
    fn is_beside(&self, other: &Self) -> bool {
        let is_an_address = |url: &str| url.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
        let (one, other) = (self.handle(), other.handle());
        Arc::ptr_eq(one, other) || (one.server() == other.server() && is_an_address(one.server()))
    }
}

impl MultiLock {
    /// Combines these locks.
    ///
    /// # Panics
    /// Panics if `members` is empty.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let locks = ["a", "b", "c"].map(|name| client.lock(name).into());
    /// let guard = leasehold::MultiLock::of(locks).lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn of(members: impl IntoIterator<Item = Member>) -> Self {
        let mut members: Vec<Member> = members.into_iter().collect();
        assert!(!members.is_empty(), "a multi-lock has members");
        members.sort_by_key(|member| member.0.rank());
        Self { members: members.into() }
    }

    /// Acquires all members, waiting as long as it takes.
    ///
    /// # Errors
    /// [`AcquireError`] of the member that could not be acquired. The client undoes the others. The call fails
    /// immediately with [`AcquireErrorKind::Deadlock`] if two members have the same name but different kinds, different
    /// owners, or different clients of one URL, since the second would wait for the first. Read locks of one name share
    /// it.
    ///
    /// # Cancel safety
    /// If the future is dropped, the client undoes the members that it acquired, so nothing stays locked.
    ///
    /// # Losing the lease
    /// See [`MultiGuard`].
    ///
    /// # Examples
    /// See [`MultiLock`].
    pub async fn lock(&self) -> Result<MultiGuard, AcquireError> {
        loop {
            // A wait without a deadline ends with a guard or an error, so the loop runs once.
            if let Some(guard) = self.acquire(Waits::Forever).await? {
                return Ok(guard);
            }
        }
    }

    /// Tries to acquire all members with at most one attempt for each. Returns `None` if another owner holds a member.
    /// The client then undoes the others.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Losing the lease
    /// See [`MultiGuard`].
    ///
    /// # Examples
    /// ```
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// let other = client.lock("b").lock().await?;
    /// assert!(both.try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock(&self) -> Result<Option<MultiGuard>, AcquireError> {
        self.acquire(Waits::Once).await
    }

    /// Acquires all members, waiting for at most `wait` in total, counted from the first poll. Returns `None` if
    /// another owner held a member until then. The client then undoes the others.
    ///
    /// # Errors
    /// As [`lock`](Self::lock).
    ///
    /// # Cancel safety
    /// As [`lock`](Self::lock).
    ///
    /// # Losing the lease
    /// See [`MultiGuard`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// if let Some(guard) = both.try_lock_for(Duration::from_secs(10)).await? {
    ///     guard.release().await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn try_lock_for(&self, wait: Duration) -> Result<Option<MultiGuard>, AcquireError> {
        self.acquire(if wait.is_zero() { Waits::Once } else { Waits::For(wait) }).await
    }

    async fn acquire(&self, waits: Waits) -> Result<Option<MultiGuard>, AcquireError> {
        if let Some((subject, terms)) = self.in_one_step() {
            let handle = self.members[0].0.handle();
            let wait = match waits {
                Waits::Once => Wait::Once,
                Waits::For(wait) => wait_for(handle, wait),
                Waits::Forever => Wait::Forever,
            };
            let acquiring = async {
                let request = terms.request(subject, Owner::unique(), wait)?;
                acquire(handle, request, SubjectKind::MultiLock).await
            };
            let guard = acquiring.await.about(|| self.subject())?;
            return Ok(guard.map(|guard| self.guard_of(vec![guard])));
        }
        self.one_by_one(waits).await
    }

    /// Returns the subject of errors that concern all members.
    fn subject(&self) -> error::Subject {
        subject_of(&self.members)
    }

    fn guard_of(&self, guards: Vec<Guard>) -> MultiGuard {
        MultiGuard { guards, members: Arc::clone(&self.members) }
    }

    /// Returns the names if one script can acquire them all: same client, same slot, same terms, and no explicit or
    /// ambient owner.
    fn in_one_step(&self) -> Option<(Subject, HoldTerms)> {
        let first = &self.members[0].0;
        let (name, terms, recipe) = first.joint().filter(|_| ambient().is_none())?;
        let mut others = Vec::new();
        for member in &self.members[1..] {
            let (other, its_terms, its_recipe) = member.0.joint()?;
            let is_alike = its_terms == terms && std::ptr::eq(its_recipe, recipe);
            let fits = Arc::ptr_eq(member.0.handle(), first.handle()) && is_alike;
            if !fits || other.slot() != name.slot() {
                return None;
            }
            others.push(other);
        }
        others.retain(|other| *other != name);
        others.dedup();
        Some((Subject { others: others.into(), ..Subject::new(&name, recipe) }, terms))
    }

    /// Returns true if a member would wait for another one, because both are one key that they cannot hold together.
    fn has_self_deadlock(&self, owner: Owner) -> bool {
        // Equal names are side by side, but a member of another client can be between two that exclude each other.
        self.members.iter().enumerate().any(|(at, one)| {
            let rank = one.0.rank();
            let rest = self.members[at + 1..].iter().take_while(|other| other.0.rank().0 == rank.0);
            rest.into_iter().any(|other| one.excludes(other, owner))
        })
    }

    /// Shows for the callers, who have no guards yet, that they are alive.
    async fn beat(&self, guards: &[Guard]) -> Infallible {
        let silences = self.members[..guards.len()].iter().filter_map(|member| member.0.terms().silence());
        let Some(shortest) = silences.min() else { return pending().await };
        let (clock, pace) = (self.members[0].0.handle(), (shortest / 3).max(BEAT_MIN));
        loop {
            let at = clock.now() + pace;
            sleep(clock, pace).await;
            // The sleep of a client that has ended is over at once, and its holds are too.
            if clock.now() < at {
                return pending().await;
            }
            guards.iter().for_each(Guard::beat);
        }
    }

    async fn one_by_one(&self, waits: Waits) -> Result<Option<MultiGuard>, AcquireError> {
        // Each member is acquired without its minimum hold, which begins when all are held. All unusable names look
        // alike, so they are refused before the search for members with equal names.
        self.members.iter().try_for_each(|member| member.0.check())?;
        let owner = ambient().unwrap_or_else(Owner::unique);
        if self.has_self_deadlock(owner) {
            return Err(AcquireErrorKind::Deadlock.of(self.subject()));
        }
        let clock = self.members[0].0.handle();
        let since = clock.now();
        // An early return drops the guards, which releases the members acquired so far.
        let mut guards = Vec::with_capacity(self.members.len());
        for member in &*self.members {
            let waits = match waits {
                Waits::For(wait) => Waits::For(wait.saturating_sub(clock.now().since(since))),
                other => other,
            };
            let acquired = member.0.acquire(owner, waits);
            let acquired = match select(acquired, pin!(self.beat(&guards))).await {
                Either::Left((acquired, _)) => acquired?,
                Either::Right((never, _)) => match never {},
            };
            match acquired {
                Some(guard) => guards.push(guard),
                None => return Ok(None),
            }
        }
        let all = self.guard_of(guards);
        // The first hold may have been lost during the wait for the last hold.
        if !all.is_held() {
            return Err(AcquireErrorKind::Lost(all.lost().await).of(self.subject()));
        }
        all.beat();
        for (member, guard) in self.members.iter().zip(&all.guards) {
            member.0.terms().least().into_iter().for_each(|least| guard.hold_at_least(least));
        }
        Ok(Some(all))
    }
}

fn subject_of(members: &[Member]) -> error::Subject {
    let names: Vec<_> = members.iter().map(|member| member.0.subject().name).collect();
    error::Subject { kind: SubjectKind::MultiLock, name: names.join(", ").into() }
}

impl fmt::Debug for MultiLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.members.iter().map(|member| member.0.rank().0)).finish()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Member").field(&self.0.rank().0).finish()
    }
}

/// A hold of all members of a [`MultiLock`], released when dropped.
///
/// # Losing the lease
/// As for a [`Guard`]. The hold is lost as soon as one member is lost. The other members stay held until the guard is
/// dropped.
#[must_use = "dropping a guard releases the locks at once"]
#[derive(Debug)]
pub struct MultiGuard {
    guards: Vec<Guard>,
    members: Arc<[Member]>,
}

impl MultiGuard {
    /// Returns true if all members are valid now, by the clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.guards.iter().all(Guard::is_held)
    }

    /// Returns the shortest validity of the members, which is the time for which all of them are valid without a
    /// renewal.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.guards.iter().map(Guard::remaining).min().unwrap_or_default()
    }

    /// Completes when the first member is lost, and returns the reason.
    ///
    /// # Cancel safety
    /// This method is cancel safe, as [`Guard::lost`] is.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # async fn work() {}
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// let guard = both.lock().await?;
    /// tokio::select! {
    ///     () = work() => {}
    ///     reason = guard.lost() => eprintln!("stopped: {reason}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lost(&self) -> LostReason {
        let (reason, _, _) = select_all(self.guards.iter().map(|guard| guard.lost().boxed())).await;
        reason
    }

    /// Completes when somebody asks for a member. See [`Guard::asked`].
    ///
    /// # Cancel safety
    /// As [`Guard::asked`].
    ///
    /// # Losing the lease
    /// As [`Guard::asked`].
    ///
    /// # Examples
    /// See [`Guard::asked`].
    pub async fn asked(&self) -> Asker {
        let (asker, _, _) = select_all(self.guards.iter().map(|guard| guard.asked().boxed())).await;
        asker
    }

    /// Ensures that all members stay valid for at least this long.
    ///
    /// # Errors
    /// [`EnsureError`] of the first member that cannot.
    ///
    /// # Cancel safety
    /// As [`Guard::ensure`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// let guard = both.lock().await?;
    /// guard.ensure(Duration::from_secs(5)).await?;
    /// // ... what takes less than 5 s ...
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ensure(&self, least: Duration) -> Result<(), EnsureError> {
        join_all(self.guards.iter().map(|guard| guard.ensure(least))).await.into_iter().collect()
    }

    /// Shows that the holder is alive, for every member. See [`Guard::beat`].
    pub fn beat(&self) {
        self.guards.iter().for_each(Guard::beat);
    }

    /// Extends every member: gives it a lease of this length, counted from now. See [`Guard::extend`].
    ///
    /// # Errors
    /// [`EnsureError`] of the first member that was not extended. The others are.
    ///
    /// # Cancel safety
    /// As [`Guard::extend`].
    ///
    /// # Losing the lease
    /// As [`Guard::extend`].
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// let guard = both.lock().await?;
    /// guard.extend(Duration::from_secs(600)).await?;
    /// assert!(guard.remaining() > Duration::from_secs(590));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: Duration) -> Result<(), EnsureError> {
        join_all(self.guards.iter().map(|guard| guard.extend(lease))).await.into_iter().collect()
    }

    /// Releases all members and reports the outcome, which is [`ReleaseOutcome::NotHeld`] if a member was lost before.
    ///
    /// # Errors
    /// [`ReleaseError`] of the first release that the server did not confirm. The releases of all members are sent.
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the releases.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// let guard = both.lock().await?;
    /// assert_eq!(guard.release().await?, leasehold::ReleaseOutcome::Released);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn release(self) -> Result<ReleaseOutcome, ReleaseError> {
        let reports = join_all(self.guards.into_iter().map(Guard::release)).await;
        let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
        let lost = reports.into_iter().find(|report| *report == ReleaseOutcome::NotHeld);
        Ok(lost.unwrap_or(ReleaseOutcome::Released))
    }

    /// Consumes the guard without a release, and detaches each member as [`Guard::detach`] does.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::MultiLock;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let both = MultiLock::of([client.lock("a").into(), client.lock("b").into()]);
    /// both.lock().await?.detach();
    /// assert!(client.lock("a").is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(self) {
        self.guards.into_iter().for_each(Guard::detach);
    }
}

/// The guards of the members. Members that one script acquired share one guard.
impl AsRef<[Guard]> for MultiGuard {
    fn as_ref(&self) -> &[Guard] {
        &self.guards
    }
}
