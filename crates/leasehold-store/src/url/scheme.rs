//! The schemes of the URL family.

use super::error::UrlError;

/// The scheme of a URL, which is the text before `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the client connects to each of them")]
pub enum Scheme {
    /// A Redis server on a port of a host: `redis` or, over TLS, `rediss`.
    Redis {
        /// True if the connections are encrypted.
        tls: bool,
    },
    /// The master that Sentinels name: `redis+sentinel` or, over TLS, `rediss+sentinel`.
    Sentinel {
        /// True if the connections are encrypted, those to the Sentinels too.
        tls: bool,
    },
    /// The masters of a cluster: `redis+cluster` or, over TLS, `rediss+cluster`.
    Cluster {
        /// True if the connections are encrypted.
        tls: bool,
    },
    /// A Redis server at a socket in the file system.
    Unix,
    /// An in-process server.
    Memory,
}

impl Scheme {
    /// Splits a URL into its scheme and the text behind `://`. `valkey` stands for `redis` everywhere.
    ///
    /// # Errors
    /// Returns [`UrlError`] when the URL has no scheme, or a scheme that no store serves.
    pub fn split(text: &str) -> Result<(Self, &str), UrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::NoScheme)?;
        let scheme = scheme.to_ascii_lowercase();
        let known = match scheme.as_str() {
            "unix" => Some(Self::Unix),
            "memory" => Some(Self::Memory),
            servers => Self::of_servers(servers),
        };
        known.map(|known| (known, rest)).ok_or_else(|| refuse(&scheme))
    }

    /// Returns the scheme of servers on the network.
    fn of_servers(scheme: &str) -> Option<Self> {
        let rest = scheme.strip_prefix("redis").or_else(|| scheme.strip_prefix("valkey"))?;
        let (tls, rest) = rest.strip_prefix('s').map_or((false, rest), |rest| (true, rest));
        match rest {
            "" => Some(Self::Redis { tls }),
            "+sentinel" | "-sentinel" => Some(Self::Sentinel { tls }),
            "+cluster" | "-cluster" => Some(Self::Cluster { tls }),
            _ => None,
        }
    }

    /// Returns the scheme as a URL shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis { tls: false } => "redis",
            Self::Redis { tls: true } => "rediss",
            Self::Sentinel { tls: false } => "redis+sentinel",
            Self::Sentinel { tls: true } => "rediss+sentinel",
            Self::Cluster { tls: false } => "redis+cluster",
            Self::Cluster { tls: true } => "rediss+cluster",
            Self::Unix => "unix",
            Self::Memory => "memory",
        }
    }

    /// Returns the error for a build without the store of this scheme.
    #[must_use]
    pub const fn not_built_in(self) -> UrlError {
        let feature = match self {
            Self::Redis { .. } | Self::Sentinel { .. } | Self::Cluster { .. } | Self::Unix => "redis",
            Self::Memory => "embedded",
        };
        UrlError::NotBuiltIn { scheme: self.name(), feature: Some(feature) }
    }

    /// Returns the error for an encrypted scheme in a build without TLS.
    pub(super) const fn without_tls(self) -> UrlError {
        UrlError::NotBuiltIn { scheme: self.name(), feature: Some("tls-ring") }
    }
}

fn refuse(scheme: &str) -> UrlError {
    // The text before `://` may be a password that the user pasted in the wrong place.
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(allowed) {
        UrlError::UnknownScheme { scheme: scheme.into() }
    } else {
        UrlError::NoScheme
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_case_insensitive_and_the_remainder_is_unchanged() {
        assert_eq!(Scheme::split("REDIS://H/1"), Ok((Scheme::Redis { tls: false }, "H/1")));
        assert_eq!(Scheme::split("unix:///S"), Ok((Scheme::Unix, "/S")));
        assert_eq!(Scheme::split("Memory://Orders"), Ok((Scheme::Memory, "Orders")));
    }

    #[test]
    fn every_spelling_of_a_scheme_is_accepted() {
        for (spelling, scheme) in [
            ("rediss", Scheme::Redis { tls: true }),
            ("valkey", Scheme::Redis { tls: false }),
            ("valkeys", Scheme::Redis { tls: true }),
            ("redis-sentinel", Scheme::Sentinel { tls: false }),
            ("rediss-sentinel", Scheme::Sentinel { tls: true }),
            ("valkey+sentinel", Scheme::Sentinel { tls: false }),
            ("redis-cluster", Scheme::Cluster { tls: false }),
            ("rediss-cluster", Scheme::Cluster { tls: true }),
            ("Valkeys+Cluster", Scheme::Cluster { tls: true }),
        ] {
            assert_eq!(Scheme::split(&format!("{spelling}://h")), Ok((scheme, "h")), "{spelling}");
        }
        for other in ["redis+", "redisss", "redis+sentinels", "valkey+unix", "sentinel"] {
            let error = UrlError::UnknownScheme { scheme: other.into() };
            assert_eq!(Scheme::split(&format!("{other}://h")), Err(error), "{other}");
        }
    }

    #[test]
    fn the_name_of_a_scheme_is_the_scheme() {
        for tls in [false, true] {
            for scheme in [Scheme::Redis { tls }, Scheme::Sentinel { tls }, Scheme::Cluster { tls }] {
                assert_eq!(Scheme::split(&format!("{}://h", scheme.name())), Ok((scheme, "h")));
            }
        }
    }

    #[test]
    fn an_error_names_the_feature_to_enable() {
        let shown = |text: &str| match Scheme::split(text) {
            Ok((scheme, _)) => scheme.not_built_in().to_string(),
            Err(error) => error.to_string(),
        };
        let hint = "is not available in this build; enable the feature";
        assert_eq!(shown("memory://"), format!("`memory://` {hint} `embedded` of the crate `leasehold`"));
        assert_eq!(shown("unix:///s"), format!("`unix://` {hint} `redis` of the crate `leasehold`"));
        assert_eq!(
            shown("valkeys-cluster://h"),
            format!("`rediss+cluster://` {hint} `redis` of the crate `leasehold`")
        );
    }
}
