//! Markers: keys that remember what a call has done, where the state alone cannot tell a repeated call from a new one.
//!
//! Invariant: a marker is named by what is never used for anything else: a wire owner, or a ticket of one client.

use std::fmt;
use std::time::Duration;

use crate::call::{Call, Reply};
use crate::engine::{Id, Settings};
use crate::name::Name;
use crate::owner::{ClientId, WireOwner};

/// For how long an operation's answer outlives the last attempt that its client can make.
const LATE: Duration = Duration::from_secs(60);

/// One operation without a hold, which is tried until it is answered and applied once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    client: ClientId,
    id: Id,
    kept: Duration,
}

impl Operation {
    /// The operation of this ticket.
    #[must_use]
    pub const fn new(client: ClientId, id: Id, settings: &Settings) -> Self {
        Self { client, id, kept: settings.timeout.saturating_add(LATE) }
    }

    /// The key with its answer.
    pub(crate) fn marker(&self, name: &Name) -> String {
        format!("{}:{self}", name.prefixed("leasehold_op"))
    }

    /// How long the answer is kept.
    pub(crate) fn kept_ms(&self) -> u64 {
        u64::try_from(self.kept.as_millis()).unwrap_or(u64::MAX).min(MS_MAX)
    }
}

/// The longest expiry that a server takes together with its clock; 30,000 years.
const MS_MAX: u64 = 1_000_000_000_000_000;

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:op{}", self.client, self.id.0)
    }
}

/// The call with the marker that makes it count once.
pub(crate) fn once(call: Call, name: &Name, operation: &Operation) -> Call {
    call.key("done", operation.marker(name)).arg("done_ms", operation.kept_ms())
}

/// What a yes or no in a reply is.
#[must_use]
pub fn read_flag(reply: &Reply) -> Option<bool> {
    match reply {
        Reply::Int(flag @ (0 | 1)) => Some(*flag == 1),
        _ => None,
    }
}

/// The key that says what an acquisition has taken of a counter.
pub(crate) fn acquisition(name: &Name, owner: WireOwner) -> String {
    format!("{}:{owner}", name.prefixed("leasehold_permit"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_in_the_slot_of_their_name() {
        let client = ClientId::from_random([0; 16]);
        let name = Name::new("seats").unwrap();
        let operation = Operation::new(client, Id(7), &Settings::default());
        assert_eq!(operation.marker(&name), format!("leasehold_op:{{seats}}:{client}:op7"));
        assert_eq!(operation.kept_ms(), 63_000);
        let owner = WireOwner::new(client, 3);
        assert_eq!(acquisition(&name, owner), format!("leasehold_permit:{{seats}}:{client}:3"));
    }

    #[test]
    fn a_timeout_without_end_keeps_an_answer_for_what_a_server_takes() {
        let settings = Settings { timeout: Duration::MAX, ..Settings::default() };
        let operation = Operation::new(ClientId::from_random([0; 16]), Id(1), &settings);
        assert_eq!(operation.kept_ms(), MS_MAX);
    }
}
