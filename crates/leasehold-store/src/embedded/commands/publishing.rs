//! Commands that publish, or count subscribers.
//!
//! Invariant: a message is recorded with or without subscribers; the reply counts them.

use super::super::audience::Ear;
use super::super::command::{Answer, Args, Command, Deed, WHILE_LOADING, count, unknown_word};
use super::super::frame::Frame;
use super::super::glob::matches;
use super::super::machine::{Machine, Message};

pub(super) const COMMANDS: &[Command] = &[
    Command::data("publish", 3, WHILE_LOADING, |machine, args| Ok(publish(machine, args, false))),
    Command::data("spublish", 3, WHILE_LOADING, |machine, args| Ok(publish(machine, args, true))),
    Command::of_words("pubsub", WHILE_LOADING, PUBSUB, Deed::Data(pubsub)),
];

const PUBSUB: &[(&str, i8)] =
    &[("channels", -2), ("shardchannels", -2), ("numsub", -2), ("shardnumsub", -2), ("numpat", 2)];

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
    match args[1].to_ascii_lowercase().as_slice() {
        b"channels" if args.len() <= 3 => Ok(channels(Ear::Channel)),
        b"shardchannels" if args.len() <= 3 => Ok(channels(Ear::Shard)),
        b"numsub" => Ok(numbers(Ear::Channel)),
        b"shardnumsub" => Ok(numbers(Ear::Shard)),
        b"numpat" => Ok(count(audience.of(Ear::Pattern).count())),
        _ => Err(unknown_word(args)),
    }
}
