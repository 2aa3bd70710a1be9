//! Commands for keys of any kind.
//!
//! Invariant: no command of this file reads a value.

use super::super::command::{Answer, Args, Command, WRITE, count, is};
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::glob::matches;
use super::super::machine::Machine;

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

fn remove(machine: &mut Machine, args: Args<'_>) -> Answer {
    let removed = args[1..].iter().filter(|key| machine.keyspace.remove(key)).count();
    Ok(count(removed))
}

fn exists(machine: &mut Machine, args: Args<'_>) -> Answer {
    let found = args[1..].iter().filter(|key| machine.keyspace.find(key).is_some()).count();
    Ok(count(found))
}

fn type_of(machine: &mut Machine, args: Args<'_>) -> Answer {
    let name = machine.keyspace.find(&args[1]).map_or("none", |item| item.value.type_name());
    Ok(Frame::Simple(name.to_owned()))
}

fn keys(machine: &mut Machine, args: Args<'_>) -> Answer {
    let found = machine.keyspace.iter().filter(|(key, _)| matches(&args[1], key));
    Ok(Frame::Array(found.map(|(key, _)| Frame::bulk(key)).collect()))
}

fn size(machine: &mut Machine, _: Args<'_>) -> Answer {
    Ok(count(machine.keyspace.len()))
}

fn flush(machine: &mut Machine, args: Args<'_>) -> Answer {
    match &args[1..] {
        [] => {}
        [how] if is(how, "sync") || is(how, "async") => {}
        _ => return Err(Fault::SYNTAX),
    }
    machine.keyspace.clear();
    Ok(Frame::ok())
}
