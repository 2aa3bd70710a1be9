//! Keys, their values and their expiries.
//!
//! Invariant: no command sees an expired key. The caller sets the clock.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::fault::Fault;
use super::value::{Fields, SortedSet, Value};

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// The value of the key.
    pub value: Value,
    /// The expiry, in Unix milliseconds. The key still exists in that millisecond.
    pub expires_at_ms: Option<u64>,
}

/// The value of a key and its expiry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Item {
    pub(super) value: Value,
    pub(super) expires_at_ms: Option<u64>,
}

impl Item {
    fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_some_and(|at| now_ms > at)
    }
}

/// All keys.
#[derive(Clone, Debug, Default)]
pub(super) struct Keyspace {
    /// The items by key. Nothing may depend on the map's own order, which differs from process to process.
    items: HashMap<Vec<u8>, Item>,
    pub(super) now_ms: u64,
}

/// Compares the keys that have not expired by the clock of their keyspace. The clocks themselves do not matter.
impl PartialEq for Keyspace {
    fn eq(&self, other: &Self) -> bool {
        let has = |(key, item): (&Vec<u8>, &Item)| {
            other.items.get(key).is_some_and(|theirs| theirs == item && !theirs.is_expired(other.now_ms))
        };
        self.len() == other.len() && self.live().all(has)
    }
}

impl Eq for Keyspace {}

impl Hash for Keyspace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The sum makes the order of the map irrelevant, and the keys of the hasher are the same in every process.
        let one = |entry: (&Vec<u8>, &Item)| {
            let mut hasher = DefaultHasher::new();
            entry.hash(&mut hasher);
            hasher.finish()
        };
        state.write_u64(self.live().map(one).fold(0, u64::wrapping_add));
    }
}

/// One kind of value, and its conversions from and to a [`Value`].
pub(super) trait Kind: Default {
    fn of(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
}

macro_rules! kinds {
    ($($kind:ty => $variant:ident),*) => {$(
        impl Kind for $kind {
            fn of(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$variant(inner) => Some(inner),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$variant(self)
            }
        }
    )*};
}

kinds!(Vec<u8> => String, VecDeque<Vec<u8>> => List, Fields => Hash, SortedSet => SortedSet);

impl Keyspace {
    /// Returns the key's item, if the key exists, and removes the key if it has expired.
    pub(super) fn find(&mut self, key: &[u8]) -> Option<&mut Item> {
        if self.holds_expired(key)? {
            self.items.remove(key);
            return None;
        }
        self.items.get_mut(key)
    }

    /// Returns true if the map holds the key although it has expired, or `None` when the map does not hold the key.
    fn holds_expired(&self, key: &[u8]) -> Option<bool> {
        self.items.get(key).map(|item| item.is_expired(self.now_ms))
    }

    /// Returns the value of the key, if the key exists.
    pub(super) fn get<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut K>, Fault> {
        match self.find(key) {
            None => Ok(None),
            Some(item) => K::of(&mut item.value).map(Some).ok_or(Fault::WRONG_TYPE),
        }
    }

    /// Returns the value of the key, and creates the value when the key is missing. The caller must put an element into
    /// it.
    pub(super) fn make<K: Kind>(&mut self, key: &[u8]) -> Result<&mut K, Fault> {
        if self.find(key).is_none() {
            self.items.insert(key.to_vec(), Item { value: K::default().into_value(), expires_at_ms: None });
        }
        let item = self.items.get_mut(key).expect("it was there, or was made above");
        K::of(&mut item.value).ok_or(Fault::WRONG_TYPE)
    }

    /// Sets a key, whatever its old value.
    pub(super) fn set(&mut self, key: &[u8], value: Value, expires_at_ms: Option<u64>) {
        self.items.insert(key.to_vec(), Item { value, expires_at_ms });
    }

    /// Removes the key, and returns whether it existed.
    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        self.items.remove(key).is_some_and(|item| !item.is_expired(self.now_ms))
    }

    /// Removes the key if its value is empty.
    pub(super) fn remove_if_empty(&mut self, key: &[u8]) {
        if self.items.get(key).is_some_and(|item| item.value.is_empty()) {
            self.items.remove(key);
        }
    }

    /// Removes the keys that `which` chooses, and returns them in the order of their bytes.
    pub(super) fn take(&mut self, which: impl Fn(&[u8]) -> bool) -> Vec<Entry> {
        let taken = self.items.extract_if(|key, _| which(key));
        let entry =
            |(key, Item { value, expires_at_ms }): (Vec<u8>, Item)| Entry { key, value, expires_at_ms };
        let mut taken: Vec<Entry> = taken.map(entry).collect();
        taken.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        taken
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
    }

    /// Returns all keys that have not expired, in the order of their bytes.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &Item)> {
        let mut sorted: Vec<_> = self.live().map(|(key, item)| (key.as_slice(), item)).collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        sorted.into_iter()
    }

    /// Returns the keys that have not expired, in no order.
    fn live(&self) -> impl Iterator<Item = (&Vec<u8>, &Item)> {
        self.items.iter().filter(|(_, item)| !item.is_expired(self.now_ms))
    }

    /// Returns the number of keys that have not expired.
    pub(super) fn len(&self) -> usize {
        self.live().count()
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        self.iter()
            .map(|(key, item)| Entry {
                key: key.to_vec(),
                value: item.value.clone(),
                expires_at_ms: item.expires_at_ms,
            })
            .collect()
    }
}
