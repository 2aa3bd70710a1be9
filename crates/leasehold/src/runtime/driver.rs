//! The driver, which passes messages and timers to the engine, and carries out what steps leave as commands.
//!
//! Calls and replies pass it by where the store has an entrance, as Redis has: they leave on the thread of the step and
//! come back through `shared/entrance`. Without an entrance the driver runs the calls too.
//!
//! Invariant: the driver decides nothing. It runs on a thread of the client's own, so neither a busy runtime nor a
//! dropped future of the application can delay or stop it.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use leasehold_proto::engine::{Action, CallId, Event};
use leasehold_proto::{Call, Channel, Reply, StoreError};
use leasehold_store::{Alarm, Heard, Store, Subscription};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::{unconstrained, yield_now};

use crate::runtime::news::News;
use crate::runtime::shared::{Command, Shared};
use crate::runtime::visible::{Purpose, Visible};

/// The recipient of a call's result.
enum Caller {
    Engine(CallId),
    Query(oneshot::Sender<Result<Reply, StoreError>>),
    Operators(Purpose),
}

/// The largest number of commands, and of replies, between two turns of the other tasks of the driver's runtime. These
/// read the sockets, and a reply that is not read in time counts as missing.
const TURN: usize = 256;
/// The longest time that a closing client spends on removing its card. A card that stays behind expires by itself.
const LEAVING: Duration = Duration::from_secs(1);

/// Runs until the client has ended. `timeout` bounds the calls that do not come from the engine.
///
/// From the call of this function on, callers run the calls of their steps at the store's entrance, if it has one.
///
/// The future has no budget of tokio. At its end, each of thousands of calls would be polled in vain, and wake the
/// driver to be polled again.
pub(crate) fn drive<S: Store, A: Alarm>(
    shared: Arc<Shared>,
    store: S,
    alarm: A,
    timeout: Duration,
) -> impl Future<Output = ()> {
    let outcomes = Arc::downgrade(&shared);
    if let Some(entrance) = store.entrance(outcomes) {
        shared.enter_by(entrance);
    }
    unconstrained(run(shared, store, alarm, timeout))
}

async fn run<S: Store, A: Alarm>(shared: Arc<Shared>, store: S, mut alarm: A, timeout: Duration) {
    let (hear, mut heard) = mpsc::unbounded_channel();
    let mut calls = FuturesUnordered::new();
    let mut tasks = FuturesUnordered::new();
    let mut subscriptions = BTreeMap::new();
    let mut commands = VecDeque::new();
    let mut news = News::default();
    let mut operators = Operators::new(&shared);
    while let Some((added, next)) = shared.take_commands() {
        commands.extend(added);
        for command in commands.drain(..commands.len().min(TURN)) {
            match command {
                Command::Act(Action::Run(id, call, limit)) => {
                    calls.push(run_call(&store, Caller::Engine(id), call, limit));
                }
                Command::Act(action) => listen(&store, &mut subscriptions, &hear, action),
                Command::Spawn(future) => tasks.push(future),
                Command::Query(call, reply_to) => {
                    calls.push(run_call(&store, Caller::Query(reply_to), call, timeout));
                }
                // A listener that has gone drops its subscription here.
                Command::Listen(channel, hear, reply_to) => {
                    drop(reply_to.send(store.subscribe(channel, hear)));
                }
                Command::Join => operators.visible.join(shared.now()),
            }
        }
        for (purpose, call) in operators.turn(&shared, &store) {
            calls.push(run_call(&store, Caller::Operators(purpose), call, timeout));
        }
        let is_busy = !commands.is_empty() || !news.is_empty() || operators.visible.is_busy();
        tokio::select! {
            biased;
            Some((caller, result)) = calls.next() => {
                reply(&shared, &mut operators, caller, result);
                let mut replies = 1;
                while replies < TURN && let Some(Some((caller, result))) = calls.next().now_or_never() {
                    reply(&shared, &mut operators, caller, result);
                    replies += 1;
                }
                if replies == TURN {
                    yield_now().await;
                }
            }
            // Renewals come before messages, of which a stranger may send any number.
            () = alarm.wait_until(next.min(operators.visible.next())) => shared.step_awake(Event::Tick),
            Some(()) = tasks.next() => {}
            Some(message) = heard.recv() => news.add(message),
            Some(message) = operators.heard.recv() => operators.visible.heard(shared.now(), message),
            () = shared.notified() => {}
            () = yield_now(), if is_busy => {}
        }
        while let Ok(message) = heard.try_recv() {
            news.add(message);
        }
        while let Ok(message) = operators.heard.try_recv() {
            operators.visible.heard(shared.now(), message);
        }
        for event in news.take(TURN) {
            shared.step_awake(event);
        }
    }
    if let Some(leave) = shared.leave_call() {
        drop(store.run(leave, timeout.min(LEAVING)).await);
    }
}

