//! The schema: a tree of all settings, with their types and defaults.
//!
//! Invariant: a key outside the tree is an error. `docs/configuration.md` lists the tree, and a test compares them.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_store::ShardedPubsub;
use serde::Deserialize;

use super::value::{
    Bound, Lease, Missing, Replicas, Secret, Sharding, Shown, ShownNames, Span, Time, Url, longest_timeout,
    whole_millis, with,
};

use crate::defaults::Primitive;
use crate::observe::Names;
use crate::terms::HoldTerms;

/// The keys and sections that name the servers.
pub(super) const SERVERS: [&str; 5] = ["url", "standalone", "sentinel", "cluster", "quorum"];
/// The sections with a login, each of which may have a section `tls`.
pub(super) const LOGINS: [&str; 4] = ["standalone", "sentinel", "cluster", "quorum"];
/// The TLS sections: `tls` for `url`, and one for each section with a login.
pub(super) const ENCRYPTIONS: [&str; 5] =
    ["tls", "standalone.tls", "sentinel.tls", "cluster.tls", "quorum.tls"];

/// Calls the function with the key and the shown value of each setting. The value is `None` if the setting is not set.
trait List {
    fn list(&self, key: &str, row: &mut impl FnMut(&str, Option<String>));
}

impl<T: Shown> List for Option<T> {
    fn list(&self, key: &str, row: &mut impl FnMut(&str, Option<String>)) {
        row(key, self.as_ref().map(Shown::shown));
    }
}

/// Declares a section: the struct that serde reads, and the list of its settings.
macro_rules! section {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Default, PartialEq, Eq, Deserialize)]
        #[serde(deny_unknown_fields, default, expecting = "a section")]
        pub(super) struct $name { $(pub(super) $field: $kind,)* }

        impl List for $name {
            fn list(&self, section: &str, row: &mut impl FnMut(&str, Option<String>)) {
                let dot = if section.is_empty() { "" } else { "." };
                $(self.$field.list(&[section, stringify!($field)].join(dot), row);)*
            }
        }
    };
}

section! {
    /// All settings.
    Settings {
        url: Option<Url>,
        timeout: Option<Time>,
        poll_interval: Option<Time>,
        hand_off: Option<Bound>,
        sharded_pubsub: Option<Sharding>,
        replicas: Option<Replicas>,
        replicas_total: Option<u32>,
        replicas_within: Option<Time>,
        on_missing: Option<Missing>,
        fsync: Option<bool>,
        lazy: Option<bool>,
        client_name: Option<String>,
        visible: Option<bool>,
        patience: Option<Time>,
        names: Option<ShownNames>,
        key_prefix: Option<String>,
        watchdog: Option<Lease>,
        tls: Tls,
        standalone: Standalone,
        sentinel: Sentinel,
        cluster: Cluster,
        quorum: Quorum,
        lock: Hold,
        fair_lock: Hold,
        fenced_lock: Hold,
        spin_lock: SpinLock,
        plain_lock: Hold,
        rw_lock: Hold,
        expirable_semaphore: Hold,
    }
}

section! {
    /// One server.
    Standalone {
        address: Option<String>,
        database: Option<u32>,
        user: Option<String>,
        password: Option<Secret>,
        password_file: Option<PathBuf>,
        tls: Tls,
    }
}

section! {
    /// The encryption of the connections to the servers of a section.
    Tls {
        enabled: Option<bool>,
        ca_file: Option<PathBuf>,
        certificate_file: Option<PathBuf>,
        key_file: Option<PathBuf>,
        server_name: Option<String>,
    }
}

section! {
    /// The master of a service that sentinels watch.
    Sentinel {
        addresses: Option<Vec<String>>,
        master: Option<String>,
        database: Option<u32>,
        user: Option<String>,
        password: Option<Secret>,
        password_file: Option<PathBuf>,
        sentinel_user: Option<String>,
        sentinel_password: Option<Secret>,
        sentinel_password_file: Option<PathBuf>,
        tls: Tls,
        sentinel_tls: Tls,
    }
}

