//! The command connections of one server: the current one, and those that it replaced.
//!
//! Invariant: at most one connection is current. A replaced connection gets no more calls, brings the replies of its
//! calls, and ends with the last.

use leasehold_proto::Moment;

use super::connection::CommandConnection;
use super::ids::{CallId, ConnId};
use super::io::Output;
use super::server::Step;

/// The most replaced connections that wait for their last replies. One more ends the oldest, so a server that keeps
/// failing does not collect connections.
const REPLACED_MAX: usize = 4;

/// The command connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    current: Option<CommandConnection>,
    /// The replaced connections with calls in flight, the oldest first.
    replaced: Vec<CommandConnection>,
}

impl Connections {
    pub(super) const fn current(&self) -> Option<&CommandConnection> {
        self.current.as_ref()
    }

    pub(super) const fn current_mut(&mut self) -> Option<&mut CommandConnection> {
        self.current.as_mut()
    }

    pub(super) fn is_current(&self, id: ConnId) -> bool {
        self.current().is_some_and(|current| current.id == id)
    }

    pub(super) fn set_current(&mut self, connection: CommandConnection) {
        debug_assert!(self.current.is_none(), "a connection is made when there is none");
        self.current = Some(connection);
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&CommandConnection> {
        self.current.iter().chain(&self.replaced).find(|connection| connection.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut CommandConnection> {
        self.all_mut().find(|connection| connection.id == id)
    }

    /// Lets the next call make a new connection. Returns the connection that is one too many, if there is one.
    pub(super) fn retire_current(&mut self) -> Option<ConnId> {
        self.replaced.extend(self.current.take());
        (self.replaced.len() > REPLACED_MAX).then(|| self.replaced[0].id)
    }

    /// Closes the replaced connections that have brought their last reply.
    pub(super) fn close_idle(&mut self, step: &mut Step<'_>) {
        self.replaced.retain(|connection| {
            let has_calls = !connection.pipeline.is_empty();
            if !has_calls {
                step.output(Output::Reset(connection.id));
            }
            has_calls
        });
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, id: ConnId) -> Option<CommandConnection> {
        match self.replaced.iter().position(|replaced| replaced.id == id) {
            Some(index) => Some(self.replaced.remove(index)),
            None => self.current.take_if(|current| current.id == id),
        }
    }

    /// Notes that the submitter of a call has left. Returns true if the call is in flight, or waits for replicas.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        self.all_mut().any(|connection| connection.pipeline.abandon(id) || connection.round.abandon(id))
    }

    /// Returns the connections with a call whose time is over.
    pub(super) fn overdue(&mut self, now: Moment) -> Vec<ConnId> {
        let overdue = self
            .all_mut()
            .filter_map(|connection| connection.pipeline.is_overdue(now).then_some(connection.id));
        overdue.collect()
    }

    /// Returns true if the server owes a reply and gives none for a while, and once a second from then on.
    pub(super) fn are_silent(&mut self, now: Moment) -> bool {
        let mut are_silent = false;
        for connection in self.all_mut() {
            are_silent |= connection.pipeline.is_silent(now);
        }
        are_silent
    }

    /// Returns true if no call is in flight.
    pub(super) fn are_idle(&self) -> bool {
        self.current.iter().chain(&self.replaced).all(|connection| connection.pipeline.is_empty())
    }

    pub(super) fn ids(&self) -> Vec<ConnId> {
        self.current.iter().chain(&self.replaced).map(|connection| connection.id).collect()
    }

    /// Returns a time before which no call in flight ends, and no server counts as silent.
    pub(super) fn timer(&self) -> Moment {
        let timers = self.current.iter().chain(&self.replaced).map(|connection| connection.pipeline.timer());
        timers.min().unwrap_or(Moment::NEVER)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut CommandConnection> {
        self.current.iter_mut().chain(&mut self.replaced)
    }
}
