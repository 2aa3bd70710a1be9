//! Facts about one data node of a fleet, as the node itself reports them.

use std::time::Duration;

use crate::servers::{Encryption, Form, RedisServer};

/// The time limit for the reaction of a fleet to one fault, for machines under load.
pub(super) const REACTS_WITHIN: Duration = Duration::from_secs(60);

/// The arguments that all data nodes share. An append-only file keeps the data over a kill of the process, and
/// replicas follow at once and notice a dead master soon.
const ARGUMENTS: [&str; 10] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--repl-diskless-sync-delay",
    "0",
    "--repl-ping-replica-period",
    "1",
    "--repl-timeout",
    "5",
];

/// The arguments of a node that speaks TLS to the other nodes too.
const ENCRYPTED: [&str; 2] = ["--tls-replication", "yes"];

/// Starts a data node with further arguments.
#[track_caller]
pub(super) fn start(arguments: &[String], encryption: Option<&Encryption>) -> RedisServer {
    let all: Vec<&str> = ARGUMENTS.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    start_in(Form::File, &all, encryption)
}

/// Starts a node of a fleet, which speaks TLS to the others if it has certificates.
#[track_caller]
pub(super) fn start_in(form: Form, arguments: &[&str], encryption: Option<&Encryption>) -> RedisServer {
    let encrypted = encryption.into_iter().flat_map(|_| ENCRYPTED);
    let all: Vec<&str> = arguments.iter().copied().chain(encrypted).collect();
    RedisServer::in_form(&all, form, encryption)
}

/// Returns the beginning of an address for clients: a scheme of this family, over TLS if there are certificates.
pub(super) fn scheme(family: &str, encryption: Option<&Encryption>) -> String {
    let redis = if encryption.is_some() { "rediss" } else { "redis" };
    format!("{redis}+{family}://")
}

/// Sends a command that must succeed and returns its reply as text.
#[track_caller]
pub(super) fn order(server: &RedisServer, command: &[&str]) -> String {
    match server.command(command) {
        Ok(reply) => reply.text().to_owned(),
        Err(error) => panic!("the server on port {} refuses {command:?}: {error}", server.port()),
    }
}

/// Writes the faults of one data node for a fleet with a list of nodes.
macro_rules! node_faults {
    ($fleet:ty) => {
        impl $fleet {
            /// Kills a data node (SIGKILL).
            pub fn kill(&mut self, node: usize) {
                self.nodes[node].kill();
            }

            /// Freezes a data node (SIGSTOP).
            #[track_caller]
            pub fn freeze(&self, node: usize) {
                self.nodes[node].freeze();
            }

            /// Thaws a frozen data node, which answers at first in its old role.
            #[track_caller]
            pub fn resume(&self, node: usize) {
                self.nodes[node].thaw();
            }

            /// Restarts a data node in its last role, and with its identity in a cluster, with its data.
            #[track_caller]
            pub fn restart(&mut self, node: usize) {
                self.nodes[node].restart();
            }

            /// Restarts a data node in its last role, and with its identity in a cluster, without its data.
            #[track_caller]
            pub fn restart_empty(&mut self, node: usize) {
                self.nodes[node].restart_empty();
            }
        }
    };
}
pub(super) use node_faults;

/// The role of a node in replication.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A master, with the ports of the replicas that are online.
    Master(Vec<u16>),
    /// A replica, with the port of its master and true if it follows it.
    Replica(u16, bool),
    /// A node that does not answer.
    Unknown,
}

/// Asks a node for its role.
pub(super) fn role(server: &RedisServer) -> Role {
    if !server.is_up() {
        return Role::Unknown;
    }
    let Ok(reply) = server.command(&["INFO", "replication"]) else { return Role::Unknown };
    parse_role(reply.text())
}

fn parse_role(info: &str) -> Role {
    let field = |name: &str| {
        info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default().trim()
    };
    let port = |text: &str| text.parse().unwrap_or_default();
    match field("role") {
        "master" => {
            let online = |line: &&str| line.starts_with("slave") && line.contains("state=online");
            let ports =
                info.lines().filter(online).filter_map(|line| line.split_once("port=")?.1.split(',').next());
            Role::Master(ports.map(port).collect())
        }
        "slave" => Role::Replica(port(field("master_port")), field("master_link_status") == "up"),
        _ => Role::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_roles_are_read_from_info() {
        let master = "role:master\r\nconnected_slaves:2\r\nslave0:ip=127.0.0.1,port=7902,state=online,offset=14,lag=0\r\n\
                      slave1:ip=127.0.0.1,port=7903,state=wait_bgsave,offset=0,lag=0\r\n";
        assert_eq!(parse_role(master), Role::Master(vec![7902]));
        let replica =
            "role:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:7901\r\nmaster_link_status:down\r\n";
        assert_eq!(parse_role(replica), Role::Replica(7901, false));
        assert_eq!(parse_role(""), Role::Unknown);
    }
}
