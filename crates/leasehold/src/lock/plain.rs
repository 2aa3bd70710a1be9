//! The plain lock: the lock of the Redis documentation, shared with libraries of every language.
//!
//! Invariant: a value that another library wrote is never changed.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::{Holder, LockCalls, Recipe, plain};
use leasehold_proto::{Call, ClientId, Name, NameError, Reply, WireOwner};

use super::fenced::FencedGuard;
use super::handle::Lock;
use super::kind::{Claimed, Kind, Sealed, plain_guard};
use super::plain_format::PlainFormat;
use crate::error::{BadName, SubjectKind};
use crate::name::{IntoName, Named, named};

/// The plain kind: one string key, set with `SET NX PX`. See [`Client::plain_lock`](crate::Client::plain_lock).
#[derive(Clone, Debug)]
pub struct Plain {
    /// The name as the user wrote it, to which formats add their prefix.
    bare: Named,
    format: PlainFormat,
    /// The list of waiters of another library.
    list: Option<Name>,
    share: Option<Duration>,
    token: Option<Box<str>>,
}

/// A plain lock with fencing tokens. See [`Lock::fenced`].
#[derive(Clone, Debug)]
pub struct FencedPlain {
    plain: Plain,
    fence: Named,
}

impl Plain {
    pub(crate) const fn new(bare: Named) -> Self {
        Self { bare, format: PlainFormat::new(), list: None, share: None, token: None }
    }

    /// Returns what the lock has besides its key.
    fn details(&self, lock: &Name) -> Format {
        let mut format = Format::default();
        self.format.describe(lock, &mut format);
        format.list.clone_from(&self.list);
        format.token.clone_from(&self.token);
        format
    }

    /// Returns true if its holds end at their bound, because nothing would tell them of those that wait.
    const fn is_bounded(&self) -> bool {
        self.share.is_some() || self.token.is_some()
    }
}

impl Sealed for Plain {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::PlainLock
    }

    fn recipe(&self) -> &'static Recipe {
        if self.is_bounded() { &plain::BOUNDED } else { &plain::PLAIN }
    }

    fn joint_recipe(&self) -> Option<&'static Recipe> {
        (!self.is_bounded() && self.format.has_key_only()).then_some(&plain::MULTI)
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &plain::LOCK_CALLS
    }

    fn subject(&self, name: &Name) -> Subject {
        Subject::new(name, self.recipe()).formatted(self.details(name))
    }

    fn force_release(&self, name: &Name) -> Call {
        plain::force_release(name, &self.details(name))
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        plain::inspect(name, &self.details(name), owner)
    }

    fn holder(&self, name: &Name) -> Call {
        plain::holder(name)
    }

    fn read_holder(&self, reply: &Reply, client: ClientId) -> Option<Option<Holder>> {
        plain::read_holders(reply, client).map(|holders| holders.holders.into_iter().next())
    }

    fn share(&self) -> Option<Duration> {
        self.share
    }
}

plain_guard!(Plain);

impl Sealed for FencedPlain {
    fn subject_kind(&self) -> SubjectKind {
        SubjectKind::PlainLock
    }

    fn recipe(&self) -> &'static Recipe {
        if self.plain.is_bounded() { &plain::BOUNDED_FENCED } else { &plain::FENCED }
    }

    fn lock_calls(&self) -> &'static LockCalls {
        &plain::LOCK_CALLS
    }

    fn subject(&self, name: &Name) -> Subject {
        let mut format = self.plain.details(name);
        format.fence = self.fence.clone().ok();
        Subject::new(name, self.recipe()).formatted(format)
    }

    fn force_release(&self, name: &Name) -> Call {
        self.plain.force_release(name)
    }

    fn inspect(&self, name: &Name, owner: Option<WireOwner>) -> Call {
        self.plain.inspect(name, owner)
    }

    fn holder(&self, name: &Name) -> Call {
        plain::holder(name)
    }

    fn read_holder(&self, reply: &Reply, client: ClientId) -> Option<Option<Holder>> {
        plain::read_holders(reply, client).map(|holders| holders.holders.into_iter().next())
    }

    fn share(&self) -> Option<Duration> {
        self.plain.share
    }
}

