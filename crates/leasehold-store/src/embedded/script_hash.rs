//! The hash of a script, by which the server and its scripts know it.
//!
//! Invariant: the hash is SHA-1 in lower-case hexadecimal, as in Redis.

pub(super) fn hash(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).hexdigest()
}
