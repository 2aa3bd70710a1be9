//! The names of locks that Redisson keeps for each key of a map (`RMap.getLock(key)` and its kin).
//!
//! Users whose Java services lock entries of maps, sets and multimaps need these names. The names are Redisson's for
//! the same bytes of a key (docs/protocol.md#16-locks-inside-other-objects).

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use crate::name::{Name, NameError};

/// The key of HighwayHash that Redisson hashes with.
const KEY: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c834, 0x1082_276b_f3a2_7251, 0xf86c_6a11_d0c1_8e95];

/// An entry of a Redisson map. Each kind of primitive has a name for the entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MapEntry(String);

impl Name {
    /// Returns the names that Redisson gives to the locks of one key of a map, set or multimap.
    ///
    /// `key` is the key as the codec of the Java object writes it: the text itself with `StringCodec`, other bytes with
    /// the default codec. For a map behind a `NameMapper`, `map` is the mapped name.
    #[must_use]
    pub fn redisson_map_entry(map: &str, key: &[u8]) -> MapEntry {
        let tagged = if map.contains('{') { map.to_owned() } else { format!("{{{map}}}") };
        MapEntry(format!("{tagged}:{}", base64(&highway_hash(key))))
    }
}

impl MapEntry {
    fn kind(&self, kind: &str) -> Result<Name, NameError> {
        Name::raw_redisson(&format!("{}:{kind}", self.0))
    }

    /// Returns the name of `getLock(key)`.
    ///
    /// # Errors
    /// [`NameError`] says which rule the map's name breaks, here and in the other functions.
    pub fn lock(&self) -> Result<Name, NameError> {
        self.kind("lock")
    }

    /// Returns the name of `getFairLock(key)`.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock).
    pub fn fair_lock(&self) -> Result<Name, NameError> {
        self.kind("fairlock")
    }

    /// Returns the name of `getReadWriteLock(key)`.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock).
    pub fn rw_lock(&self) -> Result<Name, NameError> {
        self.kind("rw_lock")
    }

    /// Returns the name of `getSemaphore(key)`.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock).
    pub fn semaphore(&self) -> Result<Name, NameError> {
        self.kind("semaphore")
    }

    /// Returns the name of `getPermitExpirableSemaphore(key)`.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock).
    pub fn expirable_semaphore(&self) -> Result<Name, NameError> {
        self.kind("permitexpirablesemaphore")
    }

    /// Returns the name of `getCountDownLatch(key)`. A cluster with sharded channels refuses it, to Redisson as well.
    ///
    /// # Errors
    /// The errors of [`lock`](Self::lock).
    pub fn count_down_latch(&self) -> Result<Name, NameError> {
        self.kind("countdownlatch")
    }
}

/// Writes bytes in standard Base64 without padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_usize, |word, byte| word << 8 | usize::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            text.push(char::from(DIGITS[word >> (18 - 6 * digit) & 63]));
        }
    }
    text
}

/// Computes HighwayHash of 128 bits like the authors' portable version. The result is big-endian.
fn highway_hash(bytes: &[u8]) -> [u8; 16] {
    let mut state = State::new();
    let mut packets = bytes.chunks_exact(32);
    for packet in &mut packets {
        state.update(lanes(packet));
    }
    state.update_remainder(packets.remainder());
    for _ in 0..6 {
        let [a, b, c, d] = state.v0.map(|lane| lane.rotate_left(32));
        state.update([c, d, a, b]);
    }
    let sum = |at: usize| {
        let first = state.v0[at].wrapping_add(state.mul0[at]);
        first.wrapping_add(state.v1[at + 2]).wrapping_add(state.mul1[at + 2])
    };
    (u128::from(sum(0)) << 64 | u128::from(sum(1))).to_be_bytes()
}

/// Returns the lanes of a packet of 32 bytes, little-endian. Missing bytes are zero.
fn lanes(packet: &[u8]) -> [u64; 4] {
    let mut lanes = [0; 4];
    for (at, byte) in packet.iter().enumerate() {
        lanes[at / 8] |= u64::from(*byte) << (8 * (at % 8));
    }
    lanes
}

/// The hash's state between packets.
struct State {
    v0: [u64; 4],
    v1: [u64; 4],
    mul0: [u64; 4],
    mul1: [u64; 4],
}

impl State {
    fn new() -> Self {
        let mul0 =
            [0xdbe6_d5d5_fe4c_ce2f, 0xa409_3822_299f_31d0, 0x1319_8a2e_0370_7344, 0x243f_6a88_85a3_08d3];
        let mul1 =
            [0x3bd3_9e10_cb0e_f593, 0xc0ac_f169_b5f1_8a8c, 0xbe54_66cf_34e9_0c6c, 0x4528_21e6_38d0_1377];
        let v0 = std::array::from_fn(|lane| mul0[lane] ^ KEY[lane]);
        let v1 = std::array::from_fn(|lane| mul1[lane] ^ KEY[lane].rotate_left(32));
        Self { v0, v1, mul0, mul1 }
    }

