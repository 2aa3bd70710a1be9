//! Leads term after term: campaigns, runs a body as the leader, ends the term, and campaigns again.
//!
//! Invariant: on a planned end the lease is renewed until the body has ended or is dropped, and only then released. Two
//! bodies overlap only after a lost lease, if the first does not await or may finish.

use std::future::{Future, pending};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Moment, StoreErrorKind};

use super::handle::Election;
use super::policy::{Asked, Asks, LeadError, Led, OnLost, Running};
use super::term::{After, Term};
use crate::error::{AcquireError, AcquireErrorKind};
use crate::runtime::shared::sleeping::sleep;

/// The longest pause after an involuntary end.
const REST_MAX: Duration = Duration::from_secs(30);
/// The length of a term after which the pauses begin anew.
const STABLE: Duration = Duration::from_secs(60);

/// How a body ended.
pub(crate) enum End<E> {
    /// It returned.
    Returned(Result<(), E>),
    /// It was dropped after its grace.
    Overran,
    /// The lease was lost.
    Lost,
}

/// What follows a term.
enum Next {
    Stop,
    /// The candidate campaigns again after this pause.
    Again(Duration),
    /// Another pause, longer than the last.
    Rest,
}

/// The terms of one call of `lead`.
pub(crate) struct Terms {
    election: Election,
    pub(crate) led: Led,
    /// The pause after the next involuntary end.
    rest: Duration,
    /// What follows the last term.
    next: Next,
    began: Moment,
    /// True while the gate has not been closed.
    is_fresh: bool,
    _running: Running,
}

impl Terms {
    pub(crate) fn new(election: Election) -> Self {
        Self {
            led: Led::default(),
            rest: election.rest,
            next: Next::Again(Duration::ZERO),
            began: election.handle().now(),
            is_fresh: true,
            _running: Arc::clone(&election.stop).begin(),
            election,
        }
    }

    /// Campaigns for the next term. Returns `None` if there is none.
    pub(crate) async fn next(&mut self) -> Result<Option<Term>, AcquireError> {
        loop {
            let pause = match self.next {
                Next::Stop => return Ok(None),
                Next::Again(pause) => pause,
                Next::Rest => {
                    let longer = self.rest.saturating_mul(2).min(REST_MAX);
                    std::mem::replace(&mut self.rest, longer)
                }
            };
            self.election.pause(pause).await;
            let elected = tokio::select! {
                biased;
                () = self.election.stop.stopped() => return Ok(None),
                elected = self.election.gated(&mut self.is_fresh) => elected,
            };
            match elected {
                Ok(term) => {
                    self.led = Led { terms: self.led.terms + 1, last: Some(term.token()) };
                    self.began = self.election.handle().now();
                    let term = term.with_body();
                    self.supervise(&term);
                    return Ok(Some(term));
                }
                Err(error) if is_final(&error) || self.is_setup(&error) => return Err(error),
                // The server is away. No candidate rests longer than the others when it is back.
                Err(_) => self.next = Next::Again(self.election.rest),
            }
        }
    }

    /// Returns true for missing rights and the like at the very start, where they are setup mistakes. Later the
    /// candidate does not give up for them, since somebody may change a password.
    fn is_setup(&self, error: &AcquireError) -> bool {
        use AcquireErrorKind::{Store, Unknown};
        let (Store(source) | Unknown { source, .. }) = &error.kind else { return false };
        use StoreErrorKind::{AuthenticationFailed, AuthenticationRequired, Certificate, PermissionDenied};
        let is_new =
            self.led.terms == 0 && self.election.handle().now().since(self.began) < self.election.lease;
        is_new
            && matches!(
                source.kind,
                PermissionDenied | AuthenticationFailed | AuthenticationRequired | Certificate
            )
    }

