//! The driver: brings replies, messages and timers to the engine, and executes its actions on the store.
//!
//! Invariant: it decides nothing. It runs on a thread of the client's own, so neither a busy runtime nor a dropped
//! future of the application can delay or stop it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::engine::{Action, CallId, Event};
use leasehold_proto::{Call, Channel, Reply, StoreError};
use leasehold_store::{Alarm, Heard, Store, Subscription};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::oneshot;

use crate::shared::{Order, Shared};

/// The recipient of a call's result.
enum Caller {
    Engine(CallId),
    Somebody(oneshot::Sender<Result<Reply, StoreError>>),
}

/// Runs until the client has ended. `timeout` bounds the calls that do not come from the engine.
pub(crate) async fn drive<S: Store, A: Alarm>(
    shared: Arc<Shared>,
    store: S,
    mut alarm: A,
    timeout: Duration,
) {
    let (hear, mut heard) = mpsc::unbounded_channel();
    let mut calls = FuturesUnordered::new();
    let mut kept = FuturesUnordered::new();
    let mut subscriptions = BTreeMap::new();
    while let Some((orders, next)) = shared.take_orders() {
        for order in orders {
            match order {
                Order::Act(Action::Run(id, call, limit)) => {
                    calls.push(carry(&store, Caller::Engine(id), call, limit));
                }
                Order::Act(action) => listen(&store, &mut subscriptions, &hear, action),
                Order::Keep(future) => kept.push(future),
                Order::Look(call, tell) => calls.push(carry(&store, Caller::Somebody(tell), call, timeout)),
            }
        }
        tokio::select! {
            biased;
            Some((caller, result)) = calls.next() => {
                reply(&shared, caller, result);
                while let Some(Some((caller, result))) = calls.next().now_or_never() {
                    reply(&shared, caller, result);
                }
            }
            Some(news) = heard.recv() => tell(&shared, news),
            Some(()) = kept.next() => {}
            () = alarm.wait_until(next) => shared.step_awake(Event::Tick),
            () = shared.rung() => {}
        }
        while let Ok(news) = heard.try_recv() {
            tell(&shared, news);
        }
    }
}

/// Runs a call; its result comes with the recipient.
fn carry<S: Store>(
    store: &S,
    caller: Caller,
    call: Call,
    limit: Duration,
) -> impl Future<Output = (Caller, Result<Reply, StoreError>)> {
    let run = store.run(call, limit);
    async move { (caller, run.await) }
}

fn reply(shared: &Shared, caller: Caller, result: Result<Reply, StoreError>) {
    match caller {
        Caller::Engine(id) => {
            shared.step_awake(Event::Replied(id, result));
        }
        // The recipient may have dropped its future.
        Caller::Somebody(tell) => drop(tell.send(result)),
    }
}

fn listen<S: Store>(
    store: &S,
    subscriptions: &mut BTreeMap<Channel, Subscription>,
    hear: &UnboundedSender<Heard>,
    action: Action,
) {
    match action {
        Action::Listen(channel) => {
            subscriptions.insert(channel.clone(), store.subscribe(channel, hear.clone()));
        }
        Action::Unlisten(channel) => drop(subscriptions.remove(&channel)),
        Action::Run(..) | Action::Wake(_) | Action::Complete(..) => {}
    }
}

fn tell(shared: &Shared, news: Heard) {
    shared.step_awake(match news {
        Heard::Listening(channel) => Event::Listening(channel),
        Heard::Message(channel, _) => Event::Message(channel),
    });
}
