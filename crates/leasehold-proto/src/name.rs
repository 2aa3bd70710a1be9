//! The names of locks, and the keys and channels that follow from them.
//!
//! A [`Name`] is valid. Its derived keys and channels hash to the slot of the lock's own key, so a cluster refuses no
//! script of this crate because of its name.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use crate::text::{Text, joined, text};

/// The longest name, in bytes. It is part of every key, channel and call of its lock, so it costs memory in each.
pub const NAME_BYTES_MAX: usize = 512;
/// The longest name that [`Name::raw_redisson`] accepts, in bytes. Java has no limit, so this one only
/// stops a text that was passed by mistake.
pub const RAW_NAME_BYTES_MAX: usize = 65_536;

/// The prefixes of helper keys and channels of the family. A lock whose name begins with such a prefix could collide
/// with a helper key or channel.
const RESERVED: [&str; 9] = [
    "redisson_lock__channel",
    "redisson_lock_queue",
    "redisson_lock_timeout",
    "redisson_lock_token",
    "redisson_unlock_latch",
    "redisson_rwlock",
    "redisson_sc",
    "redisson_countdownlatch__channel__",
    "leasehold_",
];

/// The validated name of a primitive, which is also its key on the server.
///
/// A plain name is 1 to 512 bytes of UTF-8 without control characters or braces. Braces choose a cluster slot and have
/// a constructor of their own, [`Name::with_hash_tag`].
///
/// ```
/// use leasehold_proto::{Name, NameError};
///
/// assert_eq!(Name::new("order:42")?.as_str(), "order:42");
/// assert_eq!(Name::with_hash_tag("orders", ":42")?.as_str(), "{orders}:42");
/// assert!(matches!(Name::new("a{b}"), Err(NameError::Brace { at: 1, .. })));
/// # Ok::<(), NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// The names of a subject behind its first. A subject of one name has none, and shares no counter of references with
/// other subjects, which the threads of a client would all change.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Others(Option<Arc<[Name]>>);

impl Deref for Others {
    type Target = [Name];

    fn deref(&self) -> &[Name] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl From<Vec<Name>> for Others {
    fn from(names: Vec<Name>) -> Self {
        Self((!names.is_empty()).then(|| names.into()))
    }
}

impl<const N: usize> From<[Name; N]> for Others {
    fn from(names: [Name; N]) -> Self {
        Vec::from(names).into()
    }
}

/// The name of a publish/subscribe channel, which carries wake-ups.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(Arc<str>);

/// The reason why a name was refused. Nothing was sent to the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name has no bytes.
    #[error("the name is empty")]
    Empty,
    /// The name is longer than [`NAME_BYTES_MAX`], or than [`RAW_NAME_BYTES_MAX`] for [`Name::raw_redisson`].
    #[error(
        "the name of {bytes} bytes exceeds the maximum of {NAME_BYTES_MAX} ({RAW_NAME_BYTES_MAX} for a raw Redisson name)"
    )]
    #[non_exhaustive]
    TooLong {
        /// The length of the name.
        bytes: usize,
    },
    /// A control character, which would corrupt logs and terminals.
    #[error("the name has a control character ({:?}) at byte {at}", *.found)]
    #[non_exhaustive]
    ControlCharacter {
        /// The byte offset in the name.
        at: usize,
        /// The character.
        found: char,
    },
    /// A brace in a plain name. Use [`Name::with_hash_tag`] to choose the slot on purpose.
    #[error(
        "the name has a brace at byte {at}; braces choose a cluster slot, so use `Name::with_hash_tag` for them"
    )]
    #[non_exhaustive]
    Brace {
        /// The byte offset in the name.
        at: usize,
    },
    /// Braces with which helper keys land in another cluster slot than the lock.
    #[error("the name's braces put its helper keys into another cluster slot")]
    CrossSlot,
    /// The whole name is one hash tag, so it would share its helper keys with the name inside the braces.
    #[error("the whole name is one hash tag, so it would share its channel with the name inside the braces")]
    SharedHelpers,
    /// The name begins like a helper key.
    #[error("the name begins with `{prefix}`, which is reserved for helper keys")]
    #[non_exhaustive]
    ReservedPrefix {
        /// The reserved prefix.
        prefix: &'static str,
    },
    /// A helper key of a plain lock, such as its counter, has the name of the lock.
    #[error("the name is also that of the counter or list beside the lock, which needs a key of its own")]
    UsedTwice,
}

