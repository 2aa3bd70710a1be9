//! One server with its connections: for calls, for subscriptions, and for the queries of the topology.
//!
//! Invariant: each connection belongs to one of the three parts, and its number leads to its node.

use std::time::Duration;

use leasehold_proto::{Applied, Call, Channel, Confirm, Moment, StoreErrorKind};

use super::batch::PendingCall;
use super::commands::Commands;
use super::deadline::Deadline;
use super::ids::{CallId, ConnId, NodeId};
use super::io::Output;
use super::login::Login;
use super::part::Part;
use super::query::Query;
use super::report::Report;
use super::server::{Server, Step};
use super::subscriptions::Subscriptions;
use crate::redis::connect::ConnectOptions;
use crate::redis::error::Failure;
use crate::url::Credentials;

/// A server and its connections.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) server: Server,
    commands: Commands,
    /// The two parts that share the slots, once there was a call that replicas confirm.
    confirmed: Vec<Commands>,
    seed: u64,
    subscriptions: Subscriptions,
    query: Query,
}

/// The parts of a node, and the step in which they act.
pub(super) struct Parts<'a> {
    pub(super) step: Step<'a>,
    pub(super) commands: &'a mut Commands,
    confirmed: &'a mut Vec<Commands>,
    seed: u64,
    pub(super) subscriptions: &'a mut Subscriptions,
    pub(super) query: &'a mut Query,
}

impl Node {
    pub(super) fn new(server: Server, seed: u64, options: &ConnectOptions) -> Self {
        Self {
            server,
            commands: Commands::new(seed, options),
            confirmed: Vec::new(),
            seed,
            subscriptions: Subscriptions::new(!seed),
            query: Query::new(seed.rotate_left(32)),
        }
    }

    /// Returns the parts for a step.
    pub(super) fn parts<'a>(
        &'a mut self,
        (now, gathers): (Moment, bool),
        outputs: &'a mut Vec<Output>,
        reports: &'a mut Vec<(NodeId, Report)>,
    ) -> Parts<'a> {
        let Self { server, commands, confirmed, seed, subscriptions, query } = self;
        let step = Step { now, server, outputs, reports, gathers };
        Parts { step, commands, confirmed, seed: *seed, subscriptions, query }
    }

    /// Returns the earliest time at which a tick may have something to do.
    pub(super) fn timer(&self) -> Moment {
        let calls = self.all_commands().map(Commands::timer).min().unwrap_or(Moment::NEVER);
        calls.min(self.subscriptions.timer()).min(self.query.timer())
    }

    pub(super) fn unwritten(&self, id: ConnId) -> &[u8] {
        let others = || self.subscriptions.unwritten(id).or_else(|| self.query.unwritten(id));
        self.all_commands().find_map(|commands| commands.unwritten(id)).or_else(others).unwrap_or_default()
    }

    pub(super) fn wants_flush(&self) -> bool {
        self.all_commands().any(Commands::wants_flush)
    }

    /// Returns the connections that carry the next calls, as far as they are open.
    pub(super) fn command_connections(&self) -> impl Iterator<Item = ConnId> {
        self.all_commands().filter_map(Commands::connection)
    }

    /// Returns true if a connection to a server with locks is open.
    pub(super) fn is_logged_in(&self) -> bool {
        let is_open = || self.command_connections().next().is_some() || self.subscriptions.is_open();
        self.server.part() != Part::Sentinel && is_open()
    }

    pub(super) fn awaits_replies(&self, id: ConnId) -> bool {
        self.all_commands().any(|commands| commands.awaits_replies(id))
    }

    /// Returns true if the server has neither calls nor subscriptions nor a query.
    pub(super) fn is_idle(&self) -> bool {
        self.all_commands().all(Commands::is_idle) && self.subscriptions.is_idle() && self.query.is_idle()
    }

    /// Takes a call back that was not sent, with the reason.
    pub(super) fn withdraw(&mut self, id: CallId) -> Option<(PendingCall, Failure)> {
        let Self { commands, confirmed, .. } = self;
        std::iter::once(commands).chain(confirmed).find_map(|commands| commands.withdraw(id))
    }

    /// Returns true if no query is under way.
    pub(super) const fn may_be_asked(&self) -> bool {
        self.query.is_idle()
    }

    fn all_commands(&self) -> impl Iterator<Item = &Commands> {
        std::iter::once(&self.commands).chain(&self.confirmed)
    }
}

