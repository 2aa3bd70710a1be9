//! A node of a cluster, where wake-ups travel by sharded channels, as wake-ups of Java clients do.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{LIMIT, run};
use futures_util::future::join_all;
use leasehold_proto::{Applied, Call, Channel, Reply, Script, StoreErrorKind, Verb};
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_store::{Heard, ShardedPubsub, Store, Subscription};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

static RELEASE: Script = Script::new(
    Verb::Release,
    "-- KEYS[1] lock string any\n-- ARGV[1] publish string how\n-- ARGV[2] channel string where\n\
     redis.call('set', KEYS[1], ARGV[1]) return redis.call(ARGV[1], ARGV[2], '0')",
);

const LOCK: &str = "job";
const CHANNEL: &str = "redisson_lock__channel:{job}";

/// Returns a release with PUBLISH, as every recipe has it on every server.
fn release() -> Call {
    Call::of(&RELEASE).key("lock", LOCK).arg("publish", "PUBLISH").arg("channel", CHANNEL)
}

async fn connect_as(login: &str, server: &RedisServer, setting: ShardedPubsub) -> Redis {
    let url = format!("redis://{login}127.0.0.1:{}", server.port()).parse().expect("a URL");
    let options = ConnectOptions::default().timeout(LIMIT).sharded_pubsub(setting);
    Redis::connect(&url, options).await.expect("the server takes us")
}

async fn connect(server: &RedisServer, setting: ShardedPubsub) -> Redis {
    connect_as("", server, setting).await
}

static SET: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] value string any\nredis.call('set', KEYS[1], ARGV[1]) return ARGV[1]",
);

#[tokio::test]
async fn a_crowd_of_calls_on_names_of_many_slots_succeeds() {
    let server = RedisServer::cluster();
    let store = connect(&server, ShardedPubsub::Auto).await;
    let calls = (0..500).map(|number| {
        let key = format!("name {}", number / 2);
        store.run(Call::of(&SET).key("key", key).arg("value", number), LIMIT)
    });
    for (number, outcome) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(outcome, Ok(Reply::Text(number.to_string().into_bytes())));
    }
}

/// Releases, and returns the number of receivers of the message, and its command.
async fn released(store: &Redis, server: &RedisServer) -> (Reply, String) {
    let heard_by = run(store, release()).await.expect("the release runs");
    (heard_by, server.cli(&["GET", LOCK]))
}

fn listen(store: &Redis) -> (Subscription, UnboundedReceiver<Heard>) {
    let (heard, news) = unbounded_channel();
    (store.subscribe(Channel::new(CHANNEL), heard), news)
}

#[track_caller]
fn expect_event(news: &mut UnboundedReceiver<Heard>, expected: &Heard) {
    eventually(LIMIT, &format!("{expected:?}"), || {
        news.try_recv().is_ok_and(|heard| {
            assert_eq!(heard, *expected);
            true
        })
    });
}

fn listening() -> Heard {
    Heard::Listening(Channel::new(CHANNEL))
}

fn message() -> Heard {
    Heard::Message(Channel::new(CHANNEL), b"0".to_vec())
}

/// A subscriber that listens as a Java client does.
struct JavaSubscriber(TcpStream);

impl JavaSubscriber {
    fn subscribe_with(command: &str, server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a timeout can be set");
        write!(stream, "{command} {CHANNEL}\r\n").expect("the server reads");
        let mut java_subscriber = Self(stream);
        let word = command.to_lowercase();
        let length = word.len();
        java_subscriber.expect_message(&format!(
            "*3\r\n${length}\r\n{word}\r\n${}\r\n{CHANNEL}\r\n:1\r\n",
            CHANNEL.len()
        ));
        java_subscriber
    }

