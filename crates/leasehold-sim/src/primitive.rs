//! The primitive of a name, and its calls.
//!
//! Invariant: the first word of a name determines its primitive, so the name alone says which rules apply.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::{LockCalls, fair, plain, read, reentrant, spin, write};
use leasehold_proto::{Call, Name, WireOwner};

/// A primitive of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Primitive {
    Lock,
    Fair,
    /// A lock with fencing tokens from Redisson's counter.
    Fenced,
    /// A lock with fencing tokens that outlive a loss of the counter.
    Hybrid,
    Spin,
    /// A lock that is one string, as other libraries have it. It is shared with clients that poll.
    Plain,
    /// A plain lock with fencing tokens.
    PlainFenced,
    ReadWrite,
    Semaphore,
    /// The semaphore whose waiters stand in a queue.
    Fifo,
    /// The expirable semaphore.
    Permits,
    Latch,
    /// A lock over several servers.
    Redlock,
    /// An election, whose terms are grants of a fenced lock with hybrid tokens.
    Election,
}

impl Primitive {
    const ALL: [(Self, &str); 14] = [
        (Self::Lock, "lock"),
        (Self::Fair, "fair"),
        (Self::Fenced, "fenced"),
        (Self::Hybrid, "hybrid"),
        (Self::Spin, "spin"),
        (Self::Plain, "plain"),
        (Self::PlainFenced, "plainfenced"),
        (Self::ReadWrite, "rw"),
        (Self::Semaphore, "semaphore"),
        (Self::Fifo, "fifo"),
        (Self::Permits, "permits"),
        (Self::Latch, "latch"),
        (Self::Redlock, "redlock"),
        (Self::Election, "election"),
    ];

    /// Returns the first word of its names.
    #[must_use]
    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map(|(_, word)| *word).unwrap_or_default()
    }

    /// Returns the primitive of a name.
    #[must_use]
    pub(crate) fn of(name: &str) -> Self {
        let name = name.strip_prefix('{').unwrap_or(name);
        let end = name.bytes().position(|byte| matches!(byte, b'-' | b'}'));
        let word = &name[..end.unwrap_or(name.len())];
        Self::ALL.iter().find(|(_, known)| *known == word).map_or(Self::Lock, |(primitive, _)| *primitive)
    }

    /// Returns true if only one owner can hold the primitive.
    #[must_use]
    pub(crate) const fn is_exclusive(self) -> bool {
        matches!(self, Self::Lock | Self::Fair | Self::Fenced | Self::Hybrid | Self::Spin | Self::Election)
            || self.is_plain()
    }

    /// Returns true for a plain lock.
    #[must_use]
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Self::Plain | Self::PlainFenced)
    }

    /// Returns true for a lock, read-write locks included.
    #[must_use]
    pub(crate) const fn is_lock(self) -> bool {
        self.is_exclusive() || matches!(self, Self::ReadWrite)
    }

    /// Returns true if the grants of the primitive have fencing tokens.
    #[must_use]
    pub(crate) const fn has_tokens(self) -> bool {
        matches!(self, Self::Fenced | Self::Hybrid | Self::PlainFenced | Self::Election)
    }

    /// Returns true if holds of the primitive end only with their release.
    #[must_use]
    pub(crate) const fn is_unending(self) -> bool {
        matches!(self, Self::Semaphore | Self::Fifo)
    }

    /// Returns true if several owners can hold permits of it.
    #[must_use]
    pub(crate) const fn has_permits(self) -> bool {
        matches!(self, Self::Semaphore | Self::Fifo | Self::Permits)
    }

    /// Returns the calls that release it by force.
    #[must_use]
    pub(crate) fn force_release(name: &str) -> Vec<Call> {
        let sides: &[&LockCalls] = match Self::of(name) {
            Self::Lock | Self::Fenced | Self::Hybrid | Self::Election => &[&reentrant::LOCK_CALLS],
            Self::Fair => &[&fair::LOCK_CALLS],
            Self::Spin => &[&spin::LOCK_CALLS],
            Self::Plain | Self::PlainFenced => &[&plain::LOCK_CALLS],
            Self::ReadWrite => &[&read::LOCK_CALLS, &write::LOCK_CALLS],
            Self::Semaphore | Self::Fifo | Self::Permits | Self::Latch | Self::Redlock => &[],
        };
        sides.iter().map(|calls| (calls.force_release)(&name_of(name))).collect()
    }
}

