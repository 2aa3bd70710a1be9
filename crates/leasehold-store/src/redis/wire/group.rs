//! A group of calls that share one confirmation by replicas.
//!
//! Invariant: a call of a group has an outcome only after enough replicas have acknowledged its effect, or with an error
//! that says that they have not. An acknowledgment counts for the calls of the connection that brought it, and for no
//! others: a replaced connection can have a group under way beside that of the next one.
//!
//! # How it works
//! `WAIT` covers everything that its own connection wrote before it, and blocks the connection until it answers. So
//! calls that arrive while a group is on its way gather for the next one, and a group costs one round trip to the
//! replicas, however many calls it has. A call that was not executed, or that needs no replicas, goes out of the group
//! at once, and a group of such calls has no `WAIT`. A script that the server has forgotten is sent again behind
//! `WAIT`, so another `WAIT` follows it.
//!
//! Calls with different policies share a group. It waits for the call that needs the most replicas, and each call then
//! counts by its own policy.

use std::time::Duration;

use leasehold_proto::{Applied, Moment, Reply, StoreErrorKind};

use super::batch::{Outcome, PendingCall};
use super::ids::CallId;
use super::value::{Value, server_error};
use crate::confirm::{Confirmation, OnMissing};
use crate::redis::error::Failure;

/// How long a count of the replicas is used. Counting costs one more command, so it is done at most once a second.
const COUNT_HOLDS: Duration = Duration::from_secs(1);

/// What is known of the replicas of one part's calls.
#[derive(Debug)]
pub(super) struct Group {
    terms: Confirmation,
    /// The number of connected replicas, and the time until which it holds.
    connected: (u32, Moment),
}

/// The group under way on one connection.
#[derive(Debug)]
pub(super) struct Round {
    /// The calls that were executed, until the replicas have answered.
    executed: Vec<(PendingCall, Reply)>,
    /// The most acknowledgments that a call of the group needs, or `None` if no call needs replicas.
    wanted: Option<u32>,
    /// The most replicas that the policy of a call asks for.
    asked: u32,
    until: Moment,
}

impl Default for Round {
    fn default() -> Self {
        Self { executed: Vec::new(), wanted: None, asked: 0, until: Moment::NEVER }
    }
}

impl Round {
    /// Returns true if a call of the group needs replicas.
    pub(super) const fn needs_replicas(&self) -> bool {
        self.wanted.is_some()
    }

    /// Returns the time at which the group ends without an answer.
    pub(super) const fn until(&self) -> Moment {
        self.until
    }

    /// Keeps the calls that were executed and whose effect needs replicas. Returns the outcomes of the others. A refusal
    /// has no effect, so it does not wait for replicas that are away.
    pub(super) fn keep(&mut self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let mut others = Vec::new();
        for (call, outcome) in outcomes {
            match outcome {
                Ok(reply) if call.call.needs_replicas_for(&reply) => self.executed.push((call, reply)),
                _ => others.push((call, outcome)),
            }
        }
        others
    }

    /// Ends the group with its connection. Returns the calls, whose outcomes are unknown.
    pub(super) fn end(&mut self) -> Vec<PendingCall> {
        self.executed.drain(..).map(|(call, _)| call).collect()
    }

    /// Notes that the submitter of a call has left. Returns true if the call is here.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        let call = self.executed.iter_mut().find(|(call, _)| call.id == id);
        call.map(|(call, _)| call.is_abandoned = true).is_some()
    }
}

impl Group {
    pub(super) fn new(terms: Confirmation) -> Self {
        Self { terms, connected: (0, Moment::default()) }
    }

