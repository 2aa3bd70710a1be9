//! The types of single values: how serde reads them from text, and how they are shown.
//!
//! Invariant: what is shown is TOML that reads back as the same value, and it has no secret in it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leasehold_proto::{LEASE_MAX, LEASE_MIN, parse_span};
use leasehold_store::{Confirm, OnMissing, ShardedPubsub};
use serde::{Deserialize, Deserializer, de};

use crate::observe::Names;

/// A value that a configuration shows.
pub(super) trait Shown {
    /// Returns the value as TOML, masked if it is a secret.
    fn shown(&self) -> String;
}

/// A duration from a lower bound in milliseconds up to [`LEASE_MAX`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Span<const LEAST_MS: u64>(pub(super) Duration);

/// A duration that a lease can have.
pub(super) type Lease = Span<{ LEASE_MIN.as_millis() as u64 }>;
/// A duration that can be zero.
pub(super) type Bound = Span<0>;
/// Any other duration.
pub(super) type Time = Span<1>;

impl<'de, const LEAST_MS: u64> Deserialize<'de> for Span<LEAST_MS> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SpanVisitor(Duration::from_millis(LEAST_MS))).map(Self)
    }
}

/// Reads a duration that is not shorter than this one.
struct SpanVisitor(Duration);

impl de::Visitor<'_> for SpanVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration in quotes, such as \"30s\", \"5m\" or \"1h30m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
        match parse_span(text) {
            Ok(span) => self.within(span),
            Err(_) => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
        }
    }

    /// Reads the nanoseconds of a duration that the program sets. No file has numbers of this type.
    fn visit_u128<E: de::Error>(self, nanos: u128) -> Result<Duration, E> {
        self.within(u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos))
    }
}

impl SpanVisitor {
    fn within<E: de::Error>(&self, span: Duration) -> Result<Duration, E> {
        if (self.0..=LEASE_MAX).contains(&span) {
            return Ok(span);
        }
        let bounds = format!("{} to {}", exact(self.0), exact(LEASE_MAX));
        Err(E::invalid_value(de::Unexpected::Other(&exact(span)), &bounds.as_str()))
    }
}

/// Returns the duration in the largest units in which it has no fractions, as [`parse_span`] reads it.
pub(super) fn exact(span: Duration) -> String {
    /// The units and their nanoseconds, the largest first.
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

/// Returns the longest timeout, in whole milliseconds, that leaves a renewal of this lease time for its answer, or `None` if
/// any timeout does.
pub(super) fn longest_timeout(watchdog: Duration) -> Option<Duration> {
    let lease = leasehold_proto::Lease::clamped(watchdog);
    let left = lease.validity().saturating_sub(watchdog / 3);
    let is_bounded = lease.renewal_waits(Duration::MAX) > left;
    is_bounded.then(|| whole_millis(left))
}

/// Returns the duration without its fraction of a millisecond.
pub(super) fn whole_millis(span: Duration) -> Duration {
    span - Duration::from_nanos(u64::from(span.subsec_nanos() % 1_000_000))
}

/// A text that no `Debug` shows. A caller needs an explicit call to read the text.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(String);

/// A URL that may have a password.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Url(Secret);

/// The text that replaces a secret.
const MASK: &str = "***";

impl Secret {
    pub(super) const fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the text in place of any secret.
    pub(super) fn masked() -> String {
        quoted(MASK)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Url {
    pub(super) fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the URL with its password masked. In doubt it masks more. The result reads back as a URL.
    fn masked(&self) -> String {
        let url = self.expose();
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let mut shown = format!("{scheme}://");
        match rest.rsplit_once('@') {
            Some((login, server)) => {
                let user = login.split_once(':').map(|(user, _)| user).unwrap_or_default();
                shown += &format!("{user}:{MASK}@{server}");
            }
            None => shown += rest,
        }
        for (number, pair) in query.into_iter().flat_map(|query| query.split('&')).enumerate() {
            shown.push(if number == 0 { '?' } else { '&' });
            match pair.split_once('=') {
                Some((key @ ("db" | "user"), value)) => shown += &format!("{key}={value}"),
                Some((key, _)) => shown += &format!("{key}={MASK}"),
                None => shown += MASK,
            }
        }
        shown
    }
}

/// The channels of wake-ups.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Sharding(#[serde(with = "Words")] pub(super) ShardedPubsub);

/// The words for [`ShardedPubsub`].
#[derive(Deserialize)]
#[serde(remote = "ShardedPubsub", rename_all = "lowercase")]
enum Words {
    Auto,
    On,
    Off,
}

/// The choice for a call while replicas are missing.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Missing(#[serde(with = "MissingWords")] pub(super) OnMissing);

/// The words for [`OnMissing`].
#[derive(Deserialize)]
#[serde(remote = "OnMissing", rename_all = "lowercase")]
enum MissingWords {
    Fail,
    Warn,
}

/// Whether observers get lock names.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct ShownNames(#[serde(with = "NamesWords")] pub(super) Names);

/// The words for [`Names`].
#[derive(Deserialize)]
#[serde(remote = "Names", rename_all = "lowercase")]
enum NamesWords {
    Shown,
    Hidden,
}

/// The replicas that must acknowledge.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replicas {
    None,
    All,
    Majority,
    AtLeast(u32),
}

impl Replicas {
    /// Returns the policy for a fleet with this number of replicas, or `None` if the number is missing. Without it, all
    /// replicas are those that are connected.
    pub(super) fn policy(self, total: Option<u32>) -> Option<Confirm> {
        match self {
            Self::None => Some(Confirm::None),
            Self::All => Some(Confirm::all(total.unwrap_or(1))),
            Self::Majority => total.map(Confirm::majority),
            Self::AtLeast(least) => Some(Confirm::AtLeast(least)),
        }
    }
}

impl<'de> Deserialize<'de> for Replicas {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ReplicasVisitor)
    }
}

