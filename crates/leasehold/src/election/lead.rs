//! Leads term after term: campaigns, runs a body as the leader, ends the term, and campaigns again.
//!
//! Invariant: on a planned end the lease is renewed until the body has ended or is dropped, and only then released. So no
//! two bodies of one election run at the same time, unless a lease is lost under a body that does not await.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use super::handle::Election;
use super::policy::{Asked, LeadError, Led, OnLost};
use super::term::{After, Term};
use crate::error::AcquireError;
use crate::runtime::shared::sleep;

/// The longest pause after an involuntary end.
const REST_MAX: Duration = Duration::from_secs(30);
/// The length of a term after which the pauses begin anew.
const STABLE: Duration = Duration::from_secs(60);

/// How a body ended.
enum End<E> {
    Returned(Result<(), E>),
    /// It was dropped after its grace.
    Overran,
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

impl Election {
    /// Leads: campaigns, runs the body, and campaigns again, until it is stopped or the body fails.
    ///
    /// The body is an async closure that gets the [`Term`]. It runs anew, with a new token, in each term.
    /// - If it returns `Ok` without being asked, `lead` returns, unless it has called [`Term::resign_after`] or
    ///   [`Term::transfer_after`].
    /// - On a planned end, [`Term::asked`] resolves. The lock stays renewed until the body has ended, for at most
    ///   [`grace`](Self::grace). Then the body is dropped, and then the lock is released.
    /// - If the lease is lost, the body is dropped at its next await point, and the candidate campaigns again.
    /// - While the server does not answer, the candidate tries again.
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
        let _running = std::sync::Arc::clone(&self.stop).begin();
        let (mut led, mut rest) = (Led::default(), self.rest);
        let mut is_fresh = true;
        while !self.stop.is_stopped() {
            let elected = tokio::select! {
                biased;
                () = self.stop.stopped() => break,
                elected = self.gated(&mut is_fresh) => elected,
            };
            let term = match elected {
                Ok(term) => term,
                Err(error) if is_final(&error) => return Err(LeadError::Campaign(error)),
                Err(_) => {
                    self.pause(rest).await;
                    rest = (rest * 2).min(REST_MAX);
                    continue;
                }
            };
            led = Led { terms: led.terms + 1, last: Some(term.token()) };
            let began = self.handle().now();
            let next = self.term(term, &mut body).await.map_err(LeadError::Body)?;
            if self.handle().now().since(began) >= STABLE {
                rest = self.rest;
            }
            match next {
                Next::Stop => break,
                Next::Again(pause) => self.pause(pause).await,
                Next::Rest => {
                    self.pause(rest).await;
                    rest = (rest * 2).min(REST_MAX);
                }
            }
        }
        Ok(led)
    }

    /// Runs one term to its end.
    async fn term<E, F>(&self, term: Term, body: &mut F) -> Result<Next, E>
    where
        F: AsyncFnMut(&Term) -> Result<(), E>,
    {
        let end = self.body(&term, body(&term)).await;
        let asked = term.asks().reason();
        let next = match &end {
            End::Lost => Next::Rest,
            End::Returned(Err(_)) => Next::Stop,
            _ if asked == Some(Asked::Stopped) => Next::Stop,
            _ => match (asked, term.after()) {
                (Some(Asked::Transfer(to)), _) | (None, After::Transfer(to)) => {
                    // Without such a candidate the release below frees the lock.
                    let passed = term.transfer_to(&to).await;
                    Next::Again(if passed.is_ok() { Duration::ZERO } else { self.lease })
                }
                (Some(Asked::Closed(_)), _) => Next::Again(Duration::ZERO),
                (Some(_), _) | (None, After::Resign) => Next::Again(self.lease),
                (None, After::Stop) => Next::Stop,
            },
        };
        // The lease ends what the server does not confirm.
        let _ = term.resign().await;
        match end {
            End::Returned(Err(error)) => Err(error),
            _ => Ok(next),
        }
    }

    /// Runs a body until it ends, or may not go on. It is dropped when this function returns.
    async fn body<E>(&self, term: &Term, body: impl Future<Output = Result<(), E>>) -> End<E> {
        let mut body = pin!(body);
        let mut lost = pin!(self.lost(term));
        let overran = async {
            let reason = self.asked(term).await;
            term.asks().ask(reason);
            sleep(self.handle(), self.grace).await;
        };
        tokio::select! {
            biased;
            () = &mut lost => End::Lost,
            returned = &mut body => match returned {
                Ok(()) if !term.is_valid() && !term.is_over() => End::Lost,
                returned => End::Returned(returned),
            },
            () = overran => End::Overran,
        }
    }

    /// Completes when the lease is lost and the body may not go on.
    async fn lost(&self, term: &Term) {
        term.lost().await;
        match self.on_lost {
            OnLost::Cancel => {}
            OnLost::Finish => pending().await,
            OnLost::Exit(code) => std::process::exit(code),
        }
    }

    /// Completes when the term should end, with the reason.
    async fn asked(&self, term: &Term) -> Asked {
        let max_term = async {
            match self.max_term {
                Some(most) => sleep(self.handle(), most).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.stop.stopped() => Asked::Stopped,
            reason = term.asked() => reason,
            () = self.settled(false, self.unhealthy_for) => {
                Asked::Closed(self.gate.reason().unwrap_or_else(|| "".into()))
            }
            () = max_term => Asked::MaxTerm,
        }
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
            () = self.stop.stopped() => {}
            () = sleep(self.handle(), pause) => {}
        }
    }
}

/// Returns true if no later attempt can succeed.
fn is_final(error: &AcquireError) -> bool {
    use crate::error::AcquireErrorKind as Kind;
    match &error.kind {
        Kind::Unknown { .. } => false,
        Kind::Closed | Kind::Forked => true,
        _ => !error.is_retryable() && !error.is_unavailable(),
    }
}
