//! What a server has under one name.
//!
//! Invariant: an object counts as a lock only if it has the form of one. A hash of another application may be any hash, so
//! every field and value has to fit.

use std::time::Duration;

use super::kind::Kind;
use crate::call::Call;
use crate::name::Name;
use crate::outcome::Verb;
use crate::permit::PermitId;
use crate::recipe::{NUMSUB, Remaining, fair, fenced, latch, plain, reentrant, semaphore, sides};
use crate::reply::Reply;
use crate::script::Script;

/// The script that reads all keys of a name.
pub static DESCRIBE: Script = Script::new(
    Verb::Inspect,
    concat!(
        include_str!("../../scripts/operate/parts.lua"),
        include_str!("../../scripts/operate/describe.lua")
    ),
);

/// The most fields, waiters and permits of a name that a description has, so that the script does not block the server. The
/// script has a copy of the number.
pub const PARTS_MAX: usize = 100;

/// Reads what the server has under this name.
#[must_use]
pub fn describe(name: &Name) -> Call {
    let [fair_queue, deadlines, seen] = fair::queue_keys(name);
    let [fifo, called] = semaphore::queue_keys(name);
    Call::of(&DESCRIBE)
        .key("lock", name)
        .key("readers", name.tagged_text())
        .key("writer", sides::writer_mark(name))
        .key("upgrade", sides::upgrade_mark(name))
        .key("token", fenced::token_key(name))
        .key("queue", fair_queue)
        .key("timeout", deadlines)
        .key("seen", seen)
        .key("ids", semaphore::ids(name))
        .key("fifo", fifo)
        .key("called", called)
        .key("note", latch::note(name))
        .arg("numsub", NUMSUB)
        .arg("hashes", name.prefixed_text(reentrant::CHANNEL))
        .arg("sides", name.prefixed_text(sides::CHANNEL))
        .arg("permits", name.prefixed_text(semaphore::CHANNEL))
        .arg("latch", name.latch_channel_text())
        .arg("strings", name.prefixed_text(plain::CHANNEL))
}

/// What a server has under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Described {
    /// The server's time in unix milliseconds.
    pub now_ms: u64,
    /// The object itself.
    pub content: Content,
    /// The time that the object has left, or `None` without an object.
    pub left: Option<Remaining>,
    /// The fencing token of the last grant.
    pub token: Option<u64>,
    /// The owner of the writer whose mark makes yielding readers wait.
    pub writer: Option<String>,
    /// The owners of the reader that waits to write: the reader's, a space, and the writer's.
    pub upgrade: Option<String>,
    /// True if the note of a latch is there.
    pub has_note: bool,
    /// The queue of a fair lock.
    pub queue: Queue,
    /// The permits of an expirable semaphore.
    pub permits: Permits,
    /// The queue of a semaphore.
    pub fifo: Queue,
    /// The clients that listen, or `None` if one server does not know all of them, or does not tell.
    pub listeners: Option<Listeners>,
}

/// An object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// No object.
    Gone,
    /// A hash with the form of a lock.
    Lock {
        /// The side that holds it, for a read-write lock.
        mode: Option<Mode>,
        /// The number of its fields, of which the mode of a read-write lock is one.
        fields: u64,
        /// The first holds.
        holds: Vec<Hold>,
    },
    /// A number.
    Number(i64),
    /// A text, which may be the value of a plain lock.
    #[non_exhaustive]
    Text {
        /// Its first 256 bytes.
        bytes: Vec<u8>,
        /// True if these are all.
        is_whole: bool,
    },
    /// The type of an object that is none of these.
    Other(String),
}

/// The side of a read-write lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a read-write lock has two sides")]
pub enum Mode {
    /// Readers hold it.
    Read,
    /// A writer holds it.
    Write,
}

/// A hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Hold {
    /// The wire owner.
    pub owner: String,
    /// The hold count.
    pub count: u32,
    /// The side, for a read-write lock.
    pub mode: Option<Mode>,
    /// The lease of a reader.
    pub lease: Option<Duration>,
}

/// A queue of waiters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queue {
    /// The number of waiters.
    pub length: u64,
    /// The first waiters.
    pub first: Vec<Queued>,
}

/// A waiter in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Queued {
    /// The wire owner.
    pub owner: String,
    /// The time since its last call. Redisson's waiters make no such calls.
    pub silent: Option<Duration>,
    /// True if the server will pass the waiter by: it has not called for too long, or its deadline is over.
    pub is_dead: bool,
}

/// The permits of an expirable semaphore that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Permits {
    /// Their number.
    pub taken: u64,
    /// The first permits to end, and the time that each has left.
    pub first: Vec<(PermitId, Duration)>,
}

/// The clients that listen on the channels of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listeners {
    /// On the channel of a lock.
    pub lock: u64,
    /// On the channel of a read-write lock.
    pub read_write: u64,
    /// On the channel of a semaphore.
    pub semaphore: u64,
    /// On the channel of a latch.
    pub latch: u64,
    /// On the channel of a plain lock.
    pub plain: u64,
}

