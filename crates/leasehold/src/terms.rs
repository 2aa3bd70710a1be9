//! The terms of a hold: how long its lease is, who renews it, and what bounds it.

// Invariant: terms that no hold can meet are refused before anything is sent.
//
// `HoldTerms` is the only value with terms. A client has default terms for each primitive, each handle (a lock, a
// semaphore) has a copy, and `HoldTerms::request` turns the copy into a request. `lease_options!` and `hold_options!`
// write the setters of a handle, which change the handle's copy.

use std::time::Duration;

use leasehold_proto::engine::{Group, Request, Subject, Wait};
use leasehold_proto::{Confirm, Lease, Owner};
pub use leasehold_proto::{LEASE_MAX, LEASE_MIN};

use crate::error::AcquireErrorKind;

/// The default lease of the watchdog, as in Redisson.
pub(crate) const WATCHDOG_LEASE: Duration = Duration::from_secs(30);

/// The terms of a hold: a lease or a watchdog, and bounds on its time.
///
/// [`ClientBuilder::defaults`](crate::ClientBuilder::defaults) sets the terms of all handles of one primitive. A handle
/// such as [`Lock`](crate::Lock) has the same setters and overrides the defaults for its own holds.
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
    /// The lease, or `None` for the watchdog of the client.
    lease: Option<(Duration, Renewed)>,
    max_hold: Option<Duration>,
    min_hold: Option<Duration>,
    max_renewals: Option<u32>,
    silent_for: Option<Duration>,
    margin: Duration,
    stands_by: bool,
    hand_off: Option<Duration>,
    /// The replicas that confirm, or `None` for the client's.
    replicas: Option<Confirm>,
    /// The group of the name for observers, or `None` for the one by the client's rule.
    group: Option<&'static Group>,
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
        Self {
            lease: None,
            max_hold: None,
            min_hold: None,
            max_renewals: None,
            silent_for: None,
            margin: Duration::ZERO,
            stands_by: false,
            hand_off: None,
            replicas: None,
            group: None,
        }
    }

    /// Sets a fixed lease that nothing renews: 3 ms to 365 days (default: none). Replaces a
    /// [`watchdog`](Self::watchdog).
    ///
    /// The hold ends by itself when the lease runs out. Use it for work of a known length that must not run for longer.
    /// The acquire, or the connect if the lease is a default of the client, reports a lease out of range.
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

    /// Sets a lease that the watchdog renews every third of it: 3 ms to 365 days (default: the client's, which is 30 s
    /// unless changed). Replaces a [`lease`](Self::lease).
    ///
    /// Other owners wait for at most this lease after the death of this process.
    pub const fn watchdog(mut self, lease: Duration) -> Self {
        self.lease = Some((lease, Renewed::Always));
        self
    }

    /// Limits the time of each hold to `most`, which is at least 3 ms (default: no limit).
    ///
    /// The watchdog stops in time, so that the hold ends this long after the grant. The limit bounds the damage of a
    /// guard that is never dropped.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Sets the minimum hold time (default: none). The lock stays closed, or the permits stay acquired, for this long
    /// after each grant.
    ///
    /// If the release comes earlier, the server keeps the lock closed for the rest of this time, for its owner too.
    /// Use it for jobs that end too soon for other processes that start the same job at the same time.
    ///
    /// If this process ends before that time, or its client is closed or dropped, the remaining lease ends the hold. It
    /// ends later than the minimum hold time if the lease is longer. An awaited release has extended a lease that is too
    /// short. [`Client::close`](crate::Client::close) extends it by at most one call for each hold, and does not report
    /// the result. A [plain lock](crate::Client::plain_lock) also gets a shorter lease, so it opens when the minimum hold is over.
    ///
    /// A lost hold has no minimum. An acquire therefore refuses a fixed [`lease`](Self::lease) that is shorter than
    /// the minimum hold.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # use leasehold::{Client, HoldTerms, Primitive};
    /// let terms = HoldTerms::new().min_hold(Duration::from_secs(300));
    /// let client = Client::builder().defaults(Primitive::Lock, terms).connect("memory://").await?;
    /// let nightly = client.lock("nightly");
    /// nightly.lock().await?.release().await?; // a quick one
    /// assert!(nightly.try_lock().await?.is_none(), "for five minutes");
    /// # Ok(())
    /// # }
    /// ```
    pub const fn min_hold(mut self, least: Duration) -> Self {
        self.min_hold = Some(least);
        self
    }

    /// Limits the number of renewals of each hold (default: no limit). After the last renewal the lease runs out.
    ///
    /// With the default lease of 30 s, which is renewed every 10 s, three renewals let a hold last for 60 s.
    pub const fn max_renewals(mut self, most: u32) -> Self {
        self.max_renewals = Some(most);
        self
    }

    /// Stops the watchdog while the holder is silent: it renews a hold only if the holder called
    /// [`Guard::beat`](crate::Guard::beat) within this time (default: it always renews).
    ///
    /// The watchdog runs on a thread of its own, so it also renews the hold of a body that hangs. With this bound, the lock of
    /// such a body is lost with [`LostReason::Silent`](crate::LostReason::Silent) and free within `most` and a lease after the
    /// last beat. The watchdog looks every third of the lease. A beat that comes after that, and before the lease ends, renews
    /// the hold at once. The claim of the grant counts as a beat, and so do [`ensure`](crate::Guard::ensure) and
    /// [`extend`](crate::Guard::extend).
    ///
    /// If an owner holds the lock more than once, any of its guards that is not silent keeps it. A fixed
    /// [`lease`](Self::lease) is not renewed at all, so this changes nothing for it.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// # let batches = [(), ()];
    /// let import = client.lock("import").silent_for(Duration::from_secs(60));
    /// let guard = import.lock().await?;
    /// for batch in batches {
    ///     guard.beat(); // the lock is free a minute and a lease after the last one
    ///     // ... work on the batch ...
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub const fn silent_for(mut self, most: Duration) -> Self {
        self.silent_for = Some(most);
        self
    }

    /// Sets the time before the end of each lease at which the client stops trusting the hold (default: zero).
    ///
    /// The server keeps the lock closed for the whole lease, so nobody else gets a lost lock for at least `margin`. Use it if the
    /// resource cannot check fencing tokens but finishes every request within a known time. Other clients need no setting.
    ///
    /// A margin that leaves no validity is refused by the acquire, or by the connect if it is a default of the client. If an
    /// owner holds the lock more than once, the longest margin counts for all its guards.
    ///
    /// # Examples
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// let lock = client.lock("order:42").watchdog(Duration::from_secs(30)).margin(Duration::from_secs(10));
    /// let guard = lock.lock().await?;
    /// assert!(guard.remaining() < Duration::from_secs(20)); // the last requests have 10 s to end
    /// # Ok(())
    /// # }
    /// ```
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }

    /// Sets the time after a grant of the server for which a lock passes from one waiter of this client to the next without
    /// a call (default: the client's, 2 ms). [`Duration::ZERO`] turns it off. See
    /// [`ClientBuilder::hand_off`](crate::ClientBuilder::hand_off).
    pub const fn hand_off(mut self, bound: Duration) -> Self {
        self.hand_off = Some(bound);
        self
    }

    /// Sets the replicas that must acknowledge each acquire and each renewal of the hold, and the writes of its guard with
    /// a fencing token (default: the client's). [`Confirm::None`] turns the client's confirmation off, by replicas and by
    /// disks.
    ///
    /// The policy overrides the client's. The time for the acknowledgments, the choice for missing replicas, and the
    /// confirmation by disks stay as the client has them. See [`ClientBuilder::replicas`](crate::ClientBuilder::replicas).
    ///
    /// A hold keeps its policy until it ends. A re-entry with another policy adds to it: from then on, the hold needs as
    /// many replicas as the stricter of both. A hold passes to a waiter of this client only if the waiter has the same
    /// policy. An in-memory server has no replicas, so it confirms each call at once.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::connect("memory://").await?;
    /// use leasehold::Confirm;
    ///
    /// let payment = client.lock("payment:42").replicas(Confirm::all(2));
    /// let guard = payment.lock().await?; // both replicas have it
    /// # Ok(())
    /// # }
    /// ```
    pub const fn replicas(mut self, policy: Confirm) -> Self {
        self.replicas = Some(policy);
        self
    }

    /// Returns the same terms, for a name of this group.
    pub(crate) const fn in_group(self, group: &'static Group) -> Self {
        Self { group: Some(group), ..self }
    }

    /// Returns the same terms without the group of a name.
    pub(crate) const fn without_group(self) -> Self {
        Self { group: None, ..self }
    }

    /// Returns the same terms, with these replicas if they have no policy of their own.
    pub(crate) const fn or_replicas(self, policy: Option<Confirm>) -> Self {
        if self.replicas.is_some() { self } else { Self { replicas: policy, ..self } }
    }

    /// Returns the replicas that confirm, or `None` for the client's.
    pub(crate) const fn confirmed_by(&self) -> Option<Confirm> {
        self.replicas
    }

    /// Returns the same terms, with this watchdog if they have no lease of their own.
    pub(crate) const fn or_watchdog(self, lease: Duration) -> Self {
        if self.lease.is_some() { self } else { self.watchdog(lease) }
    }

    /// Returns the same terms for a candidate, whose waits are never long.
    pub(crate) const fn standing_by(self) -> Self {
        Self { stands_by: true, ..self }
    }

    /// Returns the same terms without bounds on the hold.
    pub(crate) const fn unbounded(self) -> Self {
        let Self { lease, hand_off, replicas, group, .. } = self;
        Self { lease, hand_off, replicas, group, ..Self::new() }
    }

    /// Returns the same terms without a minimum hold time.
    pub(crate) const fn without_min_hold(self) -> Self {
        Self { min_hold: None, ..self }
    }

    /// Returns the lease, if these terms have one of their own.
    pub(crate) fn own_lease(&self) -> Option<Duration> {
        self.lease.map(|(lease, _)| lease)
    }

    /// Returns the time for which the server keeps the hold without a renewal.
    pub(crate) fn first_lease(&self) -> Duration {
        self.own_lease().unwrap_or(WATCHDOG_LEASE)
    }

    /// Returns true if the watchdog renews the lease.
    pub(crate) const fn is_watched(&self) -> bool {
        !matches!(self.lease, Some((_, Renewed::Never)))
    }

    /// Returns the longest silence of the caller, or `None` if it may be silent.
    pub(crate) const fn silence(&self) -> Option<Duration> {
        self.silent_for
    }

    /// Returns the minimum hold time, or `None` if the hold has none.
    pub(crate) const fn least(&self) -> Option<Duration> {
        self.min_hold
    }

    /// Refuses bounds that no hold can have.
    pub(crate) fn check(&self) -> Result<(), AcquireErrorKind> {
        if let Some(given) = self.max_hold.filter(|most| *most < LEASE_MIN) {
            return Err(AcquireErrorKind::MaxHold { given });
        }
        if !self.margin.is_zero() {
            let most = Lease::new(self.first_lease())?.validity().min(self.max_hold.unwrap_or(LEASE_MAX));
            if self.margin >= most {
                return Err(AcquireErrorKind::Margin { given: self.margin, most });
            }
        }
        // A released hold gets one lease for the rest of its minimum, so a longer maximum does not help. A fixed lease
        // ends the hold before the rest of its minimum could begin.
        let lease = if self.is_watched() { LEASE_MAX } else { self.first_lease() };
        let most = self.max_hold.unwrap_or(lease).min(lease);
        match self.min_hold.filter(|least| *least > most) {
            Some(given) => Err(AcquireErrorKind::MinHold { given, most }),
            None => Ok(()),
        }
    }

    /// Creates a request with these terms.
    pub(crate) fn request(
        &self,
        subject: Subject,
        owner: Owner,
        wait: Wait,
    ) -> Result<Request, AcquireErrorKind> {
        self.check()?;
        let subject = Subject { group: self.group, ..subject };
        Ok(Request {
            watchdog: self.is_watched(),
            max_renewals: self.max_renewals,
            max_hold: self.max_hold,
            min_hold: self.min_hold,
            silent_for: self.silent_for,
            margin: self.margin,
            stands_by: self.stands_by,
            hand_off: self.hand_off,
            replicas: self.replicas,
            ..Request::new(subject, owner, Lease::new(self.first_lease())?, wait)
        })
    }
}

