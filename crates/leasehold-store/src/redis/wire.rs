//! The wire: one pure client of a Redis or Valkey server, or of several that serve one set of names, under the driver.
//!
//! Invariant: a wire reads no clock, does no I/O and draws no random number. Its outputs depend on its seed and its
//! inputs alone, so production, tests and the simulator run the same code.
//!
//! # How it works
//! [`Wire::step`] takes the time and one [`Input`], and appends [`Output`]s. The `topology` knows which server serves a
//! name. A server (`node`) has command connections (`commands`) and a connection for subscriptions (`subscriptions`),
//! because a connection that carries both can hand replies to the wrong caller, and short ones on which the topology asks
//! questions (`query`). Both begin as attempts (`dialing`, `opening`, `handshake`). Bytes pass the bounds
//! (`framing`) before they become values (`codec`). Calls wait in a `queue`, travel alone or as rows of a `batch`, and
//! are in flight in a `pipeline` until their replies come.
//!
//! The way of a call: `topology`, `node`, `commands`, `connection`, `scripts` (EVAL, EVALSHA, or a native command of
//! `natives`), `encode`, `outgoing`. [`Output::Write`] then lets the driver write the bytes (`driver/state`).
//!
//! The driver owns streams and timers and decides nothing. It obeys three rules:
//! - It passes in all bytes that a stream has before it passes in a [`Input::Tick`], so that a reply that arrived in time
//!   counts although the driver stood still.
//! - It writes the bytes of [`Wire::unwritten`] in their order, by one writer at a time.
//! - It carries out an [`Output::Reset`] so that bytes which the server's machine has not received are gone.

mod backoff;
mod batch;
mod codec;
mod commands;
mod connection;
mod connections;
mod conversation;
mod deadline;
mod dialing;
mod encode;
mod facts;
mod framing;
mod group;
mod handshake;
#[cfg(test)]
mod harness;
mod ids;
mod io;
mod login;
mod natives;
mod node;
mod nodes;
mod one_server;
mod opening;
mod outgoing;
mod part;
mod pipeline;
mod query;
mod queue;
mod report;
mod round_trip;
mod scripts;
mod secret;
mod server;
mod subscriptions;
mod topology;
mod tracking;
mod value;

use std::sync::Arc;

use leasehold_proto::{Moment, StoreError};

pub use self::conversation::Answer;
pub(super) use self::conversation::Conversation;
pub use self::ids::{CallId, ConnId, SubscriberId};
pub use self::io::{Input, Output};
use self::login::Renewal;
use self::node::Node;
use self::nodes::{Nodes, Turn};
use self::part::Part;
pub use self::pipeline::IN_FLIGHT_MAX;
pub use self::queue::QUEUE_MAX;
use self::report::Report;
use self::server::Settings;
use self::topology::Topology;
use super::connect::ConnectOptions;
use super::peer::Peer;
use crate::url::ServerUrl;

/// The client of the servers at one URL.
#[derive(Debug)]
pub struct Wire {
    nodes: Nodes,
    topology: Topology,
    renewal: Renewal,
}

impl Wire {
    /// Creates the client of the servers at a URL. The seed decides the jitter of the pauses between attempts to connect.
    #[must_use]
    pub fn new(url: ServerUrl, options: ConnectOptions, seed: u64) -> Self {
        let mut nodes = Nodes::new(Arc::new(Settings { url, options }), seed);
        let topology = Topology::new(&mut nodes, seed);
        Self { nodes, topology, renewal: Renewal::new() }
    }

