//! What is at the other end of a connection: a data server or a sentinel. They have different logins and encryption.

use crate::url::{Credentials, ServerUrl, Servers};

/// The other end of a connection, which decides about its login and its encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A server that keeps locks, or a replica of it.
    Server,
    /// A sentinel.
    Sentinel,
}

impl Peer {
    /// Returns the login that a URL has for this peer.
    pub(crate) fn login(self, url: &ServerUrl) -> Option<&Credentials> {
        match (self, url.servers()) {
            (Self::Sentinel, Servers::Sentinel { credentials, .. }) => credentials.as_ref(),
            _ => url.credentials.as_ref(),
        }
    }
}
