//! Turns changes of the subscription table into commands, each for as many channels as the server takes.
//!
//! Invariant: the channels of one command are in one cluster slot if they are sharded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use leasehold_proto::Channel;

use super::table::Change;
use crate::redis::channels::Channels;
use crate::redis::wire::encode;
use crate::redis::wire::login::Login;

/// A command that was sent, with the channels that the server has not answered.
#[derive(Debug)]
pub(super) enum Pending {
    Join(VecDeque<Channel>),
    Leave(VecDeque<Channel>),
    Ping,
    Login(Arc<Login>),
}

impl Pending {
    /// Appends the command.
    pub(super) fn encode(&self, kind: Channels, out: &mut Vec<u8>) {
        let (name, channels) = match self {
            Self::Join(channels) => (kind.subscribe(), channels),
            Self::Leave(channels) => (kind.unsubscribe(), channels),
            Self::Ping => return encode::command(out, &["PING"]),
            Self::Login(login) => return encode::command(out, &login.credentials.command()),
        };
        encode::begin(out, 1 + channels.len());
        encode::bulk(out, name.as_bytes());
        for channel in channels {
            encode::bulk(out, channel.as_str().as_bytes());
        }
    }

    /// Returns the number of answers that the command still gets.
    pub(super) fn answers(&self) -> usize {
        match self {
            Self::Join(channels) | Self::Leave(channels) => channels.len(),
            Self::Ping | Self::Login(_) => 1,
        }
    }
}

/// Gathers changes into commands.
pub(super) fn gathered(changes: impl IntoIterator<Item = Change>, kind: Channels) -> Vec<Pending> {
    let (mut alone, mut joins, mut leaves) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
    let slot = |channel: &Channel| {
        if kind == Channels::Sharded { tag(channel.as_str()).to_owned() } else { String::new() }
    };
    for change in changes {
        let (group, channel): (&mut BTreeMap<String, VecDeque<Channel>>, _) = match change {
            Change::JoinAlone(channel) => {
                alone.push(Pending::Join(VecDeque::from([channel])));
                continue;
            }
            Change::Join(channel) => (&mut joins, channel),
            Change::Leave(channel) => (&mut leaves, channel),
        };
        group.entry(slot(&channel)).or_default().push_back(channel);
    }
    let joins = joins.into_values().map(Pending::Join);
    joins.chain(alone).chain(leaves.into_values().map(Pending::Leave)).collect()
}

/// Returns the part of a channel that decides its cluster slot. Channels with equal parts are in one slot.
fn tag(channel: &str) -> &str {
    let tag = channel.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(channel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(channel: &str) -> Change {
        Change::Join(Channel::new(channel))
    }

    fn commands(changes: Vec<Change>, kind: Channels) -> Vec<String> {
        let text = |pending: &Pending| {
            let mut bytes = Vec::new();
            pending.encode(kind, &mut bytes);
            let packed = String::from_utf8(bytes).unwrap();
            let words: Vec<&str> = packed.lines().skip(2).step_by(2).collect();
            words.join(" ")
        };
        gathered(changes, kind).iter().map(text).collect()
    }

    #[test]
    fn plain_channels_share_a_command_of_each_kind() {
        let alone = Change::JoinAlone(Channel::new("d"));
        let leave = |channel| Change::Leave(Channel::new(channel));
        let changes = vec![join("a"), leave("b"), alone, join("c{x}"), leave("e")];
        assert_eq!(
            commands(changes, Channels::Plain),
            ["SUBSCRIBE a c{x}", "SUBSCRIBE d", "UNSUBSCRIBE b e"]
        );
        assert!(gathered([], Channels::Plain).is_empty());
    }

    #[test]
    fn sharded_channels_share_a_command_with_their_slot_only() {
        let changes = vec![join("a{x}"), join("b{y}"), join("c{x}:1"), join("d"), join("e{}"), join("f{}")];
        let expected =
            ["SSUBSCRIBE d", "SSUBSCRIBE e{}", "SSUBSCRIBE f{}", "SSUBSCRIBE a{x} c{x}:1", "SSUBSCRIBE b{y}"];
        assert_eq!(commands(changes, Channels::Sharded), expected);
    }
}
