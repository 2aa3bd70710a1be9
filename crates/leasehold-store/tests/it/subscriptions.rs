//! Subscriptions on a real server: confirmed, renewed after a loss, and ended.

use std::thread;

use crate::common::{LIMIT, SET, call, clients, connect, connect_to, run};
use leasehold_proto::Channel;
use leasehold_store::redis::Redis;
use leasehold_store::{Heard, Store, Subscription};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

struct Listener {
    channel: Channel,
    news: UnboundedReceiver<Heard>,
    subscription: Subscription,
}

impl Listener {
    fn new(store: &Redis, channel: &str) -> Self {
        let channel = Channel::new(channel);
        let (heard, news) = unbounded_channel();
        let subscription = store.subscribe(channel.clone(), heard);
        Self { channel, news, subscription }
    }

    /// Asserts that the next event is the server's confirmation.
    #[track_caller]
    fn is_listening(&mut self) {
        let expected = Heard::Listening(self.channel.clone());
        self.expect_event(&expected);
    }

    /// Asserts that the next event is this message.
    #[track_caller]
    fn receives(&mut self, payload: &str) {
        let expected = Heard::Message(self.channel.clone(), payload.into());
        self.expect_event(&expected);
    }

    #[track_caller]
    fn expect_event(&mut self, expected: &Heard) {
        eventually(LIMIT, &format!("{expected:?}"), || match self.news.try_recv() {
            Ok(heard) => {
                assert_eq!(heard, *expected);
                true
            }
            Err(_) => false,
        });
    }
}

/// Publishes, and returns the number of clients that received it.
fn publish(server: &RedisServer, channel: &str, payload: &str) -> String {
    server.cli(&["PUBLISH", channel, payload])
}

