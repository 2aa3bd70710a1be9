//! The question which kind of object has the name of a lock, for errors that name it.
//!
//! The scripts of the locks do not ask, because an answer would cost each of their calls something.

use std::fmt;

use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::reply::Reply;
use crate::script::Script;

static KIND: Script = Script::new(Verb::Inspect, include_str!("../../scripts/check/kind.lua"));

/// An object that is no lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign(String);

/// Creates the question for the kind of the object.
#[must_use]
pub fn kind(name: &Name) -> Call {
    Call::of(&KIND).key("lock", name)
}

/// Reads the answer, which is `None` for an object that may be a lock or is gone.
#[must_use]
pub fn read_kind(reply: &Reply) -> Option<Option<Foreign>> {
    let Reply::Text(text) = reply else { return None };
    let kind = String::from_utf8_lossy(text).into_owned();
    Some((!matches!(kind.as_str(), "lock" | "none")).then_some(Foreign(kind)))
}

/// Reads the answer for a plain lock, which is `None` for a string, or an object that is gone.
#[must_use]
pub fn read_kind_beside_strings(reply: &Reply) -> Option<Option<Foreign>> {
    let Reply::Text(text) = reply else { return None };
    let kind = String::from_utf8_lossy(text).into_owned();
    Some((!matches!(kind.as_str(), "string" | "none")).then_some(Foreign(kind)))
}

impl Foreign {
    /// Returns true if the object is a string, which may be a plain lock.
    #[must_use]
    pub fn is_string(&self) -> bool {
        self.0 == "string"
    }

    /// Returns true if the object is a hash with one field, which the scripts take for a lock.
    #[must_use]
    pub fn looks_like_a_lock(&self) -> bool {
        self.0 == "field"
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_str() {
            "string" => f.write_str("a string, as `Client::plain_lock`, redis-py and redsync write it"),
            "lock" => f.write_str("a hash, as Redisson and `Client::lock` write it"),
            "field" => f.write_str("a hash that is no lock (choose another name, or find who wrote it)"),
            "hash" => f.write_str("a hash that is no lock of this kind"),
            kind => write!(f, "a {}", kind.escape_debug()),
        }
    }
}

impl std::error::Error for Foreign {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_not_foreign_and_other_kinds_are_named() {
        let read = |text: &str| read_kind(&Reply::Text(text.into())).unwrap();
        assert_eq!((read("lock"), read("none")), (None, None));
        assert!(read("field").unwrap().looks_like_a_lock());
        assert_eq!(read("list").unwrap().to_string(), "a list");
        let string = read("string").unwrap();
        assert!(string.to_string().contains("redis-py") && string.is_string());
        assert_eq!(read_kind(&Reply::Nil), None);
    }

    #[test]
    fn beside_strings_the_hash_of_a_lock_is_foreign() {
        let read = |text: &str| read_kind_beside_strings(&Reply::Text(text.into())).unwrap();
        assert_eq!((read("string"), read("none")), (None, None));
        let hash = read("lock").unwrap();
        assert!(
            hash.to_string().contains("as Redisson and `Client::lock` write it") && !hash.looks_like_a_lock()
        );
        assert_eq!(read_kind_beside_strings(&Reply::Nil), None);
    }
}
