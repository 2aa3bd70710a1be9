//! A connection from its dialing to the end of its handshake.
//!
//! Invariant: an opening ends within its limit, whatever the other end sends. Once a connection is open, no reply
//! follows that of its last handshake command.

use std::io;
use std::time::Duration;

use leasehold_proto::{Applied, Moment, StoreErrorKind};

use super::codec::Decoder;
use super::handshake::{Greeted, Handshake, Terms, asks_for_resp3};
use super::ids::ConnId;
use super::login::Login;
use super::outgoing::Outgoing;
use super::secret::Secret;
use crate::redis::breach::Breach;
use crate::redis::error::Failure;

/// A connection that is not ready for commands.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) id: ConnId,
    pub(super) outgoing: Outgoing,
    decoder: Decoder,
    until: Moment,
    /// The credentials that the provider has given for this connection alone.
    own_login: Option<Login>,
    /// The number of the login of the handshake.
    login: u64,
    /// Absent while the driver dials.
    handshake: Option<Handshake>,
    /// True once the server has sent bytes.
    has_heard: bool,
}

/// A connection that is ready for commands.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) id: ConnId,
    pub(super) outgoing: Outgoing,
    pub(super) decoder: Decoder,
    /// The number of the login.
    pub(super) login: u64,
    pub(super) greeted: Greeted,
    /// The password, which no error of the connection may repeat.
    pub(super) secret: Secret,
}

impl Opening {
    pub(super) fn new(id: ConnId, now: Moment, limit: Duration) -> Self {
        let (outgoing, decoder) = (Outgoing::default(), Decoder::default());
        Self {
            id,
            outgoing,
            decoder,
            until: now + limit,
            own_login: None,
            login: 0,
            handshake: None,
            has_heard: false,
        }
    }

    /// Returns the time at which the attempt ends.
    pub(super) const fn timer(&self) -> Moment {
        self.until
    }

    /// Logs in with these credentials, and not with the other connections'.
    pub(super) fn set_login(&mut self, login: Login) {
        self.own_login = Some(login);
    }

    /// Sends the first commands over the stream that the driver has got.
    pub(super) fn connected(&mut self, terms: Terms<'_>) {
        let own_login = self.own_login.take();
        let terms = Terms { login: own_login.as_ref().or(terms.login), ..terms };
        self.decoder.accept_resp3(asks_for_resp3(terms));
        self.login = terms.login.map_or(0, |login| login.number);
        self.handshake = Some(Handshake::begin(terms, self.outgoing.buffer()));
    }

    /// Returns true if the server has got a stream, and has said nothing over it.
    pub(super) const fn is_mute(&self) -> bool {
        self.handshake.is_some() && !self.has_heard
    }

    /// Takes bytes. Returns true if the handshake has ended well.
    pub(super) fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<Greeted>, Failure> {
        let breach = |breach| Failure::breach(breach).of_unsent();
        self.has_heard = true;
        let Some(handshake) = &mut self.handshake else { return Err(breach(Breach::Unasked)) };
        while let Some(value) = self.decoder.next(&mut bytes).map_err(breach)? {
            let answered = handshake.answer(value, self.outgoing.buffer());
            if let Some(greeted) = answered.map_err(Failure::of_unsent)? {
                let is_between = bytes.is_empty() && self.outgoing.is_empty();
                return if is_between { Ok(Some(greeted)) } else { Err(breach(Breach::Unasked)) };
            }
        }
        Ok(None)
    }

    /// Returns the failure of an attempt whose time is over.
    pub(super) fn timed_out(&self) -> Failure {
        match self.handshake {
            Some(_) => Failure::new(StoreErrorKind::Timeout, Applied::No),
            None => Failure::unreachable(io::ErrorKind::TimedOut.into()),
        }
    }

    pub(super) fn opened(mut self, greeted: Greeted) -> Opened {
        self.decoder.accept_resp3(greeted.resp3);
        let Self { id, outgoing, decoder, login, handshake, .. } = self;
        let secret = handshake.map(Handshake::into_secret).unwrap_or_default();
        Opened { id, outgoing, decoder, login, greeted, secret }
    }
}
