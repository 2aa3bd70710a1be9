//! Commands for keys of any kind.
//!
//! Invariant: no command of this file reads a value.

use super::super::command::{Answer, Args, Command, WRITE, count, is};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::glob::matches;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("del", -2, WRITE, remove),
    Command::data("unlink", -2, WRITE, remove),
    Command::data("exists", -2, 0, exists),
    Command::data("type", 2, 0, type_of),
    Command::data("keys", 2, 0, keys),
    Command::data("dbsize", 1, 0, size),
    Command::data("flushall", -1, WRITE, flush),
    Command::data("flushdb", -1, WRITE, flush),
];

fn remove(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let removed = args[1..].iter().filter(|key| context.keyspace.remove(key)).count();
    Ok(count(removed))
}

fn exists(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = args[1..].iter().filter(|key| context.keyspace.find(key).is_some()).count();
    Ok(count(found))
}

fn type_of(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let name = context.keyspace.find(&args[1]).map_or("none", |item| item.value.type_name());
    Ok(Frame::Simple(name.to_owned()))
}

fn keys(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let found = context.keyspace.iter().filter(|(key, _)| matches(&args[1], key));
    Ok(Frame::Array(found.map(|(key, _)| Frame::bulk(key)).collect()))
}

fn size(context: &mut CommandContext, _: Args<'_>) -> Answer {
    Ok(count(context.keyspace.len()))
}

fn flush(context: &mut CommandContext, args: Args<'_>) -> Answer {
    match &args[1..] {
        [] => {}
        [how] if is(how, "sync") || is(how, "async") => {}
        _ => return Err(Fault::SYNTAX),
    }
    context.keyspace.clear();
    Ok(Frame::ok())
}
