//! The detection of the server's kind: the channels that carry wake-ups, plain or sharded, and the right to them.
//!
//! Invariant: a store decides once, on its first connection that can serve, so that each of its connections hears the
//! messages of the other.
//!
//! # How it works
//! HELLO reports whether the server is a node of a cluster. No ACL can forbid HELLO, and it travels with the first
//! PING. For a node of a cluster, CLUSTER INFO reports whether the node serves all names. A user without the right to
//! that command finds out by MOVED. Redisson shards only in clusters, but a standalone server takes sharded commands
//! too. So the client sends an SPUBLISH without a listener, whose reply shows whether the node knows the command and
//! lets this user have it. Redisson sends `PUBSUB SHARDNUMSUB` to learn whether the node knows the command. That needs
//! a permission which no other call here needs, and does not show the user's right.
//!
//! Two more commands travel with HELLO: a PUBLISH to a channel of no lock, and a script that checks whether the user
//! may subscribe to it, because SUBSCRIBE itself would bind the connection. A user who may use all channels passes
//! both. A refused user may still have the right to the locks' own channels, and the client checks the first calls on
//! them (`connection`).

use leasehold_proto::StoreErrorKind;
use leasehold_proto::recipe::rights::may_subscribe;
use redis::{ServerError, Value};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::error::Failure;
use super::eval::{eval, server_error};
use super::reader::Reader;
use crate::sharding::ShardedPubsub;

/// The channel of the probe. No lock has a channel of this name.
pub(super) const PROBE: &str = "leasehold:probe";

/// A kind of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Plain,
    Sharded,
}

impl Channels {
    /// Returns the channels that the setting determines without a request to the server.
    pub(super) const fn of_setting(setting: ShardedPubsub) -> Option<Self> {
        match setting {
            ShardedPubsub::Auto => None,
            ShardedPubsub::On => Some(Self::Sharded),
            ShardedPubsub::Off => Some(Self::Plain),
        }
    }

    /// Decides by probing a node of a cluster.
    async fn probe(
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        reader: &mut Reader,
    ) -> Result<Self, Failure> {
        let probe = redis::cmd("SPUBLISH").arg(PROBE).arg("").get_packed_command();
        // A failed write shows as a missing answer.
        let _ = socket.write_all(&probe).await;
        Ok(if takes_spublish(&reader.next(socket).await?) { Self::Sharded } else { Self::Plain })
    }

    pub(super) const fn publish(self) -> &'static str {
        match self {
            Self::Plain => "PUBLISH",
            Self::Sharded => "SPUBLISH",
        }
    }

    pub(super) const fn subscribe(self) -> &'static str {
        match self {
            Self::Plain => "SUBSCRIBE",
            Self::Sharded => "SSUBSCRIBE",
        }
    }

    pub(super) const fn unsubscribe(self) -> &'static str {
        match self {
            Self::Plain => "UNSUBSCRIBE",
            Self::Sharded => "SUNSUBSCRIBE",
        }
    }
}

/// The facts that a store knows of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerFacts {
    pub(super) channels: Channels,
    /// True if the user may lack the right to a lock's channels.
    pub(super) doubts_channels: bool,
}

impl ServerFacts {
    /// Decides by the server's answers to the [`requests`], and sends more commands if necessary.
    pub(super) async fn decide(
        [hello, published, subscribes]: &[Value; 3],
        setting: ShardedPubsub,
        socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
        reader: &mut Reader,
    ) -> Result<Self, Failure> {
        let is_node = is_cluster_node(hello);
        if is_node {
            serves_all(socket, reader).await?;
        }
        let channels = match Channels::of_setting(setting) {
            Some(channels) => channels,
            None if is_node => Channels::probe(socket, reader).await?,
            None => Channels::Plain,
        };
        let doubts_channels = is_denied(published) || *subscribes == Value::Int(0);
        Ok(Self { channels, doubts_channels })
    }
}

/// Returns the first commands. HELLO without a version changes nothing about the connection.
pub(super) fn requests() -> Vec<u8> {
    let mut requests = redis::cmd("HELLO").get_packed_command();
    requests.extend(redis::cmd("PUBLISH").arg(PROBE).arg("").get_packed_command());
    requests.extend(eval(&may_subscribe(PROBE)).get_packed_command());
    requests
}