section! {
    /// The masters of a cluster.
    Cluster {
        addresses: Option<Vec<String>>,
        user: Option<String>,
        password: Option<Secret>,
        password_file: Option<PathBuf>,
        tls: Tls,
    }
}

section! {
    /// The servers of a quorum.
    Quorum {
        addresses: Option<Vec<String>>,
        urls: Option<Vec<Url>>,
        database: Option<u32>,
        node_timeout: Option<Time>,
        longest_lease: Option<Lease>,
        persist_every_write: Option<bool>,
        user: Option<String>,
        password: Option<Secret>,
        password_file: Option<PathBuf>,
        tls: Tls,
    }
}

section! {
    /// The terms of the holds of a primitive.
    #[derive(Copy)]
    Hold {
        watchdog: Option<Lease>,
        lease: Option<Lease>,
        max_hold: Option<Lease>,
        min_hold: Option<Time>,
        margin: Option<Time>,
        max_renewals: Option<u32>,
        replicas: Option<Replicas>,
    }
}

section! {
    /// The terms of the holds of spin locks, and the pauses of their waiters.
    SpinLock {
        watchdog: Option<Lease>,
        lease: Option<Lease>,
        max_hold: Option<Lease>,
        min_hold: Option<Time>,
        margin: Option<Time>,
        max_renewals: Option<u32>,
        replicas: Option<Replicas>,
        backoff_first: Option<Time>,
        backoff_longest: Option<Time>,
    }
}

impl Settings {
    /// Returns all settings in the order of the page, each with its shown value.
    pub(super) fn rows(&self) -> Vec<(String, Option<String>)> {
        let mut rows = Vec::new();
        self.list("", &mut |key, value| rows.push((key.to_owned(), value)));
        rows
    }

