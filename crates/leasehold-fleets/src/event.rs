//! The lines of a worker's log.
//!
//! Invariant: a worker writes an attempt before it sends it, and the end of a hold before it releases it. The time of a
//! line is read before the line's fact is used: a `Seen` time was read before the guard said that it is valid.

use serde::{Deserialize, Serialize};

use crate::policy::{Kind, Policy};

/// A line of a log.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The time in microseconds.
    pub at: u64,
    /// The number of the attempt within the process.
    pub attempt: u64,
    /// The fact.
    pub event: Event,
}

/// The facts about one attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The worker is about to acquire.
    Attempt {
        /// The policy of the client.
        policy: Policy,
        /// The primitive.
        kind: Kind,
        /// The name of the lock.
        name: String,
        /// The longest wait in microseconds.
        wait: u64,
    },
    /// The guard was returned, and was valid.
    Granted {
        /// The end of the validity, as the guard says it.
        valid_until: u64,
        /// The fencing token.
        token: Option<u64>,
    },
    /// Another holder has the lock, until the end of the wait.
    Refused,
    /// The acquire failed.
    Failed {
        /// The error.
        error: String,
    },
    /// A fenced write that the resource has answered, with the time of the answer.
    Write {
        /// The time before the write was sent.
        sent: u64,
        /// True if the resource accepted it.
        accepted: bool,
    },
    /// `lost()` has resolved.
    Lost {
        /// The last time at which the guard was valid.
        seen: u64,
        /// The reason.
        reason: String,
        /// True if the guard still said that it is valid.
        still_valid: bool,
        /// The plain ports of the servers that still had the hold, asked after the loss.
        kept_by: Vec<u16>,
    },
    /// The worker is about to release.
    Releasing {
        /// The last time at which the guard was valid.
        seen: u64,
    },
    /// The release has ended.
    Released {
        /// Its outcome.
        outcome: String,
    },
}
