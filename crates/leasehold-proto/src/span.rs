//! Durations as people write them: `30s`, `5m`, `1h30m`.
//!
//! Every accepted unit has the same length on every day. Months and years do not and are refused, above all a capital
//! `M` that is meant to be minutes.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::time::Duration;

/// A duration as messages show it: `250ms`, `27.3s`, `5m 30s`, `2h 5m`, `3d 4h`.
///
/// The text has tenths of seconds below a minute, and two units above. Below a second it has milliseconds, with tenths
/// below ten milliseconds, and below a millisecond it has microseconds or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded(Duration);

impl Rounded {
    /// Rounds down, which suits the rest of a time, or a given time.
    #[must_use]
    pub const fn down(span: Duration) -> Self {
        Self(span)
    }

    /// Rounds up, which suits the time by which an event has happened.
    #[must_use]
    pub fn up(span: Duration) -> Self {
        let step = step(span).as_nanos();
        let nanos = span.as_nanos().div_ceil(step).saturating_mul(step);
        Self(u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos))
    }
}

/// Returns the unit to which durations of this length are rounded.
const fn step(span: Duration) -> Duration {
    match (span.as_secs(), span.subsec_nanos()) {
        (0, ..1_000) => Duration::from_nanos(1),
        (0, ..1_000_000) => Duration::from_micros(1),
        (0, ..10_000_000) => Duration::from_micros(100),
        (0, _) => Duration::from_millis(1),
        (..60, _) => Duration::from_millis(100),
        (..3_600, _) => Duration::from_secs(1),
        (..86_400, _) => Duration::from_secs(60),
        _ => Duration::from_secs(3_600),
    }
}

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
        match (seconds, nanos) {
            (0, 0) => f.write_str("0s"),
            (0, ..1_000) => write!(f, "{nanos}ns"),
            (0, ..1_000_000) => write!(f, "{}µs", nanos / 1_000),
            (0, ..10_000_000) => tenths(f, u64::from(nanos / 100_000), "ms"),
            (0, _) => write!(f, "{}ms", nanos / 1_000_000),
            (..60, _) => tenths(f, seconds * 10 + u64::from(nanos / 100_000_000), "s"),
            (..3_600, _) => two(f, (minutes, "m"), (seconds % 60, "s")),
            (..86_400, _) => two(f, (hours, "h"), (minutes % 60, "m")),
            _ => two(f, (days, "d"), (hours % 24, "h")),
        }
    }
}

/// Writes a number of tenths, without the decimal when it is zero.
fn tenths(f: &mut fmt::Formatter<'_>, tenths: u64, unit: &str) -> fmt::Result {
    match tenths % 10 {
        0 => write!(f, "{}{unit}", tenths / 10),
        rest => write!(f, "{}.{rest}{unit}", tenths / 10),
    }
}

/// Writes two units, without the second unit when it is zero.
fn two(f: &mut fmt::Formatter<'_>, first: (u64, &str), second: (u64, &str)) -> fmt::Result {
    write!(f, "{}{}", first.0, first.1)?;
    if second.0 > 0 { write!(f, " {}{}", second.0, second.1) } else { Ok(()) }
}

/// The reason why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// The text is not numbers with units, or the duration is too long to represent.
    #[error("not a duration")]
    Unreadable,
    /// A capital `M`, which means months in other formats.
    #[error("`M` stands for months; for minutes, write `{minutes}`")]
    #[non_exhaustive]
    CapitalM {
        /// The same text with minutes in it.
        minutes: String,
    },
    /// Months or years.
    #[error("`{unit}` has no fixed length; write days, such as `30d`")]
    #[non_exhaustive]
    Calendar {
        /// The unit, as it was written.
        unit: String,
    },
}

