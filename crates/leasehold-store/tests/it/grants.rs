//! The contract as a user with the smallest rights, for each primitive alone and for all of them.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::grants::{Names, PRIMITIVES, Place, Primitive, rules};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{CallArgs, ClientId, Lease, Name, Reply, WireOwner};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::contract::read_write::{self, marks};
use leasehold_testkit::contract::{expirable, fair, keep_alive, latch, locks, reentrant, semaphore};
use leasehold_testkit::servers::RedisServer;

use crate::contract::ClusterAdmin;

/// The beginnings of the names in the contract.
fn names() -> [Names; 2] {
    ["{contract:", "contract:"].map(|prefix| Names::behind(prefix).unwrap())
}

/// A server, and a store whose user has the smallest rights.
async fn limited(place: Place, primitives: &[&str]) -> (RedisServer, Redis) {
    let server = match place {
        Place::Cluster => RedisServer::cluster(),
        _ => RedisServer::start(),
    };
    let primitives: Vec<_> = primitives.iter().map(|name| Primitive::named(name).unwrap()).collect();
    let rules = rules(place, &names(), &primitives);
    let user = ["ACL", "SETUSER", "app", "reset", "on", ">word"].into_iter().chain(rules.split(' '));
    assert_eq!(server.cli(&user.collect::<Vec<_>>()), "OK", "{rules}");
    let url = format!("redis://app:word@127.0.0.1:{}", server.port()).parse().unwrap();
    let store = Redis::connect(&url, ConnectOptions::default()).await.unwrap();
    (server, store)
}

/// Checks that the user may touch no other key and no other channel, and may not administer the server.
fn is_limited(server: &RedisServer) {
    let login = ["--user", "app", "--pass", "word", "--no-auth-warning"];
    let refused = [
        &["EVAL", "return redis.call('hset', KEYS[1], 'a', 'b')", "1", "elsewhere"][..],
        &["EVAL", "return redis.call('publish', ARGV[1], 'a')", "0", "elsewhere"],
        &["PUBLISH", "elsewhere", "a"],
        &["KEYS", "*"],
        &["FLUSHALL"],
        &["CONFIG", "GET", "save"],
        &["SCRIPT", "FLUSH"],
    ];
    for command in refused {
        let reply = server.cli(&[&login[..], command].concat());
        let is_refused =
            reply.contains("NOPERM") || reply.contains("can't") || reply.contains("No permissions");
        assert!(is_refused, "{command:?}: {reply}");
    }
}

macro_rules! passes {
    ($store:expr, $server:expr; $($contract:ident),+) => {{
        $(for name in $contract::NAMES {
            println!("{}: {name}", stringify!($contract));
            $contract::run(name, $store, $server).await;
        })+
    }};
}

#[tokio::test]
async fn the_smallest_rights_of_a_primitive_pass_its_contract() {
    for primitives in [&["lock"][..], &["fair"], &["rw"], &["semaphore"], &["expirable"], &["latch"]] {
        let (server, store) = limited(Place::Standalone, primitives).await;
        match primitives[0] {
            "lock" => passes!(&store, &server; reentrant),
            "fair" => passes!(&store, &server; fair),
            "rw" => passes!(&store, &server; read_write, marks),
            "semaphore" => passes!(&store, &server; semaphore),
            "expirable" => passes!(&store, &server; expirable),
            _ => passes!(&store, &server; latch),
        }
        is_limited(&server);
    }
    let (server, store) = limited(Place::Standalone, &["fenced", "spin", "multi", "redlock"]).await;
    passes!(&store, &server; locks);
    let (server, store) = limited(Place::Standalone, &["fair", "semaphore"]).await;
    passes!(&store, &server; keep_alive);
}

#[tokio::test]
async fn the_smallest_rights_of_all_primitives_pass_the_whole_contract() {
    let all: Vec<_> = PRIMITIVES.iter().map(|primitive| primitive.name).collect();
    let (server, store) = limited(Place::Standalone, &all).await;
    passes!(
        &store, &server;
        reentrant, fair, keep_alive, locks, read_write, marks, semaphore, expirable, latch
    );
    is_limited(&server);
}

#[tokio::test]
async fn the_smallest_rights_in_a_cluster_pass_the_contract_by_sharded_channels() {
    let (server, store) = limited(Place::Cluster, &["lock", "fair", "rw", "latch"]).await;
    let admin = ClusterAdmin(server);
    passes!(&store, &admin; reentrant, fair, read_write, marks, latch);
    is_limited(&admin.0);
}

#[tokio::test]
async fn the_listeners_of_a_hold_are_counted_only_with_the_right_to_it() {
    for place in [Place::Standalone, Place::Cluster] {
        let (server, store) = limited(place, &["lock"]).await;
        let subject = Subject::new(&Name::new("contract:job").unwrap(), &REENTRANT);
        let lease = Lease::new(Duration::from_secs(30)).unwrap();
        let args = CallArgs::new(&subject, WireOwner::new(ClientId::from_random([7; 16]), 1), lease);
        let limit = Duration::from_secs(20);
        assert_eq!(store.run((REENTRANT.acquire)(&args), limit).await, Ok(Reply::Nil));
        let count = async || store.run((REENTRANT.hand_off.unwrap())(&args), limit).await;
        assert_eq!(count().await, Ok(Reply::Int(2)), "nobody listens");
        assert_eq!(server.cli(&["ACL", "SETUSER", "app", "-pubsub"]), "OK");
        assert_eq!(count().await, Ok(Reply::Int(1)), "renewed, and the listeners are unknown");
    }
}
