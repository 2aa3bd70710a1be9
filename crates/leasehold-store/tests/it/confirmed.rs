//! Calls that replicas confirm, on a real master with replicas.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_proto::{Applied, StoreErrorKind};
use leasehold_store::redis::{ConnectOptions, MissingNotice, Redis};
use leasehold_store::{Confirm, Confirmation, OnMissing, Store};
use leasehold_testkit::fleets::Sentinels;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::answered;

use crate::common::{LIMIT, SET, call};

/// The time for the replicas, which a busy machine needs too.
pub(crate) const WITHIN: Duration = Duration::from_secs(3);

async fn connect(url: &str, replicas: Confirm) -> Redis {
    let options = ConnectOptions::default().confirmation(Confirmation::new(replicas, WITHIN));
    Redis::connect(&url.parse().unwrap(), options).await.unwrap()
}

pub(crate) fn commands(server: &RedisServer, name: &str) -> u64 {
    let stats = server.cli(&["INFO", "commandstats"]);
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{name}:calls="))?.split_once(','));
    line.map_or(0, |(calls, _)| calls.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_call_is_on_the_replicas() {
    let fleet = Sentinels::start();
    let store = connect(&fleet.url(), Confirm::all(2)).await;
    for number in 0..20 {
        store.run(call(&SET, "key", number), LIMIT).await.unwrap();
        for replica in fleet.replicas() {
            assert_eq!(fleet.nodes()[replica].cli(&["GET", "key"]), number.to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_share_one_wait() {
    let fleet = Sentinels::start();
    let store = connect(&fleet.url(), Confirm::AtLeast(2)).await;
    store.run(call(&SET, "first", 1), LIMIT).await.unwrap();
    let master = &fleet.nodes()[fleet.master()];
    let before = commands(master, "wait");
    let calls = (0..1_000).map(|number| store.run(call(&SET, &format!("key:{number}"), number), LIMIT));
    for outcome in join_all(calls).await {
        outcome.unwrap();
    }
    let waits = commands(master, "wait") - before;
    println!("1,000 confirmed calls took {waits} WAIT");
    assert!(waits <= 40, "{waits}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_replica_confirms_nothing_until_it_resumes() {
    let fleet = Sentinels::start();
    let store = connect(&fleet.url(), Confirm::all(2)).await;
    store.run(call(&SET, "key", "before"), LIMIT).await.unwrap();
    let replica = fleet.replicas()[0];
    fleet.freeze(replica);
    let error = store.run(call(&SET, "key", "alone"), LIMIT).await.unwrap_err();
    assert_eq!((error.kind, error.applied), (StoreErrorKind::Unconfirmed, Applied::Unknown));
    let majority = connect(&fleet.url(), Confirm::majority(2)).await;
    majority.run(call(&SET, "key", "two of three"), LIMIT).await.unwrap();
    fleet.resume(replica);
    let again = async || store.run(call(&SET, "key", "again"), LIMIT).await.ok();
    answered(LIMIT, "the replica to confirm again", again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_replicas_confirms_nothing_that_needs_one() {
    let server = RedisServer::start();
    let store = connect(&server.url(), Confirm::all(1)).await;
    let error = store.run(call(&SET, "key", 1), LIMIT).await.unwrap_err();
    assert_eq!((error.kind, error.applied), (StoreErrorKind::Unconfirmed, Applied::Unknown));
    let none = connect(&server.url(), Confirm::all(0)).await;
    none.run(call(&SET, "key", 2), LIMIT).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_warns_counts_with_the_replicas_that_are_there() {
    static MISSING: Mutex<Vec<(u32, u32)>> = Mutex::new(Vec::new());
    let fleet = Sentinels::start();
    let terms = Confirmation::new(Confirm::AtLeast(3), WITHIN);
    let connect = async |terms| {
        let mut options = ConnectOptions::default().confirmation(terms);
        let tell = |connected, wanted| MISSING.lock().unwrap().push((connected, wanted));
        options.missing_notice = Some(MissingNotice::new(tell));
        Redis::connect(&fleet.url().parse().unwrap(), options).await.unwrap()
    };
    let store = connect(terms.on_missing(OnMissing::Warn)).await;
    for number in 0..3 {
        store.run(call(&SET, "key", number), LIMIT).await.unwrap();
    }
    assert_eq!(*MISSING.lock().unwrap(), [(2, 3)]);
    let strict = Confirmation::new(Confirm::AtLeast(3), Duration::from_millis(100));
    let error = connect(strict).await.run(call(&SET, "key", 4), LIMIT).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Unconfirmed);
}
