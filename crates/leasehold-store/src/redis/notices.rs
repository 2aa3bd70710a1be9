//! Notices for operators: a plain-text password on a network that others can read, missing replicas, and connections
//! that open and end.
//!
//! Invariant: a client warns about its password at most once, and judges by the address that it connected to, not by a
//! name.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::reach::Reach;
use crate::url::Address;

/// The function that hears of the first connection that carries a password in plain text to a host that is neither
/// loopback nor private.
#[derive(Clone)]
pub struct PlainTextNotice(Arc<Notice>);

struct Notice {
    tell: Box<dyn Fn(&Address) + Send + Sync>,
    is_told: AtomicBool,
}

impl PlainTextNotice {
    /// Creates a notice. The function is called on the thread of the client and must not block.
    pub fn new(tell: impl Fn(&Address) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Notice { tell: Box::new(tell), is_told: AtomicBool::new(false) }))
    }

    /// Notes a connection to a server by its name and its address.
    pub(super) fn connected(&self, server: &Address, to: IpAddr) {
        if Reach::of(to) == Reach::Public && !self.0.is_told.swap(true, Ordering::Relaxed) {
            (self.0.tell)(server);
        }
    }
}

impl fmt::Debug for PlainTextNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainTextNotice")
    }
}

/// The function that hears when the first replicas are missing.
#[derive(Clone)]
pub struct MissingNotice(Arc<dyn Fn(u32, u32) + Send + Sync>);

impl MissingNotice {
    /// Creates a notice. The function receives the number of connected replicas and of wanted ones. It is called on the
    /// thread of the client and must not block.
    pub fn new(tell: impl Fn(u32, u32) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn tell(&self, connected: u32, wanted: u32) {
        (self.0)(connected, wanted);
    }
}

impl fmt::Debug for MissingNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MissingNotice")
    }
}

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carried {
    /// The calls.
    Commands,
    /// The calls that replicas confirm.
    Confirmed,
    /// The subscriptions.
    Subscriptions,
}

/// A connection that serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// The address of the server.
    pub server: Address,
    /// What it carries.
    pub carried: Carried,
    /// True if it is not the first of its kind to this server.
    pub again: bool,
    /// True if another server answers for the names of the last one.
    pub moved: bool,
}

/// A change of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// It serves from now on.
    Opened,
    /// The server has ended it.
    Ended,
    /// The client has ended it, because it is closed, or because the server was late, refused or broke the protocol.
    GivenUp,
}

type TellChange = dyn Fn(&Serving, Change) + Send + Sync;

/// The function that hears of connections that open and end.
#[derive(Clone)]
pub struct ConnectionNotice(Arc<TellChange>);

impl ConnectionNotice {
    /// Creates a notice. The function is called on the thread of the client or of a caller and must not block.
    pub fn new(tell: impl Fn(&Serving, Change) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn tell(&self, serving: &Serving, change: Change) {
        (self.0)(serving, change);
    }
}

impl fmt::Debug for ConnectionNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionNotice")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn the_first_public_connection_is_told_once() {
        static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let notice = PlainTextNotice::new(|server| TOLD.lock().unwrap().push(server.to_string()));
        let server = |host: &str| Address::Tcp { host: host.to_owned(), port: 6379 };
        for (host, address) in [("a", "127.0.0.1"), ("b", "8.8.8.8"), ("c", "8.8.4.4")] {
            notice.connected(&server(host), address.parse().unwrap());
        }
        assert_eq!(*TOLD.lock().unwrap(), ["b:6379"]);
    }
}
