//! The contract of stores, on a real server, on a node of a cluster, and on the embedded server.

use std::time::{SystemTime, UNIX_EPOCH};

use leasehold_store::embedded::{Embedded, Frame};
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::contract::read_write::{self, marks};
use leasehold_testkit::contract::{
    Admin, expirable, fair, fleet, keep_alive, latch, locks, plain, reentrant, semaphore, store,
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

/// Runs the whole contract on the servers of a URL.
async fn whole_contract(url: &str, options: ConnectOptions, admin: &impl Admin) {
    let redis = &Redis::connect(&url.parse().unwrap(), options).await.unwrap();
    for name in store::NAMES {
        println!("{name}");
        store::run(name, redis, admin).await;
    }
    for name in reentrant::NAMES {
        println!("{name}");
        reentrant::run(name, redis, admin).await;
    }
    for name in fair::NAMES {
        println!("{name}");
        fair::run(name, redis, admin).await;
    }
    for name in keep_alive::NAMES {
        println!("{name}");
        keep_alive::run(name, redis, admin).await;
    }
    for name in fleet::NAMES {
        println!("{name}");
        fleet::run(name, redis, admin).await;
    }
    for name in locks::NAMES {
        println!("{name}");
        locks::run(name, redis, admin).await;
    }
    for name in plain::NAMES {
        println!("{name}");
        plain::run(name, redis, admin).await;
    }
    for name in read_write::NAMES {
        println!("{name}");
        read_write::run(name, redis, admin).await;
    }
    for name in marks::NAMES {
        println!("{name}");
        marks::run(name, redis, admin).await;
    }
    for name in semaphore::NAMES {
        println!("{name}");
        semaphore::run(name, redis, admin).await;
    }
    for name in expirable::NAMES {
        println!("{name}");
        expirable::run(name, redis, admin).await;
    }
    for name in latch::NAMES {
        println!("{name}");
        latch::run(name, redis, admin).await;
    }
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
    for name in store::NAMES {
        on_both(name, store::run, store::run).await;
    }
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
    for name in reentrant::NAMES {
        on_both(name, reentrant::run, reentrant::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_fair_lock() {
    for name in fair::NAMES {
        on_both(name, fair::run, fair::run).await;
    }
}

#[tokio::test]
async fn both_stores_keep_queued_waiters_alive() {
    for name in keep_alive::NAMES {
        on_both(name, keep_alive::run, keep_alive::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_scripts_shared_with_redisson() {
    for name in fleet::NAMES {
        on_both(name, fleet::run, fleet::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_scripts_of_the_other_locks() {
    for name in locks::NAMES {
        on_both(name, locks::run, locks::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_plain_lock() {
    for name in plain::NAMES {
        on_both(name, plain::run, plain::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_read_write_lock() {
    for name in read_write::NAMES {
        on_both(name, read_write::run, read_write::run).await;
    }
    for name in marks::NAMES {
        on_both(name, marks::run, marks::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_semaphores() {
    for name in semaphore::NAMES {
        on_both(name, semaphore::run, semaphore::run).await;
    }
    for name in expirable::NAMES {
        on_both(name, expirable::run, expirable::run).await;
    }
}

#[tokio::test]
async fn both_stores_run_the_latch() {
    for name in latch::NAMES {
        on_both(name, latch::run, latch::run).await;
    }
}
