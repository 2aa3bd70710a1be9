//! The command connection: order, timeouts, loss and replacement.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::pin::Pin;
use std::thread;

use crate::common::{
    FAIL, LIMIT, PUSH, SET, SOON, assert_failed, call, clients, connect, connect_to, poll_once, run,
    run_on_a_new_connection,
};
use futures_util::future::join_all;
use leasehold_proto::Applied::{No, Unknown};
use leasehold_proto::{Channel, Reply, StoreError, StoreErrorKind as Kind};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

type Running = Pin<Box<dyn Future<Output = Result<Reply, StoreError>> + Send>>;

/// Polls `count` calls once each, in order.
async fn start(store: &Redis, count: usize) -> Vec<Running> {
    let mut running = Vec::new();
    for number in 0..count {
        let mut one: Running = Box::pin(store.run(call(&PUSH, "k", number), LIMIT));
        assert!(poll_once(&mut one).await.is_pending());
        running.push(one);
    }
    running
}

/// Makes the store leave its connection, which stays open at the server.
async fn leave_connection(store: &Redis) {
    assert_failed(run(store, call(&FAIL, "k", "READONLY says the test")).await, Kind::ReadOnly, No);
}

fn list(server: &RedisServer) -> Vec<String> {
    server.cli(&["LRANGE", "k", "0", "-1"]).lines().map(String::from).collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

/// Returns the number of connections that the server has ever accepted, including the one of this count.
fn connections_taken(server: &RedisServer) -> u64 {
    let info = server.cli(&["INFO", "stats"]);
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.expect("the server counts").trim().parse().expect("a number")
}

#[tokio::test]
async fn calls_run_in_the_order_of_their_first_polls() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    // More calls than tokio lets one task run at once, and awaited in another order than started.
    let mut running = start(&store, 1000).await;
    running.reverse();
    assert!(join_all(running).await.iter().all(Result::is_ok));
    assert_eq!(list(&server), numbers(1000));
}

#[tokio::test]
async fn calls_that_wait_for_a_connection_run_in_order_over_one_attempt() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    leave_connection(&store).await;
    let before = connections_taken(&server);
    let mut running = start(&store, 300).await;
    running.reverse();
    assert!(join_all(running).await.iter().all(Result::is_ok));
    assert_eq!(connections_taken(&server), before + 2, "one for all, and one for the question");
    assert_eq!(list(&server), numbers(300));
}

#[tokio::test]
async fn a_call_is_one_command_and_a_connection_one_ping() {
    let server = RedisServer::start();
    server.reset_stats();
    let store = connect(&server).await;
    for number in 0..100 {
        run(&store, call(&PUSH, "k", number)).await.unwrap();
    }
    let mut stats = server.commandstats();
    stats.retain(|name, _| !["info", "config|resetstat"].contains(&name.as_str()));
    // EVAL_RO checks the right to subscribe, and EVAL is the first call.
    let expected = [
        ("ping", 1),
        ("hello", 1),
        ("publish", 1),
        ("eval_ro", 1),
        ("eval", 1),
        ("evalsha", 99),
        ("rpush", 100),
    ];
    assert_eq!(stats, expected.map(|(name, count)| (name.to_owned(), count)).into());
}

