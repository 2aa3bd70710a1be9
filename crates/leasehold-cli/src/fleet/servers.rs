//! The connection to the servers of a fleet.

use std::time::Duration;

use anyhow::{Error, anyhow};
use leasehold::config::Config;
use leasehold_proto::operate::Audience;
use leasehold_proto::{Call, Name, Reply};
use leasehold_store::Store;
use leasehold_store::redis::{self, ConnectOptions, Redis, ServerUrl};

use super::nodes::{self, Master};
use crate::exit::Failure;

/// A connection to the servers of a fleet.
#[derive(Debug)]
pub(super) struct Servers {
    store: Redis,
    pub(super) url: ServerUrl,
    pub(super) options: ConnectOptions,
    pub(super) masters: Vec<Master>,
    /// The key prefix of the clients, which the names of objects leave out.
    pub(super) prefix: String,
    pub(super) audience: Audience,
    timeout: Duration,
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
        for text in config.expose_urls() {
            let url: ServerUrl = text.parse().map_err(|error| Failure::usage(Error::new(error)))?;
            match Self::connect_to(url, options.clone(), config.key_prefix(), timeout).await {
                Ok(fleet) => return Ok(fleet),
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
        let audience = Audience::new(prefix, url.database());
        Ok(Self { store, options, masters, prefix: prefix.to_owned(), audience, timeout, url })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        matches!(self.url.servers(), redis::Servers::Cluster { .. })
    }

    /// Returns the address of the server that has a name.
    pub(super) fn node(&self, name: &Name) -> String {
        let master = self.masters.iter().find(|master| master.has(name));
        master.map_or_else(String::new, |master| master.address.to_string())
    }

    /// Runs a call on the server of its key.
    pub(super) async fn run(&self, call: Call) -> Result<Reply, Failure> {
        self.store.run(call, self.timeout).await.map_err(|error| Failure::unavailable(Error::new(error)))
    }

    /// Returns the key of a name that a user gave without the key prefix.
    pub(super) fn key(&self, name: &str) -> Result<Name, Failure> {
        let key = format!("{}{name}", self.prefix);
        Name::raw_redisson(&key).map_err(|error| {
            Failure::usage(Error::new(error).context(format!("the name {name:?} cannot be used")))
        })
    }
}
