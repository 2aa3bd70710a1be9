//! Measures an acquire and a release as a client of the library sees them.

use std::time::Duration;

use leasehold::lock::Kind;
use leasehold::{Client, Lock, ReleaseOutcome};
use leasehold_proto::recipe::grants::Primitive;

use super::facts::{Latency, Percentiles};
use crate::clock::now;

/// The rounds of a measurement on one server.
const ROUNDS: usize = 50;
/// The primitives with a lock to time, the first choice first, since the user may have the rights of one alone. A semaphore
/// and a latch would leave a key behind.
const TIMED: [&str; 8] = ["lock", "multi", "redlock", "fenced", "plain", "fair", "spin", "rw"];

/// Returns the primitive to time, if one of these has a lock.
pub(crate) fn timed(primitives: &[&Primitive]) -> Option<&'static str> {
    TIMED.into_iter().find(|name| primitives.iter().any(|primitive| primitive.name == *name))
}

/// Acquires and releases the scratch lock of this name until there are enough times or the limit is over.
///
/// The key is deleted by each release. After a failure it goes by itself within the lease. The rights of multi-locks,
/// redlocks and fenced locks include those of a lock, and a fenced lock would leave its counter behind.
pub(crate) async fn measure(
    client: &Client,
    primitive: &str,
    name: &str,
    limit: Duration,
) -> Result<Latency, String> {
    match primitive {
        "plain" => rounds(&client.plain_lock(name), name, limit).await,
        "fair" => rounds(&client.fair_lock(name), name, limit).await,
        "spin" => rounds(&client.spin_lock(name), name, limit).await,
        "rw" => rounds(&client.rw_lock(name).write_lock(), name, limit).await,
        _ => rounds(&client.lock(name), name, limit).await,
    }
}

async fn rounds<K: Kind>(lock: &Lock<K>, name: &str, limit: Duration) -> Result<Latency, String> {
    let (began, mut acquires, mut releases) = (now(), Vec::new(), Vec::new());
    while acquires.len() < ROUNDS && (acquires.is_empty() || now() - began < limit) {
        let before = now();
        let guard = lock.try_lock().await.map_err(|error| error.to_string())?;
        let guard = guard.ok_or_else(|| format!("another client holds {name:?}"))?;
        acquires.push(now() - before);
        let before = now();
        match guard.into().release().await.map_err(|error| error.to_string())? {
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
