//! A point in time on a clock that the caller reads.
//!
//! Arithmetic saturates, so no input can panic or wrap.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time, in nanoseconds on a monotonic clock that also runs while the machine is suspended (`CLOCK_BOOTTIME`
/// on Linux). Moments of two machines, or of two boots, cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(u64);

impl Moment {
    /// The end of time, a deadline that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// Creates the moment this many nanoseconds after the clock's zero.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates the moment this many milliseconds after the clock's zero.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Returns the nanoseconds since the clock's zero.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time from `earlier` to this moment, or zero when this moment is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, span: Duration) -> Self {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_sub(nanos))
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NEVER { f.write_str("never") } else { write!(f, "{}us", self.0 / 1_000) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_the_longest_duration_saturates() {
        assert_eq!(Moment::from_millis(1) + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::NEVER + Duration::from_secs(1), Moment::NEVER);
        assert_eq!(Moment::from_millis(1) - Duration::MAX, Moment::from_nanos(0));
    }

    #[test]
    fn since_a_later_moment_is_zero() {
        assert_eq!(Moment::from_millis(1).since(Moment::from_millis(2)), Duration::ZERO);
        assert_eq!(Moment::from_millis(5).since(Moment::from_millis(2)), Duration::from_millis(3));
    }
}
