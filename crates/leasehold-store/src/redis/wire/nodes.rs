//! The servers of a client, and the steps that a topology takes with them.
//!
//! Invariant: a report waits until the step of its server is over, so a topology never acts within a step of a server.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_proto::Moment;

use super::batch::PendingCall;
use super::ids::{CallId, ConnId, NodeId};
use super::io::Output;
use super::login::Login;
use super::node::{Node, Parts};
use super::part::Part;
use super::report::Report;
use super::server::{Server, Settings};
use crate::redis::error::Failure;
use crate::url::{Address, Credentials};

/// The servers to which the wire connects.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: BTreeMap<NodeId, Node>,
    settings: Arc<Settings>,
    seed: u64,
    last: u32,
    reports: Vec<(NodeId, Report)>,
    login: Option<Arc<Login>>,
    /// True while the calls of one submission are gathered.
    pub(super) gathers: bool,
}

/// A step of the topology: its time, the servers, and the outputs so far.
pub(super) struct Turn<'a> {
    pub(super) now: Moment,
    pub(super) nodes: &'a mut Nodes,
    pub(super) outputs: &'a mut Vec<Output>,
}

impl Nodes {
    pub(super) const fn new(settings: Arc<Settings>, seed: u64) -> Self {
        Self {
            nodes: BTreeMap::new(),
            settings,
            seed,
            last: 0,
            reports: Vec::new(),
            login: None,
            gathers: false,
        }
    }

    /// Adds a server.
    pub(super) fn add(&mut self, part: Part, address: Option<Address>) -> NodeId {
        self.last += 1;
        let id = NodeId(self.last);
        // Each server has jitter of its own.
        let seed = self.seed.wrapping_add(u64::from(self.last - 1) << 16);
        let mut server = Server::new(id, part, address, Arc::clone(&self.settings));
        if part != Part::Sentinel {
            server.set_login(self.login.clone());
        }
        self.nodes.insert(id, Node::new(server, seed, &self.settings.options));
        id
    }

    /// Keeps credentials of the provider for all servers, and returns true if they are others than before, or count as
    /// others.
    pub(super) fn set_login(&mut self, credentials: Credentials, are_others: bool) -> bool {
        let last = self.login.as_deref();
        let is_new = last.is_none_or(|last| {
            are_others
                || (&last.credentials.user, &last.credentials.password)
                    != (&credentials.user, &credentials.password)
        });
        if is_new {
            let number = last.map_or(1, |last| last.number + 1);
            self.login = Some(Arc::new(Login { credentials, number }));
            for node in self.nodes.values_mut().filter(|node| node.server.part() != Part::Sentinel) {
                node.server.set_login(self.login.clone());
            }
        }
        is_new
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// Returns the servers in the order of their numbers.
    pub(super) fn all(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Takes a call back that was not sent, with the reason.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<(PendingCall, Failure)> {
        self.nodes.values_mut().find_map(|node| node.withdraw(id))
    }

    pub(super) fn ids(&self) -> Vec<NodeId> {
        self.nodes.keys().copied().collect()
    }

    /// Returns the server of a connection.
    pub(super) fn of(&self, id: ConnId) -> Option<&Node> {
        self.get(id.node)
    }

    /// Takes the next report.
    pub(super) fn next_report(&mut self) -> Option<(NodeId, Report)> {
        if self.reports.is_empty() { None } else { Some(self.reports.remove(0)) }
    }

    /// Returns the earliest time at which a tick may have something to do.
    pub(super) fn timer(&self) -> Moment {
        self.all().map(Node::timer).min().unwrap_or(Moment::NEVER)
    }
}

impl Turn<'_> {
    /// Takes a step of one server, if it is there.
    pub(super) fn with<T>(&mut self, id: NodeId, act: impl FnOnce(&mut Parts<'_>) -> T) -> Option<T> {
        let Nodes { nodes, reports, gathers, .. } = &mut *self.nodes;
        let node = nodes.get_mut(&id)?;
        Some(act(&mut node.parts((self.now, *gathers), self.outputs, reports)))
    }

    /// Ends the gathering, and sends what was gathered.
    pub(super) fn send_gathered(&mut self) {
        self.nodes.gathers = false;
        self.each(|parts| {
            parts.send_gathered();
        });
    }

    /// Takes a step of each server.
    pub(super) fn each(&mut self, act: impl Fn(&mut Parts<'_>)) {
        let Nodes { nodes, reports, gathers, .. } = &mut *self.nodes;
        for node in nodes.values_mut() {
            act(&mut node.parts((self.now, *gathers), self.outputs, reports));
        }
    }

    /// Ends the connections of a server and forgets it.
    pub(super) fn remove(&mut self, id: NodeId) {
        self.with(id, |parts| {
            parts.close();
        });
        self.nodes.nodes.remove(&id);
    }
}
