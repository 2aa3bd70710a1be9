//! The pulse of a client: whether its server answers, how long that takes, and whether its driver keeps up.
//!
//! Invariant: it reads no clock of its own, and it decides nothing.
//!
//! # How it works
//! One call at a time is timed, and the next one after its answer. So the times are a sample, and an untimed call costs
//! only a comparison. They are counted in windows of a second, of which a minute is kept, and in buckets, three for
//! each four doublings.

use std::time::Duration;

use leasehold_proto::Moment;
use leasehold_proto::engine::CallId;

/// The windows, of a second each, so the figures cover the last minute.
const WINDOWS: usize = 60;
/// The buckets of a window, which reach beyond any round trip.
const BUCKETS: usize = 32;

/// The pulse.
#[derive(Debug)]
pub(super) struct Pulse {
    timed: Option<(CallId, Moment)>,
    /// The time of the last answer of the server.
    pub(super) answered_at: Option<Moment>,
    /// The time of the first failure since that answer.
    pub(super) failing_since: Option<Moment>,
    /// The time at which the driver last took its commands.
    pub(super) turned_at: Moment,
    windows: Box<[Window; WINDOWS]>,
}

/// The round trips of one second.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    second: u64,
    buckets: [u32; BUCKETS],
    longest: Duration,
}

/// The round trips of the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trips {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self {
            timed: None,
            answered_at: None,
            failing_since: None,
            turned_at: Moment::default(),
            windows: Box::new([Window::default(); WINDOWS]),
        }
    }

    pub(super) fn sent(&mut self, now: Moment, call: CallId) {
        if self.timed.is_none() {
            self.timed = Some((call, now));
        }
    }

    /// Notes the outcome of a call. A call that was not answered has failed.
    pub(super) fn ended(&mut self, now: Moment, call: CallId, is_answered: bool) {
        let timed = self.timed.take_if(|(timed, _)| *timed == call);
        if !is_answered {
            self.failing_since.get_or_insert(now);
            return;
        }
        (self.answered_at, self.failing_since) = (Some(now), None);
        let Some((_, sent_at)) = timed else { return };
        let (took, second) = (now.since(sent_at), second(now));
        let window = &mut self.windows[usize::try_from(second).unwrap_or_default() % WINDOWS];
        if window.second != second {
            *window = Window { second, ..Window::default() };
        }
        window.buckets[bucket(took)] += 1;
        window.longest = window.longest.max(took);
    }

    /// Returns the round trips of the last minute, or `None` if there were none.
    pub(super) fn trips(&self, now: Moment) -> Option<Trips> {
        let oldest = (second(now) + 1).saturating_sub(WINDOWS as u64);
        let (mut buckets, mut max) = ([0_u64; BUCKETS], Duration::ZERO);
        for window in self.windows.iter().filter(|window| window.second >= oldest) {
            for (sum, many) in buckets.iter_mut().zip(window.buckets) {
                *sum += u64::from(many);
            }
            max = max.max(window.longest);
        }
        let all: u64 = buckets.iter().sum();
        let quantile = |percent: u64| {
            let rank = (all * percent).div_ceil(100);
            let mut seen = 0;
            let reaches = |many: &u64| {
                seen += many;
                seen >= rank
            };
            buckets.iter().position(reaches).map_or(max, |bucket| end(bucket).min(max))
        };
        (all > 0).then(|| Trips { p50: quantile(50), p99: quantile(99), max })
    }
}

/// Returns the second of a moment.
const fn second(at: Moment) -> u64 {
    at.as_nanos() / 1_000_000_000
}

/// Returns the bucket of a round trip.
fn bucket(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    (0..BUCKETS - 1).find(|bucket| end(*bucket).as_micros() >= u128::from(micros)).unwrap_or(BUCKETS - 1)
}

/// Returns the longest round trip of a bucket.
fn end(bucket: usize) -> Duration {
    // In microseconds, each about 2.5 times the one before, so that the next three are 16 times these.
    const STEPS: [u64; 3] = [16, 40, 102];
    Duration::from_micros(STEPS[bucket % 3] << (4 * (bucket / 3)))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn id(number: u64) -> CallId {
        CallId::new(NonZeroU64::new(number).unwrap())
    }

    fn at(millis: u64) -> Moment {
        Moment::from_millis(1_000_000 + millis)
    }

    #[test]
    fn buckets_cover_all_times_in_their_order() {
        let ends: Vec<Duration> = (0..BUCKETS).map(end).collect();
        assert!(ends.is_sorted() && ends[0] == Duration::from_micros(16));
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::from_secs(3600 * 24 * 365)), BUCKETS - 1);
        assert!((0..BUCKETS - 1).all(|number| bucket(ends[number]) == number));
    }

    #[test]
    fn a_minute_of_round_trips_has_its_quantiles() {
        let mut pulse = Pulse::new();
        assert_eq!(pulse.trips(at(0)), None);
        for call in 1..=100 {
            let took = if call == 100 { 50 } else { 1 };
            pulse.sent(at(call * 100), id(call));
            pulse.sent(at(call * 100), id(1_000 + call));
            pulse.ended(at(call * 100 + took), id(call), true);
            pulse.ended(at(call * 100 + 90), id(1_000 + call), true);
        }
        let trips = pulse.trips(at(10_100)).unwrap();
        assert!((1_000..3_000).contains(&trips.p50.as_micros()), "{trips:?}");
        assert_eq!((trips.p99, trips.max), (trips.p50, Duration::from_millis(50)));
        assert_eq!(pulse.trips(at(71_000)), None, "a minute later they are forgotten");
    }

    #[test]
    fn an_answer_ends_a_failure() {
        let mut pulse = Pulse::new();
        pulse.ended(at(1), id(1), false);
        pulse.ended(at(2), id(2), false);
        assert_eq!((pulse.failing_since, pulse.answered_at), (Some(at(1)), None));
        pulse.ended(at(3), id(3), true);
        assert_eq!((pulse.failing_since, pulse.answered_at), (None, Some(at(3))));
    }
}
