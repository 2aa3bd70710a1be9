//! Fleets behind sentinels and clusters, while their servers fail and their slots move.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::{Applied, Call, Channel, Reply, StoreError, StoreErrorKind};
use leasehold_store::redis::wire::Answer;
use leasehold_store::redis::{ConnectOptions, Peer, Redis, query};
use leasehold_store::url::Address;
use leasehold_store::{Heard, Store, Subscription};
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::{answered, eventually};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::timeout;

use crate::common::{INCREMENT, LIMIT, SET, TWO_KEYS, call, connect_to};

/// The timeout of a call while servers fail.
const CALL: Duration = Duration::from_secs(1);

/// Runs calls until one succeeds, as the engine does. Returns the number of calls with an unknown outcome before it.
async fn retried(store: &Redis, call: impl Fn() -> Call) -> (Reply, u32) {
    let mut unknown = 0;
    let tries = answered(Duration::from_secs(30), "a call to succeed", async || {
        let outcome = store.run(call(), CALL).await;
        unknown += u32::from(matches!(outcome, Err(StoreError { applied: Applied::Unknown, .. })));
        outcome.ok()
    });
    (tries.await, unknown)
}

async fn listen(store: &Redis, channel: &str) -> (Subscription, UnboundedReceiver<Heard>) {
    let (heard_by, mut heard) = unbounded_channel();
    let subscription = store.subscribe(Channel::new(channel), heard_by);
    listening(&mut heard).await;
    (subscription, heard)
}

async fn listening(heard: &mut UnboundedReceiver<Heard>) {
    let next = timeout(LIMIT, heard.recv()).await.expect("the subscription is confirmed");
    assert!(matches!(next, Some(Heard::Listening(_))), "{next:?}");
}