impl Name {
    /// Creates a plain name.
    ///
    /// # Errors
    /// [`NameError`] says which rule the name breaks.
    pub fn new(name: &str) -> Result<Self, NameError> {
        check_bytes(name, NAME_BYTES_MAX)?;
        if let Some(at) = name.find(['{', '}']) {
            return Err(NameError::Brace { at });
        }
        Ok(Self(name.into()))
    }

    /// Creates the name `{tag}rest`. All names with one tag are in one cluster slot.
    ///
    /// # Errors
    /// [`NameError`] says which rule the parts break. An empty tag or rest is [`NameError::Empty`].
    pub fn with_hash_tag(tag: &str, rest: &str) -> Result<Self, NameError> {
        if tag.is_empty() || rest.is_empty() {
            return Err(NameError::Empty);
        }
        for (part, offset) in [(tag, 1), (rest, tag.len() + 2)] {
            if let Some(at) = part.find(['{', '}']) {
                return Err(NameError::Brace { at: at + offset });
            }
        }
        let name = format!("{{{tag}}}{rest}");
        check_bytes(&name, NAME_BYTES_MAX)?;
        Ok(Self(name.into()))
    }

    /// Creates a name exactly as Redisson accepts it, braces included and up to [`RAW_NAME_BYTES_MAX`] bytes long, for
    /// names that Java services already use.
    ///
    /// # Errors
    /// Besides the rules of length and control characters, refuses names that break in Redisson too, which are braces
    /// that scatter the helper keys over slots ([`NameError::CrossSlot`]), a name that is one hash tag and nothing else
    /// ([`NameError::SharedHelpers`]) and the reserved prefixes.
    pub fn raw_redisson(name: &str) -> Result<Self, NameError> {
        Self::raw(name, RAW_NAME_BYTES_MAX)
    }

    fn raw(name: &str, bytes_max: usize) -> Result<Self, NameError> {
        check_bytes(name, bytes_max)?;
        match (name.find('{'), hash_tag(name)) {
            (None, _) if name.contains('}') => return Err(NameError::CrossSlot),
            (Some(_), None) => return Err(NameError::CrossSlot),
            (Some(_), Some(tag)) if tag.len() + 2 == name.len() => return Err(NameError::SharedHelpers),
            _ => {}
        }
        Ok(Self(name.into()))
    }

    /// Returns the same name behind a prefix, as Redisson's `NameMapper` writes it. Every key and channel follows from
    /// the whole. A prefix with a hash tag, such as `{app}:`, puts all names behind it into one cluster slot.
    ///
    /// # Errors
    /// [`NameError::CrossSlot`] for braces in the prefix that are no hash tag, and otherwise the rule that the whole
    /// name breaks.
    pub fn behind(&self, prefix: &str) -> Result<Self, NameError> {
        if prefix.contains(['{', '}']) && hash_tag(prefix).is_none() {
            return Err(NameError::CrossSlot);
        }
        let bytes_max = if self.0.len() > NAME_BYTES_MAX { RAW_NAME_BYTES_MAX } else { NAME_BYTES_MAX };
        Self::raw(&format!("{prefix}{self}"), bytes_max)
    }

    /// Returns the name as the user wrote it, which is also the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the cluster slot of the key: CRC-16/XMODEM of its hash tag, or of all of it (Redis cluster
    /// specification).
    #[must_use]
    pub fn slot(&self) -> u16 {
        slot(&self.0)
    }

    /// Returns the channel or helper key `prefix:{name}`, or `prefix:name` when the name has braces of its own (the
    /// prefix builder of docs/protocol.md#12-key-and-channel-builders).
    #[must_use]
    pub fn prefixed(&self, prefix: &str) -> Channel {
        Channel(self.prefixed_text(prefix).to_string().into())
    }

