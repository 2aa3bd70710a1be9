//! Users of the reentrant lock.
//!
//! Invariant: as every workload's.
//! Called by: `live`, one user at a time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::{Either, select};
use leasehold::{AcquireError, EnsureError, InspectError, Lock, Owner, ReleaseError};

use super::held::Held;
use crate::ground::Env;
use crate::history::{Event, Op, Outcome, What};
use crate::recorder::Terms;

/// A user, with an owner of its own for what it takes twice.
struct User {
    env: Env,
    owner: Owner,
    closed: bool,
}

/// A user's life: it takes locks until the plan says stop.
pub(super) async fn live(env: Env) {
    let Some(client) = env.client.clone() else { return };
    let mut user = User { owner: client.owner(), env, closed: false };
    while user.env.now() < user.env.plan.stop_at && !user.closed {
        let think = user.env.plan.think_max;
        user.env.nap(think).await;
        let name = Arc::clone(user.env.rng.choice(&user.env.plan.names).expect("there are names"));
        let lock = client.lock(&*name);
        match user.env.rng.u8(0..20) {
            0 => user.look(&lock, &name).await,
            _ => user.work(&lock, &name).await,
        }
    }
    if user.env.rng.u8(0..4) == 0 {
        let op = user.ask("", What::Close, Some(user.env.plan.timeout));
        let _ = client.close().await;
        user.answer(op, Outcome::Done);
    }
}

impl User {
    /// Takes a lock, holds it, gives it back.
    async fn work(&mut self, lock: &Lock, name: &Arc<str>) {
        let (lock, terms) = self.on_terms(lock);
        let reenters = self.env.rng.u8(0..4) == 0;
        let lock = if reenters { lock.owned_by(&self.owner) } else { lock };
        let what =
            *self.env.rng.choice(&[What::Lock, What::Lock, What::TryLock, What::TryLockFor]).expect("some");
        let Some(held) = self.acquire(&lock, name, what, terms).await else { return };
        self.hold(&held, terms).await;
        if reenters {
            if let Some(inner) = self.acquire(&lock, name, What::Reenter, terms).await {
                self.hold(&inner, terms).await;
                self.end(inner, name).await;
            }
            self.hold(&held, terms).await;
        }
        self.end(held, name).await;
    }

    /// The lock on random terms.
    fn on_terms(&mut self, lock: &Lock) -> (Lock, Terms) {
        let rng = &mut self.env.rng;
        let lease = *rng.choice(&self.env.plan.leases).expect("there are leases");
        let (lock, watched) = match rng.u8(0..10) {
            0..=5 => (lock.clone().watchdog(lease), true),
            6 | 7 => (lock.clone().lease(lease), false),
            8 => (lock.clone().watchdog(lease).max_hold(lease.mul_f64(0.2 + 2.0 * rng.f64())), false),
            _ => (lock.clone().watchdog(lease).max_renewals(rng.u32(0..3)), false),
        };
        (lock, Terms { lease, watched })
    }

    async fn acquire(&mut self, lock: &Lock, name: &Arc<str>, what: What, terms: Terms) -> Option<Held> {
        // Some give up while their first question is on its way.
        let longest =
            if self.env.rng.u8(0..4) == 0 { self.env.plan.timeout } else { terms.lease.mul_f64(1.5) };
        let wait = self.env.some_of(longest);
        let within = match what {
            What::TryLock => Some(self.env.plan.timeout),
            What::TryLockFor => {
                Some(wait.max(self.env.plan.timeout.mul_f64(f64::from(u8::from(wait.is_zero())))))
            }
            _ => None,
        };
        let op = self.ask(name, what, within);
        let waiting = async {
            match what {
                What::TryLock => lock.try_lock().await,
                What::TryLockFor => lock.try_lock_for(wait).await,
                _ => lock.lock().await.map(Some),
            }
        };
        match self.unless_dropped(op, waiting).await? {
            Ok(Some(guard)) => {
                let Env { recorder, ground, process, .. } = &self.env;
                let held = Held::new(recorder, ground, op, *process, guard, terms);
                self.answer(op, Outcome::Done);
                Some(held)
            }
            Ok(None) => {
                self.answer(op, Outcome::Contended);
                None
            }
            Err(error) => {
                self.closed |= error == AcquireError::Closed;
                self.answer(op, outcome_of(&error));
                None
            }
        }
    }