fn is_denied(answer: &Value) -> bool {
    matches!(answer, Value::ServerError(error) if server_error(error).kind == StoreErrorKind::PermissionDenied)
}

/// Fails when the node is one of several masters, and so serves only some names.
async fn serves_all(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    reader: &mut Reader,
) -> Result<(), Failure> {
    let request = redis::cmd("CLUSTER").arg("INFO").get_packed_command();
    // A failed write shows as a missing answer.
    let _ = socket.write_all(&request).await;
    match masters(&reader.next(socket).await?) {
        Some(masters @ 2..) => Err(Failure::of_cluster(masters)),
        _ => Ok(()),
    }
}

/// Returns the number of masters with slots, if the answer contains it.
fn masters(info: &Value) -> Option<u32> {
    let Value::BulkString(text) = info else { return None };
    let text = std::str::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("cluster_size:"))?.trim().parse().ok()
}

/// Returns true if a node of a cluster answered HELLO. A server before Redis 6 knows neither HELLO nor sharded
/// channels.
fn is_cluster_node(hello: &Value) -> bool {
    let Value::Array(pairs) = hello else { return false };
    pairs.chunks_exact(2).any(|pair| equals(&pair[0], b"mode") && equals(&pair[1], b"cluster"))
}

fn equals(value: &Value, word: &[u8]) -> bool {
    match value {
        Value::BulkString(text) => text == word,
        Value::SimpleString(text) => text.as_bytes() == word,
        _ => false,
    }
}

/// Returns true if SPUBLISH would work on a channel of this node that this user may use.
fn takes_spublish(answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        Value::ServerError(error) => match server_error(error).kind {
            StoreErrorKind::WrongNode | StoreErrorKind::ClusterDown | StoreErrorKind::TryAgain => true,
            // The refusal may be about the probe's channel, and not about the command.
            StoreErrorKind::PermissionDenied => !names_spublish(error),
            _ => false,
        },
        _ => false,
    }
}

fn names_spublish(error: &ServerError) -> bool {
    error.details().is_some_and(|details| details.contains("'spublish'"))
}

