//! One server with its connections: for calls, for subscriptions, and for the queries of the topology.
//!
//! Invariant: each connection belongs to one of the three parts, and its number leads to its node.

use leasehold_proto::{Applied, Moment, StoreErrorKind};

use super::commands::Commands;
use super::ids::{ConnId, NodeId};
use super::io::Output;
use super::query::Query;
use super::report::Report;
use super::server::{Part, Server, Step};
use super::subscriptions::Subscriptions;
use crate::redis::connect::ConnectOptions;
use crate::redis::error::Failure;

/// A server and its connections.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) commands: Commands,
    pub(super) subscriptions: Subscriptions,
    pub(super) query: Query,
}

/// The parts of a node, and the step in which they act.
pub(super) struct Parts<'a> {
    pub(super) step: Step<'a>,
    pub(super) commands: &'a mut Commands,
    pub(super) subscriptions: &'a mut Subscriptions,
    pub(super) query: &'a mut Query,
}

impl Node {
    pub(super) fn new(server: Server, seed: u64, options: &ConnectOptions) -> Self {
        Self {
            server,
            commands: Commands::new(seed, options),
            subscriptions: Subscriptions::new(!seed),
            query: Query::new(seed.rotate_left(32)),
        }
    }

    /// Returns the parts for a step.
    pub(super) fn parts<'a>(
        &'a mut self,
        now: Moment,
        outputs: &'a mut Vec<Output>,
        reports: &'a mut Vec<(NodeId, Report)>,
    ) -> Parts<'a> {
        let Self { server, commands, subscriptions, query } = self;
        Parts { step: Step { now, server, outputs, reports }, commands, subscriptions, query }
    }

    /// Returns the earliest time at which a tick may have something to do.
    pub(super) fn timer(&self) -> Moment {
        self.commands.timer().min(self.subscriptions.timer()).min(self.query.timer())
    }

    pub(super) fn unwritten(&self, id: ConnId) -> &[u8] {
        let others = || self.subscriptions.unwritten(id).or_else(|| self.query.unwritten(id));
        self.commands.unwritten(id).or_else(others).unwrap_or_default()
    }
}

impl Parts<'_> {
    pub(super) fn connected(&mut self, id: ConnId) {
        self.commands.connected(&mut self.step, id);
        self.subscriptions.connected(&mut self.step, id);
        self.query.connected(&mut self.step, id);
    }

    /// Notes that an attempt got no stream.
    pub(super) fn refused(&mut self, id: ConnId, error: std::io::Error) {
        self.ended(id, &Failure::unreachable(error));
    }

    /// Notes that a stream has ended.
    pub(super) fn closed(&mut self, id: ConnId) {
        self.ended(id, &Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown));
    }

    fn ended(&mut self, id: ConnId, failure: &Failure) {
        self.commands.closed(&mut self.step, id, failure.clone());
        self.subscriptions.closed(&mut self.step, id);
        self.query.closed(&mut self.step, id, failure);
    }

    pub(super) fn receive(&mut self, id: ConnId, bytes: &[u8]) {
        self.commands.receive(&mut self.step, id, bytes);
        let before = self.step.outputs.len();
        self.subscriptions.receive(&mut self.step, id, bytes);
        if self.step.server.part() == Part::Sentinel {
            self.hear(before);
        }
        self.query.receive(&mut self.step, id, bytes);
    }

    /// Reports the messages behind this output, whose subscriber is the topology.
    fn hear(&mut self, before: usize) {
        let heard = self.step.outputs[before..].iter().any(|output| matches!(output, Output::Heard(..)));
        let mut index = 0;
        self.step.outputs.retain(|output| {
            index += 1;
            index <= before || !matches!(output, Output::Heard(..))
        });
        if heard {
            self.step.report(Report::Heard);
        }
    }

    pub(super) fn wrote(&mut self, id: ConnId, count: usize) {
        self.commands.wrote(&mut self.step, id, count);
        self.subscriptions.wrote(id, count);
        self.query.wrote(id, count);
    }

    pub(super) fn tick(&mut self) {
        self.commands.tick(&mut self.step);
        self.subscriptions.tick(&mut self.step);
        self.query.tick(&mut self.step);
    }

    pub(super) fn close(&mut self) {
        self.commands.close(&mut self.step);
        self.subscriptions.close(&mut self.step);
        self.query.stop(&mut self.step);
    }
}
