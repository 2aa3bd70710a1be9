//! Markers: keys that record what a call has done, where the state alone cannot tell a repeated call from a new one.
//!
//! The recipes of counters use them, because a counter cannot be set to an absolute value (docs/guarantees.md, rule
//! 13). A marker's name contains an id that is never reused: a wire owner, or a ticket of one client.

use std::fmt;
use std::time::Duration;

use crate::id::Id;
use crate::name::Name;
use crate::owner::{ClientId, WireOwner};
use crate::reply::Reply;
use crate::settings::Settings;
use crate::text::{Text, joined, text};

/// The time for which an operation's answer outlives the last attempt that its client can make. A call may wait that long in
/// the kernel of a frozen server, and would count twice without the answer.
const LATE: Duration = Duration::from_secs(60);

/// The time for which the marker of permits lives on the server (`scripts/semaphore/marker.lua`). It has to outlive most
/// holds, since the release of an older one cannot tell a missing marker from a returned permit (decision 0011).
pub(crate) const MARKED_FOR: Duration = Duration::from_secs(3_600);

/// One operation without a hold, which is tried until it is answered and applied once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    client: ClientId,
    id: Id,
    kept: Duration,
}

impl Operation {
    /// Creates the operation of this ticket.
    #[must_use]
    pub const fn new(client: ClientId, id: Id, settings: &Settings) -> Self {
        Self { client, id, kept: settings.timeout.saturating_add(LATE) }
    }

    /// Returns the key of its answer.
    pub(crate) fn marker(&self, name: &Name) -> impl Text + fmt::Display {
        text(move |buffer| joined([&name.prefixed_text("leasehold_op"), &":", self]).write(buffer))
    }

    /// Returns the time for which the answer is kept.
    pub(crate) fn kept_ms(&self) -> u64 {
        u64::try_from(self.kept.as_millis()).unwrap_or(u64::MAX).min(MS_MAX)
    }
}

/// The longest expiry that a server accepts on top of its clock: about 30,000 years.
const MS_MAX: u64 = 1_000_000_000_000_000;

impl Text for Operation {
    fn write(&self, buffer: &mut Vec<u8>) {
        joined([&self.client, &":op", &self.id.0]).write(buffer);
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:op{}", self.client, self.id.0)
    }
}

/// Reads a yes or no from a reply.
#[must_use]
pub fn read_flag(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(flag @ (0 | 1)) => Some(*flag == 1),
        _ => None,
    }
}

/// Returns the key that records what an acquisition has taken from a counter.
pub(crate) fn acquisition(name: &Name, owner: WireOwner) -> impl Text + fmt::Display {
    text(move |buffer| joined([&name.prefixed_text("leasehold_permit"), &":", &owner]).write(buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_in_the_slot_of_their_name() {
        let client = ClientId::from_random([0; 16]);
        let name = Name::new("seats").unwrap();
        let operation = Operation::new(client, Id(7), &Settings::default());
        assert_eq!(operation.marker(&name).to_string(), format!("leasehold_op:{{seats}}:{client}:op7"));
        assert_eq!(operation.kept_ms(), 63_000);
        let owner = WireOwner::new(client, 3);
        assert_eq!(acquisition(&name, owner).to_string(), format!("leasehold_permit:{{seats}}:{client}:3"));
    }

    #[test]
    fn an_endless_timeout_keeps_a_marker_for_the_longest_server_expiry() {
        let settings = Settings { timeout: Duration::MAX, ..Settings::default() };
        let operation = Operation::new(ClientId::from_random([0; 16]), Id(1), &settings);
        assert_eq!(operation.kept_ms(), MS_MAX);
    }
}