/// Returns the number of subscribers of a channel.
fn subscribers(server: &RedisServer, channel: &str) -> String {
    server.cli(&["PUBSUB", "NUMSUB", channel]).lines().last().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_arrive_in_order_on_their_channel_after_the_confirmation() {
    let server = RedisServer::with(&["--requirepass", "s3cret"]);
    let store = connect(&server).await;
    assert_eq!(clients(&server), 1, "no subscription, no second connection");
    let mut first = Listener::new(&store, "first");
    let mut second = Listener::new(&store, "second {ä}");
    first.is_listening();
    second.is_listening();
    assert_eq!(clients(&server), 2, "one connection for all");
    for number in 0..10 {
        assert_eq!(publish(&server, "first", &number.to_string()), "1");
        assert_eq!(publish(&server, "second {ä}", "0"), "1");
    }
    for number in 0..10 {
        first.receives(&number.to_string());
        second.receives("0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_listeners_share_one_subscription() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (mut first, mut second) = (Listener::new(&store, "c"), Listener::new(&store, "c"));
    first.is_listening();
    second.is_listening();
    let mut third = Listener::new(&store, "c");
    third.is_listening();
    assert_eq!(publish(&server, "c", "0"), "1");
    first.receives("0");
    drop(first);
    drop(third);
    second.receives("0");
    assert_eq!(publish(&server, "c", "1"), "1");
    second.receives("1");
    drop(second);
    eventually(LIMIT, "no client is subscribed", || subscribers(&server, "c") == "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_dropped_outside_a_runtime_is_ended_on_the_server() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let mut listener = Listener::new(&store, "c");
    listener.is_listening();
    let Listener { subscription, .. } = listener;
    thread::spawn(move || drop(subscription)).join().unwrap();
    eventually(LIMIT, "no client is subscribed", || subscribers(&server, "c") == "0");
    let mut again = Listener::new(&store, "c");
    again.is_listening();
    assert_eq!(subscribers(&server, "c"), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_lost_connection_every_channel_is_confirmed_again() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let mut listeners: Vec<_> =
        (0..50).map(|number| Listener::new(&store, &format!("channel {number}"))).collect();
    listeners.iter_mut().for_each(Listener::is_listening);
    for round in ["0", "1"] {
        server.reset_stats();
        assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1");
        listeners.iter_mut().for_each(Listener::is_listening);
        assert_eq!(server.commandstats()["subscribe"], 1, "one command for all channels");
        for listener in &mut listeners {
            assert_eq!(publish(&server, listener.channel.as_str(), round), "1");
            listener.receives(round);
        }
    }
    run(&store, call(&SET, "k", 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_outlives_the_server() {
    let mut server = RedisServer::start();
    let store = connect(&server).await;
    let mut before = Listener::new(&store, "before");
    before.is_listening();
    server.kill();
    let mut during = Listener::new(&store, "during");
    let gone = Listener::new(&store, "gone");
    drop(gone);
    server.restart();
    before.is_listening();
    during.is_listening();
    for listener in [&mut before, &mut during] {
        assert_eq!(publish(&server, listener.channel.as_str(), "0"), "1");
        listener.receives("0");
    }
    assert_eq!(subscribers(&server, "gone"), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusing_proxy_is_retried() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    let mut listener = Listener::new(&store, "c");
    listener.is_listening();
    proxy.refuse(true);
    proxy.cut();
    eventually(LIMIT, "the subscription is lost", || subscribers(&server, "c") == "0");
    proxy.refuse(false);
    listener.is_listening();
    assert_eq!(publish(&server, "c", "0"), "1");
    listener.receives("0");
}

#[tokio::test(flavor = "multi_thread")]
async fn ended_subscriptions_are_removed_while_the_server_refuses_connections() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    proxy.refuse(true);
    let (heard, mut news) = unbounded_channel();
    let wanted = store.subscribe(Channel::new("wanted"), heard.clone());
    for number in 0..100_000 {
        drop(store.subscribe(Channel::new(&format!("channel {}", number % 1000)), heard.clone()));
        drop(store.subscribe(Channel::new("wanted"), heard.clone()));
    }
    run(&store, call(&SET, "k", 1)).await.expect("the command connection stands");
    eventually(LIMIT, "the test and one listener to keep the sender", || heard.strong_count() == 2);
    proxy.refuse(false);
    assert_eq!(news.recv().await, Some(Heard::Listening(Channel::new("wanted"))));
    drop(wanted);
    eventually(LIMIT, "the test to keep the sender alone", || heard.strong_count() == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_is_not_allowed_disturbs_no_other() {
    let server = RedisServer::start();
    let rules = ["ACL", "SETUSER", "app", "on", ">word", "~*", "+@all", "resetchannels", "&mine"];
    assert_eq!(server.cli(&rules), "OK");
    let store = connect_to(&format!("redis://app:word@127.0.0.1:{}", server.port())).await.unwrap();
    let mut refused = Listener::new(&store, "theirs");
    let mut allowed = Listener::new(&store, "mine");
    allowed.is_listening();
    assert_eq!(publish(&server, "mine", "0"), "1");
    allowed.receives("0");
    assert!(refused.news.try_recv().is_err());
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "&theirs"]), "OK");
    refused.is_listening();
    assert!(allowed.news.try_recv().is_err(), "the connection stayed");
}

#[tokio::test]
async fn channels_requested_at_once_share_commands() {
    for (count, expected) in [(1, 1..=1), (16, 1..=1), (1_000, 1..=1), (20_000, 1..=40)] {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port());
        let store = connect_to(&proxy.url()).await.unwrap();
        // All channels are requested before the connection for them opens, however slow this thread is.
        proxy.refuse(true);
        let (heard, mut news) = unbounded_channel();
        let subscribe = |number| store.subscribe(Channel::new(&format!("channel {number}")), heard.clone());
        let _subscriptions: Vec<_> = (0..count).map(subscribe).collect();
        proxy.refuse(false);
        for _ in 0..count {
            assert!(matches!(news.recv().await, Some(Heard::Listening(_))));
        }
        let sent = server.commandstats().get("subscribe").copied().unwrap_or(0);
        assert!(expected.contains(&sent), "{count}: {sent}");
    }
}
