//! The embedded server's commands. The server answers any words at any time, and its data stays valid.
//!
//! Invariant: no script here runs without end. Such a script is the fault of its caller, as on any server.

use arbitrary::{Result, Unstructured};
use leasehold_store::embedded::{Database, Entry, Executed, Frame, Value};

use crate::resp;

const COMMANDS: usize = 100;

const NAMES: [&str; 72] = [
    "persist",
    "expire",
    "expireat",
    "pexpire",
    "pexpireat",
    "ttl",
    "pttl",
    "expiretime",
    "pexpiretime",
    "hset",
    "hmset",
    "hsetnx",
    "hincrby",
    "hdel",
    "hget",
    "hmget",
    "hexists",
    "hlen",
    "hstrlen",
    "hkeys",
    "hvals",
    "hgetall",
    "del",
    "unlink",
    "exists",
    "type",
    "keys",
    "dbsize",
    "flushall",
    "flushdb",
    "rpush",
    "lpush",
    "lpop",
    "rpop",
    "llen",
    "lindex",
    "lrange",
    "lrem",
    "publish",
    "spublish",
    "pubsub",
    "script",
    "ping",
    "echo",
    "time",
    "select",
    "auth",
    "hello",
    "client",
    "subscribe",
    "get",
    "set",
    "setnx",
    "incr",
    "decr",
    "incrby",
    "decrby",
    "zcount",
    "zrange",
    "zrevrange",
    "zrangebyscore",
    "zrevrangebyscore",
    "zremrangebyscore",
    "zadd",
    "zincrby",
    "zrem",
    "zscore",
    "zcard",
    "eval",
    "evalsha",
    "eval_ro",
    "rename",
];

const WORDS: [&str; 48] = [
    "a",
    "b",
    "{a}c",
    "",
    "0",
    "1",
    "-1",
    "2",
    "10",
    "100",
    "-9223372036854775808",
    "9223372036854775807",
    "1.5",
    "1e308",
    "-1e308",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "(1",
    "(2",
    "NX",
    "XX",
    "EX",
    "PX",
    "PXAT",
    "KEEPTTL",
    "GET",
    "GT",
    "LT",
    "CH",
    "INCR",
    "WITHSCORES",
    "LIMIT",
    "COUNT",
    "REV",
    "BYSCORE",
    "BYLEX",
    "[a",
    "-",
    "+",
    "*",
    "a*",
    "LOAD",
    "EXISTS",
    "CHANNELS",
    "NUMSUB",
    "ASYNC",
];

/// Scripts that end, and that pass their arguments to functions that could fail on them.
const SCRIPTS: [&str; 12] = [
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "return {KEYS, ARGV}",
    "return tonumber(ARGV[1])",
    "return {redis.call(unpack(ARGV)), redis.pcall(unpack(KEYS))}",
    "return struct.pack(ARGV[1], ARGV[2], ARGV[3])",
    "return {struct.unpack(ARGV[1], ARGV[2])}",
    "return redis.error_reply(ARGV[1])",
    "return redis.status_reply(ARGV[1])",
    "return string.format(ARGV[1], ARGV[2])",
    "return redis.sha1hex(ARGV[1])",
    "error(ARGV[1])",
];

/// Executes commands that the bytes choose.
pub fn commands(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let mut database = Database::new();
    let mut now_ms = 1_000;
    for _ in 0..COMMANDS {
        if u.is_empty() || one(&mut u, &mut database, &mut now_ms).is_err() {
            return;
        }
    }
}

fn one(u: &mut Unstructured<'_>, database: &mut Database, now_ms: &mut u64) -> Result<()> {
    match u.int_in_range(0..=7)? {
        0 => *now_ms = u.arbitrary()?,
        1 => *now_ms = now_ms.saturating_add(u.arbitrary::<u16>()?.into()),
        _ => {}
    }
    let command = command(u)?;
    let mut counterpart = database.clone();
    let before = database.entries(*now_ms);
    let executed = database.execute(*now_ms, &command);
    let after = database.entries(*now_ms);
    check(&command, &executed, &before, &after, *now_ms);
    assert_eq!(
        counterpart.execute(*now_ms, &command),
        executed,
        "{command:?} answers otherwise the second time"
    );
    assert_eq!(counterpart.entries(*now_ms), after, "{command:?} does something else the second time");
    Ok(())
}

fn command(u: &mut Unstructured<'_>) -> Result<Vec<Vec<u8>>> {
    if u.ratio(1, 6)? {
        let mut words = vec![b"eval".to_vec(), u.choose(&SCRIPTS)?.as_bytes().to_vec()];
        words.push(word(u)?);
        words.push(u.choose(&NAMES)?.as_bytes().to_vec());
        return more(u, words);
    }
    let name = if u.ratio(1, 20)? { word(u)? } else { u.choose(&NAMES)?.as_bytes().to_vec() };
    more(u, vec![name])
}

fn more(u: &mut Unstructured<'_>, mut words: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
    for _ in 0..u.int_in_range(0..=6)? {
        words.push(word(u)?);
    }
    Ok(words)
}

fn word(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    Ok(match u.ratio(1, 8)? {
        true => u.arbitrary()?,
        false => u.choose(&WORDS)?.as_bytes().to_vec(),
    })
}

fn check(command: &[Vec<u8>], executed: &Executed, before: &[Entry], after: &[Entry], now_ms: u64) {
    let reply = executed.reply.encode();
    assert_eq!(
        resp::after_one(&reply),
        Some(&[][..]),
        "{command:?} is answered by no whole reply: {reply:?}"
    );
    let is_script = command[0].to_ascii_lowercase().starts_with(b"eval");
    if matches!(executed.reply, Frame::Error(_)) && !is_script {
        assert_eq!(before, after, "{command:?} has failed and changed something");
        assert!(executed.messages.is_empty(), "{command:?} has failed and published");
    }
    assert!(after.is_sorted_by(|one, next| one.key < next.key));
    for entry in after {
        assert!(entry.expires_at_ms.is_none_or(|at| at >= now_ms), "{entry:?} has expired");
        let is_empty = match &entry.value {
            Value::String(_) => false,
            Value::List(list) => list.is_empty(),
            Value::Hash(fields) => fields.is_empty(),
            Value::SortedSet(set) => set.is_empty() || !in_order(set.iter().collect()),
        };
        assert!(!is_empty, "{command:?} leaves {entry:?}");
    }
}

/// Returns true if the scores are numbers and in order.
fn in_order(members: Vec<(&[u8], f64)>) -> bool {
    members.iter().all(|(_, score)| !score.is_nan())
        && members.is_sorted_by(|one, next| one.1 < next.1 || (one.1 == next.1 && one.0 < next.0))
}
