//! Servers that reject calls, lack memory, are busy, or are not Redis. A typed error states the facts, and no lock stays
//! behind.

use std::io::{Read, Write};
use std::net::TcpListener;

use leasehold::error::{AcquireErrorKind, InspectErrorKind, StoreError, StoreErrorKind, Verb};
use leasehold::{AcquireError, Client, ConnectError, InspectError};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    SOON, connect, connect_with, eventually, fields, hold_as_redisson, is_free, keys, ms, pttl, run_command,
    soon,
};

/// The store error of an acquire that certainly acquired nothing.
fn not_acquired(outcome: Result<Option<leasehold::Guard>, AcquireError>) -> StoreError {
    match outcome {
        Err(AcquireError {
            kind: AcquireErrorKind::Store(source) | AcquireErrorKind::OtherKind(source),
            ..
        }) => source,
        other => panic!("{other:?}"),
    }
}

/// The messages and debug texts of an error and of all its causes.
fn all_texts(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        said.push_str(&format!(" {cause} {cause:?} {cause:#?}"));
        source = cause.source();
    }
    said
}

fn refused(outcome: Result<Client, ConnectError>) -> (StoreErrorKind, ConnectError) {
    match outcome {
        Err(error) => {
            let ConnectError::Store { source, .. } = &error else { panic!("{error}") };
            assert_eq!(source.during, Verb::Connect);
            (source.kind, error)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_password_is_an_error_that_never_shows_it() {
    const CANARY: &str = "canary-7f3a-password";
    let server = RedisServer::with(&["--requirepass", "right"]);
    let port = server.port();
    for url in
        [format!("redis://:{CANARY}@127.0.0.1:{port}"), format!("redis://app:{CANARY}@127.0.0.1:{port}")]
    {
        let (kind, error) = refused(Client::connect(&url).await);
        assert_eq!(kind, StoreErrorKind::AuthenticationFailed);
        let said = all_texts(&error) + &all_texts(&leasehold::Error::from(error));
        assert!(!said.contains("canary") && said.contains("***"), "{said}");
    }
    let (kind, _) = refused(Client::connect(&server.url()).await);
    assert_eq!(kind, StoreErrorKind::AuthenticationRequired, "no password at all");
    let client = Client::connect(&server.url_with_password()).await.unwrap();
    assert!(!format!("{client:?}").contains("right"));
    drop(client.lock("job").lock().await.unwrap());
}

#[tokio::test]
async fn no_failing_url_or_server_reveals_a_password() {
    const CANARY: &str = "canary7f3a";
    let nothing = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let plain = RedisServer::start();
    let urls = [
        format!("redis://:{CANARY}@127.0.0.1:{nothing}"),
        format!("redis://:{CANARY}@127.0.0.1:{}", plain.port()),
        format!("redis://:{CANARY}@127.0.0.1:{}/99999", plain.port()),
        format!("redis://:{CANARY}@127.0.0.1:notaport"),
        format!("redis://:{CANARY}@"),
        format!("redis://:{CANARY}/@127.0.0.1"),
        format!("redis://{CANARY}@127.0.0.1"),
        format!("rediss://:{CANARY}@127.0.0.1"),
        format!("unix:///nowhere.sock?pass={CANARY}"),
        format!("{CANARY}://127.0.0.1x"),
    ];
    for url in &urls[..urls.len() - 1] {
        let error = soon("the failure", Client::connect(url)).await.unwrap_err();
        let said = all_texts(&error);
        assert!(!said.contains(CANARY), "{said}");
    }
}

#[tokio::test]
async fn a_server_that_is_down_is_unreachable() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("redis://127.0.0.1:{port}");
    assert_eq!(refused(Client::connect(&url).await).0, StoreErrorKind::Unreachable);
    let outcome = Client::connect("unix:///nowhere/at/all.sock").await;
    assert_eq!(refused(outcome).0, StoreErrorKind::Unreachable);
}

/// A server that reads a little, sends `says` to every connection, and then closes it or keeps it open.
fn impostor(says: &'static [u8], stays: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut guests = Vec::new();
        // The thread ends with the test process.
        for mut guest in listener.incoming().flatten() {
            let _ = guest.read(&mut [0; 1024]);
            let _ = guest.write_all(says);
            if stays {
                guests.push(guest);
            }
        }
    });
    url
}

