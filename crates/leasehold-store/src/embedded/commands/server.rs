//! Commands for the server itself, and commands for the connection that need no state of the connection.
//!
//! Invariant: no command of this file changes data. A listener handles more commands itself, because it knows its
//! connections.

use super::super::command::{Answer, Args, Command, Handler, NO_SCRIPT, WHILE_BUSY, WHILE_LOADING, is};
use super::super::command_context::CommandContext;
use super::super::fault::Fault;
use super::super::frame::Frame;
use super::super::greeting::{VERSION, greeting};

const ALWAYS: u8 = WHILE_BUSY | WHILE_LOADING;

const fn of_connection(name: &'static str, arity: i8) -> Command {
    Command { name, arity, traits: NO_SCRIPT | ALWAYS, handler: Handler::Connection, words: &[] }
}

pub(super) const COMMANDS: &[Command] = &[
    Command::data("ping", -1, 0, ping),
    Command::data("echo", 2, WHILE_LOADING, |_, args| Ok(Frame::Bulk(args[1].clone()))),
    Command::data("info", -1, WHILE_LOADING, info),
    Command::data("time", 1, WHILE_LOADING, time),
    Command::data("select", 2, WHILE_LOADING, select),
    Command::data("auth", -2, NO_SCRIPT | ALWAYS, auth),
    Command::data("hello", -1, NO_SCRIPT | ALWAYS, hello),
    Command::of_words("client", NO_SCRIPT | WHILE_LOADING, CLIENT, Handler::Data(client)),
    of_connection("subscribe", -2),
    of_connection("unsubscribe", -1),
    of_connection("psubscribe", -2),
    of_connection("punsubscribe", -1),
    of_connection("ssubscribe", -2),
    of_connection("sunsubscribe", -1),
    of_connection("quit", -1),
    of_connection("reset", 1),
];

fn ping(_: &mut CommandContext, args: Args<'_>) -> Answer {
    match args {
        [_] => Ok(Frame::Simple("PONG".to_owned())),
        [_, text] => Ok(Frame::Bulk(text.clone())),
        _ => Err(Fault::arity("ping")),
    }
}

fn time(context: &mut CommandContext, _: Args<'_>) -> Answer {
    let now_ms = context.keyspace.now_ms;
    let parts = [now_ms / 1000, now_ms % 1000 * 1000];
    Ok(Frame::Array(parts.iter().map(|part| Frame::bulk(part.to_string())).collect()))
}

/// Handles INFO. The server has only the section `server`, with only the fields that scripts read.
fn info(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let wanted =
        |section: &Vec<u8>| ["server", "default", "all", "everything"].iter().any(|name| is(section, name));
    if args.len() > 1 && !args[1..].iter().any(wanted) {
        return Ok(Frame::bulk(""));
    }
    let seconds = |ms: u64| i128::from(ms / 1000);
    let uptime = seconds(context.keyspace.now_ms) - seconds(context.started_ms);
    Ok(Frame::bulk(format!(
        "# Server\r\nredis_version:{VERSION}\r\nredis_mode:standalone\r\nrun_id:{:040x}\r\n\
         uptime_in_seconds:{uptime}\r\nuptime_in_days:{}\r\n",
        context.started_ms,
        uptime / (24 * 3600)
    )))
}

const CLIENT: &[(&str, i8)] = &[("setname", 3), ("getname", 2), ("id", 2)];

/// Handles SELECT. The server has one database, number zero.
fn select(_: &mut CommandContext, args: Args<'_>) -> Answer {
    match super::super::number::integer(&args[1]) {
        Some(0) => Ok(Frame::ok()),
        Some(index) if i32::try_from(index).is_ok() => Err(Fault::new("ERR DB index is out of range")),
        Some(_) => {
            let range = format!("value must between {} and {}", i32::MIN, i32::MAX);
            Err(Fault::of(format!("ERR value is out of range, {range}")))
        }
        None => Err(Fault::NOT_AN_INTEGER),
    }
}

fn auth(_: &mut CommandContext, args: Args<'_>) -> Answer {
    match args.len() {
        2 => Err(Fault::new(
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
             configuration is correct?",
        )),
        3 if args[1] == b"default" => Ok(Frame::ok()),
        3 => Err(Fault::new("WRONGPASS invalid username-password pair or user is disabled.")),
        _ => Err(Fault::SYNTAX),
    }
}

fn hello(_: &mut CommandContext, args: Args<'_>) -> Answer {
    if let Some(version) = args.get(1) {
        match super::super::number::integer(version) {
            Some(2) => {}
            Some(_) => return Err(Fault::new("NOPROTO unsupported protocol version")),
            None => return Err(Fault::new("ERR Protocol version is not an integer or out of range")),
        }
    }
    Ok(Frame::Array(greeting(2, "standalone")))
}

/// Handles CLIENT. SETNAME checks the name and does not store it, so GETNAME answers nil.
fn client(_: &mut CommandContext, args: Args<'_>) -> Answer {
    match args {
        [_, _, name] if name.iter().all(|byte| (b'!'..=b'~').contains(byte)) => Ok(Frame::ok()),
        [_, _, _] => {
            Err(Fault::new("ERR Client names cannot contain spaces, newlines or special characters."))
        }
        [_, word] if is(word, "id") => Ok(Frame::Int(1)),
        _ => Ok(Frame::Nil),
    }
}
