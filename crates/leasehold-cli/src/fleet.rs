//! The locks of a fleet, as its servers and its clients know them.
//!
//! Invariant: a look changes no lock, and subscribes to no channel of one, because a listener would count as a rival of its
//! holder.

mod ask;
mod build;
mod chain;
mod channels;
mod describe;
mod nodes;
pub(crate) mod object;
mod pages;
mod query;
mod release;
mod rows;
mod scan;
mod servers;
mod warnings;

use std::time::Duration;

use leasehold::config::Config;
use leasehold_proto::operate::Kind;
use leasehold_proto::{Call, Name, Reply};

use crate::clock::wall_ms;
use crate::exit::Failure;

pub(crate) use build::Found;
pub(crate) use query::{Query, ScanRule, Sort};
pub(crate) use release::Released;

use object::{Listing, Object};
use rows::Rows;
use servers::Servers;

/// The locks of a fleet.
#[derive(Debug)]
pub(crate) struct Fleet {
    servers: Servers,
}

impl Fleet {
    /// Connects to the servers of a configuration: of a quorum, to the first that answers.
    ///
    /// The caller must be within a tokio runtime.
    pub(crate) async fn connect(config: &Config, timeout: Duration) -> Result<Self, Failure> {
        Ok(Self { servers: Servers::connect(config, timeout).await? })
    }

    /// Lists the objects that the query wants.
    pub(crate) async fn list(&self, query: &Query) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.servers.ask_clients(query, &mut rows).await?;
        self.servers.add_awaited(&mut rows).await;
        self.servers.scan(query, &mut rows).await?;
        let found = rows.chosen(query, &self.servers.prefix);
        let objects = self.servers.describe_all(&rows, found.names.iter().map(String::as_str)).await?;
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

    /// Describes one name, given without the key prefix. The listing has one object, or none for a free name without waiters.
    pub(crate) async fn show(&self, name: &str) -> Result<Listing, Failure> {
        let key = self.servers.key(name)?;
        let mut rows = Rows::default();
        self.servers.ask_about(key.as_str(), &mut rows).await?;
        let mut objects = self.servers.describe_all(&rows, [key.as_str()]).await?;
        objects.retain(Object::is_there);
        for object in &mut objects {
            object.chain = chain::chain(&object.key, &self.servers.prefix, &rows);
        }
        warnings::add(&mut objects, &rows);
        Ok(self.listing(rows, objects, 0))
    }

    /// Describes a name without asking the clients.
    pub(crate) async fn look(&self, name: &str, hint: Option<Kind>) -> Result<Found, Failure> {
        let key = self.servers.key(name)?;
        self.servers.describe(&key, hint).await
    }

    /// Describes names without asking the clients. Holders have the process of their card.
    pub(crate) async fn sample(&self, names: &[String]) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.servers.read_cards(&mut rows).await?;
        let keys = names.iter().map(|name| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        let objects = self.servers.describe_all(&rows, keys.iter().map(Name::as_str)).await?;
        Ok(self.listing(rows, objects, 0))
    }

    /// Releases the hold of an owner, and no other hold.
    pub(crate) async fn release(&self, name: &str, owner: &str) -> Result<Released, Failure> {
        let listing = self.show(name).await?;
        self.servers.release(&listing, owner).await
    }

    /// Returns the servers, without passwords.
    #[allow(dead_code, reason = "only the page shows them before the first listing")]
    pub(crate) fn server(&self) -> String {
        self.servers.url.to_string()
    }

    /// Lists the clients, and no objects.
    pub(crate) async fn clients(&self) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.servers.ask_who(&mut rows).await?;
        Ok(self.listing(rows, Vec::new(), 0))
    }

    /// Runs a call on the server of its key.
    pub(crate) async fn run(&self, call: Call) -> Result<Reply, Failure> {
        self.servers.run(call).await
    }

    /// Returns the key of a name that a user gave without the key prefix.
    pub(crate) fn key(&self, name: &str) -> Result<Name, Failure> {
        self.servers.key(name)
    }

    fn listing(&self, rows: Rows, objects: Vec<Object>, omitted: usize) -> Listing {
        let at_ms = wall_ms();
        let mut listing =
            Listing::new(at_ms, self.servers.url.to_string(), rows.into_sources(), objects, omitted);
        listing.date();
        listing
    }
}
