//! Calls through the entrance of a store, from any thread.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

use leasehold_proto::engine::CallId;
use leasehold_proto::{Applied, Reply, Scope, StoreError, StoreErrorKind};
use leasehold_store::{Outcomes, Store, Submit};
use leasehold_testkit::servers::RedisServer;

use crate::common::{INCREMENT, LIMIT, PUSH, assert_failed, call, connect, run};

type Outcome = (CallId, Result<Reply, StoreError>);

/// A recipient that passes the outcomes on.
struct Passing(Mutex<Sender<Outcome>>);

impl Outcomes for Passing {
    fn take(&self, outcomes: Vec<Outcome>) {
        for outcome in outcomes {
            // A test that has ended needs no outcome.
            let _ = self.0.lock().unwrap().send(outcome);
        }
    }

    fn replaced(&self, _: Scope) {}
}

fn passing() -> (Arc<dyn Outcomes>, Receiver<Outcome>) {
    let (pass, passed) = channel();
    (Arc::new(Passing(Mutex::new(pass))), passed)
}

fn id(number: u64) -> CallId {
    CallId::new(NonZeroU64::new(number).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_many_threads_have_one_outcome_each_and_keep_their_order() {
    const THREADS: u64 = 8;
    const CALLS: u64 = 500;
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (outcomes, passed) = passing();
    let entrance = store.entrance(Arc::downgrade(&outcomes)).unwrap();
    // These threads belong to no runtime.
    let threads = (0..THREADS).map(|thread| {
        let entrance = Arc::clone(&entrance);
        thread::spawn(move || {
            for number in 0..CALLS {
                let key = format!("list {thread}");
                entrance.submit(id(1 + thread * CALLS + number), call(&PUSH, &key, number), LIMIT).unwrap();
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let mut replies = BTreeMap::new();
    for _ in 0..THREADS * CALLS {
        let (call, outcome) = passed.recv_timeout(LIMIT).unwrap();
        assert!(replies.insert(call, outcome.unwrap()).is_none(), "{call:?} has two outcomes");
    }
    for thread in 0..THREADS {
        for number in 0..CALLS {
            let length = Reply::Int(i64::try_from(number + 1).unwrap());
            assert_eq!(replies[&id(1 + thread * CALLS + number)], length, "call {number} of thread {thread}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_has_an_outcome_when_connections_break() {
    const CALLS: u64 = 3_000;
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (outcomes, passed) = passing();
    let entrance = store.entrance(Arc::downgrade(&outcomes)).unwrap();
    let submitting = thread::spawn(move || {
        (1..=CALLS).for_each(|number| entrance.submit(id(number), call(&INCREMENT, "n", 1), LIMIT).unwrap());
    });
    for _ in 0..5 {
        let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }
    submitting.join().unwrap();
    let (mut done, mut unknown) = (0, 0);
    let mut ids = Vec::new();
    for _ in 0..CALLS {
        let (id, outcome) = passed.recv_timeout(LIMIT).unwrap();
        ids.push(id);
        match outcome.map_err(|error| (error.kind, error.applied)) {
            Ok(_) => done += 1,
            Err((StoreErrorKind::ConnectionLost, Applied::Unknown)) => unknown += 1,
            other => panic!("{other:?}"),
        }
    }
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "a call has two outcomes");
    let counted: u64 = server.cli(&["GET", "n"]).parse().unwrap();
    assert!((done..=done + unknown).contains(&counted), "{counted} of {done} and perhaps {unknown}");
}

/// A recipient that submits the next call from within an outcome.
struct Chain {
    entrance: OnceLock<Arc<dyn Submit>>,
    end: Mutex<Sender<i64>>,
}

impl Outcomes for Chain {
    fn take(&self, outcomes: Vec<Outcome>) {
        for (_, outcome) in outcomes {
            let Ok(Reply::Int(count)) = outcome else { panic!("{outcome:?}") };
            if count == 1_000 {
                self.end.lock().unwrap().send(count).unwrap();
            } else {
                let number = u64::try_from(count + 1).unwrap();
                let entrance = self.entrance.get().unwrap();
                entrance.submit(id(number), call(&INCREMENT, "n", 1), LIMIT).unwrap();
            }
        }
    }

    fn replaced(&self, _: Scope) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_may_submit_the_next_call() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (end, ended) = channel();
    let chain = Arc::new(Chain { entrance: OnceLock::new(), end: Mutex::new(end) });
    let outcomes: Weak<Chain> = Arc::downgrade(&chain);
    let entrance = store.entrance(outcomes).unwrap();
    assert!(chain.entrance.set(Arc::clone(&entrance)).is_ok());
    entrance.submit(id(1), call(&INCREMENT, "n", 1), LIMIT).unwrap();
    assert_eq!(ended.recv_timeout(LIMIT).unwrap(), 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_store_ends_started_calls_and_refuses_further_ones() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let (outcomes, passed) = passing();
    let entrance = store.entrance(Arc::downgrade(&outcomes)).unwrap();
    run(&store, call(&INCREMENT, "n", 1)).await.unwrap();
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "20000", "ALL"]), "OK");
    entrance.submit(id(1), call(&INCREMENT, "n", 1), LIMIT).unwrap();
    drop(store);
    let (call_id, outcome) = passed.recv_timeout(LIMIT).unwrap();
    assert_eq!(call_id, id(1));
    assert_failed(outcome, StoreErrorKind::ConnectionLost, Applied::Unknown);
    let refused = entrance.submit(id(2), call(&INCREMENT, "n", 1), LIMIT);
    assert_failed(refused, StoreErrorKind::Closed, Applied::No);
    drop(outcomes);
    assert!(passed.recv().is_err(), "no other outcome");
}
