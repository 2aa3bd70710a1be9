//! Connects to the servers of a fleet.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Error, anyhow};
use leasehold::config::{Config, Server};
use leasehold_proto::operate::Audience;
use leasehold_proto::{Call, Name, Reply};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_store::url::{ServerUrl, Servers as Topology};

use super::nodes::{self, Master};
use crate::clock::{Instant, now};
use crate::exit::Failure;

/// The time for which the masters are taken for granted. A failover within it is noticed by an error.
const FRESH: Duration = Duration::from_secs(30);

/// A connection to the servers of a fleet.
#[derive(Debug)]
pub(super) struct Servers {
    store: Redis,
    pub(super) url: ServerUrl,
    pub(super) options: ConnectOptions,
    masters: Mutex<Masters>,
    /// The key prefix of the clients, which the names of objects leave out.
    pub(super) prefix: String,
    pub(super) audience: Audience,
    timeout: Duration,
    /// The number of servers that the configuration names.
    pub(super) quorum: usize,
}

/// The masters, as they were found.
#[derive(Debug)]
struct Masters {
    found: Arc<[Master]>,
    at: Instant,
    /// True if one of them has failed since.
    are_doubtful: bool,
}

impl Masters {
    fn new(found: Vec<Master>) -> Self {
        Self { found: found.into(), at: now(), are_doubtful: false }
    }

    fn are_stale(&self, now: Instant) -> bool {
        self.are_doubtful || now.saturating_duration_since(self.at) > FRESH
    }
}

impl Servers {
    /// Connects to the servers of a configuration: of a quorum, to the first that answers.
    ///
    /// The caller must be within a tokio runtime.
    pub(super) async fn connect(config: &Config, timeout: Duration) -> Result<Self, Failure> {
        let options = ConnectOptions::default().timeout(timeout).tls(config.tls());
        let options = options.sentinel_tls(config.sentinel_tls()).client_name(Some("leasehold-cli".into()));
        let options = match config.credentials_file() {
            Some(login) => options.credentials(login),
            None => options,
        };
        let options = match config.sentinel_credentials_file() {
            Some(login) => options.sentinel_credentials(login),
            None => options,
        };
        let mut failure = Failure::usage(anyhow!("the configuration names no server"));
        let quorum = config.servers().len();
        for server in config.servers() {
            let Server::Redis(url) = server else { continue };
            match Self::connect_to(url.clone(), options.clone(), config.key_prefix(), timeout).await {
                Ok(fleet) => return Ok(Self { quorum, ..fleet }),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn connect_to(
        url: ServerUrl,
        options: ConnectOptions,
        prefix: &str,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let unreachable =
            |error| Failure::unavailable(Error::new(error).context(format!("no connection to {url}")));
        let store = Redis::connect(&url, options.clone()).await.map_err(unreachable)?;
        let masters = nodes::masters(&url, &options).await.map_err(Failure::unavailable)?;
        let masters = Mutex::new(Masters::new(masters));
        let audience = Audience::new(prefix, url.database());
        Ok(Self { store, options, masters, prefix: prefix.to_owned(), audience, timeout, url, quorum: 1 })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.url.servers(), Topology::Cluster { .. })
    }

    /// Returns the masters as they were last found.
    pub(super) fn masters(&self) -> Arc<[Master]> {
        self.known_masters(|known| Arc::clone(&known.found))
    }

    /// Finds the masters again if it is some time ago, or if one has failed. An old answer is better than none.
    pub(super) async fn find_masters(&self) {
        if self.known_masters(|known| known.are_stale(now()))
            && let Ok(found) = nodes::masters(&self.url, &self.options).await
        {
            self.known_masters(|known| *known = Masters::new(found));
        }
    }

    /// Notes that a master has failed, so another server may be the master now.
    pub(super) fn doubt_masters(&self) {
        self.known_masters(|known| known.are_doubtful = true);
    }

    fn known_masters<T>(&self, look: impl FnOnce(&mut Masters) -> T) -> T {
        look(&mut self.masters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the address of the server that has a name.
    pub(super) fn node(&self, name: &Name) -> String {
        let masters = self.masters();
        let master = masters.iter().find(|master| master.has(name));
        master.map_or_else(String::new, |master| master.address.to_string())
    }

    /// Runs a call on the server of its key.
    pub(super) async fn run(&self, call: Call) -> Result<Reply, Failure> {
        self.store.run(call, self.timeout).await.map_err(|error| {
            self.doubt_masters();
            Failure::unavailable(Error::new(error))
        })
    }

    /// Returns the key of a name that a user gave without the key prefix.
    pub(super) fn key(&self, name: &str) -> Result<Name, Failure> {
        let key = format!("{}{name}", self.prefix);
        Name::raw_redisson(&key).map_err(|error| {
            Failure::usage(Error::new(error).context(format!("the name {name:?} cannot be used")))
        })
    }
}

#[cfg(test)]
mod tests {
    use leasehold_testkit::fleets::Sentinels;

    use super::*;

    #[test]
    fn masters_are_found_again_after_some_time_and_after_a_failure() {
        let mut masters = Masters::new(Vec::new());
        assert!(!masters.are_stale(masters.at + FRESH));
        assert!(masters.are_stale(masters.at + FRESH + Duration::from_millis(1)));
        masters.are_doubtful = true;
        assert!(masters.are_stale(masters.at));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn after_a_failover_the_new_master_is_asked() {
        let fleet = Sentinels::start();
        let config = Config::builder().variables([("LEASEHOLD_URL", fleet.url())]).build().unwrap();
        let servers = Servers::connect(&config, Duration::from_secs(5)).await.unwrap();
        let before = servers.masters();
        fleet.failover();
        servers.doubt_masters();
        servers.find_masters().await;
        assert_ne!(servers.masters()[0].address, before[0].address);
    }
}
