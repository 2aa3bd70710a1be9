//! Checks that the merged values fit together.
//!
//! Invariant: a combination is refused only if it cannot work or contradicts itself. The error names both values, their
//! sources and the change to make.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::{Lease, RENEWAL_WAITS_MIN};

use super::error::{ConfigError, Conflict, GivenValue, Source};
use super::schema::{Hold, Settings, SpinLock};
use super::value::{Replicas, Secret, Span, Time};
use crate::client::is_client_name;
use crate::defaults::check_prefix;

/// The sources of the values, by their keys.
pub(super) type Sources = BTreeMap<String, Source>;

/// A configuration that is being checked.
pub(super) struct Checked<'a> {
    pub(super) settings: &'a Settings,
    pub(super) sources: &'a Sources,
}

impl Checked<'_> {
    /// Checks everything except the servers.
    pub(super) fn settings(&self, is_quorum: bool) -> Vec<ConfigError> {
        let holds = self.settings.holds();
        let of_holds = holds.iter().map(|(section, _, hold)| self.hold(section, hold));
        let timeouts =
            if is_quorum { self.quorum() } else { self.renewals("timeout", self.settings.timeout) };
        let all =
            [self.names(), self.replicas()].into_iter().chain(of_holds).chain([self.pauses(), timeouts]);
        all.filter_map(Result::err).collect()
    }

    fn names(&self) -> Result<(), ConfigError> {
        let Settings { key_prefix, client_name, .. } = self.settings;
        if let Some(Err(cause)) = key_prefix.as_deref().map(check_prefix) {
            return Err(ConfigError::KeyPrefix { set_by: source(self.sources, "key_prefix"), cause });
        }
        if client_name.as_deref().is_some_and(|name| !is_client_name(name)) {
            let expected = "1 to 128 printable ASCII characters without spaces, such as \"orders-7\"";
            return Err(self.wrong("client_name", expected));
        }
        Ok(())
    }

    fn pauses(&self) -> Result<(), ConfigError> {
        let SpinLock { backoff_first, backoff_longest, .. } = &self.settings.spin_lock;
        if backoff_first.zip(*backoff_longest).is_some_and(|(first, longest)| first.0 > longest.0) {
            return Err(self.conflict(
                "spin_lock.backoff_first",
                "spin_lock.backoff_longest",
                Conflict::Order,
            ));
        }
        Ok(())
    }

    fn replicas(&self) -> Result<(), ConfigError> {
        let Settings { replicas, replicas_total, replicas_within, on_missing, fsync, .. } = self.settings;
        let missing = |key: &str, why| Err(ConfigError::Missing { key: key.to_owned(), why });
        let of_holds = self.settings.holds().into_iter().filter_map(|(_, _, hold)| hold.replicas);
        let policies: Vec<Replicas> = replicas.iter().copied().chain(of_holds).collect();
        let has_policy = !policies.is_empty();
        if policies.iter().any(|replicas| replicas.policy(*replicas_total).is_none()) {
            missing(
                "replicas_total",
                "a majority counts all replicas of the fleet, including those that are down",
            )
        } else if has_policy {
            Ok(())
        } else if replicas_total.is_some() {
            missing("replicas", "`replicas_total` only matters with `replicas = \"majority\"`")
        } else if on_missing.is_some() {
            missing("replicas", "`on_missing` says what to do when one of them is missing")
        } else if replicas_within.is_some() && *fsync != Some(true) {
            missing("replicas", "`replicas_within` limits the wait for them")
        } else {
            Ok(())
        }
    }

    fn hold(&self, section: &str, hold: &Hold) -> Result<(), ConfigError> {
        let conflict = |one: &str, other: &str, why| {
            Err(self.conflict(&format!("{section}.{one}"), &format!("{section}.{other}"), why))
        };
        if hold.lease.is_some() {
            if hold.watchdog.is_some() {
                return conflict("lease", "watchdog", Conflict::Either);
            }
            if hold.max_renewals.is_some() {
                return conflict("lease", "max_renewals", Conflict::NeverRenewed);
            }
            if hold.max_hold.is_some() {
                return conflict("lease", "max_hold", Conflict::NeverRenewed);
            }
        }
        // The watchdog does not renew a fixed lease, so the server would open the lock before its minimum hold time.
        for (key, most) in [("max_hold", hold.max_hold), ("lease", hold.lease)] {
            if hold.min_hold.zip(most).is_some_and(|(least, most)| least.0 > most.0) {
                return conflict("min_hold", key, Conflict::Order);
            }
        }
        // A margin takes a part of what the lease leaves to its holder.
        for (key, lease) in [("watchdog", hold.watchdog), ("lease", hold.lease), ("max_hold", hold.max_hold)]
        {
            let validity = lease.map(|Span(lease)| Lease::clamped(lease).validity());
            if hold.margin.zip(validity).is_some_and(|(margin, validity)| margin.0 >= validity) {
                return conflict("margin", key, Conflict::Margin);
            }
        }
        Ok(())
    }

    /// Checks that each renewal can be answered in time. The watchdog sends a renewal after a third of the lease. The
    /// longest wait for its answer must end while the hold may still be trusted, or a single slow answer loses the
    /// hold.
    fn renewals(&self, timeout_key: &str, timeout: Option<Time>) -> Result<(), ConfigError> {
        let Some(Span(timeout)) = timeout else { return Ok(()) };
        for (section, _, hold) in self.settings.holds() {
            let Some(Span(watchdog)) = hold.watchdog else { continue };
            let lease = Lease::clamped(watchdog);
            let (third, validity, waits) = (watchdog / 3, lease.validity(), lease.renewal_waits(timeout));
            if third + waits <= validity {
                continue;
            }
            // The lease of which two thirds, less the drift of 1 % and 2 ms, are the longest wait of a renewal.
            let needed =
                (timeout.min(RENEWAL_WAITS_MIN) + Duration::from_millis(2)).as_millis() * 300 / 197 + 1;
            let millis = |count: u128| Duration::from_millis(u64::try_from(count).unwrap_or(u64::MAX));
            let most = millis(validity.saturating_sub(third).as_millis());
            let most_timeout = (!most.is_zero()).then_some(most);
            let why = Conflict::RenewalTooLate { least_lease: millis(needed), most_timeout };
            return Err(self.conflict(&self.watchdog_key(section), timeout_key, why));
        }
        Ok(())
    }

    /// Returns the key that set the watchdog of a primitive: its own key or the top-level key.
    fn watchdog_key(&self, section: &str) -> String {
        let own = format!("{section}.watchdog");
        if self.sources.contains_key(&own) { own } else { "watchdog".to_owned() }
    }

    fn quorum(&self) -> Result<(), ConfigError> {
        let (quorum, lock) = (&self.settings.quorum, &self.settings.lock);
        self.only_for_one_server()?;
        self.renewals("quorum.node_timeout", quorum.node_timeout)?;
        let lease_key = if lock.lease.is_some() { "lock.lease".into() } else { self.watchdog_key("lock") };
        let Some(Span(lease)) = lock.lease.or(lock.watchdog) else { return Ok(()) };
        if quorum.node_timeout.is_some_and(|Span(timeout)| timeout >= Lease::clamped(lease).validity()) {
            return Err(self.conflict(&lease_key, "quorum.node_timeout", Conflict::NothingLeft));
        }
        match quorum.longest_lease {
            Some(_) if quorum.persist_every_write == Some(true) => {
                let instead = "servers that keep every write count right after a restart; set one of them";
                let keys = ("quorum.longest_lease", "quorum.persist_every_write");
                Err(self.conflict(keys.0, keys.1, Conflict::NotUsed { instead }))
            }
            Some(Span(longest)) if longest < lease => {
                Err(self.conflict(&lease_key, "quorum.longest_lease", Conflict::RecentlyRestarted))
            }
            _ => Ok(()),
        }
    }

    /// Refuses settings that locks over a quorum do not have.
    fn only_for_one_server(&self) -> Result<(), ConfigError> {
        let instead = |key: &str| match key.split_once('.') {
            None if key == "timeout" => {
                Some("a quorum has its own timeout; set `quorum.node_timeout` instead")
            }
            None if key == "lazy" => Some("a quorum always connects with the first call; leave it out"),
            None | Some(("quorum", _) | ("lock", "watchdog" | "lease")) => None,
            Some(("lock", _)) => Some("a lock over a quorum takes only a lease or a watchdog; leave it out"),
            Some(_) => Some("a quorum only has locks of the section `lock`; leave this section out"),
        };
        let found = self.sources.keys().find_map(|key| instead(key).map(|instead| (key, instead)));
        let Some((key, instead)) = found else { return Ok(()) };
        let server = self.sources.keys().find(|key| key.starts_with("quorum."));
        Err(self.conflict(key, server.map_or("quorum", String::as_str), Conflict::NotUsed { instead }))
    }

    pub(super) fn conflict(&self, one: &str, other: &str, why: Conflict) -> ConfigError {
        let rows = self.settings.rows();
        let given = |key: &str| {
            let value = rows.iter().find(|(known, _)| known == key).and_then(|(_, value)| value.clone());
            // The value of a reserved key may be a password.
            let value = value.unwrap_or_else(Secret::masked);
            Box::new(GivenValue { key: key.to_owned(), value, set_by: source(self.sources, key) })
        };
        ConfigError::Conflict { one: given(one), other: given(other), why }
    }

    pub(super) fn wrong(&self, key: &str, expected: &str) -> ConfigError {
        let set_by = source(self.sources, key);
        ConfigError::Value { set_by, key: key.to_owned(), expected: expected.to_owned() }
    }
}

/// Returns the source of a value. A primitive without a watchdog of its own has the top-level watchdog.
pub(super) fn source(sources: &Sources, key: &str) -> Source {
    let inherited = || key.ends_with(".watchdog").then(|| sources.get("watchdog")).flatten();
    sources.get(key).or_else(inherited).cloned().unwrap_or(Source::Default)
}
