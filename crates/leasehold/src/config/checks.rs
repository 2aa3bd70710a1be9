//! Checks that the merged values fit together.
//!
//! Invariant: an error only if the combination cannot work or contradicts itself. The error names both values, their
//! sources and the change to make.

use std::time::Duration;

use leasehold_proto::{Lease, RENEWAL_WAITS_MIN};

use super::error::{ConfigError, Disagreement, Origin, Said};
use super::layer::{Layer, Leaf};
use super::print;
use super::raw::{Hold, Raw};
use super::span::Span;
use crate::client::is_client_name;
use crate::defaults::{Primitive, check_prefix};

/// A configuration that is being checked.
pub(super) struct Checked<'a> {
    pub(super) raw: &'a Raw,
    pub(super) layer: &'a Layer,
}

impl Checked<'_> {
    /// Checks everything except the servers.
    pub(super) fn settings(&self) -> Result<(), ConfigError> {
        self.names()?;
        for (section, _, hold) in self.raw.holds() {
            self.hold(section, hold)?;
        }
        match &self.raw.quorum {
            Some(_) => self.quorum(),
            None => self.renewals("timeout", self.raw.timeout),
        }
    }

    fn names(&self) -> Result<(), ConfigError> {
        if let Some(prefix) = &self.raw.key_prefix
            && let Err(source) = check_prefix(prefix)
        {
            return Err(ConfigError::KeyPrefix { origin: self.origin("key_prefix"), source });
        }
        match &self.raw.client_name {
            Some(name) if !is_client_name(name) => Err(self.wrong(
                "client_name",
                "1 to 128 printable ASCII characters without spaces, such as \"orders-7\"",
            )),
            _ => Ok(()),
        }
    }

    fn hold(&self, section: &str, hold: &Hold) -> Result<(), ConfigError> {
        let key = |name: &str| format!("{section}.{name}");
        if hold.lease.is_some() && hold.watchdog.is_some() {
            return Err(self.disagree(&key("lease"), &key("watchdog"), Disagreement::Either));
        }
        for (bound, is_set) in
            [("max_renewals", hold.max_renewals.is_some()), ("max_hold", hold.max_hold.is_some())]
        {
            if hold.lease.is_some() && is_set {
                return Err(self.disagree(&key("lease"), &key(bound), Disagreement::NeverRenewed));
            }
        }
        for (most, given) in [("max_hold", hold.max_hold), ("lease", hold.lease)] {
            if hold.min_hold.zip(given).is_some_and(|(least, most)| least > most) {
                return Err(self.disagree(&key("min_hold"), &key(most), Disagreement::Order));
            }
        }
        // The watchdog does not renew a fixed lease, so the server would open the lock before its minimum hold time.
        if hold.min_hold.zip(hold.lease).is_some_and(|(least, lease)| least > lease) {
            return Err(self.disagree(&key("min_hold"), &key("lease"), Disagreement::Order));
        }
        if hold.backoff_first.zip(hold.backoff_longest).is_some_and(|(first, longest)| first > longest) {
            return Err(self.disagree(&key("backoff_first"), &key("backoff_longest"), Disagreement::Order));
        }
        Ok(())
    }

    /// Checks that each renewal can be answered in time. The watchdog sends a renewal after a third of the lease. The
    /// longest wait for its answer must end while the hold may still be trusted, or a single slow answer loses the
    /// hold.
    fn renewals(&self, timeout_key: &str, timeout: Option<Span>) -> Result<(), ConfigError> {
        let Some(Span(timeout)) = timeout else { return Ok(()) };
        for (section, _, hold) in self.raw.holds() {
            let Some(Span(watchdog)) = hold.watchdog else { continue };
            let lease = Lease::clamped(watchdog);
            let (third, validity, waits) = (watchdog / 3, lease.validity(), lease.renewal_waits(timeout));
            if third + waits <= validity {
                continue;
            }
            // The lease of which two thirds, less the drift of 1 % and 2 ms, are the longest wait of a renewal.
            let needed =
                (timeout.min(RENEWAL_WAITS_MIN) + Duration::from_millis(2)).as_millis() * 300 / 197 + 1;
            let least_lease = Duration::from_millis(u64::try_from(needed).unwrap_or(u64::MAX));
            let most = Duration::from_millis(
                u64::try_from(validity.saturating_sub(third).as_millis()).unwrap_or(u64::MAX),
            );
            let most_timeout = (!most.is_zero()).then_some(most);
            let why = Disagreement::RenewalTooLate { least_lease, most_timeout };
            return Err(self.disagree(&self.watchdog_key(section), timeout_key, why));
        }
        Ok(())
    }

    /// Returns the key that set the watchdog of a primitive: its own key or the top-level key.
    fn watchdog_key(&self, section: &str) -> String {
        let own = format!("{section}.watchdog");
        let inherits = self.layer.get(&own) == self.layer.get("watchdog");
        if inherits { "watchdog".to_owned() } else { own }
    }

    fn quorum(&self) -> Result<(), ConfigError> {
        let Some(quorum) = &self.raw.quorum else { return Ok(()) };
        self.not_of_a_quorum()?;
        self.renewals("quorum.node_timeout", quorum.node_timeout)?;
        let lock = self.raw.hold(Primitive::Lock);
        let lease_key = if lock.lease.is_some() { "lock.lease".into() } else { self.watchdog_key("lock") };
        let Some(lease) = lock.lease.or(lock.watchdog) else { return Ok(()) };
        if quorum.node_timeout.is_some_and(|Span(timeout)| timeout >= Lease::clamped(lease.0).validity()) {
            return Err(self.disagree(&lease_key, "quorum.node_timeout", Disagreement::NothingLeft));
        }
        match quorum.longest_lease {
            Some(_) if quorum.persist_every_write => Err(self.disagree(
                "quorum.longest_lease",
                "quorum.persist_every_write",
                Disagreement::NotUsed {
                    instead: "servers that forget nothing count at once; set one of them",
                },
            )),
            Some(longest) if longest < lease => {
                Err(self.disagree(&lease_key, "quorum.longest_lease", Disagreement::NodeTooYoung))
            }
            _ => Ok(()),
        }
    }

    /// Refuses terms that locks over a quorum do not have.
    fn not_of_a_quorum(&self) -> Result<(), ConfigError> {
        const LOCK: &str = "a lock over a quorum has a lease or a watchdog and no other terms; leave it out";
        let instead = |key: &str| match key {
            "timeout" => {
                Some("the servers of a quorum have a timeout of their own: set `quorum.node_timeout`")
            }
            "lazy" => {
                Some("the servers of a quorum are always connected to with the first call; leave it out")
            }
            "lock.watchdog" | "lock.lease" => None,
            key if key.starts_with("lock.") => Some(LOCK),
            key if key.contains('.') && !key.starts_with("quorum.") => {
                Some("a quorum has only `lock`; leave the section out")
            }
            _ => None,
        };
        let found = self.layer.keys().find_map(|key| instead(key).map(|instead| (key, instead)));
        let Some((key, instead)) = found else { return Ok(()) };
        let server =
            self.layer.keys().find(|key| key.starts_with("quorum.")).map_or("quorum", String::as_str);
        Err(self.disagree(key, server, Disagreement::NotUsed { instead }))
    }

    pub(super) fn origin(&self, key: &str) -> Origin {
        self.layer.get(key).map_or(Origin::Default, |(_, origin)| origin.clone())
    }

    pub(super) fn said(&self, key: &str) -> Said {
        let value = self.layer.get(key).map_or_else(String::new, |(leaf, _)| print::shown(key, leaf));
        Said { key: key.to_owned(), value, origin: self.origin(key) }
    }

    pub(super) fn disagree(&self, one: &str, other: &str, why: Disagreement) -> ConfigError {
        let (one, other) = (Box::new(self.said(one)), Box::new(self.said(other)));
        ConfigError::Disagree { one, other, why }
    }

    pub(super) fn wrong(&self, key: &str, expected: &str) -> ConfigError {
        ConfigError::Value { origin: self.origin(key), key: key.to_owned(), expected: expected.to_owned() }
    }

    /// Returns the texts of a list.
    pub(super) fn list(&self, key: &str) -> Option<&[String]> {
        match self.layer.get(key) {
            Some((Leaf::List(texts), _)) => Some(texts),
            _ => None,
        }
    }
}
