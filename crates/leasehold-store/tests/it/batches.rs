//! Calls that travel as rows of one command: each has the outcome that it has alone.

use std::collections::BTreeMap;

use crate::common::{
    ANSWER_NESTED, ANSWER_NOTHING, EXPIRE, FAIL, HASH_INCREMENT, INCREMENT, LIMIT, PUSH, SET, call, run,
};
use crate::differential::random::Random;
use futures_util::future::join_all;
use leasehold_proto::{Applied, Call, Reply, Script, StoreErrorKind, Verb};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::servers::RedisServer;

/// The outcome of a call, without the text of an error.
type Outcome = Result<Reply, (StoreErrorKind, Applied)>;

/// The most rows of a batch in these tests.
const ROWS: usize = 64;

static ANSWER_FALSE: Script =
    Script::new(Verb::Acquire, "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn false");
static ANSWER_STATUS: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn redis.status_reply(ARGV[1])",
);
static BREAK: Script = Script::new(
    Verb::Acquire,
    "-- KEYS[1] key string any\n-- ARGV[1] value string any\nreturn KEYS[1] .. nothing[ARGV[1]]",
);

async fn connect(server: &RedisServer, rows: usize, resp3: bool) -> Redis {
    let options = ConnectOptions::default().timeout(LIMIT).batch_rows(rows).at_once(1).resp3(resp3);
    Redis::connect(&server.url().parse().unwrap(), options).await.unwrap()
}

/// Runs the calls together, behind one that lets the others gather.
async fn outcomes(store: &Redis, calls: &[Call]) -> Vec<Outcome> {
    let first = std::iter::once(call(&ANSWER_NOTHING, "first", 0));
    let running = first.chain(calls.iter().cloned()).map(|call| store.run(call, LIMIT));
    let outcomes = join_all(running).await.into_iter().skip(1);
    outcomes.map(|outcome| outcome.map_err(|error| (error.kind, error.applied))).collect()
}

/// Returns the keys of a server with their values, and whether each expires.
fn keyspace(server: &RedisServer) -> BTreeMap<String, String> {
    let keys = server.cli(&["KEYS", "*"]);
    let read = |key: &str| {
        let expires = server.cli(&["PTTL", key]) != "-1";
        let value = match &*server.cli(&["TYPE", key]) {
            "hash" => server.cli(&["HGETALL", key]),
            "list" => server.cli(&["LRANGE", key, "0", "-1"]),
            _ => server.cli(&["GET", key]),
        };
        format!("{value} {expires}")
    };
    keys.lines().map(|key| (key.to_owned(), read(key))).collect()
}

/// The texts of a server's errors, which the tests of the classification have one by one.
const TEXTS: [&str; 26] = [
    "NOSCRIPT No matching script. Please use EVAL.",
    "BUSY Redis is busy running a script.",
    "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOREPLICAS Not enough good replicas to write.",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "MISCONF Redis is configured to save RDB snapshots",
    "CLUSTERDOWN Hash slot not served",
    "MOVED 866 127.0.0.1:7001",
    "ASK 866 127.0.0.1:7001",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "CROSSSLOT Keys in request don't hash to the same slot",
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "LOCKERR acquire: lease_ms must be whole and positive",
    "ERR max number of clients reached",
    "ERR The user executing the script can't run this command or subcommand",
    "ERR The user executing the script can't access at least one of the keys mentioned",
    "ERR The user executing the script can't publish to the channel mentioned",
    "ERR ACL failure in script: User lock has no permissions",
    "ERR Script attempted to access a non local key in a cluster node",
    "ERR hash value is not an integer",
    "ERR value is not an integer or out of range",
    "ERR increment or decrement would overflow",
    "ERR invalid expire time in 'pexpire' command",
    "UNBLOCKED force unblock from blocking operation, instance state changed",
];

