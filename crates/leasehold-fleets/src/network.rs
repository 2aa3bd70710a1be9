//! Drops packets between the servers of a fleet, with rules of the kernel's packet filter.
//!
//! Invariant: a rule is set in a private network alone, so the filter of the machine never changes.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use leasehold_testkit::fleets::SOURCES;
use leasehold_testkit::servers::RedisServer;

/// The interfaces of this process's network, one a line after two lines of titles.
const INTERFACES: &str = "/proc/self/net/dev";
/// The distance between a cluster node's client port and the port on which it talks to the other nodes.
const BUS: u16 = 10_000;

/// The packets between a node and all other servers that are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Those to the node.
    ToNode,
    /// Those of the node.
    FromNode,
}

/// A loss of packets, which ends at the latest when this is dropped.
#[derive(Debug)]
pub(crate) struct Partition {
    rules: Vec<Vec<String>>,
}

/// Returns nothing if this process can lose packets.
///
/// # Errors
/// The network is that of the machine, or has no packet filter.
pub(crate) fn check() -> Result<()> {
    let interfaces = std::fs::read_to_string(INTERFACES).context("the interfaces are not listed")?;
    ensure!(is_private(&interfaces), "the network is that of the machine");
    filter(&["-S".to_owned(), "INPUT".into()])
}

impl Partition {
    /// Begins to lose packets between a node with this source and all other servers. Clients are not affected.
    ///
    /// # Errors
    /// As [`check`], or the filter takes no rule.
    pub(crate) fn begin(node: &RedisServer, source: Ipv4Addr, lost: Lost) -> Result<Self> {
        check()?;
        let mut partition = Self { rules: Vec::new() };
        for rule in rules(&ports(node), source, lost) {
            filter(&changed("-A", &rule))?;
            partition.rules.push(rule);
        }
        Ok(partition)
    }

    /// Lets all packets pass again.
    ///
    /// # Errors
    /// The filter keeps a rule.
    pub(crate) fn end(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        self.rules.drain(..).try_for_each(|rule| filter(&changed("-D", &rule)))
    }
}

impl Drop for Partition {
    fn drop(&mut self) {
        // The rules end with the private network at the latest.
        let _ = self.remove();
    }
}

/// Returns true if the loopback interface is the only one.
fn is_private(interfaces: &str) -> bool {
    interfaces.lines().skip(2).all(|line| line.trim_start().starts_with("lo:"))
}

/// Returns the ports at which other servers reach a node, as the filter takes them.
fn ports(node: &RedisServer) -> String {
    let (plain, announced) = (node.port(), node.announced_port());
    format!("{plain},{announced},{}", announced + BUS)
}

/// Returns the rules of a loss: one for the connections that the node accepted, and one for those that it opened.
fn rules(ports: &str, source: Ipv4Addr, lost: Lost) -> [Vec<String>; 2] {
    let source = source.to_string();
    let (others, own, accepted) = match lost {
        Lost::ToNode => ("-s", "-d", "--dports"),
        Lost::FromNode => ("-d", "-s", "--sports"),
    };
    let rules = [
        &[others, SOURCES, "-p", "tcp", "-m", "multiport", accepted, ports, "-j", "DROP"][..],
        &[own, &source, "-j", "DROP"][..],
    ];
    rules.map(|rule| rule.iter().map(|&word| word.to_owned()).collect())
}

/// Adds the verb to a rule of the chain for packets that arrive.
fn changed(verb: &str, rule: &[String]) -> Vec<String> {
    [verb.to_owned(), "INPUT".to_owned()].into_iter().chain(rule.iter().cloned()).collect()
}

fn filter(arguments: &[String]) -> Result<()> {
    let mut command = Command::new("iptables");
    let output = command.arg("-w").args(arguments).stdin(Stdio::null()).output();
    let output = output.context("iptables does not run")?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "iptables {}: {}", arguments.join(" "), complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: &str = "Inter-|   Receive |  Transmit\n face |bytes packets|bytes packets\n";

    #[test]
    fn a_network_with_another_interface_is_that_of_the_machine() {
        assert!(is_private(&format!("{TITLES}    lo:    1234      12\n")));
        assert!(!is_private(&format!("{TITLES}    lo:    1234      12\n  eth0:  99  1\n")));
    }

    #[test]
    fn a_loss_is_of_one_direction_and_of_no_client() {
        let source = leasehold_testkit::fleets::source_of_node(0);
        let words = |lost| rules("7,8,9", source, lost).map(|rule| rule.join(" "));
        let to = words(Lost::ToNode);
        assert_eq!(
            to,
            ["-s 127.1.0.0/16 -p tcp -m multiport --dports 7,8,9 -j DROP", "-d 127.1.0.1 -j DROP"]
        );
        let from = words(Lost::FromNode);
        assert_eq!(
            from,
            ["-d 127.1.0.0/16 -p tcp -m multiport --sports 7,8,9 -j DROP", "-s 127.1.0.1 -j DROP"]
        );
    }
}