struct ReplicasVisitor;

impl de::Visitor<'_> for ReplicasVisitor {
    type Value = Replicas;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of replicas from 1, such as 2, or \"all\", \"majority\" or \"none\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Replicas, E> {
        match (text, text.parse()) {
            ("none", _) => Ok(Replicas::None),
            ("all", _) => Ok(Replicas::All),
            ("majority", _) => Ok(Replicas::Majority),
            (_, Ok(number)) => self.visit_i64(number),
            _ => Err(E::invalid_type(de::Unexpected::Str(text), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Replicas, E> {
        match u32::try_from(number) {
            Ok(least @ 1..) => Ok(Replicas::AtLeast(least)),
            _ => Err(E::invalid_type(de::Unexpected::Signed(number), &self)),
        }
    }
}

/// Implements [`Shown`].
macro_rules! shown {
    ($($kind:ty: |$value:ident| $text:expr;)*) => {
        $(impl Shown for $kind {
            fn shown(&self) -> String {
                let $value = self;
                $text
            }
        })*
    };
}

shown! {
    bool: |flag| flag.to_string();
    u32: |number| number.to_string();
    String: |text| quoted(text);
    PathBuf: |path| quoted(&path.to_string_lossy());
    Secret: |_secret| Secret::masked();
    Url: |url| quoted(&url.masked());
    Sharding: |word| quoted(&format!("{:?}", word.0).to_lowercase());
    ShownNames: |word| quoted(&format!("{:?}", word.0).to_lowercase());
    Missing: |word| quoted(&format!("{:?}", word.0).to_lowercase());
    Replicas: |replicas| match replicas {
        Replicas::None => quoted("none"),
        Replicas::All => quoted("all"),
        Replicas::Majority => quoted("majority"),
        Replicas::AtLeast(least) => least.to_string(),
    };
    Lease: |lease| quoted(&exact(lease.0));
    Bound: |bound| quoted(&exact(bound.0));
    Time: |time| quoted(&exact(time.0));
}

impl<T: Shown> Shown for Vec<T> {
    fn shown(&self) -> String {
        format!("[{}]", self.iter().map(Shown::shown).collect::<Vec<_>>().join(", "))
    }
}

/// Calls a setter if there is a value.
pub(super) fn with<B, T>(builder: B, value: Option<T>, set: impl FnOnce(B, T) -> B) -> B {
    match value {
        Some(value) => set(builder, value),
        None => builder,
    }
}

/// Returns a basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            control if control.is_control() => quoted += &format!("\\u{:04X}", u32::from(control)),
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_displayed_as_they_are_written() {
        for text in ["30s", "5m", "1h30m", "500ms", "365d", "0s", "1m1us"] {
            assert_eq!(exact(parse_span(text).unwrap()), text);
        }
        for text in ["", "30", "-1s", "soon", "5 parsecs", "5M", "1month", "1y"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn passwords_of_urls_are_masked_and_the_text_stays_a_url() {
        for (url, shown) in [
            ("redis://h", "redis://h"),
            ("redis://app:hunter2@h:1/2", "redis://app:***@h:1/2"),
            ("redis://:p:q@r@h", "redis://:***@h"),
            ("redis://hunter2@h", "redis://:***@h"),
            ("unix:///s?db=1&user=app&pass=hunter2", "unix:///s?db=1&user=app&pass=***"),
            ("redis+sentinel://u:hunter2@a,b/m?x=hunter2&y", "redis+sentinel://u:***@a,b/m?x=***&***"),
        ] {
            assert_eq!(Url(Secret::new(url.into())).masked(), shown);
            assert!(!format!("{:?}", Url(Secret::new(url.into()))).contains("hunter2"));
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2".into())), "***");
        assert_eq!(Secret::new("hunter2".into()).shown(), "\"***\"");
    }

    proptest! {
        #[test]
        fn a_displayed_duration_parses_again(nanos in 0..=u64::MAX) {
            let span = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_span(&exact(span)), Ok(span));
        }
    }
}