#[tokio::test]
async fn a_server_that_is_not_redis_has_its_own_error() {
    let malformed: [&[u8]; 6] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n<html>",
        b"220 mail.example ESMTP\r\n",
        b"+HELLO\r\n",
        b"$-7\r\n",
        b"*1000000000\r\n",
        b"\x00\xff\x13\x37\x00\xff\x13\x37\r\n",
    ];
    for says in malformed {
        let connecting = Client::builder().timeout(ms(400)).connect(&impostor(says, true)).await;
        let (kind, error) = refused(connecting);
        let text = String::from_utf8_lossy(says);
        assert_eq!(kind, StoreErrorKind::Malformed, "{text:?}");
        assert!(all_texts(&error).contains("the server is neither Redis nor Valkey"), "{error:?}");
        assert_eq!(all_texts(&error).contains("a web server"), says.starts_with(b"HTTP"));
    }
    let mute = Client::builder().timeout(ms(200)).connect(&impostor(b"", true)).await;
    assert_eq!(refused(mute).0, StoreErrorKind::Timeout);
    let rude = Client::connect(&impostor(b"", false)).await;
    assert_eq!(refused(rude).0, StoreErrorKind::ConnectionLost);
}

#[tokio::test]
async fn a_server_at_its_client_limit_has_its_own_error() {
    let server = RedisServer::with(&["--maxclients", "3"]);
    let one = connect(&server).await;
    let two = connect(&server).await;
    let three = connect(&server).await;
    assert_eq!(refused(Client::connect(&server.url()).await).0, StoreErrorKind::TooManyClients);
    drop((one, two, three));
}

#[tokio::test]
async fn a_key_of_another_type_is_not_changed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    run_command(&server, &["SET", "text", "precious"]);
    run_command(&server, &["RPUSH", "list", "precious"]);
    for name in ["text", "list"] {
        let lock = client.lock(name);
        for outcome in [lock.try_lock().await, lock.lock().await.map(Some), lock.try_lock_for(ms(300)).await]
        {
            let source = not_acquired(outcome);
            assert_eq!(source.kind, StoreErrorKind::WrongType);
            assert_eq!(&*source.key, name);
        }
        for outcome in [lock.is_locked().await, lock.force_unlock().await] {
            let Err(InspectError { kind: InspectErrorKind::Store(source), .. }) = outcome else {
                panic!("{outcome:?}")
            };
            assert_eq!(
                (source.kind, source.applied),
                (StoreErrorKind::WrongType, leasehold::error::Applied::No)
            );
        }
    }
    assert_eq!(server.cli(&["GET", "text"]), "precious");
    assert_eq!(server.cli(&["LRANGE", "list", "0", "-1"]), "precious");
    assert_eq!(pttl(&server, "text"), -1);
}

#[tokio::test]
async fn a_key_without_an_expiry_is_reported_and_not_changed() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    run_command(&server, &["HSET", "job", "java:1", "1"]);
    let lock = client.lock("job");
    assert_eq!(lock.try_lock().await.map(drop).map_err(|error| error.kind), Err(AcquireErrorKind::NoExpiry));
    assert_eq!(
        soon("the refusal", lock.lock()).await.map(drop).map_err(|error| error.kind),
        Err(AcquireErrorKind::NoExpiry)
    );
    assert_eq!(
        soon("the refusal", lock.try_lock_for(SOON)).await.map(drop).map_err(|error| error.kind),
        Err(AcquireErrorKind::NoExpiry)
    );
    assert!(lock.is_locked().await.unwrap());
    assert_eq!(lock.remaining().await.map_err(|error| error.kind), Err(InspectErrorKind::NoExpiry));
    assert_eq!(pttl(&server, "job"), -1);
    assert!(fields(&server, "job").contains_key("java:1"));
    assert!(lock.force_unlock().await.unwrap(), "the way out that the error names");
    drop(lock.lock().await.unwrap());
}

