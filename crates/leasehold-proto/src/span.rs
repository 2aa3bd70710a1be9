//! Durations as people write them: `30s`, `5m`, `1h30m`.
//!
//! Invariant: what is read has the same length on every day; months and years do not and are refused, above all the
//! capital `M` that was meant to be minutes.
//! Called by: configurations, the command's arguments, and the attribute.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpanError {
    /// Something else than numbers with units, or more than can be counted.
    #[error("not a duration")]
    Unreadable,
    /// A capital `M`, which is a month elsewhere.
    #[error("`M` would be months; minutes are `m`: write `{minutes}`")]
    CapitalM {
        /// The same text with minutes in it.
        minutes: String,
    },
    /// Months or years.
    #[error("`{unit}` is no fixed length of time; write days, such as `30d`")]
    Calendar {
        /// The unit, as it was written.
        unit: String,
    },
}

/// Reads numbers with units, from `ns` to `w`; a number without a unit is no duration.
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
    fn a_capital_m_is_told_how_minutes_are_written() {
        for (text, minutes) in [("5M", "5m"), ("1h30M", "1h30m"), ("5 M", "5 m"), ("1M 2s", "1m 2s")] {
            assert_eq!(parse_span(text), Err(SpanError::CapitalM { minutes: minutes.to_owned() }));
        }
        let said = parse_span("5M").unwrap_err().to_string();
        assert_eq!(said, "`M` would be months; minutes are `m`: write `5m`");
    }

    #[test]
    fn months_and_years_are_refused() {
        for text in ["1month", "2 months", "1y", "1year", "3 years", "1y2d"] {
            let refused = parse_span(text);
            assert!(matches!(refused, Err(SpanError::Calendar { .. })), "{text}: {refused:?}");
        }
    }

    /// Whatever units the parser behind it has or gets, none is longer than a week.
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