async fn message(heard: &mut UnboundedReceiver<Heard>, publish: impl Fn()) {
    publish();
    loop {
        match timeout(LIMIT, heard.recv()).await.expect("the message arrives") {
            Some(Heard::Message(..)) => return,
            // A server that was promoted ends its connections, and with them the subscription that heard nothing.
            Some(Heard::Listening(_)) => publish(),
            None => panic!("the subscription has ended"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_channels_follow_a_killed_master_of_sentinels() {
    let mut fleet = Sentinels::start();
    let store = connect_to(&fleet.url()).await.unwrap();
    let (_subscription, mut heard) = listen(&store, "news").await;
    store.run(call(&SET, "key", "before"), LIMIT).await.unwrap();
    let old = fleet.master();
    fleet.kill(old);
    retried(&store, || call(&SET, "key", "after")).await;
    let new = fleet.master();
    assert_ne!(new, old);
    assert_eq!(fleet.nodes()[new].cli(&["GET", "key"]), "after");
    listening(&mut heard).await;
    message(&mut heard, || drop(fleet.nodes()[new].cli(&["PUBLISH", "news", "1"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_master_gets_no_call_after_the_failover() {
    let fleet = Sentinels::start();
    let store = connect_to(&fleet.url()).await.unwrap();
    let old = fleet.master();
    fleet.freeze(old);
    retried(&store, || call(&SET, "key", "after")).await;
    let new = fleet.master();
    fleet.resume(old);
    for number in 0..50 {
        store.run(call(&SET, "key", number), LIMIT).await.unwrap();
    }
    assert_eq!(fleet.nodes()[new].cli(&["GET", "key"]), "49");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_follow_failovers_by_hand() {
    let fleet = Sentinels::start();
    let store = connect_to(&fleet.url()).await.unwrap();
    for round in 0..2 {
        let master = &fleet.nodes()[fleet.failover()];
        let arrives = async {
            // The old master takes writes, which are lost, until it is demoted.
            while master.cli(&["GET", "key"]) != round.to_string() {
                retried(&store, || call(&SET, "key", round)).await;
            }
        };
        timeout(LIMIT, arrives).await.expect("the calls reach the new master");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sentinel_of_three_is_enough() {
    let mut fleet = Sentinels::start();
    let url = fleet.url();
    fleet.kill_sentinel(0);
    fleet.freeze_sentinel(1);
    let store = connect_to(&url).await.unwrap();
    store.run(call(&SET, "key", 1), LIMIT).await.unwrap();
}

/// Returns keys of one slot each, for as many slots as possible.
fn keys() -> Vec<String> {
    (0..64).map(|number| format!("key:{number}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_runs_once_at_the_master_of_its_slot() {
    let cluster = Cluster::start(3, 0);
    let store = connect_to(&cluster.url()).await.unwrap();
    let keys = keys();
    for _ in 0..10 {
        let calls = keys.iter().map(|key| store.run(call(&INCREMENT, key, 1), LIMIT));
        for outcome in join_all(calls).await {
            outcome.unwrap();
        }
    }
    let mut masters = BTreeMap::new();
    for key in &keys {
        let master = cluster.node_of_slot(cluster.slot_of_key(key));
        *masters.entry(master).or_insert(0) += 1;
        assert_eq!(cluster.nodes()[master].cli(&["GET", key]), "10", "{key}");
    }
    assert_eq!(masters.len(), 3, "{masters:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_loses_no_call_and_runs_none_twice() {
    let cluster = Cluster::start(3, 0);
    let store = connect_to(&cluster.url()).await.unwrap();
    let key = "{moving}";
    let slot = cluster.slot_of_key(key);
    let channel = format!("channel:{key}");
    let (_subscription, mut heard) = listen(&store, &channel).await;
    let mut count = 0;
    let mut increment = async |store: &Redis| {
        let (reply, unknown) = retried(store, || call(&INCREMENT, key, 1)).await;
        assert_eq!(unknown, 0, "a moved slot leaves no outcome unknown");
        count += 1;
        assert_eq!(reply, Reply::Int(count));
    };
    for round in 0..50 {
        let from = cluster.node_of_slot(slot);
        let moving = cluster.begin_move(slot, (from + 1) % 3);
        increment(&store).await;
        cluster.move_keys(moving, 10);
        increment(&store).await;
        cluster.finish_move(moving);
        increment(&store).await;
        let master = cluster.node_of_slot(slot);
        let subscribed = || cluster.nodes()[master].cli(&["PUBSUB", "SHARDNUMSUB", &channel]).ends_with('1');
        if round % 10 == 0 {
            eventually(LIMIT, "the channel to follow its slot", subscribed);
            message(&mut heard, || drop(cluster.nodes()[master].cli(&["SPUBLISH", &channel, "1"]))).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_and_channels_follow_a_killed_master_of_a_cluster() {
    let mut cluster = Cluster::start(3, 1);
    let store = connect_to(&cluster.url()).await.unwrap();
    let (key, channel) = ("{job}", "channel:{job}");
    let (_subscription, mut heard) = listen(&store, channel).await;
    let slot = cluster.slot_of_key(key);
    store.run(call(&SET, key, "before"), LIMIT).await.unwrap();
    let old = cluster.node_of_slot(slot);
    cluster.kill(old);
    retried(&store, || call(&SET, key, "after")).await;
    let new = cluster.node_of_slot(slot);
    assert_ne!(new, old);
    let subscribed = || cluster.nodes()[new].cli(&["PUBSUB", "SHARDNUMSUB", channel]).ends_with('1');
    eventually(LIMIT, "the channel to be at the new master", subscribed);
    message(&mut heard, || drop(cluster.nodes()[new].cli(&["SPUBLISH", channel, "1"]))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_follow_a_frozen_master_of_a_cluster() {
    let cluster = Cluster::start(3, 1);
    let store = connect_to(&cluster.url()).await.unwrap();
    let key = "{job}";
    let slot = cluster.slot_of_key(key);
    store.run(call(&SET, key, "before"), LIMIT).await.unwrap();
    let old = cluster.node_of_slot(slot);
    cluster.freeze(old);
    retried(&store, || call(&SET, key, "after")).await;
    assert_ne!(cluster.node_of_slot(slot), old);
    cluster.resume(old);
    cluster.wait_until_settled();
    for number in 0..20 {
        store.run(call(&SET, key, number), LIMIT).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_is_used_and_a_node_that_leaves_is_not_missed() {
    let mut cluster = Cluster::start(3, 0);
    let store = connect_to(&cluster.url()).await.unwrap();
    let key = "{job}";
    let slot = cluster.slot_of_key(key);
    let added = cluster.add_node();
    cluster.move_slot(slot, added);
    retried(&store, || call(&SET, key, "there")).await;
    assert_eq!(cluster.nodes()[added].cli(&["GET", key]), "there");
    cluster.move_slot(slot, 0);
    cluster.remove_node(added);
    // The node is gone before it could say where its slot is.
    retried(&store, || call(&SET, key, "back")).await;
    for number in 0..20 {
        store.run(call(&SET, key, number), LIMIT).await.unwrap();
    }
    assert_eq!(cluster.nodes()[0].cli(&["GET", key]), "19");
}

#[tokio::test]
async fn keys_of_two_slots_are_refused_before_they_are_sent() {
    let cluster = Cluster::start(3, 0);
    let store = connect_to(&cluster.url()).await.unwrap();
    let calls = |name: &str| {
        let info = |node: &RedisServer| node.cli(&["INFO", "commandstats"]);
        cluster.nodes().iter().map(info).filter(|stats| stats.contains(name)).count()
    };
    let error = store.run(Call::with(&TWO_KEYS, ["a", "b"], [""; 0]), LIMIT).await.unwrap_err();
    assert_eq!(error.applied, Applied::No);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("\"a\" and \"b\" are in two slots"), "{source}");
    assert_eq!(calls("cmdstat_evalsha") + calls("cmdstat_eval:"), 0);
    assert_eq!(store.run(Call::with(&TWO_KEYS, ["{a}1", "{a}2"], [""; 0]), LIMIT).await, Ok(Reply::Int(0)));
}

#[tokio::test]
async fn a_query_asks_one_server_as_the_url_says() {
    let server = RedisServer::with(&["--requirepass", "secret"]);
    let url = server.url_with_password().parse().unwrap();
    let address = Address::Tcp { host: "127.0.0.1".into(), port: server.port() };
    let options = ConnectOptions::default().timeout(LIMIT);
    let answers =
        query(&url, (Peer::Server, &address), &[&["ECHO", "one"], &["NO", "COMMAND"], &["ROLE"]], &options)
            .await
            .unwrap();
    assert_eq!(answers[0], Answer::Text("one".into()));
    assert!(matches!(&answers[1], Answer::Error(text) if text.starts_with("ERR unknown command")));
    assert!(matches!(&answers[2], Answer::List(role) if role[0] == Answer::Text("master".into())));
    let wrong = format!("redis://:hunter2@127.0.0.1:{}", server.port()).parse().unwrap();
    let error = query(&wrong, (Peer::Server, &address), &[&["PING"]], &options).await.unwrap_err();
    assert!(error.kind == StoreErrorKind::AuthenticationFailed && !format!("{error:?}").contains("hunter2"));
}
