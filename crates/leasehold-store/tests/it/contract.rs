//! The contract of stores, on a real server, on a node of a cluster, and on the embedded server.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_store::embedded::{Embedded, Frame};
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::contract::read_write::{self, marks};
use leasehold_testkit::contract::{
    Admin, adoption, election, expirable, fair, fleet, keep_alive, latch, locks, plain, reentrant, semaphore,
    store,
};
use leasehold_testkit::fleets::{Cluster, Sentinels};
use leasehold_testkit::servers::RedisServer;

/// An admin that publishes as the store does, by sharded channels.
pub(crate) struct ClusterAdmin(pub(crate) RedisServer);

impl Admin for ClusterAdmin {
    fn run_command(&self, words: &[&str]) -> String {
        match words {
            ["PUBLISH", rest @ ..] => self.0.cli(&[&["SPUBLISH"], rest].concat()),
            ["PUBSUB", "NUMSUB", rest @ ..] => self.0.cli(&[&["PUBSUB", "SHARDNUMSUB"], rest].concat()),
            _ => self.0.cli(words),
        }
    }
}

/// An admin that speaks to the master of each key or channel, and publishes as the store does.
pub(crate) struct FleetAdmin(pub(crate) Cluster);

impl Admin for FleetAdmin {
    fn run_command(&self, words: &[&str]) -> String {
        let (key, words) = match words {
            ["PUBLISH", channel, ..] => (channel, [&["SPUBLISH"], &words[1..]].concat()),
            ["PUBSUB", "NUMSUB", channel, ..] => {
                (channel, [&["PUBSUB", "SHARDNUMSUB"], &words[2..]].concat())
            }
            ["TIME"] => (&"any", words.to_vec()),
            [_, key, ..] => (key, words.to_vec()),
            _ => panic!("{words:?} names no key"),
        };
        let master = self.0.node_of_slot(self.0.slot_of_key(key));
        self.0.nodes()[master].cli(&words)
    }
}

pub(crate) struct EmbeddedAdmin(pub(crate) Embedded);

impl Admin for EmbeddedAdmin {
    fn run_command(&self, words: &[&str]) -> String {
        text(self.0.execute(words))
    }
}

/// Returns a reply as redis-cli prints it.
pub(crate) fn text(frame: Frame) -> String {
    match frame {
        Frame::Simple(text) | Frame::Error(text) => text,
        Frame::Int(number) => number.to_string(),
        Frame::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Frame::Nil | Frame::NilArray => String::new(),
        Frame::Array(items) => items.into_iter().map(text).collect::<Vec<_>>().join("\n"),
    }
}

pub(crate) fn unix_ms() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the clock of a server in a test")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).unwrap().as_millis().try_into().unwrap()
}

async fn on_both(
    name: &str,
    on_redis: impl AsyncFn(&str, &Redis, &RedisServer),
    on_embedded: impl AsyncFn(&str, &Embedded, &EmbeddedAdmin),
) {
    println!("{name}");
    let server = RedisServer::start();
    let url = server.url().parse().unwrap();
    on_redis(name, &Redis::connect(&url, ConnectOptions::default()).await.unwrap(), &server).await;
    let embedded = Embedded::new(unix_ms);
    on_embedded(name, &embedded, &EmbeddedAdmin(embedded.clone())).await;
}

/// Runs these parts of the contract on both stores.
macro_rules! on_both_stores {
    ($($part:ident),+) => {
        $(for name in $part::NAMES {
            on_both(name, $part::run, $part::run).await;
        })+
    };
}

/// Runs the whole contract on the servers of a URL.
async fn whole_contract(url: &str, options: ConnectOptions, admin: &impl Admin) {
    let redis = &Redis::connect(&url.parse().unwrap(), options).await.unwrap();
    macro_rules! run {
        ($($part:ident),+) => {
            $(for name in $part::NAMES {
                println!("{name}");
                $part::run(name, redis, admin).await;
            })+
        };
    }
    run!(
        store, reentrant, fair, keep_alive, fleet, locks, adoption, election, plain, read_write, marks,
        semaphore, expirable, latch
    );
}

#[tokio::test]
async fn a_cluster_node_passes_the_whole_contract() {
    let admin = ClusterAdmin(RedisServer::cluster());
    whole_contract(&admin.0.url(), ConnectOptions::default(), &admin).await;
}

#[tokio::test]
async fn a_cluster_passes_the_whole_contract() {
    let admin = FleetAdmin(Cluster::start(3, 1));
    whole_contract(&admin.0.url(), ConnectOptions::default(), &admin).await;
}

#[tokio::test]
async fn a_fleet_behind_sentinels_passes_the_whole_contract() {
    let fleet = Sentinels::start();
    let master = &fleet.nodes()[fleet.master()];
    whole_contract(&fleet.url(), ConnectOptions::default(), master).await;
}

#[tokio::test]
async fn both_stores_pass_the_store_contract() {
    on_both_stores!(store);
}

#[tokio::test]
async fn a_store_of_resp2_passes_the_whole_contract() {
    let server = RedisServer::start();
    whole_contract(&server.url(), ConnectOptions::default().resp3(false), &server).await;
    let clients = server.cli(&["CLIENT", "LIST"]);
    assert!(!clients.contains("resp=3"), "{clients}");
}

#[tokio::test]
async fn both_stores_run_the_reentrant_lock() {
    on_both_stores!(reentrant);
}

#[tokio::test]
async fn both_stores_run_the_fair_lock() {
    on_both_stores!(fair);
}

#[tokio::test]
async fn both_stores_keep_queued_waiters_alive() {
    on_both_stores!(keep_alive);
}

#[tokio::test]
async fn both_stores_run_the_scripts_shared_with_redisson() {
    on_both_stores!(fleet);
}

#[tokio::test]
async fn both_stores_run_the_scripts_of_the_other_locks() {
    on_both_stores!(locks);
}

#[tokio::test]
async fn both_stores_run_the_scripts_of_adoptions() {
    on_both_stores!(adoption);
}

#[tokio::test]
async fn both_stores_run_the_scripts_of_elections() {
    on_both_stores!(election);
}

#[tokio::test]
async fn both_stores_run_the_plain_lock() {
    on_both_stores!(plain);
}

#[tokio::test]
async fn both_stores_run_the_read_write_lock() {
    on_both_stores!(read_write, marks);
}

#[tokio::test]
async fn both_stores_run_the_semaphores() {
    on_both_stores!(semaphore, expirable);
}

#[tokio::test]
async fn both_stores_run_the_latch() {
    on_both_stores!(latch);
}
