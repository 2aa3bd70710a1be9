//! Locks through proxies in front of several servers. A script of several names must not reach one of them.

use std::time::Duration;

use futures_util::future::join_all;
use leasehold::{Client, Guard, MultiLock, Name};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::sharding_proxy::{Routing, ShardingProxy};

const NAMES: usize = 100;

/// Returns two servers, a proxy in front of them, and two clients.
async fn behind(routing: Routing) -> ([RedisServer; 2], [Client; 2]) {
    let servers = [RedisServer::start(), RedisServer::start()];
    let proxy = ShardingProxy::start(&[servers[0].port(), servers[1].port()], routing);
    let client =
        async || Client::builder().poll_interval(Duration::from_millis(100)).connect(&proxy.url()).await;
    let clients = [client().await.unwrap(), client().await.unwrap()];
    (servers, clients)
}

/// Tries all locks at the same time.
async fn try_all(client: &Client) -> Vec<Option<Guard>> {
    let one = async |number: usize| client.lock(format!("job:{number}")).try_lock().await.unwrap();
    join_all((0..NAMES).map(one)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_that_routes_by_the_first_key_grants_no_lock_twice() {
    let (servers, [one, other]) = behind(Routing::FirstKey).await;
    for _ in 0..3 {
        let held = try_all(&one).await;
        assert!(held.iter().all(Option::is_some));
        let again = try_all(&other).await;
        assert_eq!(again.iter().flatten().count(), 0, "locks that are held twice");
        let on = servers.each_ref().map(|server| server.cli(&["DBSIZE"]).parse::<usize>().unwrap());
        assert!(on[0] > 0 && on[1] > 0 && on[0] + on[1] == NAMES, "{on:?}");
        join_all(held.into_iter().flatten().map(Guard::release))
            .await
            .into_iter()
            .for_each(|done| _ = done.unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_refuses_several_slots_grants_all_locks_at_once() {
    let (_servers, [one, other]) = behind(Routing::RefusesSlots).await;
    let held = try_all(&one).await;
    assert!(held.iter().all(Option::is_some));
    assert_eq!(try_all(&other).await.iter().flatten().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_lock_takes_names_one_by_one_and_is_refused_where_a_hash_tag_may_lead_elsewhere() {
    for (routing, works) in [(Routing::FirstKey, false), (Routing::RefusesSlots, true)] {
        let (_servers, [client, other]) = behind(routing).await;
        let apart = MultiLock::of(["a", "b"].map(|name| client.lock(name).into()));
        let held = apart.try_lock().await.unwrap().unwrap();
        for name in ["a", "b"] {
            assert!(other.lock(name).try_lock().await.unwrap().is_none());
        }
        drop(held);
        let tagged = ["1", "2"].map(|rest| Name::with_hash_tag("pair", rest).unwrap());
        let outcome = MultiLock::of(tagged.map(|name| client.lock(name).into())).try_lock().await;
        if works {
            assert!(outcome.unwrap().is_some());
            continue;
        }
        let text = outcome.unwrap_err().to_string();
        assert!(text.contains("not acquired") && text.contains("lock the names one by one"), "{text}");
    }
}
