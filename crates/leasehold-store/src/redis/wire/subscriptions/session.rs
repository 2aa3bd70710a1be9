//! One connection that carries subscriptions, from its opening to its end.
//!
//! Invariant: the server answers every command once and in order, so an answer belongs to the oldest pending command.
//! Only the end of a sharded subscription may come unasked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::Moment;

use super::changes::{Pending, gathered};
use super::incoming::Incoming;
use super::table::SubscriptionTable;
use crate::redis::channels::Channels;
use crate::redis::error::{Failure, Redirection};
use crate::redis::wire::codec::Decoder;
use crate::redis::wire::ids::ConnId;
use crate::redis::wire::io::Output;
use crate::redis::wire::login::Login;
use crate::redis::wire::opening::Opened;
use crate::redis::wire::outgoing::Outgoing;
use crate::redis::wire::value::malformed;

/// The longest wait for an answer, after which the connection counts as dead. Until then its waiters poll, so this can
/// be longer than the timeout of a call.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// The interval of pings on a connection without other commands. Without them nothing would show that a quiet
/// connection has died.
const PING_EVERY: Duration = Duration::from_secs(10);
/// The pause after a refused subscription, which usually means that the user lacks a right. An operator may grant it at
/// any time.
const RETRY_REFUSED_AFTER: Duration = Duration::from_secs(1);
/// The maximum number of pending answers, one for each channel. Further changes wait in the subscription table, where
/// they can be withdrawn.
const PENDING_MAX: usize = 1024;
/// The number of answers for which there must be room before the next commands, so that many changes do not travel one
/// by one behind each answer.
const ROOM_MIN: usize = PENDING_MAX / 2;
/// The interval at which idle subscriptions age, so they end after 100 to 200 ms. A waiter that comes back soon finds
/// its subscription, but a release does not count a client without waiters as a listener for long.
const IDLE_FOR: Duration = Duration::from_millis(100);

/// One connection and its pending commands.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: ConnId,
    pub(super) outgoing: Outgoing,
    decoder: Decoder,
    channels: Channels,
    pending: VecDeque<Pending>,
    /// The number of pending answers.
    outstanding: usize,
    /// The time at which the session acts if no answer comes.
    silent_at: Moment,
    /// The time at which idle subscriptions age, or [`Moment::NEVER`].
    age_at: Moment,
    /// The time at which the refused channels are requested again, or [`Moment::NEVER`]. Other traffic does not move it.
    retry_at: Moment,
    /// The servers to which this one has directed channels since the last look.
    redirections: Vec<Redirection>,
    /// The number of the login.
    login: u64,
    resp3: bool,
    /// For each login that was answered since the last look, true if the server took it.
    logins: Vec<bool>,
    was_useful: bool,
}

impl Session {
    pub(super) fn new(
        opened: Opened,
        channels: Channels,
        now: Moment,
        table: &mut SubscriptionTable,
    ) -> Self {
        table.start_over();
        let mut session = Self {
            id: opened.id,
            outgoing: opened.outgoing,
            decoder: opened.decoder,
            channels,
            pending: VecDeque::new(),
            outstanding: 0,
            silent_at: Moment::NEVER,
            age_at: Moment::NEVER,
            retry_at: Moment::NEVER,
            redirections: Vec::new(),
            login: opened.login,
            resp3: opened.greeted.resp3,
            logins: Vec::new(),
            was_useful: false,
        };
        session.advance(now, table);
        session.silent_at = now + session.longest_silence();
        session
    }

    /// Returns true if the server has confirmed a subscription on this connection.
    pub(super) const fn was_useful(&self) -> bool {
        self.was_useful
    }

    /// Takes the servers to which this one has directed channels.
    pub(super) fn take_redirections(&mut self) -> Vec<Redirection> {
        std::mem::take(&mut self.redirections)
    }

    /// Takes the answers to logins, each true if the server took it.
    pub(super) fn take_logins(&mut self) -> Vec<bool> {
        std::mem::take(&mut self.logins)
    }

    /// Returns the number of the login.
    pub(super) const fn login(&self) -> u64 {
        self.login
    }

    /// Logs in again. Returns false if the connection takes no login.
    pub(super) fn log_in(&mut self, now: Moment, login: &Arc<Login>) -> bool {
        if self.resp3 {
            self.login = login.number;
            let was_idle = self.pending.is_empty();
            self.send([Pending::Login(Arc::clone(login))]);
            if was_idle {
                self.silent_at = now + self.longest_silence();
            }
        }
        self.resp3
    }

    pub(super) fn timer(&self) -> Moment {
        self.silent_at.min(self.age_at).min(self.retry_at)
    }