    /// Ends a term whose body has ended. Returns the error of the body.
    pub(crate) async fn end<E>(&mut self, mut term: Term, end: End<E>) -> Result<(), E> {
        if self.election.handle().now().since(self.began) >= STABLE {
            self.rest = self.election.rest;
        }
        let asked = term.asks().reason();
        let may_finish = self.election.on_lost == OnLost::Finish;
        let end = match end {
            // An error may be the effect of the loss, and the candidate does not give up for it. The error of a body that may
            // finish is its own.
            End::Returned(returned) if term.is_lost() && (returned.is_ok() || !may_finish) => End::Lost,
            end => end,
        };
        self.next = match &end {
            End::Lost => Next::Rest,
            End::Returned(Err(_)) => Next::Stop,
            _ if asked == Some(Asked::Stopped) => Next::Stop,
            _ => match (asked, term.after()) {
                (Some(Asked::Transfer(to)), _) | (None, After::Transfer(to)) => {
                    // Without such a candidate the release below frees the lock.
                    let is_passed = term.transfer_after_body(&to).await;
                    Next::Again(if is_passed { Duration::ZERO } else { self.election.lease })
                }
                (Some(Asked::Closed(_)), _) => {
                    // The gate may be open by now, and has to prove itself again.
                    self.is_fresh = false;
                    Next::Again(Duration::ZERO)
                }
                (Some(_), _) | (None, After::Resign) => Next::Again(self.election.lease),
                (None, After::Stop) => Next::Stop,
            },
        };
        // The lease ends what the server does not confirm.
        let _ = term.resign().await;
        match end {
            End::Returned(Err(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Asks a term in time, and exits at its loss if it should, even if the body blocks its thread.
    fn supervise(&self, term: &Term) {
        let (election, asks, lost) = (self.election.clone(), Arc::clone(term.asks()), term.watch());
        let supervising = async move {
            let exit = async {
                lost.await;
                if let OnLost::Exit(code) = election.on_lost {
                    std::process::exit(code);
                }
                pending::<()>().await;
            };
            tokio::select! {
                biased;
                () = asks.over() => {}
                () = async { election.ask_in_time(&asks).await; pending().await } => {}
                () = exit => {}
            }
        };
        // A forked process has no driver, and no leader.
        let _ = self.election.handle().spawn(Box::pin(supervising));
    }
}

impl Election {
    /// Leads: campaigns, runs the body, and campaigns again, until it is stopped or the body fails.
    ///
    /// The body is an async closure that gets the [`Term`]. It runs anew, with a new token, in each term.
    /// - If it returns `Ok` without being asked, `lead` returns, unless it has called [`Term::resign_after`] or
    ///   [`Term::transfer_after`].
    /// - On a planned end, [`Term::asked`] resolves. The lock stays renewed until the body has ended, for at most
    ///   [`grace`](Self::grace). Then the body is dropped, and then the lock is released.
    /// - If the lease is lost, the body is dropped at its next await point, and the candidate campaigns again, even if the
    ///   body has returned an error meanwhile. With [`OnLost::Finish`], the body runs to its end, and its error ends `lead`.
    /// - While the server does not answer, the candidate tries again. If the password, the certificate or a right is wrong,
    ///   and no term has begun within the first lease, `lead` returns the error.
    ///
    /// # Errors
    /// [`LeadError::Body`] if the body fails, [`LeadError::Campaign`] if this candidate can never lead.
    ///
    /// # Cancel safety
    /// Dropping the future drops the body and then releases the lock.
    ///
    /// # Panics
    /// Passes on a panic of the body. The lock is released after the body has unwound.
    ///
    /// # Losing the lease
    /// See [`Term`] and [`on_lost`](Self::on_lost).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let election = client.election("scheduler");
    /// let led = election.lead(async |term| Ok::<(), std::io::Error>(assert!(term.is_valid()))).await?;
    /// assert_eq!(led.terms, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn lead<E, F>(&self, body: F) -> impl Future<Output = Result<Led, LeadError<E>>> + use<E, F>
    where
        F: AsyncFnMut(&Term) -> Result<(), E>,
    {
        let election = self.clone();
        async move { election.terms(body).await }
    }

    async fn terms<E, F>(self, mut body: F) -> Result<Led, LeadError<E>>
    where
        F: AsyncFnMut(&Term) -> Result<(), E>,
    {
        let mut terms = Terms::new(self);
        while let Some(term) = terms.next().await.map_err(LeadError::Campaign)? {
            let end = terms.election.body(&term, body(&term)).await;
            terms.end(term, end).await.map_err(LeadError::Body)?;
        }
        Ok(terms.led)
    }

    /// Runs a body until it ends, or may not go on. It is dropped when this function returns.
    async fn body<E>(&self, term: &Term, body: impl Future<Output = Result<(), E>>) -> End<E> {
        let mut body = pin!(body);
        let mut lost = pin!(self.lost(term));
        let overran = async {
            term.asked().await;
            sleep(self.handle(), self.grace).await;
        };
        // A body does not begin after its term.
        if term.is_lost() {
            return End::Lost;
        }
        tokio::select! {
            biased;
            () = &mut lost => End::Lost,
            returned = &mut body => End::Returned(returned),
            () = overran => End::Overran,
        }
    }

    /// Completes when the lease is lost and the body may not go on.
    async fn lost(&self, term: &Term) {
        term.lost().await;
        match self.on_lost {
            OnLost::Cancel => {}
            // The driver ends the process.
            OnLost::Finish | OnLost::Exit(_) => pending().await,
        }
    }

    /// Asks the term to end, when it should.
    async fn ask_in_time(&self, asks: &Asks) {
        let max_term = async {
            match self.max_term {
                Some(most) => sleep(self.handle(), most).await,
                None => pending().await,
            }
        };
        let reason = tokio::select! {
            biased;
            () = self.stop.stopped() => Asked::Stopped,
            reason = asks.asked() => reason,
            () = self.settled(false, self.unhealthy_for) => {
                Asked::Closed(self.gate.reason().unwrap_or_else(|| "".into()))
            }
            () = max_term => Asked::MaxTerm,
        };
        asks.ask(reason);
    }

    /// Waits until this candidate leads, with attempts only while the gate is open.
    async fn gated(&self, is_fresh: &mut bool) -> Result<Term, AcquireError> {
        loop {
            if !self.gate.is_open() {
                *is_fresh = false;
            }
            // A gate that was open from the beginning needs no time to prove it.
            if !*is_fresh {
                self.settled(true, self.healthy_for).await;
                *is_fresh = true;
            }
            tokio::select! {
                biased;
                () = self.gate.until(false) => {}
                elected = self.elected() => return elected,
            }
        }
    }

    /// Completes when the gate has been open, or closed, for this long.
    async fn settled(&self, open: bool, time: Duration) {
        loop {
            self.gate.until(open).await;
            tokio::select! {
                biased;
                () = self.gate.until(!open) => {}
                () = sleep(self.handle(), time) => return,
            }
        }
    }

    /// Pauses, unless the election is stopped.
    async fn pause(&self, pause: Duration) {
        if pause.is_zero() {
            return;
        }
        tokio::select! {
            biased;
            () = self.stop.stopped() => {}
            () = sleep(self.handle(), pause) => {}
        }
    }
}

/// Returns true if no later attempt can succeed.
fn is_final(error: &AcquireError) -> bool {
    use AcquireErrorKind as Kind;
    match &error.kind {
        Kind::Unknown { .. } => false,
        Kind::Closed | Kind::Forked => true,
        _ => !error.is_retryable() && !error.is_unavailable(),
    }
}
