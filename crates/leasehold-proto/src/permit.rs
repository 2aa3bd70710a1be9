//! The ids of permits that expire.
//!
//! An id is used once. It is its client's uuid plus a number that the client never uses again.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::str::FromStr;

use crate::owner::{ClientId, WireOwner};

/// The id of a permit of an expirable semaphore, which is 16 bytes, or 32 hexadecimal digits when written.
///
/// ```
/// use leasehold_proto::PermitId;
///
/// let id: PermitId = "000102030405060708090a0b0c0d0e0f".parse()?;
/// assert_eq!(id.as_bytes()[15], 15);
/// assert_eq!(id.to_string(), "000102030405060708090a0b0c0d0e0f");
/// # Ok::<(), leasehold_proto::PermitIdError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId([u8; 16]);

/// More acquisitions than a client makes. The id of another program is almost never so near.
const OWNERS_MAX: u128 = 1 << 40;

/// The error of a text that is not a permit id, which has 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the permit id is not 32 hexadecimal digits")]
#[non_exhaustive]
pub struct PermitIdError;

impl PermitId {
    /// Returns the ids of an acquisition of `permits` permits.
    pub fn of(owner: WireOwner, permits: u32) -> impl Iterator<Item = Self> + Clone {
        let first = owner.as_u128();
        (0..permits).map(move |place| Self(first.wrapping_add(u128::from(place)).to_be_bytes()))
    }

    /// Returns the wire owner that acquired a permit of this id, if its client is one of these. Its number is that of the
    /// acquisition, or a little larger for the further permits of one.
    #[must_use]
    pub fn owner_among(&self, clients: impl IntoIterator<Item = ClientId>) -> Option<WireOwner> {
        let id = u128::from_be_bytes(self.0);
        let number =
            |client: ClientId| id.checked_sub(client.as_u128()).filter(|number| *number < OWNERS_MAX);
        let nearest = clients.into_iter().filter_map(|client| Some((number(client)?, client))).min()?;
        Some(WireOwner::new(nearest.1, u64::try_from(nearest.0).ok()?))
    }

    /// Creates the id of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes as they are on the server.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for PermitId {
    type Err = PermitIdError;

    fn from_str(text: &str) -> Result<Self, PermitIdError> {
        // A number may begin with a sign, which is not a digit.
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(PermitIdError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| PermitIdError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_ids_of_two_acquisitions_differ() {
        let client = ClientId::from_random([0xff; 16]);
        let first: Vec<PermitId> = PermitId::of(WireOwner::new(client, 1), 3).collect();
        let second: Vec<PermitId> = PermitId::of(WireOwner::new(client, 4), 1).collect();
        assert_eq!(first.len(), 3);
        assert!(first.iter().all(|id| !second.contains(id)));
        assert_eq!(first[0].to_string(), "ffffffffffff4fffc000000000000000");
    }

    #[test]
    fn the_owner_of_a_permit_is_found_among_clients() {
        let [one, other] = [3, 4].map(|byte| ClientId::from_random([byte; 16]));
        let id = PermitId::of(WireOwner::new(other, 9), 2).nth(1).unwrap();
        assert_eq!(id.owner_among([one, other]), Some(WireOwner::new(other, 10)));
        assert_eq!(id.owner_among([one]), None);
        assert_eq!(PermitId::from_bytes([1; 16]).owner_among([one, other]), None);
    }

    #[test]
    fn only_thirty_two_digits_are_an_id() {
        for bad in ["", "00", "+00102030405060708090a0b0c0d0e0f", "0001020304050607 8090a0b0c0d0e0f"] {
            assert_eq!(bad.parse::<PermitId>(), Err(PermitIdError), "{bad}");
        }
        assert_eq!("0".repeat(33).parse::<PermitId>(), Err(PermitIdError));
    }

    proptest! {
        #[test]
        fn a_permit_id_round_trips(bytes: [u8; 16]) {
            let id = PermitId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse(), Ok(id));
            prop_assert_eq!(id.to_string().to_uppercase().parse(), Ok(id));
        }

        #[test]
        fn parsing_any_text_never_panics(text in ".{0,40}") {
            let _ = text.parse::<PermitId>();
        }
    }
}
