//! A server as a part of a state: a real database with the real scripts, or with one broken script.
//!
//! Invariant: two servers are equal if they have the same keys, values and expiries now, and started at the same time.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use leasehold_proto::native::Word;
use leasehold_proto::{Call, Channel, Reply, StoreError, recipe};
use leasehold_store::embedded::{Database, Entry, Fields, SortedSet, SubscriptionKind, Value, read_reply};

use super::memory::Shared;

/// A broken variant of a script, to show that the checks can fail: a text of the script, and its replacement.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct BrokenVariant {
    pub(crate) find: &'static str,
    pub(crate) put: &'static str,
}

impl BrokenVariant {
    /// Returns true if a script contains the text.
    pub(crate) fn exists(&self) -> bool {
        recipe::scripts().any(|script| script.source().contains(self.find))
    }
}

/// How a call is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    Script,
    /// As the native command that stands in for its script.
    Native,
}

/// The result of a call.
#[derive(Clone, Debug)]
pub(crate) struct Executed {
    /// The reply, or `None` if the script has to follow the native command.
    pub(crate) reply: Option<Result<Reply, StoreError>>,
    /// The channels of the messages.
    pub(crate) told: Arc<[Channel]>,
}

#[derive(Clone, Debug, Default, Hash)]
struct State {
    /// The entries now.
    entries: Vec<Entry>,
    started_ms: u64,
    /// The number of subscriptions of each channel.
    listeners: BTreeMap<Channel, usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Server {
    database: Arc<Database>,
    state: Shared<State>,
}

impl Server {
    /// Creates a server that started at time zero, and executes these commands.
    pub(crate) fn after(commands: &[&[&str]], now_ms: u64) -> Self {
        let mut database = Database::new();
        for command in commands {
            let words: Vec<Vec<u8>> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
            assert!(!database.execute(now_ms, &words).reply.is_error(), "{command:?}");
        }
        let state = Shared::new(State { entries: database.entries(now_ms), ..State::default() });
        Self { database: Arc::new(database), state }
    }

    pub(super) fn execute(
        &mut self,
        call: &Call,
        now_ms: u64,
        (form, variant): (Form, Option<BrokenVariant>),
    ) -> Executed {
        let database = Arc::make_mut(&mut self.database);
        let broken = variant.filter(|variant| call.script().source().contains(variant.find));
        let native = call.script().native().filter(|_| form == Form::Native).map(|native| native.0[0]);
        let executed = match (native, broken) {
            (Some(native), _) => database.execute(now_ms, &words(call, native.words)),
            (None, None) => database.run(now_ms, call),
            (None, Some(variant)) => database.execute(now_ms, &eval(call, variant)),
        };
        let entries = database.entries(now_ms);
        self.state = Shared::new(State { entries, ..(*self.state).clone() });
        let text = |channel: &[u8]| Channel::new(&String::from_utf8_lossy(channel));
        let told = executed.messages.iter().map(|message| text(&message.channel)).collect();
        let reply = read_reply(executed.reply, call.verb(), call.subject());
        let reply = match (native, reply) {
            (Some(native), Ok(reply)) => (native.read)(call.arguments(), &reply).map(Ok),
            (_, reply) => Some(reply),
        };
        Executed { reply, told }
    }

    /// Removes the keys that have expired by a new time.
    pub(crate) fn pass_to(&mut self, now_ms: u64) {
        let lives = |entry: &Entry| entry.expires_at_ms.is_none_or(|at| now_ms <= at);
        if !self.entries().iter().all(lives) {
            let present = self.entries().iter().filter(|entry| lives(entry)).cloned().collect();
            self.state = Shared::new(State { entries: present, ..(*self.state).clone() });
        }
    }

    /// Restarts the server without its data.
    pub(crate) fn restart_empty(&mut self, now_ms: u64) {
        let database = Arc::make_mut(&mut self.database);
        let _ = database.execute(now_ms, &[b"FLUSHALL".to_vec()]);
        database.restart(now_ms);
        self.state = Shared::new(State { started_ms: now_ms, ..State::default() });
    }

    /// Counts a subscription more, or one less.
    pub(super) fn count(&mut self, channel: &Channel, is_more: bool) {
        let database = Arc::make_mut(&mut self.database);
        let name = channel.as_str().as_bytes();
        let mut state = (*self.state).clone();
        let listeners = state.listeners.entry(channel.clone()).or_default();
        if is_more {
            database.joins(SubscriptionKind::Channel, name);
            *listeners += 1;
        } else {
            database.leaves(SubscriptionKind::Channel, name);
            *listeners -= 1;
        }
        state.listeners.retain(|_, listeners| *listeners > 0);
        self.state = Shared::new(state);
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.state.entries
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key.as_bytes())
    }

    pub(crate) fn hash(&self, key: &str) -> Option<&Fields> {
        match &self.entry(key)?.value {
            Value::Hash(fields) => Some(fields),
            _ => None,
        }
    }

    pub(crate) fn has_field(&self, key: &str, field: &str) -> bool {
        self.hash(key).is_some_and(|fields| fields.contains_key(field.as_bytes()))
    }

    pub(crate) fn list(&self, key: &str) -> Option<&VecDeque<Vec<u8>>> {
        match &self.entry(key)?.value {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    pub(crate) fn sorted_set(&self, key: &str) -> Option<&SortedSet> {
        match &self.entry(key)?.value {
            Value::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    pub(crate) fn string(&self, key: &str) -> Option<&[u8]> {
        match &self.entry(key)?.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the number in a string.
    pub(crate) fn number(&self, key: &str) -> Option<i64> {
        match &self.entry(key)?.value {
            Value::String(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            _ => None,
        }
    }
}

impl PartialEq for Server {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

impl Eq for Server {}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.state.hash(state);
    }
}

/// Builds the native command of a call.
fn words(call: &Call, words: &[Word]) -> Vec<Vec<u8>> {
    let word = |word: &Word| match *word {
        Word::Text(text) => text.as_bytes().to_vec(),
        Word::Key(at) => call.keys().nth(at).unwrap().as_bytes().to_vec(),
        Word::Arg(at) => call.args().nth(at).unwrap().to_vec(),
    };
    words.iter().map(word).collect()
}

/// Builds the `EVAL` command of a call with a broken script.
fn eval(call: &Call, variant: BrokenVariant) -> Vec<Vec<u8>> {
    let source = call.script().source().replace(variant.find, variant.put);
    let head = [b"EVAL".to_vec(), source.into_bytes(), call.key_count().to_string().into_bytes()];
    let inputs = call.keys().map(str::as_bytes).chain(call.args()).map(<[u8]>::to_vec);
    head.into_iter().chain(inputs).collect()
}
