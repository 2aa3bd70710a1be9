//! Every row of the error table that a server of its own can be made to return.

use std::process::{Child, Command, Stdio};

use crate::common::{
    ANSWER_NOTHING, EXPIRE, FAIL, HASH_INCREMENT, INCREMENT, LIMIT, PUSH, SET, SET_OTHER, TWO_KEYS,
    assert_failed, call, connect, connect_to, error_chain, run, run_on_a_new_connection,
};
use leasehold_proto::Applied::{No, Unknown};
use leasehold_proto::{Call, Reply, StoreErrorKind as Kind, Verb};
use leasehold_store::redis::Redis;
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

fn ok(server: &RedisServer, arguments: &[&str]) {
    assert_eq!(server.cli(arguments), "OK", "{arguments:?}");
}

/// A redis-cli that runs beside the test.
struct Background(Child);

impl Background {
    fn cli(server: &RedisServer, arguments: &[&str]) -> Self {
        let port = server.port().to_string();
        let mut cli = Command::new("redis-cli");
        cli.args(["-p", &port]).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Self(cli.spawn().expect("redis-cli is installed"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn out_of_memory_is_refused_before_the_first_write() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    ok(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::OutOfMemory, No);
    ok(&server, &["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(server.cli(&["EXISTS", "k"]), "0");
    run(&store, call(&SET, "k", 1)).await.unwrap();
}

#[tokio::test]
async fn a_connection_to_a_replica_is_replaced() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let total = || {
        server
            .cli(&["INFO", "stats"])
            .lines()
            .find(|line| line.starts_with("total_conn"))
            .unwrap()
            .to_string()
    };
    let id = |server: &RedisServer| server.cli(&["CLIENT", "LIST"]).lines().next().unwrap().to_string();
    assert_ne!(total(), total(), "each redis-cli counts");
    let before = id(&server);
    ok(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::ReadOnly, No);
    ok(&server, &["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::MasterDown, No);
    ok(&server, &["REPLICAOF", "NO", "ONE"]);
    run(&store, call(&SET, "k", 1)).await.unwrap();
    assert_ne!(before.split(' ').next(), id(&server).split(' ').next(), "another connection");
}

#[tokio::test]
async fn a_replica_without_its_master_fails_the_connect() {
    let server = RedisServer::start();
    ok(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    ok(&server, &["CONFIG", "SET", "replica-serve-stale-data", "no"]);
    assert_failed(connect_to(&server.url()).await, Kind::MasterDown, No);
}

#[tokio::test]
async fn a_busy_server_runs_nothing() {
    let server = RedisServer::with(&["--busy-reply-threshold", "20"]);
    let store = connect(&server).await;
    let _endless = Background::cli(&server, &["EVAL", "while true do end", "0"]);
    eventually(LIMIT, "the script is slow", || server.cli(&["PING"]).contains("BUSY"));
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::Busy, No);
    assert_failed(connect_to(&server.url()).await, Kind::Busy, No);
    ok(&server, &["SCRIPT", "KILL"]);
    eventually(LIMIT, "the script ends", || server.cli(&["PING"]) == "PONG");
    run(&store, call(&SET, "k", 1)).await.unwrap();
}

#[tokio::test]
async fn a_loading_server_runs_nothing() {
    let server = RedisServer::with(&[
        "--enable-debug-command",
        "yes",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let store = connect(&server).await;
    ok(&server, &["DEBUG", "POPULATE", "3000"]);
    ok(&server, &["CONFIG", "SET", "key-load-delay", "1000"]);
    let _reload = Background::cli(&server, &["DEBUG", "RELOAD"]);
    eventually(LIMIT, "the server loads", || server.cli(&["PING"]).contains("LOADING"));
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::Loading, No);
    assert_failed(connect_to(&server.url()).await, Kind::Loading, No);
    // A loading server accepts changes of the configuration, and this change removes the delay.
    ok(&server, &["CONFIG", "SET", "key-load-delay", "0"]);
    eventually(LIMIT, "the server has loaded", || server.cli(&["PING"]) == "PONG");
    run(&store, call(&SET, "k", 1)).await.unwrap();
}

async fn connect_as(server: &RedisServer, rules: &[&str]) -> Redis {
    let user = [&["ACL", "SETUSER", "app", "reset", "on", ">hunter2"], rules].concat();
    ok(server, &user);
    connect_to(&format!("redis://app:hunter2@127.0.0.1:{}", server.port()))
        .await
        .expect("the user may connect")
}

#[tokio::test]
async fn a_user_without_scripts_gets_not_applied() {
    let server = RedisServer::start();
    let store = connect_as(&server, &["~*", "+@all", "-eval", "-evalsha"]).await;
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::PermissionDenied, No);
}

#[tokio::test]
async fn a_user_without_the_key_gets_not_applied() {
    let server = RedisServer::start();
    let store = connect_as(&server, &["~other", "+@all"]).await;
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::PermissionDenied, No);
}

#[tokio::test]
async fn a_denied_command_in_a_script_may_follow_a_write() {
    let server = RedisServer::start();
    // A connection does not even need the right to PING.
    let store = connect_as(&server, &["~k", "-@all", "+eval", "+evalsha", "+set"]).await;
    assert_failed(run(&store, call(&PUSH, "k", 1)).await, Kind::PermissionDenied, Unknown);
    assert_failed(run(&store, call(&SET_OTHER, "k", "other")).await, Kind::PermissionDenied, Unknown);
    assert_eq!(server.cli(&["EXISTS", "k", "other"]), "1");
}

#[tokio::test]
async fn a_wrong_type_error_may_follow_a_write() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    ok(&server, &["SET", "text", "v"]);
    let _ = server.cli(&["HSET", "hash", "f", "v"]);
    let _ = server.cli(&["HSET", "full", "f", "9223372036854775807"]);
    for key in ["text", "hash", "full"] {
        assert_failed(run(&store, call(&HASH_INCREMENT, key, 1)).await, Kind::WrongType, Unknown);
    }
    assert_failed(run(&store, call(&INCREMENT, "text", 1)).await, Kind::WrongType, Unknown);
}

#[tokio::test]
async fn an_unknown_error_may_have_been_applied() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    assert_failed(run(&store, call(&EXPIRE, "k", i64::MAX)).await, Kind::Server, Unknown);
    assert_eq!(server.cli(&["PTTL", "k"]), "-1");
    assert_failed(run(&store, call(&FAIL, "k", "ERR whatever")).await, Kind::Server, Unknown);
    assert_failed(run(&store, call(&FAIL, "k", "WHATEVER it is")).await, Kind::Server, Unknown);
}

#[tokio::test]
async fn a_call_that_the_server_does_not_know_has_not_run() {
    let server = RedisServer::with(&["--rename-command", "EVAL", "RUN"]);
    let store = connect(&server).await;
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::Server, No);
    assert_eq!(server.cli(&["EXISTS", "k"]), "0");
}

#[tokio::test]
async fn a_script_that_refuses_its_arguments_has_not_run() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    let outcome = run(&store, call(&FAIL, "order:42", "LOCKERR lease_ms must be positive")).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.kind, error.applied, error.during), (Kind::Server, No, Verb::Acquire));
    assert_eq!(error.to_string(), "acquire of \"order:42\": the server replied with an error");
    assert!(error_chain(&error).contains("LOCKERR lease_ms must be positive"), "{}", error_chain(&error));
}

