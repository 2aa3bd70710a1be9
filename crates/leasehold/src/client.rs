//! The entry point: one client per process and server.

// Invariant: a client releases its holds when it is closed or its last user is dropped. A hold whose minimum hold time
// is not over stays on the server until then.

mod adopt;
pub(crate) mod connect;
mod health;
pub(crate) mod installed;
mod report;
pub(crate) mod rows;
mod servers;
pub(crate) mod visibility;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use leasehold_proto::Owner;
#[cfg(any(feature = "unstable-store", feature = "embedded"))]
use leasehold_proto::StoreError;
use leasehold_proto::backoff::Backoff;
pub use leasehold_proto::engine::CloseReport;
use leasehold_proto::engine::{Event, Outcome};
pub use leasehold_store::ShardedPubsub;
#[cfg(any(feature = "unstable-store", feature = "embedded"))]
use leasehold_store::{Runtime, Store};
pub use report::{Health, Holds, ServerState, Waits};
pub use rows::{HeldLock, WaitingAcquire};

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use crate::client::connect::Tls;
#[cfg(any(feature = "unstable-store", feature = "embedded"))]
use crate::client::connect::start;
use crate::client::connect::{ConnectOptions, connect};
use crate::client::visibility::{CLIENT_NAME_MAX, process};
use crate::defaults::{Primitive, check_prefix};
use crate::election::Election;
use crate::error::{ConnectError, Forked};
use crate::fenced_writes::FencedWrites;
use crate::latch::CountDownLatch;
use crate::lock::plain::Plain;
use crate::lock::{Fair, Fenced, Kind, Lock, Read, Reentrant, RwLock, Spin, Write};
use crate::name::{IntoName, named};
use crate::observe::{Names, Observer};
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;
use crate::semaphore::{ExpirableSemaphore, Semaphore};
use crate::terms::HoldTerms;

/// A client of one server: two connections and one thread for all its locks. Cheap to clone.
///
/// The client releases its holds and ends its thread when its last clone, lock, guard and future is dropped.
/// [`close`](Client::close) does the same and waits for the server's confirmation.
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// The settings of a client, before it connects.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let builder = leasehold::Client::builder().timeout(Duration::from_secs(1));
/// let client = builder.connect("memory://").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    options: ConnectOptions,
}

impl Client {
    pub(crate) const fn new(handle: Arc<Handle>) -> Self {
        Self { handle }
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    /// Makes a lock with the default terms of its primitive.
    fn make<K: Kind>(&self, name: impl IntoName, kind: K, primitive: Primitive) -> Lock<K> {
        Lock::new(&self.handle, self.handle.name(name), self.handle.defaults().terms(primitive), kind)
    }

    /// Connects to `redis://[user:password@]host[:port][/db]` or `unix:///path/to.sock`, to the master that sentinels name
    /// (`redis+sentinel://host,host/service`), to a cluster (`redis+cluster://host,host`), or to a server in this process:
    /// `memory://` or `memory://name`. `rediss` in place of `redis` encrypts the connections.
    ///
    /// An in-process server (feature `embedded`) is for experiments and tests. It excludes no other process, and its
    /// data is gone with its last client. `memory://` is a new server for each client, and `memory://orders` is the
    /// same server for all clients of the process that name it. For tests that move the clock or make calls fail, see
    /// [`testing`](crate::testing).
    ///
    /// # Runtime
    /// The client has a thread of its own, so it works on any executor and renews while yours is blocked. If this
    /// function is called within a tokio runtime, that runtime also reads the replies to calls. This halves the latency of
    /// a lone lock. A reply that the runtime leaves unread for 20 ms is read by the client's thread, and so are all
    /// replies once the runtime has ended. A tokio runtime that was built without `enable_io` or `enable_all` reads
    /// nothing, and tokio reports that by a panic that the client catches. In a program that aborts on panics, call
    /// this function outside of such a runtime.
    ///
    /// # Errors
    /// [`ConnectError`] if the URL cannot be used, or needs a feature that is not enabled, or if the server cannot be
    /// reached, refuses the password, is not ready to serve or is not a Redis server. The call fails at the latest
    /// after the timeout of 3 s. No error repeats the password.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
    /// # Ok(())
    /// # }
    /// ```
    /// Without a server:
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let one = leasehold::Client::connect("memory://orders").await?;
    /// let other = leasehold::Client::connect("memory://orders").await?;
    /// let guard = one.lock("order:42").lock().await?;
    /// assert!(other.lock("order:42").try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder, for settings other than the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Returns the reentrant lock of this name, Redisson's `RLock`. This sends nothing. The first operation reports a
    /// name that cannot be used.
    ///
    /// The name is text of 1 to 512 bytes without control characters or braces, or a [`Name`](crate::Name) made by
    /// other rules.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock(format!("order:{}", 42)); // cheap; make one wherever it is needed
    /// assert!(!lock.is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn lock(&self, name: impl IntoName) -> Lock {
        self.make(name, Reentrant, Primitive::Lock)
    }