    /// Returns the terms of each primitive, with its section.
    pub(super) const fn holds(&self) -> [(&'static str, Primitive, Hold); 7] {
        let SpinLock { watchdog, lease, max_hold, min_hold, margin, max_renewals, replicas, .. } =
            self.spin_lock;
        let spin_lock = Hold { watchdog, lease, max_hold, min_hold, margin, max_renewals, replicas };
        [
            ("lock", Primitive::Lock, self.lock),
            ("fair_lock", Primitive::FairLock, self.fair_lock),
            ("fenced_lock", Primitive::FencedLock, self.fenced_lock),
            ("spin_lock", Primitive::SpinLock, spin_lock),
            ("plain_lock", Primitive::PlainLock, self.plain_lock),
            ("rw_lock", Primitive::RwLock, self.rw_lock),
            ("expirable_semaphore", Primitive::ExpirableSemaphore, self.expirable_semaphore),
        ]
    }

    /// Sets the defaults of the settings that the configuration uses.
    pub(super) fn add_defaults(&mut self) {
        let is_quorum = self.quorum != Quorum::default();
        self.poll_interval.get_or_insert(seconds(1));
        self.hand_off.get_or_insert(Span(Duration::from_millis(2)));
        self.sharded_pubsub.get_or_insert(Sharding(ShardedPubsub::Auto));
        self.patience.get_or_insert(seconds(5));
        self.names.get_or_insert(ShownNames(Names::Shown));
        let watchdog = *self.watchdog.get_or_insert(seconds(30));
        inherit(&mut self.lock.watchdog, self.lock.lease, watchdog);
        if self.standalone != Standalone::default() {
            self.standalone.database.get_or_insert(0);
        }
        if self.sentinel != Sentinel::default() {
            self.sentinel.database.get_or_insert(0);
        }
        if is_quorum {
            let quorum = &mut self.quorum;
            if !*quorum.persist_every_write.get_or_insert(false) {
                quorum.longest_lease.get_or_insert(seconds(30));
            }
            if quorum.addresses.is_some() {
                quorum.database.get_or_insert(0);
            }
            let timeout = self.fitting(Duration::from_millis(500));
            // A node that needs its whole timeout for a grant must leave something of a fixed lease.
            let validity =
                self.lock.lease.map(|Span(lease)| leasehold_proto::Lease::clamped(lease).validity());
            let most =
                validity.map(|validity| whole_millis(validity.saturating_sub(Duration::from_millis(1))));
            let timeout = most.map_or(timeout, |most| timeout.min(most));
            self.quorum.node_timeout.get_or_insert(Span(timeout.max(Duration::from_millis(1))));
            return;
        }
        self.lazy.get_or_insert(false);
        self.visible.get_or_insert(true);
        self.spin_lock.backoff_first.get_or_insert(Span(Duration::from_millis(1)));
        self.spin_lock.backoff_longest.get_or_insert(Span(Duration::from_millis(128)));
        inherit(&mut self.spin_lock.watchdog, self.spin_lock.lease, watchdog);
        let Self { fair_lock, fenced_lock, plain_lock, rw_lock, expirable_semaphore, .. } = self;
        let holds = [fair_lock, fenced_lock, plain_lock, rw_lock, expirable_semaphore];
        holds.into_iter().for_each(|hold| inherit(&mut hold.watchdog, hold.lease, watchdog));
        let timeout = self.fitting(Duration::from_secs(3));
        self.timeout.get_or_insert(Span(timeout));
    }

    /// Returns this default of a timeout, or less if a renewal of a shorter lease could not be answered in time. A timeout
    /// that a source sets is never changed.
    fn fitting(&self, default: Duration) -> Duration {
        let watchdogs = self.holds().into_iter().filter_map(|(_, _, hold)| hold.watchdog);
        let most = watchdogs.filter_map(|Span(watchdog)| longest_timeout(watchdog)).min();
        most.map_or(default, |most| default.min(most)).max(Duration::from_millis(1))
    }
}

const fn seconds<const LEAST_MS: u64>(seconds: u64) -> Span<LEAST_MS> {
    Span(Duration::from_secs(seconds))
}

/// Sets the watchdog of a primitive that has no lease of its own.
fn inherit(own: &mut Option<Lease>, lease: Option<Lease>, watchdog: Lease) {
    if lease.is_none() {
        own.get_or_insert(watchdog);
    }
}

impl Hold {
    /// Returns the terms in a fleet with this number of replicas.
    pub(super) fn terms(&self, replicas_total: Option<u32>) -> HoldTerms {
        let terms = with(HoldTerms::new(), self.watchdog, |terms, Span(lease)| terms.watchdog(lease));
        let terms = with(terms, self.lease, |terms, Span(lease)| terms.lease(lease));
        let terms = with(terms, self.max_hold, |terms, Span(most)| terms.max_hold(most));
        let terms = with(terms, self.min_hold, |terms, Span(least)| terms.min_hold(least));
        let terms = with(terms, self.margin, |terms, Span(margin)| terms.margin(margin));
        let terms = with(terms, self.max_renewals, HoldTerms::max_renewals);
        let replicas = self.replicas.and_then(|replicas| replicas.policy(replicas_total));
        with(terms, replicas, HoldTerms::replicas)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Config, ConfigError, ConfigValue};
    use super::*;

    /// Returns the error for one value of a setting, or `None` if the value is legal by itself.
    fn error_for(key: &str, value: impl Into<ConfigValue>) -> Option<ConfigError> {
        match Config::builder().url("memory://").set(key, value).build() {
            Err(error @ (ConfigError::Bounds { .. } | ConfigError::Value { .. })) => Some(error),
            _ => None,
        }
    }