impl fmt::Display for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Lock => "lock",
            Self::Fair => "fair lock",
            Self::Fenced => "fenced lock",
            Self::Hybrid => "fenced lock, hybrid tokens",
            Self::Spin => "spin lock",
            Self::Plain => "plain lock",
            Self::PlainFenced => "plain lock with tokens",
            Self::ReadWrite => "read-write lock",
            Self::Semaphore => "semaphore",
            Self::Fifo => "fifo semaphore",
            Self::Permits => "expirable semaphore",
            Self::Latch => "count-down latch",
            Self::Redlock => "redlock",
            Self::Election => "election",
        })
    }
}

/// Returns the wire owner of a hold as the server has it. A plain lock has a value, shown here without its mark.
#[must_use]
pub(crate) fn wire_of(name: &str, owner: WireOwner) -> Arc<str> {
    if !Primitive::of(name).is_plain() {
        return owner.to_string().into();
    }
    let [value, _] = plain::values(&Format::default(), owner);
    plain_wire(&value)
}

/// Returns the counter of the fencing tokens of a plain lock.
#[must_use]
pub(crate) fn fence_of(name: &str) -> Name {
    name_of(&format!("{name}:fence"))
}

/// Returns the owner in the value of a plain lock: the value, without the mark if it is of this library.
#[must_use]
pub(crate) fn plain_wire(value: &[u8]) -> Arc<str> {
    let owner = if plain::Value::read(value).is_some() { &value[..value.len() - 2] } else { value };
    String::from_utf8_lossy(owner).into()
}

/// Returns the command with which an operator deletes it.
#[must_use]
pub(crate) fn delete(name: &str) -> Vec<Vec<u8>> {
    let mut command: Vec<Vec<u8>> = vec!["DEL".into(), name.into()];
    if Primitive::of(name) == Primitive::Permits {
        command.push(format!("{}:timeout", name_of(name).tagged()).into());
    }
    command
}

/// Parses a name of the plan. A prefix in braces is a hash tag.
///
/// # Panics
/// Panics if the text is not a valid name.
#[must_use]
pub(crate) fn name_of(text: &str) -> Name {
    let tagged = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    match tagged {
        Some((tag, rest)) => Name::with_hash_tag(tag, rest),
        None => Name::new(text),
    }
    .expect("a plan's names are names")
}

/// Returns true if a list of names, separated by spaces, contains this name.
#[must_use]
pub(crate) fn covers(names: &str, name: &str) -> bool {
    match names.len().cmp(&name.len()) {
        Ordering::Less => false,
        Ordering::Equal => names == name,
        Ordering::Greater => names.split(' ').any(|one| one == name),
    }
}

/// Returns true if two lists of names have a name in common.
#[must_use]
pub(crate) fn overlap(names: &str, others: &str) -> bool {
    names.split(' ').any(|name| covers(others, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_primitive_knows_its_names() {
        for (primitive, word) in Primitive::ALL {
            assert_eq!(Primitive::of(&format!("{word}-7")), primitive);
            assert_eq!(Primitive::of(&format!("{{{word}}}-7")), primitive);
        }
        assert_eq!(name_of("{lock}-1").slot(), name_of("{lock}-0").slot());
    }

    #[test]
    fn lists_of_names_overlap_by_whole_names() {
        assert!(overlap("a b", "c b") && !overlap("a b", "ab"));
        assert!(covers("a b", "b") && !covers("a bb", "b"));
    }
}