/// Writes the setters of the lease, and of the replicas that confirm it, for a handle with a method
/// `map_terms(self, change: impl Fn(HoldTerms) -> HoldTerms) -> Self`.
///
/// The setters are inherent methods and not methods of a trait, so callers import nothing.
macro_rules! lease_options {
    ($handle:ty $(where $($generics:tt)*)?) => {
        impl$(<$($generics)*>)? $handle {
            /// Sets a fixed lease, from 3 ms to 365 days, and turns the watchdog off (default: no fixed lease). The hold
            /// ends by itself when the lease runs out. See [`HoldTerms::lease`](crate::HoldTerms::lease).
            #[must_use]
            pub fn lease(self, lease: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.lease(lease))
            }

            /// Sets the lease that the watchdog renews each third of it, from 3 ms to 365 days (default 30 s). The hold
            /// of a dead process ends within this lease. See [`HoldTerms::watchdog`](crate::HoldTerms::watchdog).
            #[must_use]
            pub fn watchdog(self, lease: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.watchdog(lease))
            }

            /// Sets the replicas that must acknowledge each acquire and each renewal (default: the client's).
            /// [`Confirm::None`](crate::Confirm::None) turns the confirmation of the client off. See
            /// [`HoldTerms::replicas`](crate::HoldTerms::replicas).
            #[must_use]
            pub fn replicas(self, policy: leasehold_proto::Confirm) -> Self {
                self.map_terms(|terms| terms.replicas(policy))
            }

            /// Sets the group of the name, which observers are told and which is the label of metrics (default: by
            /// [`ClientBuilder::group_by`](crate::ClientBuilder::group_by)).
            ///
            /// A process remembers 1,000 groups. Later ones count as `other`, so do not make groups of ids.
            #[must_use]
            pub fn group(self, group: &str) -> Self {
                let group = $crate::observe::group::group(group);
                self.map_terms(|terms| terms.in_group(group))
            }
        }
    };
}

