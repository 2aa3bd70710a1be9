//! Durations as people write them: `30s`, `5m`, `1h30m`.
//!
//! Invariant: a printed duration reads back as the same duration.

use std::time::Duration;

use leasehold_proto::parse_span;
use serde::{Deserialize, Deserializer, de};

/// A duration in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span(pub(super) Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        parse(&text).map(Self).ok_or_else(|| de::Error::custom("not a duration"))
    }
}

/// Reads a duration. A number without a unit is an error, and so are months and years.
pub(super) fn parse(text: &str) -> Option<Duration> {
    parse_span(text).ok()
}

/// Returns the duration in the largest units in which it has no fractions.
pub(super) fn shown(span: Duration) -> String {
    const UNITS: [(&str, u128); 7] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ];
    let (mut left, mut text) = (span.as_nanos(), String::new());
    for (unit, nanos) in UNITS {
        if left >= nanos {
            text += &format!("{}{unit}", left / nanos);
            left %= nanos;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_shown_as_people_write_them() {
        for text in ["30s", "5m", "1h30m", "500ms", "365d", "0s", "1m1us"] {
            assert_eq!(shown(parse(text).unwrap()), text);
        }
        for text in ["", "30", "-1s", "soon", "5 parsecs", "5M", "1month", "1y"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(nanos in 0..=u64::MAX) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&shown(span)), Some(span));
        }
    }
}
