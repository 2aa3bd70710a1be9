//! The environment of the interleavings: a server that is a map, the scheduler's threads and chance, a clock that
//! scenarios move.
//!
//! Invariant: nothing here waits for real time or real threads, so one seed is one history. A lock of the standard
//! library is never held over a point where the scheduler may switch.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex as Cell, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use leasehold_proto::engine::CallId;
use leasehold_proto::{Call, Channel, Moment, Reply, StoreError, Verb};
use leasehold_store::{Alarm, Heard, Outcomes, Runtime, Store, Submit, Subscription};
use shuttle::future::block_on;
use shuttle::rand::{Rng, thread_rng};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::AtomicUsize;
use shuttle::sync::mpsc::{Sender, channel};
use shuttle::thread::{self, JoinHandle};
use tokio::sync::mpsc::UnboundedSender;

use crate::client::Client;
use crate::runtime::sync::yield_point;

/// The poll interval, so long that no scenario sees a waiter try again by itself.
const POLL_INTERVAL: Duration = Duration::from_secs(600);

/// One server, the drivers of its clients, and the clock.
#[derive(Clone, Default)]
pub(super) struct World {
    keys: Arc<Mutex<Keys>>,
    time: Arc<Cell<Time>>,
    drivers: Arc<Cell<Vec<JoinHandle<()>>>>,
    inside: Arc<AtomicUsize>,
}

/// The data of the server.
#[derive(Default)]
struct Keys {
    holds: BTreeMap<Arc<str>, Held>,
    listeners: BTreeMap<u64, (Channel, UnboundedSender<Heard>)>,
    last_listener: u64,
    calls: usize,
}

/// A hold on the server.
#[derive(Debug)]
struct Held {
    owner: String,
    count: u32,
    expires_at: Moment,
}

#[derive(Default)]
struct Time {
    now: Moment,
    /// The alarm of each driver: its time and its waker.
    alarms: Vec<Option<(Moment, Waker)>>,
}

impl World {
    /// Connects a client to this server, with a driver of its own.
    pub(super) fn connect(&self) -> Client {
        block_on(self.connecting()).expect("the server is always there")
    }

    /// Returns the connecting future, not yet polled.
    pub(super) fn connecting(&self) -> impl Future<Output = Result<Client, crate::ConnectError>> + use<> {
        let (world, store) = (self.clone(), self.clone());
        let builder = Client::builder().poll_interval(POLL_INTERVAL);
        async move { builder.over(&world, "the server", async move || Ok(store)).await }
    }

    /// Works under the lock, and panics if another user does so at the same time.
    pub(super) fn work_alone(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock at one moment");
        yield_point();
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two hold the lock at one moment");
    }

