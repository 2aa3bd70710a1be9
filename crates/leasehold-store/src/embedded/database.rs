//! One server as a value: its data, its scripts and its state.
//!
//! Invariant: the same commands at the same times give the same replies, whatever thread runs them.

use std::hash::{Hash, Hasher};
use std::mem;
use std::sync::Arc;

use leasehold_proto::Call;

use super::command_context::{CommandContext, Message};
use super::condition::Condition;
use super::dispatch::dispatch;
use super::fault::Fault;
use super::frame::Frame;
use super::keyspace::Entry;
use super::lua;
use super::scripting::Scripts;
use super::subscribers::SubscriptionKind;
use super::value::Value;

/// One server's data and scripts, without a clock, I/O or threads. A clone is a snapshot.
///
/// Two databases are equal, and have the same hash, when they would answer the same from now on. The comparison covers
/// their keys, values and expiries as of the last command of each database, their subscribers, the condition that was
/// set and the time of their start. It ignores the cached scripts and the time, because an explorer of states knows the
/// time of each state.
#[derive(Clone, Debug, Default)]
pub struct Database {
    pub(super) context: CommandContext,
    scripts: Scripts,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Executed {
    /// The reply.
    pub reply: Frame,
    /// The messages that the command published, in order.
    pub messages: Vec<Message>,
}

impl Database {
    /// Returns an empty server, which started when its clock was zero.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Restarts the server process. The server forgets its scripts, and INFO counts from now. The data stay, and
    /// FLUSHALL removes them. The caller reports the subscribers of the old process by [`leaves`](Self::leaves).
    pub fn restart(&mut self, now_ms: u64) {
        self.forget_scripts();
        self.context.started_ms = now_ms;
    }

    /// Executes one command, its name and its arguments, as a server would whose clock shows `now_ms` (Unix time in
    /// milliseconds). The clock may go back, or jump.
    pub fn execute(&mut self, now_ms: u64, command: &[Vec<u8>]) -> Executed {
        self.context.keyspace.now_ms = now_ms;
        let reply = dispatch(&mut self.context, &mut self.scripts, command)
            .unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()));
        self.executed(reply)
    }

    /// Runs a call as EVAL does.
    pub fn run(&mut self, now_ms: u64, call: &Call) -> Executed {
        self.context.keyspace.now_ms = now_ms;
        let reply = self.run_script(call).unwrap_or_else(|fault| Frame::Error(fault.0.into_owned()));
        self.executed(reply)
    }

    fn run_script(&mut self, call: &Call) -> Result<Frame, Fault> {
        if let Some(condition @ (Condition::Busy | Condition::Loading | Condition::MasterDown)) =
            self.context.condition
        {
            return Err(Fault::new(condition.text()));
        }
        let (sha1, source) = (call.script().sha1(), call.script().source().as_bytes());
        if !self.scripts.contains_key(sha1) {
            lua::check(sha1, source)?;
            self.scripts.insert(sha1.to_owned(), Arc::from(source));
        }
        let keys = call.keys().map(str::as_bytes);
        Ok(lua::run(&mut self.context, sha1, source, keys, call.args()))
    }

    fn executed(&mut self, reply: Frame) -> Executed {
        Executed { reply, messages: mem::take(&mut self.context.messages) }
    }

    /// Forgets all scripts, as SCRIPT FLUSH does.
    pub fn forget_scripts(&mut self) {
        self.scripts.clear();
    }

    /// Makes the server refuse commands as a server in that state does, until the caller sets `None`.
    pub fn set_condition(&mut self, condition: Option<Condition>) {
        self.context.condition = condition;
    }

    /// Returns the state that was set.
    #[must_use]
    pub fn condition(&self) -> Option<Condition> {
        self.context.condition
    }

    /// Returns the keys at this time, sorted, without the expired keys.
    pub fn entries(&mut self, now_ms: u64) -> Vec<Entry> {
        self.context.keyspace.now_ms = now_ms;
        self.context.keyspace.entries()
    }

    /// Returns the keys at this time with their values and expiries, sorted, without the expired keys.
    pub fn keys(&mut self, now_ms: u64) -> impl Iterator<Item = (&[u8], &Value, Option<u64>)> {
        self.context.keyspace.now_ms = now_ms;
        self.context.keyspace.iter().map(|(key, item)| (key, &item.value, item.expires_at_ms))
    }

    /// Removes the keys that `which` chooses and returns them, as a node does whose slots move.
    pub fn take(&mut self, which: impl Fn(&[u8]) -> bool) -> Vec<Entry> {
        self.context.keyspace.take(which)
    }

    /// Adds keys, in place of those with the same names.
    pub fn put(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for Entry { key, value, expires_at_ms } in entries {
            self.context.keyspace.set(&key, value, expires_at_ms);
        }
    }

    /// Counts one more subscriber, for the replies of PUBLISH and PUBSUB. Delivery is up to the caller.
    pub fn joins(&mut self, kind: SubscriptionKind, channel: &[u8]) {
        self.context.subscribers.joins(kind, channel);
    }

    /// Counts one subscriber less.
    pub fn leaves(&mut self, kind: SubscriptionKind, channel: &[u8]) {
        self.context.subscribers.leaves(kind, channel);
    }
}

