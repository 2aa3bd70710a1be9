//! Durations, and their distribution.

use crate::contract::Spread;

/// Durations in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Sample(Vec<u64>);

impl Sample {
    pub(crate) fn push(&mut self, nanos: u64) {
        self.0.push(nanos);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn spread(mut self) -> Spread {
        self.0.sort_unstable();
        let at = |share: f64| match self.0.len() {
            0 => 0.0,
            count => self.0[((count - 1) as f64 * share).round() as usize] as f64 / 1e3,
        };
        Spread { p50: at(0.5), p99: at(0.99), max: at(1.0) }
    }
}
