//! Waits for a condition instead of sleeping for a fixed time.
//!
//! Invariant: a wait returns as soon as the condition holds, and at most one poll after the limit.

use std::thread;
use std::time::{Duration, Instant};

/// The pause between two checks of a condition.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(3);

/// Checks `condition` every few milliseconds until it is true.
///
/// Checks the condition once more after the limit, so a machine that stalls for a while fails no test.
///
/// # Panics
/// Panics if the condition is still false after `limit`. The message contains `what`.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// let mut checks = 0;
/// leasehold_testkit::wait::eventually(Duration::from_secs(5), "the third check", || {
///     checks += 1;
///     checks == 3
/// });
/// ```
#[track_caller]
pub fn eventually(limit: Duration, what: &str, condition: impl FnMut() -> bool) {
    assert!(holds_within(limit, condition), "waited {limit:?} in vain for {what}");
}

/// Asks every few milliseconds until there is an answer, and returns it.
///
/// # Panics
/// Panics if there is no answer within `limit`. The message contains `what`.
#[allow(clippy::disallowed_methods, reason = "test code: real time")]
pub async fn answered<T>(limit: Duration, what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        let over = started.elapsed() >= limit;
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(!over, "waited {limit:?} in vain for {what}");
        tokio::time::sleep(POLL_EVERY).await;
    }
}

/// Returns true if `condition` becomes true within `limit`.
pub(crate) fn holds_within(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    loop {
        let over = started.elapsed() >= limit;
        if condition() {
            return true;
        }
        if over {
            return false;
        }
        thread::sleep(POLL_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_true_condition_is_checked_once() {
        let mut checks = 0;
        eventually(Duration::ZERO, "nothing", || {
            checks += 1;
            true
        });
        assert_eq!(checks, 1);
    }

    #[test]
    #[should_panic(expected = "waited 5ms in vain for the moon")]
    fn a_condition_that_never_holds_panics_with_its_name() {
        eventually(Duration::from_millis(5), "the moon", || false);
    }
}