    /// Returns true if the replicas must be counted before these calls, which are the next group.
    pub(super) fn must_count<'a>(
        &self,
        now: Moment,
        mut calls: impl Iterator<Item = &'a PendingCall>,
    ) -> bool {
        self.connected.1 <= now && calls.any(|call| self.counts_connected(call))
    }

    /// Returns true if the connected replicas decide how many acknowledgments a call needs.
    pub(super) fn counts_connected(&self, call: &PendingCall) -> bool {
        call.needs_replicas() && self.terms_of(call).counts_connected()
    }

    fn terms_of(&self, call: &PendingCall) -> Confirmation {
        self.terms.of(call.call.replicas())
    }

    /// Takes the answer to `INFO replication`. Fails if the server did not say how many replicas it has.
    pub(super) fn counted(&mut self, now: Moment, info: &Value) -> Result<(), Failure> {
        let text = match info {
            Value::Error(text) => return Err(server_error(text).of_unsent()),
            _ => info.text().filter(|text| text.contains("role:")),
        };
        let text = text.ok_or_else(|| Failure::new(StoreErrorKind::Malformed, Applied::No))?;
        let lines = text.lines();
        let is_online = |line: &&str| {
            let replica = line.strip_prefix("slave").and_then(|rest| rest.split_once(':'));
            replica.is_some_and(|(number, state)| {
                number.bytes().all(|byte| byte.is_ascii_digit()) && state.contains("state=online")
            })
        };
        let connected = lines.filter(is_online).count();
        self.connected = (u32::try_from(connected).unwrap_or(u32::MAX), now + COUNT_HOLDS);
        Ok(())
    }

    /// Adds a call to the group that has begun.
    pub(super) fn expect(&self, now: Moment, call: &PendingCall, round: &mut Round) {
        // The group before has just been answered, so the server works.
        round.until = round.until.min(call.deadline.sent(Some(now)));
        if call.needs_replicas() {
            let (wanted, asked) = self.terms_of(call).wanted(self.connected.0);
            round.wanted = round.wanted.max(Some(wanted));
            round.asked = round.asked.max(asked.unwrap_or(wanted));
        }
    }

    /// Returns the numbers of connected replicas and of those that the group asks for, if the client wants to know that
    /// some are missing.
    pub(super) fn warns_of(&self, round: &Round) -> Option<(u32, u32)> {
        (self.terms.on_missing == OnMissing::Warn).then_some((self.connected.0, round.asked))
    }

    /// Returns the command that waits for the replicas of the group.
    pub(super) fn wait(&self, round: &Round) -> Vec<String> {
        let within = self.terms.within.as_millis().max(1).to_string();
        let command = if self.terms.fsync {
            vec!["WAITAOF".to_owned(), "1".to_owned()]
        } else {
            vec!["WAIT".to_owned()]
        };
        command.into_iter().chain([round.wanted.unwrap_or_default().to_string(), within]).collect()
    }

    /// Returns the number of replicas that have acknowledged, or `None` if the server has not said it. Fails if the server
    /// has not written the group to its disk.
    fn acknowledged(&self, answer: &Value) -> Result<Option<u32>, Failure> {
        let count =
            |value: &Value| value.int().and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
        match answer {
            Value::Array(counts) if self.terms.fsync && counts.len() == 2 => match count(&counts[0]) {
                0 => Err(Failure::not_on_disk()),
                _ => Ok(Some(count(&counts[1]))),
            },
            Value::Int(_) if !self.terms.fsync => Ok(Some(count(answer))),
            // A user without the right to `WAIT`, for example. Nothing is known of the replicas then.
            Value::Error(text) => Err(Failure::not_counted(&String::from_utf8_lossy(text))),
            _ => Ok(None),
        }
    }

    /// Takes the answer to `WAIT`. Returns the outcomes of the executed calls, and true if a call has too few replicas.
    pub(super) fn answered(&mut self, answer: &Value, round: &mut Round) -> (Vec<Outcome>, bool) {
        let acknowledged = self.acknowledged(answer);
        let is_short = acknowledged.as_ref().ok().copied().flatten() < round.wanted;
        if is_short {
            // Fewer replicas may be connected now than were counted.
            self.forget_count();
        }
        let (terms, connected) = (self.terms, self.connected.0);
        let judge = |(call, reply): (PendingCall, Reply)| {
            let (wanted, _) = terms.of(call.call.replicas()).wanted(connected);
            let outcome = match &acknowledged {
                Ok(Some(acknowledged)) if *acknowledged >= wanted => Ok(reply),
                Ok(acknowledged) => Err(Failure::unconfirmed(acknowledged.unwrap_or_default(), wanted)),
                Err(failure) => Err(failure.clone()),
            };
            (call, outcome)
        };
        (round.executed.drain(..).map(judge).collect(), is_short)
    }

    /// Forgets the number of connected replicas, for example with a connection.
    pub(super) fn forget_count(&mut self) {
        self.connected.1 = Moment::default();
    }
}
