//! One server as a value: its data, its scripts, and the state that it is in.
//!
//! Invariant: deterministic. The same commands at the same times give the same replies, whatever thread runs them.
//! Called by: the embedded store and the listener, which add waiting and delivery; simulators, directly.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use leasehold_proto::Call;

use super::audience::Ear;
use super::commands::{Fault, dispatch};
use super::condition::Condition;
use super::frame::Frame;
use super::keyspace::Entry;
use super::lua;
use super::machine::{Machine, Message};

/// One server's data and scripts: no clock, no I/O, no threads. A clone is a snapshot.
#[derive(Clone, Debug, Default)]
pub struct Database {
    pub(super) machine: Machine,
    /// Sources by their hash in lower case.
    pub(super) scripts: BTreeMap<String, Arc<[u8]>>,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// The reply.
    pub reply: Frame,
    /// What it published, in order.
    pub messages: Vec<Message>,
}

impl Database {
    /// An empty server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Executes one command, its name and its arguments, as a server would whose clock says `now_ms` (unix
    /// milliseconds). The clock may go back, or jump.
    pub fn execute(&mut self, now_ms: u64, command: &[Vec<u8>]) -> Executed {
        self.machine.keyspace.now_ms = now_ms;
        let reply = dispatch(self, command).unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()));
        self.executed(reply)
    }

    /// Runs a call as EVAL does.
    pub fn run(&mut self, now_ms: u64, call: &Call) -> Executed {
        self.machine.keyspace.now_ms = now_ms;
        let reply = self.run_script(call).unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()));
        self.executed(reply)
    }

    fn run_script(&mut self, call: &Call) -> Result<Frame, Fault> {
        if let Some(condition @ (Condition::Busy | Condition::Loading | Condition::MasterDown)) =
            self.machine.condition
        {
            return Err(Fault::new(condition.text()));
        }
        let (sha1, source) = (call.script().sha1(), call.script().source().as_bytes());
        if !self.scripts.contains_key(sha1) {
            lua::check(sha1, source)?;
            self.scripts.insert(sha1.to_owned(), Arc::from(source));
        }
        let keys = call.keys().iter().map(|key| key.as_bytes());
        let args = call.args().iter().map(Vec::as_slice);
        Ok(lua::run(&mut self.machine, sha1, source, keys, args))
    }

    fn executed(&mut self, reply: Frame) -> Executed {
        Executed { reply, messages: mem::take(&mut self.machine.messages) }
    }

    /// Forgets all scripts, as SCRIPT FLUSH does.
    pub fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Makes it refuse, as a server in that state does, until it is set to `None`.
    pub fn set_condition(&mut self, condition: Option<Condition>) {
        self.machine.condition = condition;
    }

    /// The state that was set.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        self.machine.condition
    }

    /// What is there at this time, sorted by key; expired keys are not there.
    pub fn entries(&mut self, now_ms: u64) -> Vec<Entry> {
        self.machine.keyspace.now_ms = now_ms;
        self.machine.keyspace.entries()
    }

    /// Counts one listener more, for the replies of PUBLISH and PUBSUB. Delivery is the caller's own business.
    pub fn joins(&mut self, ear: Ear, channel: &[u8]) {
        self.machine.audience.joins(ear, channel);
    }

    /// Counts one listener less.
    pub fn leaves(&mut self, ear: Ear, channel: &[u8]) {
        self.machine.audience.leaves(ear, channel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(database: &mut Database, now_ms: u64, words: &[&str]) -> Frame {
        let command: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        database.execute(now_ms, &command).reply
    }

    #[test]
    fn a_key_is_there_in_its_last_millisecond_and_no_longer() {
        let mut database = Database::new();
        assert_eq!(ask(&mut database, 1000, &["SET", "k", "v", "PX", "10"]), Frame::ok());
        assert_eq!(ask(&mut database, 1010, &["PTTL", "k"]), Frame::Int(0));
        assert_eq!(database.entries(1010).len(), 1);
        assert_eq!(database.entries(1011), []);
        assert_eq!(ask(&mut database, 1011, &["PTTL", "k"]), Frame::Int(-2));
    }

    #[test]
    fn a_script_that_fails_names_itself_and_the_line() {
        let mut database = Database::new();
        let reply = ask(&mut database, 0, &["EVAL", "\nreturn redis.call('nothing')", "0"]);
        let Frame::Error(text) = reply else { panic!("{reply:?}") };
        assert!(text.starts_with("ERR Unknown Redis command called from script script: "), "{text}");
        assert!(text.ends_with(", on @user_script:2."), "{text}");
    }

    #[test]
    fn a_snapshot_goes_its_own_way() {
        let mut database = Database::new();
        let _ = ask(&mut database, 0, &["RPUSH", "k", "a"]);
        let mut snapshot = database.clone();
        assert_eq!(ask(&mut snapshot, 0, &["RPUSH", "k", "b"]), Frame::Int(2));
        assert_eq!(ask(&mut database, 0, &["LLEN", "k"]), Frame::Int(1));
    }

    #[test]
    fn a_database_may_go_to_another_thread() {
        const fn sendable<T: Send + Clone>() {}
        sendable::<Database>();
    }
}
