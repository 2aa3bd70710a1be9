//! Error texts: in a log, from a `main` that returns an error, and for a service that chooses a status.

use std::time::Duration;

use leasehold::error::{AcquireErrorKind, NotInstalled};
use leasehold::testing::Server;
use leasehold::{Client, Error, LostReason, MultiLock, RunError};
use leasehold_testkit::proxy::Proxy;
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, connect, connect_through, eventually, is_free, ms, on_both, run_command, soon,
};

const SECOND: Duration = Duration::from_secs(1);

/// The results of an error's four predicates.
#[derive(Debug, PartialEq, Eq)]
struct Is {
    busy: bool,
    unavailable: bool,
    retryable: bool,
    lost: bool,
}

const MISTAKE: Is = Is { busy: false, unavailable: false, retryable: false, lost: false };
const BUSY: Is = Is { busy: true, retryable: true, ..MISTAKE };
const LOST: Is = Is { lost: true, ..MISTAKE };
const DOWN: Is = Is { unavailable: true, retryable: true, ..MISTAKE };
const REFUSED: Is = Is { unavailable: true, ..MISTAKE };

/// Checks the whole message in a log and from `main`, that no cause repeats it, and the service's predicates.
#[track_caller]
fn assert_message(error: impl Into<Error>, message: &str, is: &Is) {
    let error = error.into();
    assert_eq!(error.to_string(), message);
    assert_eq!(format!("{error:?}"), message, "what `main` prints");
    assert!(std::error::Error::source(&error).is_none(), "the cause is in the message");
    let (busy, unavailable) = (error.is_busy(), error.is_unavailable());
    let (retryable, lost) = (error.is_retryable(), error.is_lost());
    assert_eq!(&Is { busy, unavailable, retryable, lost }, is, "{message}");
}

on_both! {
    async {
        a_key_of_another_type_is_reported,
        a_hash_that_is_no_lock_is_told_apart_from_a_lock_without_expiry,
        a_key_without_expiry_is_reported,
        an_invalid_name_or_invalid_terms_are_reported,
        a_busy_lock_is_reported_where_contention_is_an_error,
        an_owner_that_already_holds_the_lock_gets_an_error,
        a_closed_client_is_reported,
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_reported() {
    let mut server = RedisServer::start();
    let client = connect_through(&Proxy::start(server.port()), SECOND).await;
    let (url, port) = (server.url(), server.port());
    let direct = Client::builder().timeout(ms(300)).connect(&url).await.unwrap();
    server.kill();
    let said = "lock \"order:42\" not acquired: the server cannot be reached (connection refused)";
    // The open connection may fail first, with another message.
    let lock = direct.lock("order:42");
    let refused = soon("a refused connection", async {
        loop {
            let error = lock.try_lock().await.unwrap_err();
            if error.to_string().contains("connection refused") {
                return error;
            }
        }
    });
    assert_message(refused.await, said, &DOWN);
    let error = direct.lock("order:42").run(async |_guard| ()).await.unwrap_err();
    assert_message(error, &format!("the body did not run: {said}"), &DOWN);
    let error = direct.semaphore("seats").try_set_permits(3).await.unwrap_err();
    assert_message(
        error,
        "semaphore \"seats\" not changed: the server cannot be reached (connection refused)",
        &DOWN,
    );
    let error = direct.lock("order:42").is_locked().await.unwrap_err();
    assert_message(
        error,
        "lock \"order:42\" not inspected: the server cannot be reached (connection refused)",
        &DOWN,
    );
    let error = direct.lock("order:42").force_unlock().await.unwrap_err();
    assert_message(
        error,
        "lock \"order:42\" not unlocked: the server cannot be reached (connection refused)",
        &DOWN,
    );
    let error = Client::connect(&url).await.unwrap_err();
    let said = format!(
        "no connection to redis://127.0.0.1:{port}: the server cannot be reached (connection refused)"
    );
    assert_message(error, &said, &DOWN);
    drop(client);
}

#[tokio::test]
async fn a_wrong_password_is_reported() {
    let server = RedisServer::with(&["--requirepass", "right"]);
    let port = server.port();
    let error = Client::connect(&format!("redis://:wrong@127.0.0.1:{port}")).await.unwrap_err();
    let said = format!(
        "no connection to redis://:***@127.0.0.1:{port}: the server refused the user or password (server reply \
         \"WRONGPASS invalid username-password pair or user is disabled.\")"
    );
    assert_message(error, &said, &REFUSED);
}

#[tokio::test]
async fn a_missing_password_is_reported() {
    let server = RedisServer::with(&["--requirepass", "right"]);
    let port = server.port();
    let error = Client::connect(&server.url()).await.unwrap_err();
    let said = format!(
        "no connection to redis://127.0.0.1:{port}: the server requires a password (server reply \"NOAUTH Authentication \
         required.\")"
    );
    assert_message(error, &said, &REFUSED);
}

#[tokio::test]
async fn a_missing_socket_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.sock").display().to_string();
    let error = Client::connect(&format!("unix://{path}")).await.unwrap_err();
    let said = format!("no connection to unix://{path}: the server cannot be reached (no such file)");
    assert_message(error, &said, &DOWN);
    let error = Client::connect(&format!("unix://{path}?db=3")).await.unwrap_err();
    let said = format!("no connection to unix://{path}?db=3: the server cannot be reached (no such file)");
    assert_message(error, &said, &DOWN);
}

#[tokio::test]
async fn a_port_of_another_service_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let _ = socket.writable().await;
            let _ = socket.try_write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
            let mut rest = [0; 1024];
            while socket.readable().await.is_ok() && socket.try_read(&mut rest).is_ok_and(|read| read > 0) {}
        }
    });
    let error = Client::connect(&format!("redis://127.0.0.1:{port}")).await.unwrap_err();
    let said = format!(
        "no connection to redis://127.0.0.1:{port}: the server is neither Redis nor Valkey (a web server answers on this port)"
    );
    assert_message(error, &said, &REFUSED);
    serving.abort();
}

