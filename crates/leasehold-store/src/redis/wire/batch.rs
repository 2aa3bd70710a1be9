//! Combines several calls into one command.
//!
//! Invariant: the rows of a command are in the order of their submission, and each has one outcome. A row's error is
//! the outcome of that row alone. An error of the command is the outcome of each row.
//!
//! # How it works
//! Calls that wait behind each other join if they use at most two scripts, and if calls of the same script have the
//! same number of inputs. An acquire and a release make two scripts. The script of a batch contains theirs as functions
//! (docs/protocol.md#194-batches), so no recipe knows of batches.

use leasehold_proto::{BATCH_ARGS_MAX, Call, Reply, Script};

use super::deadline::Deadline;
use super::ids::CallId;
use super::value::{Value, malformed, server_error};
use crate::redis::error::Failure;

/// The most keys of a row. A call with more, such as that of many locks, takes the server long enough alone.
const KEYS_MAX: usize = 8;

/// A call with its outcome.
pub(super) type Outcome = (PendingCall, Result<Reply, Failure>);

/// A call without an outcome.
#[derive(Debug)]
pub(super) struct PendingCall {
    pub(super) id: CallId,
    /// Boxed, since a pending call moves from place to place some twenty times.
    pub(super) call: Box<Call>,
    pub(super) deadline: Deadline,
    /// True if the submitter has left.
    pub(super) is_abandoned: bool,
    /// The addresses to which servers have directed the call.
    pub(super) directed_to: Vec<String>,
    /// True if the call needs ASKING, because its slot is on its way to the server.
    pub(super) asks: bool,
    /// True if a server has refused a batch with the call for its slots.
    pub(super) goes_alone: bool,
}

impl PendingCall {
    /// Returns true if the call counts only once replicas have acknowledged its effect.
    pub(super) fn needs_replicas(&self) -> bool {
        self.call.needs_replicas()
    }

    pub(super) fn new(id: CallId, call: Call, deadline: Deadline) -> Self {
        let call = Box::new(call);
        let directed_to = Vec::new();
        Self { id, call, deadline, is_abandoned: false, directed_to, asks: false, goes_alone: false }
    }
}

/// The calls of one command.
#[derive(Debug)]
pub(super) enum Rows {
    /// No call: a command of the wire itself.
    None,
    One(PendingCall),
    Many(Kinds, Vec<PendingCall>),
}

/// The kind of a call: its script, and its numbers of keys and arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) script: &'static Script,
    pub(super) shape: (usize, usize),
}

/// The kinds of the calls of a batch, one for each script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    pub(super) first: Kind,
    pub(super) second: Option<Kind>,
}

impl Kind {
    fn of(call: &Call) -> Self {
        Self { script: call.script(), shape: (call.key_count(), call.arg_count()) }
    }

    fn may_join(&self) -> bool {
        (1..=KEYS_MAX).contains(&self.shape.0) && self.shape.1 <= BATCH_ARGS_MAX && !self.script.is_alone()
    }
}

impl Kinds {
    /// Returns the kinds with this one, or `None` if it cannot join them.
    fn with(self, kind: Kind) -> Option<Self> {
        match self.iter().find(|known| std::ptr::eq(known.script, kind.script)) {
            Some(known) => (known.shape == kind.shape).then_some(self),
            None => self.second.is_none().then(|| Self::of_two(self.first, kind)),
        }
    }

    /// Returns the kinds, in the order of their digits.
    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        [Some(self.first), self.second].into_iter().flatten()
    }

    /// Creates the kinds of two scripts, in an order of their own, so that two scripts make one batch.
    fn of_two(one: Kind, other: Kind) -> Self {
        let (first, second) =
            if one.script.sha1() < other.script.sha1() { (one, other) } else { (other, one) };
        Self { first, second: Some(second) }
    }

    /// Returns the digit that names the script of a call.
    pub(super) fn digit(&self, call: &Call) -> u8 {
        if std::ptr::eq(self.first.script, call.script()) { b'1' } else { b'2' }
    }
}

