//! The locks of a fleet, as its servers and its clients know them.
//!
//! Invariant: looking changes no lock and subscribes to no lock's channel, because the holder would count the listener
//! as a waiter.

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

use anyhow::anyhow;
use leasehold::config::Config;
use leasehold_proto::operate::Kind;
use leasehold_proto::{Call, Name, Reply};

use crate::clock::wall_ms;
use crate::exit::Failure;

pub(crate) use build::Found;
pub(crate) use query::{Query, ScanRule, Sort};
pub(crate) use release::{Released, Shown, is_foreign};

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

    /// Lists the objects that the query wants. Fails only if no source tells anything.
    pub(crate) async fn list(&self, query: &Query) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.servers.find_masters().await;
        let asked = self.servers.ask_clients(query, &mut rows).await;
        if let Err(failure) = &asked {
            rows.miss(format!("the clients could not be asked: {:#}", failure.reason));
        }
        self.servers.add_awaited(&mut rows).await;
        self.servers.scan(query, &mut rows).await;
        let found = rows.chosen(query, &self.servers.prefix);
        let objects = self.servers.describe_all(&mut rows, found.names.iter().map(String::as_str)).await;
        if let (Err(failure), true, None) = (asked, objects.is_empty(), rows.channels) {
            return Err(failure);
        }
        let is_wanted = |object: &Object| query.wants(object) && !rows.is_elsewhere(object);
        let mut objects: Vec<Object> = objects.into_iter().filter(is_wanted).collect();
        query.sort(&mut objects);
        warnings::add(&mut objects, &rows);
        if query.warnings {
            objects.retain(|object| !object.warnings.is_empty());
        }
        let limit = query.limit.unwrap_or(usize::MAX);
        let omitted = found.omitted.saturating_add(objects.len().saturating_sub(limit));
        objects.truncate(limit);
        let mut listing = self.listing(rows, objects, omitted);
        listing.complete &= listing.sources.channels.is_some();
        Ok(listing)
    }

    /// Describes one name, given without the key prefix. The listing has one object, or none for a free name without waiters.
    pub(crate) async fn show(&self, name: &str) -> Result<Listing, Failure> {
        self.show_as(name, None).await
    }

    /// Describes one name, whose kind the operator says. It counts where neither the server nor a client tells another one.
    pub(crate) async fn show_as(&self, name: &str, said: Option<Kind>) -> Result<Listing, Failure> {
        let key = self.servers.key(name)?;
        let mut rows = Rows::default();
        self.servers.find_masters().await;
        if let Err(failure) = self.servers.ask_about(key.as_str(), &mut rows).await {
            rows.miss(format!("the clients could not be asked: {:#}", failure.reason));
        }
        let mut objects = vec![self.servers.describe_one(&key, &rows, said).await?];
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

    /// Describes names without asking the clients. Holders have the process of their card. Fails only if no name can be read.
    pub(crate) async fn sample(&self, names: &[String]) -> Result<Listing, Failure> {
        let mut rows = Rows::default();
        self.servers.find_masters().await;
        let carded = self.servers.read_cards(&mut rows).await;
        if let Err(failure) = &carded {
            rows.miss(format!("the clients could not be asked: {:#}", failure.reason));
        }
        let keys = names.iter().map(|name| self.key(name)).collect::<Result<Vec<_>, _>>()?;
        let objects = self.servers.describe_all(&mut rows, keys.iter().map(Name::as_str)).await;
        if objects.is_empty() {
            carded?;
        }
        Ok(self.listing(rows, objects, 0))
    }

    /// Releases the hold of an owner, and no other hold: that which was shown, if the caller knows what was.
    pub(crate) async fn release(
        &self,
        name: &str,
        owner: &str,
        shown: Option<Shown>,
    ) -> Result<Released, Failure> {
        self.refuse_quorum()?;
        let shown = shown.unwrap_or_default();
        let listing = self.show_as(name, shown.said()).await?;
        self.servers.release(&listing, owner, shown).await
    }

    /// Asks the holder for a hold. Returns true if a client that has it has heard the question.
    pub(crate) async fn ask_back(&self, name: &str, owner: &str, by: &str) -> Result<bool, Failure> {
        let key = self.servers.key(name)?;
        self.servers.ask_back(key.as_str(), owner, by).await
    }

    /// Fails if the configuration names several servers of a quorum, because a change of one of them changes no lock.
    pub(crate) fn refuse_quorum(&self) -> Result<(), Failure> {
        match self.servers.quorum {
            0 | 1 => Ok(()),
            count => Err(Failure::usage(anyhow!(
                "the configuration names {count} servers of a quorum, and this command works on one; name each in \
                 turn with --url"
            ))),
        }
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
        let mut sources = rows.into_sources();
        sources.quorum = self.servers.quorum;
        let mut listing = Listing::new(at_ms, self.servers.url.to_string(), sources, objects, omitted);
        listing.date();
        listing
    }
}
