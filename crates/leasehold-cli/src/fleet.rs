//! The locks of a fleet, as its servers and its clients know them.
//!
//! Invariant: nothing here changes a lock, and nobody subscribes to the channel of a lock, because a listener would count as
//! a rival of its holder.

mod ask;
mod build;
mod channels;
mod describe;
mod nodes;
pub(crate) mod object;
mod query;
mod rows;
mod scan;
mod warnings;

use std::time::Duration;

use anyhow::{Error, anyhow};
use leasehold::config::Config;
use leasehold_proto::operate::{Audience, Kind};
use leasehold_proto::{Call, Name, Reply};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis, ServerUrl};

use crate::clock::wall_ms;
use crate::exit::Failure;

pub(crate) use describe::Found;
pub(crate) use query::{Query, ScanRule, Sort};

use nodes::Master;
use object::{Listing, Object};
use rows::Rows;

/// A connection to the servers of a fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    store: Redis,
    url: ServerUrl,
    options: ConnectOptions,
    masters: Vec<Master>,
    /// The key prefix of the clients, which the names of objects leave out.
    prefix: String,
    audience: Audience,
    timeout: Duration,
}

impl Fleet {
    /// Connects to the servers of a configuration: of a quorum, to the first that answers.
    ///
    /// The caller must be within a tokio runtime.
    pub(crate) async fn connect(config: &Config, timeout: Duration) -> Result<Self, Failure> {
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

    /// Lists the objects that the query wants.
    pub(crate) async fn list(&self, query: &Query) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.ask_clients(query, &mut rows).await?;
        self.add_awaited(&mut rows).await;
        self.scan(query, &mut rows).await?;
        let found = rows.chosen(query, &self.prefix);
        let objects = self.describe_all(&rows, found.names.iter().map(String::as_str)).await?;
        let mut objects: Vec<Object> = objects.into_iter().filter(|object| query.wants(object)).collect();
        query.sort(&mut objects);
        warnings::add(&mut objects, &rows);
        if query.warnings {
            objects.retain(|object| !object.warnings.is_empty());
        }
        let omitted = found.omitted + objects.len().saturating_sub(query.limit.unwrap_or(usize::MAX));
        objects.truncate(query.limit.unwrap_or(usize::MAX));
        let mut listing = self.listing(rows, objects, omitted);
        listing.complete &= listing.sources.channels.is_some();
        Ok(listing)
    }

    /// Describes one name, given without the key prefix. The listing has one object, or none for a name without anything.
    pub(crate) async fn show(&self, name: &str) -> Result<Listing, Failure> {
        let key = self.key(name)?;
        let mut rows = Rows::default();
        self.ask_about(key.as_str(), &mut rows).await?;
        let mut objects = self.describe_all(&rows, [key.as_str()]).await?;
        objects.retain(Object::is_there);
        warnings::add(&mut objects, &rows);
        Ok(self.listing(rows, objects, 0))
    }

    /// Describes a name without asking the clients.
    #[expect(dead_code, reason = "the verbs that release and repair use it")]
    pub(crate) async fn look(&self, name: &str, hint: Option<Kind>) -> Result<Found, Failure> {
        let key = self.key(name)?;
        self.describe(&key, hint).await
    }

    /// Lists the clients, and no objects.
    pub(crate) async fn clients(&self) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.ask_who(&mut rows).await?;
        Ok(self.listing(rows, Vec::new(), 0))
    }

    /// Runs a call on the server of its key.
    pub(crate) async fn run(&self, call: Call) -> Result<Reply, Failure> {
        self.store.run(call, self.timeout).await.map_err(|error| Failure::unavailable(Error::new(error)))
    }

    /// Returns the key of a name that a user gave without the key prefix.
    pub(crate) fn key(&self, name: &str) -> Result<Name, Failure> {
        let key = format!("{}{name}", self.prefix);
        Name::raw_redisson(&key).map_err(|error| {
            Failure::usage(Error::new(error).context(format!("the name {name:?} cannot be used")))
        })
    }

    fn listing(&self, rows: Rows, objects: Vec<Object>, omitted: usize) -> Listing {
        let at_ms = wall_ms();
        let mut listing = Listing::new(at_ms, self.url.to_string(), rows.into_sources(), objects, omitted);
        listing.date();
        listing
    }
}
