//! The proof that one server is behind a connection, so that calls on different names may share a command.
//!
//! Invariant: a command has several names only behind a proof of the same connection, or in one slot of a server that has
//! slots.
//!
//! # How it works
//! A proxy in front of several servers, such as twemproxy or Envoy, sends a script to the server of its first key, and
//! ignores the other keys. Two clients would then lock one name on two servers. Other addresses in front of shards
//! refuse such a script (`CROSSSLOT`). So a connection asks before its first command of several slots: first one
//! question with all keys, which a server with slots refuses, and then the same question for each key alone. One server
//! is behind the connection if all answers are its run id. A lone call never asks.

use bytes::Bytes;
use leasehold_proto::recipe::one_server::{keys_like, run_id};
use leasehold_proto::{Call, StoreErrorKind};

use super::facts::ServerFacts;
use super::value::{Value, server_error};
use crate::redis::error::Failure;

/// What a connection knows of the servers behind it.
#[derive(Debug, Default)]
pub(super) enum Proof {
    #[default]
    Unasked,
    Asked(Question),
    One,
    /// The server refuses a command with keys of several slots.
    Slots,
    /// The names are on several servers, and nobody says which have the same, whatever their hash tags.
    Several,
    /// The server does not say who it is.
    Withheld,
    /// The server could not answer. The calls that waited fail, and the next one asks again.
    Failed(Failure),
}

/// A question under way.
#[derive(Debug)]
pub(super) struct Question {
    keys: Vec<String>,
    /// The answer for all keys, once it is there, and the number of missing answers for single keys.
    run_id: Option<Bytes>,
    missing: usize,
}

/// The fate of a call with keys of several slots.
#[derive(Debug)]
pub(super) enum Fate {
    Runs,
    Waits,
    Fails(Failure),
}

impl Proof {
    /// Begins the question with the keys of this call, unless there is an answer, and returns it.
    pub(super) fn ask(&mut self, like: &Call) -> Option<Call> {
        if !self.is_wanted() {
            return None;
        }
        let keys = keys_like(like.keys().next()?);
        let question = run_id(&keys);
        *self = Self::Asked(Question { keys, run_id: None, missing: 0 });
        Some(question)
    }

    /// Returns true if the server was not asked, or could not answer.
    pub(super) const fn is_wanted(&self) -> bool {
        matches!(self, Self::Unasked | Self::Failed(_))
    }

    /// Forgets that the server could not answer, once the calls that waited for it have failed.
    pub(super) fn forget_failure(&mut self) {
        if matches!(self, Self::Failed(_)) {
            *self = Self::Unasked;
        }
    }

    /// Takes an answer. Returns further questions.
    pub(super) fn answered(&mut self, value: Value) -> Vec<Call> {
        let Self::Asked(question) = self else { return Vec::new() };
        let next = match (value, &question.run_id) {
            (Value::Text(id), None) if !id.is_empty() => {
                (question.run_id, question.missing) = (Some(id), question.keys.len());
                return question.keys.iter().map(|key| run_id([key])).collect();
            }
            (Value::Text(id), Some(first)) if id == *first => {
                question.missing -= 1;
                if question.missing > 0 {
                    return Vec::new();
                }
                Self::One
            }
            (Value::Text(_), Some(_)) => Self::Several,
            (Value::Error(text), _) => match server_error(&text) {
                failure if failure.kind == StoreErrorKind::CrossSlot => Self::Slots,
                failure if failure.kind.is_transient() => Self::Failed(failure),
                _ => Self::Withheld,
            },
            _ => Self::Withheld,
        };
        *self = next;
        Vec::new()
    }

    /// Returns true if a command of these two calls may run.
    pub(super) fn joins(&self, one: &Call, other: &Call, facts: ServerFacts) -> bool {
        match self {
            _ if facts.is_node => one.slot() == other.slot(),
            Self::One => true,
            Self::Slots => one.slot() == other.slot(),
            // Calls on one name go to one server. Those on several names have their own fate.
            _ => {
                let are_alone = !one.has_several_names() && !other.has_several_names();
                are_alone && one.keys().next() == other.keys().next()
            }
        }
    }

    /// Returns the fate of a call. A node of a cluster, which has slots, decides itself. The helper keys of one name are
    /// where the name is, because the name is the first key.
    pub(super) fn fate(&self, call: &Call, facts: Option<ServerFacts>) -> Fate {
        let is_of_one = matches!(self, Self::One) || call.key_count() < 2;
        if is_of_one || facts.is_some_and(|facts| facts.is_node) {
            return Fate::Runs;
        }
        let names = || Some((call.keys().next()?, call.keys().nth(1)?)).filter(|_| call.has_several_names());
        let parted = call.keys_of_two_slots();
        let Some((one, other)) = parted.or_else(names) else { return Fate::Runs };
        match self {
            Self::One => Fate::Runs,
            Self::Slots if parted.is_none() => Fate::Runs,
            Self::Unasked | Self::Asked(_) => Fate::Waits,
            Self::Slots => Fate::Fails(Failure::of_two_slots(one, other)),
            Self::Several => Fate::Fails(Failure::of_several_servers(one, other)),
            Self::Withheld => Fate::Fails(Failure::of_unknown_servers(one, other)),
            Self::Failed(failure) => Fate::Fails(failure.clone().of_unsent()),
        }
    }
}
