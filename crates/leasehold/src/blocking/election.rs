//! Leader election, for threads that block.
//!
//! Invariant: a thread cannot be stopped, so a body that has begun runs to its end, and the lock is released afterwards.

use std::time::Duration;

use leasehold_proto::Confirm;
use leasehold_proto::engine::LostReason;

use super::forward::{convert, forward};
use super::park::park;
use crate::election::{Asked, End, Gate, LeadError, Leader, Led, OnLost, State, Terms, Validity};
use crate::error::{InspectError, ReleaseError, RunError, TransferError};
use crate::lock::guard::ReleaseOutcome;

/// An election of one leader among all processes: [`leasehold::Election`](crate::Election). Cheap to clone.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = leasehold::blocking::Client::connect("memory://")?;
/// let election = client.election("scheduler").candidate("host-a:4711");
/// let led = election.lead(|term| Ok::<(), std::io::Error>(assert!(term.is_valid())))?;
/// assert_eq!(led.terms, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election(crate::Election);

/// A term as the leader: [`leasehold::Term`](crate::Term). Dropping it releases the lock.
///
/// # Losing the lease
/// As for [`leasehold::Term`](crate::Term). The library cannot stop a thread, so check [`is_valid`](Self::is_valid) before
/// each step.
#[must_use = "dropping a term releases the lock at once"]
#[derive(Debug)]
pub struct Term(crate::Term);

/// Follows who leads: [`leasehold::election::Observer`](crate::election::Observer).
#[derive(Debug)]
pub struct Observer(crate::election::Observer);

/// Ends the terms of an election: [`leasehold::election::Stopper`](crate::election::Stopper).
#[derive(Clone, Debug)]
pub struct Stopper(crate::election::Stopper);

impl Election {
    forward! { Election as crate::Election;
        /// Sets the name of this candidate (default: `host:pid`).
        set fn candidate(self, candidate: &str) -> Self;
        /// Sets a text for observers.
        set fn info(self, info: &str) -> Self;
        /// Sets the lease that the leader renews (default 10 s).
        set fn watchdog(self, lease: Duration) -> Self;
        /// Has no effect on a blocking body, which runs to its end.
        set fn grace(self, grace: Duration) -> Self;
        /// Limits the wait of [`campaign`](Self::campaign) (default: no limit).
        set fn wait(self, wait: Duration) -> Self;
        /// Sets the effect of a lost lease. [`OnLost::Cancel`], the default, cannot stop a body that has begun.
        set fn on_lost(self, on_lost: OnLost) -> Self;
        /// Sets the pause after an involuntary end (default 1 s, doubled up to 30 s).
        set fn rest(self, rest: Duration) -> Self;
        /// Lets the lease of a leader run out that does not call [`Term::beat`] at least this often (default: never).
        set fn silent_for(self, most: Duration) -> Self;
        /// Sets how many replicas confirm a term (default: those of the client).
        set fn replicas(self, policy: Confirm) -> Self;
        /// Limits the length of a term (default: no limit).
        set fn max_term(self, most: Duration) -> Self;
        /// Lets `lead` campaign only while the gate is open.
        set fn when(self, gate: &Gate) -> Self;
        /// Sets the time for which the gate has to be closed before a leader is asked to end its term (default 5 s).
        set fn unhealthy_for(self, unhealthy_for: Duration) -> Self;
        /// Sets the time for which the gate has to be open again before attempts (default 5 s).
        set fn healthy_for(self, healthy_for: Duration) -> Self;
        /// Sets the priority of this candidate, from 0, the default and the first, to 20.
        set fn priority(self, priority: u32) -> Self;
        /// Campaigns until this candidate leads, for one term by hand.
        wait fn campaign(&self) -> Result<Term, RunError>;
        /// Returns the present leader, or `None` if nobody leads.
        wait fn leader(&self) -> Result<Option<Leader>, InspectError>;
        /// Asks the present leader to end its term. Returns true once it has heard.
        wait fn request_resign(&self) -> Result<bool, InspectError>;
        /// Asks the present leader to pass its term on to this candidate.
        wait fn request_transfer(&self, candidate: &str) -> Result<bool, InspectError>;
        /// Returns an observer of who leads.
        get fn observe(&self) -> Observer;
        /// Returns a handle that ends the terms of `lead`.
        get fn stopper(&self) -> Stopper;
    }

