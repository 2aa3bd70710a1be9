//! An in-process server on a clock that the test moves, for the tests of programs that use locks.
//!
//! The steps of a test take no real time. On an executor with one thread, a test that makes the same steps sees the
//! same outcome in every run. Needs the feature `embedded`.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::{LostReason, testing};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! let server = testing::Server::new();
//! let (one, other) = (server.client().await?, server.client().await?);
//! let guard = one.lock("order:42").lock().await?;
//!
//! server.advance(Duration::from_secs(3600)).await; // the watchdog keeps renewing
//! assert!(guard.is_held());
//! assert!(other.lock("order:42").try_lock().await?.is_none());
//!
//! server.delete("order:42"); // the key is deleted by hand; the next renewal notices
//! server.advance(Duration::from_secs(10)).await;
//! assert_eq!(guard.lost().await, LostReason::Deleted);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//! The server is the store behind `memory://`, which runs the same scripts as Redis. It executes every call of a
//! client at once, before the call that sends it returns. Only [`Server::advance`] lets time pass: for leases,
//! renewals, waits with a deadline, and calls whose answer is lost, which end by the client's timeout. `advance` goes
//! from timer to timer, and lets the test's tasks run after each.
//!
//! Only the locks use this clock. Let the test cause everything else that it waits for, by a channel or a
//! [`Server::sleep`], and not a real clock.
//!
//! # A clock that stands still
//! A wait that only time ends would hang forever if the test does not call [`Server::advance`]. Such a wait panics
//! instead, in the task or blocked thread that waits. The panic comes after five seconds of real time in which the wait
//! lasted, no client did anything and `advance` did not run:
//!
//! ```text
//! a client waits until 3s of the test's clock, which stands still at 0s; call `testing::Server::advance`
//! ```
//!
//! A wait is a call of a client that goes on waiting (an acquire, a release, a call to the server), or a
//! [`Server::sleep`]. A held lock is not a wait, and neither is [`Guard::lost`](crate::Guard::lost), which a body may
//! await next to its work. Both may last as long as they like. Every call of any client of this server restarts the
//! five seconds, and so does every other call of the server's methods that reaches it. A test that works for longer
//! while another of its tasks waits calls `advance` from time to time, for which `Duration::ZERO` is enough.
//!
//! # A loop that never waits
//! A task that acquires and releases in a loop, without a wait for time, never lets [`Server::advance`] or
//! [`Server::settle`] end. After five seconds of real time they panic in the task that called them. Give such a loop a
//! wait, for example [`Server::sleep`].
//!
//! # Bodies that use `tokio::time`
//! A `tokio::time::sleep` under a lock uses tokio's clock, which [`Server::advance`] does not move, so such a test
//! takes real time. Pause tokio's clock, and move both clocks by the same steps, this clock first. Move them throughout
//! the test, because tokio's clock jumps to its next timer whenever all tasks wait.
//!
//! ```
//! use std::time::Duration;
//! use leasehold::testing::Server;
//!
//! /// Lets this much time pass for the locks and for `tokio::time`.
//! async fn pass(server: &Server, span: Duration) {
//!     let step = Duration::from_secs(1); // at most a third of the shortest lease
//!     let end = server.elapsed() + span;
//!     while server.elapsed() < end {
//!         let step = step.min(end - server.elapsed());
//!         server.advance(step).await;
//!         tokio::time::advance(step).await;
//!     }
//!     server.settle().await;
//! }
//!
//! // In a test: `#[tokio::test(start_paused = true)]`, which needs tokio's feature `test-util`.
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() -> Result<(), leasehold::Error> {
//!     let server = Server::new();
//!     let lock = server.client().await?.lock("report");
//!     let report = tokio::spawn(async move {
//!         lock.run(async |_guard| tokio::time::sleep(Duration::from_secs(90)).await).await
//!     });
//!     pass(&server, Duration::from_secs(89)).await;
//!     assert!(server.holder("report").is_some(), "renewed for three leases");
//!     assert!(!report.is_finished());
//!     pass(&server, Duration::from_secs(2)).await;
//!     assert!(report.is_finished() && server.holder("report").is_none());
//!     Ok(())
//! }
//! ```
//!
//! Everything is deterministic on an executor with one thread, which `#[tokio::test]` uses. An executor with several
//! threads works too, but it decides which of two tasks runs first.

mod runtime;
mod settle;
mod standstill;
mod world;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use leasehold_proto::engine::Id;
use leasehold_proto::recipe::plain;
use leasehold_proto::{Applied, ClientId, Moment, PermitId, StoreError, StoreErrorKind, Verb, WireOwner};

use self::runtime::VirtualRuntime;
use self::settle::{GivenUp, Woken, settle};
use self::world::World;
use crate::client::connect::{self, Embedded, Frame};
use crate::client::{Client, ClientBuilder};
use crate::error::ConnectError;
use crate::name::IntoName;
use crate::runtime::shared::Handle;

/// The server's clock at its start, in Unix milliseconds: the year 2026.
const SERVER_BEGINS_MS: u64 = 1_767_225_600_000;

/// An in-process server for one test, empty at first. A clone is the same server.
///
/// Its clients are [`Client`]s like any others. Their clock stands still once the last clone is dropped.
///
/// # Examples
/// The behavior of a program when the network fails:
/// ```
/// use std::time::Duration;
/// use leasehold::error::AcquireErrorKind;
/// use leasehold::testing;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let server = testing::Server::new();
/// let lock = server.client().await?.lock("order:42");
/// server.set_reachable(false);
/// let error = lock.try_lock().await.unwrap_err();
/// assert!(matches!(error.kind, AcquireErrorKind::Store(_)));
/// assert_eq!(error.to_string(), "lock \"order:42\" not acquired: the server cannot be reached");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    world: Arc<World>,
    /// The number of clients made.
    made: Arc<AtomicU64>,
    store: Embedded,
    unreachable: AtomicBool,
    loses_replies: AtomicBool,
    members: Members,
    given_up: GivenUp,
}