impl Kind for FencedPlain {
    type Guard = FencedGuard;

    fn guard(Claimed(guard): Claimed) -> FencedGuard {
        FencedGuard::of(guard)
    }
}

impl Lock<Plain> {
    /// Sets the library with which the lock is shared (default: the key is the name, and nothing else is needed).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::PlainFormat;
    ///
    /// // The key is `mutex:job`, as redis-semaphore writes it in Node.
    /// let lock = client.plain_lock("job").format(PlainFormat::redis_semaphore());
    /// let guard = lock.lock().await?;
    /// assert!(client.plain_lock("mutex:job").try_lock().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn format(mut self, format: PlainFormat) -> Self {
        let key = |prefix| {
            let bare = self.kind.bare.clone()?;
            named(Prefixed(&bare, prefix)).and_then(|name| self.handle.on_server(name))
        };
        // The first operation reports a list that cannot be named, as it does with the lock's own name.
        let list = format.list_prefix().map(key).transpose();
        self.name = match &list {
            Ok(_) => key(format.key_prefix()),
            Err(bad) => Err(bad.clone()),
        };
        self.kind.list = list.ok().flatten();
        self.kind.format = format;
        self
    }

    /// Leaves clients of other libraries, which poll, a share of a busy lock (default: none).
    ///
    /// This client's waiters are woken by messages, so they would nearly always be faster than a client that looks every
    /// `interval`. With this setting they wait for a random part of it after each wake-up, and a hold passes between the
    /// tasks of this client for no longer than `interval`.
    #[must_use]
    pub fn share_with_pollers(mut self, interval: Duration) -> Self {
        self.kind.share = Some(interval);
        self.map_terms(|terms| terms.hand_off(interval))
    }

    /// Sets the value of the key, for a hold that another program releases or renews by the same value (default: a value
    /// of its own for each hold).
    ///
    /// No two holds may have the same value, in any process: whoever knows it can release the lock, and an acquire of unknown
    /// outcome is undone by it. Other waiters do not mark such a hold, so its release always sends a message.
    ///
    /// # Panics
    /// Panics if the value is empty, is `1`, which other libraries write for a lock without an owner, has the form of the
    /// values that this library writes, which its waiters mark, or has other characters than printable ASCII.
    #[must_use]
    pub fn token(mut self, value: &str) -> Self {
        let is_of_a_hold =
            !value.is_empty() && value != "1" && plain::Value::read(value.as_bytes()).is_none();
        assert!(is_of_a_hold, "a value names one hold, and has no form that others change");
        assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "a value is printable ASCII");
        self.kind.token = Some(value.into());
        self
    }

    /// Adds fencing tokens: each grant raises the counter of this key, also for clients of other libraries that raise it
    /// with each of their grants, such as bsm/redislock with its `FenceKey`.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let guard = client.plain_lock("job").fenced("job:fence").lock().await?;
    /// assert_eq!(guard.token(), 1);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn fenced(self, counter: impl IntoName) -> Lock<FencedPlain> {
        let fence = self.handle.name(counter);
        // The first operation reports a counter that cannot be named, as it does with the lock's own name.
        let is_taken =
            |fence: &Name| self.name.as_ref() == Ok(fence) || self.kind.list.as_ref() == Some(fence);
        let name = match &fence {
            Ok(fence) if is_taken(fence) => Err(BadName::new(NameError::UsedTwice, fence.as_str())),
            Ok(_) => self.name,
            Err(bad) => Err(bad.clone()),
        };
        let kind = FencedPlain { plain: self.kind, fence };
        let Self { handle, owner, terms, reenters, note, .. } = self;
        Lock { handle, name, owner, terms, reenters, note, kind }
    }
}

/// A name behind the prefix of a format.
struct Prefixed<'a>(&'a Name, &'a str);

impl IntoName for Prefixed<'_> {
    fn into_name(self) -> Result<Name, NameError> {
        if self.1.is_empty() { Ok(self.0.clone()) } else { self.0.behind(self.1) }
    }

    fn as_text(&self) -> &str {
        self.0.as_str()
    }
}
