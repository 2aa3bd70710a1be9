//! The state that the command connections and the subscriptions of one server share.

use std::time::Duration;

use leasehold_proto::Moment;

use super::facts::ServerFacts;
use super::handshake::{Greeted, Terms};
use super::ids::ConnId;
use super::io::Output;
use crate::redis::channels::Channels;
use crate::redis::connect::ConnectOptions;
use crate::redis::url::ServerUrl;

/// One server, as this client knows it.
#[derive(Debug)]
pub(super) struct Server {
    url: ServerUrl,
    options: ConnectOptions,
    facts: Option<ServerFacts>,
    last_conn: u64,
}

/// One step of the wire: its time, the server, and the outputs so far.
pub(super) struct Step<'a> {
    pub(super) now: Moment,
    pub(super) server: &'a mut Server,
    pub(super) outputs: &'a mut Vec<Output>,
}

impl Server {
    pub(super) const fn new(url: ServerUrl, options: ConnectOptions) -> Self {
        Self { url, options, facts: None, last_conn: 0 }
    }

    /// Returns the number of a new connection.
    pub(super) const fn next_conn(&mut self) -> ConnId {
        self.last_conn += 1;
        ConnId(self.last_conn)
    }

    /// Returns the longest duration of one attempt to connect.
    pub(super) const fn limit(&self) -> Duration {
        self.options.timeout
    }

    /// Returns the configuration of a handshake.
    pub(super) const fn terms(&self) -> Terms<'_> {
        Terms { url: &self.url, options: &self.options, facts: self.facts.as_ref() }
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
        let set = Channels::of_setting(self.options.sharded_pubsub);
        self.facts.map(|facts| facts.channels).or(set).unwrap_or(Channels::Plain)
    }
}

impl Step<'_> {
    pub(super) fn output(&mut self, output: Output) {
        self.outputs.push(output);
    }
}