    fn expect_message(&mut self, expected: &str) {
        let mut told = vec![0; expected.len()];
        self.0.read_exact(&mut told).expect("the server says something");
        assert_eq!(String::from_utf8_lossy(&told), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_sharded_messages_travel_in_both_directions() {
    let server = RedisServer::cluster();
    for setting in [ShardedPubsub::Auto, ShardedPubsub::On] {
        let store = connect(&server, setting).await;
        let mut java = JavaSubscriber::subscribe_with("SSUBSCRIBE", &server);
        assert_eq!(released(&store, &server).await, (Reply::Int(1), "SPUBLISH".to_owned()));
        java.expect_message(&format!(
            "*3\r\n$8\r\nsmessage\r\n${}\r\n{CHANNEL}\r\n$1\r\n0\r\n",
            CHANNEL.len()
        ));
        drop(java);

        let (subscription, mut news) = listen(&store);
        expect_event(&mut news, &listening());
        eventually(LIMIT, "only us to listen", || server.cli(&["SPUBLISH", CHANNEL, "0"]) == "1");
        expect_event(&mut news, &message());
        drop(subscription);
        eventually(LIMIT, "no subscriber to be left", || {
            server.cli(&["PUBSUB", "SHARDNUMSUB", CHANNEL]).lines().last() == Some("0")
        });
    }

    let store = connect(&server, ShardedPubsub::Off).await;
    let _plain = JavaSubscriber::subscribe_with("SUBSCRIBE", &server);
    let _sharded = JavaSubscriber::subscribe_with("SSUBSCRIBE", &server);
    assert_eq!(released(&store, &server).await, (Reply::Int(1), "PUBLISH".to_owned()));
    let (_subscription, mut news) = listen(&store);
    expect_event(&mut news, &listening());
    assert_eq!(server.cli(&["PUBLISH", CHANNEL, "0"]), "2");
    expect_event(&mut news, &message());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_returns_with_the_slot_of_its_channel() {
    let server = RedisServer::cluster();
    let store = connect(&server, ShardedPubsub::Auto).await;
    let (_subscription, mut news) = listen(&store);
    expect_event(&mut news, &listening());
    let slot = server.cli(&["CLUSTER", "KEYSLOT", CHANNEL]);
    assert_eq!(server.cli(&["CLUSTER", "DELSLOTS", &slot]), "OK");
    assert_eq!(server.cli(&["CLUSTER", "ADDSLOTS", &slot]), "OK");
    expect_event(&mut news, &listening());
    eventually(LIMIT, "the cluster to serve", || server.cli(&["SPUBLISH", CHANNEL, "0"]) == "1");
    expect_event(&mut news, &message());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_sharded_publish_uses_plain_channels() {
    let server = RedisServer::cluster();
    let rules =
        ["on", ">word", "~*", "&redisson_lock__channel:*", "-@all", "+ping", "+eval", "+evalsha", "+set"];
    let plain =
        [&["ACL", "SETUSER", "app"][..], &rules, &["+publish", "+subscribe", "+unsubscribe"]].concat();
    assert_eq!(server.cli(&plain), "OK");
    let store = connect_as("app:word@", &server, ShardedPubsub::Auto).await;
    let (_subscription, mut news) = listen(&store);
    expect_event(&mut news, &listening());
    assert_eq!(released(&store, &server).await, (Reply::Int(1), "PUBLISH".to_owned()));
    expect_event(&mut news, &message());

    // The user has no right to the probe's own channel, which does not matter.
    let sharded = ["ACL", "SETUSER", "app", "+spublish", "+ssubscribe", "+sunsubscribe"];
    assert_eq!(server.cli(&sharded), "OK");
    let store = connect_as("app:word@", &server, ShardedPubsub::Auto).await;
    let (_subscription, mut news) = listen(&store);
    expect_event(&mut news, &listening());
    assert_eq!(released(&store, &server).await, (Reply::Int(1), "SPUBLISH".to_owned()));
    expect_event(&mut news, &message());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_cluster_channels_are_plain_unless_configured() {
    for (setting, command) in [
        (ShardedPubsub::Auto, "PUBLISH"),
        (ShardedPubsub::Off, "PUBLISH"),
        // A standalone server of Redis 7 has sharded channels, too.
        (ShardedPubsub::On, "SPUBLISH"),
    ] {
        // A server of its own: it counts subscribers, and that of another setting may still be there.
        let server = RedisServer::start();
        let store = connect(&server, setting).await;
        let (_subscription, mut news) = listen(&store);
        expect_event(&mut news, &listening());
        assert_eq!(released(&store, &server).await, (Reply::Int(1), command.to_owned()));
        expect_event(&mut news, &message());
    }
}

#[tokio::test]
async fn the_server_type_is_queried_once() {
    let server = RedisServer::start();
    for setting in [ShardedPubsub::Auto, ShardedPubsub::On, ShardedPubsub::Off] {
        server.reset_stats();
        let store = connect(&server, setting).await;
        assert_ne!(server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]), "0");
        crate::common::run_on_a_new_connection(&store, release()).await.expect("the release runs");
        // Each connection chooses its protocol, and only the first one publishes to probe. The release publishes too.
        let sent = |command: &str| server.commandstats().get(command).copied();
        let publish = if setting == ShardedPubsub::On { "spublish" } else { "publish" };
        assert_eq!((sent("hello"), sent("ping"), sent(publish)), (Some(2), Some(2), Some(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connecting_to_one_of_several_masters_is_an_error() {
    let node = RedisServer::cluster();
    drop(connect(&node, ShardedPubsub::Auto).await);
    let other = RedisServer::with(&["--cluster-enabled", "yes"]);
    assert_eq!(node.cli(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]), "OK");
    eventually(LIMIT, "the nodes to know each other", || {
        [&node, &other].iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_known_nodes:2"))
    });
    // A node without slots serves no names, so the first node still serves all.
    drop(connect(&node, ShardedPubsub::Auto).await);
    let id = other.cli(&["CLUSTER", "MYID"]);
    for on in [&node, &other] {
        assert_eq!(on.cli(&["CLUSTER", "SETSLOT", "0", "NODE", &id]), "OK");
    }
    eventually(LIMIT, "both to count two masters", || {
        [&node, &other].iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_size:2"))
    });
    for setting in [ShardedPubsub::Auto, ShardedPubsub::On, ShardedPubsub::Off] {
        let url = node.url().parse().expect("a URL");
        let options = ConnectOptions::default().timeout(LIMIT).sharded_pubsub(setting);
        let error = Redis::connect(&url, options).await.expect_err("it serves only some names");
        crate::common::assert_failed::<()>(Err(error.clone()), StoreErrorKind::WrongNode, Applied::No);
        assert!(
            crate::common::error_chain(&error).contains("one of 2 masters of a cluster"),
            "{}",
            crate::common::error_chain(&error)
        );
    }
}
