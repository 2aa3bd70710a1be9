//! Queries: calls that bypass the engine, and futures that run on the driver's thread.
//!
//! Invariant: a query changes nothing that the engine knows.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, PoisonError, Weak};
use std::task::Context;

use futures_util::future::BoxFuture;
use leasehold_proto::engine::Fact;
use leasehold_proto::recipe::reentrant::holders;
use leasehold_proto::recipe::{Holders, plain};
use leasehold_proto::{Applied, Call, Channel, Name, Reply, StoreError, StoreErrorKind, Verb};
use leasehold_store::{Heard, Subscription};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;

use super::{Command, Effects, Shared, State};
use crate::error::{Forked, InspectErrorKind};
use crate::observe::has_holders;

impl Shared {
    /// Runs a future on the driver's thread, until it or the client ends.
    pub(crate) fn spawn(&self, future: BoxFuture<'static, ()>) -> Result<(), Forked> {
        let mut state = self.enter()?;
        if !state.ended {
            state.commands.push(Command::Spawn(future));
        }
        self.leave(state, Effects::default());
        Ok(())
    }

    /// Sends a call whose outcome nobody awaits, such as a hint to others.
    pub(crate) fn tell(&self, call: Call) {
        let (reply_to, _) = oneshot::channel();
        // A forked process has nothing to tell.
        let Ok(mut state) = self.enter() else { return };
        if !state.ended {
            state.commands.push(Command::Query(call, reply_to));
        }
        self.leave(state, Effects::default());
    }

    /// Listens on a channel, until the returned subscription is dropped. Returns `None` if the client has ended.
    pub(crate) async fn listen_to(
        &self,
        channel: Channel,
        hear: UnboundedSender<Heard>,
    ) -> Option<Subscription> {
        let (reply_to, subscribed) = oneshot::channel();
        {
            let mut state = self.enter().ok()?;
            if state.ended {
                return None;
            }
            state.commands.push(Command::Listen(channel, hear, reply_to));
            self.leave(state, Effects::default());
        }
        subscribed.await.ok()
    }

    /// Returns what all handles of this name share, and makes it if there is none.
    pub(crate) fn common<T: Any + Send + Sync>(&self, name: &Name, make: impl FnOnce() -> Arc<T>) -> Arc<T> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        let known = common.get(name).and_then(Weak::upgrade).and_then(|any| any.downcast().ok());
        known.unwrap_or_else(|| {
            common.retain(|_, any| any.strong_count() > 0);
            let made = make();
            let any: Arc<dyn Any + Send + Sync> = Arc::clone(&made) as _;
            common.insert(name.clone(), Arc::downgrade(&any));
            made
        })
    }

    /// Sends a call in which the engine has no part.
    async fn send_query(&self, call: Call) -> Result<Option<Result<Reply, StoreError>>, Forked> {
        let (reply_to, mut reply) = oneshot::channel();
        let wait = self.next_id();
        {
            let mut state = self.enter()?;
            if state.engine.is_closed() {
                return Ok(None);
            }
            state.commands.push(Command::Query(call, reply_to));
            self.leave(state, Effects::default());
        }
        poll_fn(|cx| {
            self.check_process()?;
            let watched = self.watched(wait, cx.waker())?;
            let mut cx = Context::from_waker(watched.as_ref().unwrap_or(cx.waker()));
            Pin::new(&mut reply).poll(&mut cx).map(|answer| Ok(answer.ok()))
        })
        .await
    }

    /// Sends a call in which the engine has no part, and reads its reply.
    pub(crate) async fn query<T>(
        &self,
        call: Call,
        read: impl FnOnce(&Reply) -> Option<T>,
    ) -> Result<T, InspectErrorKind> {
        let (verb, key) = (call.verb(), call.subject());
        let answer = self.send_query(call).await?.ok_or(InspectErrorKind::Closed)?;
        let malformed = || StoreError::new(StoreErrorKind::Malformed, verb, key, Applied::Unknown);
        let read = answer.and_then(|reply| read(&reply).ok_or_else(malformed));
        Ok(read.map_err(surely_untouched)?)
    }
}

impl State {
    /// Asks the server who holds what was waited for too long. The observers behind the queue are told with the answer.
    pub(super) fn ask_holders(&mut self, facts: &[Fact]) {
        let observers = self.observers.as_ref().filter(|observers| observers.are_queued());
        let Some(observers) = observers else { return };
        for patient in facts.iter().filter(|fact| has_holders(fact)) {
            let Fact::Patient { subject, .. } = patient else { continue };
            let (reply_to, reply) = oneshot::channel();
            let is_plain = subject.recipe.is_plain();
            let question = if is_plain { plain::holder(&subject.name) } else { holders(&subject.name) };
            self.commands.push(Command::Query(question, reply_to));
            let (observers, own, patient) = (Arc::clone(observers), self.engine.client(), patient.clone());
            let read = move |reply: Reply| {
                if is_plain { plain::read_holders(&reply, own) } else { Holders::read(&reply) }
            };
            self.commands.push(Command::Spawn(Box::pin(async move {
                let reply = reply.await.ok().and_then(Result::ok);
                let holders = reply.and_then(read).unwrap_or_default();
                observers.patient(patient, holders, own);
            })));
        }
    }
}

/// Marks the error of an inspect or a forced release as certainly not applied where that is true. An inspect writes
/// nothing, and a forced release refuses a key of another type before it writes.
fn surely_untouched(error: StoreError) -> StoreError {
    match (error.during, error.kind) {
        (Verb::Inspect, _) | (Verb::ForceRelease, StoreErrorKind::WrongType) => error.not_applied(),
        _ => error,
    }
}
