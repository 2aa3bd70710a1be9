//! Commands that publish, or ask who listens.
//!
//! Invariant: a message is recorded whether anybody listens or not; the answer counts who does.
//! Called by: the table of commands.

use super::super::audience::Ear;
use super::super::frame::Frame;
use super::super::glob::matches;
use super::super::machine::{Machine, Message};
use super::{Answer, Args, Command, Fault, WHILE_LOADING, count, is};

pub(super) const COMMANDS: &[Command] = &[
    Command::data("publish", 3, WHILE_LOADING, |machine, args| Ok(publish(machine, args, false))),
    Command::data("spublish", 3, WHILE_LOADING, |machine, args| Ok(publish(machine, args, true))),
    Command::data("pubsub", -2, WHILE_LOADING, pubsub),
];

fn publish(machine: &mut Machine, args: Args<'_>, sharded: bool) -> Frame {
    let reached = machine.audience.reached(&args[1], sharded);
    machine.messages.push(Message { channel: args[1].clone(), payload: args[2].clone(), sharded });
    count(reached)
}

fn pubsub(machine: &mut Machine, args: Args<'_>) -> Answer {
    let audience = &machine.audience;
    let channels = |ear| {
        let all = audience
            .of(ear)
            .filter(|(channel, _)| args.get(2).is_none_or(|pattern| matches(pattern, channel)));
        Frame::Array(all.map(|(channel, _)| Frame::bulk(channel)).collect())
    };
    let numbers = |ear| {
        let each = args[2..].iter();
        Frame::Array(
            each.flat_map(|name| [Frame::Bulk(name.clone()), count(audience.count(ear, name))]).collect(),
        )
    };
    let word = &args[1];
    let short = args.len() <= 3;
    match word {
        _ if is(word, "channels") && short => Ok(channels(Ear::Channel)),
        _ if is(word, "shardchannels") && short => Ok(channels(Ear::Shard)),
        _ if is(word, "numsub") => Ok(numbers(Ear::Channel)),
        _ if is(word, "shardnumsub") => Ok(numbers(Ear::Shard)),
        _ if is(word, "numpat") && args.len() == 2 => Ok(count(audience.of(Ear::Pattern).count())),
        _ => Err(unknown_or_arity(args, &["channels", "shardchannels", "numpat"])),
    }
}

/// The fault of a word after a command's name that is not known, or that has too many or too few words behind it.
pub(super) fn unknown_or_arity(args: Args<'_>, known: &[&str]) -> Fault {
    let name = String::from_utf8_lossy(&args[0]).to_lowercase();
    let word = String::from_utf8_lossy(super::until_zero(&args[1])).into_owned();
    if known.iter().any(|known| is(&args[1], known)) {
        return Fault::arity(&format!("{name}|{}", word.to_lowercase()));
    }
    let word: String = word.chars().take(128).collect();
    Fault::of(format!("ERR unknown subcommand '{word}'. Try {} HELP.", name.to_uppercase()))
}
