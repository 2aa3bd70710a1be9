//! Owners: the owner value of the user, and the wire owner on the server.
//!
//! A [`WireOwner`] is never used for two acquisitions (docs/guarantees.md, rule 1), so a late duplicate of an old
//! release cannot touch a newer hold.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::text::Text;

/// The value that may hold and re-enter a lock. It is never a thread.
///
/// Two acquires of one name with the same owner are one hold with a count of two. An owner is valid for every lock of
/// every client in this process, and has no meaning in another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(u64);

impl Owner {
    /// Creates an owner that is unique in this process.
    #[must_use]
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates the owner with this number, for simulations that number their owners themselves.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }
}

/// The identity of one client, which is a version 4 UUID on the wire, as Redisson's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(uuid::Uuid);

impl ClientId {
    /// Creates the client id from these random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }
}

impl ClientId {
    pub(crate) const fn as_u128(self) -> u128 {
        self.0.as_u128()
    }

    /// Returns a number that differs between clients, so that their pauses differ.
    #[must_use]
    pub fn seed(self) -> u64 {
        self.0.as_u64_pair().0
    }
}

impl Text for ClientId {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.0.as_hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()).write(buffer);
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.as_hyphenated(), f)
    }
}

impl fmt::Debug for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no client id or wire owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a client id (`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`) or a wire owner (a client id, a colon and a number)"
)]
#[non_exhaustive]
pub struct OwnerError;

/// Reads the form in which a client writes itself, and no other form of a UUID.
impl FromStr for ClientId {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, OwnerError> {
        let uuid = uuid::Uuid::try_parse(text).map_err(|_| OwnerError)?;
        Some(Self(uuid)).filter(|client| client.to_string() == text).ok_or(OwnerError)
    }
}

/// The hash field `uuid:number` that identifies the holder on the server. Redisson writes `uuid:threadId` there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireOwner {
    client: ClientId,
    number: u64,
}

impl WireOwner {
    /// Creates the wire owner of a client's acquisition with this number.
    #[must_use]
    pub const fn new(client: ClientId, number: u64) -> Self {
        Self { client, number }
    }

    /// Returns the client.
    #[must_use]
    pub const fn client(self) -> ClientId {
        self.client
    }

    /// Returns the number of the acquisition, or the number of Redisson's thread.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }
}

impl FromStr for WireOwner {
    type Err = OwnerError;

    fn from_str(text: &str) -> Result<Self, OwnerError> {
        let (client, digits) = text.split_once(':').ok_or(OwnerError)?;
        let number: u64 = digits.parse().map_err(|_| OwnerError)?;
        let owner = Self::new(client.parse()?, number);
        Some(owner).filter(|_| digits == number.to_string()).ok_or(OwnerError)
    }
}

impl WireOwner {
    /// Returns a number that differs between all acquisitions of all clients.
    pub(crate) const fn as_u128(self) -> u128 {
        self.client.as_u128().wrapping_add(self.number as u128)
    }

    /// Returns a number that differs between acquisitions, so that their pauses differ.
    pub(crate) fn seed(self) -> u64 {
        self.client.seed() ^ self.number
    }
}

impl Text for WireOwner {
    fn write(&self, buffer: &mut Vec<u8>) {
        self.client.write(buffer);
        buffer.push(b':');
        self.number.write(buffer);
    }
}

impl fmt::Display for WireOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client, self.number)
    }
}

impl fmt::Debug for WireOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_owner_reads_as_uuid_and_number() {
        let owner = WireOwner::new(ClientId::from_random([0xff; 16]), 7);
        assert_eq!(owner.to_string(), "ffffffff-ffff-4fff-bfff-ffffffffffff:7");
    }

    #[test]
    fn an_owner_is_read_as_it_is_written_and_in_no_other_form() {
        let owner = WireOwner::new(ClientId::from_random([0xff; 16]), 7);
        let text = owner.to_string();
        assert_eq!(text.parse(), Ok(owner));
        assert_eq!(owner.client().to_string().parse(), Ok(owner.client()));
        for other in [
            text.to_uppercase(),
            format!("{text}:write"),
            text.replace(":7", ":07"),
            text.replace(":7", ":+7"),
            text.replace('-', ""),
            "mode".to_owned(),
        ] {
            assert_eq!(other.parse::<WireOwner>(), Err(OwnerError), "{other}");
        }
    }

    #[test]
    fn owners_of_one_process_differ() {
        assert_ne!(Owner::unique(), Owner::unique());
    }
}