#[tokio::test]
async fn a_key_that_loses_its_expiry_during_a_wait_is_reported() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", SOON);
    let waiting = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.lock().await.map(drop) }
    });
    eventually("it to wait", || crate::support::listeners(&server, "job") == 1).await;
    run_command(&server, &["PERSIST", "job"]);
    assert_eq!(
        soon("the next look", waiting).await.unwrap().map_err(|error| error.kind),
        Err(AcquireErrorKind::NoExpiry)
    );
}

#[tokio::test]
async fn a_read_only_server_fails_within_the_timeout_and_nothing_is_locked() {
    let server = RedisServer::start();
    let builder = Client::builder().timeout(ms(300));
    let client = connect_with(builder, &server.url()).await;
    run_command(&server, &["REPLICAOF", "127.0.0.1", "1"]);
    let lock = client.lock("job");
    assert_eq!(not_acquired(lock.try_lock().await).kind, StoreErrorKind::ReadOnly);
    let outcome = soon("the timeout", lock.lock()).await;
    assert_eq!(not_acquired(outcome.map(Some)).kind, StoreErrorKind::ReadOnly);
    assert!(is_free(&server, "job"));
    // The waiter arrives before the server becomes a master again.
    let builder = Client::builder().timeout(SOON);
    let lock = connect_with(builder, &server.url()).await.lock("job");
    let waiting = tokio::spawn(async move { lock.lock().await });
    run_command(&server, &["REPLICAOF", "NO", "ONE"]);
    drop(soon("the lock", waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_server_without_memory_rejects_acquires_and_accepts_releases() {
    let server = RedisServer::start();
    let client = connect(&server).await;
    let held = client.lock("held").watchdog(ms(600)).lock().await.unwrap();
    // The timer key needs memory, so the wait begins before the memory limit.
    let several_renewals = crate::support::a_lease_passes(&server, ms(1_500));
    run_command(&server, &["CONFIG", "SET", "maxmemory", "1"]);
    let lock = client.lock("job");
    assert_eq!(not_acquired(lock.try_lock().await).kind, StoreErrorKind::OutOfMemory);
    let outcome = soon("the refusal", lock.lock()).await;
    assert_eq!(not_acquired(outcome.map(Some)).kind, StoreErrorKind::OutOfMemory);
    assert!(is_free(&server, "job"));
    several_renewals.await;
    assert!(held.is_held(), "renewals need no memory");
    assert_eq!(held.release().await, Ok(leasehold::ReleaseOutcome::Released));
    assert_eq!(keys(&server), 0);
}

#[tokio::test]
async fn a_server_with_too_few_replicas_rejects_acquires() {
    let server = RedisServer::with(&["--min-replicas-to-write", "1"]);
    let builder = Client::builder().timeout(ms(300));
    let client = connect_with(builder, &server.url()).await;
    let outcome = soon("the refusal", client.lock("job").lock()).await;
    assert_eq!(not_acquired(outcome.map(Some)).kind, StoreErrorKind::NoReplicas);
    assert!(is_free(&server, "job"));
}

#[tokio::test]
async fn a_busy_server_is_waited_for() {
    let server = RedisServer::with(&["--busy-reply-threshold", "20"]);
    let client = connect(&server).await;
    let url = server.url();
    let spin = "redis.call('get', 'x') while true do end";
    let mut spinning = std::net::TcpStream::connect(url.trim_start_matches("redis://")).unwrap();
    spinning.write_all(format!("EVAL \"{spin}\" 0\r\n").as_bytes()).unwrap();
    eventually("the server to be busy", || server.cli(&["PING"]).starts_with("BUSY")).await;
    assert_eq!(not_acquired(client.lock("job").try_lock().await).kind, StoreErrorKind::Busy);
    let waiting = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.lock().await }
    });
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    drop(soon("the lock", waiting).await.unwrap().unwrap());
}

