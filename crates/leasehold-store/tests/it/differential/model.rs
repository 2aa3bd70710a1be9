//! The embedded server, following the real one.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

use leasehold_store::embedded::{Database, Entry, Frame, Message, SubscriptionKind};

use crate::differential::dump::{Plain, State, plain, restore};
use crate::differential::real::{Answer, CHANNEL, PATTERN, Real, SHARD};

/// The maximum number of copies.
const COPIES_MAX: usize = 24;
/// The number of commands that the model remembers for the report of a failure.
const REMEMBERED: usize = 3000;
const REPORTED_COMMANDS: usize = 12;

#[derive(Clone)]
struct Copy {
    database: Database,
    heard: Vec<Vec<u8>>,
}

/// All possible states of the server according to its answers.
pub(crate) struct Model {
    copies: Vec<Copy>,
    started_ms: u64,
    past: VecDeque<(Vec<Vec<u8>>, u64, Vec<u8>)>,
}

fn listened_to(started_ms: u64) -> Database {
    let mut database = Database::new();
    database.restart(started_ms);
    database.joins(SubscriptionKind::Channel, CHANNEL.as_bytes());
    database.joins(SubscriptionKind::Shard, SHARD.as_bytes());
    database.joins(SubscriptionKind::Pattern, PATTERN.as_bytes());
    database
}

impl Model {
    pub(crate) fn new(started_ms: u64) -> Self {
        let database = listened_to(started_ms);
        Self { copies: vec![Copy { database, heard: Vec::new() }], started_ms, past: VecDeque::new() }
    }

    /// Executes a command that the server executed. Fails when no copy gives the server's answer.
    pub(crate) fn follow(&mut self, command: &[Vec<u8>], answer: &Answer) -> Result<(), String> {
        let mut next = Vec::new();
        let mut ours = Vec::new();
        for copy in &mut self.copies {
            for now_ms in answer.from_ms..=answer.to_ms {
                let mut tried = if answer.from_ms == answer.to_ms {
                    Copy {
                        database: std::mem::take(&mut copy.database),
                        heard: std::mem::take(&mut copy.heard),
                    }
                } else {
                    copy.clone()
                };
                let executed = tried.database.execute(now_ms, command);
                let reply = executed.reply.encode();
                if reply == answer.reply {
                    tried.heard.extend(executed.messages.iter().flat_map(deliveries));
                    next.push(tried);
                } else {
                    ours = reply;
                }
            }
        }
        self.past.push_back((command.to_vec(), answer.from_ms, answer.reply.clone()));
        if self.past.len() > REMEMBERED {
            self.past.pop_front();
        }
        next.truncate(COPIES_MAX);
        self.copies = next;
        if self.copies.is_empty() {
            let theirs = show_bytes(&answer.reply);
            return Err(format!(
                "{}\n  redis:    {theirs}\n  embedded: {}",
                show(command),
                show_bytes(&ours)
            ));
        }
        Ok(())
    }

    /// Compares the data and the messages. Retains the copies that agree, and returns the number of their keys.
    pub(crate) fn compare(&mut self, state: &State, heard: &[Vec<u8>]) -> Result<u64, String> {
        let mut report = String::new();
        self.copies.retain_mut(|copy| {
            if copy.heard != heard {
                let show = |all: &[Vec<u8>]| all.iter().map(|one| show_bytes(one) + "\n").collect::<String>();
                report =
                    format!("heard from redis:\n{}from the embedded:\n{}", show(heard), show(&copy.heard));
                return false;
            }
            copy.heard.clear();
            (state.from_ms..=state.to_ms).any(|now_ms| {
                match differs(&mut copy.database, now_ms, &state.entries) {
                    None => true,
                    Some(difference) => {
                        report = difference;
                        false
                    }
                }
            })
        });
        self.unite(state.to_ms);
        if self.copies.is_empty() { Err(report) } else { Ok(state.entries.len() as u64) }
    }

    /// Retains one of several equal copies. Some remain different, because the dump is inexact for times in the far
    /// future.
    fn unite(&mut self, now_ms: u64) {
        let mut seen: Vec<Vec<Entry>> = Vec::new();
        self.copies.retain_mut(|copy| {
            let entries = copy.database.entries(now_ms);
            let is_new = !seen.contains(&entries);
            if is_new {
                seen.push(entries);
            }
            is_new
        });
    }

