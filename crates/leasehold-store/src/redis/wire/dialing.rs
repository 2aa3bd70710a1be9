//! The attempts to connect to one server, for its calls or for its subscriptions.
//!
//! Invariant: at most one attempt is under way, and attempts keep the pace of `backoff`.

use leasehold_proto::{Moment, StoreErrorKind};

use super::backoff::Backoff;
use super::ids::ConnId;
use super::io::Output;
use super::login::Login;
use super::opening::{Opened, Opening};
use super::outgoing::Outgoing;
use super::report::Report;
use super::server::Step;
use crate::redis::error::Failure;

/// The present attempt, or the time of the next.
#[derive(Debug)]
pub(super) struct Dialing {
    state: State,
    backoff: Backoff,
}

#[derive(Debug)]
enum State {
    Idle,
    /// Waits until the next attempt may begin.
    Paused(Moment),
    Opening(Box<Opening>),
}

impl Dialing {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: State::Idle, backoff: Backoff::new(seed) }
    }

    /// Begins an attempt, or waits for its time, or for the address of the server. Returns true if an attempt begins
    /// now.
    pub(super) fn begin(&mut self, step: &mut Step<'_>) -> bool {
        if !matches!(self.state, State::Idle) {
            return false;
        }
        let Some(address) = step.server.address().cloned() else {
            step.report(Report::Unknown);
            return false;
        };
        let not_before = self.backoff.not_before();
        if not_before > step.now {
            self.state = State::Paused(not_before);
            return false;
        }
        let opening = Opening::new(step.server.next_conn(), step.now, step.server.limit());
        step.output(Output::Dial(opening.id, address, step.server.limit()));
        self.state = State::Opening(Box::new(opening));
        true
    }

    /// Returns true if this connection is being opened here.
    pub(super) fn is_opening(&self, id: ConnId) -> bool {
        matches!(&self.state, State::Opening(opening) if opening.id == id)
    }

    /// Gives the attempt credentials of its own.
    pub(super) fn set_login(&mut self, id: ConnId, login: Login) {
        if let Some(opening) = self.opening(id) {
            opening.set_login(login);
        }
    }

    /// Greets the server over a new stream.
    pub(super) fn connected(&mut self, step: &mut Step<'_>, id: ConnId) {
        if let Some(opening) = self.opening(id) {
            opening.connected(step.server.terms());
            opening.outgoing.announce(step, id);
        }
    }

    /// Takes bytes of the attempt. Returns the end of the attempt, if the bytes end it.
    pub(super) fn receive(
        &mut self,
        step: &mut Step<'_>,
        id: ConnId,
        bytes: &[u8],
    ) -> Option<Result<Opened, Failure>> {
        let opening = self.opening(id)?;
        match opening.receive(bytes) {
            Ok(None) => {
                opening.outgoing.announce(step, id);
                None
            }
            Ok(Some(greeted)) => {
                step.server.learn(&greeted);
                Some(Ok(self.end(step)?.opened(greeted)))
            }
            Err(failure) => {
                step.output(Output::Reset(id));
                self.end(step)?;
                Some(Err(failure))
            }
        }
    }

    /// Notes that the attempt got no stream, or that its stream has ended. Returns its failure, or `None` if it is another
    /// connection's.
    pub(super) fn ended(&mut self, step: &mut Step<'_>, id: ConnId, failure: &Failure) -> Option<Failure> {
        let is_mute = self.opening(id)?.is_mute() && failure.kind == StoreErrorKind::ConnectionLost;
        let is_plain = !step.server.terms().url.tls;
        self.end(step)?;
        Some(if is_mute { Failure::hung_up(is_plain) } else { failure.clone() })
    }

    /// Ends a pause, or an attempt whose time is over, which then has failed.
    pub(super) fn tick(&mut self, step: &mut Step<'_>) -> Option<Failure> {
        match &self.state {
            State::Paused(until) if *until <= step.now => {
                self.state = State::Idle;
                None
            }
            State::Opening(opening) if opening.timer() <= step.now => {
                let opening = self.end(step)?;
                step.output(Output::Reset(opening.id));
                Some(opening.timed_out())
            }
            _ => None,
        }
    }

    /// Notes that the connection is useful, so that the next attempt begins at once when it breaks.
    pub(super) fn was_useful(&mut self) {
        self.backoff.forget();
    }

    /// Notes that a connection broke before it was useful.
    pub(super) fn was_useless(&mut self, now: Moment) {
        self.backoff.attempted(now);
    }

    /// Ends the attempt without a result.
    pub(super) fn stop(&mut self, step: &mut Step<'_>) {
        if let Some(opening) = self.end(step) {
            step.output(Output::Reset(opening.id));
        }
        self.state = State::Idle;
    }

    /// Returns the earliest time at which [`tick`](Self::tick) has something to do.
    pub(super) const fn timer(&self) -> Moment {
        match &self.state {
            State::Idle => Moment::NEVER,
            State::Paused(until) => *until,
            State::Opening(opening) => opening.timer(),
        }
    }

    pub(super) fn outgoing(&mut self, id: ConnId) -> Option<&mut Outgoing> {
        self.opening(id).map(|opening| &mut opening.outgoing)
    }

    pub(super) fn unwritten(&self, id: ConnId) -> Option<&[u8]> {
        match &self.state {
            State::Opening(opening) if opening.id == id => Some(opening.outgoing.unwritten()),
            _ => None,
        }
    }

    fn opening(&mut self, id: ConnId) -> Option<&mut Opening> {
        match &mut self.state {
            State::Opening(opening) if opening.id == id => Some(opening),
            _ => None,
        }
    }

    fn end(&mut self, step: &Step<'_>) -> Option<Opening> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Opening(opening) => {
                self.backoff.attempted(step.now);
                Some(*opening)
            }
            other => {
                self.state = other;
                None
            }
        }
    }
}