impl PartialEq for Database {
    fn eq(&self, other: &Self) -> bool {
        self.context.view() == other.context.view()
    }
}

impl Eq for Database {}

impl Hash for Database {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.context.view().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

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
    fn keys_move_to_another_database_with_their_values_and_expiries() {
        let (mut from, mut to) = (Database::new(), Database::new());
        for words in
            [["SET", "b", "1", "PX", "10"], ["SET", "a", "2", "PX", "20"], ["SET", "c", "3", "PX", "30"]]
        {
            let _ = ask(&mut from, 1000, &words);
        }
        let _ = ask(&mut to, 1000, &["SET", "a", "old"]);
        let moved = from.take(|key| key != b"c");
        assert_eq!(moved.iter().map(|entry| entry.key.as_slice()).collect::<Vec<_>>(), [b"a", b"b"]);
        to.put(moved);
        assert_eq!(ask(&mut to, 1005, &["GET", "a"]), Frame::bulk("2"));
        assert_eq!(ask(&mut to, 1011, &["EXISTS", "a", "b"]), Frame::Int(1));
        assert_eq!(ask(&mut from, 1005, &["EXISTS", "a", "b", "c"]), Frame::Int(1));
    }

    #[test]
    fn a_failed_script_names_itself_and_the_line() {
        let mut database = Database::new();
        let reply = ask(&mut database, 0, &["EVAL", "\nreturn redis.call('nothing')", "0"]);
        let Frame::Error(text) = reply else { panic!("{reply:?}") };
        assert!(text.starts_with("ERR Unknown Redis command called from script script: "), "{text}");
        assert!(text.ends_with(", on @user_script:2."), "{text}");
    }

    #[test]
    fn a_snapshot_changes_independently() {
        let mut database = Database::new();
        let _ = ask(&mut database, 0, &["RPUSH", "k", "a"]);
        let mut snapshot = database.clone();
        assert_eq!(ask(&mut snapshot, 0, &["RPUSH", "k", "b"]), Frame::Int(2));
        assert_eq!(ask(&mut database, 0, &["LLEN", "k"]), Frame::Int(1));
    }

    /// Returns true if two databases are equal, and checks that their hashes agree.
    fn are_equal(one: &Database, other: &Database) -> bool {
        let hash = |database| BuildHasherDefault::<DefaultHasher>::new().hash_one(database);
        assert_eq!(one == other, hash(one) == hash(other));
        one == other
    }

