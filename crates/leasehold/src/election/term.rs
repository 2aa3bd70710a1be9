//! A term: one grant of the lock, with its token, until its end.
//!
//! Invariant: a term is invalid before anything is sent that lets another candidate lead.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::engine::LostReason;
use leasehold_proto::recipe::election::{self, Announcement, Message};
use leasehold_proto::{Call, WireOwner};

use super::hub::Hub;
use super::policy::{Asked, Asks};
use crate::error::{About, InspectErrorKind, ReleaseError, SubjectKind, TransferError, TransferErrorKind};
use crate::lock::FencedGuard;
use crate::lock::guard::{Asker, ReleaseOutcome};
use crate::runtime::shared::sleeping::sleep;
use crate::runtime::sync::{Mutex, lock};

/// The time after which a leader repeats its announcement, which a failover may have lost.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(60);
/// The pause after an announcement or a transfer that the server has not answered. A refused announcement is repeated less
/// and less often.
const RETRY: Duration = Duration::from_secs(1);

/// What follows when the body has ended by itself.
#[derive(Clone, Debug, Default)]
pub(super) enum After {
    /// `lead` returns.
    #[default]
    Stop,
    /// The candidate campaigns again.
    Resign,
    /// The candidate passes the term on, and campaigns again.
    Transfer(Arc<str>),
}

/// A term as the leader. Dropping it releases the lock.
///
/// # Losing the lease
/// A leader that cannot renew loses its term by its own clock, before the server gives the lock to another candidate.
/// [`is_valid`](Self::is_valid) compares the clock, so it is right even if [`lost`](Self::lost) was not awaited. A process
/// that is paused works on after its term, and only a resource that checks the [`token`](Self::token) refuses its writes.
#[must_use = "dropping a term releases the lock at once"]
pub struct Term {
    hub: Arc<Hub>,
    guard: Mutex<Option<FencedGuard>>,
    asks: Arc<Asks>,
    after: Mutex<After>,
    /// True if a body leads, which has to end before the term does.
    has_body: bool,
}

/// Reads the validity of a term elsewhere. [`Term::validity`] creates it.
#[derive(Clone)]
pub struct Validity(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Validity {
    /// As [`Term::is_valid`].
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// As [`Term::remaining`].
    #[must_use]
    pub fn remaining(&self) -> Duration {
        (self.0)()
    }
}

impl fmt::Debug for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Validity").field(&self.remaining()).finish()
    }
}

impl Term {
    pub(super) fn new(hub: &Arc<Hub>, guard: FencedGuard, announcement: Announcement) -> Self {
        let (owner, token) = (guard.wire_owner(), guard.token());
        let asks = Asks::new(token, owner, announcement.candidate.as_str().into());
        hub.listen_for(&asks);
        let call = election::announce(&hub.name, owner, token, &announcement);
        announce(hub, call, Arc::clone(&asks));
        heed(hub, guard.asking(), Arc::clone(&asks));
        Self {
            hub: Arc::clone(hub),
            guard: Mutex::new(Some(guard)),
            asks,
            after: Mutex::default(),
            has_body: false,
        }
    }

    /// Lets a body lead.
    pub(super) fn with_body(mut self) -> Self {
        self.has_body = true;
        self
    }

    /// Returns the fencing token, which is higher than the tokens of all earlier terms. It also grows after the server has
    /// lost its data.
    #[must_use]
    pub fn token(&self) -> u64 {
        self.asks.token
    }

