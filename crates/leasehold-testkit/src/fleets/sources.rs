//! Loopback addresses from which the servers of a fleet connect to each other, so that a packet filter can tell their
//! connections from those of clients.
//!
//! Invariant: all servers listen on 127.0.0.1 alone, and announce that address whatever their source.

use std::net::Ipv4Addr;

/// The network of the sources of all servers. No client of the kit connects from it.
pub const SOURCES: &str = "127.1.0.0/16";

/// Returns the source of a data node with this index.
#[must_use]
pub fn source_of_node(index: usize) -> Ipv4Addr {
    source(0, index)
}

/// Returns the arguments of a data node that connects from its source.
pub(super) fn node_arguments(index: usize) -> Vec<String> {
    let mut words = arguments(source_of_node(index), &["--replica-announce-ip"]);
    // The mode takes a connection from any address but 127.0.0.1 for one from another machine.
    words.extend(["--protected-mode", "no"].map(str::to_owned));
    words
}

/// Returns the arguments of a sentinel that connects from its source.
pub(super) fn sentinel_arguments(index: usize) -> Vec<String> {
    arguments(source(1, index), &["--sentinel", "announce-ip"])
}

fn source(kind: u8, index: usize) -> Ipv4Addr {
    let host = u8::try_from(index + 1).expect("a fleet has fewer than 255 servers of a kind");
    Ipv4Addr::new(127, 1, kind, host)
}

fn arguments(source: Ipv4Addr, announce: &[&str]) -> Vec<String> {
    let source = source.to_string();
    let words = [&["--bind-source-addr", source.as_str()][..], announce, &["127.0.0.1"]].concat();
    words.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_a_source_of_its_own() {
        let node = ["--bind-source-addr", "127.1.0.2", "--replica-announce-ip", "127.0.0.1"];
        assert_eq!(node_arguments(1)[..4], node);
        let sentinel = ["--bind-source-addr", "127.1.1.1", "--sentinel", "announce-ip", "127.0.0.1"];
        assert_eq!(sentinel_arguments(0), sentinel);
    }
}