async fn a_key_of_another_type_is_reported(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "order:42", "precious"]);
    let kind = "another kind of object has this name on the server (`TYPE` says which; redis-py and redsync write \
                strings); that object is unchanged";
    let error = client.fair_lock("order:42").lock().await.unwrap_err();
    let named = "not acquired: another kind of object has its name on the server, a";
    let text = "string, as `Client::plain_lock`, redis-py and redsync write it; that object is unchanged";
    assert_message(error, &format!("fair lock \"order:42\" {named} {text}"), &MISTAKE);
    run_command(&server, &["HSET", "invoice:7", "7f2a9c1e-0000-4000-8000-000000000001:57", "1"]);
    let error = client.plain_lock("invoice:7").lock().await.unwrap_err();
    let hash = "hash, as Redisson and `Client::lock` write it; that object is unchanged";
    assert_message(error, &format!("plain lock \"invoice:7\" {named} {hash}"), &MISTAKE);
    run_command(&server, &["RPUSH", "import", "precious"]);
    let error = client.count_down_latch("import").count_down().await.unwrap_err();
    assert_message(error, &format!("count-down latch \"import\" not changed: {kind}"), &MISTAKE);
    let error = client.count_down_latch("import").wait().await.unwrap_err();
    assert_message(error, &format!("wait for count-down latch \"import\" failed: {kind}"), &MISTAKE);
    let error = client.expirable_semaphore("order:42").permits().await.unwrap_err();
    assert_message(error, &format!("expirable semaphore \"order:42\" not inspected: {kind}"), &MISTAKE);
    let error = client.lock("order:42").force_unlock().await.unwrap_err();
    assert_message(error, &format!("lock \"order:42\" not unlocked: {kind}"), &MISTAKE);
}

