//! The group of a name, which many names of one purpose share, such as `order` for `order:42`.
//!
//! A metric with a label per name would have as many series as there are orders. So labels have the group.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_proto::engine::Group;

/// The number of names whose groups a thread remembers. It is a power of two, so that a hash finds its place with a
/// mask.
const KNOWN_MAX: usize = 64;
/// The most segments of a group. Two say what a name is for, such as `order:refund`, and later ones are mostly ids.
const SEGMENTS: usize = 2;
/// The longest segment that is shown as it is, in bytes. A longer one is more likely an id than a word.
const SEGMENT_MAX: usize = 24;
/// The characters that separate two segments, as people write keys.
const SEPARATORS: [char; 5] = [':', '/', '.', '_', '-'];

/// The groups of the names of one client.
pub(super) struct Groups {
    /// The number of the client's rule, by which a thread remembers its results.
    rule: u64,
    group_by: fn(&str) -> Cow<'_, str>,
    /// The names that are groups of their own.
    per_name: Arc<BTreeSet<String>>,
}

/// The group of a name.
#[derive(Clone)]
pub(super) enum OfName {
    Set(&'static Group),
    Found(Arc<str>),
}

impl OfName {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Set(group) => group.as_str(),
            Self::Found(group) => group,
        }
    }
}

impl std::ops::Deref for OfName {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

/// A group that a thread has found.
struct Known {
    rule: u64,
    name: Box<str>,
    group: Arc<str>,
}

thread_local! {
    /// The groups that this thread has found last. A rule and its texts cost more than all that metrics count of a lock.
    static KNOWN: RefCell<Vec<Option<Known>>> = const { RefCell::new(Vec::new()) };
}

impl Groups {
    pub(super) fn new(group_by: fn(&str) -> Cow<'_, str>, per_name: &Arc<BTreeSet<String>>) -> Self {
        /// The number of the last rule, which tells the rules of two clients apart in [`KNOWN`].
        static LAST: AtomicU64 = AtomicU64::new(0);
        let rule = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        Self { rule, group_by, per_name: Arc::clone(per_name) }
    }

    /// Returns the group of a name, for which its user may have set one.
    pub(super) fn of(&self, name: &str, set: Option<&'static Group>) -> OfName {
        match set {
            Some(group) if !self.per_name.contains(name) => OfName::Set(group),
            _ => OfName::Found(self.found(name)),
        }
    }

    fn found(&self, name: &str) -> Arc<str> {
        let at = place(name);
        // A guard may be dropped while its thread ends, which then remembers nothing.
        let known = KNOWN.try_with(|known| {
            let known = known.borrow();
            let known = known.get(at)?.as_ref()?;
            (known.rule == self.rule && *known.name == *name).then(|| Arc::clone(&known.group))
        });
        if let Ok(Some(group)) = known {
            return group;
        }
        // The rule is the program's code, and may use locks itself.
        let is_chosen = self.per_name.contains(name);
        let group: Arc<str> = if is_chosen { name.into() } else { Arc::from(&*(self.group_by)(name)) };
        let new = Known { rule: self.rule, name: name.into(), group: Arc::clone(&group) };
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            known.resize_with(KNOWN_MAX, || None);
            known[at] = Some(new);
        });
        group
    }
}

/// Returns the place of a name among those that a thread remembers.
fn place(name: &str) -> usize {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = name.as_bytes().iter().fold(0xCBF2_9CE4_8422_2325, mix);
    // The high bits depend on all bytes.
    usize::try_from(hash >> 58).unwrap_or_default() % KNOWN_MAX
}

/// Returns the group of a name: its first segments, with `*` for each one that has a digit or is long, as such segments
/// tell one order from the next.
pub fn of_name(name: &str) -> Cow<'_, str> {
    // Stars make a group longer than its name by two bytes at most.
    let mut group = String::with_capacity(name.len() + SEGMENTS);
    let mut rest = name;
    for _ in 0..SEGMENTS {
        let end = rest.find(SEPARATORS).unwrap_or(rest.len());
        let (segment, behind) = rest.split_at(end);
        let varies = segment.len() > SEGMENT_MAX || segment.contains(|c: char| c.is_ascii_digit());
        group.push_str(if varies { "*" } else { segment });
        let Some(separator) = behind.chars().next() else { break };
        rest = &behind[separator.len_utf8()..];
        group.push(separator);
    }
    let group = group.trim_end_matches(SEPARATORS);
    if group == name { Cow::Borrowed(name) } else { Cow::Owned(group.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_vary_are_stars_and_two_stay() {
        for (name, group) in [
            ("order:42", "order:*"),
            ("order:42:lines", "order:*"),
            ("nightly-report", "nightly-report"),
            ("report", "report"),
            ("a/b/c", "a/b"),
            ("550e8400-e29b-41d4-a716-446655440000", "*-*"),
            ("user:abcdefghijklmnopqrstuvwxyz", "user:*"),
            ("q3", "*"),
            (":", ""),
            ("", ""),
        ] {
            assert_eq!(of_name(name), group, "{name}");
        }
    }
}
