//! The values of keys.
//!
//! Invariant: no value is empty, except a string, because a command that removes the last element removes the key.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use indexmap::IndexMap;

/// Fields of a hash, in the order in which they were first set.
pub type Fields = IndexMap<Vec<u8>, Vec<u8>>;

/// The value of a key. Two hashes are equal only when their fields are also in the same order, because replies show the
/// order.
#[derive(Clone, Debug)]
pub enum Value {
    /// Bytes.
    String(Vec<u8>),
    /// Elements, the head first.
    List(VecDeque<Vec<u8>>),
    /// Fields and their values.
    Hash(Fields),
    /// Members and their scores.
    SortedSet(SortedSet),
}

impl Value {
    /// Returns the name of the type in the reply of TYPE.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Hash(_) => "hash",
            Self::SortedSet(_) => "zset",
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::String(_) => false,
            Self::List(list) => list.is_empty(),
            Self::Hash(fields) => fields.is_empty(),
            Self::SortedSet(set) => set.is_empty(),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::String(one), Self::String(other)) => one == other,
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Hash(one), Self::Hash(other)) => one.len() == other.len() && one.iter().eq(other),
            (Self::SortedSet(one), Self::SortedSet(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.type_name().hash(state);
        match self {
            Self::String(text) => text.hash(state),
            Self::List(list) => list.hash(state),
            Self::Hash(fields) => {
                state.write_usize(fields.len());
                fields.iter().for_each(|field| field.hash(state));
            }
            Self::SortedSet(set) => set.order.hash(state),
        }
    }
}

/// Members ordered by score, and by their bytes where scores are equal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SortedSet {
    scores: BTreeMap<Vec<u8>, Score>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

impl SortedSet {
    /// Returns the number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.scores.len()
    }

    /// Returns true if there is no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    /// Returns a member's score.
    #[must_use]
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.0)
    }

    /// Returns all members in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], f64)> {
        self.order.iter().map(|(score, member)| (member.as_slice(), score.0))
    }

    /// Sets a member's score and returns the previous score.
    pub(super) fn insert(&mut self, member: &[u8], score: f64) -> Option<f64> {
        let before = self.remove(member);
        // Redis stores whole scores as integers, which have only one zero.
        let score = Score(if score == 0.0 { 0.0 } else { score });
        self.scores.insert(member.to_vec(), score);
        self.order.insert((score, member.to_vec()));
        before
    }

    pub(super) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let (member, score) = self.scores.remove_entry(member)?;
        self.order.remove(&(score, member));
        Some(score.0)
    }
}

/// A score, ordered as Redis orders it. It is never NaN, nor the zero with a sign.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or_else(|| self.0.total_cmp(&other.0))
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Score {}

impl Hash for Score {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_ordered_by_score_and_then_by_their_bytes() {
        let mut set = SortedSet::default();
        for (member, score) in [("b", -0.0), ("a", 0.0), ("c", -1.0), ("d", f64::INFINITY)] {
            assert_eq!(set.insert(member.as_bytes(), score), None);
        }
        let order: Vec<_> = set.iter().map(|(member, _)| member.to_vec()).collect();
        assert_eq!(order, [b"c", b"a", b"b", b"d"]);
        assert_eq!(set.insert(b"d", -2.0), Some(f64::INFINITY));
        assert_eq!(set.remove(b"c"), Some(-1.0));
        assert_eq!((set.len(), set.score(b"d")), (3, Some(-2.0)));
    }
}
