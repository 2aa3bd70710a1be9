//! The groups that a program sets for its locks.
//!
//! Invariant: a group lives as long as the process, so locks and facts share it without reference counting. The number
//! of groups is bounded.

use std::collections::BTreeMap;
use std::sync::{LazyLock, PoisonError, RwLock};

use leasehold_proto::engine::Group;

/// The most groups that a process may set. Groups are never freed, and each is a label value of every metric, so more
/// of them become `other`.
const GROUPS_MAX: usize = 1000;

/// Returns the group of this text, which all locks of the process share. Too many groups are one, called `other`.
pub(crate) fn group(text: &str) -> &'static Group {
    /// All groups by their text, which live as long as the process.
    static GROUPS: LazyLock<RwLock<BTreeMap<&'static str, &'static Group>>> = LazyLock::new(RwLock::default);
    /// The group of all groups beyond [`GROUPS_MAX`].
    static OTHER: LazyLock<Group> = LazyLock::new(|| Group::new("other"));
    if let Some(group) = GROUPS.read().unwrap_or_else(PoisonError::into_inner).get(text) {
        return group;
    }
    let mut groups = GROUPS.write().unwrap_or_else(PoisonError::into_inner);
    // Another thread may have been first.
    if let Some(group) = groups.get(text) {
        return group;
    }
    if groups.len() >= GROUPS_MAX {
        return &OTHER;
    }
    let group: &'static Group = Box::leak(Box::new(Group::new(text)));
    groups.insert(group.as_str(), group);
    group
}