    /// Returns the fair lock of this name. The server serves its waiters in order of arrival, over all processes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.fair_lock("printer").lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fair_lock(&self, name: impl IntoName) -> Lock<Fair> {
        self.make(name, Fair, Primitive::FairLock)
    }

    /// Returns the fenced lock of this name. Each grant has a token, higher than all tokens before it.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.fenced_lock("order:42").lock().await?;
    /// assert_eq!(guard.token(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fenced_lock(&self, name: impl IntoName) -> Lock<Fenced> {
        self.make(name, Fenced::default(), Primitive::FencedLock)
    }

    /// Returns the election of this name, of one leader among all processes. This sends nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let election = client.election("scheduler").candidate("host-a:4711");
    /// let led = election.lead(async |term| Ok::<(), std::io::Error>(assert!(term.is_valid()))).await?;
    /// assert_eq!(led.terms, 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn election(&self, name: impl IntoName) -> Election {
        Election::new(self.fenced_lock(name), process())
    }

    /// Returns writes on behalf of the holder of this fencing token, which may come from another process.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.fenced_lock("stock:42").lock().await?;
    /// let token = guard.token(); // goes to another process with the work
    /// client.fenced(token).set("stock:42:left", "16").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fenced(&self, token: u64) -> FencedWrites {
        FencedWrites::new(&self.handle, token)
    }

    /// Returns the spin lock of this name. It sends no wake-up messages, and waiters try again after growing pauses.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.spin_lock("tick").lock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn spin_lock(&self, name: impl IntoName) -> Lock<Spin> {
        self.make(name, Spin::new(self.handle.defaults().backoff), Primitive::SpinLock)
    }

    /// Returns the plain lock of this name: the lock of the Redis documentation, `SET name value NX PX lease`, which
    /// libraries of every language share. [`format`](Lock::format) names the library.
    ///
    /// It is for fleets in several languages, and for fleets without Redisson, since it costs the server less than
    /// [`lock`](Self::lock), which excludes nobody who uses a plain lock. A holder sends a message only if a waiter has
    /// marked its value. The holds of other libraries send none: a waiter hears of their release by a push of the server
    /// (`CLIENT TRACKING` over RESP3) where server and user allow it, else by polling, after a random part of 20 ms at first
    /// and of 250 ms at most.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// // The same lock in Python: redis.Redis().lock("order:42", timeout=30)
    /// let guard = client.plain_lock("order:42").lock().await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn plain_lock(&self, name: impl IntoName) -> Lock<Plain> {
        let bare = named(name);
        let on_server = bare.clone().and_then(|name| self.handle.on_server(name));
        let terms = self.handle.defaults().terms(Primitive::PlainLock);
        Lock::new(&self.handle, on_server, terms, Plain::new(bare))
    }

    /// Returns the read-write lock of this name, Redisson's `RReadWriteLock`: many readers at a time, or one writer.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let prices = client.rw_lock("prices");
    /// let (one, other) = (prices.read().await?, prices.read().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn rw_lock(&self, name: impl IntoName) -> RwLock {
        let (name, terms) = (self.handle.name(name), self.handle.defaults().terms(Primitive::RwLock));
        let read = Lock::new(&self.handle, name.clone(), terms, Read::default());
        RwLock::new(read, Lock::new(&self.handle, name, terms, Write::default()))
    }

    /// Returns the semaphore of this name, Redisson's `RSemaphore`. Its permits have no lease, so a process that dies
    /// never returns them. If this matters, use [`expirable_semaphore`](Self::expirable_semaphore).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let downloads = client.semaphore("downloads");
    /// downloads.try_set_permits(3).await?;
    /// let permit = downloads.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn semaphore(&self, name: impl IntoName) -> Semaphore {
        Semaphore::new(&self.handle, self.handle.name(name))
    }

    /// Returns the semaphore of this name whose permits have a lease, Redisson's `RPermitExpirableSemaphore`. The
    /// permits of a process that dies are free again within the lease.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let downloads = client.expirable_semaphore("downloads");
    /// downloads.try_set_permits(3).await?;
    /// let permit = downloads.acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn expirable_semaphore(&self, name: impl IntoName) -> ExpirableSemaphore {
        let terms = self.handle.defaults().terms(Primitive::ExpirableSemaphore);
        ExpirableSemaphore::new(&self.handle, self.handle.name(name), terms)
    }

    /// Returns the count-down latch of this name, Redisson's `RCountDownLatch`. Its waiters continue when it has been
    /// counted down to zero.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let latch = client.count_down_latch("import");
    /// latch.try_set_count(1).await?;
    /// latch.count_down().await?;
    /// latch.wait().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn count_down_latch(&self, name: impl IntoName) -> CountDownLatch {
        CountDownLatch::new(&self.handle, self.handle.name(name))
    }

    /// Returns a new owner, different from all others, for [`Lock::owned_by`].
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let owner = client.owner();
    /// let lock = client.lock("order:42").owned_by(&owner);
    /// let (outer, inner) = (lock.lock().await?, lock.lock().await?); // the same owner re-enters
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn owner(&self) -> Owner {
        Owner::unique()
    }

    /// Releases everything that this client holds, ends its waits with an error, and waits until the server confirms,
    /// for at most the timeout (3 s unless changed). [`Guard::lost`](crate::Guard::lost) of each guard resolves with
    /// [`LostReason::Closed`](crate::LostReason::Closed), and every later acquire fails with
    /// [`AcquireErrorKind::Closed`](crate::error::AcquireErrorKind::Closed).
    ///
    /// # Cancel safety
    /// The client is closed from the first poll on. Dropping the future only gives up the report.
    ///
    /// # Losing the lease
    /// Guards of this client are lost at once, even if the server does not confirm. A hold whose release is not
    /// confirmed may stay on the server until its lease ends. So does a hold whose minimum hold time
    /// ([`Lock::min_hold`](crate::Lock::min_hold)) is not over. Such a hold is not released. The client extends its
    /// lease by at most one call if the lease is too short, or shortens a plain lock's to that time, and the report does
    /// not count it. Guards of other clients are not touched.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// let report = client.close().await;
    /// assert_eq!((report.released, report.unconfirmed), (1, 0));
    /// assert!(!guard.is_held());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) -> CloseReport {
        // A closed client sends no query, so the card goes first.
        let left = self.handle.leave_operators();
        let ((), closed) = join(left, Ticket::new(&self.handle, Event::Close)).await;
        match closed {
            Ok(Outcome::Closed(report)) => report,
            Err(Forked) => CloseReport::default(),
            Ok(other) => unreachable!("a close completed as {other:?}"),
        }
    }
}