    /// Returns the text of the channel or helper key of [`prefixed`](Self::prefixed).
    pub(crate) fn prefixed_text(&self, prefix: &str) -> impl Text + fmt::Display {
        text(move |buffer| {
            [prefix, ":"].iter().for_each(|part| part.write(buffer));
            self.tagged_text().write(buffer);
        })
    }

    /// Returns the channel of the waiters of the count-down latch of this name. It is the only channel that has braces
    /// of its own whether or not the name has braces (docs/protocol.md#12-key-and-channel-builders).
    #[must_use]
    pub(crate) fn latch_channel(&self) -> Channel {
        Channel(self.latch_channel_text().to_string().into())
    }

    /// Returns the text of the channel of [`latch_channel`](Self::latch_channel).
    pub(crate) fn latch_channel_text(&self) -> impl Text + fmt::Display {
        joined([&"redisson_countdownlatch__channel__{", self, &"}"])
    }

    /// Returns the name with braces that choose its slot: `{name}`, or the name itself when it has braces. Helper keys
    /// in which the name comes first begin with that text (the suffix builder of
    /// docs/protocol.md#12-key-and-channel-builders).
    #[must_use]
    pub fn tagged(&self) -> Arc<str> {
        if self.0.contains('{') { Arc::clone(&self.0) } else { self.tagged_text().to_string().into() }
    }

    /// Returns the text of [`tagged`](Self::tagged).
    pub(crate) fn tagged_text(&self) -> impl Text + fmt::Display {
        text(|buffer| {
            let (begin, end) = if self.0.contains('{') { ("", "") } else { ("{", "}") };
            [begin, &self.0, end].iter().for_each(|part| part.write(buffer));
        })
    }
}

impl From<&Name> for Arc<str> {
    fn from(name: &Name) -> Self {
        Self::clone(&name.0)
    }
}