    /// Takes bytes. A failure ends the session.
    pub(super) fn receive(
        &mut self,
        now: Moment,
        mut bytes: &[u8],
        table: &mut SubscriptionTable,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Failure> {
        let before = self.outstanding;
        while let Some(value) = self.decoder.next(&mut bytes).map_err(Failure::breach)? {
            self.take(Incoming::read(value)?, table, outputs)?;
        }
        self.act(now, before, table);
        Ok(())
    }

    /// Acts on a change of the table, or on the time. A failure ends the session.
    pub(super) fn tick(&mut self, now: Moment, table: &mut SubscriptionTable) -> Result<(), Failure> {
        let before = self.outstanding;
        if self.age_at <= now {
            table.age();
            self.age_at = Moment::NEVER;
        }
        if self.retry_at <= now {
            table.retry_refused();
            self.retry_at = Moment::NEVER;
        }
        if self.silent_at <= now {
            if !self.pending.is_empty() {
                return Err(malformed());
            }
            self.send([Pending::Ping]);
            self.silent_at = now + ANSWER_WITHIN;
        }
        self.act(now, before, table);
        Ok(())
    }

    /// Sends what there is to send, and sets the timers. `before` is the number of answers that were pending before the
    /// event.
    fn act(&mut self, now: Moment, before: usize, table: &mut SubscriptionTable) {
        let was_answered = self.outstanding < before;
        self.advance(now, table);
        if self.retry_at == Moment::NEVER && table.has_refused() {
            self.retry_at = now + RETRY_REFUSED_AFTER;
        }
        // The first command and every answer restart the clock. Messages do not touch it.
        if was_answered || (before == 0 && !self.pending.is_empty()) {
            self.silent_at = now + self.longest_silence();
        }
    }

    /// Sends the changes of the table, as far as there is room for pending commands.
    fn advance(&mut self, now: Moment, table: &mut SubscriptionTable) {
        let room = PENDING_MAX.saturating_sub(self.outstanding);
        if room >= ROOM_MIN {
            self.send(gathered(std::iter::from_fn(|| table.next_change()).take(room), self.channels));
        }
        if self.age_at == Moment::NEVER && table.has_idle() {
            self.age_at = now + IDLE_FOR;
        }
    }

    /// Returns the longest silence before the session must act.
    fn longest_silence(&self) -> Duration {
        if self.pending.is_empty() { PING_EVERY } else { ANSWER_WITHIN }
    }

    fn send(&mut self, commands: impl IntoIterator<Item = Pending>) {
        for command in commands {
            command.encode(self.channels, self.outgoing.buffer());
            self.outstanding += command.answers();
            self.pending.push_back(command);
        }
    }

    fn take(
        &mut self,
        incoming: Incoming,
        table: &mut SubscriptionTable,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Failure> {
        let outcome = match incoming {
            Incoming::Message { channel, payload } => {
                // The channels of all subscribers are text, so bytes that are not text have no subscriber.
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    table.deliver(channel, &payload, outputs);
                }
                return Ok(());
            }
            Incoming::Left { channel } if !self.requested_leave(&channel) => {
                if let Ok(channel) = std::str::from_utf8(&channel) {
                    table.lose(channel);
                }
                return Ok(());
            }
            Incoming::LoggedIn if !matches!(self.pending.front(), Some(Pending::Login(_))) => {
                return Err(malformed());
            }
            Incoming::Left { .. } | Incoming::LoggedIn => Ok(()),
            Incoming::Answer(outcome) => outcome,
        };
        self.answered(outcome, table, outputs)
    }

    /// Handles an answer to the oldest command. A command that succeeds has an answer for each of its channels, in their
    /// order, and a command that fails has one answer.
    fn answered(
        &mut self,
        outcome: Result<(), Failure>,
        table: &mut SubscriptionTable,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Failure> {
        let oldest = self.pending.front_mut().ok_or(malformed())?;
        self.outstanding -= oldest.answers();
        match (&mut *oldest, outcome) {
            // The earlier login still counts.
            (Pending::Login(_), outcome) => {
                self.logins.push(outcome.is_ok());
                *oldest = Pending::Leave(VecDeque::new());
            }
            (_, Err(failure)) if failure.spoils_connection() => return Err(failure),
            (Pending::Join(channels), Ok(())) => {
                if let Some(channel) = channels.pop_front() {
                    table.confirm(&channel, outputs);
                }
                self.was_useful = true;
            }
            // The session requests the channels again later, and serves the other channels meanwhile.
            (Pending::Join(channels), Err(failure)) => {
                self.redirections.extend(failure.redirection().cloned());
                table.refuse(channels.drain(..));
            }
            (Pending::Leave(channels), Ok(())) => {
                if let Some(channel) = channels.pop_front() {
                    table.left(&channel);
                }
            }
            (Pending::Leave(channels), Err(_)) => channels.drain(..).for_each(|channel| table.left(&channel)),
            (Pending::Ping, _) => *oldest = Pending::Leave(VecDeque::new()),
        }
        self.outstanding += oldest.answers();
        if oldest.answers() == 0 {
            self.pending.pop_front();
        }
        Ok(())
    }

    /// Returns true if the oldest command was to leave this channel.
    fn requested_leave(&self, left: &[u8]) -> bool {
        let oldest = self.pending.front();
        matches!(oldest, Some(Pending::Leave(channels)) if channels.front().is_some_and(|next| next.as_str().as_bytes() == left))
    }
}

#[cfg(test)]
mod tests;