type Members = Arc<Mutex<Vec<Member>>>;

/// A client, and its connection to the server.
struct Member {
    id: ClientId,
    handle: Weak<Handle>,
    connection: Embedded,
}

/// A holder of a lock, as the server reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The field of the lock's hash: [`Guard::wire_owner`](crate::Guard::wire_owner) for a guard, with `:write` behind
    /// it for a writer. A permit has its id here, as in [`Permits::ids`](crate::Permits::ids). A plain lock that no client
    /// of this server holds has its value here, escaped.
    pub wire_owner: String,
    /// The hold count, which is the number of acquires that the holder has not released.
    pub hold_count: u32,
    /// The rest of the lease if it is not renewed, or `None` if the key never expires.
    pub remaining: Option<Duration>,
}

impl Server {
    /// Returns a server without keys, at time zero.
    #[must_use]
    pub fn new() -> Self {
        Self::in_world(World::new())
    }

    fn in_world(world: Arc<World>) -> Self {
        let clock = Arc::clone(&world);
        let now_ms = move || {
            let elapsed = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
            SERVER_BEGINS_MS.saturating_add(elapsed)
        };
        Self(Arc::new(Inner {
            world,
            made: Arc::default(),
            store: Embedded::new(now_ms),
            unreachable: AtomicBool::new(false),
            loses_replies: AtomicBool::new(false),
            members: Members::default(),
            given_up: GivenUp::default(),
        }))
    }