impl Text for Name {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.0.write(buffer);
    }

    fn least_length(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Channel {
    /// Creates a channel of exactly this name.
    #[must_use]
    pub fn new(channel: &str) -> Self {
        Self(channel.into())
    }

    /// Returns the channel's name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the cluster slot of the channel, if it is sharded.
    #[must_use]
    pub fn slot(&self) -> u16 {
        slot(&self.0)
    }
}

impl Borrow<str> for Channel {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl Text for Channel {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.0.write(buffer);
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Checks the rules for every kind of name.
fn check_bytes(name: &str, bytes_max: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > bytes_max {
        return Err(NameError::TooLong { bytes: name.len() });
    }
    if let Some((at, found)) = name.char_indices().find(|(_, c)| c.is_control()) {
        return Err(NameError::ControlCharacter { at, found });
    }
    match RESERVED.into_iter().find(|prefix| name.starts_with(prefix)) {
        Some(prefix) => Err(NameError::ReservedPrefix { prefix }),
        None => Ok(()),
    }
}

/// Returns a prefix with braces that choose its slot: `{prefix}`, or the prefix itself when it has braces.
pub(crate) fn tagged(prefix: &str) -> String {
    if prefix.contains('{') { prefix.to_owned() } else { format!("{{{prefix}}}") }
}

/// Returns the cluster slot of a key.
pub(crate) fn slot(key: &str) -> u16 {
    let hashed = hash_tag(key).unwrap_or(key);
    let crc = hashed.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}

/// Returns the hash tag, which a cluster hashes instead of the whole key: the text between the first `{` and the next
/// `}`, unless empty.
fn hash_tag(key: &str) -> Option<&str> {
    let (_, rest) = key.split_once('{')?;
    let (tag, _) = rest.split_once('}')?;
    (!tag.is_empty()).then_some(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_match_a_real_cluster() {
        // Replies of `CLUSTER KEYSLOT` of redis-server 7.0.15.
        for (name, slot) in [("foo", 12182), ("123456789", 12739), ("{user1000}.following", 3443)] {
            assert_eq!(Name::raw_redisson(name).unwrap().slot(), slot, "{name}");
        }
    }
    use proptest::prelude::*;

    #[test]
    fn plain_names_stay_as_written() {
        for name in ["a", "order:42", "Größe", "with space", "x".repeat(512).as_str()] {
            assert_eq!(Name::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn every_rule_has_its_own_error() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new(&"x".repeat(513)), Err(NameError::TooLong { bytes: 513 }));
        assert_eq!(Name::new("a\nb"), Err(NameError::ControlCharacter { at: 1, found: '\n' }));
        assert_eq!(Name::new("a\u{9b}b"), Err(NameError::ControlCharacter { at: 1, found: '\u{9b}' }));
        assert_eq!(Name::new("ab}"), Err(NameError::Brace { at: 2 }));
        assert_eq!(
            Name::new("redisson_lock_queue:x"),
            Err(NameError::ReservedPrefix { prefix: "redisson_lock_queue" })
        );
        assert_eq!(Name::with_hash_tag("a{", "b"), Err(NameError::Brace { at: 2 }));
        assert_eq!(Name::with_hash_tag("", "b"), Err(NameError::Empty));
        assert_eq!(Name::with_hash_tag("a", ""), Err(NameError::Empty));
    }

    #[test]
    fn raw_names_that_span_slots_are_rejected() {
        for bad in ["a}b", "a{b", "{}a", "a{}b", "}{", "foo{"] {
            assert_eq!(Name::raw_redisson(bad), Err(NameError::CrossSlot), "{bad}");
        }
        assert_eq!(Name::raw_redisson("{job}"), Err(NameError::SharedHelpers));
        assert!(Name::raw_redisson(&"x".repeat(RAW_NAME_BYTES_MAX)).is_ok());
        let bytes = RAW_NAME_BYTES_MAX + 1;
        assert_eq!(Name::raw_redisson(&"x".repeat(bytes)), Err(NameError::TooLong { bytes }));
        for good in ["job", "a{b}c", "{b}c", "a{b}"] {
            assert_eq!(Name::raw_redisson(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn a_prefix_is_part_of_the_name_its_keys_and_its_channels() {
        let behind = |name: Name, prefix| name.behind(prefix).map(|name| name.as_str().to_owned());
        assert_eq!(behind(Name::new("order").unwrap(), "app:"), Ok("app:order".to_owned()));
        assert_eq!(behind(Name::with_hash_tag("a", "b").unwrap(), "app:"), Ok("app:{a}b".to_owned()));
        assert_eq!(behind(Name::new("order").unwrap(), "{app}:"), Ok("{app}:order".to_owned()));
        assert_eq!(behind(Name::new("order").unwrap(), "a{b"), Err(NameError::CrossSlot));
        assert_eq!(behind(Name::new("order").unwrap(), "a}"), Err(NameError::CrossSlot));
        let long = Name::new(&"x".repeat(510)).unwrap();
        assert_eq!(behind(long, "app:"), Err(NameError::TooLong { bytes: 514 }));
        let reserved = NameError::ReservedPrefix { prefix: "redisson_sc" };
        assert_eq!(behind(Name::new("c:x").unwrap(), "redisson_s"), Err(reserved));
    }

    #[test]
    fn channels_follow_the_prefix_builder() {
        let plain = Name::new("order").unwrap();
        assert_eq!(plain.prefixed("redisson_lock__channel").as_str(), "redisson_lock__channel:{order}");
        let tagged = Name::raw_redisson("a{b}c").unwrap();
        assert_eq!(tagged.prefixed("redisson_lock__channel").as_str(), "redisson_lock__channel:a{b}c");
    }

    /// Returns the text that a cluster hashes.
    fn hashed(key: &str) -> &str {
        hash_tag(key).unwrap_or(key)
    }

    proptest! {
        #[test]
        fn an_accepted_name_shares_its_slot_with_its_channel(name in "[a-c{}:]{1,12}") {
            for accepted in [Name::new(&name), Name::raw_redisson(&name)].into_iter().flatten() {
                let channel = accepted.prefixed("redisson_lock__channel");
                prop_assert_eq!(hashed(channel.as_str()), hashed(accepted.as_str()));
            }
        }

        #[test]
        fn parsing_any_text_never_panics(name in ".{0,600}") {
            let _ = Name::new(&name);
            let _ = Name::raw_redisson(&name);
            let _ = Name::with_hash_tag(&name, &name);
        }
    }
}
