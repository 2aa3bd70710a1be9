//! The native commands that stand in for scripts, and which of them one connection may use.
//!
//! Invariant: a call goes on to the next command, or to its script, only if the last one has certainly changed nothing.
//!
//! # How it works
//! A server that does not have a command, or whose user may not run it, says so before it does anything. The connection
//! then does not ask again. The next connection does, because the server may be a different one, or the user may have
//! more rights by then. A server that runs no scripts gets the commands that take their place, each in turn until one
//! settles the call. If it has none of them, the call fails with the words by which it has refused the script.

use std::collections::HashMap;

use leasehold_proto::native::Command;
use leasehold_proto::{Call, Reply, Script};

use super::value::Value;

/// What a connection knows of its server's native commands.
#[derive(Debug, Default)]
pub(super) struct Natives {
    /// The number of commands that the server has refused, by the hashes of their scripts.
    refused: HashMap<&'static str, usize>,
    /// The error with which the server has said that it runs no scripts.
    no_scripts: Option<Value>,
}

/// The place of a native command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In front of the script, which runs if the command does not settle the call.
    Before(usize),
    /// In place of the script. `has_run` is true if an earlier command of the call has run without settling it.
    Instead { index: usize, has_run: bool },
}

/// The fate of a call after the answer to a native command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The answer itself, such as an error, is the outcome.
    Answer,
    /// This earlier answer is the outcome: the error of the script, since no command has taken its place.
    Earlier(Value),
    /// The reply that the script would give.
    Reply(Reply),
    /// The command in this place follows.
    Command(Place),
    /// The script follows.
    Script,
}

impl Natives {
    /// Returns the command with which a call of the script begins.
    pub(super) fn first(&self, script: &Script) -> Option<Place> {
        self.instead(script).or_else(|| self.before(script))
    }

    /// Returns the command that comes in front of the script.
    fn before(&self, script: &Script) -> Option<Place> {
        let native = script.native()?;
        let index = self.refused.get(script.sha1()).copied().unwrap_or_default();
        (index < native.0.len()).then_some(Place::Before(index))
    }

    /// Returns true if the server has said that it runs no scripts.
    pub(super) const fn run_no_scripts(&self) -> bool {
        self.no_scripts.is_some()
    }

    /// Returns the command that takes the place of the script.
    pub(super) fn instead(&self, script: &Script) -> Option<Place> {
        let has_some = self.no_scripts.is_some() && script.without_scripts().is_some();
        has_some.then_some(Place::Instead { index: 0, has_run: false })
    }

    /// Returns the command in a place.
    pub(super) fn command(script: &Script, place: Place) -> Option<Command> {
        let (native, index) = match place {
            Place::Before(index) => (script.native()?, index),
            Place::Instead { index, .. } => (script.without_scripts()?, index),
        };
        native.0.get(index).copied()
    }

    /// Takes the answer to a native command.
    pub(super) fn answered(&mut self, call: &Call, place: Place, value: &Value) -> Next {
        let script = call.script();
        let is_refused = matches!(value, Value::Error(text) if is_refusal(text));
        if matches!(value, Value::Error(_)) && !is_refused {
            return Next::Answer;
        }
        let settled = || {
            let reply = value.clone().into_reply().ok()?;
            (Self::command(script, place)?.read)(call.arguments(), &reply)
        };
        match (place, settled().filter(|_| !is_refused)) {
            (_, Some(reply)) => Next::Reply(reply),
            (Place::Before(index), None) if is_refused => {
                self.refused.insert(script.sha1(), index + 1);
                self.first(script).map_or(Next::Script, Next::Command)
            }
            (Place::Before(_), None) => self.instead(script).map_or(Next::Script, Next::Command),
            (Place::Instead { index, has_run }, None) => {
                let has_run = has_run || !is_refused;
                let next = Place::Instead { index: index + 1, has_run };
                match Self::command(script, next).filter(|command| has_run || !command.follows) {
                    Some(_) => Next::Command(next),
                    // None of them found what it was to change.
                    None if has_run => Next::Reply(Reply::Nil),
                    None => self.no_scripts.clone().map_or(Next::Answer, Next::Earlier),
                }
            }
        }
    }

    /// Takes the answer to a script. Returns the command that takes its place if the server runs no scripts.
    pub(super) fn script_answered(&mut self, script: &Script, value: &Value) -> Option<Place> {
        let Value::Error(text) = value else { return None };
        let names_eval = text.windows(5).any(|part| part.eq_ignore_ascii_case(b"'eval"));
        if !(names_eval && is_refusal(text)) {
            return None;
        }
        self.no_scripts = Some(value.clone());
        self.instead(script)
    }
}

/// Returns true if the error says that the server, or its user, does not have the command, so that nothing has run.
fn is_refusal(text: &[u8]) -> bool {
    // A proxy that does not know a command calls it unsupported.
    ["ERR unknown command", "ERR unsupported command", "ERR syntax error", "NOPERM"]
        .iter()
        .any(|begin| text.starts_with(begin.as_bytes()))
}