impl Parts<'_> {
    pub(super) fn submit(&mut self, id: CallId, call: Call, timeout: Duration) {
        let deadline = Deadline::new(self.step.now, timeout);
        self.take(PendingCall::new(id, call, deadline));
    }

    /// Takes a call, which may come from another server that has not run it. The calls on a name that replicas confirm share
    /// a connection, and so do those that they do not, since an attempt must not overtake the release before it.
    pub(super) fn take(&mut self, call: PendingCall) {
        let replicas = call.call.replicas().unwrap_or(self.step.server.options().confirmation.replicas);
        if replicas == Confirm::None {
            self.commands.take(&mut self.step, call);
        } else {
            self.take_confirmed(call);
        }
    }

    fn take_confirmed(&mut self, call: PendingCall) {
        if self.confirmed.is_empty() {
            let seeds = [self.seed.wrapping_add(1), self.seed.wrapping_add(2)];
            let options = self.step.server.options();
            self.confirmed.extend(seeds.map(|seed| Commands::confirmed(seed, options)));
            if self.commands.is_closed() {
                self.confirmed.iter_mut().for_each(|part| part.close(&mut self.step));
            }
        }
        let part = usize::from(call.call.slot().unwrap_or_default()) % self.confirmed.len();
        self.confirmed[part].take(&mut self.step, call);
    }

    /// Notes that the submitter of a call has left. Returns true if the call is here.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        self.commands.abandon(&mut self.step, id)
            || self.confirmed.iter_mut().any(|part| part.abandon(&mut self.step, id))
    }

    /// Takes the calls that were not sent.
    pub(super) fn give_up(&mut self) -> Vec<PendingCall> {
        let confirmed = self.confirmed.iter_mut().flat_map(Commands::give_up);
        self.commands.give_up().into_iter().chain(confirmed).collect()
    }

    /// Goes on with another server under the same name.
    pub(super) fn move_on(&mut self) {
        self.each_commands(Commands::move_on);
        self.subscriptions.move_on(&mut self.step);
    }

    /// Notes that the address of the server could not be found out.
    pub(super) fn not_found(&mut self, failure: &Failure) {
        self.each_commands(|commands, step| commands.not_found(step, failure.clone()));
    }

    /// Logs in again on the open connections, if there are later credentials.
    pub(super) fn log_in(&mut self) {
        self.each_commands(Commands::log_in);
        self.subscriptions.log_in(&mut self.step);
    }

    /// Gives a dialed connection credentials of its own.
    pub(super) fn set_dial_login(&mut self, id: ConnId, credentials: Credentials) {
        let login = Login { credentials, number: self.step.server.login_number() };
        let commands = std::iter::once(&mut *self.commands).chain(&mut *self.confirmed);
        let dialings = commands.map(Commands::dialing_mut);
        let others = [self.subscriptions.dialing_mut(), self.query.dialing_mut()];
        if let Some(dialing) = dialings.chain(others).find(|dialing| dialing.is_opening(id)) {
            dialing.set_login(id, login);
        }
    }

    /// Tells the subscribers of these channels of a change, as a message would.
    pub(super) fn tell(&mut self, channels: &[Channel]) {
        channels.iter().for_each(|channel| self.subscriptions.tell(&mut self.step, channel));
    }

    pub(super) fn flush(&mut self) {
        self.each_commands(Commands::flush);
    }

    pub(super) fn send_gathered(&mut self) {
        self.each_commands(Commands::send_gathered);
    }

    fn each_commands(&mut self, mut act: impl FnMut(&mut Commands, &mut Step<'_>)) {
        act(self.commands, &mut self.step);
        for commands in &mut *self.confirmed {
            act(commands, &mut self.step);
        }
    }

    pub(super) fn connected(&mut self, id: ConnId) {
        self.each_commands(|commands, step| commands.connected(step, id));
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
        self.each_commands(|commands, step| commands.closed(step, id, failure.clone()));
        self.subscriptions.closed(&mut self.step, id, failure);
        self.query.closed(&mut self.step, id, failure);
    }

    pub(super) fn receive(&mut self, id: ConnId, bytes: &[u8]) {
        self.each_commands(|commands, step| commands.receive(step, id, bytes));
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
        self.each_commands(|commands, step| commands.wrote(step, id, count));
        self.subscriptions.wrote(id, count);
        self.query.wrote(id, count);
    }

    pub(super) fn tick(&mut self) {
        self.each_commands(Commands::tick);
        self.subscriptions.tick(&mut self.step);
        self.query.tick(&mut self.step);
    }

    pub(super) fn close(&mut self) {
        self.each_commands(Commands::close);
        self.subscriptions.close(&mut self.step);
        self.query.stop(&mut self.step);
    }
}
