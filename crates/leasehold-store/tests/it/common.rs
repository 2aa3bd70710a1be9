//! The helpers of the tests on real servers.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use leasehold_proto::{Applied, Call, Reply, Script, StoreError, StoreErrorKind, Verb};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::servers::RedisServer;

/// A time that no working step exceeds.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// A timeout for calls without an answer.
pub(crate) const SOON: Duration = Duration::from_millis(150);

macro_rules! scripts {
    ($($name:ident = $body:literal;)*) => {
        $(pub(crate) static $name: Script = Script::new(
            Verb::Acquire,
            concat!("-- KEYS[1] key string any\n-- ARGV[1] value string any\n", $body),
        );)*
    };
}

scripts! {
    PUSH = "return redis.call('rpush', KEYS[1], ARGV[1])";
    SET = "redis.call('set', KEYS[1], ARGV[1]) return ARGV[1]";
    HASH_INCREMENT = "return redis.call('hincrby', KEYS[1], 'f', ARGV[1])";
    INCREMENT = "return redis.call('incrby', KEYS[1], ARGV[1])";
    EXPIRE = "redis.call('set', KEYS[1], 'v') return redis.call('pexpire', KEYS[1], ARGV[1])";
    SET_OTHER = "redis.call('set', KEYS[1], 'v') return redis.call('set', ARGV[1], 'v')";
    FAIL = "return redis.error_reply(ARGV[1])";
    ANSWER_NOTHING = "return nil";
    ANSWER_NESTED = "return {1, 'two', {ARGV[1], KEYS[1]}}";
}

/// A script over two keys.
pub(crate) static TWO_KEYS: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- KEYS[2] other string any\nreturn redis.call('exists', KEYS[1], KEYS[2])",
);

pub(crate) fn call(script: &'static Script, key: &str, value: impl leasehold_proto::Text) -> Call {
    Call::of(script).key("key", key).arg("value", value)
}

pub(crate) async fn connect_to(url: &str) -> Result<Redis, StoreError> {
    let url = url.parse().expect("the URL is valid");
    Redis::connect(&url, ConnectOptions::default().timeout(LIMIT)).await
}

pub(crate) async fn connect(server: &RedisServer) -> Redis {
    connect_to(&server.url_with_password()).await.expect("the server takes us")
}

/// Runs a call that is answered in time.
pub(crate) async fn run(store: &Redis, call: Call) -> Result<Reply, StoreError> {
    store.run(call, LIMIT).await
}

/// Runs calls until one is not lost with a connection that broke before the store sent it.
pub(crate) async fn run_on_a_new_connection(store: &Redis, call: Call) -> Result<Reply, StoreError> {
    loop {
        match run(store, call.clone()).await {
            Err(error) if error.kind == StoreErrorKind::ConnectionLost => {}
            outcome => return outcome,
        }
    }
}

/// Asserts the kind of a failure and whether its call may have been applied.
#[track_caller]
pub(crate) fn assert_failed<T: std::fmt::Debug>(
    outcome: Result<T, StoreError>,
    kind: StoreErrorKind,
    applied: Applied,
) {
    let error = outcome.expect_err("the call fails");
    assert_eq!((error.kind, error.applied), (kind, applied), "{}", error_chain(&error));
}

/// Returns all text of an error, and of the errors below it.
pub(crate) fn error_chain(error: &StoreError) -> String {
    let mut told = format!("{error:?}; {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        told += &format!("; {error:?}; {error}");
        cause = error.source();
    }
    told
}

pub(crate) async fn poll_once<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

/// Returns the number of the server's clients, without the one that counts.
pub(crate) fn clients(server: &RedisServer) -> usize {
    server.cli(&["CLIENT", "LIST"]).lines().count() - 1
}
