//! The filters of a listing: what the user wants to see.

use std::time::Duration;

use leasehold_proto::operate::Kind;

use super::object::Object;
use crate::glob::Glob;

/// What to list.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The names, without the key prefix.
    pub(crate) names: Option<Glob>,
    pub(crate) kind: Option<Kind>,
    /// A part of the client's id, name or host.
    pub(crate) client: Option<String>,
    pub(crate) held_for: Option<Duration>,
    pub(crate) waited_for: Option<Duration>,
    pub(crate) sort: Sort,
    /// The most objects, or `None` for all.
    pub(crate) limit: Option<usize>,
    pub(crate) scan: ScanRule,
    /// The share of a server's time that a scan takes.
    pub(crate) pace: f64,
    /// True to list only objects with warnings.
    pub(crate) warnings: bool,
    /// True to say on stderr what takes long.
    pub(crate) has_progress: bool,
}

/// The order of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sort {
    /// The longest wait first.
    #[default]
    Wait,
    /// The longest hold first.
    Held,
    Name,
}

/// When to scan all keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ScanRule {
    /// Small databases only.
    #[default]
    Small,
    Always,
    Never,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            names: None,
            kind: None,
            client: None,
            held_for: None,
            waited_for: None,
            sort: Sort::default(),
            limit: Some(50),
            scan: ScanRule::default(),
            pace: 0.05,
            warnings: false,
            has_progress: false,
        }
    }
}

impl Query {
    /// Returns true if the longest holds and waits of each client are not enough.
    pub(super) const fn needs_every_row(&self) -> bool {
        self.limit.is_none()
            || self.names.is_some()
            || self.kind.is_some()
            || self.client.is_some()
            || self.held_for.is_some()
            || self.waited_for.is_some()
            || self.warnings
            || matches!(self.sort, Sort::Name)
    }

    /// Returns true if objects have to be described before it is known which of them are wanted.
    pub(super) const fn needs_every_description(&self) -> bool {
        self.limit.is_none() || self.warnings || self.kind.is_some() || self.client.is_some()
    }

    /// Returns true if the object is wanted.
    pub(super) fn wants(&self, object: &Object) -> bool {
        let is_of_client = |client: &String| {
            let of = |text: &str| text.contains(client.as_str());
            let holds = object.holders.iter().any(|holder| {
                holder.client.as_deref().is_some_and(of)
                    || holder.process.as_ref().is_some_and(|process| of(&process.short()))
            });
            let waits = object.waiting.by.iter().any(|waiter| {
                of(&waiter.client) || waiter.process.as_ref().is_some_and(|process| of(&process.short()))
            });
            holds || waits || object.waiting.queue.iter().any(|place| of(&place.owner))
        };
        object.is_there()
            && object.kind != Kind::Foreign
            && self.kind.is_none_or(|kind| kind == object.kind)
            && self.client.as_ref().is_none_or(is_of_client)
    }

    pub(super) fn sort(&self, objects: &mut [Object]) {
        let wait = |object: &Object| (object.waiting.longest_ms, object.waiting.most());
        match self.sort {
            Sort::Wait => objects.sort_by(|one, other| {
                let by_wait = wait(other).cmp(&wait(one));
                by_wait
                    .then(other.longest_hold_ms().cmp(&one.longest_hold_ms()))
                    .then(one.name.cmp(&other.name))
            }),
            Sort::Held => objects.sort_by(|one, other| {
                let by_hold = other.longest_hold_ms().cmp(&one.longest_hold_ms());
                by_hold.then(wait(other).cmp(&wait(one))).then(one.name.cmp(&other.name))
            }),
            Sort::Name => objects.sort_by(|one, other| one.name.cmp(&other.name)),
        }
    }
}