    /// Takes over the server's data.
    ///
    /// A script returned the times as numbers of Lua. Where such a number is inexact, the key is removed on both sides.
    pub(crate) fn resynchronise(&mut self, real: &mut Real, entries: &[Plain]) {
        let exact = |entry: &&Plain| entry[2].len() < 16;
        let vague = entries.iter().filter(|entry| !exact(entry));
        let removals: Vec<_> = vague.map(|entry| vec![b"DEL".to_vec(), entry[0].clone()]).collect();
        real.execute_timed(&removals);
        let mut database = listened_to(self.started_ms);
        for command in entries.iter().filter(exact).flat_map(restore) {
            let reply = database.execute(0, &command).reply;
            assert!(!reply.is_error(), "{reply:?}");
        }
        self.copies = vec![Copy { database, heard: Vec::new() }];
    }

    /// Returns the last commands that used the keys of this command.
    pub(crate) fn report(&self, command: &[Vec<u8>]) -> String {
        let keys: Vec<_> = command[1..].iter().filter(|word| word.starts_with(b"k:")).collect();
        let related =
            self.past.iter().rev().skip(1).filter(|(past, ..)| past.iter().any(|word| keys.contains(&word)));
        let told: Vec<_> = related
            .take(REPORTED_COMMANDS)
            .map(|(past, at, reply)| format!("  {at} {} -> {}\n", show(past), show_bytes(reply)))
            .collect();
        told.into_iter().rev().collect()
    }
}

fn differs(database: &mut Database, now_ms: u64, theirs: &[Plain]) -> Option<String> {
    let written = |score: f64| score_text(score);
    let ours: Vec<Plain> = database.entries(now_ms).iter().map(|entry| plain(entry, written)).collect();
    if ours == theirs {
        return None;
    }
    let lacks = |all: &[Plain], other: &[Plain]| {
        all.iter()
            .filter(|one| !other.contains(one))
            .map(|one| format!("    {}\n", show(one)))
            .collect::<String>()
    };
    Some(format!("data at {now_ms}\n  redis:\n{}  embedded:\n{}", lacks(theirs, &ours), lacks(&ours, theirs)))
}

/// Returns a score as replies write it.
fn score_text(score: f64) -> Vec<u8> {
    thread_local! {
        static KNOWN: RefCell<HashMap<u64, Vec<u8>>> = RefCell::default();
    }
    KNOWN.with_borrow_mut(|known| known.entry(score.to_bits()).or_insert_with(|| ask_for_text(score)).clone())
}

fn ask_for_text(score: f64) -> Vec<u8> {
    let mut database = Database::new();
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>();
    database.execute(0, &words(&["ZADD", "k", &format!("{score:?}"), "m"]));
    match database.execute(0, &words(&["ZSCORE", "k", "m"])).reply {
        Frame::Bulk(text) => text,
        other => panic!("{score}: {other:?}"),
    }
}

fn deliveries(message: &Message) -> Vec<Vec<u8>> {
    let frame = |kind: &[&str]| {
        let mut items: Vec<_> = kind.iter().map(|word| Frame::bulk(*word)).collect();
        items.extend([Frame::Bulk(message.channel.clone()), Frame::Bulk(message.payload.clone())]);
        Frame::Array(items).encode()
    };
    let mut all = Vec::new();
    if message.sharded {
        if message.channel == SHARD.as_bytes() {
            all.push(frame(&["smessage"]));
        }
        return all;
    }
    if message.channel == CHANNEL.as_bytes() {
        all.push(frame(&["message"]));
    }
    if message.channel.starts_with(b"c:") {
        all.push(frame(&["pmessage", PATTERN]));
    }
    all
}

pub(crate) fn show_bytes(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub(crate) fn show(command: &[Vec<u8>]) -> String {
    command.iter().map(|word| format!("\"{}\"", show_bytes(word))).collect::<Vec<_>>().join(" ")
}

pub(crate) fn show_all(batch: &[Vec<Vec<u8>>]) -> String {
    batch.iter().map(|command| format!("  {}\n", show(command))).collect()
}