    /// Connects a new client with the default settings, as if in a process of its own.
    ///
    /// # Errors
    /// [`ConnectError`] while the server is not [reachable](Self::set_reachable), or if the operating system provides
    /// no thread.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    pub async fn client(&self) -> Result<Client, ConnectError> {
        self.client_with(Client::builder()).await
    }

    /// Connects a new client with custom settings.
    ///
    /// # Errors
    /// As [`client`](Self::client), and [`ConnectError::TooShort`] for a setting below 1 ms.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, testing::Server};
    ///
    /// let server = Server::new();
    /// let client = server.client_with(Client::builder().key_prefix("shop:")).await?;
    /// let _guard = client.lock("order:42").lock().await?;
    /// assert!(server.holder("shop:order:42").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn client_with(&self, builder: ClientBuilder) -> Result<Client, ConnectError> {
        let (world, me) = (Arc::clone(&self.0.world), self.0.world.party());
        let runtime =
            VirtualRuntime { world: Arc::clone(&world), made: Arc::clone(&self.0.made), client: me };
        let wait =
            move |span| -> connect::BoxFuture<()> { Box::pin(world.sleep_until(world.now() + span, me)) };
        let connection = Embedded::on(Arc::clone(self.0.store.server())).waiting_with(wait);
        connection.lose_replies(self.0.loses_replies.load(Ordering::SeqCst));
        let store = connection.clone();
        let unreachable = self.0.unreachable.load(Ordering::SeqCst);
        let open = async move || match unreachable {
            false => Ok(store),
            true => Err(StoreError::new(StoreErrorKind::Unreachable, Verb::Connect, "".into(), Applied::No)),
        };
        let client = builder.over(&runtime, "the server of this test", open).await?;
        let handle = client.handle();
        let member = Member { id: handle.client(), handle: Arc::downgrade(handle), connection };
        let gone: Vec<Member> = {
            let mut members = self.0.members();
            members.push(member);
            members.extract_if(.., |member| member.handle.strong_count() == 0).collect()
        };
        self.0.world.run(move || drop(gone));
        Ok(client)
    }

    /// Lets this much time pass. It goes from timer to timer, and lets the test's other tasks react after each.
    ///
    /// Time does not pass otherwise, so a test that never calls this takes no time at all. [`Duration::ZERO`] lets the
    /// woken tasks run, as [`settle`](Self::settle) does. If two calls run at a time, both spans begin at their call.
    ///
    /// # Panics
    /// Panics in a [loop that never waits](crate::testing#a-loop-that-never-waits), after five seconds of real time.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the clock at the time that it has reached.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let month = Duration::from_secs(30 * 24 * 3600);
    /// let guard = server.client().await?.lock("archive").lease(month).lock().await?;
    /// server.advance(month - Duration::from_secs(1)).await;
    /// assert!(server.holder("archive").is_some());
    /// server.advance(Duration::from_secs(2)).await;
    /// assert!(server.holder("archive").is_none() && !guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn advance(&self, span: Duration) {
        let end = self.0.world.now() + span;
        let _advancing = self.0.world.advancing();
        self.settle().await;
        while self.0.world.pass(end) {
            self.settle().await;
        }
    }

    /// Lets the test's other tasks run until all of them wait, without any time passing.
    ///
    /// # Panics
    /// Panics in a [loop that never waits](crate::testing#a-loop-that-never-waits), after five seconds of real time.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = leasehold::testing::Server::new();
    /// let client = server.client().await?;
    /// let task = tokio::spawn(async move { client.lock("order:42").lock().await.map(|guard| guard.detach()) });
    /// server.settle().await; // the task has run as far as it can
    /// assert!(task.is_finished() && server.holder("order:42").is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn settle(&self) {
        settle(&self.0.world, &self.0.given_up, || self.0.woken()).await;
    }

    /// Returns the time that has passed since the server was made.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.world.elapsed()
    }

    /// Completes when this much time has passed, by [`advance`](Self::advance) in another task. Use it for work that
    /// takes time.
    ///
    /// # Cancel safety
    /// This method is cancel safe.
    ///
    /// # Panics
    /// Panics if the test [does not move the clock](crate::testing#a-clock-that-stands-still).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let lock = server.client().await?.lock("order:42");
    /// let (clock, work) = (server.clone(), Duration::from_secs(120));
    /// let working = tokio::spawn(async move { lock.run(async |_guard| clock.sleep(work).await).await });
    /// server.advance(work).await;
    /// assert!(working.is_finished());
    /// # Ok(())
    /// # }
    /// ```
    pub fn sleep(&self, span: Duration) -> impl Future<Output = ()> + Send + use<> {
        let me = self.0.world.party();
        let mut sleep = self.0.world.sleep_until(self.now() + span, me);
        // Keeps the server, without which time stands still.
        let server = self.clone();
        poll_fn(move |cx| {
            let waker = server.0.world.watch((me, Id(0)), "a sleep", cx.waker());
            Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker))
        })
    }

    /// Expires a lock's lease now, on the server alone, as if the server's clock ran faster than its clients'. It
    /// wakes no waiter. Returns false if the lock was free.
    ///
    /// # Panics
    /// Panics if the name cannot be a lock's name.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let guard = server.client().await?.lock("order:42").lock().await?;
    /// assert!(server.expire("order:42"));
    /// server.advance(Duration::from_secs(10)).await; // to the next renewal
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn expire(&self, name: impl IntoName) -> bool {
        self.execute(&["PEXPIRE", &key(name), "0"]) == Frame::Int(1)
    }

    /// Deletes a lock's key, as an administrator or a flush may do. It wakes no waiter. Returns false if the lock was
    /// free.
    ///
    /// # Panics
    /// Panics if the name cannot be a lock's name.
    #[track_caller]
    pub fn delete(&self, name: impl IntoName) -> bool {
        self.execute(&["DEL", &key(name)]) == Frame::Int(1)
    }

    /// Returns the holder of a lock, as the server reports it, or `None` if the lock is free. If there are several
    /// readers or permits, this method returns one of them. See [`holders`](Self::holders).
    ///
    /// # Panics
    /// Panics if the name cannot be a lock's name.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let guard = server.client().await?.lock("order:42").lock().await?;
    /// let holder = server.holder("order:42").expect("the lock is held");
    /// assert_eq!(holder.wire_owner, guard.wire_owner().to_string());
    /// assert_eq!((holder.hold_count, holder.remaining), (1, Some(Duration::from_secs(30))));
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn holder(&self, name: impl IntoName) -> Option<Holder> {
        self.holders(name).into_iter().next()
    }

    /// Returns all holders of a lock, or of permits of an expirable semaphore, as the server reports them. A plain
    /// semaphore is only a number on the server, so its holders are unknown. A plain lock has one hold on the server,
    /// whatever its owner's hold count is, and one whose value is a number reads like a semaphore.
    ///
    /// # Panics
    /// Panics if the name cannot be a lock's name.
    ///
    /// # Examples
    /// ```
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let prices = server.client().await?.rw_lock("prices");
    /// let (one, other) = (prices.read().await?, prices.read().await?);
    /// assert_eq!(server.holders("prices").len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn holders(&self, name: impl IntoName) -> Vec<Holder> {
        let key = key(name);
        match self.execute(&["HGETALL", &key]) {
            Frame::Array(fields) => self.hash_holders(&key, &fields),
            _ => self.string_holders(&key),
        }
    }

    /// Returns the holder of a plain lock, whose key is a string, or the permits of an expirable semaphore, whose key is
    /// their number.
    fn string_holders(&self, key: &str) -> Vec<Holder> {
        let is_number =
            |value: &[u8]| std::str::from_utf8(value).is_ok_and(|text| text.parse::<i64>().is_ok());
        match self.execute(&["GET", key]) {
            Frame::Bulk(value) if !is_number(&value) => vec![self.value_holder(key, &value)],
            _ => self.permit_holders(key),
        }
    }

    /// Returns the holder with this value. Only a client can tell its own values, so each is asked.
    fn value_holder(&self, key: &str, value: &[u8]) -> Holder {
        let remaining = match self.execute(&["PTTL", key]) {
            Frame::Int(ms) => u64::try_from(ms).ok().map(Duration::from_millis),
            _ => None,
        };
        let own = plain::Value::read(value).and_then(|value| {
            let of = |client: ClientId| Some(WireOwner::new(client, value.number_of(client)?).to_string());
            self.0.members().iter().find_map(|member| of(member.id))
        });
        let wire_owner = own.unwrap_or_else(|| value.escape_ascii().to_string());
        Holder { wire_owner, hold_count: 1, remaining }
    }

    /// Returns the holders in a lock's hash. The hash of a read-write lock has its mode as another field.
    fn hash_holders(&self, key: &str, fields: &[Frame]) -> Vec<Holder> {
        let Frame::Int(remaining_ms) = self.execute(&["PTTL", key]) else { return Vec::new() };
        let remaining = u64::try_from(remaining_ms).ok().map(Duration::from_millis);
        let pairs = fields.chunks_exact(2).filter_map(|pair| match pair {
            [Frame::Bulk(owner), Frame::Bulk(count)] if owner != b"mode" => Some((owner, count)),
            _ => None,
        });
        let holder = |(owner, count): (&Vec<u8>, &Vec<u8>)| Holder {
            wire_owner: String::from_utf8_lossy(owner).into_owned(),
            hold_count: String::from_utf8_lossy(count).parse().unwrap_or_default(),
            remaining,
        };
        pairs.map(holder).collect()
    }

    /// Returns the acquired permits of an expirable semaphore, each with its id and the rest of its lease.
    fn permit_holders(&self, key: &str) -> Vec<Holder> {
        let tagged = if key.contains('{') { key.to_owned() } else { format!("{{{key}}}") };
        let ids = self.execute(&["ZRANGE", &format!("{tagged}:timeout"), "0", "-1", "WITHSCORES"]);
        let Frame::Array(ids) = ids else { return Vec::new() };
        let elapsed = u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now_ms = SERVER_BEGINS_MS.saturating_add(elapsed);
        let holder = |pair: &[Frame]| {
            let [Frame::Bulk(id), Frame::Bulk(end)] = pair else { return None };
            let id = PermitId::from_bytes(id.as_slice().try_into().ok()?);
            let end_ms = String::from_utf8_lossy(end).parse::<u64>().ok();
            let left = end_ms.map(|end| Duration::from_millis(end.saturating_sub(now_ms)));
            Some(Holder { wire_owner: id.to_string(), hold_count: 1, remaining: left })
        };
        ids.chunks_exact(2).filter_map(holder).collect()
    }

    /// Sets whether replies are lost (default: false). While they are, the server executes the calls of all clients,
    /// and the calls end by the client's timeout, with an unknown outcome.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let lock = server.client().await?.lock("order:42");
    /// server.lose_replies(true);
    /// let acquiring = tokio::spawn(async move { lock.try_lock().await });
    /// server.advance(Duration::from_secs(3)).await; // the client's timeout
    /// let outcome = acquiring.await.expect("the task does not panic");
    /// assert!(matches!(outcome.unwrap_err().kind, leasehold::error::AcquireErrorKind::Unknown { .. }));
    /// # Ok(())
    /// # }
    /// ```
    pub fn lose_replies(&self, lose: bool) {
        self.0.loses_replies.store(lose, Ordering::SeqCst);
        self.on_connections(move |connection| connection.lose_replies(lose));
    }

    /// Breaks the connections of all clients once. Calls in flight end without an answer, and the clients subscribe
    /// again at once.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::testing;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let guard = server.client().await?.lock("order:42").lock().await?;
    /// server.drop_connection();
    /// server.advance(Duration::from_secs(60)).await;
    /// assert!(guard.is_held(), "the next renewal goes over a new one");
    /// # Ok(())
    /// # }
    /// ```
    pub fn drop_connection(&self) {
        self.on_connections(Embedded::drop_connection);
    }

    /// Sets whether the server is reachable (default: true). While it is not, calls of all clients fail without being
    /// executed, no message arrives, and no client can connect. Leases go on.
    pub fn set_reachable(&self, reachable: bool) {
        self.0.unreachable.store(!reachable, Ordering::SeqCst);
        self.on_connections(move |connection| connection.set_reachable(reachable));
    }

    /// Returns the connection of one client, which the test can make fail alone.
    ///
    /// # Panics
    /// Panics if the client is not one of this server's.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # use leasehold::{LostReason, testing};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let server = testing::Server::new();
    /// let (one, other) = (server.client().await?, server.client().await?);
    /// let guard = one.lock("order:42").lock().await?;
    /// server.connection(&one).set_reachable(false);
    /// server.advance(Duration::from_secs(31)).await;
    /// assert_eq!(guard.lost().await, LostReason::Unreachable);
    /// assert!(other.lock("order:42").try_lock().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn connection(&self, client: &Client) -> Connection {
        let handle = client.handle();
        let is_it = |member: &&Member| {
            member.id == handle.client() && std::ptr::eq(member.handle.as_ptr(), Arc::as_ptr(handle))
        };
        let connection = self.0.members().iter().find(is_it).map(|member| member.connection.clone());
        match connection {
            Some(connection) => Connection { server: self.clone(), connection },
            None => panic!("{client:?} is not a client of this server"),
        }
    }

    fn now(&self) -> Moment {
        self.0.world.now()
    }

    fn on_connections(&self, act: impl Fn(&Embedded) + Send + 'static) {
        let members = Arc::clone(&self.0.members);
        self.0.world.run(move || {
            let connections: Vec<Embedded> =
                locked(&members).iter().map(|member| member.connection.clone()).collect();
            connections.iter().for_each(act);
        });
    }

    fn execute(&self, command: &[&str]) -> Frame {
        let store = self.0.store.clone();
        let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        self.0.world.run(move || store.execute(&words))
    }
}

