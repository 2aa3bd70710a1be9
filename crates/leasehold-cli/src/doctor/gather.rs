//! The questions to the servers of a URL.
//!
//! Invariant: asks for nothing that changes a server, apart from a scratch lock that is released again. A refused
//! question is an answer.

mod node;
mod servers;

use std::time::Duration;

use leasehold::Client;
use leasehold_proto::recipe::grants::{Names, Place, Primitive, rules};
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{Address, ConnectOptions, ServerUrl, Tls, query};

use super::facts::{Facts, Fields, Fleet, Role};
use super::latency;
use crate::address::Address as Secret;

/// The subject of an examination.
#[derive(Debug)]
pub(crate) struct Target {
    url: ServerUrl,
    /// The URL with its passwords.
    secret: Secret,
    options: ConnectOptions,
    /// The beginning of the scratch names.
    prefix: String,
    names: Names,
    primitives: Vec<&'static Primitive>,
}

/// A server to examine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    address: Address,
    role: Role,
}

impl Target {
    pub(crate) fn new(
        (url, secret): (ServerUrl, Secret),
        (timeout, tls): (Duration, Tls),
        (prefix, names): (String, Names),
        primitives: Vec<&'static Primitive>,
    ) -> Self {
        let options = ConnectOptions::default().timeout(timeout).tls(tls);
        Self { url, secret, options, prefix, names, primitives }
    }

    /// Asks a server. The reason for no answer is in one line.
    async fn ask(&self, address: &Address, commands: &[&[&str]]) -> Result<Vec<Answer>, String> {
        query(&self.url, address, commands, &self.options).await.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})"));
            format!("{error}{}", cause.unwrap_or_default())
        })
    }

    /// Returns the smallest rights of a user of the servers.
    fn rules(&self, place: Place) -> String {
        rules(place, std::slice::from_ref(&self.names), &self.primitives)
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
        let mut scratch = Vec::new();
        for node in nodes {
            match self.examine_node(&node, &fleet).await {
                Ok((facts, name)) => {
                    fleet.nodes.push(facts);
                    scratch.push(name);
                }
                Err(reason) => fleet.unreachable.push((node.address.to_string(), reason)),
            }
        }
        if scratch.iter().any(Option::is_some) {
            self.measure(&mut fleet.nodes, &scratch).await;
        }
        fleet
    }

    /// Measures the scripts on each server that has a scratch name.
    async fn measure(&self, nodes: &mut [Facts], scratch: &[Option<String>]) {
        let timeout = self.options.timeout.min(Duration::from_secs(5));
        let builder = Client::builder().timeout(timeout).tls(self.options.tls.clone());
        let client = builder.connect(self.secret.expose()).await;
        for (facts, name) in nodes.iter_mut().zip(scratch) {
            let Some(name) = name else { continue };
            facts.latency = Some(match &client {
                Ok(client) => latency::measure(client, name, self.options.timeout).await,
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

/// Returns a text, or a number as text.
fn text(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Text(text) => Some(text.clone()),
        Answer::Int(number) => Some(number.to_string()),
        _ => None,
    }
}

fn list(answer: &Answer) -> &[Answer] {
    match answer {
        Answer::List(items) => items,
        _ => &[],
    }
}

/// Returns the lines `name:value` of INFO and of CLUSTER INFO.
fn lines(answer: &Answer) -> Option<Fields> {
    let pair = |line: &str| line.trim().split_once(':').map(|(name, value)| (name.into(), value.into()));
    text(answer).map(|text| text.lines().filter_map(pair).collect())
}
