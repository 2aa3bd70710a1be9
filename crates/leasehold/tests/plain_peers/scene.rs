//! A server of its own for each test, with a name on it that the peer and Rust share.

use std::time::Duration;

use leasehold::lock::Plain;
use leasehold::{Client, Lock};
use leasehold_testkit::servers::{Monitor, RedisServer};

use crate::peer::Peer;
use crate::roster::Kind;
use crate::support::{connect, eventually, ms};

/// The name of the lock.
pub(crate) const NAME: &str = "job";
/// A lease that no test outlives, in milliseconds.
pub(crate) const LONG: u32 = 60_000;
/// A lease whose end a test awaits. Some libraries have whole seconds.
pub(crate) const SHORT: Duration = ms(2_000);
/// The longest time of a hand-over beyond the pause of the waiter, far less than a lease, for a machine under load.
pub(crate) const PROMPTLY: Duration = ms(5_000);

/// The number of commands with the lock's name after which a client waits: a refused attempt, and what follows it.
const WAITS_AFTER: usize = 3;

pub(crate) struct Scene {
    pub(crate) kind: &'static Kind,
    pub(crate) server: RedisServer,
}

impl Scene {
    pub(crate) fn start(kind: &'static Kind) -> Self {
        Self { kind, server: RedisServer::start() }
    }

    pub(crate) async fn peer(&self) -> Peer {
        Peer::start(self.kind, &self.server.url()).await
    }

    pub(crate) async fn client(&self) -> Client {
        connect(&self.server).await
    }

    /// The lock in the format of the peer.
    pub(crate) fn lock(&self, client: &Client) -> Lock<Plain> {
        client.plain_lock(NAME).format((self.kind.format)())
    }

    pub(crate) fn key(&self) -> String {
        format!("{}{NAME}", self.kind.prefix)
    }

    /// The value of the key, empty without it.
    pub(crate) fn value(&self) -> String {
        self.server.cli(&["GET", &self.key()])
    }

    /// Deletes the key, as an operator does.
    pub(crate) fn delete(&self) {
        assert_eq!(self.server.cli(&["DEL", &self.key()]), "1");
    }

    /// Watches the clients that begin to wait from now on.
    pub(crate) fn watch(&self) -> Watch {
        Watch::start(&self.server, NAME)
    }
}

/// Watches the commands of waiters.
pub(crate) struct Watch {
    monitor: Monitor,
    name: &'static str,
}

impl Watch {
    /// Watches the clients that begin to wait for a name from now on.
    pub(crate) fn start(server: &RedisServer, name: &'static str) -> Self {
        Self { monitor: Monitor::start(server), name }
    }

    /// Waits until a client has been refused and goes on waiting.
    pub(crate) async fn wait_for_waiter(&self) {
        let names = |command: &Vec<String>| command[1..].iter().any(|word| word.contains(self.name));
        let waits = || self.monitor.commands().iter().filter(|command| names(command)).count() >= WAITS_AFTER;
        eventually("a waiter", waits).await;
    }
}