/// Reads the reply of [`describe`].
#[must_use]
pub fn read_described(reply: &Reply) -> Option<Described> {
    let [Reply::Int(now), Reply::Text(kind), Reply::Int(pttl), Reply::Int(length), content, rest @ ..] =
        items(reply)?
    else {
        return None;
    };
    let [leases, marks, queue, ids, fifo, listeners] = rest else { return None };
    let [token, writer, upgrade, note] = items(marks)? else { return None };
    let now_ms = (*now).try_into().ok()?;
    Some(Described {
        now_ms,
        content: read_content(kind, *length, content, leases),
        left: match *pttl {
            -2 => None,
            -1 => Some(Remaining::NoExpiry),
            ms => Some(Remaining::For(Duration::from_millis(ms.try_into().ok()?))),
        },
        token: text(token).and_then(|token| token.parse().ok()),
        writer: text(writer),
        upgrade: text(upgrade),
        has_note: text(note).is_some(),
        queue: read_queue(queue, now_ms)?,
        permits: read_permits(ids, now_ms)?,
        fifo: read_queue(fifo, now_ms)?,
        listeners: read_listeners(listeners)?,
    })
}

fn items(reply: &Reply) -> Option<&[Reply]> {
    match reply {
        Reply::Array(items) => Some(items),
        _ => None,
    }
}

fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}

/// Reads a score of a sorted set.
fn score(reply: &Reply) -> Option<f64> {
    text(reply)?.parse().ok().filter(|score: &f64| score.is_finite())
}

fn read_content(kind: &[u8], length: i64, content: &Reply, leases: &Reply) -> Content {
    let kind = String::from_utf8_lossy(kind).into_owned();
    match (kind.as_str(), content) {
        ("none", _) => Content::Gone,
        ("hash", Reply::Array(pairs)) => {
            read_lock(length, pairs, items(leases).unwrap_or_default()).unwrap_or(Content::Other(kind))
        }
        ("string", Reply::Text(bytes)) => {
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
            let is_whole = usize::try_from(length) == Ok(bytes.len());
            number.map_or_else(|| Content::Text { bytes: bytes.clone(), is_whole }, Content::Number)
        }
        _ => Content::Other(kind),
    }
}

/// Reads a hash with the form of a lock: each field is an owner with a count, or the mode of a read-write lock.
fn read_lock(fields: i64, pairs: &[Reply], leases: &[Reply]) -> Option<Content> {
    let (mut mode, mut holds) = (None, Vec::new());
    for (place, pair) in pairs.chunks_exact(2).enumerate() {
        let (field, value) = (text(&pair[0])?, text(&pair[1])?);
        if field == "mode" {
            mode = Some(if value == "write" { Mode::Write } else { Mode::Read });
            if value != "write" && value != "read" {
                return None;
            }
            continue;
        }
        let count = value.parse::<u32>().ok().filter(|count| *count > 0 && count.to_string() == value)?;
        let lease = match leases.get(place) {
            Some(Reply::Int(ms @ 0..)) => u64::try_from(*ms).ok().map(Duration::from_millis),
            _ => None,
        };
        let (owner, side) = match field.strip_suffix(":write") {
            Some(owner) => (owner, Some(Mode::Write)),
            None => (field.as_str(), None),
        };
        if !is_owner(owner) {
            return None;
        }
        holds.push(Hold { owner: owner.to_owned(), count, mode: side, lease });
    }
    let has_sides = holds.iter().any(|hold| hold.mode.is_some());
    // Only the writer's field names its side, and it is always beside a mode.
    if holds.is_empty() || (has_sides && mode.is_none()) {
        return None;
    }
    if mode.is_some() {
        holds.iter_mut().for_each(|hold| hold.mode = hold.mode.or(Some(Mode::Read)));
    }
    Some(Content::Lock { mode, fields: fields.try_into().ok()?, holds })
}

/// Returns true if the text has the form of an owner: `uuid:number`, with the id of a transaction behind it or not.
#[must_use]
pub fn is_owner(text: &str) -> bool {
    let mut parts = text.split(':');
    let (Some(client), Some(number)) = (parts.next(), parts.next()) else { return false };
    let is_hex = |text: &str| text.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_uuid = client.len() == 36
        && client.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_number = !digits.is_empty() && digits.len() <= 20 && digits.bytes().all(|d| d.is_ascii_digit());
    let is_transaction = parts.next().is_none_or(|id| id.len() == 32 && is_hex(id));
    is_uuid && is_number && is_transaction && parts.next().is_none()
}

