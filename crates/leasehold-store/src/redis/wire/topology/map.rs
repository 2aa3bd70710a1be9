//! A cluster map as one node reports it.
//!
//! Invariant: a slot range has only its master, because a replica never answers for a name.

use crate::redis::error::SLOTS;
use crate::redis::wire::value::Value;
use crate::url::Address;

/// The masters and their slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// The epoch of the cluster, which grows with each failover.
    pub(super) epoch: u64,
    /// False if the node says that the cluster is down, as it is for a node that was cut off, and during a failover.
    pub(super) is_up: bool,
    /// The first and the last slot of each range, and its master.
    pub(super) ranges: Vec<(u16, u16, Address)>,
}

impl Map {
    /// Reads the answers to `CLUSTER SHARDS` or `CLUSTER SLOTS`, and to `CLUSTER INFO`. `host` is that of the node that
    /// answered, under which a node is known that does not know its own.
    pub(super) fn read(map: &Value, info: Option<&Value>, host: &str, tls: bool) -> Option<Self> {
        let Value::Array(entries) = map else { return None };
        let mut ranges = Vec::new();
        for entry in entries {
            match entry {
                Value::Array(parts) if matches!(parts.first(), Some(Value::Int(_))) => {
                    ranges.push(read_range(parts, host)?);
                }
                shard => ranges.extend(read_shard(shard, host, tls)?),
            }
        }
        let info = info.and_then(Value::text).unwrap_or_default();
        Some(Self { epoch: read_epoch(info), is_up: field(info, "cluster_state") != Some("fail"), ranges })
    }
}

/// Reads the epoch in the answer to `CLUSTER INFO`.
fn read_epoch(info: &str) -> u64 {
    field(info, "cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default()
}

/// Returns a field of the answer to `CLUSTER INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// Reads an entry of `CLUSTER SLOTS`: the first and the last slot, the master, and the replicas.
fn read_range(parts: &[Value], host: &str) -> Option<(u16, u16, Address)> {
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts else { return None };
    let [name, Value::Int(port), ..] = master.as_slice() else { return None };
    Some((slot(*first)?, slot(*last)?, address(name.text(), u16::try_from(*port).ok()?, host)?))
}

/// Reads an entry of `CLUSTER SHARDS`. A shard without slots, without a master, or without a port has no range.
fn read_shard(shard: &Value, host: &str, tls: bool) -> Option<Vec<(u16, u16, Address)>> {
    let Some(Value::Array(slots)) = shard.member("slots") else { return None };
    let Some(Value::Array(nodes)) = shard.member("nodes") else { return None };
    let masters = || nodes.iter().filter(|node| node.field("role") == Some("master"));
    let online = masters().find(|node| node.field("health") == Some("online"));
    let Some(master) = online.or_else(|| masters().next()) else { return Some(Vec::new()) };
    let port = |name| master.member(name).and_then(Value::int).and_then(|port| u16::try_from(port).ok());
    let port = if tls { port("tls-port") } else { port("port") };
    let master = port.and_then(|port| address(master.field("endpoint"), port, host));
    let Some(master) = master else { return Some(Vec::new()) };
    let bounds: Vec<u16> = slots.iter().map(|bound| slot(bound.int()?)).collect::<Option<_>>()?;
    Some(bounds.chunks_exact(2).map(|pair| (pair[0], pair[1], master.clone())).collect())
}

fn slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|slot| *slot < SLOTS)
}

/// Returns the address of a node. A node announces an empty name, or `?`, if it does not know its own.
fn address(name: Option<&str>, port: u16, host: &str) -> Option<Address> {
    let name = name.filter(|name| !name.is_empty() && *name != "?").unwrap_or(host);
    (port > 0).then(|| Address::Tcp { host: name.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Value {
        Value::Text(text.into())
    }

    fn list(items: impl Into<Vec<Value>>) -> Value {
        Value::Array(items.into())
    }

    fn at(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    fn node(endpoint: Value, ports: [i64; 2], role: &'static str, health: &'static str) -> Value {
        let [port, tls_port] = ports.map(Value::Int);
        list([
            text("id"),
            text("c0ffee"),
            text("port"),
            port,
            text("tls-port"),
            tls_port,
            text("endpoint"),
            endpoint,
            text("role"),
            text(role),
            text("health"),
            text(health),
        ])
    }

    fn shard(slots: &[i64], nodes: impl Into<Vec<Value>>) -> Value {
        let slots: Vec<Value> = slots.iter().copied().map(Value::Int).collect();
        list([text("slots"), list(slots), text("nodes"), list(nodes)])
    }

    #[test]
    fn a_shard_has_the_ranges_of_its_master() {
        let replica = || node(text("b"), [2, 0], "replica", "online");
        let map = list([
            shard(&[0, 5, 9, 9], [replica(), node(text("a"), [1, 3], "master", "online")]),
            shard(
                &[6, 8],
                [node(text("old"), [1, 3], "master", "fail"), node(Value::Nil, [7, 0], "master", "online")],
            ),
            shard(&[], [node(text("c"), [1, 3], "master", "online")]),
            shard(&[10, 11], [replica()]),
        ]);
        let info = text("cluster_state:ok\r\ncluster_current_epoch:12\r\n");
        let read = Map::read(&map, Some(&info), "seed", false).unwrap();
        let expected = [(0, 5, at("a", 1)), (9, 9, at("a", 1)), (6, 8, at("seed", 7))];
        assert_eq!((read.epoch, read.is_up, read.ranges.as_slice()), (12, true, &expected[..]));
        let info = text("cluster_state:fail\r\ncluster_current_epoch:12\r\n");
        assert!(!Map::read(&map, Some(&info), "seed", false).unwrap().is_up);
        let with_tls = Map::read(&map, None, "seed", true).unwrap();
        let expected = [(0, 5, at("a", 3)), (9, 9, at("a", 3))];
        assert_eq!(with_tls.ranges, expected, "a master without a port for TLS cannot be reached");
    }

    #[test]
    fn the_older_command_names_a_range_and_its_master_first() {
        let server = |name, port| list([name, Value::Int(port), text("c0ffee")]);
        let range =
            |first, last, master| list([Value::Int(first), Value::Int(last), master, server(text("r"), 9)]);
        let map = list([range(0, 99, server(text(""), 5)), range(100, 16_383, server(text("::1"), 6))]);
        let read = Map::read(&map, Some(&Value::Nil), "seed", false).unwrap();
        assert_eq!(read.ranges, [(0, 99, at("seed", 5)), (100, 16_383, at("::1", 6))]);
        assert_eq!((read.epoch, read.is_up), (0, true));
    }

    #[test]
    fn a_map_that_no_cluster_draws_is_refused() {
        let server = || list([text("a"), Value::Int(1)]);
        for map in [
            Value::Nil,
            list([Value::Int(1)]),
            list([list([Value::Int(0)])]),
            list([list([Value::Int(0), Value::Int(16_384), server()])]),
            list([list([Value::Int(-1), Value::Int(1), server()])]),
            list([list([Value::Int(0), Value::Int(1), list([text("a"), Value::Int(0)])])]),
            list([list([text("slots"), Value::Nil])]),
            list([shard(&[0, 20_000], [node(text("a"), [1, 0], "master", "online")])]),
        ] {
            assert_eq!(Map::read(&map, None, "seed", false), None, "{map:?}");
        }
        assert_eq!(Map::read(&list([]), None, "seed", false).unwrap().ranges, []);
    }
}