    /// Takes an input at a time, which never goes back, and appends the outputs in the order in which the driver carries
    /// them out.
    pub fn step(&mut self, now: Moment, input: Input<'_>, outputs: &mut Vec<Output>) {
        let submitted = match &input {
            Input::Submit(id, ..) => Some((*id, outputs.len())),
            _ => None,
        };
        let Self { nodes, topology, renewal } = self;
        let turn = &mut Turn { now, nodes, outputs };
        match input {
            Input::Open => topology.open(turn),
            Input::Submit(id, call, timeout) => topology.submit(turn, id, call, timeout),
            Input::Abandon(id) => topology.abandon(turn, id),
            Input::Subscribe(id, channel) => topology.subscribe(turn, id, channel),
            Input::Unsubscribe(id, channel) => topology.unsubscribe(turn, id, &channel),
            Input::Login(Ok(credentials)) => {
                let must_repeat = renewal.arrived(now, &credentials);
                if turn.nodes.set_login(credentials, must_repeat) {
                    turn.each(|parts| {
                        parts.log_in();
                    });
                }
            }
            Input::Login(Err(_)) => renewal.failed(now),
            Input::DialLogin(id, credentials) => {
                if turn.nodes.of(id).is_some_and(|node| node.server.part() != Part::Sentinel) {
                    renewal.dialed(now, &credentials);
                }
                turn.with(id.node, |parts| parts.set_dial_login(id, credentials));
            }
            Input::Connected(id) => drop(turn.with(id.node, |parts| parts.connected(id))),
            Input::Refused(id, error) => drop(turn.with(id.node, |parts| parts.refused(id, error))),
            Input::Bytes(id, bytes) => drop(turn.with(id.node, |parts| parts.receive(id, bytes))),
            Input::Wrote(id, count) => drop(turn.with(id.node, |parts| parts.wrote(id, count))),
            Input::Closed(id) => drop(turn.with(id.node, |parts| parts.closed(id))),
            Input::Tick => {
                // A thread that panics while it gathers would leave the flag, which holds calls back.
                turn.nodes.gathers = false;
                turn.each(|parts| {
                    parts.tick();
                });
                topology.tick(turn);
                let has_connection = turn.nodes.all().any(Node::is_logged_in);
                renewal.tick(now, has_connection, turn.outputs);
            }
            Input::Flush => turn.each(|parts| {
                parts.flush();
            }),
            Input::Gather => turn.nodes.gathers = true,
            Input::Gathered => turn.send_gathered(),
            Input::Close => {
                renewal.stop();
                topology.close(turn);
                turn.each(|parts| {
                    parts.close();
                });
            }
        }
        while let Some((node, report)) = turn.nodes.next_report() {
            match report {
                Report::LoggedIn(true) => renewal.took(),
                Report::LoggedIn(false) => renewal.refused(now),
                Report::Changed(channels) => turn.each(|parts| parts.tell(&channels)),
                report => topology.reported(turn, node, report),
            }
        }
        if let Some((id, before)) = submitted {
            debug_assert!(
                outputs[before..].iter().all(|output| output.may_follow(id)),
                "the step of a call ends no other call"
            );
        }
    }

    /// Takes a call back that was not sent, and returns the error by which it fails. Returns `None` for a call that was
    /// sent, and for one that is not here.
    pub fn withdraw(&mut self, id: CallId) -> Option<StoreError> {
        let Self { nodes, topology, .. } = self;
        let (call, failure) = topology.withdraw(id).or_else(|| nodes.withdraw(id))?;
        Some(failure.during(call.call.verb(), call.call.subject()))
    }

    /// Returns the earliest time at which an [`Input::Tick`] may have an effect.
    #[must_use]
    pub fn timer(&self) -> Moment {
        self.nodes.timer().min(self.topology.timer()).min(self.renewal.timer())
    }

    /// Returns true if the connection that is dialed needs credentials of the provider.
    #[must_use]
    pub fn wants_login(&self, id: ConnId) -> bool {
        self.nodes.of(id).is_some_and(|node| node.server.wants_login())
    }

    /// Returns the other end of the connection that is dialed.
    #[must_use]
    pub fn peer_of(&self, id: ConnId) -> Peer {
        self.nodes.of(id).map_or(Peer::Server, |node| node.server.part().peer())
    }

    /// Returns true if calls have gathered that an [`Input::Flush`] would send.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.nodes.all().any(Node::wants_flush)
    }

    /// Returns the connections that carry the next calls, as far as they are open.
    pub fn command_connections(&self) -> impl Iterator<Item = ConnId> {
        self.nodes.all().flat_map(Node::command_connections)
    }

    /// Returns true if calls of the connection are in flight.
    #[must_use]
    pub fn awaits_replies(&self, id: ConnId) -> bool {
        self.nodes.of(id).is_some_and(|node| node.awaits_replies(id))
    }

    /// Returns the bytes of a connection that its stream has not taken.
    #[must_use]
    pub fn unwritten(&self, id: ConnId) -> &[u8] {
        self.nodes.of(id).map(|node| node.unwritten(id)).unwrap_or_default()
    }
}