#[tokio::test]
async fn a_loading_server_has_its_own_error_and_is_waited_for() {
    // Each key takes a millisecond to load.
    let mut server = RedisServer::with(&[
        "--appendonly",
        "yes",
        "--key-load-delay",
        "1000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    let builder = Client::builder().timeout(SOON);
    let client = connect_with(builder, &server.url()).await;
    hold_as_redisson(&server, "job", ms(1000));
    let waiting = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.lock().await }
    });
    let fill = "for i = 1, 1500 do redis.call('set', 'filler:' .. i, string.rep('x', 64)) end";
    run_command(&server, &["EVAL", fill, "0"]);
    run_command(&server, &["BGREWRITEAOF"]);
    eventually("the file to be written", || {
        let info = server.cli(&["INFO", "persistence"]);
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    })
    .await;
    let url = server.url();
    let restarting = std::thread::spawn(move || {
        server.restart();
        server
    });
    // The server is down, then loading, then ready.
    let mut seen = Vec::new();
    let loading = async {
        loop {
            match Client::connect(&url).await {
                Ok(_) if seen.is_empty() => tokio::task::yield_now().await,
                Ok(_) => return,
                outcome => seen.push(refused(outcome).0),
            }
        }
    };
    soon("the server to be there again", loading).await;
    assert!(seen.contains(&StoreErrorKind::Loading), "{seen:?}");
    assert!(soon("the lock", waiting).await.unwrap().unwrap().is_held());
    drop(restarting.join().unwrap());
}

#[tokio::test]
async fn a_missing_command_permission_is_an_error_and_leaves_nothing_locked() {
    let server = RedisServer::start();
    run_command(&server, &["ACL", "SETUSER", "weak", "on", ">word", "~*", "&*", "+@all", "-pexpire"]);
    let client = Client::connect(&format!("redis://weak:word@127.0.0.1:{}", server.port())).await.unwrap();
    let outcome = client.lock("job").try_lock().await;
    let Err(AcquireError { kind: AcquireErrorKind::Unknown { source, .. }, .. }) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(source.kind, StoreErrorKind::PermissionDenied);
    eventually("the undo", || is_free(&server, "job")).await;
}

/// The messages of an error and of its causes, as a report shows them.
fn report(error: &(dyn std::error::Error + 'static)) -> String {
    let mut said = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        said.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    said
}

#[tokio::test]
async fn a_server_of_another_kind_is_told_in_words() {
    let server = RedisServer::start();
    let port = server.port();
    for (url, says) in [
        (format!("redis+cluster://127.0.0.1:{port}"), "the server is not a cluster node"),
        (format!("redis+sentinel://127.0.0.1:{port}/orders"), "the server is not a sentinel"),
    ] {
        let builder = Client::builder().timeout(ms(500));
        let error = builder.connect(&url).await.unwrap_err();
        assert!(report(&error).contains(says), "{}", report(&error));
        assert!(report(&error).contains("`redis://`"), "{}", report(&error));
    }
}

#[tokio::test]
async fn a_server_that_quotes_the_password_shows_it_to_nobody() {
    const CANARY: &str = "canary-7f3a-password";
    let server = RedisServer::with(&["--rename-command", "AUTH", ""]);
    let url = format!("redis://:{CANARY}@127.0.0.1:{}", server.port());
    let (_, error) = refused(Client::connect(&url).await);
    let said = all_texts(&error) + &report(&error);
    assert!(!said.contains("canary"), "{said}");
    assert!(said.contains("unknown command 'AUTH'") && said.contains("***"), "{said}");
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[tokio::test]
async fn sentinels_in_plain_text_do_not_choose_the_name_of_a_certificate() {
    use leasehold::{SentinelTls, Tls};
    let url = "rediss+sentinel://:canary-7f3a@127.0.0.1:1/orders";
    let connect = async |tls: Tls| {
        let builder = Client::builder().tls(tls).sentinel_tls(SentinelTls::PlainText).timeout(ms(200));
        builder.connect(url).await.unwrap_err()
    };
    let error = connect(Tls::new()).await;
    assert!(matches!(error, ConnectError::UnverifiedServer { .. }), "{error:?}");
    assert!(!all_texts(&error).contains("canary"), "{error:?}");
    for named in [Tls::new().server_name("redis.example"), Tls::new().ca_pem("a CA")] {
        let error = connect(named).await;
        assert!(matches!(error, ConnectError::Store { .. }), "it tries to connect: {error:?}");
    }
}
