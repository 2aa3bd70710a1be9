//! One user: the common part of all workloads.
//!
//! Invariant: as in the parent module.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold::error::{AcquireErrorKind, EnsureErrorKind, FreeWithin, ReleaseErrorKind};
use leasehold::{AcquireError, Client, Confirm, EnsureError, Owner, ReleaseError};

use super::held::Held;
use crate::environment::Env;
use crate::history::{Event, Op, Outcome, What};
use crate::mode::Mode;
use crate::plan::{Confirmed, REPLICAS};
use crate::recorder::Claim;
use crate::recorder::view::Terms;
use crate::taken::Taken;

/// A user, with an owner of its own for re-entry.
pub(super) struct User {
    pub(super) env: Env,
    pub(super) client: Client,
    pub(super) owner: Owner,
    /// The number of that owner.
    number: u64,
    closed: bool,
}

/// The mode in which a hold is kept alive and bounded.
#[derive(Clone, Copy, Debug)]
pub(super) enum LeaseMode {
    Watched,
    Fixed,
    AtMost(Duration),
    Renewals(u32),
    AtLeast(Duration),
}

/// The terms of a hold that the judge does not need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Policy {
    pub(super) mode: LeaseMode,
    /// The replicas that confirm the hold, or `None` for the client's.
    pub(super) replicas: Option<Confirm>,
}

impl User {
    pub(super) fn new(env: Env, client: Client) -> Self {
        let number = env.recorder.next_op().0;
        Self { owner: client.owner(), number, env, client, closed: false }
    }

    pub(super) fn may_continue(&self) -> bool {
        self.env.now() < self.env.plan.stop_at && !self.closed
    }

    /// Returns true in the rush at the end of a run.
    pub(super) fn rushes(&self) -> bool {
        self.env.plan.rush_at.is_some_and(|rush_at| self.env.now() >= rush_at)
    }

    pub(super) async fn think(&mut self) {
        let think = self.env.plan.think_max;
        self.env.nap(think).await;
    }

    /// Ends the user. Some users close the client, except where others may lead, whose terms a close does not end as planned.
    pub(super) async fn leave(mut self) {
        let may_close = self.env.plan.mode != Mode::Election;
        if self.env.rng.u8(0..4) == 0 && may_close {
            let op = self.begin("", What::Close, Some(self.env.plan.timeout));
            let _ = self.client.close().await;
            self.finish(op, Outcome::Done);
        }
    }

    /// Returns random terms.
    pub(super) fn terms(&mut self) -> (Terms, Policy) {
        let rng = &mut self.env.rng;
        let lease = *rng.choice(&self.env.plan.leases).expect("there are leases");
        let mode = match rng.u8(0..10) {
            0 | 1 if self.env.plan.has_min_holds => LeaseMode::AtLeast(lease.mul_f64(0.5 + rng.f64())),
            0..=5 => LeaseMode::Watched,
            6 | 7 => LeaseMode::Fixed,
            8 => LeaseMode::AtMost(lease.mul_f64(0.2 + 2.0 * rng.f64())),
            _ => LeaseMode::Renewals(rng.u32(0..3)),
        };
        let watched = matches!(mode, LeaseMode::Watched | LeaseMode::AtLeast(_));
        let min_hold = if let LeaseMode::AtLeast(min_hold) = mode { Some(min_hold) } else { None };
        (Terms { lease, watched, min_hold }, Policy { mode, replicas: self.replicas() })
    }

    /// Returns the policy of one hold, in a plan where each hold has its own. All replicas are needed by each of them.
    fn replicas(&mut self) -> Option<Confirm> {
        let of_holds = self.env.plan.fleet.is_some_and(|fleet| fleet.confirmed == Confirmed::OfHolds);
        let policies = [Confirm::all(REPLICAS), Confirm::AtLeast(REPLICAS)];
        of_holds.then(|| *self.env.rng.choice(&policies).expect("some"))
    }

    /// Returns the user's own owner or a new owner, with a unique number.
    pub(super) fn owner(&self, own: bool) -> (Owner, u64) {
        if own { (self.owner, self.number) } else { (self.client.owner(), self.env.recorder.next_op().0) }
    }

    /// Returns the wait, and the time within which the operation must end, if it is bounded.
    pub(super) fn wait(&mut self, what: What, lease: Duration) -> (Duration, Option<Duration>) {
        let timeout = self.env.plan.timeout;
        // Some waits end while the first request is in flight.
        let longest = if self.env.rng.u8(0..4) == 0 { timeout } else { lease.mul_f64(1.5) };
        let wait = self.env.some_of(longest);
        let within = match what {
            What::TryLock | What::TryLockAll => Some(timeout),
            What::TryLockFor | What::TryLockAllFor | What::Wait => {
                Some(if wait.is_zero() { timeout } else { wait })
            }
            _ => None,
        };
        (wait, within)
    }

