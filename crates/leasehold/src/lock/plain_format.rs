//! The libraries with which a plain lock can be shared, and the values that they write.

use std::borrow::Cow;

use leasehold_proto::Name;
use leasehold_proto::recipe::format::Format;

/// With whom a plain lock is shared: what those clients write besides the key's value.
///
/// [docs/interop-plain.md](https://github.com/leasehold-rs/leasehold/blob/main/docs/interop-plain.md) lists which library is
/// tested in which version, and what each of them can break.
///
/// # Examples
/// ```
/// use leasehold::{Endless, PlainFormat};
///
/// // A home-made lock with keys such as `lock/42`, some of which were set without an expiry.
/// let format = PlainFormat::new().prefix("lock/").endless(Endless::Fail);
/// # let _ = format;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlainFormat {
    prefix: Cow<'static, str>,
    signal: Signal,
    endless: Endless,
    other_types: bool,
}

/// A key without an expiry, which a holder of another library may have set on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endless {
    /// It is a hold like any other: an acquire waits for its release.
    #[default]
    Wait,
    /// It is a fault: an acquire fails with [`AcquireErrorKind::NoExpiry`](crate::error::AcquireErrorKind::NoExpiry).
    Fail,
}

/// The signal by which waiters of another library learn of a release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Signal {
    /// None: they poll.
    None,
    /// A list with this prefix in front of the name.
    List(Cow<'static, str>),
    /// A channel with this prefix in front of the key.
    Channel(Cow<'static, str>),
}

impl Default for PlainFormat {
    fn default() -> Self {
        Self::new()
    }
}

impl PlainFormat {
    /// Creates the format of a lock that is shared by its key alone: the key is the name.
    #[must_use]
    pub const fn new() -> Self {
        let prefix = Cow::Borrowed("");
        Self { prefix, signal: Signal::None, endless: Endless::Wait, other_types: false }
    }

    fn behind(prefix: &'static str) -> Self {
        Self { prefix: Cow::Borrowed(prefix), ..Self::new() }
    }

    /// Sets what stands before the name in the key (default: nothing).
    #[must_use]
    pub fn prefix(self, prefix: &str) -> Self {
        Self { prefix: Cow::Owned(prefix.to_owned()), ..self }
    }

    /// Sets the meaning of a key without an expiry (default: a hold to wait for).
    #[must_use]
    pub fn endless(self, endless: Endless) -> Self {
        Self { endless, ..self }
    }

    /// Lets a key of another type count as held, as a library that keeps its locks in another type needs it (default: an
    /// error that names the type).
    #[must_use]
    pub fn other_types_hold(self) -> Self {
        Self { other_types: true, ..self }
    }

    /// Returns the format of redis-py's `Lock` (Python), whose locks have no expiry unless `timeout` is given.
    #[must_use]
    pub fn redis_py() -> Self {
        Self::new()
    }

    /// Returns the format of python-redis-lock, whose waiters block on a list.
    #[must_use]
    pub fn python_redis_lock() -> Self {
        Self { signal: Signal::List(Cow::Borrowed("lock-signal:")), ..Self::behind("lock:") }
    }

    /// Returns the format of pottery (Python).
    #[must_use]
    pub fn pottery() -> Self {
        Self::behind("redlock:")
    }

    /// Returns the format of django-redis with its default `KEY_PREFIX` and `VERSION`.
    #[must_use]
    pub fn django_redis() -> Self {
        Self::behind(":1:")
    }

    /// Returns the format of go-redsync.
    #[must_use]
    pub fn redsync() -> Self {
        Self::new()
    }

    /// Returns the format of bsm/redislock (Go).
    #[must_use]
    pub fn bsm() -> Self {
        Self::new()
    }

    /// Returns the format of rueidislock (Go) with `KeyMajority: 1`.
    #[must_use]
    pub fn rueidislock() -> Self {
        Self::behind("rueidislock:0:")
    }

    /// Returns the format of node-redlock.
    #[must_use]
    pub fn node_redlock() -> Self {
        Self::new()
    }

    /// Returns the format of redis-semaphore's `Mutex` (Node).
    #[must_use]
    pub fn redis_semaphore() -> Self {
        Self::behind("mutex:")
    }

    /// Returns the format of rslock and redlock-rs (Rust).
    #[must_use]
    pub fn rslock() -> Self {
        Self::new()
    }

    /// Returns the format of RedLock.net.
    #[must_use]
    pub fn red_lock_net() -> Self {
        Self::behind("redlock:")
    }

    /// Returns the format of ShedLock (Java) in an environment, which is `default` unless the application sets another.
    #[must_use]
    pub fn shedlock(environment: &str) -> Self {
        Self::new().prefix(&format!("job-lock:{environment}:"))
    }

    /// Returns the format of Spring Integration's `RedisLockRegistry` of type `SPIN_LOCK`.
    #[must_use]
    pub fn spring(registry: &str) -> Self {
        Self::new().prefix(&format!("{registry}:"))
    }

    /// Returns the format of Spring Integration's `RedisLockRegistry` of type `PUB_SUB_LOCK`, whose waiters listen on a
    /// channel.
    #[must_use]
    pub fn spring_pub_sub(registry: &str) -> Self {
        Self { signal: Signal::Channel(format!("{registry}-channel:").into()), ..Self::spring(registry) }
    }

    /// Returns the format of Laravel's cache locks (PHP): the connection's prefix and the cache's prefix.
    #[must_use]
    pub fn laravel(connection: &str, cache: &str) -> Self {
        Self::new().prefix(&format!("{connection}{cache}"))
    }

    /// Returns the format of malkusch/lock (PHP).
    #[must_use]
    pub fn php_lock() -> Self {
        Self::behind("php-malkusch-lock:")
    }

    /// Returns the format of Symfony's `RedisStore` from 5.2 on, which keeps its locks in another type. Both sides see that
    /// the key exists.
    #[must_use]
    pub fn symfony() -> Self {
        Self { other_types: true, ..Self::new() }
    }

    pub(super) fn key_prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns true if the lock is shared by its key alone, so that one script can take it with others.
    pub(super) fn has_key_only(&self) -> bool {
        self.signal == Signal::None && self.endless == Endless::Wait && !self.other_types
    }

    /// Returns what stands before the name in the list of waiters, if they have one.
    pub(super) fn list_prefix(&self) -> Option<&str> {
        match &self.signal {
            Signal::List(prefix) => Some(prefix),
            Signal::None | Signal::Channel(_) => None,
        }
    }

    /// Adds what the lock has besides its keys.
    pub(super) fn describe(&self, lock: &Name, format: &mut Format) {
        format.fails_endless = self.endless == Endless::Fail;
        format.holds_others = self.other_types;
        if let Signal::Channel(prefix) = &self.signal {
            format.channel = Some(format!("{prefix}{lock}").into());
        }
    }
}
