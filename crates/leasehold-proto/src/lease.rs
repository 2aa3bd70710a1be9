//! How long the server keeps a hold without renewal, and how long the client may trust it.
//!
//! Invariant: a lease is a whole number of milliseconds between [`LEASE_MIN`] and [`LEASE_MAX`], so no script can be
//! given one that fails after its first write (docs/guarantees.md, rule 4).

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::time::Duration;

use crate::moment::Moment;

/// The shortest lease: below it the drift allowance leaves nothing to trust.
pub const LEASE_MIN: Duration = Duration::from_millis(3);
/// The longest lease: 365 days.
pub const LEASE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest time that a renewal waits for its answer: when it is over the connection that all locks share is closed,
/// which a server that merely stutters should not cause.
pub const RENEWAL_WAITS_MIN: Duration = Duration::from_secs(1);

/// A validated lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(u64);

/// Why a lease was refused. Nothing was sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Shorter than [`LEASE_MIN`].
    #[error("a lease of {given:?} is too short, at least {LEASE_MIN:?} is needed")]
    #[non_exhaustive]
    TooShort {
        /// The lease that was asked for.
        given: Duration,
    },
    /// Longer than [`LEASE_MAX`].
    #[error("a lease of {given:?} is too long, at most 365 days are allowed")]
    #[non_exhaustive]
    TooLong {
        /// The lease that was asked for.
        given: Duration,
    },
}

impl Lease {
    /// A lease of this length; fractions of a millisecond are dropped.
    ///
    /// # Errors
    /// [`LeaseError`] when it is outside [`LEASE_MIN`] to [`LEASE_MAX`].
    pub fn new(given: Duration) -> Result<Self, LeaseError> {
        if given < LEASE_MIN {
            return Err(LeaseError::TooShort { given });
        }
        if given > LEASE_MAX {
            return Err(LeaseError::TooLong { given });
        }
        Ok(Self(u64::try_from(given.as_millis()).expect("365 days fit into 64 bits of milliseconds")))
    }

    /// The lease nearest to this length that is allowed.
    #[must_use]
    pub fn clamped(given: Duration) -> Self {
        Self::new(given.clamp(LEASE_MIN, LEASE_MAX)).expect("a clamped lease is within its bounds")
    }

    /// Milliseconds, as on the wire.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The lease as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// The most by which two clocks disagree within this lease: 1 % of it and 2 ms (M and A1 of docs/guarantees.md).
    #[must_use]
    pub const fn drift(self) -> Duration {
        Duration::from_micros(self.0 * 10 + 2_000)
    }

    /// How long a client may trust a hold, counted from before the call was sent.
    #[must_use]
    pub const fn validity(self) -> Duration {
        self.duration().saturating_sub(self.drift())
    }

    /// How long one of its renewals waits for its answer, at most a call's `timeout`: a third of the lease, so that a lost
    /// reply leaves time for another attempt, but at least [`RENEWAL_WAITS_MIN`].
    #[must_use]
    pub fn renewal_waits(self, timeout: Duration) -> Duration {
        timeout.min((self.duration() / 3).max(RENEWAL_WAITS_MIN))
    }

    /// Until when a hold that was confirmed by a call sent at `sent_at` may be trusted.
    #[must_use]
    pub fn valid_until(self, sent_at: Moment) -> Moment {
        sent_at + self.validity()
    }

    /// When the key has certainly gone if nothing arrived at the server after `now`.
    #[must_use]
    pub fn gone_by(self, now: Moment) -> Moment {
        now + self.duration() + self.drift()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_keeps_its_bounds() {
        assert_eq!(
            Lease::new(Duration::from_micros(2_999)),
            Err(LeaseError::TooShort { given: Duration::from_micros(2_999) })
        );
        assert_eq!(Lease::new(Duration::ZERO), Err(LeaseError::TooShort { given: Duration::ZERO }));
        assert_eq!(Lease::new(LEASE_MIN).unwrap().as_millis(), 3);
        assert_eq!(Lease::new(LEASE_MAX).unwrap().duration(), LEASE_MAX);
        assert_eq!(Lease::new(Duration::MAX), Err(LeaseError::TooLong { given: Duration::MAX }));
    }

    #[test]
    fn validity_is_the_lease_less_one_percent_and_two_milliseconds() {
        assert_eq!(Lease::new(Duration::from_secs(30)).unwrap().validity(), Duration::from_millis(29_698));
        assert!(Lease::new(LEASE_MIN).unwrap().validity() > Duration::ZERO);
    }
}
