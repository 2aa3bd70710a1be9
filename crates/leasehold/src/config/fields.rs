//! The table of all fields: the kind, bounds and default of each value.
//!
//! Invariant: a key outside the table is an error. `docs/configuration.md` has the same table, and a test compares
//! them.

use std::sync::LazyLock;
use std::time::Duration;

use leasehold_proto::{LEASE_MAX, LEASE_MIN};
use strsim::levenshtein;

use crate::defaults::Primitive;

/// One field of a configuration.
#[derive(Debug)]
pub(super) struct Field {
    /// The key with its sections, such as `standalone.tls.ca_file`.
    pub(super) key: String,
    pub(super) kind: Kind,
    /// The default in the syntax of a file, or an empty text if there is no default.
    pub(super) default: &'static str,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A duration between two bounds.
    Span(Duration, Duration),
    /// A whole number from 0 to this number.
    Number(u32),
    Flag,
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text that is masked.
    Secret,
    /// A URL whose password is masked.
    Url,
    /// The path of a file.
    Path,
    /// A list of texts.
    List,
    /// A list of URLs.
    Urls,
}

/// The primitives that have a section, in the order of the page.
pub(super) const PRIMITIVES: [Primitive; 6] = [
    Primitive::Lock,
    Primitive::FairLock,
    Primitive::FencedLock,
    Primitive::SpinLock,
    Primitive::RwLock,
    Primitive::ExpirableSemaphore,
];
/// The keys and sections that name the servers.
pub(super) const SERVERS: [&str; 5] = ["url", "standalone", "sentinel", "cluster", "quorum"];

const LEASE: Kind = Kind::Span(LEASE_MIN, LEASE_MAX);
const TIME: Kind = Kind::Span(Duration::from_millis(1), LEASE_MAX);
const ANY: Kind = Kind::Number(u32::MAX);

const TOP: &[(&str, Kind, &str)] = &[
    ("url", Kind::Url, ""),
    ("timeout", TIME, "3s"),
    ("poll_interval", TIME, "1s"),
    ("sharded_pubsub", Kind::Word(&["auto", "on", "off"]), "auto"),
    ("lazy", Kind::Flag, "false"),
    ("client_name", Kind::Text, ""),
    ("key_prefix", Kind::Text, ""),
    ("watchdog", LEASE, "30s"),
];
const STANDALONE: &[(&str, Kind, &str)] = &[("address", Kind::Text, ""), ("database", ANY, "0")];
const SENTINEL: &[(&str, Kind, &str)] = &[
    ("addresses", Kind::List, ""),
    ("master", Kind::Text, ""),
    ("database", ANY, "0"),
    ("sentinel_user", Kind::Text, ""),
    ("sentinel_password", Kind::Secret, ""),
    ("sentinel_password_file", Kind::Path, ""),
];
const CLUSTER: &[(&str, Kind, &str)] = &[("addresses", Kind::List, ""), ("database", Kind::Number(0), "0")];
const QUORUM: &[(&str, Kind, &str)] = &[
    ("addresses", Kind::List, ""),
    ("urls", Kind::Urls, ""),
    ("database", ANY, "0"),
    ("node_timeout", TIME, "500ms"),
    ("longest_lease", LEASE, "30s"),
    ("persist_every_write", Kind::Flag, "false"),
];
const LOGIN: &[(&str, Kind, &str)] =
    &[("user", Kind::Text, ""), ("password", Kind::Secret, ""), ("password_file", Kind::Path, "")];
const TLS: &[(&str, Kind, &str)] = &[
    ("enabled", Kind::Flag, ""),
    ("ca_file", Kind::Path, ""),
    ("cert_file", Kind::Path, ""),
    ("key_file", Kind::Path, ""),
];
const HOLD: &[(&str, Kind, &str)] = &[
    ("watchdog", LEASE, ""),
    ("lease", LEASE, ""),
    ("max_hold", LEASE, ""),
    ("min_hold", TIME, ""),
    ("max_renewals", ANY, ""),
];
const SPIN: &[(&str, Kind, &str)] = &[("backoff_first", TIME, "1ms"), ("backoff_longest", TIME, "128ms")];

