//! A wait queue: the local waiters of one name, in the order in which they came, and the attempts for them.
//!
//! Invariant: the queue owns the attempts, not the waiters. A waiter that leaves takes nothing with it, and a grant
//! goes to the waiter that is first when it arrives. The waiters are a list through the acquires themselves, so one
//! joins or leaves at the same cost at any length.

use crate::engine::base::table::Table;
use crate::engine::tickets::ticket::Ticket;
use crate::engine::waits::acquire::{Acquire, Links, Stage};
use crate::engine::waits::server_queue::ServerQueue;
use crate::engine::waits::tries::Tries;
use std::time::Duration;

use crate::id::Id;
use crate::moment::Moment;

/// The most attempts that a queue makes at once. It is as many as the calls that a connection has in flight, so more of
/// them would only wait in the client.
const ATTEMPTS_MAX: u32 = 512;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct Queue {
    first: Option<Id>,
    last: Option<Id>,
    len: u32,
    /// The attempts of the queue, of which one is for the first waiter.
    pub(in crate::engine) tries: Tries,
    /// The number of further attempts that are on their way.
    extra: u32,
    /// Those of them that were sent before the last news. Their refusal does not say what is there now.
    outdated: u32,
    /// The number of attempts that may be on their way at once. Each grant doubles it, and a refusal ends that.
    window: u32,
    /// The time of a refusal, until there is news. A grant to an attempt that was sent before does not suggest that more
    /// is there.
    closed_at: Option<Moment>,
    /// The units that this client itself has given back since the last refusal, and that no grant has taken.
    given_back: u32,
    /// The messages that this client's own releases will bring, and the time until which they are expected.
    echoes: (u32, Moment),
    /// The time until which a message may still announce the release that preceded the grant to this client.
    stale_until: Moment,
    /// The time from which the queue makes attempts although this client holds the name, because a message has
    /// announced a release.
    recheck_from: Moment,
    /// What the server's own queue needs.
    pub(in crate::engine) server: ServerQueue,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: None,
            last: None,
            len: 0,
            tries: Tries::default(),
            extra: 0,
            outdated: 0,
            window: 1,
            closed_at: None,
            given_back: 0,
            echoes: (0, Moment::default()),
            stale_until: Moment::default(),
            recheck_from: Moment::NEVER,
            server: ServerQueue::default(),
        }
    }
}

impl Queue {
    pub(in crate::engine) const fn first(&self) -> Option<Id> {
        self.first
    }

    pub(in crate::engine) const fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(in crate::engine) const fn len(&self) -> u32 {
        self.len
    }

    /// Returns true if neither a waiter nor an attempt is left.
    pub(in crate::engine) fn is_over(&self) -> bool {
        self.is_empty() && self.tries.call.is_none() && self.extra == 0 && !self.server.has_call()
    }

    /// Returns true if no attempt of the queue is on its way.
    pub(in crate::engine) const fn makes_no_attempt(&self) -> bool {
        self.tries.call.is_none() && self.extra == 0
    }

    /// Returns the number of attempts that may be on their way in addition to the first one.
    pub(in crate::engine) const fn room_for_extra(&self) -> u32 {
        (self.window - 1).saturating_sub(self.extra)
    }

    /// Notes a grant to an attempt of this time: more may be there, unless a refusal came since. A grant of units that this
    /// client itself has given back is no news.
    pub(in crate::engine) fn widen(&mut self, sent_at: Moment) {
        let is_news = self.given_back == 0;
        self.closed_at = self.closed_at.filter(|closed_at| !is_news || sent_at <= *closed_at);
        if self.closed_at.is_none() {
            self.window = (self.window * 2).min(ATTEMPTS_MAX);
        }
    }

    /// Notes a refusal: nothing more is there.
    pub(in crate::engine) const fn close(&mut self, now: Moment) {
        (self.window, self.closed_at, self.given_back) = (1, Some(now), 0);
    }

    /// Notes an answer that does not say what is there: a failure, or a refusal from before the last news.
    pub(in crate::engine) fn narrow(&mut self) {
        self.window = self.given_back.clamp(1, ATTEMPTS_MAX);
    }

    /// Notes news: something may be there again.
    pub(in crate::engine) const fn reopen(&mut self) {
        (self.closed_at, self.outdated) = (None, self.extra);
    }

    /// Notes that an attempt for a further waiter was sent.
    pub(in crate::engine) const fn extra_sent(&mut self) {
        self.extra += 1;
    }

    /// Notes the answer to the oldest attempt for a further waiter. Returns true if there was news since it was sent.
    pub(in crate::engine) const fn extra_answered(&mut self) -> bool {
        let is_outdated = self.outdated > 0;
        (self.extra, self.outdated) = (self.extra - 1, self.outdated.saturating_sub(1));
        is_outdated
    }

    /// Notes that this client itself has given back so many units, which are enough for as many waiters.
    pub(in crate::engine) fn admit(&mut self, units: u32) {
        self.window = units.clamp(1, ATTEMPTS_MAX);
        self.given_back = self.given_back.saturating_add(units);
        self.outdated = self.extra;
    }