fn read_queue(reply: &Reply, now_ms: u64) -> Option<Queue> {
    let [Reply::Int(length), waiters @ ..] = items(reply)? else { return None };
    let read = |waiter: &[Reply]| {
        let ago = |at: f64| Duration::from_millis((now_ms as f64 - at).max(0.0) as u64);
        let silent = score(&waiter[1]).map(ago);
        // A waiter with a last call lives by it, any other one by its deadline.
        let is_dead = match silent {
            Some(silent) => silent > fair::GONE_AFTER,
            None => score(&waiter[2]).is_some_and(|due| due < now_ms as f64),
        };
        Some(Queued { owner: text(&waiter[0])?, silent, is_dead })
    };
    let first = waiters.chunks_exact(3).filter_map(read).collect();
    Some(Queue { length: (*length).try_into().ok()?, first })
}

fn read_permits(reply: &Reply, now_ms: u64) -> Option<Permits> {
    let [Reply::Int(taken), rest @ ..] = items(reply)? else { return None };
    let read = |pair: &[Reply]| {
        let Reply::Text(id) = &pair[0] else { return None };
        let left = (score(&pair[1])? - now_ms as f64).max(0.0);
        Some((PermitId::from_bytes(id.as_slice().try_into().ok()?), Duration::from_millis(left as u64)))
    };
    let first = rest.first().and_then(items).unwrap_or_default();
    Some(Permits {
        taken: (*taken).try_into().ok()?,
        first: first.chunks_exact(2).filter_map(read).collect(),
    })
}

fn read_listeners(reply: &Reply) -> Option<Option<Listeners>> {
    let counts: Option<Vec<u64>> = match items(reply)? {
        counts @ [_, _, _, _, _] => counts
            .iter()
            .map(|count| if let Reply::Int(count) = count { Some(u64::try_from(*count).ok()) } else { None })
            .collect::<Option<Option<Vec<u64>>>>()?,
        _ => return None,
    };
    Some(counts.map(|counts| Listeners {
        lock: counts[0],
        read_write: counts[1],
        semaphore: counts[2],
        latch: counts[3],
        plain: counts[4],
    }))
}

impl Described {
    /// Returns the kind of the object, or `None` if nothing is there and nobody waits. The hint is the kind that a client or
    /// a channel names, which settles what the server alone cannot know.
    #[must_use]
    pub fn kind(&self, hint: Option<Kind>) -> Option<Kind> {
        let of_lock = hint.filter(|kind| kind.is_lock());
        let of_number = hint.filter(|kind| kind.is_number());
        Some(match &self.content {
            Content::Lock { mode: Some(_), .. } => Kind::ReadWrite,
            Content::Lock { .. } if self.queue.length > 0 => Kind::Fair,
            Content::Lock { .. } => of_lock
                .filter(|kind| !matches!(kind, Kind::Lock | Kind::ReadWrite))
                .unwrap_or(if self.token.is_some() { Kind::Fenced } else { Kind::Lock }),
            Content::Number(_) if self.permits.taken > 0 => Kind::Expirable,
            Content::Number(_) | Content::Text { .. } if hint == Some(Kind::Plain) => Kind::Plain,
            Content::Number(_) => {
                let waited_for = self.waited_for().filter(|kind| kind.is_number() || *kind == Kind::Plain);
                of_number.or(waited_for).unwrap_or(Kind::Counter)
            }
            Content::Text { bytes, is_whole: true } if plain::Value::read(bytes).is_some() => Kind::Plain,
            Content::Text { .. } => {
                self.waited_for().filter(|kind| *kind == Kind::Plain).unwrap_or(Kind::Text)
            }
            Content::Other(_) => Kind::Foreign,
            Content::Gone => return hint.or(self.waited_for()),
        })
    }

    /// Returns the kind for which somebody waits.
    fn waited_for(&self) -> Option<Kind> {
        let none = Listeners { lock: 0, read_write: 0, semaphore: 0, latch: 0, plain: 0 };
        let heard = self.listeners.unwrap_or(none);
        let signs = [
            (Kind::Fair, self.queue.length > 0),
            (Kind::Expirable, self.permits.taken > 0),
            (Kind::Semaphore, self.fifo.length > 0 || heard.semaphore > 0),
            (Kind::ReadWrite, self.writer.is_some() || self.upgrade.is_some() || heard.read_write > 0),
            (Kind::Latch, heard.latch > 0),
            (Kind::Plain, heard.plain > 0),
            (Kind::Lock, heard.lock > 0),
        ];
        signs.into_iter().find(|(_, is_sign)| *is_sign).map(|(kind, _)| kind)
    }

    /// Returns true if the object is of another kind than this hint can be.
    #[must_use]
    pub fn contradicts(&self, hint: Kind) -> bool {
        match &self.content {
            Content::Lock { mode: Some(_), .. } => hint != Kind::ReadWrite,
            Content::Lock { .. } => !hint.is_lock() || hint == Kind::ReadWrite,
            Content::Number(_) => !hint.is_number() && hint != Kind::Plain,
            Content::Text { .. } => hint != Kind::Plain,
            Content::Other(_) => true,
            Content::Gone => false,
        }
    }
}

#[cfg(test)]
mod tests;
