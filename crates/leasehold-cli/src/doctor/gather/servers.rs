//! The servers behind a URL: a single one, those that the sentinels name, or those of a cluster.

use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{Address, Servers};

use super::{Node, Target, fields, list, text};
use crate::doctor::facts::{Fleet, Known, Role, SentinelFacts};

impl Target {
    /// Returns the servers that keep locks. Adds the sentinels, and the servers that did not say who the others are.
    pub(super) async fn find(&self, fleet: &mut Fleet) -> Vec<Node> {
        match self.url.servers() {
            Servers::One(address) => vec![Node { address: address.clone(), role: Role::Master }],
            Servers::Sentinel { sentinels, service, .. } => {
                for sentinel in sentinels {
                    let asked = self.ask(sentinel, &[&["SENTINEL", "MASTER", service]]).await;
                    let master = asked.map(|mut answers| Known::of(answers.remove(0)));
                    let master = master.map(|master| master.and_then(|answer| fields(&answer)));
                    fleet.sentinels.push(SentinelFacts { node: sentinel.to_string(), master });
                }
                let named = fleet.sentinels.iter().find_map(SentinelFacts::master_address);
                match named {
                    Some((host, port)) => self.behind(Address::Tcp { host, port }).await,
                    None => Vec::new(),
                }
            }
            Servers::Cluster { seeds } => self.of_cluster(seeds, fleet).await,
            _ => Vec::new(),
        }
    }

    /// Returns a master and the replicas that it names.
    async fn behind(&self, master: Address) -> Vec<Node> {
        let role = self.ask(&master, &[&["ROLE"]]).await.unwrap_or_default();
        let parts = role.first().map_or(&[][..], list);
        let replicas = match (parts.first(), parts.get(2)) {
            (Some(Answer::Text(role)), Some(replicas)) if role == "master" => list(replicas),
            _ => &[],
        };
        let replica = |replica: &Answer| match list(replica) {
            [host, port, ..] => node(text(host)?, text(port)?.parse().ok()?, Role::Replica),
            _ => None,
        };
        let replicas = replicas.iter().filter_map(replica);
        [Node { address: master.clone(), role: Role::Master }].into_iter().chain(replicas).collect()
    }

    /// Returns the nodes of a cluster, as its first seed that answers knows them.
    async fn of_cluster(&self, seeds: &[Address], fleet: &mut Fleet) -> Vec<Node> {
        for seed in seeds {
            match self.ask(seed, &[&["CLUSTER", "SHARDS"]]).await {
                Ok(answers) => {
                    let nodes = self.of_shards(&answers[0], seed);
                    if !nodes.is_empty() {
                        return nodes;
                    }
                }
                Err(reason) => fleet.unreachable.push((seed.to_string(), reason)),
            }
        }
        fleet.is_map_unknown = fleet.unreachable.len() < seeds.len();
        let is_up = |seed: &&Address| !fleet.unreachable.iter().any(|(node, _)| *node == seed.to_string());
        let seeds = seeds.iter().filter(is_up).cloned();
        seeds.map(|address| Node { address, role: Role::Master }).collect()
    }

    fn of_shards(&self, shards: &Answer, seed: &Address) -> Vec<Node> {
        let members = list(shards).iter().filter_map(|shard| {
            let parts = list(shard).chunks_exact(2);
            parts.into_iter().find(|pair| text(&pair[0]).as_deref() == Some("nodes")).map(|pair| &pair[1])
        });
        members.flat_map(list).filter_map(|member| self.of_member(member, seed)).collect()
    }

    fn of_member(&self, member: &Answer, seed: &Address) -> Option<Node> {
        let of = fields(member)?;
        let port = if self.url.tls() { of.get("tls-port") } else { of.get("port") }?;
        let announced = ["endpoint", "ip"].into_iter().filter_map(|name| of.get(name));
        let host = announced.into_iter().find(|host| !host.is_empty() && *host != "?").cloned();
        let host = host.or_else(|| match seed {
            Address::Tcp { host, .. } => Some(host.clone()),
            Address::Unix { .. } => None,
        })?;
        let role =
            if of.get("role").is_some_and(|role| role == "master") { Role::Master } else { Role::Replica };
        node(host, port.parse().ok()?, role)
    }
}

/// Returns a node, unless its port is that of a server that announces none.
fn node(host: String, port: u16, role: Role) -> Option<Node> {
    (port != 0).then_some(Node { address: Address::Tcp { host, port }, role })
}