async fn a_hash_that_is_no_lock_is_told_apart_from_a_lock_without_expiry(server: Fixture) {
    let client = connect(&server).await;
    let named = "not acquired: another kind of object has its name on the server, a hash that is no lock \
                 (choose another name, or find who wrote it); that object is unchanged";
    for (field, value) in [("name", "Bob"), ("name", "1"), ("java:1", "Bob"), (":1", "1")] {
        run_command(&server, &["DEL", "user:7"]);
        run_command(&server, &["HSET", "user:7", field, value]);
        let error = client.lock("user:7").lock().await.unwrap_err();
        assert_message(error, &format!("lock \"user:7\" {named}"), &MISTAKE);
        let error = client.fenced_lock("user:7").try_lock().await.unwrap_err();
        assert!(matches!(error.kind, AcquireErrorKind::OtherKind(_)), "{error}");
        assert_eq!(server.cli(&["HGET", "user:7", field]), value);
    }
}

async fn a_key_without_expiry_is_reported(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["HSET", "order:42", "someone:1", "1"]);
    let error = client.lock("order:42").lock().await.unwrap_err();
    let said = "lock \"order:42\" not acquired: its key has no expiry, so it blocks until it is deleted; find its \
                writer, or delete the key with force_unlock";
    assert_message(error, said, &MISTAKE);
    let error = client.lock("order:42").remaining().await.unwrap_err();
    assert_message(
        error,
        "lock \"order:42\" not inspected: its key has no expiry, so it blocks until it is deleted",
        &MISTAKE,
    );
    // A plain lock says the same where its format calls such a key a fault.
    run_command(&server, &["SET", "plain", "of-redis-py"]);
    let lock =
        client.plain_lock("plain").format(leasehold::PlainFormat::new().endless(leasehold::Endless::Fail));
    let error = lock.lock().await.unwrap_err();
    assert_message(error, &said.replace("lock \"order:42\"", "plain lock \"plain\""), &MISTAKE);
}

async fn an_invalid_name_or_invalid_terms_are_reported(server: Fixture) {
    let client = connect(&server).await;
    let error = client.lock("a\u{7}{b}").lock().await.unwrap_err();
    let said = "lock \"a\\u{7}{b}\" not acquired: the name has a control character ('\\u{7}') at byte 1";
    assert_message(error, said, &MISTAKE);
    let error = client.lock("order:42").lease(ms(1)).lock().await.unwrap_err();
    let said = "lock \"order:42\" not acquired: a lease of 1ms is below the minimum of 3ms";
    assert_message(error, said, &MISTAKE);
    let bounded = client.lock("order:42").max_hold(60 * SECOND).min_hold(300 * SECOND);
    let said = "lock \"order:42\" not acquired: min_hold of 5m exceeds the fixed lease or max_hold of 1m";
    assert_message(bounded.lock().await.unwrap_err(), said, &MISTAKE);
    let error = MultiLock::of([bounded.into(), client.lock("b").into()]).lock().await.unwrap_err();
    assert_message(error, said, &MISTAKE);
    let fixed = client.lock("order:42").lease(SECOND).min_hold(5 * SECOND);
    let said = "lock \"order:42\" not acquired: min_hold of 5s exceeds the fixed lease or max_hold of 1s";
    assert_message(fixed.lock().await.unwrap_err(), said, &MISTAKE);
    let endless = client.lock("order:42").min_hold(366 * 86_400 * SECOND);
    let said = "lock \"order:42\" not acquired: min_hold of 366d exceeds the longest lease of 365d";
    assert_message(endless.lock().await.unwrap_err(), said, &MISTAKE);
    let error = client.lock("order:42").max_hold(Duration::from_nanos(2_999_999)).lock().await.unwrap_err();
    assert_message(
        error,
        "lock \"order:42\" not acquired: max_hold of 2.9ms is below the minimum of 3ms",
        &MISTAKE,
    );
}

async fn a_busy_lock_is_reported_where_contention_is_an_error(server: Fixture) {
    let client = connect(&server).await;
    let _guard = client.lock("order:42").lock().await.unwrap();
    let section = client.lock("order:42").section();
    let error = section.clone().wait(ms(300)).run(async |_guard| ()).await.unwrap_err();
    assert_message(
        error,
        "the body did not run: lock \"order:42\" was busy for the whole wait of 300ms",
        &BUSY,
    );
    let error = section.wait(Duration::ZERO).run(async |_guard| ()).await.unwrap_err();
    assert_message(error, "the body did not run: lock \"order:42\" is busy", &BUSY);
}

