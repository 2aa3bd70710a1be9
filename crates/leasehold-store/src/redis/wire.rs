//! The wire: one pure client of a Redis or Valkey server, under the driver.
//!
//! Invariant: a wire reads no clock, does no I/O and draws no random number. Its outputs depend on its seed and its
//! inputs alone, so production, tests and the simulator run the same code.
//!
//! # How it works
//! [`Wire::step`] takes the time and one [`Input`], and appends [`Output`]s. A server has command connections
//! (`commands`) and a connection for subscriptions (`subscriptions`), because a connection that carries both can hand
//! replies to the wrong caller. Both begin as attempts (`dialing`, `opening`, `handshake`). Bytes pass the bounds
//! (`framing`) before they become values (`codec`). Calls wait in a `queue`, travel alone or as rows of a `batch`, and
//! are in flight in a `pipeline` until their replies come.
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
mod deadline;
mod dialing;
mod encode;
mod facts;
mod framing;
mod handshake;
#[cfg(test)]
mod harness;
mod ids;
mod io;
mod opening;
mod outgoing;
mod pipeline;
mod queue;
mod round_trip;
mod scripts;
mod server;
mod subscriptions;
mod value;

use leasehold_proto::{Applied, Moment, StoreErrorKind};

use self::commands::Commands;
pub use self::ids::{CallId, ConnId, SubscriberId};
pub use self::io::{Input, Output};
pub use self::pipeline::IN_FLIGHT_MAX;
pub use self::queue::QUEUE_MAX;
use self::server::{Server, Step};
use self::subscriptions::Subscriptions;
use super::connect::ConnectOptions;
use super::error::Failure;
use super::url::ServerUrl;

/// The client of one server.
#[derive(Debug)]
pub struct Wire {
    server: Server,
    commands: Commands,
    subscriptions: Subscriptions,
}

impl Wire {
    /// Creates the client of the server at a URL. The driver dials the URL's address. The seed decides the jitter of the
    /// pauses between attempts to connect.
    #[must_use]
    pub fn new(url: ServerUrl, options: ConnectOptions, seed: u64) -> Self {
        Self {
            commands: Commands::new(seed, &options),
            subscriptions: Subscriptions::new(!seed),
            server: Server::new(url, options),
        }
    }

    /// Takes an input at a time, which never goes back, and appends the outputs in the order in which the driver carries
    /// them out.
    pub fn step(&mut self, now: Moment, input: Input<'_>, outputs: &mut Vec<Output>) {
        let Self { server, commands, subscriptions } = self;
        let step = &mut Step { now, server, outputs };
        match input {
            Input::Open => commands.open(step),
            Input::Submit(id, call, timeout) => commands.submit(step, id, call, timeout),
            Input::Abandon(id) => commands.abandon(step, id),
            Input::Subscribe(id, channel) => subscriptions.subscribe(step, id, channel),
            Input::Unsubscribe(id, channel) => subscriptions.unsubscribe(step, id, &channel),
            Input::Connected(id) => {
                commands.connected(step, id);
                subscriptions.connected(step, id);
            }
            Input::Refused(id, error) => {
                commands.closed(step, id, Failure::unreachable(error));
                subscriptions.closed(step, id);
            }
            Input::Bytes(id, bytes) => {
                commands.receive(step, id, bytes);
                subscriptions.receive(step, id, bytes);
            }
            Input::Wrote(id, count) => {
                commands.wrote(step, id, count);
                subscriptions.wrote(id, count);
            }
            Input::Closed(id) => {
                commands.closed(step, id, Failure::new(StoreErrorKind::ConnectionLost, Applied::Unknown));
                subscriptions.closed(step, id);
            }
            Input::Tick => {
                commands.tick(step);
                subscriptions.tick(step);
            }
            Input::Flush => commands.flush(step),
            Input::Close => {
                commands.close(step);
                subscriptions.close(step);
            }
        }
    }

    /// Returns the earliest time at which an [`Input::Tick`] may have an effect.
    #[must_use]
    pub fn timer(&self) -> Moment {
        self.commands.timer().min(self.subscriptions.timer())
    }

    /// Returns true if calls have gathered that an [`Input::Flush`] would send.
    #[must_use]
    pub fn wants_flush(&self) -> bool {
        self.commands.wants_flush()
    }

    /// Returns the connection that carries the next calls, if it is open.
    #[must_use]
    pub fn command_connection(&self) -> Option<ConnId> {
        self.commands.connection()
    }

    /// Returns true if calls of the connection are in flight.
    #[must_use]
    pub fn awaits_replies(&self, id: ConnId) -> bool {
        self.commands.awaits_replies(id)
    }

    /// Returns the bytes of a connection that its stream has not taken.
    #[must_use]
    pub fn unwritten(&self, id: ConnId) -> &[u8] {
        self.commands.unwritten(id).or_else(|| self.subscriptions.unwritten(id)).unwrap_or_default()
    }
}
