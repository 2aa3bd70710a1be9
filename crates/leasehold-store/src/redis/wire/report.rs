//! What a server's connections report to the topology.

use leasehold_proto::{Channel, StoreErrorKind as Kind};

use super::batch::PendingCall;
use super::value::Value;
use crate::redis::channels::Channels;
use crate::redis::error::{Failure, Redirection};

/// An event of one server that may concern the topology.
#[derive(Debug)]
pub(super) enum Report {
    /// A connection for calls has opened. `again` is true if it is not the first to this server.
    Opened { channels: Option<Channels>, again: bool },
    /// The server cannot be reached, or says that it does not serve its names.
    Unfit,
    /// The server owes a reply and gives none for a while, or has given one after that. It may have been replaced.
    Silent,
    /// Fewer replicas than necessary have acknowledged or are connected, so the server may have been replaced.
    Unconfirmed,
    /// A call waits for the address of the server.
    Unknown,
    /// The server directs a call to another one. The call has not run.
    Redirected(PendingCall, Redirection, Failure),
    /// The server directs the subscribers of a slot to another one.
    Moved(Redirection),
    /// The connection for subscriptions cannot be opened.
    Deaf,
    /// A message of a sentinel, or the confirmation that messages come.
    Heard,
    /// A key has changed whose waiters listen to these channels.
    Changed(Vec<Channel>),
    /// The server took or refused a login on an open connection.
    LoggedIn(bool),
    /// The outcome of a query.
    Answered(Result<Vec<Value>, Failure>),
}

impl Report {
    /// Returns what the failure of a call says about its server.
    pub(super) const fn of(failure: &Failure) -> Option<Self> {
        match failure.kind {
            Kind::ReadOnly | Kind::MasterDown | Kind::ClusterDown | Kind::WrongNode => Some(Self::Unfit),
            Kind::NoReplicas => Some(Self::Unconfirmed),
            _ => None,
        }
    }
}
