//! The configuration as serde reads it from the merged layers.
//!
//! Invariant: each field is one of the table of fields, which has checked the form and the bounds of its value before.

use std::path::PathBuf;

use serde::Deserialize;

use super::fields::{PRIMITIVES, section};
use super::layer::Layer;
use super::secret::Secret;
use super::span::Span;
use crate::defaults::Primitive;
use crate::terms::HoldTerms;

/// All values of a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Raw {
    pub(super) url: Option<Secret>,
    pub(super) standalone: Option<Standalone>,
    pub(super) sentinel: Option<Sentinel>,
    pub(super) cluster: Option<Cluster>,
    pub(super) quorum: Option<Quorum>,
    pub(super) timeout: Option<Span>,
    pub(super) poll_interval: Option<Span>,
    pub(super) sharded_pubsub: Option<Sharding>,
    pub(super) lazy: Option<bool>,
    pub(super) client_name: Option<String>,
    pub(super) key_prefix: Option<String>,
    pub(super) watchdog: Option<Span>,
    lock: Hold,
    fair_lock: Hold,
    fenced_lock: Hold,
    spin_lock: Hold,
    rw_lock: Hold,
    expirable_semaphore: Hold,
}

/// The values of [`ShardedPubsub`](crate::client::ShardedPubsub).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Sharding {
    Auto,
    On,
    Off,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Standalone {
    pub(super) address: String,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Sentinel {
    pub(super) addresses: Vec<String>,
    pub(super) master: Option<String>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) sentinel_user: Option<String>,
    pub(super) sentinel_password: Option<Secret>,
    pub(super) sentinel_password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Cluster {
    pub(super) addresses: Vec<String>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Quorum {
    pub(super) addresses: Vec<String>,
    pub(super) urls: Vec<Secret>,
    pub(super) database: u32,
    pub(super) user: Option<String>,
    pub(super) password: Option<Secret>,
    pub(super) password_file: Option<PathBuf>,
    pub(super) node_timeout: Option<Span>,
    pub(super) longest_lease: Option<Span>,
    pub(super) persist_every_write: bool,
    pub(super) tls: Tls,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Tls {
    pub(super) enabled: Option<bool>,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) cert_file: Option<PathBuf>,
    pub(super) key_file: Option<PathBuf>,
}

/// The terms of the holds of a primitive. Only spin locks have pauses.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Hold {
    pub(super) watchdog: Option<Span>,
    pub(super) lease: Option<Span>,
    pub(super) max_hold: Option<Span>,
    pub(super) min_hold: Option<Span>,
    pub(super) max_renewals: Option<u32>,
    pub(super) backoff_first: Option<Span>,
    pub(super) backoff_longest: Option<Span>,
}

impl Raw {
    /// Reads a layer. It cannot fail, because the table has checked every key and value. A test that sets all fields of
    /// the table shows that each has a place here.
    pub(super) fn of(layer: &Layer) -> Self {
        let mut builder = ::config::Config::builder();
        for (key, (leaf, _)) in layer {
            builder = builder.set_override(key, leaf.clone()).expect("a known key is a path");
        }
        let values = builder.build().expect("there is nothing but values to put together");
        values.try_deserialize().expect("every value is of its field's kind")
    }

    /// Returns the terms of each primitive, with its section.
    pub(super) fn holds(&self) -> [(&'static str, Primitive, &Hold); PRIMITIVES.len()] {
        PRIMITIVES.map(|primitive| (section(primitive), primitive, self.hold(primitive)))
    }

    /// Returns the terms of one primitive.
    pub(super) const fn hold(&self, of: Primitive) -> &Hold {
        match of {
            Primitive::Lock => &self.lock,
            Primitive::FairLock => &self.fair_lock,
            Primitive::FencedLock => &self.fenced_lock,
            Primitive::SpinLock => &self.spin_lock,
            Primitive::RwLock => &self.rw_lock,
            Primitive::ExpirableSemaphore => &self.expirable_semaphore,
        }
    }

    /// Returns the pauses of spin locks.
    pub(super) fn pauses(&self) -> Option<(Span, Span)> {
        self.spin_lock.backoff_first.zip(self.spin_lock.backoff_longest)
    }
}

impl Hold {
    pub(super) fn terms(&self) -> HoldTerms {
        let mut terms = HoldTerms::new();
        if let Some(Span(lease)) = self.watchdog {
            terms = terms.watchdog(lease);
        }
        if let Some(Span(lease)) = self.lease {
            terms = terms.lease(lease);
        }
        if let Some(Span(most)) = self.max_hold {
            terms = terms.max_hold(most);
        }
        if let Some(Span(least)) = self.min_hold {
            terms = terms.min_hold(least);
        }
        if let Some(most) = self.max_renewals {
            terms = terms.max_renewals(most);
        }
        terms
    }
}

impl Tls {
    /// Returns true if connections are to be encrypted.
    pub(super) fn is_on(&self) -> bool {
        self.enabled.unwrap_or_else(|| self.files().next().is_some())
    }

    /// Returns the files that are named, each with its key.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let named =
            [("ca_file", &self.ca_file), ("cert_file", &self.cert_file), ("key_file", &self.key_file)];
        named.into_iter().filter_map(|(key, path)| path.as_ref().map(|path| (key, path)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::error::Origin;
    use super::super::fields::{FIELDS, Field, Kind};
    use super::super::layer::Leaf;
    use super::super::span::shown;
    use super::*;

    /// Returns the bounds of a field, or other legal values.
    fn legal(field: &Field) -> Vec<Leaf> {
        let text = |text: &str| Leaf::Text(text.to_owned());
        let span = |span: Duration| Leaf::Text(shown(span));
        match field.kind {
            Kind::Span(least, most) => vec![span(least), span(most)],
            Kind::Number(most) => vec![Leaf::Number(0), Leaf::Number(most)],
            Kind::Flag => vec![Leaf::Flag(false), Leaf::Flag(true)],
            Kind::Word(words) => words.iter().map(|word| text(word)).collect(),
            Kind::Text | Kind::Secret | Kind::Url | Kind::Path => vec![text("x")],
            Kind::List | Kind::Urls => vec![Leaf::List(vec!["x".into(), "y".into()])],
        }
    }

    #[test]
    fn every_field_of_the_table_has_a_place_of_its_kind() {
        let nothing = format!("{:?}", Raw::default());
        for field in FIELDS.iter() {
            for leaf in legal(field) {
                let layer = Layer::from([(field.key.clone(), (leaf, Origin::Code))]);
                assert_ne!(format!("{:?}", Raw::of(&layer)), nothing, "{} is read", field.key);
            }
        }
        let all = FIELDS.iter().map(|field| (field.key.clone(), (legal(field).remove(0), Origin::Code)));
        let raw = Raw::of(&all.collect());
        assert!(raw.standalone.is_some() && raw.sentinel.is_some() && raw.cluster.is_some());
    }

    #[test]
    fn the_section_of_each_primitive_is_its_own() {
        for primitive in PRIMITIVES {
            let key = format!("{}.max_renewals", section(primitive));
            let raw = Raw::of(&Layer::from([(key, (Leaf::Number(7), Origin::Code))]));
            for (_, other, hold) in raw.holds() {
                assert_eq!(hold.max_renewals.is_some(), other == primitive, "{other:?} of {primitive:?}");
            }
        }
    }
}
