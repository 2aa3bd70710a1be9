//! Commands that publish, or count subscribers.
//!
//! Invariant: a message is recorded with or without subscribers. The reply counts the subscribers.

use super::super::command::{Answer, Args, Command, Handler, WHILE_LOADING, count, unknown_word};
use super::super::command_context::{CommandContext, Message};
use super::super::frame::Frame;
use super::super::glob::matches;
use super::super::subscribers::SubscriptionKind;

pub(super) const COMMANDS: &[Command] = &[
    Command::data("publish", 3, WHILE_LOADING, |context, args| Ok(publish(context, args, false))),
    Command::data("spublish", 3, WHILE_LOADING, |context, args| Ok(publish(context, args, true))),
    Command::of_words("pubsub", WHILE_LOADING, PUBSUB, Handler::Data(pubsub)),
];

const PUBSUB: &[(&str, i8)] =
    &[("channels", -2), ("shardchannels", -2), ("numsub", -2), ("shardnumsub", -2), ("numpat", 2)];

fn publish(context: &mut CommandContext, args: Args<'_>, sharded: bool) -> Frame {
    let reached = context.subscribers.reached(&args[1], sharded);
    context.messages.push(Message { channel: args[1].clone(), payload: args[2].clone(), sharded });
    count(reached)
}

fn pubsub(context: &mut CommandContext, args: Args<'_>) -> Answer {
    let subscribers = &context.subscribers;
    let channels = |kind| {
        let all = subscribers
            .of(kind)
            .filter(|(channel, _)| args.get(2).is_none_or(|pattern| matches(pattern, channel)));
        Frame::Array(all.map(|(channel, _)| Frame::bulk(channel)).collect())
    };
    let numbers = |kind| {
        let each = args[2..].iter();
        Frame::Array(
            each.flat_map(|name| [Frame::Bulk(name.clone()), count(subscribers.count(kind, name))]).collect(),
        )
    };
    match args[1].to_ascii_lowercase().as_slice() {
        b"channels" if args.len() <= 3 => Ok(channels(SubscriptionKind::Channel)),
        b"shardchannels" if args.len() <= 3 => Ok(channels(SubscriptionKind::Shard)),
        b"numsub" => Ok(numbers(SubscriptionKind::Channel)),
        b"shardnumsub" => Ok(numbers(SubscriptionKind::Shard)),
        b"numpat" => Ok(count(subscribers.of(SubscriptionKind::Pattern).count())),
        _ => Err(unknown_word(args)),
    }
}