async fn an_owner_that_already_holds_the_lock_gets_an_error(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.lock("order:42").owned_by(&owner).non_reentrant();
    let _guard = lock.lock().await.unwrap();
    let said = "lock \"order:42\" not acquired: its owner already holds it, and the lock is non-reentrant; \
                release that hold first";
    assert_message(lock.lock().await.unwrap_err(), said, &MISTAKE);
    assert_message(lock.try_lock().await.unwrap_err(), said, &MISTAKE);
    let prices = client.rw_lock("prices").owned_by(&owner);
    let _reader = prices.read().await.unwrap();
    let said = "write lock \"prices\" not acquired: waiting would deadlock, because the holder is this caller or waits for \
                it; release this caller's hold first";
    assert_message(prices.write().await.unwrap_err(), said, &MISTAKE);
}

#[tokio::test]
async fn a_short_wait_at_a_server_that_is_down_has_acquired_nothing() {
    let mut server = RedisServer::start();
    let client = Client::builder().timeout(3 * SECOND).connect(&server.url()).await.unwrap();
    server.kill();
    let lock = client.lock("order:42");
    // The open connection may take a call with it, whose outcome is unknown then.
    let refused =
        async { while !lock.try_lock().await.unwrap_err().to_string().contains("connection refused") {} };
    soon("a refused connection", refused).await;
    for wait in [1, 10, 50, 200, 400].map(ms) {
        let error = lock.try_lock_for(wait).await.unwrap_err();
        assert!(matches!(error.kind, AcquireErrorKind::Store(_)), "nothing was sent in {wait:?}: {error}");
        let said = error.to_string();
        assert!(said.starts_with("lock \"order:42\" not acquired: the server cannot be reached ("), "{said}");
    }
}

async fn a_closed_client_is_reported(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("order:42").lock().await.unwrap();
    client.close().await;
    assert_message(
        guard.ensure(SECOND).await.unwrap_err(),
        "lock \"order:42\" is lost: the client was closed",
        &LOST,
    );
    let closed = Is { unavailable: true, ..MISTAKE };
    let error = client.lock("order:42").lock().await.unwrap_err();
    assert_message(error, "lock \"order:42\" not acquired: the client is closed", &closed);
    let error = client.count_down_latch("import").wait().await.unwrap_err();
    assert_message(error, "wait for count-down latch \"import\" failed: the client is closed", &closed);
}

#[tokio::test]
async fn a_frozen_server_is_reported() {
    let server = RedisServer::start();
    // A call of the client itself that is unanswered for longer would end the connection of the others.
    let client = Client::builder().timeout(ms(300)).visible(false).connect(&server.url()).await.unwrap();
    let patient = Client::builder().timeout(3 * SECOND).visible(false).connect(&server.url()).await.unwrap();
    let guard = client.lock("held").lease(3600 * SECOND).lock().await.unwrap();
    server.freeze();
    let error = client.lock("order:42").lease(10 * SECOND).try_lock().await.unwrap_err();
    // The sum of the lease, the drift, and the rest of the timeout in which the call may still arrive.
    let said = "lock \"order:42\" may or may not be acquired: no reply within the timeout; any effect of this attempt is \
                gone within 10.2s";
    assert_message(error, said, &DOWN);
    let error = patient.lock("order:43").lease(10 * SECOND).try_lock_for(ms(100)).await.unwrap_err();
    let said = "lock \"order:43\" may or may not be acquired: no reply within the wait of 100ms;";
    assert!(error.to_string().starts_with(said), "{error}");
    let error = guard.release().await.unwrap_err().to_string();
    let begin = "release of lock \"held\" not confirmed: no reply within the timeout; the client keeps trying, and the \
                 hold ends within 1h";
    assert!(error.starts_with(begin), "{error}");
    server.thaw();
    eventually("the undo and the release", || is_free(&server, "order:42") && is_free(&server, "held")).await;
}

