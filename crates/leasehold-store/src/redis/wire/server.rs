//! The state that the command connections, the subscriptions and the queries of one server share.

use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Moment;

use super::facts::ServerFacts;
use super::handshake::{Greeted, Terms};
use super::ids::{ConnId, NodeId};
use super::io::Output;
use super::login::Login;
use super::part::Part;
use super::report::Report;
use crate::redis::channels::Channels;
use crate::redis::connect::ConnectOptions;
use crate::redis::notices::{Carried, Serving};
use crate::url::{Address, ServerUrl};

/// The configuration that all servers of a client share.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) url: ServerUrl,
    pub(super) options: ConnectOptions,
}

/// One server, as this client knows it.
#[derive(Debug)]
pub(super) struct Server {
    id: NodeId,
    part: Part,
    /// Absent while the topology does not know the address.
    address: Option<Address>,
    settings: Arc<Settings>,
    /// The login that a provider has given, if the client has one.
    login: Option<Arc<Login>>,
    /// The kind of channels that an earlier node of the cluster has decided.
    channels: Option<Channels>,
    facts: Option<ServerFacts>,
    /// True if the server does not know `CLUSTER SHARDS`, as before Redis 7.
    lacks_shards: bool,
    /// The number of replicas for which groups have waited in vain, or zero while none of them is missing.
    lacked_replicas: u32,
    /// True if the address differs from the last call connection's.
    has_moved: bool,
    last_conn: u64,
}

/// One step of the wire: its time, the server, the outputs so far, and the reports to the topology.
pub(super) struct Step<'a> {
    pub(super) now: Moment,
    pub(super) server: &'a mut Server,
    pub(super) outputs: &'a mut Vec<Output>,
    pub(super) reports: &'a mut Vec<(NodeId, Report)>,
    /// True while the calls of one submission are gathered.
    pub(super) gathers: bool,
}

impl Server {
    pub(super) fn new(id: NodeId, part: Part, address: Option<Address>, settings: Arc<Settings>) -> Self {
        let setting = Channels::of_setting(settings.options.sharded_pubsub);
        let channels = if part == Part::Sentinel { Some(Channels::Plain) } else { setting };
        Self {
            id,
            part,
            address,
            settings,
            login: None,
            channels,
            facts: None,
            lacks_shards: false,
            lacked_replicas: 0,
            has_moved: false,
            last_conn: 0,
        }
    }

    /// Returns the number of a new connection.
    pub(super) const fn next_conn(&mut self) -> ConnId {
        self.last_conn += 1;
        ConnId { node: self.id, number: self.last_conn }
    }

    pub(super) const fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// Moves to another server, of which nothing is known.
    pub(super) fn move_to(&mut self, address: Address) {
        self.has_moved |= self.address.as_ref().is_some_and(|before| *before != address);
        self.address = Some(address);
        self.facts = None;
    }

    /// Keeps the kind of channels that another node of the cluster has decided.
    pub(super) fn set_channels(&mut self, channels: Channels) {
        self.channels = Some(channels);
    }

    pub(super) const fn part(&self) -> Part {
        self.part
    }

    pub(super) const fn lacks_shards(&self) -> bool {
        self.lacks_shards
    }

    /// Notes that the server does not know `CLUSTER SHARDS`. Returns true if that is news.
    pub(super) const fn note_no_shards(&mut self) -> bool {
        !std::mem::replace(&mut self.lacks_shards, true)
    }

    /// Notes the number of connected replicas, and the number that a group wants. Returns true if replicas are missing,
    /// and that is news.
    pub(super) const fn note_missing(&mut self, connected: u32, wanted: u32) -> bool {
        if connected >= self.lacked_replicas {
            self.lacked_replicas = 0;
        }
        let is_news = wanted > connected && wanted > self.lacked_replicas;
        if is_news {
            self.lacked_replicas = wanted;
        }
        is_news
    }

    pub(super) fn options(&self) -> &ConnectOptions {
        &self.settings.options
    }

    /// Returns the longest duration of one attempt to connect.
    pub(super) fn limit(&self) -> Duration {
        self.settings.options.timeout
    }

    /// Returns the configuration of a handshake.
    pub(super) fn terms(&self) -> Terms<'_> {
        let Settings { url, options } = &*self.settings;
        let (login, facts) = (self.login.as_deref(), self.facts.as_ref());
        Terms { url, options, part: self.part, login, channels: self.channels, facts }
    }

    /// Logs in with these credentials from now on.
    pub(super) fn set_login(&mut self, login: Option<Arc<Login>>) {
        self.login = login;
    }

    /// Returns the number of the present login, or zero before the first.
    pub(super) fn login_number(&self) -> u64 {
        self.login.as_ref().map_or(0, |login| login.number)
    }

    /// Returns the login to repeat on a connection that has used the login of this number: later credentials that
    /// replace some that expire.
    pub(super) fn login_after(&self, number: u64) -> Option<&Arc<Login>> {
        let login = self.login.as_ref().filter(|login| login.number > number)?;
        login.credentials.lifetime.is_some().then_some(login)
    }

    /// Returns true if a connection needs credentials of the provider.
    pub(super) fn wants_login(&self) -> bool {
        self.settings.options.login_source(self.part.peer()).is_some()
    }

    pub(super) const fn facts(&self) -> Option<ServerFacts> {
        self.facts
    }

    /// Keeps the facts that the first connection found out, so that each connection hears the messages of the other.
    pub(super) fn learn(&mut self, greeted: &Greeted) {
        self.facts = self.facts.or(greeted.facts);
    }

    /// Returns the channels that carry wake-ups.
    pub(super) fn channels(&self) -> Channels {
        self.facts.map(|facts| facts.channels).or(self.channels).unwrap_or(Channels::Plain)
    }

    /// Returns true if the topology directs calls from one server to another.
    pub(super) const fn redirects(&self) -> bool {
        matches!(self.part, Part::Shard)
    }
}

impl Step<'_> {
    pub(super) fn output(&mut self, output: Output) {
        self.outputs.push(output);
    }

    /// Tells the client's observers of a connection that serves. `again` is true if it is not the first of its kind to this
    /// server.
    pub(super) fn serves(&mut self, id: ConnId, carried: Carried, again: bool) {
        let Some(server) = self.server.address.clone().filter(|_| self.server.part != Part::Sentinel) else {
            return;
        };
        let moved = carried == Carried::Commands && std::mem::take(&mut self.server.has_moved);
        self.output(Output::Serves(id, Serving { server, carried, again, moved }));
    }

    /// Tells the topology of the server.
    pub(super) fn report(&mut self, report: Report) {
        self.reports.push((self.server.id, report));
    }
}
