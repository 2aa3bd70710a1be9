//! The scripts of a connection: which the server has seen, and in which form a call is sent.
//!
//! Invariant: a script's first command on a connection carries its text, and later commands carry its hash. So a
//! restarted server costs no extra round trip, and no call goes out a second time, behind later calls, unless the server
//! forgets the script in between.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use leasehold_proto::recipe::rights;
use leasehold_proto::{Batch, BatchPart, Script};

use super::batch::{Kind, Kinds, PendingCall, Rows};
use super::encode;
use super::facts::ServerFacts;
use super::natives::{Natives, Place};
use super::value::Value;

/// The form in which a command was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With the script's text behind a check of the call's channels.
    Checked,
    Text,
    Hash,
    /// As the native command in this place.
    Native(Place),
    /// A command of the wire itself, whose reply has no recipient.
    Own,
    /// The command that lets the server tell of changed keys.
    Tracking,
    /// AUTH on an open connection.
    Login,
    /// WAIT, which answers for a group of calls.
    Wait,
    /// A request for the replicas of the server.
    Count,
    /// A question whether one server is behind the connection, with its number.
    Proof(u32),
}

/// What the text of a batch depends on, for each of its scripts.
type BatchKey = (PartKey, Option<PartKey>);
type PartKey = (&'static str, usize, usize, u64);

/// The scripts that were sent on one connection.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    /// A client has some twenty, and mostly finds one by its address.
    sent: Vec<&'static Script>,
    /// The batches that were sent, by what their texts depend on.
    batches: HashMap<BatchKey, Batch>,
    /// The scripts whose channels the user has the right to. The set is used only if that right is uncertain.
    allowed: HashSet<&'static str>,
    pub(super) natives: Natives,
}

impl Scripts {
    /// Appends the command of these calls. A check of rights comes before a native command too, since a holder that may not
    /// publish would wake no waiter.
    pub(super) fn encode(&mut self, rows: &Rows, facts: Option<ServerFacts>, out: &mut Vec<u8>) -> Form {
        let Rows::One(row) = rows else { return self.encode_script(rows, facts, out) };
        match self.natives.first(row.call.script()) {
            Some(_) if self.encode_checked(rows, facts, out) => Form::Checked,
            Some(place) => self.encode_native(rows, place, out),
            None => self.encode_script(rows, facts, out),
        }
    }

    /// Appends the command of these calls as a script.
    pub(super) fn encode_script(
        &mut self,
        rows: &Rows,
        facts: Option<ServerFacts>,
        out: &mut Vec<u8>,
    ) -> Form {
        if self.encode_checked(rows, facts, out) {
            return Form::Checked;
        }
        let is_known = match rows {
            Rows::None => return Form::Own,
            Rows::One(row) => self.knows(row.call.script()),
            Rows::Many(kinds, calls) => return self.encode_batch((kinds, calls), false, out),
        };
        if !is_known {
            self.encode_text(rows, out);
            return Form::Text;
        }
        if let Rows::One(row) = rows {
            encode::call(out, ("EVALSHA", row.call.script().sha1()), &row.call);
        }
        Form::Hash
    }

    /// Returns true if the script was sent before, and notes that it is sent now.
    fn knows(&mut self, script: &'static Script) -> bool {
        let same = |known: &&Script| known.sha1() == script.sha1();
        let is_known =
            self.sent.iter().any(|known| std::ptr::eq(*known, script)) || self.sent.iter().any(same);
        if !is_known {
            self.sent.push(script);
        }
        is_known
    }

    /// Appends the command of these calls with the script's text, which the server then knows.
    pub(super) fn encode_text(&mut self, rows: &Rows, out: &mut Vec<u8>) {
        match rows {
            Rows::None => {}
            Rows::One(row) => encode::call(out, ("EVAL", row.call.script().source()), &row.call),
            Rows::Many(kinds, calls) => {
                self.encode_batch((kinds, calls), true, out);
            }
        }
    }

    /// Appends a batch: its text, if the server may not know it or `as_text` says so, and else its hash.
    fn encode_batch(
        &mut self,
        (kinds, calls): (&Kinds, &[PendingCall]),
        as_text: bool,
        out: &mut Vec<u8>,
    ) -> Form {
        let order: Vec<u8> = calls.iter().map(|row| kinds.digit(&row.call)).collect();
        let common = |kind: Kind| {
            let calls = calls.iter().map(|row| &*row.call);
            encode::Common::of(calls.filter(|call| std::ptr::eq(call.script(), kind.script)))
        };
        let scripts: Vec<_> = kinds.iter().map(common).collect();
        let mut parts = kinds.iter().zip(&scripts).map(part_of);
        let (first, second) = (parts.next().expect("a batch has a script"), parts.next());
        let key = (first.key(), second.map(|second| second.key()));
        let (batch, is_new) = match self.batches.entry(key) {
            Entry::Occupied(known) => (known.into_mut(), false),
            Entry::Vacant(unknown) => (unknown.insert(Batch::of(first, second)), true),
        };
        let (form, script) = match as_text || is_new {
            true => (Form::Text, ("EVAL", batch.source())),
            false => (Form::Hash, ("EVALSHA", batch.sha1())),
        };
        encode::batch(out, script, (&order, &scripts), calls.iter().map(|row| &*row.call));
        form
    }

    /// Appends the native command in this place of a call.
    pub(super) fn encode_native(&mut self, rows: &Rows, place: Place, out: &mut Vec<u8>) -> Form {
        if let Rows::One(row) = rows
            && let Some(command) = Natives::command(row.call.script(), place)
        {
            encode::native(out, &command, &row.call);
        }
        Form::Native(place)
    }

    /// Returns true if calls of the script go out as a native command.
    pub(super) fn is_native(&self, script: &Script) -> bool {
        self.natives.first(script).is_some()
    }

    /// Appends the command of a call behind a check, if the right to its channels is uncertain.
    fn encode_checked(&self, rows: &Rows, facts: Option<ServerFacts>, out: &mut Vec<u8>) -> bool {
        let (Rows::One(row), Some(facts)) = (rows, facts) else { return false };
        if !self.doubts(row.call.script().sha1(), facts) {
            return false;
        }
        let (publish, subscribe) = (facts.channels.publish(), facts.channels.subscribe());
        let Some(checked) = rights::checked(&row.call, publish, subscribe) else { return false };
        encode::call_with(out, ("EVAL", &checked.source), &row.call, &checked.args);
        true
    }

    /// Returns true if calls of the script cannot join a batch, because the first needs a check.
    pub(super) fn doubts(&self, sha1: &str, facts: ServerFacts) -> bool {
        facts.doubts_channels && !self.natives.run_no_scripts() && !self.allowed.contains(sha1)
    }

    /// Notes that the server let a checked call pass.
    pub(super) fn allow(&mut self, rows: &Rows) {
        self.allowed.extend(rows.as_slice().iter().map(|row| row.call.script().sha1()));
    }
}

fn part_of((Kind { script, shape: (keys, args) }, common): (Kind, &encode::Common<'_>)) -> BatchPart {
    BatchPart { script, keys, args, shared: common.shared_bits() }
}

/// Returns true if the server does not know the script of an EVALSHA.
pub(super) fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"NOSCRIPT"))
}
