//! Asks the servers of a URL for the facts that the checks need.
//!
//! Invariant: no question changes a server, apart from a scratch lock that is released again. A refusal counts as an
//! answer.

mod node;
mod sentinels;
mod servers;

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::config::Server;
use leasehold::{Client, CredentialsFile};
use leasehold_proto::recipe::grants::{
    Names, Place, Primitive, rules, rules_of_confirmed, rules_of_locks, rules_of_operator,
};
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{ConnectOptions, Peer, SentinelTls, Tls, query};
use leasehold_store::url::{Address, ServerUrl};

use super::facts::{Facts, Fields, Fleet, Role};
use super::latency;
use crate::answers::text;
use crate::arguments::Confirmation;

/// The subject of an examination.
#[derive(Debug)]
pub(crate) struct Target {
    url: ServerUrl,
    access: Access,
    options: ConnectOptions,
    /// The beginning of the scratch names.
    prefix: String,
    names: Names,
    primitives: Vec<&'static Primitive>,
    /// The rights that the confirmation needs.
    confirmed: &'static str,
    /// The user who is an operator.
    operator: Option<String>,
}

/// The way to the servers of a URL.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The login, if the URL has none.
    pub(crate) login: Option<CredentialsFile>,
    /// The login at the sentinels, if the URL has none.
    pub(crate) sentinel_login: Option<CredentialsFile>,
    pub(crate) tls: Tls,
    pub(crate) sentinel_tls: SentinelTls,
    /// The time that one exchange may take.
    pub(crate) timeout: Duration,
}

/// A server to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    address: Address,
    role: Role,
}

impl Target {
    pub(crate) fn new(
        url: ServerUrl,
        access: Access,
        (prefix, names): (String, Names),
        (primitives, confirmation, operator): (Vec<&'static Primitive>, Confirmation, Option<String>),
    ) -> Self {
        let options = ConnectOptions::default().timeout(access.timeout).tls(access.tls.clone());
        let options = options.sentinel_tls(access.sentinel_tls.clone());
        let options = match &access.login {
            Some(login) => options.credentials(login.clone()),
            None => options,
        };
        let options = match &access.sentinel_login {
            Some(login) => options.sentinel_credentials(login.clone()),
            None => options,
        };
        let confirmed = rules_of_confirmed(confirmation.confirmed, confirmation.fsync);
        Self { url, access, options, prefix, names, primitives, confirmed, operator }
    }

    /// Asks a server. The reason for no answer is in one line.
    async fn ask(&self, address: &Address, commands: &[&[&str]]) -> Result<Vec<Answer>, String> {
        self.ask_peer((Peer::Server, address), commands).await
    }

    /// Asks a server or a sentinel.
    async fn ask_peer(&self, peer: (Peer, &Address), commands: &[&[&str]]) -> Result<Vec<Answer>, String> {
        query(&self.url, peer, commands, &self.options).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})"));
            format!("{error}{}", cause.unwrap_or_default())
        })
    }

    /// Returns the smallest rights of a user of the servers.
    fn rules(&self, place: Place) -> String {
        let rules = rules(place, std::slice::from_ref(&self.names), &self.primitives);
        format!("{rules} {}", self.confirmed).trim_end().to_owned()
    }

    /// Returns the smallest rights of an operator.
    fn operator_rules(&self, place: Place) -> String {
        rules_of_operator(place, std::slice::from_ref(&self.names), false)
    }

    /// Returns the rules among them without which locks do not work as they should.
    fn needed_rules(&self, place: Place) -> String {
        let rules = rules_of_locks(place, std::slice::from_ref(&self.names), &self.primitives);
        format!("{rules} {}", self.confirmed)
    }

    /// Finds the servers and asks all of them.
    pub(crate) async fn examine(&self) -> Fleet {
        let mut fleet = Fleet {
            url: self.url.to_string(),
            sentinels: Vec::new(),
            nodes: Vec::new(),
            unreachable: Vec::new(),
            is_map_unknown: false,
        };
        let nodes = self.find(&mut fleet).await;
        // All at once, so that servers that do not answer cost one timeout.
        let examined = join_all(nodes.iter().map(|node| self.examine_node(node, &fleet))).await;
        let mut scratch = Vec::new();
        for (node, examined) in nodes.iter().zip(examined) {
            match examined {
                Ok((facts, name)) => {
                    fleet.nodes.push(facts);
                    scratch.push(name);
                }
                Err(reason) => fleet.unreachable.push((node.address.to_string(), reason)),
            }
        }
        if let Some(primitive) = latency::timed(&self.primitives)
            && scratch.iter().any(Option::is_some)
        {
            self.measure(primitive, &mut fleet.nodes, &scratch).await;
        }
        fleet
    }

    /// Measures this primitive on each server that has a scratch name.
    async fn measure(&self, primitive: &str, nodes: &mut [Facts], scratch: &[Option<String>]) {
        let timeout = self.access.timeout.min(Duration::from_secs(5));
        let builder = Client::builder().timeout(timeout);
        let builder = if self.url.tls() { builder.tls(self.access.tls.clone()) } else { builder };
        let builder = builder.sentinel_tls(self.access.sentinel_tls.clone());
        let builder = match &self.access.login {
            Some(login) => builder.credentials(login.clone()),
            None => builder,
        };
        let builder = match &self.access.sentinel_login {
            Some(login) => builder.sentinel_credentials(login.clone()),
            None => builder,
        };
        let client = builder.connect_to(&Server::Redis(self.url.clone())).await;
        for (facts, name) in nodes.iter_mut().zip(scratch) {
            let Some(name) = name else { continue };
            facts.latency = Some(match &client {
                Ok(client) => latency::measure(client, primitive, name, self.access.timeout).await,
                Err(error) => Err(error.to_string()),
            });
        }
        if let Ok(client) = client {
            client.close().await;
        }
    }
}

/// Returns the names and values of a list of both.
fn fields(answer: &Answer) -> Option<Fields> {
    let Answer::List(parts) = answer else { return None };
    let pair = |pair: &[Answer]| Some((text(&pair[0])?, text(&pair[1])?));
    Some(parts.chunks_exact(2).filter_map(pair).collect())
}

/// Returns the lines `name:value` of INFO and of CLUSTER INFO.
fn lines(answer: &Answer) -> Option<Fields> {
    let pair = |line: &str| line.trim().split_once(':').map(|(name, value)| (name.into(), value.into()));
    text(answer).map(|text| text.lines().filter_map(pair).collect())
}