#[tokio::test]
async fn too_few_replicas_refuse_the_first_write() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    ok(&server, &["CONFIG", "SET", "min-replicas-to-write", "1"]);
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::NoReplicas, No);
}

#[tokio::test]
async fn a_server_that_cannot_save_refuses_the_first_write() {
    let server = RedisServer::with(&["--enable-protected-configs", "yes"]);
    let store = connect(&server).await;
    ok(&server, &["CONFIG", "SET", "save", "3600 1"]);
    // Writes to this directory fail, even for root.
    ok(&server, &["CONFIG", "SET", "dir", "/proc"]);
    let _ = server.cli(&["BGSAVE"]);
    eventually(LIMIT, "saving fails", || {
        server.cli(&["INFO", "persistence"]).contains("rdb_last_bgsave_status:err")
    });
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::Misconfigured, No);
    assert_failed(connect_to(&server.url()).await, Kind::Misconfigured, No);
}

#[tokio::test]
async fn a_missing_or_wrong_password_fails_and_is_never_printed() {
    let server = RedisServer::with(&["--requirepass", "s3cret"]);
    connect(&server).await;
    let port = server.port();
    for (login, kind) in [
        ("", Kind::AuthenticationRequired),
        (":hunter2@", Kind::AuthenticationFailed),
        ("nobody:hunter2@", Kind::AuthenticationFailed),
    ] {
        let error = connect_to(&format!("redis://{login}127.0.0.1:{port}")).await.unwrap_err();
        assert_eq!((error.kind, error.applied, error.during), (kind, No, Verb::Connect));
        assert!(!error_chain(&error).contains("hunter2"), "{}", error_chain(&error));
    }
}