#[tokio::test]
async fn a_dropped_call_does_not_shift_later_replies() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    for round in 0..50 {
        let dropped = start(&store, round).await;
        drop(dropped);
        let value = format!("round {round}");
        let reply = run(&store, call(&SET, "other", &value)).await;
        assert_eq!(reply, Ok(Reply::Text(value.into_bytes())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_times_out_ends_its_connection() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    run(&store, call(&PUSH, "k", "first")).await.unwrap();
    server.freeze();
    let patient = store.run(call(&PUSH, "k", "patient"), LIMIT);
    let hasty = store.run(call(&PUSH, "k", "hasty"), SOON);
    let (patient, hasty) = tokio::join!(patient, hasty);
    assert_failed(hasty, Kind::Timeout, Unknown);
    assert_failed(patient, Kind::ConnectionLost, Unknown);
    // The frozen server's machine accepts the next connection, and the server does not answer on it.
    assert_failed(store.run(call(&PUSH, "k", "never"), SOON).await, Kind::Timeout, No);
    server.thaw();
    run(&store, call(&PUSH, "k", "last")).await.unwrap();
    let list = list(&server);
    assert!(!list.contains(&"never".to_owned()), "{list:?}");
    // The bytes that the server's machine had received may run when it wakes up, but not after later calls.
    assert_eq!(list.last().unwrap(), "last", "{list:?}");
    eventually(LIMIT, "the old connection is gone", || clients(&server) == 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_with_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut heard = [0; 4096];
        let greeting = b"*1\r\n$4\r\nPING\r\n*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n\
                         *3\r\n$7\r\nPUBLISH\r\n$15\r\nleasehold:probe\r\n$0\r\n\r\n*6\r\n$7\r\nEVAL_RO\r\n";
        let read = client.read(&mut heard).unwrap();
        assert!(heard[..read].starts_with(greeting) && heard[..read].ends_with(b"leasehold:probe\r\n"));
        client.write_all(b"+PONG\r\n-ERR unknown command\r\n:0\r\n:1\r\n").unwrap();
        loop {
            match client.read(&mut heard) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(error.kind()),
            }
        }
    });
    let store = connect_to(&url).await.unwrap();
    assert_failed(store.run(call(&SET, "k", 1), SOON).await, Kind::Timeout, Unknown);
    assert_eq!(server.join().unwrap(), Some(ErrorKind::ConnectionReset));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_is_an_unknown_outcome() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    proxy.drop_replies(true);
    assert_failed(store.run(call(&PUSH, "k", 0), SOON).await, Kind::Timeout, Unknown);
    eventually(LIMIT, "the connection is closed", || proxy.connections() == 0);
    proxy.drop_replies(false);
    run(&store, call(&PUSH, "k", 1)).await.unwrap();
    assert_eq!(list(&server), numbers(2), "it had run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_request_is_an_unknown_outcome_and_stays_lost() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    proxy.drop_requests(true);
    assert_failed(store.run(call(&PUSH, "k", "lost"), SOON).await, Kind::Timeout, Unknown);
    proxy.drop_requests(false);
    run_on_a_new_connection(&store, call(&PUSH, "k", 0)).await.unwrap();
    assert_eq!(list(&server), numbers(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_connection_fails_its_calls_at_once_and_is_replaced() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    proxy.hold_replies(true);
    let running = start(&store, 8).await;
    eventually(LIMIT, "all have run", || list(&server).len() == 8);
    proxy.cut();
    for outcome in join_all(running).await {
        assert_failed(outcome, Kind::ConnectionLost, Unknown);
    }
    proxy.hold_replies(false);
    run(&store, call(&PUSH, "k", 8)).await.unwrap();
    assert_eq!(list(&server), numbers(9));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_connect_is_reported_to_every_waiting_call() {
    let mut server = RedisServer::start();
    let store = connect(&server).await;
    server.kill();
    assert_failed(run_on_a_new_connection(&store, call(&SET, "k", 1)).await, Kind::Unreachable, No);
    for outcome in join_all((0..50).map(|_| run(&store, call(&SET, "k", 1)))).await {
        let error = outcome.unwrap_err();
        assert_eq!((error.kind, error.applied, &*error.key), (Kind::Unreachable, No, "k"));
    }
    server.restart();
    run(&store, call(&SET, "k", 1)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_found_by_the_next_call() {
    let mut server = RedisServer::start();
    let store = connect(&server).await;
    for round in 0..3 {
        run(&store, call(&PUSH, "k", round)).await.unwrap();
        server.restart();
        run_on_a_new_connection(&store, call(&PUSH, "k", 0)).await.unwrap();
        assert_eq!(list(&server), numbers(1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_never_got_a_connection_has_not_run() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    leave_connection(&store).await;
    proxy.black_hole(true);
    assert_failed(store.run(call(&PUSH, "k", "never"), SOON).await, Kind::Timeout, No);
    let mut dropped: Running = Box::pin(store.run(call(&PUSH, "k", "dropped"), LIMIT));
    assert!(poll_once(&mut dropped).await.is_pending());
    drop(dropped);
    // The attempt goes on without the ended calls, fails when the hole resets it, and the next call makes another.
    proxy.black_hole(false);
    eventually(LIMIT, "the attempt is reset", || proxy.connections() == 0);
    while run(&store, call(&PUSH, "k", 0)).await.is_err_and(|error| error.applied == No) {}
    assert_eq!(list(&server), numbers(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_closes_its_connections_and_refuses_pending_calls() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (heard, mut news) = tokio::sync::mpsc::unbounded_channel();
    let subscription = store.subscribe(Channel::new("c"), heard);
    news.recv().await.expect("the server confirms");
    assert_eq!(clients(&server), 2);
    let late = store.run(call(&SET, "k", 1), LIMIT);
    drop(store);
    eventually(LIMIT, "both connections are closed", || clients(&server) == 0);
    assert_failed(late.await, Kind::Closed, No);
    assert_eq!(news.recv().await, None);
    drop(subscription);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_dropped_while_it_connects_fails_the_waiting_calls() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port());
    let store = connect_to(&proxy.url()).await.unwrap();
    leave_connection(&store).await;
    proxy.black_hole(true);
    let waiting = start(&store, 3).await;
    drop(store);
    for outcome in join_all(waiting).await {
        assert_failed(outcome, Kind::Closed, No);
    }
}

#[tokio::test]
async fn a_unix_socket_a_user_and_a_database_work_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let path = path.to_str().unwrap();
    let server = RedisServer::with(&["--unixsocket", path]);
    assert_eq!(server.cli(&["ACL", "SETUSER", "a:b", "on", ">p@ss/w#rd", "~*", "+@all"]), "OK");
    let urls = [
        format!("unix://{path}?db=3&user=a:b&pass=p@ss/w%23rd"),
        format!("redis://a%3Ab:p%40ss%2Fw%23rd@localhost:{}/3", server.port()),
    ];
    for url in urls {
        let store = connect_to(&url).await.unwrap();
        run(&store, call(&PUSH, "k", url)).await.unwrap();
    }
    assert_eq!(server.cli(&["-n", "3", "LLEN", "k"]), "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn both_connections_set_their_client_name() {
    let server = RedisServer::start();
    let options = ConnectOptions::default().timeout(LIMIT).client_name(Some("orders-7".into()));
    let store = Redis::connect(&server.url().parse().unwrap(), options).await.unwrap();
    let (hear, _heard) = tokio::sync::mpsc::unbounded_channel();
    let _listening = store.subscribe(Channel::new("news"), hear);
    let named = || server.cli(&["CLIENT", "LIST"]).matches(" name=orders-7 ").count();
    eventually(LIMIT, "two connections of that name", || named() == 2);

    // A connection that replaces another connection has the name too.
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    run_on_a_new_connection(&store, call(&SET, "k", 1)).await.unwrap();
    eventually(LIMIT, "two connections of that name again", || named() == 2);
}

#[tokio::test]
async fn a_server_that_refuses_the_client_name_is_still_used() {
    let server = RedisServer::start();
    let _ = server.cli(&["ACL", "SETUSER", "app", "on", ">word", "~*", "&*", "+@all", "-client"]);
    let url = format!("redis://app:word@127.0.0.1:{}", server.port());
    let options = ConnectOptions::default().timeout(LIMIT).client_name(Some("orders-7".into()));
    let store = Redis::connect(&url.parse().unwrap(), options).await.unwrap();
    run(&store, call(&SET, "k", "v")).await.unwrap();
}
