//! The monotonic clock that all processes of this machine share.

use rustix::time::{ClockId, clock_gettime};

/// One second in microseconds.
pub const SECOND: u64 = 1_000_000;

/// Returns the microseconds of the monotonic clock.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let part = |number: i64| u64::try_from(number).unwrap_or_default();
    part(time.tv_sec) * SECOND + part(time.tv_nsec) / 1000
}