    /// Notes that a grant has taken so many units.
    pub(in crate::engine) const fn take(&mut self, units: u32) {
        self.given_back = self.given_back.saturating_sub(units);
    }

    /// Returns true if a grant suggests that more is there.
    pub(in crate::engine) const fn is_open(&self) -> bool {
        self.closed_at.is_none() || self.given_back > 0
    }

    /// Notes a release of this client that its own subscription will hear until then. What is expected already keeps
    /// its time: if one of those messages was lost, a later release must not have another client's message taken for it.
    pub(in crate::engine) fn expect_echoes(&mut self, now: Moment, messages: u32, until: Moment) {
        self.forget_late_echoes(now);
        let until = if self.echoes.0 == 0 { until } else { self.echoes.1 };
        self.echoes = (self.echoes.0 + messages, until);
    }

    /// Notes that a release of this client has sent no messages after all. Returns true if others were taken for them.
    pub(in crate::engine) const fn unexpect_echoes(&mut self, messages: u32) -> bool {
        let taken = self.echoes.0 < messages;
        self.echoes.0 = self.echoes.0.saturating_sub(messages);
        taken
    }

    /// Forgets what was expected, since messages were lost.
    pub(in crate::engine) const fn forget_echoes(&mut self) {
        self.echoes.0 = 0;
    }

    /// Forgets what was expected until now.
    fn forget_late_echoes(&mut self, now: Moment) {
        if now >= self.echoes.1 {
            self.forget_echoes();
        }
    }

    /// Notes a grant to this client. A message until then may be older than the grant.
    pub(in crate::engine) const fn note_grant(&mut self, stale_until: Moment) {
        (self.stale_until, self.recheck_from) = (stale_until, Moment::NEVER);
    }

    /// Notes a message while this client holds the name. Its own last release may have sent it, and any other message
    /// means that the lock was taken away.
    pub(in crate::engine) fn note_message(&mut self, now: Moment, is_echo: bool) {
        let recheck = if is_echo { self.stale_until.max(now) } else { now };
        self.recheck_from = self.recheck_from.min(recheck);
    }

    /// Returns the time until the queue makes an attempt although this client holds the name. Zero is returned once for
    /// each message.
    pub(in crate::engine) fn recheck_in(&mut self, now: Moment) -> Duration {
        let left = self.recheck_from.since(now);
        if left.is_zero() {
            self.recheck_from = Moment::NEVER;
        }
        left
    }

    /// Returns true if a message is this client's own.
    pub(in crate::engine) fn takes_echo(&mut self, now: Moment) -> bool {
        self.forget_late_echoes(now);
        let takes = self.echoes.0 > 0;
        self.echoes.0 = self.echoes.0.saturating_sub(1);
        takes
    }

    /// Puts a waiter behind the others.
    pub(in crate::engine) fn push(&mut self, tickets: &mut Table<Id, Ticket>, id: Id) {
        let before = self.last;
        let links = links_mut(tickets, id);
        debug_assert!(
            links.as_ref().is_some_and(|links| links.is_none()),
            "{id:?} is no waiter, or queued already"
        );
        if let Some(links) = links {
            *links = Some(Links { before, after: None });
        }
        match before.and_then(|before| links_mut(tickets, before)) {
            Some(Some(links)) => links.after = Some(id),
            _ => self.first = Some(id),
        }
        self.last = Some(id);
        self.len += 1;
    }

    /// Takes a waiter out, whose links are taken from it already.
    pub(in crate::engine) fn unlink(
        &mut self,
        tickets: &mut Table<Id, Ticket>,
        Links { before, after }: Links,
    ) {
        match before.and_then(|before| links_mut(tickets, before)) {
            Some(Some(links)) => links.after = after,
            _ => self.first = after,
        }
        match after.and_then(|after| links_mut(tickets, after)) {
            Some(Some(links)) => links.before = before,
            _ => self.last = before,
        }
        self.len -= 1;
        self.server.left = self.server.left.wrapping_add(1);
    }

    /// Returns the waiters from the first one on.
    pub(in crate::engine) fn waiters<'a>(
        &self,
        tickets: &'a Table<Id, Ticket>,
    ) -> impl Iterator<Item = (Id, &'a Acquire)> {
        let next = move |id: Id| match tickets.get(id) {
            Some(Ticket::Acquire(acquire)) => Some((id, &**acquire)),
            _ => None,
        };
        std::iter::successors(self.first.and_then(next), move |(_, acquire)| {
            let links = acquire.waiter()?.linked?;
            links.after.and_then(next)
        })
    }
}

/// Returns the links of a waiter.
fn links_mut(tickets: &mut Table<Id, Ticket>, id: Id) -> Option<&mut Option<Links>> {
    let Some(Ticket::Acquire(acquire)) = tickets.get_mut(id) else { return None };
    match &mut acquire.stage {
        Stage::Waiting(waiter) => Some(&mut waiter.linked),
        _ => None,
    }
}
