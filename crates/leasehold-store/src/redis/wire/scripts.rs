//! The scripts of a connection: which the server has seen, and in which form a call is sent.
//!
//! Invariant: a script's first command on a connection carries its text, and later commands carry its hash. So a
//! restarted server costs no extra round trip, and no call goes out a second time, behind later calls, unless the server
//! forgets the script in between.

use std::collections::{HashMap, HashSet};

use leasehold_proto::recipe::native::Command;
use leasehold_proto::recipe::rights;
use leasehold_proto::{Batch, Reply, Script};

use super::batch::{Kind, Kinds, PendingCall, Rows};
use super::encode;
use super::facts::ServerFacts;
use super::value::Value;

/// The form in which a command was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// With the script's text behind a check of the call's channels.
    Checked,
    Text,
    Hash,
    /// As the native command with this index.
    Native(usize),
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
    /// The number of native commands that the server has refused, by the hashes of their scripts. A server that was
    /// upgraded, or whose user got more rights, is asked again on its next connection.
    refused: HashMap<&'static str, usize>,
}

impl Scripts {
    /// Appends the command of these calls.
    pub(super) fn encode(&mut self, rows: &Rows, facts: Option<ServerFacts>, out: &mut Vec<u8>) -> Form {
        if let Rows::One(row) = rows
            && let Some((index, command)) = self.native(row.call.script())
        {
            encode::native(out, &command, &row.call);
            return Form::Native(index);
        }
        self.encode_script(rows, facts, out)
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

    /// Returns the native command that stands in for a script on this connection, with its index.
    pub(super) fn native(&self, script: &Script) -> Option<(usize, Command)> {
        let native = script.native()?;
        let index = self.refused.get(script.sha1()).copied().unwrap_or_default();
        native.0.get(index).map(|command| (index, *command))
    }

    /// Reads the answer to a native command. Returns `None` if the call is not settled: the server has refused the command,
    /// which it then does again, or the script has to run too.
    pub(super) fn read_native(&mut self, rows: &Rows, index: usize, value: &Value) -> Option<Settled> {
        let [row] = rows.as_slice() else { return Some(Settled::AsIs) };
        let script = row.call.script();
        if let Value::Error(text) = value {
            if !is_refusal(text) {
                return Some(Settled::AsIs);
            }
            self.refused.insert(script.sha1(), index + 1);
            return None;
        }
        let command = script.native()?.0.get(index)?;
        let Ok(reply) = value.clone().into_reply() else { return Some(Settled::AsIs) };
        (command.read)(&reply).map(Settled::Reply)
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
        facts.doubts_channels && !self.allowed.contains(sha1)
    }

    /// Notes that the server let a checked call pass.
    pub(super) fn allow(&mut self, rows: &Rows) {
        self.allowed.extend(rows.as_slice().iter().map(|row| row.call.script().sha1()));
    }
}

/// The answer to a native command that settles its call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Settled {
    /// The answer itself, such as an error.
    AsIs,
    /// The reply that the script would give.
    Reply(Reply),
}

/// Returns true if the error says that the server, or its user, does not have the command, so that nothing has run.
fn is_refusal(text: &[u8]) -> bool {
    ["ERR unknown command", "ERR syntax error", "NOPERM"]
        .iter()
        .any(|begin| text.starts_with(begin.as_bytes()))
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
