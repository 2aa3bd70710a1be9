//! The driver, which brings replies, messages and timers to the engine, and executes its actions on the store.
//!
//! Invariant: the driver decides nothing. It runs on a thread of the client's own, so neither a busy runtime nor a
//! dropped future of the application can delay or stop it.

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

use crate::runtime::shared::{Command, Shared};

/// The recipient of a call's result.
enum Caller {
    Engine(CallId),
    Query(oneshot::Sender<Result<Reply, StoreError>>),
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
    let mut tasks = FuturesUnordered::new();
    let mut subscriptions = BTreeMap::new();
    while let Some((commands, next)) = shared.take_commands() {
        for command in commands {
            match command {
                Command::Act(Action::Run(id, call, limit)) => {
                    calls.push(run_call(&store, Caller::Engine(id), call, limit));
                }
                Command::Act(action) => listen(&store, &mut subscriptions, &hear, action),
                Command::Spawn(future) => tasks.push(future),
                Command::Query(call, reply_to) => {
                    calls.push(run_call(&store, Caller::Query(reply_to), call, timeout));
                }
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
            Some(message) = heard.recv() => deliver(&shared, message),
            Some(()) = tasks.next() => {}
            () = alarm.wait_until(next) => shared.step_awake(Event::Tick),
            () = shared.notified() => {}
        }
        while let Ok(message) = heard.try_recv() {
            deliver(&shared, message);
        }
    }
}

/// Runs a call, and returns its result with the recipient.
fn run_call<S: Store>(
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
        Caller::Query(reply_to) => drop(reply_to.send(result)),
    }
}

fn listen<S: Store>(
    store: &S,
    subscriptions: &mut BTreeMap<Channel, Subscription>,
    hear: &UnboundedSender<Heard>,
    action: Action,
) {
    match action {
        Action::Subscribe(channel) => {
            subscriptions.insert(channel.clone(), store.subscribe(channel, hear.clone()));
        }
        Action::Unsubscribe(channel) => drop(subscriptions.remove(&channel)),
        Action::Run(..) | Action::Wake(_) | Action::Complete(..) => {}
    }
}

fn deliver(shared: &Shared, message: Heard) {
    shared.step_awake(match message {
        Heard::Listening(channel) => Event::Listening(channel),
        Heard::Message(channel, _) => Event::Message(channel),
    });
}