    #[test]
    fn databases_with_equal_contents_are_equal_whatever_their_history() {
        let make = |commands: &[&[&str]]| {
            let mut database = Database::new();
            commands.iter().for_each(|words| assert!(!ask(&mut database, 1000, words).is_error()));
            database
        };
        let empty = Database::new();
        let one = make(&[&["SET", "a", "1"], &["HSET", "b", "f", "1", "g", "2"], &["ZADD", "c", "-0", "m"]]);
        let mut same = make(&[
            &["ZADD", "c", "5", "m", "5", "n"],
            &["EVAL", "return redis.call('set', KEYS[1], 1)", "1", "a"],
            &["ZADD", "c", "0", "m"],
            &["ZREM", "c", "n"],
            &["HSET", "b", "f", "9"],
            &["HSET", "b", "g", "2", "f", "1"],
        ]);
        assert!(are_equal(&one, &same) && !are_equal(&one, &empty));
        // Time passes without a consequence.
        let _ = ask(&mut same, 2000, &["GET", "a"]);
        assert!(are_equal(&one, &same));
        let others: [&[&str]; 7] = [
            &["SET", "a", "2"],
            &["PEXPIRE", "a", "5"],
            &["SET", "other", ""],
            &["HSET", "b", "f", "2"],
            &["HDEL", "b", "f"],
            &["ZADD", "c", "1", "m"],
            &["RPUSH", "d", "1"],
        ];
        for words in others {
            let mut other = one.clone();
            let _ = ask(&mut other, 1000, words);
            assert!(!are_equal(&one, &other), "{words:?}");
        }
        // HKEYS shows the order of fields.
        let turned =
            make(&[&["SET", "a", "1"], &["HSET", "b", "g", "2", "f", "1"], &["ZADD", "c", "0", "m"]]);
        assert!(!are_equal(&one, &turned));
    }

    #[test]
    fn databases_are_equal_when_all_their_future_replies_are_equal() {
        let mut one = Database::new();
        let _ = ask(&mut one, 1000, &["SET", "k", "v", "PX", "10"]);
        let mut other = one.clone();
        let _ = ask(&mut one, 1011, &["EXISTS", "else"]);
        let _ = ask(&mut other, 1011, &["EXISTS", "k"]);
        assert!(
            are_equal(&one, &other) && are_equal(&one, &Database::new()),
            "what has expired is not there"
        );
        other.joins(SubscriptionKind::Shard, b"c");
        assert!(!are_equal(&one, &other));
        other.leaves(SubscriptionKind::Shard, b"c");
        other.set_condition(Some(Condition::Busy));
        assert!(!are_equal(&one, &other));
        other.set_condition(None);
        other.forget_scripts();
        assert!(are_equal(&one, &other));
        other.restart(1011);
        assert!(!are_equal(&one, &other));
    }

    #[test]
    fn a_restart_resets_the_uptime_and_keeps_the_data() {
        let mut database = Database::new();
        let uptime = "return string.match(redis.call('info', 'server'), 'uptime_in_seconds:(-?%d+)')";
        let uptime = |database: &mut Database, now_ms| ask(database, now_ms, &["EVAL", uptime, "0"]);
        assert_eq!(uptime(&mut database, 90_061_999), Frame::bulk("90061"));
        let _ = ask(&mut database, 90_061_999, &["SET", "k", "v"]);
        database.restart(90_061_999);
        assert_eq!(uptime(&mut database, 90_062_000), Frame::bulk("1"), "whole seconds of the clock");
        assert_eq!(uptime(&mut database, 90_060_000), Frame::bulk("-1"), "a clock may be set back");
        assert_eq!(ask(&mut database, 90_062_000, &["GET", "k"]), Frame::bulk("v"));
        assert_eq!(ask(&mut database, 0, &["INFO", "clients"]), Frame::bulk(""));
    }

    #[test]
    fn a_database_can_move_to_another_thread() {
        const fn sendable<T: Send + Clone>() {}
        sendable::<Database>();
    }
}
