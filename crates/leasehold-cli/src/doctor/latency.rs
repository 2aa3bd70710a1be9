//! The times of the two scripts of a lock, as a client of the library sees them.

use std::time::Duration;

use leasehold::{Client, ReleaseOutcome};

use super::facts::{Latency, Percentiles};
use crate::clock::now;

/// The rounds of a measurement on one server.
const ROUNDS: usize = 50;

/// Acquires and releases the scratch lock of this name until there are enough times or the limit is over.
///
/// The key is deleted by each release. After a failure it goes by itself within the lease.
pub(crate) async fn measure(client: &Client, name: &str, limit: Duration) -> Result<Latency, String> {
    let lock = client.lock(name);
    let (began, mut acquires, mut releases) = (now(), Vec::new(), Vec::new());
    while acquires.len() < ROUNDS && (acquires.is_empty() || now() - began < limit) {
        let before = now();
        let guard = lock.try_lock().await.map_err(|error| error.to_string())?;
        let guard = guard.ok_or_else(|| format!("another client holds {name:?}"))?;
        acquires.push(now() - before);
        let before = now();
        match guard.release().await.map_err(|error| error.to_string())? {
            ReleaseOutcome::Released => releases.push(now() - before),
            _ => return Err(format!("the lock {name:?} was lost between acquire and release")),
        }
    }
    let rounds = acquires.len();
    Ok(Latency { acquire: percentiles(&mut acquires), release: percentiles(&mut releases), rounds })
}

/// Returns the percentiles of some times, at least one.
fn percentiles(times: &mut [Duration]) -> Percentiles {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_micros();
    Percentiles { p50_us: at(50), p99_us: at(99), max_us: at(100) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_times() {
        let mut times: Vec<_> = (1..=100).rev().map(Duration::from_micros).collect();
        assert_eq!(percentiles(&mut times), Percentiles { p50_us: 51, p99_us: 100, max_us: 100 });
        assert_eq!(percentiles(&mut times[..1]), Percentiles { p50_us: 1, p99_us: 1, max_us: 1 });
    }
}