    /// Moves the clock forward.
    pub(super) fn pass(&self, span: Duration) {
        yield_point();
        let due: Vec<Waker> = {
            let mut time = self.time();
            time.now = time.now + span;
            let now = time.now;
            let due = time.alarms.iter_mut().filter_map(|alarm| alarm.take_if(|(at, _)| *at <= now));
            due.map(|(_, waker)| waker).collect()
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of calls that the server has executed.
    pub(super) fn calls(&self) -> usize {
        self.keys().calls
    }

    /// Checks after the last user that every driver ends by itself, and that nothing is left on the server.
    pub(super) fn check_that_all_is_over(&self) {
        let drivers = std::mem::take(&mut *self.drivers.lock().unwrap_or_else(PoisonError::into_inner));
        for driver in drivers {
            driver.join().expect("a driver ends without a panic");
        }
        let mut keys = self.keys();
        keys.expire(self.now());
        assert!(keys.holds.is_empty(), "left on the server: {:?}", keys.holds);
        assert!(keys.listeners.is_empty(), "{} subscriptions are left", keys.listeners.len());
    }

    fn keys(&self) -> shuttle::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn time(&self) -> std::sync::MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    fn expire(&mut self, now: Moment) {
        self.holds.retain(|_, held| held.expires_at > now);
    }

    /// Executes a script.
    fn execute(&mut self, call: &Call, now: Moment) -> Reply {
        self.calls += 1;
        self.expire(now);
        let key = call.subject();
        let owner = call.argument("owner").unwrap_or_default().to_owned();
        let number = |name| call.argument(name).and_then(|value| value.parse::<u32>().ok()).unwrap_or(0);
        let expires_at = now + Duration::from_millis(number("lease_ms").into());
        let mine = self.holds.get(&key).is_some_and(|held| held.owner == owner);
        match (call.verb(), self.holds.get_mut(&key)) {
            (Verb::Acquire, Some(held)) if !mine => Reply::Int(held.remaining_ms(now)),
            (Verb::Acquire, _) => {
                self.holds.entry(key).or_insert(Held { owner, count: 1, expires_at });
                Reply::Nil
            }
            (Verb::Renew, Some(held)) if mine => {
                held.count = if number("count") == 0 { held.count } else { number("count") };
                held.expires_at = held.expires_at.max(expires_at);
                Reply::Int(1)
            }
            (Verb::HandOff, Some(held)) if mine => {
                held.expires_at = held.expires_at.max(expires_at);
                Reply::Int(2)
            }
            (Verb::Renew | Verb::HandOff, held) => Reply::Int(if held.is_some() { -1 } else { 0 }),
            (Verb::Release, Some(held)) if mine => {
                held.count = number("remaining");
                let freed = held.count == 0;
                if freed {
                    self.holds.remove(&key);
                    self.publish(call);
                }
                Reply::Int(i64::from(freed))
            }
            (Verb::Release, _) => Reply::Nil,
            (Verb::Inspect, held) => {
                let (pttl, count) = held.map_or((-2, 0), |held| (held.remaining_ms(now), held.count));
                Reply::Array(vec![Reply::Int(pttl), Reply::Int(if mine { count.into() } else { 0 })])
            }
            (other, _) => unreachable!("no scenario sends {other}"),
        }
    }

    /// Publishes a message.
    fn publish(&self, call: &Call) {
        let channel = call.argument("channel").map(Channel::new);
        for (listened, hear) in self.listeners.values() {
            if Some(listened) == channel.as_ref() {
                // A driver that has ended receives no messages.
                let _ = hear.send(Heard::Message(listened.clone(), Vec::new()));
            }
        }
    }
}

impl Held {
    fn remaining_ms(&self, now: Moment) -> i64 {
        i64::try_from(self.expires_at.since(now).as_millis()).unwrap_or(i64::MAX)
    }
}

impl Store for World {
    fn run(
        &self,
        call: Call,
        _timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let world = self.clone();
        async move {
            let reply = world.keys().execute(&call, world.now());
            // The reply is in flight for a while.
            for _ in 0..thread_rng().gen_range(0..3) {
                come_back().await;
            }
            Ok(reply)
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        let id = {
            let mut keys = self.keys();
            keys.last_listener += 1;
            let id = keys.last_listener;
            keys.listeners.insert(id, (channel.clone(), heard.clone()));
            id
        };
        // The subscriber may have ended.
        let _ = heard.send(Heard::Listening(channel));
        let world = self.clone();
        Subscription::new(move || drop(world.keys().listeners.remove(&id)))
    }

    /// Half of the clients run their calls on the threads of their callers, as over a socket.
    fn entrance(&self, outcomes: Weak<dyn Outcomes>) -> Option<Arc<dyn Submit>> {
        if thread_rng().r#gen() {
            return None;
        }
        let (replies, received) = channel::<(CallId, Reply)>();
        let reader = thread::spawn(move || {
            while let Ok((id, reply)) = received.recv() {
                yield_point();
                let mut so_far = vec![(id, Ok(reply))];
                // A reader that is to come back does so, with further outcomes or without.
                loop {
                    so_far.extend(received.try_iter().map(|(id, reply)| (id, Ok(reply))));
                    let Some(outcomes) = outcomes.upgrade() else { break };
                    if any_below(4) == 0 {
                        outcomes.take(so_far);
                        break;
                    }
                    if !outcomes.gather(std::mem::take(&mut so_far)) {
                        break;
                    }
                    yield_point();
                }
            }
        });
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        Some(Arc::new(Entrance { world: self.clone(), replies }))
    }
}

/// The way of a client's calls to the server. A thread of its own brings the replies.
struct Entrance {
    world: World,
    replies: Sender<(CallId, Reply)>,
}

impl Submit for Entrance {
    fn submit(&self, id: CallId, call: Call, _timeout: Duration) -> Result<(), StoreError> {
        let reply = self.world.keys().execute(&call, self.world.now());
        // The reader lives as long as this entrance.
        let _ = self.replies.send((id, reply));
        Ok(())
    }
}

impl Runtime for World {
    type Alarm = VirtualAlarm;

    fn now(&self) -> Moment {
        self.time().now
    }

    fn random(&self) -> [u8; 16] {
        thread_rng().r#gen()
    }

    fn start<M, D>(&self, driver: M) -> io::Result<()>
    where
        M: FnOnce() -> D + Send + 'static,
        D: Future<Output = ()> + 'static,
    {
        let driver = thread::spawn(move || block_on(driver()));
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner).push(driver);
        Ok(())
    }

    fn alarm(&self) -> io::Result<VirtualAlarm> {
        let mut time = self.time();
        time.alarms.push(None);
        Ok(VirtualAlarm { world: self.clone(), place: time.alarms.len() - 1 })
    }
}

/// An alarm that fires when the world's clock reaches its time.
pub(super) struct VirtualAlarm {
    world: World,
    place: usize,
}

impl Alarm for VirtualAlarm {
    fn wait_until(&mut self, at: Moment) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            let mut time = self.world.time();
            if at <= time.now {
                return Poll::Ready(());
            }
            time.alarms[self.place] = Some((at, cx.waker().clone()));
            Poll::Pending
        })
    }
}

/// Yields once.
async fn come_back() {
    let mut came = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut came, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future when it is woken, and drops it after `polls` polls unless it has completed by then.
pub(super) fn poll_and_drop<F: Future>(mut polls: u32, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    block_on(poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }))
}

/// Returns a number below `end`, chosen by the scheduler.
pub(super) fn any_below(end: u32) -> u32 {
    thread_rng().gen_range(0..end)
}
