//! Durations as operators write them: plain seconds as flock takes them, or `30s`, `5m`, `1h30m`.
//!
//! Invariant: a parsed duration is finite and not negative.

use std::time::Duration;

use leasehold::terms::{LEASE_MAX, LEASE_MIN};
use leasehold_proto::parse_span;

/// The accepted forms, which every error of the parser shows.
const EXPECTED: &str = "write seconds (`10`, `2.5`) or a duration (`30s`, `5m`, `1h30m`)";

/// Parses a duration, zero included.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let seconds_only = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    if seconds_only {
        let seconds = text.parse::<f64>().map_err(|_| EXPECTED.to_owned())?;
        Duration::try_from_secs_f64(seconds).map_err(|_| format!("too long; {EXPECTED}"))
    } else {
        parse_span(text).map_err(|error| format!("{error}; {EXPECTED}"))
    }
}

/// Parses a duration that can be a lease, or an upper bound of a hold.
pub(crate) fn parse_lease(text: &str) -> Result<Duration, String> {
    at_least(LEASE_MIN, text)
}

/// Parses a duration that can be a lower bound of a hold.
pub(crate) fn parse_bound(text: &str) -> Result<Duration, String> {
    at_least(Duration::from_millis(1), text)
}

fn at_least(least: Duration, text: &str) -> Result<Duration, String> {
    let duration = parse(text)?;
    if (least..=LEASE_MAX).contains(&duration) {
        Ok(duration)
    } else {
        Err(format!("must be between {least:?} and {} days", LEASE_MAX.as_secs() / (24 * 3600)))
    }
}

/// Formats the duration for a message: milliseconds below a second, tenths below a minute, then whole seconds.
pub(crate) fn shown(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 1 {
        format!("{}ms", duration.as_millis())
    } else if seconds < 60 {
        format!("{seconds}.{}s", duration.subsec_millis() / 100)
    } else {
        humantime::format_duration(Duration::from_secs(seconds)).to_string()
    }
}

/// Formats milliseconds as [`shown`] does, with at most two units above a minute.
pub(crate) fn shown_ms(ms: u64) -> String {
    let seconds = ms / 1000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => shown(Duration::from_millis(ms)),
        (0, 0, minutes) => format!("{minutes}m {}s", seconds % 60),
        (0, hours, minutes) => format!("{hours}h {minutes}m"),
        (days, hours, _) => format!("{days}d {hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numbers_are_seconds_and_units_are_understood() {
        for (text, ms) in [
            ("10", 10_000),
            ("0", 0),
            ("0.25", 250),
            (".5", 500),
            ("2.", 2_000),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("250ms", 250),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn invalid_durations_are_rejected_with_advice() {
        let long = "9".repeat(400);
        for text in
            ["", ".", "1.2.3", "-1", "-5s", "soon", "5 parsecs", "inf", "NaN", "1e3", "5M", "1y", &long]
        {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(EXPECTED), "{text}: {refusal}");
        }
    }

    #[test]
    fn a_capital_m_is_not_a_unit() {
        let refusal = parse("5M").unwrap_err();
        assert!(refusal.contains("for minutes, write `5m`"), "{refusal}");
        assert!(parse_lease("1month").is_err());
    }

    #[test]
    fn a_lease_has_bounds() {
        for text in ["0", "0s", "2ms", "366d"] {
            assert!(parse_lease(text).is_err(), "{text}");
        }
        assert_eq!(parse_lease("3ms"), Ok(LEASE_MIN));
        assert_eq!(parse_lease("365d"), Ok(LEASE_MAX));
        assert!(parse_bound("0").is_err() && parse_bound("366d").is_err());
        assert_eq!(parse_bound("1ms"), Ok(Duration::from_millis(1)));
    }

    #[test]
    fn long_times_have_two_units() {
        for (ms, text) in [
            (900, "900ms"),
            (12_340, "12.3s"),
            (65_000, "1m 5s"),
            (3_900_000, "1h 5m"),
            (90_000_000, "1d 1h"),
        ] {
            assert_eq!(shown_ms(ms), text);
        }
    }

    #[test]
    fn messages_are_short() {
        for (ms, text) in [(5, "5ms"), (1_250, "1.2s"), (29_999, "29.9s"), (3_723_400, "1h 2m 3s")] {
            assert_eq!(shown(Duration::from_millis(ms)), text);
        }
    }
}
