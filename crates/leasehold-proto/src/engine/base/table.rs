//! A hash table for ids that this client gives out.
//!
//! Invariant: equal tables have equal hashes, whatever the order in which they were filled. Nothing iterates over a
//! table, so the order of its buckets decides nothing. A lookup costs the same at any size, and a table that shrinks
//! and grows again allocates nothing.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio (Knuth, The Art of Computer Programming, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes the few integers of a key, or the bytes of a name. Whoever can choose names can choose them to collide, so a
/// table whose key is a name's hash has one entry for each hash.
#[derive(Clone, Copy, Default)]
pub(in crate::engine) struct Fibonacci(u64);

impl Hasher for Fibonacci {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.write_u64(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(GOLDEN);
    }
}

/// A map from ids to values.
#[derive(Clone)]
pub(in crate::engine) struct Table<K, V>(HashMap<K, V, BuildHasherDefault<Fibonacci>>);

impl<K: Eq + Hash, V> Table<K, V> {
    pub(in crate::engine) fn get(&self, key: K) -> Option<&V> {
        self.0.get(&key)
    }

    pub(in crate::engine) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.0.get_mut(&key)
    }

    pub(in crate::engine) fn contains(&self, key: K) -> bool {
        self.0.contains_key(&key)
    }

    pub(in crate::engine) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    pub(in crate::engine) fn remove(&mut self, key: K) -> Option<V> {
        self.0.remove(&key)
    }

    pub(in crate::engine) fn len(&self) -> usize {
        self.0.len()
    }

    pub(in crate::engine) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(in crate::engine) fn clear(&mut self) {
        self.0.clear();
    }
}

impl<K: Copy + Ord, V> Table<K, V> {
    /// Returns the keys in their order, for the rare event that concerns all of them.
    pub(in crate::engine) fn sorted_keys(&self) -> Vec<K> {
        let mut keys: Vec<K> = self.0.keys().copied().collect();
        keys.sort_unstable();
        keys
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K: Eq + Hash, V: PartialEq> PartialEq for Table<K, V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Eq + Hash, V: Eq> Eq for Table<K, V> {}

impl<K: Copy + Ord + Hash, V: Hash> Hash for Table<K, V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let mut entries: Vec<(&K, &V)> = self.0.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| **key);
        entries.hash(state);
    }
}

impl<K: fmt::Debug + Ord, V: fmt::Debug> fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries: std::collections::BTreeMap<&K, &V> = self.0.iter().collect();
        f.debug_map().entries(entries).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of(table: &Table<u64, char>) -> u64 {
        let mut hasher = Fibonacci::default();
        table.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn tables_filled_in_any_order_are_equal_and_hash_alike() {
        let (mut one, mut other) = (Table::default(), Table::default());
        for key in 0..100_u64 {
            one.insert(key, 'x');
            other.insert(99 - key, 'x');
        }
        other.insert(100, 'y');
        assert_ne!(one, other);
        assert_eq!(other.remove(100), Some('y'));
        assert_eq!(one, other);
        assert_eq!(hash_of(&one), hash_of(&other));
        assert_eq!(one.sorted_keys(), (0..100).collect::<Vec<_>>());
    }
}