/// Reads numbers with units, from `ns` to `w`. A number without a unit is not a duration.
///
/// # Errors
/// [`SpanError`], whose text says what to write instead where that is known.
pub fn parse_span(text: &str) -> Result<Duration, SpanError> {
    for unit in text.split(|letter: char| !letter.is_alphabetic()) {
        match unit {
            "M" => return Err(SpanError::CapitalM { minutes: text.replace('M', "m") }),
            "month" | "months" | "y" | "year" | "years" | "yr" | "yrs" => {
                return Err(SpanError::Calendar { unit: unit.to_owned() });
            }
            _ => {}
        }
    }
    humantime::parse_duration(text).map_err(|_| SpanError::Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn messages_show_durations_in_suitable_units() {
        let nanos = Duration::from_nanos;
        let ms = Duration::from_millis;
        for (span, down, up) in [
            (Duration::ZERO, "0s", "0s"),
            (nanos(7), "7ns", "7ns"),
            (nanos(1_500), "1µs", "2µs"),
            (nanos(999_999), "999µs", "1ms"),
            (nanos(2_999_999), "2.9ms", "3ms"),
            (ms(3), "3ms", "3ms"),
            (nanos(250_000_001), "250ms", "251ms"),
            (nanos(999_999_999), "999ms", "1s"),
            (nanos(27_312_345_678), "27.3s", "27.4s"),
            (ms(30_000), "30s", "30s"),
            (ms(59_999), "59.9s", "1m"),
            (ms(330_250), "5m 30s", "5m 31s"),
            (ms(7_500_000), "2h 5m", "2h 5m"),
            (ms(3_599_001), "59m 59s", "1h"),
            (3 * DAY + ms(4 * 3_600_000 + 1), "3d 4h", "3d 5h"),
            (365 * DAY, "365d", "365d"),
        ] {
            let shown = (Rounded::down(span).to_string(), Rounded::up(span).to_string());
            assert_eq!(shown, (down.to_owned(), up.to_owned()), "{span:?}");
        }
        // The longest duration is shown as well, without a panic.
        assert!(Rounded::up(Duration::MAX).to_string().ends_with(['d', 'h']));
    }

    #[test]
    fn numbers_with_units_are_durations() {
        for (text, ms) in [
            ("0s", 0),
            ("500ms", 500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("5min", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
            ("1w", 604_800_000),
        ] {
            assert_eq!(parse_span(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "-1s", "soon", "5 parsecs", "5s later", "99999999999999999999s"] {
            assert_eq!(parse_span(text), Err(SpanError::Unreadable), "{text}");
        }
    }

    #[test]
    fn a_capital_m_gets_the_spelling_of_minutes() {
        for (text, minutes) in [("5M", "5m"), ("1h30M", "1h30m"), ("5 M", "5 m"), ("1M 2s", "1m 2s")] {
            assert_eq!(parse_span(text), Err(SpanError::CapitalM { minutes: minutes.to_owned() }));
        }
        let said = parse_span("5M").unwrap_err().to_string();
        assert_eq!(said, "`M` stands for months; for minutes, write `5m`");
    }

    #[test]
    fn months_and_years_are_refused() {
        for text in ["1month", "2 months", "1y", "1year", "3 years", "1y2d"] {
            let refused = parse_span(text);
            assert!(matches!(refused, Err(SpanError::Calendar { .. })), "{text}: {refused:?}");
        }
    }

    /// The parser may get new units, but no unit may be longer than a week.
    #[test]
    fn no_unit_is_longer_than_a_week() {
        let letters = || ('a'..='z').chain('A'..='Z').map(String::from);
        let words = ["mon", "mth", "mths", "months", "month", "yr", "yrs", "year", "years", "Y", "Mon"];
        for unit in letters().chain(words.map(str::to_owned)) {
            let read = parse_span(&format!("1{unit}"));
            assert!(
                read.as_ref().is_err() || read.as_ref().is_ok_and(|span| *span <= 7 * DAY),
                "{unit}: {read:?}"
            );
        }
    }
}