impl Inner {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        locked(&self.members)
    }

    fn woken(&self) -> Vec<Woken> {
        // The handles are dropped outside the lock, because one of them may be a client's last handle.
        let handles: Vec<Arc<Handle>> =
            self.members().iter().filter_map(|member| member.handle.upgrade()).collect();
        let of = |handle: &Arc<Handle>| {
            let client = handle.client();
            handle.woken().into_iter().map(move |(id, listener)| (client, id, listener))
        };
        handles.iter().flat_map(of).collect()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let members = Arc::clone(&self.members);
        self.world.leave(move || locked(&members).iter().any(|member| member.handle.strong_count() > 0));
    }
}

impl Default for Server {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}

/// The connection of one client to the server of a test, made by [`Server::connection`].
#[derive(Clone)]
pub struct Connection {
    server: Server,
    connection: Embedded,
}

impl Connection {
    /// Sets whether replies are lost, as [`Server::lose_replies`] does, for this client.
    pub fn lose_replies(&self, lose: bool) {
        self.run(move |connection| connection.lose_replies(lose));
    }

    /// Breaks the connection as [`Server::drop_connection`] does, for this client.
    pub fn drop_connection(&self) {
        self.run(Embedded::drop_connection);
    }

    /// Sets whether the server is reachable, as [`Server::set_reachable`] does, for this client.
    pub fn set_reachable(&self, reachable: bool) {
        self.run(move |connection| connection.set_reachable(reachable));
    }

    fn run(&self, act: impl FnOnce(&Embedded) + Send + 'static) {
        let connection = self.connection.clone();
        self.server.0.world.run(move || act(&connection));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).finish_non_exhaustive()
    }
}

#[track_caller]
fn key(name: impl IntoName) -> String {
    match name.into_name() {
        Ok(name) => name.as_str().to_owned(),
        Err(error) => panic!("this cannot be the name of a lock: {error}"),
    }
}

fn locked(members: &Mutex<Vec<Member>>) -> MutexGuard<'_, Vec<Member>> {
    members.lock().unwrap_or_else(PoisonError::into_inner)
}
