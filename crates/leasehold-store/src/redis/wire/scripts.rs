//! The scripts of a connection: which the server has seen, and in which form a call is sent.
//!
//! Invariant: a script's first command on a connection carries its text, and later commands carry its hash. So a
//! restarted server costs no extra round trip, and no call goes out a second time, behind later calls, unless the server
//! forgets the script in between.

use std::collections::{HashMap, HashSet};

use leasehold_proto::recipe::rights;
use leasehold_proto::{Batch, Script};

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

/// The scripts that were sent on one connection, by their hashes.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    sent: HashSet<&'static str>,
    /// The batches that were sent, by the hashes of their scripts.
    batches: HashMap<(&'static str, Option<&'static str>), Batch>,
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
            Rows::One(row) => !self.sent.insert(row.call.script().sha1()),
            Rows::Many(kinds, _) => self.batches.contains_key(&hashes(kinds)),
        };
        if !is_known {
            self.encode_text(rows, out);
            return Form::Text;
        }
        match rows {
            Rows::None => {}
            Rows::One(row) => encode::call(out, ("EVALSHA", row.call.script().sha1()), &row.call),
            Rows::Many(kinds, calls) => {
                encode_batch((kinds, calls), ("EVALSHA", self.batch(kinds).sha1()), out);
            }
        }
        Form::Hash
    }

    /// Appends the command of these calls with the script's text, which the server then knows.
    pub(super) fn encode_text(&mut self, rows: &Rows, out: &mut Vec<u8>) {
        match rows {
            Rows::None => {}
            Rows::One(row) => encode::call(out, ("EVAL", row.call.script().source()), &row.call),
            Rows::Many(kinds, calls) => {
                encode_batch((kinds, calls), ("EVAL", self.batch(kinds).source()), out);
            }
        }
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

    /// Returns the batch of these scripts.
    fn batch(&mut self, kinds: &Kinds) -> &Batch {
        let batch = || Batch::of(kinds.first.script, kinds.second.map(|kind| kind.script));
        self.batches.entry(hashes(kinds)).or_insert_with(batch)
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

fn encode_batch((kinds, calls): (&Kinds, &[PendingCall]), script: (&str, &str), out: &mut Vec<u8>) {
    let order: Vec<u8> = calls.iter().map(|row| kinds.digit(&row.call)).collect();
    let common = |kind: Kind| {
        let calls = calls.iter().map(|row| &*row.call);
        encode::Common::of(calls.filter(|call| std::ptr::eq(call.script(), kind.script)))
    };
    let scripts: Vec<_> = [Some(kinds.first), kinds.second].into_iter().flatten().map(common).collect();
    encode::batch(out, script, (&order, &scripts), calls.iter().map(|row| &*row.call));
}

/// Returns the hashes of the scripts.
fn hashes(kinds: &Kinds) -> (&'static str, Option<&'static str>) {
    (kinds.first.script.sha1(), kinds.second.map(|kind| kind.script.sha1()))
}

/// Returns true if the server does not know the script of an EVALSHA.
pub(super) fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"NOSCRIPT"))
}
