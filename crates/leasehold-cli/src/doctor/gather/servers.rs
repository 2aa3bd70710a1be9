//! Finds the servers behind a URL: a single one, those that the sentinels name, or those of a cluster.

use leasehold_store::redis::wire::Answer;
use leasehold_store::url::{Address, Servers};

use super::{Node, Target, fields};
use crate::answers::{host_of, list, text};
use crate::doctor::facts::{Fleet, Role, SentinelFacts};

impl Target {
    /// Returns the servers that keep locks. Adds the sentinels, and the servers that did not say who the others are.
    pub(super) async fn find(&self, fleet: &mut Fleet) -> Vec<Node> {
        match self.url.servers() {
            Servers::One(address) => vec![Node { address: address.clone(), role: Role::Master }],
            Servers::Sentinel { sentinels, service, .. } => {
                fleet.sentinels = self.ask_sentinels(sentinels, service).await;
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
            match self.ask(seed, &[&["CLUSTER", "SHARDS"], &["CLUSTER", "SLOTS"]]).await {
                Ok(answers) => {
                    let nodes = match self.of_shards(&answers[0], seed) {
                        // Servers before 7.0 have no shards.
                        nodes if nodes.is_empty() => of_slots(&answers[1], seed),
                        nodes => nodes,
                    };
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
        let announced = ["endpoint", "ip"].into_iter().filter_map(|name| of.get(name).cloned());
        let host = host_of(announced, seed)?;
        let role =
            if of.get("role").is_some_and(|role| role == "master") { Role::Master } else { Role::Replica };
        node(host, port.parse().ok()?, role)
    }
}

/// Returns the nodes of a map of slots, each once: the first of a range is the master.
fn of_slots(slots: &Answer, seed: &Address) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    for range in list(slots) {
        for (place, member) in list(range).iter().skip(2).enumerate() {
            let role = if place == 0 { Role::Master } else { Role::Replica };
            let [host, port, ..] = list(member) else { continue };
            let port = text(port).and_then(|port| port.parse().ok());
            let found = host_of(text(host), seed).zip(port).and_then(|(host, port)| node(host, port, role));
            nodes.extend(found.filter(|found| !nodes.contains(found)));
        }
    }
    nodes
}

/// Returns a node, unless its port says that the server announces none.
fn node(host: String, port: u16, role: Role) -> Option<Node> {
    (port != 0).then_some(Node { address: Address::Tcp { host, port }, role })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(parts: &[&str]) -> Answer {
        Answer::List(parts.iter().map(|part| Answer::Text((*part).to_owned())).collect())
    }

    #[test]
    fn a_map_of_slots_names_each_server_once() {
        let range = |from: &str, to: &str, members: &[&[&str]]| {
            let ends = [from, to].map(|end| Answer::Text(end.to_owned()));
            Answer::List(ends.into_iter().chain(members.iter().map(|member| texts(member))).collect())
        };
        let slots = Answer::List(vec![
            range("0", "5000", &[&["10.0.0.1", "7001", "a"], &["10.0.0.2", "7002", "b"]]),
            range("5001", "9000", &[&["", "7003", "c"]]),
            range("9001", "16383", &[&["10.0.0.1", "7001", "a"], &["10.0.0.4", "0", "d"]]),
        ]);
        let seed = Address::Tcp { host: "seed".to_owned(), port: 7003 };
        let of = |host: &str, port, role| node(host.to_owned(), port, role).unwrap();
        let expected = [
            of("10.0.0.1", 7001, Role::Master),
            of("10.0.0.2", 7002, Role::Replica),
            of("seed", 7003, Role::Master),
        ];
        assert_eq!(of_slots(&slots, &seed), expected);
        assert_eq!(of_slots(&Answer::Error("ERR unknown".to_owned()), &seed), []);
    }
}