#[tokio::test]
async fn a_password_for_a_server_without_one_is_rejected() {
    let server = RedisServer::start();
    let outcome = connect_to(&format!("redis://:hunter2@127.0.0.1:{}", server.port())).await;
    assert_failed(outcome, Kind::AuthenticationFailed, No);
}

#[tokio::test]
async fn an_error_hides_the_password_that_a_server_without_auth_repeats() {
    let server = RedisServer::with(&["--rename-command", "AUTH", "LOGIN"]);
    let error = connect_to(&format!("redis://:hunter2@127.0.0.1:{}", server.port())).await.unwrap_err();
    assert_eq!((error.kind, error.applied), (Kind::Server, No));
    assert!(!error_chain(&error).contains("hunter2"), "{}", error_chain(&error));
}

#[tokio::test]
async fn a_changed_password_is_detected_and_the_old_one_rejected() {
    let server = RedisServer::start();
    let store = connect_as(&server, &["~*", "+@all"]).await;
    run(&store, call(&SET, "k", 1)).await.unwrap();
    ok(&server, &["ACL", "SETUSER", "app", "resetpass", ">another"]);
    let _ = server.cli(&["CLIENT", "KILL", "USER", "app"]);
    let error = run_on_a_new_connection(&store, call(&SET, "k", 1)).await.unwrap_err();
    assert_eq!((error.kind, error.applied, error.during), (Kind::AuthenticationFailed, No, Verb::Acquire));
    assert_eq!(&*error.key, "k");
}

#[tokio::test]
async fn a_missing_database_is_rejected_with_the_servers_message() {
    let server = RedisServer::start();
    let error = connect_to(&format!("{}/4711", server.url())).await.unwrap_err();
    assert_eq!((error.kind, error.applied), (Kind::Server, No));
    assert!(error_chain(&error).contains("DB index is out of range"), "{}", error_chain(&error));
}

/// Connects as soon as the readiness probes of the server have hung up.
async fn connect_when_there_is_room(server: &RedisServer) -> Redis {
    for _ in 0..10_000 {
        match connect_to(&server.url()).await {
            Err(error) if error.kind == Kind::TooManyClients => tokio::task::yield_now().await,
            outcome => return outcome.expect("only its room is wanting"),
        }
    }
    panic!("the server has no room for two");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_too_many_gets_its_own_error() {
    let server = RedisServer::with(&["--maxclients", "2"]);
    let first = connect_when_there_is_room(&server).await;
    let _second = connect_when_there_is_room(&server).await;
    for _ in 0..20 {
        assert_failed(connect_to(&server.url()).await, Kind::TooManyClients, No);
    }
    drop(first);
    eventually(LIMIT, "the server has room again", || server.cli(&["PING"]) == "PONG");
}

#[tokio::test]
async fn a_forgotten_script_is_sent_again_in_full() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    for round in 0..3 {
        run(&store, call(&PUSH, "k", round)).await.unwrap();
        run(&store, call(&PUSH, "k", round)).await.unwrap();
        ok(&server, &["SCRIPT", "FLUSH"]);
        run(&store, call(&PUSH, "k", round)).await.unwrap();
    }
    assert_eq!(server.cli(&["LRANGE", "k", "0", "-1"]).split_whitespace().collect::<String>(), "000111222");
}