#[tokio::test]
async fn each_loss_has_its_reason() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("order:42").watchdog(30 * SECOND);
    for (lock, how, reason, said) in [
        (lock.clone().lease(SECOND), "", LostReason::Expired, "its fixed lease ended"),
        (lock.clone().max_hold(SECOND), "", LostReason::MaxHold, "it reached its max_hold"),
        (
            lock.clone().max_renewals(1),
            "",
            LostReason::MaxRenewals,
            "it reached its max_renewals, and its last lease ended",
        ),
        (lock.clone(), "deleted", LostReason::Deleted, "it was deleted on the server"),
        (
            lock.clone(),
            "unreachable",
            LostReason::Unreachable,
            "no renewal was confirmed before the lease ended",
        ),
    ] {
        let (clock, deleting) = (server.clone(), server.clone());
        let running =
            tokio::spawn(async move { lock.run(async |_guard| clock.sleep(3600 * SECOND).await).await });
        server.settle().await;
        match how {
            "deleted" => assert!(deleting.delete("order:42")),
            "unreachable" => server.set_reachable(false),
            _ => {}
        }
        server.advance(120 * SECOND).await;
        server.set_reachable(true);
        let error = running.await.unwrap().unwrap_err();
        assert!(matches!(error, RunError::Lost { reason: told, .. } if told == reason), "{error}");
        let said = format!(
            "lock \"order:42\" was lost while the body ran: {said}; any result of the body is dropped"
        );
        assert_message(error, &said, &LOST);
        server.advance(120 * SECOND).await;
    }
}

#[tokio::test]
async fn a_lock_taken_over_is_reported() {
    let server = Server::new();
    let (one, other) = (server.client().await.unwrap(), server.client().await.unwrap());
    let guard = one.lock("order:42").lock().await.unwrap();
    assert!(server.delete("order:42"));
    let _next = other.lock("order:42").lock().await.unwrap();
    server.advance(SECOND).await;
    let said = "lock \"order:42\" is lost: another owner holds it, or another kind of object has its name";
    assert_message(guard.ensure(29 * SECOND).await.unwrap_err(), said, &LOST);
}

#[tokio::test]
async fn an_unconfirmed_renewal_is_reported() {
    let server = Server::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("order:42").lock().await.unwrap();
    server.advance(SECOND).await;
    server.set_reachable(false);
    let said = "renewal of lock \"order:42\" not confirmed: the server cannot be reached; the hold is valid for another 28.6s";
    assert_message(guard.ensure(29 * SECOND).await.unwrap_err(), said, &DOWN);
    let said = "lock \"order:42\" can be ensured for at most 29.6s";
    assert_message(guard.ensure(31 * SECOND).await.unwrap_err(), said, &MISTAKE);
}

#[tokio::test]
async fn a_missing_installed_client_is_reported() {
    let said = "no client is installed; call `leasehold::install` at the start of the program, or write `client = ..`";
    assert_message(leasehold::installed().unwrap_err(), said, &MISTAKE);
    assert_message(RunError::from(NotInstalled), &format!("the body did not run: {said}"), &MISTAKE);
}

#[tokio::test]
async fn a_failed_majority_is_reported() {
    let (one, other) = (Server::new(), Server::new());
    let (up, down) = (one.client().await.unwrap(), other.client().await.unwrap());
    let third = other.client().await.unwrap();
    other.set_reachable(false);
    let redlock = leasehold::Redlock::builder().nodes_persist_every_write().over([up, down, third]);
    let error = soon("the answer", redlock.lock("order:42").try_lock()).await.unwrap_err();
    let node = "the server of this test";
    let said = format!(
        "redlock \"order:42\" not acquired: too few nodes work for a majority: {node} granted; {node}: the server cannot be \
         reached; {node}: the server cannot be reached"
    );
    assert_message(error, &said, &DOWN);
}

#[test]
fn alternate_debug_shows_the_fields_of_an_error() {
    let error = Error::from(RunError::from(NotInstalled));
    assert_eq!(format!("{error:#?}"), "Run(\n    NotInstalled(\n        NotInstalled,\n    ),\n)");
}