/// Writes the setters of all terms for a handle, as [`lease_options`] does for the lease.
macro_rules! hold_options {
    ($handle:ty $(where $($generics:tt)*)?) => {
        $crate::terms::lease_options!($handle $(where $($generics)*)?);

        impl$(<$($generics)*>)? $handle {
            /// Limits the time of each hold to `most`, which is at least 3 ms (default: no limit). The watchdog stops in
            /// time. See [`HoldTerms::max_hold`](crate::HoldTerms::max_hold).
            #[must_use]
            pub fn max_hold(self, most: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.max_hold(most))
            }

            /// Sets the minimum hold time (default: none). If the release comes earlier, the server keeps the hold for
            /// the rest of this time. See [`HoldTerms::min_hold`](crate::HoldTerms::min_hold).
            #[must_use]
            pub fn min_hold(self, least: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.min_hold(least))
            }

            /// Stops the watchdog unless the holder calls [`Guard::beat`](crate::Guard::beat) at least this often (default: it
            /// always renews). See [`HoldTerms::silent_for`](crate::HoldTerms::silent_for).
            #[must_use]
            pub fn silent_for(self, most: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.silent_for(most))
            }

            /// Sets the time before the end of each lease at which the client stops trusting the hold (default: zero). See
            /// [`HoldTerms::margin`](crate::HoldTerms::margin).
            #[must_use]
            pub fn margin(self, margin: ::std::time::Duration) -> Self {
                self.map_terms(|terms| terms.margin(margin))
            }

            /// Limits the number of renewals of each hold (default: no limit). After the last renewal the lease runs
            /// out. See [`HoldTerms::max_renewals`](crate::HoldTerms::max_renewals).
            #[must_use]
            pub fn max_renewals(self, most: u32) -> Self {
                self.map_terms(|terms| terms.max_renewals(most))
            }
        }
    };
}

pub(crate) use {hold_options, lease_options};
