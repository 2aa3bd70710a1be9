//! Asks one server.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::process;

use leasehold_proto::recipe::grants::{NATIVE, Place, has_native};
use leasehold_proto::recipe::one_server::{keys_like, run_id};
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{Peer, Reach};
use leasehold_store::url::{Address, Servers};

use super::{Node, Target, fields, lines};
use crate::answers::{list, text};
use crate::clock;
use crate::doctor::facts::{
    Behind, Clock, Facts, Fields, Fleet, Known, Link, Native, Rights, Role, SentinelFacts, Topology,
};
use crate::doctor::rights;

/// The settings that checks read.
const SETTINGS: [&str; 14] = [
    "maxmemory",
    "maxmemory-policy",
    "appendonly",
    "appendfsync",
    "save",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "cluster-node-timeout",
    "cluster-require-full-coverage",
    "maxclients",
    "timeout",
    "tcp-keepalive",
    "client-output-buffer-limit",
    "repl-timeout",
];
/// The scratch names among which each master of a cluster finds one of its own.
const NAMES: usize = 256;
/// The measurements of a clock, of which the most exact counts.
const CLOCK_ROUNDS: usize = 3;

impl Target {
    /// Asks one server everything. Also returns a scratch name on which it runs scripts.
    pub(super) async fn examine_node(
        &self,
        node: &Node,
        fleet: &Fleet,
    ) -> Result<(Facts, Option<String>), String> {
        let topology = match self.url.servers() {
            Servers::Cluster { .. } => Topology::Cluster,
            Servers::Sentinel { .. } => Topology::Sentinel,
            _ => Topology::Standalone,
        };
        let mut commands: Vec<Vec<&str>> = vec![vec!["INFO"], vec!["CLUSTER", "INFO"]];
        commands.extend(SETTINGS.map(|name| vec!["CONFIG", "GET", name]));
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        let mut answers = self.ask(&node.address, &commands).await?.into_iter().map(Known::of);
        let info = next(&mut answers).and_then(|answer| lines(&answer));
        let cluster = next(&mut answers).and_then(|answer| lines(&answer));
        let value = |name: &str, known: Known<Answer>| {
            known.and_then(|answer| fields(&answer)).and_then(|mut fields: Fields| fields.remove(name))
        };
        let settings: BTreeMap<_, _> =
            SETTINGS.into_iter().map(|name| (name, value(name, next(&mut answers)))).collect();
        let (script, scratch) = match node.role {
            Role::Master => {
                let (script, name) = self.scratch(&node.address).await;
                (Some(script), name)
            }
            Role::Replica => (None, None),
        };
        let behind = match (node.role, topology) {
            (Role::Replica, _) | (_, Topology::Cluster) => None,
            (Role::Master, _) => Some(self.servers_behind(&node.address).await),
        };
        let place = match topology {
            Topology::Standalone => Place::Standalone,
            Topology::Sentinel => Place::BehindSentinels,
            Topology::Cluster => Place::Cluster,
        };
        let operator = match &self.operator {
            Some(user) => {
                let rules = self.operator_rules(place);
                let rights = self.rights_of(&node.address, user, &rules, &rules).await;
                Some((rights, format!("ACL SETUSER {user} reset on >PASSWORD {rules}")))
            }
            None => None,
        };
        let rights = self.rights(&node.address, place).await;
        let native = match &rights {
            Known::Answered(Rights { user, .. }) if has_native(&self.primitives) => {
                Some(self.native(&node.address, user, &self.rules(place)).await)
            }
            _ => None,
        };
        let facts = Facts {
            node: node.address.to_string(),
            topology,
            role: node.role,
            link: self.link(&node.address),
            replaced_after_ms: replaced_after(topology, fleet, &settings),
            cluster: (topology == Topology::Cluster).then_some(cluster),
            clock: self.clock(&node.address).await,
            rights,
            native,
            acl_line: format!("ACL SETUSER leasehold reset on >PASSWORD {}", self.rules(place)),
            operator,
            info,
            settings,
            script,
            behind,
            latency: None,
        };
        Ok((facts, scratch))
    }

    /// Runs a script on scratch names until the server says that a name is its own. Writes nothing.
    async fn scratch(&self, address: &Address) -> (Result<(), String>, Option<String>) {
        let name = |number| format!("{}leasehold:doctor:{}:{number}", self.prefix, process::id());
        let names: Vec<String> = (0..NAMES).map(name).collect();
        let scripts: Vec<_> = names.iter().map(|name| ["EVAL", "return 1", "1", name]).collect();
        let scripts: Vec<&[&str]> = scripts.iter().map(<[&str; 4]>::as_slice).collect();
        let answers = match self.ask(address, &scripts).await {
            Ok(answers) => answers,
            Err(reason) => return (Err(reason), None),
        };
        for (answer, name) in answers.into_iter().zip(names) {
            match answer {
                Answer::Int(1) => return (Ok(()), Some(name)),
                Answer::Error(text) if text.starts_with("MOVED") => {}
                Answer::Error(text) => return (Err(text), None),
                _ => return (Err("a script of one number returned something else".to_owned()), None),
            }
        }
        (Err("no scratch name has a slot of this server".to_owned()), None)
    }