    fn update(&mut self, lanes: [u64; 4]) {
        let Self { v0, v1, mul0, mul1 } = self;
        for at in 0..4 {
            v1[at] = v1[at].wrapping_add(mul0[at]).wrapping_add(lanes[at]);
            mul0[at] ^= (v1[at] & 0xffff_ffff).wrapping_mul(v0[at] >> 32);
            v0[at] = v0[at].wrapping_add(mul1[at]);
            mul1[at] ^= (v0[at] & 0xffff_ffff).wrapping_mul(v1[at] >> 32);
        }
        zipper_merge(v1, v0);
        zipper_merge(v0, v1);
    }

    fn update_remainder(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let size = rest.len();
        let count = size as u32;
        let mut packet = [0_u8; 32];
        for at in 0..4 {
            self.v0[at] = self.v0[at].wrapping_add((u64::from(count) << 32) + u64::from(count));
            let [low, high] =
                [self.v1[at] as u32, (self.v1[at] >> 32) as u32].map(|half| half.rotate_left(count));
            self.v1[at] = u64::from(high) << 32 | u64::from(low);
        }
        let (words, odd) = rest.split_at(size & !3);
        packet[..words.len()].copy_from_slice(words);
        if size & 16 != 0 {
            packet[28..].copy_from_slice(&rest[size - 4..]);
        } else if let [first, .., last] | [first @ last] = odd {
            packet[16..19].copy_from_slice(&[*first, odd[odd.len() >> 1], *last]);
        }
        self.update(lanes(&packet));
    }
}

/// Adds the lanes of one half of the state, with their bytes mixed, to the other half.
fn zipper_merge(from: &[u64; 4], to: &mut [u64; 4]) {
    for at in [0, 2] {
        let (even, odd) = (from[at], from[at + 1]);
        let first = ((even & 0xff00_0000) | (odd & 0xff_0000_0000)) >> 24
            | ((even & 0xff00_0000_0000) | (odd & 0xff_0000_0000_0000)) >> 16
            | even & 0xff_0000
            | (even & 0xff00) << 32
            | (odd & 0xff00_0000_0000_0000) >> 8
            | even << 56;
        let second = ((odd & 0xff00_0000) | (even & 0xff_0000_0000)) >> 24
            | odd & 0xff_0000
            | (odd & 0xff00_0000_0000) >> 16
            | (odd & 0xff00) << 24
            | (even & 0xff_0000_0000_0000) >> 8
            | (odd & 0xff) << 48
            | even & 0xff00_0000_0000_0000;
        to[at] = to[at].wrapping_add(first);
        to[at + 1] = to[at + 1].wrapping_add(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_that_of_redisson_for_every_tail_length() {
        let text = b"The-quick-brown-fox-jumps-over-the-lazy-dog-and-then-over-another-one.";
        // Results of `Hash.hash128toBase64` of Redisson 4.7.0.
        for (length, hash) in [
            (0, "t6rZwibGo2uy1OSmNVe8pg"),
            (1, "5dZpJMVyU9prPii2xicIGA"),
            (2, "bLiO3cy+XQGS1CxlMEohzQ"),
            (3, "QWrLhn0w8vwbba6nFSdEQw"),
            (5, "3LHdBtNyOS4EZ+MqdFfhBQ"),
            (15, "q4XY5ed3HJsI+rrbZm909g"),
            (16, "aYdgjj9Ot2rqfl4rzPJ76w"),
            (17, "NIvx2QBxFJhnKWPe9hD7zg"),
            (31, "/IDIJsq5ie0O4Y/BAoza9g"),
            (32, "I1YI0/FpL7DZ0sRU5waB9A"),
            (33, "D0UbNG6eyi8BjCVJQLKLcw"),
            (63, "m+KQuPegeeZOAOyllVlOoA"),
            (64, "AC2KzlQETDBlJhfZNkP4og"),
            (70, "oGZCVBt2wJ251a8LbsnwXQ"),
        ] {
            assert_eq!(base64(&highway_hash(&text[..length])), hash, "{length} bytes");
        }
    }

    #[test]
    fn every_kind_has_its_name_and_braces_of_a_map_stay() {
        let entry = Name::redisson_map_entry("prices", b"apple");
        let names = [
            (entry.lock(), "lock"),
            (entry.fair_lock(), "fairlock"),
            (entry.rw_lock(), "rw_lock"),
            (entry.semaphore(), "semaphore"),
            (entry.expirable_semaphore(), "permitexpirablesemaphore"),
            (entry.count_down_latch(), "countdownlatch"),
        ];
        for (name, kind) in names {
            assert_eq!(name.unwrap().as_str(), format!("{{prices}}:Obc/DlI/H3SPnZeNiiq/AA:{kind}"));
        }
        let tagged = Name::redisson_map_entry("{app}.prices", b"apple").lock();
        assert_eq!(tagged.unwrap().as_str(), "{app}.prices:Obc/DlI/H3SPnZeNiiq/AA:lock");
        assert_eq!(Name::redisson_map_entry("a{", b"apple").lock(), Err(NameError::CrossSlot));
    }
}