/// The questions of operators, and the subscription that brings them.
struct Operators {
    visible: Visible,
    hear: UnboundedSender<Heard>,
    heard: UnboundedReceiver<Heard>,
    subscription: Option<Subscription>,
}

impl Operators {
    fn new(shared: &Shared) -> Self {
        let (hear, heard) = mpsc::unbounded_channel();
        let visible = Visible::new(shared.identity().cloned(), shared.now());
        Self { visible, hear, heard, subscription: None }
    }

    /// Subscribes once the client may, and returns the calls that are due.
    fn turn<S: Store>(&mut self, shared: &Shared, store: &S) -> Vec<(Purpose, Call)> {
        if self.subscription.is_none()
            && let Some(channel) = self.visible.channel()
        {
            self.subscription = Some(store.subscribe(channel, self.hear.clone()));
        }
        if self.visible.is_idle() {
            return Vec::new();
        }
        self.visible.turn(shared.now(), shared)
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

fn reply(shared: &Shared, operators: &mut Operators, caller: Caller, result: Result<Reply, StoreError>) {
    match caller {
        Caller::Engine(id) => {
            shared.step_awake(Event::Replied(id, result));
        }
        Caller::Operators(purpose) => operators.visible.ended(shared.now(), purpose, result),
        // The recipient may have dropped its future. Its waker is foreign code, whose panic must not end the client.
        Caller::Query(reply_to) => drop(catch_unwind(AssertUnwindSafe(|| reply_to.send(result)))),
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
        Action::Run(..)
        | Action::Withdraw(_)
        | Action::Wake(_)
        | Action::Trusted(..)
        | Action::Complete(..) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, poll_fn};
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use leasehold_proto::engine::Settings;
    use leasehold_proto::{ClientId, Engine, Moment, Script, Verb};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::runtime::process::Process;

    /// The calls in flight, many times tokio's budget of a task.
    const CALLS: usize = 5_000;

    static ANY: Script = Script::new(Verb::Inspect, "-- KEYS[1] key string any\nreturn KEYS[1]");

    /// A store that answers a call for each permit, and counts the polls of its calls.
    #[derive(Clone)]
    struct Crowd {
        answers: Arc<Semaphore>,
        polls: Arc<AtomicUsize>,
    }

    impl Store for Crowd {
        fn run(
            &self,
            _: Call,
            _: Duration,
        ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
            let Self { answers, polls } = self.clone();
            async move {
                let mut answer = pin!(answers.acquire());
                poll_fn(|cx| {
                    polls.fetch_add(1, Ordering::Relaxed);
                    answer.as_mut().poll(cx)
                })
                .await
                .expect("nothing closes the semaphore")
                .forget();
                Ok(Reply::Nil)
            }
        }

        fn subscribe(&self, _: Channel, _: UnboundedSender<Heard>) -> Subscription {
            Subscription::new(|| ())
        }
    }

    struct NoAlarm;

    impl Alarm for NoAlarm {
        fn wait_until(&mut self, _: Moment) -> impl Future<Output = ()> {
            pending()
        }
    }

    #[tokio::test]
    async fn calls_that_are_answered_together_are_not_polled_in_vain() {
        let engine = Engine::new(ClientId::from_random([7; 16]), Settings::default());
        let shared = Arc::new(Shared::new(engine, Process::current(), Moment::default));
        let crowd = Crowd { answers: Arc::new(Semaphore::new(0)), polls: Arc::default() };
        let driving = drive(Arc::clone(&shared), crowd.clone(), NoAlarm, Duration::MAX);
        let asked = join_all((0..CALLS).map(|_| shared.query(Call::of(&ANY).key("key", "k"), |_| Some(()))));
        let answered = async {
            while crowd.polls.load(Ordering::Relaxed) < CALLS {
                yield_now().await;
            }
            crowd.answers.add_permits(CALLS);
        };
        tokio::select! {
            (answers, ()) = async { tokio::join!(asked, answered) } => assert!(answers.iter().all(Result::is_ok)),
            () = driving => panic!("the client lives"),
        }
        let polls = crowd.polls.load(Ordering::Relaxed);
        assert!(polls <= 2 * CALLS, "{polls} polls for {CALLS} calls");
    }
}
