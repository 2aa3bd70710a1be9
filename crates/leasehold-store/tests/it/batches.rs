//! Calls that travel as rows of one command: each has the outcome that it has alone.

mod backend;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{
    ANSWER_NESTED, ANSWER_NOTHING, EXPIRE, FAIL, HASH_INCREMENT, INCREMENT, LIMIT, PUSH, SET, call, run,
};
use crate::differential::random::Random;
use crate::rights::{Row, STATE, call_for, counters, holds, operation, owner};
use futures_util::future::join_all;
use leasehold_proto::recipe::expirable::EXPIRABLE_SEMAPHORE;
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::fence::{self, WriteOutcome};
use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::plain;
use leasehold_proto::recipe::read_write::{PREFERRED, READ_LOCK, WRITE_LOCK, YIELDING};
use leasehold_proto::recipe::redlock::REDLOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::{self, FIFO_SEMAPHORE, SEMAPHORE};
use leasehold_proto::recipe::spin::SPIN;
use leasehold_proto::recipe::upgrade::UPGRADE;
use leasehold_proto::recipe::{CallContext, Holding};
use leasehold_proto::{Applied, Call, CallArgs, Lease, Name, Recipe, Reply, Script, StoreErrorKind, Verb};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::servers::RedisServer;

use self::backend::Backend;

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

fn options(rows: usize, resp3: bool) -> ConnectOptions {
    ConnectOptions::default().timeout(LIMIT).batch_rows(rows).at_once(1).resp3(resp3)
}

async fn open(url: &str, options: ConnectOptions) -> Redis {
    Redis::connect(&url.parse().unwrap(), options).await.unwrap()
}

async fn connect(server: &RedisServer, rows: usize, resp3: bool) -> Redis {
    open(&server.url(), options(rows, resp3)).await
}

/// Runs the calls together, behind one that lets the others gather.
async fn outcomes(store: &Redis, calls: &[Call]) -> Vec<Outcome> {
    let first = std::iter::once(call(&ANSWER_NOTHING, "first", 0));
    let running = first.chain(calls.iter().cloned()).map(|call| store.run(call, LIMIT));
    let outcomes = join_all(running).await.into_iter().skip(1);
    outcomes.map(|outcome| outcome.map_err(|error| (error.kind, error.applied))).collect()
}

/// Returns the keys of a server with their values, and whether each expires.
fn keyspace(server: &Backend) -> BTreeMap<String, String> {
    let keys = server.execute(&["KEYS", "*"]);
    let read = |key: &str| {
        let expires = server.execute(&["PTTL", key]) != "-1";
        let value = match &*server.execute(&["TYPE", key]) {
            "hash" => server.execute(&["HGETALL", key]),
            "list" => server.execute(&["LRANGE", key, "0", "-1"]),
            _ => server.execute(&["GET", key]),
        };
        format!("{value} {expires}")
    };
    keys.lines().map(|key| (key.to_owned(), read(key))).collect()
}

/// The texts of a server's errors, which the tests of the classification have one by one.
const TEXTS: [&str; 30] = [
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
    "ERR WAIT cannot be used with replica instances",
    // The wire sends no more calls over a connection that brought one of these.
    "READONLY You can't write against a read only replica.",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair or user is disabled.",
];

/// The number of script calls that a server has received.
fn scripts_run(server: &RedisServer) -> u64 {
    let stats = server.commandstats();
    ["eval", "evalsha"].iter().filter_map(|name| stats.get(*name)).sum()
}