    /// Leads: campaigns, runs the body on this thread, and campaigns again, until it is stopped or the body fails.
    ///
    /// As [`Election::lead`](crate::Election::lead), except that a body that has begun runs to its end. Let it check
    /// [`Term::is_valid`] before each step, and [`Term::is_asked`] between them. The lock is renewed until the body has
    /// returned, and released afterwards.
    ///
    /// # Errors
    /// As [`Election::lead`](crate::Election::lead).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code), or if the body panics, which releases the lock.
    #[track_caller]
    pub fn lead<E>(&self, mut body: impl FnMut(&Term) -> Result<(), E>) -> Result<Led, LeadError<E>> {
        let mut terms = Terms::new(self.0.clone());
        while let Some(term) = park("Election::lead", terms.next()).map_err(LeadError::Campaign)? {
            let term = Term(term);
            let end = End::Returned(body(&term));
            park("Election::lead", terms.end(term.0, end)).map_err(LeadError::Body)?;
        }
        Ok(terms.led)
    }
}

impl Term {
    forward! { Term as crate::Term;
        /// Returns the fencing token.
        get fn token(&self) -> u64;
        /// Returns true if this process leads now, by the clock. Costs no round trip.
        get fn is_valid(&self) -> bool;
        /// Returns true if the leader should end its term.
        get fn is_asked(&self) -> bool;
        /// Returns the time for which this process leads without a renewal.
        get fn remaining(&self) -> Duration;
        /// Returns a reader of the validity for other threads.
        get fn validity(&self) -> Validity;
        /// Waits until the lease is lost, and returns the reason. Call it on a thread of its own.
        until fn lost(&self) -> LostReason;
        /// Waits until the leader should end its term, and returns the reason.
        until fn asked(&self) -> Asked;
        /// Ends the term: releases the lock and tells the observers.
        wait fn resign(self) -> Result<ReleaseOutcome, ReleaseError>;
        /// Passes the term on to a waiting candidate. The lock is free at no instant.
        wait fn transfer_to(&self, candidate: &str) -> Result<(), TransferError>;
    }

    /// Shows that the leader is alive. See [`Term::beat`](crate::Term::beat).
    pub fn beat(&self) {
        self.0.beat();
    }

    /// Lets `lead` campaign again after the body. See [`Term::resign_after`](crate::Term::resign_after).
    pub fn resign_after(&self) {
        self.0.resign_after();
    }

    /// Lets `lead` pass the term on after the body. See [`Term::transfer_after`](crate::Term::transfer_after).
    pub fn transfer_after(&self, candidate: &str) {
        self.0.transfer_after(candidate);
    }
}

impl Observer {
    forward! { Observer as crate::election::Observer;
        /// Returns the latest state.
        get fn current(&self) -> State;
    }

    /// Blocks until the state differs from the one that this method returned last. See
    /// [`Observer::changed`](crate::election::Observer::changed).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn changed(&mut self) -> Option<State> {
        park("Observer::changed", self.0.changed())
    }
}

impl Stopper {
    /// Asks the bodies to end, and blocks until each `lead` has returned. See
    /// [`Stopper::stop`](crate::election::Stopper::stop).
    ///
    /// # Panics
    /// Panics in [async code](crate::blocking#in-async-code).
    #[track_caller]
    pub fn stop(&self) {
        park("Stopper::stop", self.0.stop());
    }
}

convert!(Election = crate::Election);
convert!(Term = crate::Term);
convert!(Observer = crate::election::Observer);
convert!(Stopper = crate::election::Stopper);
