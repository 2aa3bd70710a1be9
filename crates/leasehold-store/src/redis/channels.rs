//! The channels that wake-ups travel by: plain or sharded.
//!
//! Invariant: decided once for a store, on its first connection, so that what one of its connections publishes the other
//! hears.
//! Called by: `connect`, to decide; `standalone`, for what scripts publish; `pubsub`, for what it subscribes to.
//!
//! # How it works
//! Redisson shards only in clusters, and a standalone server takes sharded commands too; so two things have to be known.
//! HELLO tells whether the server is a node of a cluster: no ACL can forbid it, and it travels with the first PING. If it
//! is one, an SPUBLISH that nobody hears tells whether the server knows the command and lets this user have it. Redisson
//! asks `PUBSUB SHARDNUMSUB` for the former; that needs a permission which nothing else here needs, and does not tell
//! the latter, which a release would find out after it had deleted the lock.

use leasehold_proto::StoreErrorKind;
use redis::{Cmd, ServerError, Value};
use tokio::io::AsyncWriteExt;

use super::connect::Reader;
use super::error::Failure;
use super::eval::refusal;
use super::socket::Socket;
use crate::sharding::ShardedPubsub;

/// Where the probe goes. No lock has a channel of this name.
const PROBE: &str = "leasehold:probe";

/// A kind of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    Plain,
    Sharded,
}

impl Channels {
    /// What the setting says without asking the server.
    pub(super) const fn told(setting: ShardedPubsub) -> Option<Self> {
        match setting {
            ShardedPubsub::Auto => None,
            ShardedPubsub::On => Some(Self::Sharded),
            ShardedPubsub::Off => Some(Self::Plain),
        }
    }

    /// Decides by what the server answered to [`question`], asking more if need be.
    pub(super) async fn decide(
        hello: &Value,
        socket: &mut Socket,
        reader: &mut Reader,
    ) -> Result<Self, Failure> {
        if !is_cluster_node(hello) {
            return Ok(Self::Plain);
        }
        let probe = redis::cmd("SPUBLISH").arg(PROBE).arg("").get_packed_command();
        // If it cannot be written, it is not answered.
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

/// What is asked first. Without a version it changes nothing about the connection.
pub(super) fn question() -> Cmd {
    redis::cmd("HELLO")
}

/// Whether HELLO was answered by a node of a cluster. A server before Redis 6 does not know it, nor sharded channels.
fn is_cluster_node(hello: &Value) -> bool {
    let Value::Array(pairs) = hello else { return false };
    pairs.chunks_exact(2).any(|pair| says(&pair[0], b"mode") && says(&pair[1], b"cluster"))
}

fn says(value: &Value, word: &[u8]) -> bool {
    match value {
        Value::BulkString(text) => text == word,
        Value::SimpleString(text) => text.as_bytes() == word,
        _ => false,
    }
}

/// Whether SPUBLISH would be done, were it for a channel of this node that this user may use.
fn takes_spublish(answer: &Value) -> bool {
    match answer {
        Value::Int(_) => true,
        Value::ServerError(error) => match refusal(error).kind {
            StoreErrorKind::WrongNode | StoreErrorKind::ClusterDown | StoreErrorKind::TryAgain => true,
            // It may be the probe's channel that is forbidden, and not the command.
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
    use super::*;
    use tokio::io::{AsyncReadExt, duplex};

    fn hello(mode: &str) -> Value {
        let text = |text: &str| Value::BulkString(text.into());
        Value::Array(vec![text("proto"), Value::Int(2), text("mode"), text(mode), text("role")])
    }

    /// What is decided when the server answers so, and whether it was probed.
    async fn decided(hello: Value, answer: &str) -> (Result<Channels, Failure>, bool) {
        let (here, mut there) = duplex(1024);
        there.write_all(answer.as_bytes()).await.unwrap();
        let mut socket: Socket = Box::pin(here);
        let decided = Channels::decide(&hello, &mut socket, &mut Reader::default()).await;
        drop(socket);
        let mut asked = String::new();
        there.read_to_string(&mut asked).await.unwrap();
        (decided, asked == "*3\r\n$8\r\nSPUBLISH\r\n$15\r\nleasehold:probe\r\n$0\r\n\r\n")
    }

    #[tokio::test]
    async fn a_node_that_takes_the_probe_is_sharded() {
        // The first of Redis 7.2 and later, the second of 7.0.15.
        for answer in [
            ":0\r\n",
            "-MOVED 1 127.0.0.1:1\r\n",
            "-CLUSTERDOWN Hash slot not served\r\n",
            "-NOPERM No permissions to access a channel\r\n",
            "-NOPERM this user has no permissions to access one of the channels used as arguments\r\n",
        ] {
            let (channels, probed) = decided(hello("cluster"), answer).await;
            assert_eq!((channels.unwrap(), probed), (Channels::Sharded, true), "{answer}");
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
            let (channels, probed) = decided(hello("cluster"), answer).await;
            assert_eq!((channels.unwrap(), probed), (Channels::Plain, true), "{answer}");
        }
    }

    #[tokio::test]
    async fn who_is_no_node_is_not_probed() {
        for hello in
            [hello("standalone"), hello("sentinel"), Value::Okay, Value::Nil, Value::Array(Vec::new())]
        {
            let (channels, probed) = decided(hello, ":0\r\n").await;
            assert_eq!((channels.unwrap(), probed), (Channels::Plain, false));
        }
    }

    #[tokio::test]
    async fn a_connection_that_ends_instead_of_an_answer_decides_nothing() {
        let (here, there) = duplex(1024);
        drop(there);
        let mut socket: Socket = Box::pin(here);
        assert!(Channels::decide(&hello("cluster"), &mut socket, &mut Reader::default()).await.is_err());
    }
}
