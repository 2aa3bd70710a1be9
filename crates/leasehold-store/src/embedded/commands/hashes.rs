//! Commands for hashes.
//!
//! Invariant: fields stay in the order in which they were first set.

use super::super::command::{Answer, Args, Command, GROWS, WRITE, count, integer, is};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::number;
use super::super::value::Fields;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("hset", -4, WRITE | GROWS, |context, args| set(context, args).map(count)),
    Command::data("hmset", -4, WRITE | GROWS, |context, args| set(context, args).map(|_| Frame::ok())),
    Command::data("hsetnx", 4, WRITE | GROWS, set_new),
    Command::data("hincrby", 4, WRITE | GROWS, add),
    Command::data("hdel", -3, WRITE, remove),
    Command::data("hget", 3, 0, get),
    Command::data("hmget", -3, 0, get_many),
    Command::data("hexists", 3, 0, exists),
    Command::data("hlen", 2, 0, length),
    Command::data("hstrlen", 3, 0, value_length),
    Command::data("hkeys", 2, 0, |context, args| list(context, &args[1], true, false)),
    Command::data("hvals", 2, 0, |context, args| list(context, &args[1], false, true)),
    Command::data("hgetall", 2, 0, |context, args| list(context, &args[1], true, true)),
    Command::data("hscan", -3, 0, scan),
];

fn set(context: &mut CommandContext, args: Args<'_>) -> Result<usize, Fault> {
    if !args.len().is_multiple_of(2) {
        return Err(Fault::arity(&String::from_utf8_lossy(&args[0]).to_lowercase()));
    }
    let fields = context.keyspace.make::<Fields>(&args[1])?;
    let before = fields.len();
    for pair in args[2..].chunks_exact(2) {
        match fields.get_mut(&pair[0]) {
            Some(value) => value.clone_from(&pair[1]),
            None => {
                fields.insert(pair[0].clone(), pair[1].clone());
            }
        }
    }
    Ok(fields.len() - before)
}

fn set_new(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let fields = context.keyspace.make::<Fields>(&args[1])?;
    let is_new = !fields.contains_key(&args[2]);
    if is_new {
        fields.insert(args[2].clone(), args[3].clone());
    }
    Ok(Frame::Int(is_new.into()))
}

fn add(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let by = integer(&args[3])?;
    let present = context.keyspace.get::<Fields>(&args[1])?.and_then(|fields| fields.get(&args[2]));
    let before = match present {
        None => 0,
        Some(text) => number::integer(text).ok_or(Fault::new("ERR hash value is not an integer"))?,
    };
    let after = before.checked_add(by).ok_or(Fault::OVERFLOW)?;
    let fields = context.keyspace.make::<Fields>(&args[1])?;
    fields.insert(args[2].clone(), after.to_string().into_bytes());
    Ok(Frame::Int(after))
}

fn remove(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let Some(fields) = context.keyspace.get::<Fields>(&args[1])? else {
        return Ok(Frame::Int(0));
    };
    let removed = args[2..].iter().filter(|field| fields.shift_remove(field.as_slice()).is_some()).count();
    context.keyspace.remove_if_empty(&args[1]);
    Ok(count(removed))
}

fn get(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = context.keyspace.get::<Fields>(&args[1])?.and_then(|fields| fields.get(&args[2]));
    Ok(found.map_or(Frame::Nil, |value| Frame::Bulk(value.clone())))
}

fn get_many(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let fields = context.keyspace.get::<Fields>(&args[1])?;
    let find = |field: &Vec<u8>| fields.as_ref().and_then(|fields| fields.get(field)).cloned();
    Ok(Frame::Array(args[2..].iter().map(|field| find(field).map_or(Frame::Nil, Frame::Bulk)).collect()))
}

fn exists(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = context.keyspace.get::<Fields>(&args[1])?.is_some_and(|fields| fields.contains_key(&args[2]));
    Ok(Frame::Int(found.into()))
}

fn length(context: &mut CommandContext, args: Args<'_>) -> Answer {
    Ok(count(context.keyspace.get::<Fields>(&args[1])?.map_or(0, |fields| fields.len())))
}

fn value_length(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = context.keyspace.get::<Fields>(&args[1])?.and_then(|fields| fields.get(&args[2]));
    Ok(count(found.map_or(0, Vec::len)))
}

fn list(context: &mut CommandContext, key: &[u8], fields: bool, values: bool) -> Answer {
    let mut items = Vec::new();
    for (field, value) in context.keyspace.get::<Fields>(key)?.into_iter().flatten() {
        if fields {
            items.push(Frame::bulk(field.as_slice()));
        }
        if values {
            items.push(Frame::Bulk(value.clone()));
        }
    }
    Ok(Frame::Array(items))
}

/// Returns true for a cursor as Redis reads it, with `strtoul`: nothing, or a number below 2^64 with or without a sign.
fn is_cursor(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    let is_number = digits.iter().all(u8::is_ascii_digit)
        && str::from_utf8(digits).is_ok_and(|digits| digits.parse::<u64>().is_ok());
    text.is_empty() || is_number
}

/// Returns the whole hash at once, as Redis does with a small one.
fn scan(context: &mut CommandContext, args: Args<'_>) -> Answer {
    if !is_cursor(&args[2]) {
        return Err(Fault::new("ERR invalid cursor"));
    }
    let done = |items| Ok(Frame::Array(vec![Frame::bulk(b"0"), items]));
    if context.keyspace.get::<Fields>(&args[1])?.is_none() {
        return done(Frame::Array(Vec::new()));
    }
    for option in args[3..].chunks(2) {
        match option {
            [word, number] if is(word, "count") => {
                if integer(number)? < 1 {
                    return Err(Fault::SYNTAX);
                }
            }
            _ => return Err(Fault::SYNTAX),
        }
    }
    done(list(context, &args[1], true, true)?)
}
