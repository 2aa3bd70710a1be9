//! One stream: a process's end, a session of the server, and the bytes between.
//!
//! Invariant: bytes arrive in the order in which they were written, in pieces that the seed decides.

use std::time::Duration;

use leasehold_store::embedded::Session;
use tokio::sync::mpsc::UnboundedSender;

use super::server::Visit;

/// A stream of a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StreamId(pub(super) u64);

/// An event at the process's end of a stream.
#[derive(Debug)]
pub(super) enum Happened {
    Connected,
    Refused,
    Bytes(Vec<u8>),
    Closed,
}

/// A stream, from the dialing to its end at both ends.
pub(super) struct Stream {
    pub(super) process: usize,
    /// The server's end, unless it is at work.
    pub(super) session: Option<Session<Visit>>,
    /// The ways in both directions, once the server's machine has accepted.
    pub(super) ways: Option<Ways>,
    /// The time at which the process's end was cut.
    pub(super) cut_at: Option<Duration>,
    /// True if bytes lead nowhere.
    pub(super) is_half: bool,
    /// True if the server's end is gone.
    pub(super) has_no_session: bool,
    /// True if the end of the stream is on its way, and no byte follows it.
    pub(super) is_ending: bool,
    /// True if writes travel in pieces.
    pub(super) is_split: bool,
    /// The number of written bytes that the server has not read.
    pub(super) unread: usize,
}

/// The ways of a stream in both directions, with the arrivals of their last segments.
pub(super) struct Ways {
    pub(super) to_server: UnboundedSender<Segment>,
    pub(super) to_client: UnboundedSender<Segment>,
    pub(super) last_request: Duration,
    pub(super) last_reply: Duration,
}

/// Bytes on their way, or the end of the stream.
pub(super) struct Segment {
    pub(super) arrives: Duration,
    pub(super) what: What,
}

pub(super) enum What {
    Bytes(Vec<u8>),
    End,
}

/// The direction of a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    ToServer,
    ToClient,
}

impl Stream {
    pub(super) const fn new(process: usize, is_split: bool) -> Self {
        Self {
            process,
            session: None,
            ways: None,
            cut_at: None,
            is_half: false,
            has_no_session: false,
            is_ending: false,
            is_split,
            unread: 0,
        }
    }

    pub(super) const fn halve(&mut self) {
        self.is_half = true;
    }

    /// Returns true if the process can still use the stream.
    pub(super) const fn is_open(&self) -> bool {
        self.cut_at.is_none() && !self.is_ending
    }

    pub(super) fn was_cut_before(&self, received: Duration) -> bool {
        self.cut_at.is_some_and(|cut_at| cut_at < received)
    }
}