    /// Returns true while this process leads, by its own clock and without a round trip. It turns false before the lock is
    /// released or transferred.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        !self.is_over() && lock(&self.guard).as_ref().is_some_and(|guard| guard.is_held())
    }

    /// Returns the time for which this process leads without a renewal, or zero after the end.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_over() {
            return Duration::ZERO;
        }
        lock(&self.guard).as_ref().map_or(Duration::ZERO, |guard| guard.remaining())
    }

    /// Returns a reader of the validity for tasks and threads that work for the leader, since the term itself stays with the
    /// body. It keeps the client alive, and not the term.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let term = client.election("scheduler").campaign().await?;
    /// let validity = term.validity();
    /// let worker = tokio::spawn(async move { validity.is_valid() });
    /// assert!(worker.await.unwrap());
    /// term.resign().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn validity(&self) -> Validity {
        let guard = lock(&self.guard).as_ref().map(|guard| guard.reader());
        let asks = Arc::clone(&self.asks);
        let remaining = move || match &guard {
            Some(guard) if !asks.is_over() => guard(),
            _ => Duration::ZERO,
        };
        Validity(Arc::new(remaining))
    }

    /// Shows that the leader is alive. Only an election with [`silent_for`](crate::Election::silent_for) needs it. A call sends
    /// nothing.
    pub fn beat(&self) {
        lock(&self.guard).iter().for_each(|guard| guard.beat());
    }

    /// Completes when the lease is lost, and returns the reason. It never completes after a planned end.
    ///
    /// # Cancel safety
    /// This method is cancel safe, and can be called any number of times.
    pub async fn lost(&self) -> LostReason {
        self.watch().await
    }

    /// Does the same without borrowing the term.
    pub(super) fn watch(&self) -> impl Future<Output = LostReason> + Send + 'static + use<> {
        let watch = lock(&self.guard).as_ref().map(|guard| guard.watch());
        let asks = Arc::clone(&self.asks);
        async move {
            let Some(watch) = watch else { return pending().await };
            let reason = watch.await;
            if asks.is_over() { pending().await } else { reason }
        }
    }

    /// Completes when the leader should end its term, and returns the reason. The lease stays renewed meanwhile. A loss does
    /// not complete it: wait for [`lost`](Self::lost) beside it, except in a body that is dropped at a loss
    /// ([`OnLost::Cancel`](crate::election::OnLost::Cancel)).
    ///
    /// A body of [`Election::lead`](crate::Election::lead) then has [`grace`](crate::Election::grace) to end by itself. The
    /// holder of a term by hand ends it with [`resign`](Self::resign).
    ///
    /// # Cancel safety
    /// This method is cancel safe, and completes at once if the term was asked already.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::election::Asked;
    ///
    /// let election = client.election("scheduler");
    /// let term = election.campaign().await?;
    /// let (asked, told) = tokio::join!(term.asked(), election.request_resign());
    /// assert_eq!((asked, told?), (Asked::Requested, true));
    /// term.resign().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn asked(&self) -> Asked {
        self.asks.asked().await
    }

    /// Returns true if the leader should end its term, as [`asked`](Self::asked) says. For bodies that work in steps.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asks.reason().is_some()
    }

    /// Returns true if the term has ended without a plan.
    pub(crate) fn is_lost(&self) -> bool {
        !self.is_over() && !self.is_valid()
    }

    /// Lets [`Election::lead`](crate::Election::lead) campaign again after the body has returned `Ok`, once a lease has
    /// passed, so that another candidate leads first.
    pub fn resign_after(&self) {
        *lock(&self.after) = After::Resign;
    }

    /// Lets [`Election::lead`](crate::Election::lead) pass the term on to this candidate after the body has returned `Ok`,
    /// and then campaign again. If no such candidate waits, the lock is released.
    pub fn transfer_after(&self, candidate: &str) {
        *lock(&self.after) = After::Transfer(candidate.into());
    }

    /// Ends the term: releases the lock and tells the observers.
    ///
    /// # Errors
    /// As [`Guard::release`](crate::Guard::release). The term has ended in any case, and the error says by when the lock
    /// is free.
    ///
    /// # Cancel safety
    /// Dropping the future discards the report and does not cancel the release.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let election = client.election("scheduler");
    /// let term = election.campaign().await?;
    /// term.resign().await?;
    /// assert!(election.leader().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resign(self) -> Result<ReleaseOutcome, ReleaseError> {
        self.end();
        let guard = lock(&self.guard).take();
        let Some(guard) = guard else { return Ok(ReleaseOutcome::NotHeld) };
        let released = guard.release().await;
        self.hub.say(&Message::Resigned);
        released.map_err(|mut error| {
            error.subject.kind = SubjectKind::Election;
            error
        })
    }

    /// Passes the term on to a waiting candidate, with a higher token. The lock is never free in between, so no third
    /// candidate can take it. The term ends before the call is sent. A transfer to oneself changes nothing. Waits about 1 s
    /// for the candidate's answer.
    ///
    /// In a body of [`Election::lead`](crate::Election::lead), `Ok` means that the body is asked to end, with
    /// [`Asked::Transfer`](crate::election::Asked::Transfer). The term passes on afterwards; if the candidate no longer waits
    /// then, the lock is released.
    ///
    /// If the candidate gives up at this very moment, another one of its client may lead in its place.
    ///
    /// # Errors
    /// [`TransferErrorKind::NoCandidate`] if no candidate of this name waits. This term then goes on. After any other error
    /// the term has ended, and the lock is released.
    ///
    /// # Cancel safety
    /// Until the candidate answers, dropping the future changes nothing. After that the term has ended: the candidate may
    /// lead, and if it does not, the lock is released.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://jobs").await?;
    /// # let other = leasehold::Client::connect("memory://jobs").await?;
    /// use leasehold::error::TransferErrorKind;
    ///
    /// let first = client.election("scheduler").candidate("a").campaign().await?;
    /// let election = other.election("scheduler").candidate("b");
    /// let hand_over = async {
    ///     // Until "b" waits.
    ///     while let Err(error) = first.transfer_to("b").await {
    ///         assert!(matches!(error.kind, TransferErrorKind::NoCandidate { .. }), "{error}");
    ///     }
    /// };
    /// let (second, ()) = tokio::join!(election.campaign(), hand_over);
    /// assert!(second?.token() > first.token() && !first.is_valid());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn transfer_to(&self, candidate: &str) -> Result<(), TransferError> {
        let subject = || self.hub.handle.subject(SubjectKind::Election, &Ok(self.hub.name.clone()));
        self.transfer(candidate).await.about(subject)
    }

    async fn transfer(&self, candidate: &str) -> Result<(), TransferErrorKind> {
        self.hub.handle.check_process()?;
        if candidate == &*self.asks.candidate {
            return Ok(());
        }
        if !self.is_valid() {
            return Err(TransferErrorKind::NotLeading);
        }
        let sought = self.hub.seek(candidate).await;
        let successor =
            sought.ok_or_else(|| TransferErrorKind::NoCandidate { candidate: candidate.into() })?;
        if !self.is_valid() {
            return Err(TransferErrorKind::NotLeading);
        }
        if self.has_body {
            self.asks.ask(Asked::Transfer(candidate.into()));
            return Ok(());
        }
        self.pass(successor).await
    }

    /// Passes on a term whose body has ended. Returns false if the term goes on without one, or is released.
    pub(super) async fn transfer_after_body(&mut self, candidate: &str) -> bool {
        self.has_body = false;
        self.transfer(candidate).await.is_ok()
    }

    /// Ends the term, and passes the lock on. If that fails, the lock is released.
    async fn pass(&self, successor: WireOwner) -> Result<(), TransferErrorKind> {
        self.end();
        let guard = lock(&self.guard).take().ok_or(TransferErrorKind::NotLeading)?;
        // The guard is renewed meanwhile, so its later end is no bound.
        let passed = self.swap(successor, guard.remaining()).await;
        match passed {
            // The hold is the successor's. A release would find nothing, and renewals end.
            Ok(()) => guard.detach(),
            Err(_) => {
                drop(guard);
                self.hub.say(&Message::Resigned);
            }
        }
        passed
    }

    /// Gives the hold on the server to a successor, with a call that is repeated for this long until it is answered.
    async fn swap(&self, successor: WireOwner, most: Duration) -> Result<(), TransferErrorKind> {
        let handle = &self.hub.handle;
        let begun = handle.now();
        loop {
            let swap = election::transfer(&self.hub.name, self.asks.owner, successor);
            match handle.query(swap, election::read_transferred).await {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => return Err(TransferErrorKind::NotLeading),
                Err(InspectErrorKind::Store(error)) if error.kind.is_transient() => {
                    let left = most.saturating_sub(handle.now().since(begun));
                    if left.is_zero() {
                        return Err(TransferErrorKind::Unknown(error));
                    }
                    sleep(handle, RETRY.min(left)).await;
                }
                Err(InspectErrorKind::Store(error)) => return Err(TransferErrorKind::of_store(error)),
                Err(_) => return Err(TransferErrorKind::NotLeading),
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.asks.is_over()
    }

    pub(super) const fn asks(&self) -> &Arc<Asks> {
        &self.asks
    }

    pub(super) fn after(&self) -> After {
        lock(&self.after).clone()
    }

    fn end(&self) {
        self.asks.end();
    }
}

/// Passes a request for the lock on to the term, as one to resign.
fn heed(hub: &Arc<Hub>, asking: impl Future<Output = Asker> + Send + 'static, asks: Arc<Asks>) {
    let heeding = async move {
        tokio::select! {
            biased;
            () = asks.over() => {}
            _ = asking => asks.ask(Asked::Requested),
        }
    };
    let _ = hub.handle.spawn(Box::pin(heeding));
}

/// Announces a leader now, and each minute until its end.
fn announce(hub: &Arc<Hub>, call: Call, asks: Arc<Asks>) {
    let handle = Arc::clone(&hub.handle);
    let announcing = async move {
        let mut retry = RETRY;
        loop {
            let announced = handle.query(call.clone(), election::read_announced).await;
            let pause = match announced {
                Ok(true) => ANNOUNCE_EVERY,
                Ok(false) | Err(InspectErrorKind::Closed) => return,
                Err(_) => {
                    let longer = (retry * 2).min(ANNOUNCE_EVERY);
                    std::mem::replace(&mut retry, longer)
                }
            };
            tokio::select! {
                biased;
                () = asks.over() => return,
                () = sleep(&handle, pause) => {}
            }
        }
    };
    // A forked process has no driver, and no leader.
    let _ = hub.handle.spawn(Box::pin(announcing));
}

impl Drop for Term {
    fn drop(&mut self) {
        self.end();
        let guard = lock(&self.guard).take();
        if let Some(guard) = guard {
            // The release leaves before the hint.
            drop(guard);
            self.hub.say(&Message::Resigned);
        }
    }
}

impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Term")
            .field("token", &self.token())
            .field("candidate", &self.asks.candidate)
            .field("is_valid", &self.is_valid())
            .finish_non_exhaustive()
    }
}