impl ClientBuilder {
    /// Sets the longest duration of one call to the server, connecting included: at least 1 ms (default 3 s).
    ///
    /// It is also the time for which the client retries on a failing server before a waiter gets the error, and the
    /// longest duration of [`Client::close`].
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.options.settings.timeout = timeout;
        self
    }

    /// Sets the longest sleep of a waiter between two attempts when no wake-up comes: at least 1 ms (default 1 s). A
    /// lost wake-up costs at most this time.
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.options.settings.poll_interval = interval;
        self
    }

    /// Sets the time after a grant of the server for which a lock passes from one waiter of this client to the next
    /// without a call to the server (default 2 ms, [`Duration::ZERO`] to turn it off).
    ///
    /// A lock that many tasks of one process want then costs a call per bound and not per hold. Waiters in other
    /// processes wait for at most this time longer. The guards of such a series show the same wire owner. A lock passes
    /// on only if its watchdog renews it, no acquire, renewal or release of it is on its way, and no bound of the next
    /// hold ends before its lease. With each answer of the server that no other client listens to the lock, the time
    /// begins anew.
    ///
    /// A fenced lock passes on with the tokens that its acquire has reserved, at most 15 times. Tokens that no holder
    /// gets are left out. Fair locks, read-write locks and semaphores do not pass on, because the server decides who is
    /// next.
    pub const fn hand_off(mut self, bound: Duration) -> Self {
        self.options.settings.hand_off = bound;
        self
    }

    /// Sets how wake-ups travel if the server is a node of a cluster (default [`ShardedPubsub::Auto`], as in Redisson).
    /// All clients that wait for the same locks must use the same value. Without a cluster the setting has no effect.
    pub const fn sharded_pubsub(mut self, sharded_pubsub: ShardedPubsub) -> Self {
        self.options.sharded_pubsub = sharded_pubsub;
        self
    }

    /// Adds an observer, which is told what the client decides. A client may have several.
    ///
    /// # Examples
    /// See [`observe`](crate::observe).
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.options.observe.observers.push(Arc::new(observer));
        self
    }

    /// Sets the wait after which observers are told that a lock is waited for, and by whom it is held, again after each
    /// such time: at least 1 ms (default 5 s).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.options.observe.patience = patience.max(Duration::from_millis(1));
        self
    }

    /// Sets the function that puts names into groups, which are the labels of metrics.
    ///
    /// The default takes the first two segments of a name, separated by `:`, `/`, `.`, `_` or `-`. A segment with a digit or
    /// of more than 24 bytes becomes `*`, so `order:42` is in the group `order:*`.
    pub fn group_by(mut self, group: fn(&str) -> Cow<'_, str>) -> Self {
        self.options.observe.group_by = group;
        self
    }

    /// Sets whether observers, log lines and spans get lock names (default [`Names::Shown`]). With [`Names::Hidden`] they are
    /// told the group in place of the name, unless the name is one of [`per_name`](Self::per_name). Errors have the names in
    /// any case, for the code that gave them.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::observe::Names;
    ///
    /// let client = leasehold::Client::builder().names(Names::Hidden).connect("memory://").await?;
    /// let guard = client.lock("user:alice@example.org:2").group("user").lock().await?; // observers are told "user"
    /// # Ok(())
    /// # }
    /// ```
    pub const fn names(mut self, names: Names) -> Self {
        self.options.observe.names = names;
        self
    }

    /// Gives each of these names its own group, so metrics count it separately, for example a nightly job. Each name adds
    /// a series to each metric, so choose only a few.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Client::builder().per_name(["nightly-report-2"]);
    /// let client = builder.connect("memory://").await?;
    /// let guard = client.lock("nightly-report-2").lock().await?; // in the group "nightly-report-2", else "nightly-report"
    /// # Ok(())
    /// # }
    /// ```
    pub fn per_name<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        Arc::make_mut(&mut self.options.observe.per_name).extend(names.into_iter().map(Into::into));
        self
    }

    /// Shows the client to operators, or hides it (default: shown).
    ///
    /// A visible client that waits for a lock, renews a hold or asks for a fixed lease of 10 s or more answers
    /// `leasehold list` and its siblings: which process it is, what it holds and for how long, and what it waits for.
    /// It keeps its card in a key of the server, which it renews every 20 minutes. Without a right to that key or to the
    /// channel of the questions it stays unseen, and nothing else changes. A client over `memory://` has no operators.
    pub const fn visible(mut self, visible: bool) -> Self {
        self.options.visibility.is_on = visible;
        self
    }

    /// Adds a label to what operators see of the client, such as its version: at most four.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Client::builder().label("version", env!("CARGO_PKG_VERSION"));
    /// let client = builder.connect("memory://").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.options.visibility.labels.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Connects with the first call instead of at once. [`connect`](Self::connect) then succeeds even if the server is
    /// down, and calls fail until the server is up.
    pub const fn lazy(mut self) -> Self {
        self.options.lazy = true;
        self
    }

    /// Sets the lease that the watchdog of all locks and permits renews, every third of it: 3 ms to 365 days (default
    /// 30 s). Waiters lose at most this time when the holder's process dies.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let builder = leasehold::Client::builder().watchdog(Duration::from_secs(10));
    /// let client = builder.connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(10));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn watchdog(mut self, lease: Duration) -> Self {
        self.options.defaults.watchdog = lease;
        self
    }

    /// Sets the terms of everything that one primitive makes (default: the client's watchdog and no bounds). Methods
    /// of a lock still override them for that lock.
    ///
    /// # Examples
    /// See [`HoldTerms`].
    pub fn defaults(mut self, of: Primitive, terms: HoldTerms) -> Self {
        self.options.defaults.terms.insert(of, terms);
        self
    }

    /// Sets the first and the longest pause of all spin locks, as [`Lock::backoff`] does for one lock: at least 1 ms
    /// (default 1 ms to 128 ms).
    pub fn spin_backoff(mut self, first: Duration, longest: Duration) -> Self {
        let first = first.max(Duration::from_millis(1));
        self.options.defaults.backoff = Backoff { first, longest: longest.max(first) };
        self
    }

    /// Sets a prefix for every name, Redisson's `NameMapper` (default: none).
    ///
    /// All keys and channels of a name follow from the prefix and the name together, so clients with different prefixes
    /// share no lock. Prefix and name together have at most 512 bytes. A prefix has no control characters, and
    /// no braces except for a hash tag, such as `{app}:`. Keys that are written with a fencing token have the
    /// prefix too.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::Client;
    ///
    /// let shop = Client::builder().key_prefix("shop:").connect("memory://all").await?;
    /// let plain = Client::connect("memory://all").await?;
    /// let guard = shop.lock("order:42").lock().await?;
    /// assert_eq!(guard.name(), "order:42");
    /// assert!(plain.lock("shop:order:42").is_locked().await?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn key_prefix(mut self, prefix: &str) -> Self {
        self.options.defaults.key_prefix = prefix.into();
        self
    }

    /// Sets the name of the client: 1 to 128 bytes of printable ASCII without spaces (default: the name of the program).
    ///
    /// `CLIENT LIST` shows it with the id of the client behind it, as `orders@3f2a9c1e-..`, cut to 128 bytes. A client
    /// that is not [`visible`](Self::visible) has the name alone, and no name by default. If the server refuses the
    /// name, the client works without it.
    pub fn client_name(mut self, name: &str) -> Self {
        self.options.client_name = Some(name.into());
        self
    }

    /// Sets the certificates and rules of encrypted connections, which a URL that begins with `rediss` or `valkeys` asks
    /// for (default: trust what the operating system trusts). With any other URL of a server, [`connect`](Self::connect)
    /// fails with [`ConnectError::NotEncrypted`].
    ///
    /// # Examples
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::{Client, Tls};
    ///
    /// let tls = Tls::new().ca_file("/etc/redis/ca.pem");
    /// let client = Client::builder().tls(tls).connect("rediss://redis.example.org:6380").await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.options.tls = Some(tls);
        self
    }

    /// Connects with these settings.
    ///
    /// # Errors
    /// As [`Client::connect`]. Also [`ConnectError::TooShort`] for a setting below 1 ms, and the variants of
    /// [`ConnectError`] that name a setting that cannot be used.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// See [`ClientBuilder`].
    pub async fn connect(self, url: &str) -> Result<Client, ConnectError> {
        self.check()?;
        let server = url.parse().map_err(ConnectError::Url)?;
        Ok(Client::new(connect(&server, self.options).await?))
    }

    /// Connects to a server of a configuration with these settings, for tools that examine servers.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let config = leasehold::config::Config::builder().url("memory://").build()?;
    /// let client = leasehold::Client::builder().connect_to(&config.servers()[0]).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "config")]
    pub async fn connect_to(self, server: &leasehold_store::url::Server) -> Result<Client, ConnectError> {
        self.check()?;
        Ok(Client::new(connect(server, self.options).await?))
    }

    /// Connects to a custom store, in a custom runtime. It is for stores and simulators, which implement the traits
    /// of `leasehold-store`. The driver's thread calls `open`, and errors name the store as `server`.
    ///
    /// Needs the feature `unstable-store`, since this method and those traits may change with any version.
    ///
    /// # Errors
    /// As [`connect`](Self::connect), with the errors of `open`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt. Nothing is left behind.
    #[cfg(feature = "unstable-store")]
    pub async fn connect_over<R, S, O>(
        self,
        runtime: &R,
        server: &str,
        open: O,
    ) -> Result<Client, ConnectError>
    where
        R: Runtime + Clone,
        S: Store,
        O: AsyncFnOnce() -> Result<S, StoreError> + Send + 'static,
    {
        self.over(runtime, server, open).await
    }

    /// Does the same for the crate itself, without the feature `unstable-store`.
    #[cfg(any(feature = "unstable-store", feature = "embedded"))]
    pub(crate) async fn over<R, S, O>(
        self,
        runtime: &R,
        server: &str,
        open: O,
    ) -> Result<Client, ConnectError>
    where
        R: Runtime + Clone,
        S: Store,
        O: AsyncFnOnce() -> Result<S, StoreError> + Send + 'static,
    {
        self.check()?;
        Ok(Client::new(start(runtime, self.options, server.to_owned(), open).await?))
    }

    fn check(&self) -> Result<(), ConnectError> {
        for (setting, given) in [
            ("timeout", self.options.settings.timeout),
            ("poll interval", self.options.settings.poll_interval),
        ] {
            if given < Duration::from_millis(1) {
                return Err(ConnectError::TooShort { setting, given });
            }
        }
        self.options.defaults.check_leases()?;
        check_prefix(&self.options.defaults.key_prefix).map_err(ConnectError::KeyPrefix)?;
        if self.options.client_name.as_ref().is_some_and(|name| !is_client_name(name)) {
            return Err(ConnectError::ClientName);
        }
        if self.options.visibility.are_labels_wrong() {
            return Err(ConnectError::Label);
        }
        Ok(())
    }
}

/// Returns true if servers accept the name. Servers refuse spaces and line ends.
pub(crate) fn is_client_name(name: &str) -> bool {
    (1..=CLIENT_NAME_MAX).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.handle.client())
    }
}
