//! The hash of a script, by which the server and its scripts know it.
//!
//! Invariant: the hash is SHA-1 in lower-case hexadecimal, as in Redis.

use std::cell::RefCell;
use std::collections::HashMap;

/// The maximum number of remembered texts, and the bytes of the longest one.
const KNOWN_MAX: usize = 256;
const TEXT_MAX: usize = 16_384;

thread_local! {
    /// The hashes of texts that this thread has executed.
    static KNOWN: RefCell<HashMap<Vec<u8>, String>> = RefCell::default();
}

pub(super) fn hash(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).hexdigest()
}

/// Returns the hash of a text of EVAL. Every new client sends the same texts.
pub(super) fn remembered_hash(source: &[u8]) -> String {
    if let Ok(Some(known)) = KNOWN.try_with(|known| known.borrow().get(source).cloned()) {
        return known;
    }
    let hash = hash(source);
    if source.len() <= TEXT_MAX {
        // A thread that ends has no map any more.
        let _ = KNOWN.try_with(|known| {
            let mut known = known.borrow_mut();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(source.to_vec(), hash.clone());
        });
    }
    hash
}