    /// Returns the unit and the bounds of a setting by the errors for values of other types and outside all bounds.
    fn unit_and_bounds(key: &str) -> (&'static str, String) {
        let bounds = |value: ConfigValue| match error_for(key, value) {
            Some(ConfigError::Bounds { bounds, .. }) => bounds,
            other => panic!("{key}: {other:?}"),
        };
        match error_for(key, true) {
            None => ("`true` or `false`", String::new()),
            Some(ConfigError::Value { expected, .. }) if expected.starts_with("a duration") => {
                ("duration", bounds(Duration::MAX.into()))
            }
            Some(ConfigError::Value { expected, .. }) if expected.starts_with("a whole number") => {
                ("number", format!("0 to {}", u32::MAX))
            }
            Some(ConfigError::Value { expected, .. }) if expected.starts_with("a number of replicas") => {
                ("number or word", "all, majority, none, or 1 to 4294967295".to_owned())
            }
            Some(ConfigError::Value { expected, .. }) if expected.starts_with("one of ") => {
                ("word", expected.trim_start_matches("one of ").replace('"', ""))
            }
            Some(ConfigError::Value { expected, .. }) if expected.starts_with("a list of texts") => {
                (if key.ends_with("urls") { "list of URLs" } else { "list of texts" }, String::new())
            }
            Some(ConfigError::Value { .. }) => {
                let unit = match key.rsplit('.').next() {
                    Some("url") => "URL",
                    Some("password" | "sentinel_password") => "secret text",
                    Some(name) if name.ends_with("_file") => "file",
                    _ => "text",
                };
                (unit, String::new())
            }
            other => panic!("{key}: {other:?}"),
        }
    }

    #[test]
    fn the_page_lists_exactly_the_settings_that_exist() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(page).expect("a checkout has the page");
        let (_, page) = page.split_once("\n## Top-level keys\n").expect("the settings come after the rules");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let settings = Settings::default().rows();
        assert_eq!(rows.len(), settings.len(), "one row for each setting");
        let one = Config::builder().set("standalone.address", "a").build().unwrap().to_string();
        let sentinel = Config::builder().set("sentinel.addresses", ["a"]).set("sentinel.master", "m");
        let sentinel = sentinel.build().unwrap().to_string();
        let quorum = Config::builder().set("quorum.addresses", ["a"]).build().unwrap().to_string();
        for (row, (key, _)) in rows.iter().zip(settings) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let (unit, bounds) = unit_and_bounds(&key);
            assert_eq!([cells[0], cells[1], cells[3]], [&format!("`{key}`"), unit, &bounds], "{row}");
            let printed = match key.split_once('.') {
                Some(("quorum", _)) => &quorum,
                Some(("sentinel", _)) => &sentinel,
                _ => &one,
            };
            assert_eq!(cells[2], default_of(printed, &key), "{row}");
            assert!(cells.len() == 5 && !cells[4].is_empty(), "every setting is explained: {row}");
        }
    }

    /// Returns the default of a setting in a printed configuration, as the page has it.
    fn default_of(printed: &str, key: &str) -> String {
        let (section, name) = key.rsplit_once('.').unwrap_or(("", key));
        let (_, lines) = match section {
            "" => ("", printed),
            _ => printed.split_once(&format!("[{section}]\n")).unwrap_or_default(),
        };
        let line = lines
            .lines()
            .take_while(|line| !line.is_empty())
            .find(|line| line.starts_with(&format!("{name} = ")));
        let inherited = name == "watchdog" && !section.is_empty();
        let value =
            line.filter(|_| !inherited).and_then(|line| line.split_once(" = ")?.1.strip_suffix(" # default"));
        value.map(|value| format!("`{}`", value.trim_matches('"'))).unwrap_or_default()
    }

    #[test]
    fn each_primitive_has_its_own_section() {
        for (section, primitive, _) in Settings::default().holds() {
            let builder = Config::builder().url("memory://").set(&format!("{section}.max_renewals"), 7);
            for (_, other, hold) in builder.build().unwrap().settings.holds() {
                assert_eq!(hold.max_renewals.is_some(), other == primitive, "{other:?} of {primitive:?}");
            }
        }
    }
}
