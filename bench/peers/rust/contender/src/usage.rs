//! The processor time and the memory of this process, and the clock that all processes of the machine share.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn now() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|time| Duration::from(time).as_nanos())
        .ok()
        .and_then(|nanos| u64::try_from(nanos).ok())
        .unwrap_or_default()
}

/// Returns the processor time of all threads in microseconds.
pub(crate) fn cpu_us() -> f64 {
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        let times = [usage.user_time(), usage.system_time()];
        times.iter().map(|time| time.tv_sec() as f64 * 1e6 + time.tv_usec() as f64).sum()
    })
}

/// Returns the resident memory in KiB.
pub(crate) fn rss_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