    /// Asks which servers run scripts, as a client does before it puts several names into one script.
    async fn servers_behind(&self, address: &Address) -> Behind {
        let keys = keys_like(&format!("{}leasehold:doctor", self.prefix));
        let calls = std::iter::once(run_id(&keys)).chain(keys.iter().map(|key| run_id([key])));
        let calls: Vec<_> = calls.map(|call| (call.key_count().to_string(), call)).collect();
        let commands = calls.iter().map(|(count, call)| {
            ["EVAL", call.script().source(), count].into_iter().chain(call.keys()).collect()
        });
        let commands: Vec<Vec<&str>> = commands.collect();
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        match self.ask(address, &commands).await {
            Ok(answers) => Behind::read(&answers),
            Err(reason) => Behind::Unknown(reason),
        }
    }

    /// Compares the clocks of the server and of this machine.
    async fn clock(&self, address: &Address) -> Known<Clock> {
        let mut best = Known::Missing;
        for _ in 0..CLOCK_ROUNDS {
            let before = clock::wall_ms();
            let Ok(mut answers) = self.ask(address, &[&["TIME"]]).await else { return best };
            let after = clock::wall_ms();
            let seen = Known::of(answers.remove(0)).and_then(|answer| {
                let part = |index: usize| list(&answer).get(index).and_then(text)?.parse::<i64>().ok();
                let server_ms = part(0)? * 1000 + part(1)? / 1000;
                let error_ms = (after - before) / 2 + 1;
                Some(Clock { ahead_ms: server_ms - (before + after) / 2, error_ms })
            });
            let is_better = match (&best, &seen) {
                (Known::Answered(old), Known::Answered(new)) => new.error_ms < old.error_ms,
                _ => true,
            };
            if is_better {
                best = seen;
            }
        }
        best
    }

    /// Asks for the rights of the connection's own user.
    async fn rights(&self, address: &Address, place: Place) -> Known<Rights> {
        let Ok(mut answers) = self.ask(address, &[&["ACL", "WHOAMI"]]).await else { return Known::Missing };
        let user = match Known::of(answers.remove(0)).and_then(|answer| text(&answer)) {
            Known::Answered(user) => user,
            Known::Denied => return Known::Denied,
            Known::Missing => return Known::Missing,
        };
        self.rights_of(address, &user, &self.rules(place), &self.needed_rules(place)).await
    }

    /// Asks which of these rules a user lacks. `needed` are the rules without which locks do not work as they should.
    async fn rights_of(&self, address: &Address, user: &str, rules: &str, needed: &str) -> Known<Rights> {
        let questions = rights::questions(rules);
        let commands = rights::commands(user, &questions);
        let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
        match self.ask(address, &commands).await {
            Ok(answers) => rights::read(user, &questions, needed, answers),
            Err(_) => Known::Missing,
        }
    }

    /// Asks which native commands the server has, and which ones a user with these rules may run.
    async fn native(&self, address: &Address, user: &str, rules: &str) -> Native {
        let mut native = Native { user: user.to_owned(), ..Native::default() };
        for command in NATIVE {
            let question = rights::question(command, rules);
            let commands = rights::commands(user, &question);
            let commands: Vec<&[&str]> = commands.iter().map(Vec::as_slice).collect();
            let Ok(answers) = self.ask(address, &commands).await else { continue };
            match rights::is_allowed(&answers) {
                Some(true) => native.allowed.push(command),
                Some(false) => native.denied.push(command),
                // The server does not have it.
                None => {}
            }
        }
        native
    }

    fn link(&self, address: &Address) -> Link {
        let has_password = self.options.logs_in(&self.url, Peer::Server);
        Link { is_encrypted: self.url.tls(), has_password, reach: reach(address) }
    }
}

fn next(answers: &mut impl Iterator<Item = Known<Answer>>) -> Known<Answer> {
    answers.next().unwrap_or(Known::Missing)
}

/// Returns the silence after which another server takes the place of this one.
fn replaced_after(
    topology: Topology,
    fleet: &Fleet,
    settings: &BTreeMap<&'static str, Known<String>>,
) -> Option<Known<u64>> {
    match topology {
        Topology::Standalone => None,
        Topology::Sentinel => {
            let down_after = |sentinel: &SentinelFacts| sentinel.number("down-after-milliseconds");
            let shortest = fleet.sentinels.iter().filter_map(down_after).min();
            Some(shortest.map_or(Known::Missing, Known::Answered))
        }
        Topology::Cluster => {
            Some(settings["cluster-node-timeout"].clone().and_then(|value| value.parse().ok()))
        }
    }
}

/// Returns the distance of an address. A name that does not resolve counts as far.
pub(super) fn reach(address: &Address) -> Reach {
    let Address::Tcp { host, port } = address else { return Reach::Loopback };
    let Ok(addresses) = (host.as_str(), *port).to_socket_addrs() else { return Reach::Public };
    addresses.map(|address| Reach::of(address.ip())).max().unwrap_or(Reach::Public)
}
