//! A database with several clients, in-process and over streams.
//!
//! Invariant: commands are executed one after the other, and a subscriber receives its messages in that order.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leasehold_proto::Call;

use super::command_context::Message;
use super::condition::Condition;
use super::database::{Database, Executed};
use super::frame::Frame;
use super::glob::matches;
use super::keyspace::Entry;
use super::subscribers::SubscriptionKind;

/// The callback for each message of a subscriber. The callback must not block, nor use the server.
pub(super) type Deliver = Box<dyn Fn(&Message) + Send>;

type Clock = Box<dyn Fn() -> u64 + Send + Sync>;
type Observer = Box<dyn Fn(&[Vec<u8>], &Frame) + Send + Sync>;

/// An in-process server.
pub struct Server {
    clock: Clock,
    observer: Option<Observer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    database: Database,
    /// The subscribers by their channels or patterns, and then by their order of arrival.
    subscribers: BTreeMap<(SubscriptionKind, Vec<u8>), BTreeMap<u64, Deliver>>,
    last_id: u64,
}

impl Server {
    /// Returns an empty server that has just started. `clock` gives Unix milliseconds.
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let mut state = State::default();
        state.database.restart(clock());
        Self { clock: Box::new(clock), observer: None, state: Mutex::new(state) }
    }

    /// Sets a callback that receives every executed command, with its reply. The callback must not use the server.
    #[must_use]
    pub fn observed_by(mut self, on_executed: impl Fn(&[Vec<u8>], &Frame) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(on_executed));
        self
    }

    /// Executes one command and delivers the messages that the command published.
    pub fn execute<W: AsRef<[u8]>>(&self, command: &[W]) -> Frame {
        let words: Vec<Vec<u8>> = command.iter().map(|word| word.as_ref().to_vec()).collect();
        self.execute_then(|database, now_ms| database.execute(now_ms, &words), || words.clone(), |_| {})
    }

    /// Runs a call and delivers the messages that the call published.
    pub fn run(&self, call: &Call) -> Frame {
        self.run_by(call, |database, now_ms| database.run(now_ms, call))
    }

    /// Runs a call as [`run`](Self::run) does, but through `run`, which may inspect the database before and after. The
    /// function must not use the server.
    pub fn run_by(&self, call: &Call, run: impl FnOnce(&mut Database, u64) -> Executed) -> Frame {
        self.execute_then(run, || eval(call), |_| {})
    }

    /// Executes a command and delivers its messages, but through `run`, which may inspect the database before and after.
    /// The function must not use the server.
    pub fn execute_by(&self, command: &[Vec<u8>], run: impl FnOnce(&mut Database, u64) -> Executed) -> Frame {
        self.execute_then(run, || command.to_vec(), |_| {})
    }

    /// Executes `execute`, which receives the time, and then calls `then` with the reply before the next command is
    /// executed. `words` returns the command for the observer.
    pub(super) fn execute_then(
        &self,
        execute: impl FnOnce(&mut Database, u64) -> Executed,
        words: impl FnOnce() -> Vec<Vec<u8>>,
        then: impl FnOnce(&Frame),
    ) -> Frame {
        let mut state = self.state();
        let executed = execute(&mut state.database, (self.clock)());
        if let Some(observer) = &self.observer {
            observer(&words(), &executed.reply);
        }
        for message in &executed.messages {
            state.deliver(message);
        }
        then(&executed.reply);
        executed.reply
    }

    /// Gives access to the database, to inspect or to change it.
    pub fn database<R>(&self, act: impl FnOnce(&mut Database) -> R) -> R {
        act(&mut self.state().database)
    }

    /// Replaces the data, as a failover does. The subscribers stay, and so does the condition: what a lack of memory did to
    /// the server before, it does to the new one.
    pub fn take_over(&self, mut replica: Database) {
        let mut state = self.state();
        mem::swap(&mut replica.context.subscribers, &mut state.database.context.subscribers);
        replica.set_condition(state.database.condition());
        state.database = replica;
    }

    /// Makes the server refuse commands as a server in that state does.
    pub fn set_condition(&self, condition: Option<Condition>) {
        self.database(|database| database.set_condition(condition));
    }

    /// Returns all keys, sorted.
    pub fn entries(&self) -> Vec<Entry> {
        let now_ms = (self.clock)();
        self.database(|database| database.entries(now_ms))
    }

    /// Subscribes, and calls `then` before the first message can arrive. [`leave`](Self::leave) takes the returned
    /// number.
    pub(super) fn join(
        &self,
        kind: SubscriptionKind,
        channel: &[u8],
        deliver: Deliver,
        then: impl FnOnce(),
    ) -> u64 {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        state.subscribers.entry((kind, channel.to_vec())).or_default().insert(id, deliver);
        state.database.joins(kind, channel);
        then();
        id
    }

    /// Unsubscribes, and calls `then` before the next command is executed.
    pub(super) fn leave(&self, kind: SubscriptionKind, channel: &[u8], id: u64, then: impl FnOnce()) {
        let mut state = self.state();
        let key = (kind, channel.to_vec());
        // The drop comes after the unlock, because the subscriber's callback may own anything.
        let left = state.subscribers.get_mut(&key).and_then(|subscribers| subscribers.remove(&id));
        if left.is_some() {
            state.database.leaves(kind, channel);
        }
        if state.subscribers.get(&key).is_some_and(BTreeMap::is_empty) {
            state.subscribers.remove(&key);
        }
        then();
        drop(state);
        drop(left);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn deliver(&self, message: &Message) {
        let kind = if message.sharded { SubscriptionKind::Shard } else { SubscriptionKind::Channel };
        let direct = self.subscribers.get(&(kind, message.channel.clone()));
        direct.into_iter().flat_map(BTreeMap::values).for_each(|deliver| deliver(message));
        if message.sharded {
            return;
        }
        let patterns = self.subscribers.iter().filter(|((kind, pattern), _)| {
            *kind == SubscriptionKind::Pattern && matches(pattern, &message.channel)
        });
        patterns.flat_map(|(_, subscribers)| subscribers.values()).for_each(|deliver| deliver(message));
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Server")
    }
}

/// Returns the command of a call as a client would send it.
fn eval(call: &Call) -> Vec<Vec<u8>> {
    let head = ["EVAL", call.script().source()].map(|word| word.as_bytes().to_vec());
    let count = call.key_count().to_string().into_bytes();
    let inputs = call.keys().map(str::as_bytes).chain(call.args()).map(<[u8]>::to_vec);
    head.into_iter().chain([count]).chain(inputs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_of_the_server_survive_a_failover_and_those_of_the_replica_do_not() {
        let server = Server::new(|| 0);
        let join = |channel: &[u8]| server.join(SubscriptionKind::Channel, channel, Box::new(|_| {}), || {});
        let first = join(b"first");
        let _ = server.execute(&["SET", "k", "v"]);
        let replica = server.database(|database| database.clone());
        let _ = server.execute(&["DEL", "k"]);
        server.leave(SubscriptionKind::Channel, b"first", first, || {});
        let _ = join(b"second");
        server.take_over(replica);
        assert_eq!(server.execute(&["GET", "k"]), Frame::bulk("v"));
        assert_eq!(server.execute(&["PUBSUB", "CHANNELS"]), Frame::Array(vec![Frame::bulk("second")]));
    }
}