#[tokio::test]
async fn each_error_is_the_outcome_of_its_row_alone() {
    let server = RedisServer::start();
    for resp3 in [false, true] {
        let (alone, together) = (connect(&server, 1, resp3).await, connect(&server, ROWS, resp3).await);
        let calls: Vec<_> = TEXTS.iter().map(|text| call(&FAIL, "k", text)).collect();
        let mut expected = Vec::new();
        for call in &calls {
            expected.push(run(&alone, call.clone()).await.map_err(|error| (error.kind, error.applied)));
        }
        assert!(expected.iter().all(Result::is_err));
        server.reset_stats();
        assert_eq!(outcomes(&together, &calls).await, expected);
        let commands = server.commandstats();
        let sent = commands.get("eval").copied().unwrap_or(0) + commands.get("evalsha").copied().unwrap_or(0);
        assert!(sent <= 3, "{sent} commands for {} calls", calls.len());
    }
}

#[tokio::test]
async fn a_row_that_fails_after_other_rows_have_written_stops_none() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["SET", "text", "abc"]), "OK");
    let store = connect(&server, ROWS, true).await;
    let keys = ["a", "text", "a", "text", "a"];
    let calls: Vec<_> = keys.iter().map(|key| call(&HASH_INCREMENT, key, 1)).collect();
    let wrong = Err((StoreErrorKind::WrongType, Applied::Unknown));
    let expected = [Ok(Reply::Int(1)), wrong.clone(), Ok(Reply::Int(2)), wrong, Ok(Reply::Int(3))];
    assert_eq!(outcomes(&store, &calls).await, expected);
    assert_eq!(server.cli(&["HGET", "a", "f"]), "3");
}

#[tokio::test]
async fn batched_and_single_calls_have_equal_replies_and_effects() {
    let scripts: [&'static Script; 10] = [
        &PUSH,
        &SET,
        &HASH_INCREMENT,
        &INCREMENT,
        &EXPIRE,
        &ANSWER_NOTHING,
        &ANSWER_NESTED,
        &ANSWER_FALSE,
        &ANSWER_STATUS,
        &BREAK,
    ];
    // Runs of a script, over keys that several scripts share, and so have the wrong type for some.
    let mut random = Random::new(7);
    let mut calls = Vec::new();
    while calls.len() < 6_000 {
        let script = scripts[random.below(scripts.len())];
        for _ in 0..=random.below(20) {
            // The values are also times, which do not pass within the test.
            let value = 100_000_000 + random.below(100_000);
            calls.push(call(script, &format!("key{}", random.below(8)), value));
        }
    }
    for resp3 in [false, true] {
        let servers = [RedisServer::start(), RedisServer::start()];
        let (alone, together) =
            (connect(&servers[0], 1, resp3).await, connect(&servers[1], ROWS, resp3).await);
        for part in calls.chunks(300) {
            let expected = outcomes(&alone, part).await;
            assert!(expected.iter().any(Result::is_ok) && expected.iter().any(Result::is_err));
            for (index, (batched, single)) in
                outcomes(&together, part).await.iter().zip(&expected).enumerate()
            {
                assert_eq!(batched, single, "{:?}", part[index]);
            }
            assert_eq!(keyspace(&servers[1]), keyspace(&servers[0]));
        }
        let [alone, together] = servers.map(|server| server.commandstats()["evalsha"]);
        assert!(together * 2 < alone, "{together} commands, and {alone} without batches");
    }
}

#[tokio::test]
async fn a_flushed_script_cache_costs_one_more_command_for_all_rows() {
    let server = RedisServer::start();
    let store = connect(&server, ROWS, true).await;
    let calls: Vec<_> = (0..20).map(|value| call(&PUSH, "k", value)).collect();
    for round in 1..=3 {
        assert!(outcomes(&store, &calls).await.iter().all(Result::is_ok));
        assert_eq!(server.cli(&["LLEN", "k"]), (round * 20).to_string());
        assert_eq!(server.cli(&["SCRIPT", "FLUSH"]), "OK");
    }
}
