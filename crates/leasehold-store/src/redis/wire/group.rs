//! A group of calls whose effects replicas confirm together.
//!
//! Invariant: a call of a group has an outcome only after enough replicas have acknowledged its effect, or with an error
//! that says that they have not.
//!
//! # How it works
//! `WAIT` answers for everything that its own connection has written before it, and keeps the connection until then. So
//! the calls that come while a group is on its way gather for the next one, and a group costs one round trip to the
//! replicas, however many calls it has. A call that was not executed, or that needs no replicas, goes out of the group at
//! once, and a group of such calls has no `WAIT`. A script that the server has forgotten is sent again behind `WAIT`, so
//! another `WAIT` follows it.

use std::time::Duration;

use leasehold_proto::{Moment, Reply};

use super::batch::PendingCall;
use super::connection::Outcome;
use super::ids::CallId;
use super::value::Value;
use crate::confirm::Confirmation;
use crate::redis::error::Failure;

/// The time for which a count of the replicas holds.
const COUNT_HOLDS: Duration = Duration::from_secs(1);

/// The group under way, and what is known of the replicas.
#[derive(Debug)]
pub(super) struct Group {
    terms: Confirmation,
    /// The calls that were executed, until the replicas have answered.
    executed: Vec<(PendingCall, Reply)>,
    /// The acknowledgments that the group needs.
    wanted: u32,
    until: Moment,
    /// The number of connected replicas, and the time until which it holds.
    connected: (u32, Moment),
}

impl Group {
    pub(super) fn new(terms: Confirmation) -> Self {
        Self {
            terms,
            executed: Vec::new(),
            wanted: 0,
            until: Moment::NEVER,
            connected: (0, Moment::default()),
        }
    }

    /// Returns true if the replicas must be counted before the next group.
    pub(super) fn must_count(&self, now: Moment) -> bool {
        self.terms.counts_connected() && self.connected.1 <= now
    }

    /// Takes the answer to `INFO replication`.
    pub(super) fn counted(&mut self, now: Moment, info: &Value) {
        let lines = info.text().unwrap_or_default().lines();
        let is_online = |line: &&str| {
            let replica = line.strip_prefix("slave").and_then(|rest| rest.split_once(':'));
            replica.is_some_and(|(number, state)| {
                number.bytes().all(|byte| byte.is_ascii_digit()) && state.contains("state=online")
            })
        };
        let connected = lines.filter(is_online).count();
        self.connected = (u32::try_from(connected).unwrap_or(u32::MAX), now + COUNT_HOLDS);
    }

    /// Begins a group, which ends at this time without an answer. Returns the numbers of connected replicas and of those
    /// that the policy asks for, if that many are not there and the group does without.
    pub(super) fn begin(&mut self, until: Moment) -> Option<(u32, u32)> {
        let (wanted, asked) = self.terms.wanted(self.connected.0);
        (self.wanted, self.until) = (wanted, until);
        asked.map(|asked| (wanted, asked))
    }

    /// Returns the time at which the group ends without an answer.
    pub(super) const fn until(&self) -> Moment {
        self.until
    }

    pub(super) fn is_empty(&self) -> bool {
        self.executed.is_empty()
    }

    /// Returns the command that waits for the replicas of the group.
    pub(super) fn wait(&self) -> Vec<String> {
        let within = self.terms.within.as_millis().max(1).to_string();
        let command = if self.terms.fsync {
            vec!["WAITAOF".to_owned(), "1".to_owned()]
        } else {
            vec!["WAIT".to_owned()]
        };
        command.into_iter().chain([self.wanted.to_string(), within]).collect()
    }

    /// Returns the number of replicas that have acknowledged, or the failure of a server that has not written the group
    /// to its disk.
    fn acknowledged(&self, answer: &Value) -> Result<u32, Failure> {
        let count =
            |value: &Value| value.int().and_then(|count| u32::try_from(count).ok()).unwrap_or_default();
        match answer {
            Value::Array(counts) if self.terms.fsync && counts.len() == 2 => match count(&counts[0]) {
                0 => Err(Failure::not_on_disk()),
                _ => Ok(count(&counts[1])),
            },
            Value::Int(_) if !self.terms.fsync => Ok(count(answer)),
            _ => Err(Failure::unconfirmed(0, self.wanted)),
        }
    }

    /// Keeps the calls that were executed and need replicas. Returns the outcomes of the others.
    pub(super) fn keep(&mut self, outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let mut others = Vec::new();
        for (call, outcome) in outcomes {
            match outcome {
                Ok(reply) if call.needs_replicas() => self.executed.push((call, reply)),
                _ => others.push((call, outcome)),
            }
        }
        others
    }

    /// Takes the answer to `WAIT`, and returns the outcomes of the executed calls.
    pub(super) fn answered(&mut self, answer: &Value) -> Vec<Outcome> {
        let failure = match self.acknowledged(answer) {
            Ok(acknowledged) if acknowledged >= self.wanted => {
                return self.executed.drain(..).map(|(call, reply)| (call, Ok(reply))).collect();
            }
            Ok(acknowledged) => Failure::unconfirmed(acknowledged, self.wanted),
            Err(failure) => failure,
        };
        // Fewer replicas may be connected now than were counted.
        self.connected.1 = Moment::default();
        self.executed.drain(..).map(|(call, _)| (call, Err(failure.clone()))).collect()
    }

    /// Ends the group with its connection. Returns the calls, whose outcomes are unknown.
    pub(super) fn end(&mut self) -> Vec<PendingCall> {
        self.connected.1 = Moment::default();
        self.executed.drain(..).map(|(call, _)| call).collect()
    }

    /// Notes that the submitter of a call has left. Returns true if the call is here.
    pub(super) fn abandon(&mut self, id: CallId) -> bool {
        let call = self.executed.iter_mut().find(|(call, _)| call.id == id);
        call.map(|(call, _)| call.is_abandoned = true).is_some()
    }
}
