//! Commands for strings, and the counters in them.
//!
//! Invariant: a counter keeps the expiry of its key.

use super::super::command::{Answer, Args, Command, GROWS, WRITE, count, integer, is};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::number;
use super::super::value::Value;
use super::expiry::invalid_time;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("get", 2, 0, |context, args| get(context, &args[1])),
    Command::data("getdel", 2, WRITE, take),
    Command::data("strlen", 2, 0, length),
    Command::data("getrange", 4, 0, part),
    Command::data("set", -3, WRITE | GROWS, set),
    Command::data("setnx", 3, WRITE | GROWS, set_new),
    Command::data("setrange", 4, WRITE | GROWS, set_part),
    Command::data("delifeq", 3, WRITE, delete_if_equal),
    Command::data("incr", 2, WRITE | GROWS, |context, args| add(context, &args[1], 1)),
    Command::data("decr", 2, WRITE | GROWS, |context, args| add(context, &args[1], -1)),
    Command::data("incrby", 3, WRITE | GROWS, |context, args| add(context, &args[1], integer(&args[2])?)),
    Command::data("decrby", 3, WRITE | GROWS, subtract),
];

fn get(context: &mut CommandContext, key: &[u8]) -> Answer {
    let found = context.keyspace.get::<Vec<u8>>(key)?;
    Ok(found.map_or(Frame::Nil, |text| Frame::Bulk(text.clone())))
}

fn take(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = get(context, &args[1])?;
    context.keyspace.remove(&args[1]);
    Ok(found)
}

fn length(context: &mut CommandContext, args: Args<'_>) -> Answer {
    Ok(count(context.keyspace.get::<Vec<u8>>(&args[1])?.map_or(0, |text| text.len())))
}

/// Unlike a range of a list, a range that ends before the text has its first byte.
fn part(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let found = context.keyspace.get::<Vec<u8>>(&args[1])?;
    let text = found.map_or(&[][..], |text| text.as_slice());
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let from_end = |at: i64| if at < 0 { at.saturating_add(length).max(0) } else { at };
    let (from, to) = (from_end(start), from_end(end).min(length - 1));
    if (start < 0 && end < 0 && start > end) || from > to {
        return Ok(Frame::bulk(b""));
    }
    let range = usize::try_from(from).unwrap_or(0)..=usize::try_from(to).unwrap_or(0);
    Ok(Frame::bulk(&text[range]))
}

/// The longest string of Redis, in bytes.
const LENGTH_MAX: usize = 512 << 20;

/// Writes a part of a string, which grows by zero bytes as far as it must, and keeps its expiry.
fn set_part(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let start = usize::try_from(integer(&args[2])?).map_err(|_| Fault::new("ERR offset is out of range"))?;
    let part = &args[3];
    let found = context.keyspace.get::<Vec<u8>>(&args[1])?;
    if part.is_empty() {
        return Ok(count(found.map_or(0, |text| text.len())));
    }
    let end = start.checked_add(part.len()).filter(|end| *end <= LENGTH_MAX);
    let end = end.ok_or(Fault::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)"))?;
    let write = |text: &mut Vec<u8>| {
        text.resize(text.len().max(end), 0);
        text[start..end].copy_from_slice(part);
        count(text.len())
    };
    if let Some(text) = found {
        return Ok(write(text));
    }
    let mut text = Vec::new();
    let length = write(&mut text);
    context.keyspace.set(&args[1], Value::String(text), None);
    Ok(length)
}

/// Deletes a string that is equal to a value, as Valkey does from 9.0 on.
fn delete_if_equal(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let is_equal = context.keyspace.get::<Vec<u8>>(&args[1])?.is_some_and(|text| *text == args[2]);
    if is_equal {
        context.keyspace.remove(&args[1]);
    }
    Ok(Frame::Int(i64::from(is_equal)))
}

fn set_new(context: &mut CommandContext, args: Args<'_>) -> Answer {
    if context.keyspace.find(&args[1]).is_some() {
        return Ok(Frame::Int(0));
    }
    context.keyspace.set(&args[1], Value::String(args[2].clone()), None);
    Ok(Frame::Int(1))
}

fn subtract(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let by = integer(&args[2])?.checked_neg().ok_or(Fault::new("ERR decrement would overflow"))?;
    add(context, &args[1], by)
}

fn add(context: &mut CommandContext, key: &[u8], by: i64) -> Answer {
    let Some(text) = context.keyspace.get::<Vec<u8>>(key)? else {
        context.keyspace.set(key, Value::String(by.to_string().into_bytes()), None);
        return Ok(Frame::Int(by));
    };
    let before = number::integer(text).ok_or(Fault::NOT_AN_INTEGER)?;
    let after = before.checked_add(by).ok_or(Fault::OVERFLOW)?;
    *text = after.to_string().into_bytes();
    Ok(Frame::Int(after))
}

/// The options of SET.
#[derive(Default)]
struct Options<'a> {
    new: bool,
    present: bool,
    answer_old: bool,
    keep_time: bool,
    /// The option's name and its value.
    time: Option<(&'static str, &'a [u8])>,
}

impl<'a> Options<'a> {
    fn read(words: &'a [Vec<u8>]) -> Result<Self, Fault> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let time = ["ex", "px", "exat", "pxat"].into_iter().find(|name| is(word, name));
            let untimed = options.time.is_none() && !options.keep_time;
            if is(word, "nx") && !options.present {
                options.new = true;
            } else if is(word, "xx") && !options.new {
                options.present = true;
            } else if is(word, "get") {
                options.answer_old = true;
            } else if is(word, "keepttl") && options.time.is_none() {
                options.keep_time = true;
            } else if let (Some(name), true, Some(value)) = (time, untimed, words.next()) {
                options.time = Some((name, value));
            } else {
                return Err(Fault::SYNTAX);
            }
        }
        Ok(options)
    }

    fn expires_at_ms(&self, now_ms: u64) -> Result<Option<u64>, Fault> {
        let Some((name, value)) = self.time else {
            return Ok(None);
        };
        let invalid = || invalid_time(b"set");
        let given = integer(value)?;
        if given <= 0 {
            return Err(invalid());
        }
        let factor = if name.starts_with('p') { 1 } else { 1000 };
        let base = if name.ends_with("at") { 0 } else { i64::try_from(now_ms).unwrap_or(i64::MAX) };
        let at = given.checked_mul(factor).and_then(|ms| ms.checked_add(base)).ok_or_else(invalid)?;
        Ok(u64::try_from(at).ok())
    }
}

fn set(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let options = Options::read(&args[3..])?;
    let expires_at_ms = options.expires_at_ms(context.keyspace.now_ms)?;
    let old = if options.answer_old { Some(get(context, &args[1])?) } else { None };
    let present = context.keyspace.find(&args[1]);
    if (options.new && present.is_some()) || (options.present && present.is_none()) {
        return Ok(old.unwrap_or(Frame::Nil));
    }
    let kept = present.and_then(|item| item.expires_at_ms).filter(|_| options.keep_time);
    context.keyspace.set(&args[1], Value::String(args[2].clone()), expires_at_ms.or(kept));
    Ok(old.unwrap_or_else(Frame::ok))
}
