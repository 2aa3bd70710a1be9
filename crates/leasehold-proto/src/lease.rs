//! The lease: the time for which the server keeps a hold without a renewal, and the validity that the client derives
//! from it.
//!
//! A lease is a whole number of milliseconds between [`LEASE_MIN`] and [`LEASE_MAX`], so no script can get one that
//! fails after its first write (docs/guarantees.md, rule 4).

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::time::Duration;

use crate::moment::Moment;

/// The shortest lease, because below it the drift leaves no validity.
pub const LEASE_MIN: Duration = Duration::from_millis(3);
/// The longest lease: 365 days. A longer one is more likely a mistake in a unit.
pub const LEASE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The shortest time that a renewal waits for its answer. After that time the client closes the connection that all
/// locks share, which a short pause of the server should not cause.
pub const RENEWAL_WAITS_MIN: Duration = Duration::from_secs(1);

/// A validated lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease(u64);

/// The reason why a lease was refused. Nothing was sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseError {
    /// Shorter than [`LEASE_MIN`].
    #[error("a lease of {given:?} is below the minimum of {LEASE_MIN:?}")]
    #[non_exhaustive]
    TooShort {
        /// The lease as given.
        given: Duration,
    },
    /// Longer than [`LEASE_MAX`].
    #[error("a lease of {given:?} exceeds the maximum of 365 days")]
    #[non_exhaustive]
    TooLong {
        /// The lease as given.
        given: Duration,
    },
}

impl Lease {
    /// Creates a lease of this length. Fractions of a millisecond are dropped.
    ///
    /// # Errors
    /// [`LeaseError`] when the length is outside [`LEASE_MIN`] to [`LEASE_MAX`].
    pub fn new(given: Duration) -> Result<Self, LeaseError> {
        if given < LEASE_MIN {
            return Err(LeaseError::TooShort { given });
        }
        if given > LEASE_MAX {
            return Err(LeaseError::TooLong { given });
        }
        Ok(Self(u64::try_from(given.as_millis()).expect("365 days fit into 64 bits of milliseconds")))
    }

    /// Creates the allowed lease nearest to this length.
    #[must_use]
    pub fn clamped(given: Duration) -> Self {
        Self::new(given.clamp(LEASE_MIN, LEASE_MAX)).expect("a clamped lease is within its bounds")
    }

    /// Returns the milliseconds, as on the wire.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the lease as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// Returns the drift: the most by which two clocks disagree within this lease, 1 % of it and 2 ms (M and A1 of
    /// docs/guarantees.md).
    #[must_use]
    pub const fn drift(self) -> Duration {
        Duration::from_micros(self.0 * 10 + 2_000)
    }

    /// Returns the time for which a client may trust a hold, counted from before the call was sent.
    #[must_use]
    pub const fn validity(self) -> Duration {
        self.duration().saturating_sub(self.drift())
    }

    /// Returns the time that a renewal of this lease waits for its answer, at most a call's `timeout`. It is a third of
    /// the lease, so that a lost reply leaves time for another attempt, but at least [`RENEWAL_WAITS_MIN`].
    #[must_use]
    pub fn renewal_waits(self, timeout: Duration) -> Duration {
        timeout.min((self.duration() / 3).max(RENEWAL_WAITS_MIN))
    }

    /// Returns the end of the validity of a hold that a call sent at `sent_at` confirmed.
    #[must_use]
    pub fn valid_until(self, sent_at: Moment) -> Moment {
        sent_at + self.validity()
    }

    /// Returns the time by which the key is certainly gone if nothing arrives at the server after `now`.
    #[must_use]
    pub fn gone_by(self, now: Moment) -> Moment {
        now + self.duration() + self.drift()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_a_minimum_and_a_maximum() {
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