#[cfg(test)]
mod tests {
    use leasehold_proto::engine::Subject;
    use leasehold_proto::recipe::plain::PLAIN;
    use leasehold_proto::{CallArgs, CallContext, ClientId, Lease, Name, WireOwner};

    use super::*;

    /// A release of a hold that no one waits for, or of one that others wait for.
    fn release(quiet: bool) -> Call {
        let subject = Subject::new(&Name::new("job").unwrap(), &PLAIN);
        let owner = WireOwner::new(ClientId::from_random([7; 16]), 1);
        let args =
            CallArgs::new(&subject, owner, Lease::new(std::time::Duration::from_secs(30)).unwrap()).count(0);
        (PLAIN.release)(&CallArgs { context: CallContext { quiet, ..CallContext::default() }, ..args })
    }

    fn error(text: &'static str) -> Value {
        Value::Error(text.into())
    }

    const UNKNOWN: &str = "ERR unknown command 'DELIFEQ', with args beginning with: 'job'";

    #[test]
    fn a_refused_command_leads_to_the_next_one_and_is_not_asked_again() {
        let (call, mut natives) = (release(true), Natives::default());
        assert_eq!(natives.first(call.script()), Some(Place::Before(0)));
        assert_eq!(
            natives.answered(&call, Place::Before(0), &error(UNKNOWN)),
            Next::Command(Place::Before(1))
        );
        let denied = error("NOPERM User app has no permissions to run the 'delex' command");
        assert_eq!(natives.answered(&call, Place::Before(1), &denied), Next::Script);
        assert_eq!(natives.first(call.script()), None);
        assert_eq!(
            Natives::default().first(call.script()),
            Some(Place::Before(0)),
            "the next connection asks again"
        );
    }

    #[test]
    fn a_command_that_changes_nothing_leads_to_the_script() {
        let (call, mut natives) = (release(true), Natives::default());
        assert_eq!(natives.answered(&call, Place::Before(0), &Value::Int(1)), Next::Reply(Reply::Int(0)));
        assert_eq!(natives.answered(&call, Place::Before(0), &Value::Int(0)), Next::Script);
        assert_eq!(natives.first(call.script()), Some(Place::Before(0)));
        let wrong = error("WRONGTYPE Operation against a key holding the wrong kind of value");
        assert_eq!(natives.answered(&call, Place::Before(0), &wrong), Next::Answer);
    }

    #[test]
    fn a_release_that_wakes_begins_with_its_script() {
        assert_eq!(Natives::default().first(release(false).script()), None);
    }

    #[test]
    fn a_server_without_scripts_gets_commands_in_their_place() {
        let (call, mut natives) = (release(false), Natives::default());
        let no_eval = error("ERR unknown command 'EVAL', with args beginning with: 'return 1'");
        let begin = Place::Instead { index: 0, has_run: false };
        assert_eq!(natives.script_answered(call.script(), &error(UNKNOWN)), None, "the script has said it");
        assert_eq!(natives.script_answered(call.script(), &no_eval), Some(begin));
        assert_eq!(natives.first(call.script()), Some(begin));
        // Nothing found under the plain value, no DELEX, nothing under the marked value either.
        let mut place = begin;
        for (answer, index) in [(Value::Int(0), 1), (error(UNKNOWN), 2), (Value::Int(0), 3)] {
            let next = Place::Instead { index, has_run: true };
            assert_eq!(natives.answered(&call, place, &answer), Next::Command(next));
            place = next;
        }
        assert_eq!(natives.answered(&call, place, &error(UNKNOWN)), Next::Reply(Reply::Nil));
        assert_eq!(natives.answered(&call, place, &Value::Int(1)), Next::Reply(Reply::Int(0)));
    }

    #[test]
    fn a_server_with_neither_scripts_nor_commands_is_an_error() {
        let (call, mut natives) = (release(false), Natives::default());
        let no_eval = error("NOPERM User app has no permissions to run the 'evalsha' command");
        let mut place = natives.script_answered(call.script(), &no_eval).unwrap();
        while let Next::Command(next) = natives.answered(&call, place, &error(UNKNOWN)) {
            place = next;
        }
        let words = "NOPERM User app has no permissions to run the 'evalsha' command";
        assert_eq!(natives.answered(&call, place, &error(UNKNOWN)), Next::Earlier(error(words)));
    }

    #[test]
    fn a_proxy_without_the_command_is_asked_for_the_next_one() {
        let (call, mut natives) = (release(true), Natives::default());
        let unsupported = error("ERR unsupported command 'DELIFEQ'");
        let next = Next::Command(Place::Before(1));
        assert_eq!(natives.answered(&call, Place::Before(0), &unsupported), next);
    }
}