#[cfg(test)]
mod tests {
    use super::super::socket::Socket;
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    fn hello(mode: &str) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        Value::Array(vec![text("proto"), Value::Int(2), text("mode"), text(mode), text("role")])
    }

    /// The answers to the last two commands, for a user with all rights.
    const NOT_DENIED: [Value; 2] = [Value::Int(0), Value::Int(1)];

    /// Returns the answers of a server that answers HELLO with `hello`, and denies nothing.
    fn greets(hello: Value) -> [Value; 3] {
        let [published, subscribes] = NOT_DENIED;
        [hello, published, subscribes]
    }

    /// Returns the decision when the server answers the further commands with `reply`, and the further commands.
    async fn decided(answers: [Value; 3], reply: &str) -> (Result<ServerFacts, Failure>, String) {
        let (here, mut there) = duplex(1024);
        there.write_all(reply.as_bytes()).await.unwrap();
        let mut socket: Socket = Box::pin(here);
        let setting = ShardedPubsub::Auto;
        let decided = ServerFacts::decide(&answers, setting, &mut socket, &mut Reader::default()).await;
        drop(socket);
        let mut asked = String::new();
        there.read_to_string(&mut asked).await.unwrap();
        (decided, asked)
    }

    const ASKED: &str = "*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n\
                         *3\r\n$8\r\nSPUBLISH\r\n$15\r\nleasehold:probe\r\n$0\r\n\r\n";

    fn info(masters: u32) -> String {
        let info = format!("cluster_state:ok\r\ncluster_known_nodes:6\r\ncluster_size:{masters}\r\n");
        format!("${}\r\n{info}\r\n", info.len())
    }

    /// Returns the channels for a node that serves all names and gives this answer to the probe.
    async fn probed(answer: &str) -> Channels {
        let (facts, asked) = decided(greets(hello("cluster")), &format!("{}{answer}", info(1))).await;
        assert_eq!(asked, ASKED);
        facts.unwrap().channels
    }

    #[tokio::test]
    async fn a_node_that_accepts_the_probe_is_sharded() {
        // The first answer is that of Redis 7.2 and later, the second that of 7.0.15.
        for answer in [
            ":0\r\n",
            "-MOVED 1 127.0.0.1:1\r\n",
            "-CLUSTERDOWN Hash slot not served\r\n",
            "-NOPERM No permissions to access a channel\r\n",
            "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
        ] {
            assert_eq!(probed(answer).await, Channels::Sharded, "{answer}");
        }
    }

    #[tokio::test]
    async fn a_node_that_refuses_the_probe_is_plain() {
        for answer in [
            "-ERR unknown command 'SPUBLISH', with args beginning with: 'leasehold:probe' '' \r\n",
            "-NOPERM this user has no permissions to run the 'spublish' command\r\n",
            "-NOPERM User app has no permissions to run the 'spublish' command\r\n",
            "-ERR not here\r\n",
            "+OK\r\n",
        ] {
            assert_eq!(probed(answer).await, Channels::Plain, "{answer}");
        }
    }

    #[tokio::test]
    async fn one_of_several_masters_is_rejected_but_an_unknown_topology_is_not() {
        let (facts, _) = decided(greets(hello("cluster")), &info(3)).await;
        let error = facts.unwrap_err().during(leasehold_proto::Verb::Connect, "".into());
        assert_eq!(error.kind, StoreErrorKind::WrongNode);
        assert!(std::error::Error::source(&error).unwrap().to_string().contains("one of 3 masters"));
        for answer in
            [&*info(0), "-NOPERM this user has no permissions to run the 'cluster|info' command\r\n"]
        {
            let (facts, asked) = decided(greets(hello("cluster")), &format!("{answer}:0\r\n")).await;
            assert_eq!((facts.unwrap().channels, &*asked), (Channels::Sharded, ASKED), "{answer}");
        }
    }

    #[tokio::test]
    async fn only_cluster_nodes_are_probed() {
        for hello in
            [hello("standalone"), hello("sentinel"), Value::Okay, Value::Nil, Value::Array(Vec::new())]
        {
            let (facts, asked) = decided(greets(hello), ":0\r\n").await;
            assert_eq!((facts.unwrap().channels, &*asked), (Channels::Plain, ""));
        }
    }

    #[tokio::test]
    async fn a_refused_channel_marks_the_users_channels_as_uncertain() {
        for (text, doubted) in [
            ("NOPERM this user has no permissions to access one of the channels used as arguments", true),
            ("NOPERM User app has no permissions to access the 'leasehold:probe' channel", true),
            ("NOPERM this user has no permissions to run the 'publish' command", true),
            ("ERR unknown command 'PUBLISH'", false),
        ] {
            let mut bytes: &[u8] = &[b"-", text.as_bytes(), b"\r\n"].concat();
            let answer = Reader::default().next(&mut bytes).await.unwrap();
            let (facts, _) = decided([hello("standalone"), answer, Value::Int(1)], "").await;
            assert_eq!(facts.unwrap().doubts_channels, doubted, "{text}");
        }
    }

    #[tokio::test]
    async fn a_refused_subscribe_marks_the_users_channels_as_uncertain() {
        // Redis 6 answers nil.
        for (subscribes, doubted) in [(Value::Int(0), true), (Value::Int(1), false), (Value::Nil, false)] {
            let (facts, _) = decided([hello("standalone"), Value::Int(0), subscribes], "").await;
            assert_eq!(facts.unwrap().doubts_channels, doubted);
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_before_the_reply_decides_nothing() {
        for reply in [String::new(), info(1)] {
            let (here, mut there) = duplex(1024);
            there.write_all(reply.as_bytes()).await.unwrap();
            drop(there);
            let mut socket: Socket = Box::pin(here);
            let answers = greets(hello("cluster"));
            let mut reader = Reader::default();
            assert!(
                ServerFacts::decide(&answers, ShardedPubsub::Auto, &mut socket, &mut reader).await.is_err()
            );
        }
    }
}