#[tokio::test]
async fn each_cluster_refusal_has_its_error() {
    let node = RedisServer::with(&["--cluster-enabled", "yes"]);
    let other = RedisServer::with(&["--cluster-enabled", "yes"]);
    let store = connect(&node).await;
    assert_failed(run(&store, call(&SET, "k", 1)).await, Kind::ClusterDown, No);

    // `k` and `{k}2` are in slot 7629, which the node has. `other` is in slot 11361, which the other node has.
    assert_eq!(node.cli(&["CLUSTER", "KEYSLOT", "k"]), "7629");
    assert_eq!(node.cli(&["CLUSTER", "KEYSLOT", "other"]), "11361");
    ok(&node, &["CLUSTER", "ADDSLOTSRANGE", "0", "8191"]);
    ok(&other, &["CLUSTER", "ADDSLOTSRANGE", "8192", "16383"]);
    ok(&node, &["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string()]);
    eventually(LIMIT, "the cluster is complete", || {
        [&node, &other].iter().all(|node| node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok"))
    });
    run(&store, call(&SET, "k", 1)).await.unwrap();
    assert_failed(run(&store, call(&SET, "other", 1)).await, Kind::WrongNode, No);
    let both = |first, second| Call::of(&TWO_KEYS).key("key", first).key("other", second);
    assert_failed(run(&store, both("k", "other")).await, Kind::CrossSlot, No);
    assert_failed(run(&store, call(&SET_OTHER, "k", "other")).await, Kind::WrongNode, Unknown);

    let away = other.cli(&["CLUSTER", "MYID"]);
    ok(&node, &["CLUSTER", "SETSLOT", "7629", "MIGRATING", &away]);
    assert_failed(run(&store, both("k", "{k}2")).await, Kind::TryAgain, No);
    assert_failed(run(&store, call(&SET, "{k}2", 1)).await, Kind::WrongNode, No);
}

#[tokio::test]
async fn replies_arrive_as_the_script_gave_them() {
    let server = RedisServer::start();
    let store = connect(&server).await;
    assert_eq!(run(&store, call(&ANSWER_NOTHING, "k", "")).await, Ok(Reply::Nil));
    assert_eq!(run(&store, call(&PUSH, "k", "")).await, Ok(Reply::Int(1)));
    assert_eq!(run(&store, call(&SET, "k", "\u{0}\r\nä")).await, Ok(Reply::Text("\u{0}\r\nä".into())));
    let nested = Reply::Array(vec![
        Reply::Int(1),
        Reply::Text(b"two".to_vec()),
        Reply::Array(vec![Reply::Text(b"v".to_vec()), Reply::Text(b"k".to_vec())]),
    ]);
    assert_eq!(run(&store, call(&crate::common::ANSWER_NESTED, "k", "v")).await, Ok(nested));
}

#[tokio::test]
async fn an_absent_server_differs_from_a_silent_one() {
    let mut server = RedisServer::start();
    server.kill();
    assert_failed(connect_to(&server.url()).await, Kind::Unreachable, No);
    assert_failed(connect_to("redis://no-such-host.invalid").await, Kind::Unreachable, No);
    assert_failed(connect_to("unix:///nowhere/redis.sock").await, Kind::Unreachable, No);
}