/// All fields, each section in one piece.
pub(super) static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    let mut fields = Vec::new();
    let mut add = |name: &str, rows: &[(&str, Kind, &'static str)]| {
        for (key, kind, default) in rows {
            let key = if name.is_empty() { (*key).to_owned() } else { format!("{name}.{key}") };
            fields.push(Field { key, kind: *kind, default });
        }
    };
    add("", TOP);
    let servers =
        [("standalone", STANDALONE), ("sentinel", SENTINEL), ("cluster", CLUSTER), ("quorum", QUORUM)];
    for (name, rows) in servers {
        add(name, rows);
        add(name, LOGIN);
        add(&format!("{name}.tls"), TLS);
    }
    for primitive in PRIMITIVES {
        add(section(primitive), HOLD);
        if primitive == Primitive::SpinLock {
            add(section(primitive), SPIN);
        }
    }
    fields
});

/// Returns the section of a primitive.
pub(super) const fn section(of: Primitive) -> &'static str {
    match of {
        Primitive::Lock => "lock",
        Primitive::FairLock => "fair_lock",
        Primitive::FencedLock => "fenced_lock",
        Primitive::SpinLock => "spin_lock",
        Primitive::RwLock => "rw_lock",
        Primitive::ExpirableSemaphore => "expirable_semaphore",
    }
}

/// Returns the field of this key.
pub(super) fn field(key: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.key == key)
}

/// Returns true if there are fields behind this key.
pub(super) fn is_section(key: &str) -> bool {
    FIELDS.iter().any(|field| is_within(&field.key, key) && field.key != key)
}

/// Returns true if the key is the section or inside it.
pub(super) fn is_within(key: &str, section: &str) -> bool {
    key.strip_prefix(section).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the key that is closest to an unknown key.
pub(super) fn meant(written: &str) -> Option<&'static str> {
    let sections = FIELDS.iter().filter_map(|field| field.key.rsplit_once('.').map(|(section, _)| section));
    let known = FIELDS.iter().map(|field| field.key.as_str()).chain(sections);
    let nearest = known.map(|key| (levenshtein(&written.to_lowercase(), key), key)).min()?;
    (nearest.0 <= 1 + written.len() / 6).then_some(nearest.1)
}

impl Kind {
    /// Returns the unit, for the page.
    #[cfg(test)]
    fn unit(self) -> &'static str {
        match self {
            Self::Span(..) => "duration",
            Self::Number(_) => "number",
            Self::Flag => "`true` or `false`",
            Self::Text => "text",
            Self::Word(_) => "word",
            Self::Secret => "secret text",
            Self::Url => "URL",
            Self::Path => "file",
            Self::List => "list of texts",
            Self::Urls => "list of URLs",
        }
    }

    /// Returns the bounds, for the page.
    #[cfg(test)]
    fn bounds(self) -> String {
        use super::span::shown;
        match self {
            Self::Span(least, most) => format!("{} to {}", shown(least), shown(most)),
            Self::Number(most) => format!("0 to {most}"),
            Self::Word(words) => words.join(", "),
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_exactly_the_fields_that_exist() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(page).expect("a checkout has the page");
        let (_, page) = page.split_once("\n## For all\n").expect("the fields come after the rules");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), FIELDS.len(), "one row for each field");
        for (row, field) in rows.iter().zip(FIELDS.iter()) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let default =
                if field.default.is_empty() { String::new() } else { format!("`{}`", field.default) };
            let expected =
                [format!("`{}`", field.key), field.kind.unit().into(), default, field.kind.bounds()];
            assert_eq!(cells[..4], expected, "{row}");
            assert!(cells.len() == 5 && !cells[4].is_empty(), "every field is explained: {row}");
        }
    }

    #[test]
    fn a_key_that_is_almost_one_is_recognised() {
        for (written, key) in [
            ("timout", Some("timeout")),
            ("lock.maxhold", Some("lock.max_hold")),
            ("Timeout", Some("timeout")),
            ("standalon", Some("standalone")),
            ("colour", None),
        ] {
            assert_eq!(meant(written), key, "{written}");
        }
    }
}