#[tokio::test]
async fn each_error_is_the_outcome_of_its_row_alone() {
    let server = RedisServer::start();
    let fails = TEXTS.map(|text| call(&FAIL, "k", text));
    for resp3 in [false, true] {
        let alone = connect(&server, 1, resp3).await;
        let mut errors = Vec::new();
        for call in &fails {
            errors.push(run(&alone, call.clone()).await.map_err(|error| (error.kind, error.applied)));
        }
        assert!(errors.iter().all(Result::is_err));
        for rows in [8, ROWS] {
            // A row that succeeds stands before each error. Several batches share the connection that an error retires.
            // All rows have one key, so that they need no proof of one server.
            let list = format!("list of {rows}, {resp3}");
            let calls = TEXTS.map(|text| [call(&PUSH, &list, 1), call(&FAIL, &list, text)]).into_iter();
            let calls: Vec<_> = calls.flatten().collect();
            let pushed = (1..).map(|length| Ok(Reply::Int(length)));
            let expected: Vec<_> = pushed.zip(errors.clone()).flat_map(<[_; 2]>::from).collect();
            let together = connect(&server, rows, resp3).await;
            server.reset_stats();
            assert_eq!(outcomes(&together, &calls).await, expected, "batches of {rows}");
            let batches = calls.len().div_ceil(rows) as u64;
            // A flush of the driver may part a batch.
            let scripts = scripts_run(&server);
            assert!((1 + batches..=2 + batches).contains(&scripts), "{scripts} for {batches} batches");
        }
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
async fn fenced_writes_of_one_token_leave_each_other_alone() {
    let server = RedisServer::start();
    let store = connect(&server, ROWS, true).await;
    let keys: Vec<Name> = (0..9).map(|index| Name::new(&format!("sku:{index}")).unwrap()).collect();
    let sets = keys.iter().zip(2_000..).map(|(key, value)| fence::set(7, key, value.to_string().as_bytes()));
    let hash = Name::new("fields").unwrap();
    let fields = keys.iter().map(|key| fence::hset(7, &hash, key.as_str().as_bytes(), b"1"));
    for outcome in outcomes(&store, &sets.chain(fields).collect::<Vec<_>>()).await {
        let read = outcome.as_ref().map(fence::read);
        assert!(matches!(read, Ok(Some(WriteOutcome::Done(_)))), "{outcome:?}");
    }
    for (key, value) in keys.iter().zip(2_000..) {
        assert_eq!(server.cli(&["GET", key.as_str()]), value.to_string());
        assert_eq!(server.cli(&["GET", key.prefixed("leasehold_fence").as_str()]), "7");
    }
    assert_eq!(server.cli(&["HLEN", "fields"]), "9");
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
    for (resp3, servers) in Backend::pairs() {
        let (alone, together) = (servers[0].connect(1, resp3).await, servers[1].connect(ROWS, resp3).await);
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
        let [alone, together] = servers.map(|server| server.scripts_run());
        assert!(together * 2 < alone, "{together} commands, and {alone} without batches");
    }
}

/// Returns acquires, renewals and releases of six owners on four names, by recipes that may share a name.
fn calls_of(recipes: &[&'static Recipe], random: &mut Random) -> Vec<Call> {
    let names = ["a", "b", "c", "d"].map(|rest| Name::with_hash_tag("rights", rest).unwrap());
    // The last name is an object of another kind, so that calls fail too.
    let set = |name: &Name| semaphore::try_set(name, &operation(90), 5, None);
    let hold = |name| call_for(&REENTRANT, 9, |args| (REENTRANT.acquire)(&CallArgs { name, ..*args }));
    let mut calls = match recipes[0].holding {
        Holding::Permits | Holding::ExpirablePermits => {
            names[..3].iter().map(set).chain([hold(&names[3])]).collect()
        }
        _ => vec![set(&names[3])],
    };
    while calls.len() < 300 {
        // A batch has two scripts at most.
        let verbs = [(); 2].map(|()| {
            let recipe = recipes[random.below(recipes.len())];
            (recipe, [recipe.acquire, recipe.renew, recipe.release][random.below(3)])
        });
        for _ in 0..=random.below(60) {
            let (recipe, write) = verbs[random.below(2)];
            let (name, number) = (&names[random.below(4)], 1 + random.below(6) as u64);
            // The lease tells the owner, so a row with an argument of another row has another effect.
            let lease = Lease::new(Duration::from_secs(3_600 * (1 + number))).unwrap();
            let companion = random.one_in(2).then(|| owner(1 + random.below(6) as u64));
            let mut flag = || random.one_in(3);
            let (once, expired, uncertain, marks) = (flag(), !flag(), flag(), flag());
            // The script of a quiet release may come behind the calls that follow it.
            let context = CallContext { once, expired, uncertain, marks, ..CallContext::default() };
            let (count, units) = (random.below(3) as u32, 1 + u32::from(random.one_in(4)));
            calls.push(call_for(recipe, number, |args| {
                write(&CallArgs { name, lease, context, companion, count, units, ..*args })
            }));
        }
    }
    calls
}

/// Replaces what the time decides: rounds the remaining time of a lease up to hours, and hides a token of microseconds.
fn without_times(reply: Reply) -> Reply {
    match reply {
        Reply::Int(ms @ 500..) => {
            let hours = ms.cast_unsigned().div_ceil(3_600_000);
            Reply::Text(format!("{hours} h").into())
        }
        Reply::Text(text) if text.len() > 12 && text.iter().all(u8::is_ascii_digit) => {
            Reply::Text(b"time".into())
        }
        Reply::Array(items) => Reply::Array(items.into_iter().map(without_times).collect()),
        other => other,
    }
}

#[tokio::test]
async fn recipes_have_equal_outcomes_and_effects_in_batches_and_alone() {
    let recipes: [&[&'static Recipe]; 13] = [
        &[&REENTRANT],
        &[&FAIR],
        &[&SPIN],
        &[&REDLOCK],
        &[&MULTI],
        &[&plain::PLAIN],
        &[&plain::REDLOCK],
        &[&plain::MULTI],
        &[fenced::with_tokens(Tokens::Counter)],
        &[&READ_LOCK, &YIELDING, &WRITE_LOCK, &PREFERRED, &UPGRADE],
        &[&SEMAPHORE],
        &[&FIFO_SEMAPHORE],
        &[&EXPIRABLE_SEMAPHORE],
    ];
    let mut random = Random::new(11);
    let mut parts: Vec<(&str, Vec<Call>)> = Vec::new();
    for recipes in recipes {
        parts.extend((0..3).map(|_| (recipes[0].kind, calls_of(recipes, &mut random))));
    }
    // The last call of a row is repeated, so that it shares a batch, too.
    for Row { what, before, call, .. } in holds().into_iter().chain(counters()) {
        parts.push((what, [before, vec![call; 3]].concat()));
    }
    for (resp3, servers) in Backend::pairs() {
        let stores = [servers[0].connect(1, resp3).await, servers[1].connect(ROWS, resp3).await];
        let mut failed = 0;
        for (what, calls) in &parts {
            let mut seen = Vec::new();
            for (server, store) in servers.iter().zip(&stores) {
                // The waiters of a queue have five seconds, so each part begins anew.
                assert_eq!(server.execute(&["FLUSHALL"]), "OK");
                let outcomes = outcomes(store, calls).await.into_iter();
                let outcomes: Vec<_> = outcomes.map(|outcome| outcome.map(without_times)).collect();
                seen.push((outcomes, server.execute(&["EVAL", STATE, "0"])));
            }
            let [(alone, state), (together, state_together)] = &seen[..] else { unreachable!() };
            for (index, (batched, single)) in together.iter().zip(alone).enumerate() {
                assert_eq!(batched, single, "{what}, call {index}: {:?}", calls[index]);
            }
            assert_eq!(state_together, state, "{what}");
            failed += alone.iter().filter(|outcome| outcome.is_err()).count();
        }
        let [alone, together] = servers.map(|server| server.scripts_run());
        assert!(failed > 1_000, "only {failed} calls failed");
        assert!(together * 10 < alone, "{together} commands, and {alone} without batches");
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