    /// Awaits an acquire, and records its guard in the same poll.
    pub(super) async fn acquire<G>(
        &mut self,
        op: Op,
        waiting: impl Future<Output = Result<Option<G>, AcquireError>>,
        claims: impl FnOnce(G) -> (Taken, Vec<Claim>),
    ) -> Option<Held> {
        match self.unless_dropped(op, waiting).await? {
            Ok(Some(guard)) => {
                let (taken, claims) = claims(guard);
                let held = Held::new(&self.env, op, taken, claims);
                self.finish(op, Outcome::Done);
                Some(held)
            }
            Ok(None) => {
                self.finish(op, Outcome::Contended);
                None
            }
            Err(error) => {
                self.closed |= error == AcquireErrorKind::Closed;
                self.finish(op, outcome_of(&error));
                None
            }
        }
    }

    /// Holds for a while, with an occasional `ensure`, or until the hold is lost.
    pub(super) async fn hold(&mut self, held: &Held, terms: Terms) {
        let longest = if self.env.rng.u8(0..3) == 0 { terms.lease.mul_f64(1.5) } else { terms.lease / 4 };
        let span = self.env.some_of(longest);
        let environment = Arc::clone(&self.env.environment);
        if let Either::Right(_) = select(environment.sleep(span), pin!(held.lost())).await {
            return;
        }
        if self.env.rng.u8(0..6) == 0 {
            let more = held.remaining().saturating_add(self.env.some_of(terms.lease / 4));
            let op = self.begin(held.guard().name(), What::Ensure, Some(self.env.plan.timeout));
            let Some(outcome) = self.unless_dropped(op, held.ensure(more)).await else { return };
            let outcome = match outcome {
                Ok(()) => Outcome::Done,
                Err(EnsureError { kind: EnsureErrorKind::Lost(reason), .. }) => Outcome::Lost(reason),
                Err(error) => Outcome::Other(error.to_string()),
            };
            self.finish(op, outcome);
        }
    }

    /// Ends the hold in a random way.
    pub(super) async fn end(&mut self, held: Held, name: &str) {
        match self.env.rng.u8(0..10) {
            0..=5 => {
                let op = self.begin(name, What::Release, Some(self.env.plan.timeout));
                let Some(outcome) = self.unless_dropped(op, held.release()).await else { return };
                let outcome = match outcome {
                    Ok(released) => Outcome::Released(released),
                    Err(ReleaseError {
                        kind: ReleaseErrorKind::Unconfirmed { free_within, source, .. },
                        ..
                    }) => Outcome::Unknown(bound(free_within), format!("{:?}", source.kind)),
                    Err(error) => Outcome::Other(error.to_string()),
                };
                self.finish(op, outcome);
            }
            6..=8 => drop(held),
            _ => held.detach(),
        }
    }

    pub(super) fn begin(&self, name: &str, what: What, within: Option<Duration>) -> Op {
        let op = self.env.recorder.next_op();
        let requested = Event::Requested { op, process: self.env.process, name: name.into(), what, within };
        self.env.record(requested);
        op
    }

    pub(super) fn finish(&self, op: Op, outcome: Outcome) {
        self.env.record(Event::Completed { op, outcome });
    }

    /// Awaits a future or, while futures are being dropped, polls it for a limited number of times or a limited time.
    pub(super) async fn unless_dropped<F: Future>(&mut self, op: Op, future: F) -> Option<F::Output> {
        if !self.env.environment.drops_futures(self.env.process) || self.env.rng.bool() {
            return Some(future.await);
        }
        let mut polls_left = self.env.rng.u8(0..6);
        let most = self.env.plan.latency_max * 4;
        let mut expiry = if self.env.rng.bool() {
            polls_left = u8::MAX;
            let span = self.env.some_of(most);
            self.env.environment.sleep(span)
        } else {
            Box::pin(std::future::pending())
        };
        let outcome = {
            let mut future = pin!(future);
            poll_fn(|cx| {
                if polls_left == 0 || expiry.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                polls_left = polls_left.saturating_sub(1);
                future.as_mut().poll(cx).map(Some)
            })
            .await
        };
        if outcome.is_none() {
            self.env.record(Event::Dropped { op });
        }
        outcome
    }
}

/// Returns the bound, or a duration longer than any run if there is none.
fn bound(free_within: FreeWithin) -> Duration {
    free_within.bound().unwrap_or(Duration::from_nanos(u64::MAX))
}

fn outcome_of(error: &AcquireError) -> Outcome {
    match &error.kind {
        AcquireErrorKind::Store(source) => Outcome::NotApplied(format!("{:?}", source.kind)),
        AcquireErrorKind::Unknown { free_within, source, .. } => {
            Outcome::Unknown(bound(*free_within), format!("{:?}", source.kind))
        }
        AcquireErrorKind::Lost(reason) => Outcome::Lost(*reason),
        AcquireErrorKind::AlreadyHeld => Outcome::AlreadyHeld,
        AcquireErrorKind::Deadlock => Outcome::Deadlock,
        AcquireErrorKind::Closed => Outcome::Closed,
        _ => Outcome::Other(error.to_string()),
    }
}
