//! The default terms of a client's locks and semaphores.
//!
//! Invariant: the defaults are fixed when the client connects. A lock copies its terms from here once, when it is made.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::backoff::Backoff;
use leasehold_proto::{Lease, LeaseError, Name, NameError};

use crate::terms::{Terms, WATCHDOG_LEASE};

/// A primitive whose holds have terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Primitive {
    /// [`Client::lock`](crate::Client::lock), and the locks of a [`Redlock`](crate::Redlock).
    Lock,
    /// [`Client::fair_lock`](crate::Client::fair_lock).
    FairLock,
    /// [`Client::fenced_lock`](crate::Client::fenced_lock).
    FencedLock,
    /// [`Client::spin_lock`](crate::Client::spin_lock).
    SpinLock,
    /// [`Client::rw_lock`](crate::Client::rw_lock), both sides.
    RwLock,
    /// [`Client::expirable_semaphore`](crate::Client::expirable_semaphore).
    ExpirableSemaphore,
}

/// The terms of holds, which are defaults of one primitive for the methods of [`Lock`](crate::Lock) with the same
/// names.
///
/// # Examples
/// ```
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, HoldTerms, Primitive};
///
/// let short = HoldTerms::new().watchdog(Duration::from_secs(5)).max_hold(Duration::from_secs(60));
/// let client = Client::builder().defaults(Primitive::Lock, short).connect("memory://").await?;
/// let guard = client.lock("order:42").lock().await?; // renewed every third of 5 s, for a minute
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "terms do nothing until a builder has them"]
pub struct HoldTerms {
    lease: Option<(Duration, Renewed)>,
    max_hold: Option<Duration>,
    max_renewals: Option<u32>,
    min_hold: Option<Duration>,
}

/// The renewal of a lease by the watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewed {
    Always,
    Never,
}

impl HoldTerms {
    /// Returns the terms of the client: its watchdog, and no bounds.
    pub const fn new() -> Self {
        Self { lease: None, max_hold: None, max_renewals: None, min_hold: None }
    }

    /// Sets a lease that the watchdog renews every third of it: 3 ms to 365 days (default: the client's, which is 30 s
    /// unless changed). Replaces a [`lease`](Self::lease).
    pub const fn watchdog(mut self, lease: Duration) -> Self {
        self.lease = Some((lease, Renewed::Always));
        self
    }

    /// Sets a fixed lease that nothing renews: 3 ms to 365 days (default: none). Replaces a
    /// [`watchdog`](Self::watchdog).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use leasehold::{Client, HoldTerms, Primitive};
    /// let terms = HoldTerms::new().lease(Duration::from_secs(5));
    /// let client = Client::builder().defaults(Primitive::Lock, terms).connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// assert!(guard.remaining() <= Duration::from_secs(5));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some((lease, Renewed::Never));
        self
    }

    /// Sets the longest duration of each hold: at least 3 ms (default: no bound). The watchdog does not renew past it.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sets the highest number of renewals of each hold (default: no bound). With the default lease of 30 s, which is
    /// renewed every 10 s, three renewals let a hold last for 60 s.
    pub const fn max_renewals(mut self, most: u32) -> Self {
        self.max_renewals = Some(most);
        self
    }

    /// Sets the minimum hold time (default: none). The lock stays closed for this long after each grant, even if it is
    /// released earlier. See [`Lock::min_hold`](crate::Lock::min_hold).
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use leasehold::{Client, HoldTerms, Primitive};
    /// let terms = HoldTerms::new().min_hold(Duration::from_secs(5));
    /// let client = Client::builder().defaults(Primitive::Lock, terms).connect("memory://").await?;
    /// let guard = client.lock("order:42").lock().await?;
    /// guard.release().await?;
    /// assert!(client.lock("order:42").try_lock().await?.is_none()); // for the rest of the 5 s
    /// # Ok(())
    /// # }
    /// ```
    pub const fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = Some(least);
        self
    }

    /// Returns the terms, with the client's watchdog if they have no lease of their own.
    fn over(&self, watchdog: Duration) -> Terms {
        let mut terms = Terms::default();
        match self.lease {
            None => terms.watch(watchdog),
            Some((lease, Renewed::Always)) => terms.watch(lease),
            Some((lease, Renewed::Never)) => terms.fix(lease),
        }
        (terms.max_hold, terms.max_renewals) = (self.max_hold, self.max_renewals);
        terms.min_hold = self.min_hold;
        terms
    }
}

/// The defaults of one client.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) watchdog: Duration,
    pub(crate) terms: BTreeMap<Primitive, HoldTerms>,
    /// The pauses of spin locks.
    pub(crate) backoff: Backoff,
    /// The prefix of every name.
    pub(crate) key_prefix: Arc<str>,
}

impl Default for Defaults {
    fn default() -> Self {
        let backoff = Backoff { first: Duration::from_millis(1), longest: Duration::from_millis(128) };
        Self { watchdog: WATCHDOG_LEASE, terms: BTreeMap::new(), backoff, key_prefix: "".into() }
    }
}

impl Defaults {
    /// Returns the terms of the holds of a primitive.
    pub(crate) fn terms(&self, of: Primitive) -> Terms {
        self.terms.get(&of).copied().unwrap_or_default().over(self.watchdog)
    }

    /// Returns the name on the server, which is the user's name behind the prefix.
    pub(crate) fn on_server(&self, name: Name) -> Result<Name, NameError> {
        if self.key_prefix.is_empty() { Ok(name) } else { name.behind(&self.key_prefix) }
    }

    /// Returns the name as the user wrote it.
    pub(crate) fn as_written<'a>(&self, name: &'a Name) -> &'a str {
        name.as_str().strip_prefix(&*self.key_prefix).unwrap_or(name.as_str())
    }

    /// Refuses leases outside their bounds.
    pub(crate) fn check_leases(&self) -> Result<(), LeaseError> {
        let own = self.terms.values().filter_map(|terms| terms.lease.map(|(lease, _)| lease));
        own.chain([self.watchdog]).try_for_each(|lease| Lease::new(lease).map(drop))
    }
}

/// Refuses a prefix that makes every name invalid.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), NameError> {
    Name::new("x")?.behind(prefix).map(drop)
}