    /// Keeps it for a while, asking for more time now and then, or until it is lost.
    async fn hold(&mut self, held: &Held, terms: Terms) {
        let longest = if self.env.rng.u8(0..3) == 0 { terms.lease.mul_f64(1.5) } else { terms.lease / 4 };
        let span = self.env.some_of(longest);
        let ground = Arc::clone(&self.env.ground);
        if let Either::Right(_) = select(ground.sleep(span), pin!(held.lost())).await {
            return;
        }
        if self.env.rng.u8(0..6) == 0 {
            let more = held.remaining() + self.env.some_of(terms.lease / 4);
            let op = self.ask(held.guard().name(), What::Ensure, Some(self.env.plan.timeout));
            let Some(outcome) = self.unless_dropped(op, held.guard().ensure(more)).await else { return };
            let outcome = match outcome {
                Ok(()) => Outcome::Done,
                Err(EnsureError::Lost { reason }) => Outcome::Lost(reason),
                Err(error) => Outcome::Other(error.to_string()),
            };
            self.answer(op, outcome);
        }
    }

    async fn end(&mut self, held: Held, name: &Arc<str>) {
        match self.env.rng.u8(0..10) {
            0..=5 => {
                let op = self.ask(name, What::Release, Some(self.env.plan.timeout));
                let Some(outcome) = self.unless_dropped(op, held.release()).await else { return };
                let outcome = match outcome {
                    Ok(released) => Outcome::Released(released),
                    Err(ReleaseError::Unconfirmed { free_within, source }) => {
                        Outcome::Unknown(free_within, format!("{:?}", source.kind))
                    }
                    Err(error) => Outcome::Other(error.to_string()),
                };
                self.answer(op, outcome);
            }
            6..=8 => drop(held),
            _ => held.keep(),
        }
    }

    async fn look(&mut self, lock: &Lock, name: &Arc<str>) {
        let op = self.ask(name, What::Look, Some(self.env.plan.timeout));
        let Some(outcome) = self.unless_dropped(op, lock.remaining()).await else { return };
        let outcome = match outcome {
            Ok(_) => Outcome::Done,
            Err(InspectError::Closed) => Outcome::Closed,
            Err(error) => Outcome::Other(error.to_string()),
        };
        self.answer(op, outcome);
    }

    fn ask(&self, name: &str, what: What, within: Option<Duration>) -> Op {
        let op = self.env.recorder.next_op();
        let asked = Event::Asked { op, process: self.env.process, name: name.into(), what, within };
        self.env.recorder.record(self.env.now(), asked);
        op
    }

    fn answer(&self, op: Op, outcome: Outcome) {
        self.env.recorder.record(self.env.now(), Event::Answered { op, outcome });
    }

    /// Polls a future to its end or, when futures are being dropped, only so often or so long.
    async fn unless_dropped<F: Future>(&mut self, op: Op, future: F) -> Option<F::Output> {
        if !self.env.ground.drops_futures(self.env.process) || self.env.rng.bool() {
            return Some(future.await);
        }
        let mut polls_left = self.env.rng.u8(0..6);
        let most = self.env.plan.latency_max * 4;
        let mut expiry = if self.env.rng.bool() {
            polls_left = u8::MAX;
            let span = self.env.some_of(most);
            self.env.ground.sleep(span)
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
            self.env.recorder.record(self.env.now(), Event::Dropped { op });
        }
        outcome
    }
}

fn outcome_of(error: &AcquireError) -> Outcome {
    match error {
        AcquireError::Store(source) => Outcome::NotApplied(format!("{:?}", source.kind)),
        AcquireError::Unknown { free_within, source } => {
            Outcome::Unknown(*free_within, format!("{:?}", source.kind))
        }
        AcquireError::Lost { reason } => Outcome::Lost(*reason),
        AcquireError::Closed => Outcome::Closed,
        other => Outcome::Other(other.to_string()),
    }
}