impl Rows {
    pub(super) fn as_slice(&self) -> &[PendingCall] {
        match self {
            Self::None => &[],
            Self::One(call) => std::slice::from_ref(call),
            Self::Many(_, calls) => calls,
        }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [PendingCall] {
        match self {
            Self::None => &mut [],
            Self::One(call) => std::slice::from_mut(call),
            Self::Many(_, calls) => calls,
        }
    }

    /// Returns the kinds of these calls and of a call that can join them.
    pub(super) fn kinds_with(&self, call: &Call, rows_max: usize) -> Option<Kinds> {
        let kinds = match self {
            Self::None => return None,
            Self::One(first) => Kinds { first: Kind::of(&first.call), second: None },
            Self::Many(kinds, _) => *kinds,
        };
        let kind = Kind::of(call);
        let may_join = self.as_slice().len() < rows_max && kinds.first.may_join() && kind.may_join();
        kinds.with(kind).filter(|_| may_join)
    }

    /// Adds a call. The kinds are those with it.
    pub(super) fn push(&mut self, kinds: Kinds, call: PendingCall) {
        let mut calls = match std::mem::replace(self, Self::Many(kinds, Vec::new())) {
            Self::None => Vec::new(),
            Self::One(first) => vec![first],
            Self::Many(_, calls) => calls,
        };
        calls.push(call);
        *self = Self::Many(kinds, calls);
    }

    /// Gives each call its outcome.
    pub(super) fn answer(self, value: Value) -> impl Iterator<Item = (PendingCall, Result<Reply, Failure>)> {
        let (calls, outcomes) = match self {
            Self::None => (Vec::new(), Vec::new()),
            Self::One(call) => (vec![call], vec![value.into_reply()]),
            Self::Many(_, calls) => {
                let outcomes = outcomes(value, calls.len());
                (calls, outcomes)
            }
        };
        calls.into_iter().zip(outcomes)
    }

    pub(super) fn into_calls(self) -> Vec<PendingCall> {
        match self {
            Self::None => Vec::new(),
            Self::One(call) => vec![call],
            Self::Many(_, calls) => calls,
        }
    }
}

/// Reads the reply of a batch of this number of rows.
fn outcomes(value: Value, rows: usize) -> Vec<Result<Reply, Failure>> {
    match value {
        Value::Array(items) if items.len() == rows => items.into_iter().map(Value::into_reply).collect(),
        Value::Error(text) => vec![Err(server_error(&text)); rows],
        _ => vec![Err(malformed()); rows],
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_proto::{Applied, Moment, StoreErrorKind, Verb};

    use super::*;

    static ONE: Script = Script::new(Verb::Acquire, "return KEYS[1]");
    static OTHER: Script = Script::new(Verb::Acquire, "return ARGV[1]");
    static THIRD: Script = Script::new(Verb::Acquire, "return ARGV[2]");
    static ALONE: Script = Script::new(Verb::Adjust, "return ARGV[1]").alone();

    fn pending(id: u64, script: &'static Script, keys: usize, args: usize) -> PendingCall {
        let call = Call::with(script, vec!["k"; keys], vec!["a"; args]);
        let deadline = Deadline::new(Moment::default(), Duration::from_secs(1));
        PendingCall::new(CallId(id), call, deadline)
    }

    fn rows(count: u64) -> Rows {
        let mut rows = Rows::One(pending(0, &ONE, 1, 1));
        (1..count).for_each(|id| assert!(join(&mut rows, pending(id, &ONE, 1, 1), 64)));
        rows
    }

    /// Adds a call if it can join. Returns true if it has joined.
    fn join(rows: &mut Rows, call: PendingCall, rows_max: usize) -> bool {
        let kinds = rows.kinds_with(&call.call, rows_max);
        kinds.map(|kinds| rows.push(kinds, call)).is_some()
    }

    /// The outcome of a row, without the text of an error.
    type Outcome = Result<Reply, (StoreErrorKind, Applied)>;

    /// Returns the outcome of each row by its id.
    fn answered(count: u64, value: Value) -> Vec<(u64, Outcome)> {
        let outcomes = rows(count).answer(value);
        outcomes
            .map(|(row, outcome)| (row.id.0, outcome.map_err(|error| (error.kind, error.applied))))
            .collect()
    }

    fn text(text: &'static str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn calls_of_two_scripts_join_if_those_of_each_have_one_shape() {
        let mut rows = rows(1);
        for (script, keys, args, joins) in [
            (&ONE, 1, 1, true),
            (&ALONE, 1, 1, false),
            (&OTHER, 0, 1, false),
            (&OTHER, KEYS_MAX + 1, 1, false),
            (&OTHER, 2, 1, true),
            (&OTHER, 1, 1, false),
            (&OTHER, 2, 2, false),
            (&THIRD, 1, 1, false),
            (&ONE, 2, 1, false),
            (&ONE, 1, 2, false),
            (&ONE, 1, 1, true),
            (&OTHER, 2, 1, true),
        ] {
            let call = pending(9, script, keys, args);
            assert_eq!(join(&mut rows, call, 64), joins, "{} {keys} {args}", script.source());
        }
        assert_eq!(rows.as_slice().len(), 5);
        assert!(!join(&mut rows, pending(9, &ONE, 1, 1), 5), "the batch is full");
        let Rows::Many(kinds, calls) = &rows else { panic!("{rows:?}") };
        let digits: Vec<u8> = calls.iter().map(|row| kinds.digit(&row.call)).collect();
        let (one, other) = if ONE.sha1() < OTHER.sha1() { (b'1', b'2') } else { (b'2', b'1') };
        assert_eq!(digits, [one, one, other, one, other]);
        for first in [pending(0, &ALONE, 1, 1), pending(0, &ONE, 0, 1), pending(0, &ONE, KEYS_MAX + 1, 1)] {
            assert!(!join(&mut Rows::One(first), pending(1, &OTHER, 1, 1), 64));
        }
    }

    #[test]
    fn each_row_has_its_own_reply_or_error() {
        let error = Value::Error("WRONGTYPE Operation against a key".into());
        let items = vec![Value::Int(7), Value::Nil, error, Value::Array(vec![text("a")])];
        let expected = [
            Ok(Reply::Int(7)),
            Ok(Reply::Nil),
            Err((StoreErrorKind::WrongType, Applied::Unknown)),
            Ok(Reply::Array(vec![Reply::Text(b"a".to_vec())])),
        ];
        assert_eq!(answered(4, Value::Array(items)), (0..).zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_of_the_command_is_the_outcome_of_each_row() {
        let outcomes = answered(3, Value::Error("LOADING Redis is loading".into()));
        assert_eq!(outcomes.len(), 3);
        assert!(outcomes.iter().all(|(_, outcome)| *outcome == Err((StoreErrorKind::Loading, Applied::No))));
    }

    #[test]
    fn a_reply_that_no_batch_gives_leaves_each_row_unknown() {
        let three = vec![Value::Int(1), Value::Int(1), Value::Int(1)];
        for value in [Value::Int(1), Value::Nil, Value::Array(vec![Value::Int(1)]), Value::Array(three)] {
            for (_, outcome) in answered(2, value) {
                assert_eq!(outcome, Err((StoreErrorKind::Malformed, Applied::Unknown)));
            }
        }
        let items = vec![Value::Int(1), Value::Other];
        let malformed = Err((StoreErrorKind::Malformed, Applied::Unknown));
        assert_eq!(answered(2, Value::Array(items)), [(0, Ok(Reply::Int(1))), (1, malformed)]);
    }
}
