//! The connections' current login, as the credentials provider gave it, and the time to ask for the next one.
//!
//! Invariant: the wire asks for credentials only while a connection is open, once at a time, and at least [`PAUSE_MIN`]
//! after the last answer. Each dial brings its own credentials, and no other connection uses them. Otherwise, with a
//! provider that signs a new token per call, n connections would each log in n times.

use std::time::Duration;

use leasehold_proto::Moment;

use super::io::Output;
use crate::url::Credentials;

/// The shortest time between an answer of the provider and the next request, so that credentials without a useful
/// lifetime do not make the client ask in a loop.
const PAUSE_MIN: Duration = Duration::from_millis(250);
/// The first and the longest pause after a provider or a server has refused. A refusal rarely ends by itself, so the
/// pauses are longer than those of an attempt to connect.
const REFUSED_MIN: Duration = Duration::from_secs(1);
const REFUSED_MAX: Duration = Duration::from_secs(30);

/// Credentials with their number. Credentials for all connections have a higher one than all before them, and those of a
/// dial have that of the last ones for all. A connection to a sentinel does not repeat its login.
#[derive(Debug)]
pub(super) struct Login {
    pub(super) credentials: Credentials,
    pub(super) number: u64,
}

/// The time of the next request for credentials.
#[derive(Debug)]
pub(super) struct Renewal {
    due: Moment,
    is_asked: bool,
    /// True once a server has refused the login on an open connection, which must try again.
    was_refused: bool,
    pause: Duration,
}

impl Renewal {
    pub(super) const fn new() -> Self {
        Self { due: Moment::NEVER, is_asked: false, was_refused: false, pause: REFUSED_MIN }
    }

    /// Notes that the provider has answered with credentials. Returns true if open connections must log in even if the
    /// credentials are the same as before.
    pub(super) fn arrived(&mut self, now: Moment, credentials: &Credentials) -> bool {
        self.is_asked = false;
        self.due = due(now, credentials);
        std::mem::take(&mut self.was_refused)
    }

    /// Notes that a dial has credentials of its own. The next request is due before the first ones expire.
    pub(super) fn dialed(&mut self, now: Moment, credentials: &Credentials) {
        if !self.is_asked {
            self.due = self.due.min(due(now, credentials));
        }
    }

    /// Notes that a server refused a login on an open connection.
    pub(super) fn refused(&mut self, now: Moment) {
        self.was_refused = true;
        self.failed(now);
    }

    /// Notes that the provider gave no credentials.
    pub(super) fn failed(&mut self, now: Moment) {
        self.is_asked = false;
        self.due = self.due.min(now + self.pause);
        self.pause = (self.pause * 2).min(REFUSED_MAX);
    }

    /// Notes that a server took a login.
    pub(super) const fn took(&mut self) {
        self.pause = REFUSED_MIN;
    }

    /// Asks for credentials, if it is time.
    pub(super) fn tick(&mut self, now: Moment, has_connection: bool, outputs: &mut Vec<Output>) {
        if self.due > now {
            return;
        }
        self.due = Moment::NEVER;
        // A connection that is made later brings credentials of its own.
        if has_connection && !std::mem::replace(&mut self.is_asked, true) {
            outputs.push(Output::Login);
        }
    }

    /// Asks for no more.
    pub(super) const fn stop(&mut self) {
        self.due = Moment::NEVER;
    }

    pub(super) const fn timer(&self) -> Moment {
        self.due
    }
}

/// Returns the time at which credentials are replaced.
fn due(now: Moment, credentials: &Credentials) -> Moment {
    let after = |lifetime: Duration| now + (lifetime - lifetime / 4).max(PAUSE_MIN);
    credentials.lifetime.map_or(Moment::NEVER, after)
}

#[cfg(test)]
mod tests;
