//! Bad input. The client returns a typed error that names the mistake, and sends nothing.

use std::time::Duration;

use leasehold::error::UrlError;
use leasehold::error::{AcquireErrorKind, InspectErrorKind, LeaseError, NameError};
use leasehold::name::NAME_BYTES_MAX;
use leasehold::terms::{LEASE_MAX, LEASE_MIN};
use leasehold::{AcquireError, Client, ConnectError, InspectError, LostReason, Name};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, SOON, connect, connect_with, eventually, fields, hold_as_redisson, is_free, keys, ms,
    on_both, pttl, run_command, sent, soon,
};

on_both! {
    async {
        invalid_names_are_rejected_and_nothing_is_sent,
        the_longest_and_most_unusual_names_work,
        invalid_leases_are_rejected_and_nothing_is_sent,
        the_longest_lease_and_the_longest_bound_work,
        the_shortest_lease_is_granted_or_fails_cleanly,
        an_endless_wait_works_like_any_wait,
        a_zero_wait_makes_one_attempt,
        extreme_timeouts_work,
        errors_name_their_own_layer_in_lower_case_without_a_full_stop,
    }
}

async fn invalid_names_are_rejected_and_nothing_is_sent(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let cases = [
        ("", "the name is empty"),
        (long.as_str(), "the name of 513 bytes exceeds the maximum of 512"),
        ("a\nb", "the name has a control character ('\\n') at byte 1"),
        ("\0", "the name has a control character ('\\0') at byte 0"),
        ("a\u{7f}", "the name has a control character ('\\u{7f}') at byte 1"),
        ("a\u{85}", "the name has a control character ('\\u{85}') at byte 1"),
        ("{a}", "the name has a brace at byte 0"),
        ("a}", "the name has a brace at byte 1"),
        ("redisson_lock__channel:{a}", "the name begins with `redisson_lock__channel`"),
        ("redisson_unlock_latchx", "the name begins with `redisson_unlock_latch`"),
    ];
    for (name, expected) in cases {
        // A name with two mistakes may report either of them: the reserved prefix or the brace.
        let is_expected = |error: &NameError| {
            error.to_string().starts_with(expected)
                || (name.contains('{') && matches!(error, NameError::Brace { .. }))
        };
        let lock = client.lock(name);
        let Err(AcquireError { kind: AcquireErrorKind::Name(error), .. }) = lock.lock().await else {
            panic!("{name:?}")
        };
        assert!(is_expected(&error), "{name:?}: {error:?}");
        assert!(matches!(lock.try_lock().await, Err(AcquireError { kind: AcquireErrorKind::Name(_), .. })));
        assert!(matches!(
            lock.try_lock_for(ms(10)).await,
            Err(AcquireError { kind: AcquireErrorKind::Name(_), .. })
        ));
        assert!(matches!(lock.is_locked().await, Err(InspectError { kind: InspectErrorKind::Name(_), .. })));
        assert!(matches!(
            lock.force_unlock().await,
            Err(InspectError { kind: InspectErrorKind::Name(_), .. })
        ));
    }
    assert_eq!(sent(&monitor), []);
}

async fn the_longest_and_most_unusual_names_work(server: Fixture) {
    let client = connect(&server).await;
    for name in ["x".repeat(NAME_BYTES_MAX), "schlüssel 🔑 \"'*?[]\\ %d".to_owned(), " ".to_owned()] {
        let guard = client.lock(&name).lock().await.unwrap();
        assert_eq!(fields(&server, &name).len(), 1, "{name}");
        guard.release().await.unwrap();
    }
    let tagged = Name::with_hash_tag("orders", ":42").unwrap();
    let guard = client.lock(tagged).lock().await.unwrap();
    assert_eq!(fields(&server, "{orders}:42").len(), 1);
    drop(guard);
}

async fn invalid_leases_are_rejected_and_nothing_is_sent(server: Fixture) {
    let client = connect(&server).await;
    let monitor = Monitor::start(&server);
    let short = [Duration::ZERO, Duration::from_nanos(1), ms(2), LEASE_MIN - Duration::from_nanos(1)];
    let long = [LEASE_MAX + Duration::from_nanos(1), Duration::from_secs(u64::MAX), Duration::MAX];
    for given in short {
        for lock in [client.lock("job").lease(given), client.lock("job").watchdog(given)] {
            let AcquireErrorKind::Lease(error) = lock.lock().await.unwrap_err().kind else {
                panic!("{given:?}")
            };
            assert!(matches!(error, LeaseError::TooShort { given: told, .. } if told == given), "{error}");
        }
    }
    for given in long {
        for lock in [client.lock("job").lease(given), client.lock("job").watchdog(given)] {
            let AcquireErrorKind::Lease(error) = lock.try_lock().await.unwrap_err().kind else {
                panic!("{given:?}")
            };
            assert!(matches!(error, LeaseError::TooLong { given: told, .. } if told == given), "{error}");
        }
    }
    for given in [Duration::ZERO, ms(2)] {
        let error = client.lock("job").max_hold(given).try_lock().await.unwrap_err();
        assert!(
            matches!(error.kind, AcquireErrorKind::MaxHold { given: told, .. } if told == given),
            "{error}"
        );
    }
    assert_eq!(sent(&monitor), []);
}

async fn the_longest_lease_and_the_longest_bound_work(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lease(LEASE_MAX).max_hold(Duration::MAX).lock().await.unwrap();
    let left = Duration::from_millis(pttl(&server, "job").try_into().unwrap());
    assert!(left > LEASE_MAX - SOON && left <= LEASE_MAX);
    assert!(guard.remaining() > LEASE_MAX / 2);
    guard.release().await.unwrap();
    assert!(is_free(&server, "job"));
}

async fn the_shortest_lease_is_granted_or_fails_cleanly(server: Fixture) {
    let client = connect(&server).await;
    for _ in 0..50 {
        // A lease of 3 ms can end before its grant arrives, and then the call returns an error.
        match client.lock("job").lease(LEASE_MIN).try_lock().await {
            Ok(Some(guard)) => assert_eq!(soon("its end", guard.lost()).await, LostReason::Expired),
            Ok(None)
            | Err(AcquireError {
                kind: AcquireErrorKind::LeaseTooShort { .. } | AcquireErrorKind::Unclaimed,
                ..
            }) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
    eventually("the key to run out", || keys(&server) == 0).await;
}

async fn an_endless_wait_works_like_any_wait(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", ms(200));
    let lock = client.lock("job");
    let guard = soon("the lock", lock.try_lock_for(Duration::MAX)).await.unwrap();
    assert!(guard.unwrap().is_held());
}

async fn a_zero_wait_makes_one_attempt(server: Fixture) {
    let client = connect(&server).await;
    hold_as_redisson(&server, "job", SOON);
    assert!(client.lock("job").try_lock_for(Duration::ZERO).await.unwrap().is_none());
    assert!(client.lock("free").try_lock_for(Duration::ZERO).await.unwrap().is_some());
}

async fn extreme_timeouts_work(server: Fixture) {
    let builder = Client::builder().timeout(Duration::MAX).poll_interval(Duration::MAX);
    let client = connect_with(builder, &server.url()).await;
    let guard = client.lock("job").lock().await.unwrap();
    let waiting = tokio::spawn({
        let lock = client.lock("job");
        async move { lock.lock().await }
    });
    eventually("it to wait", || crate::support::listeners(&server, "job") == 1).await;
    guard.release().await.unwrap();
    drop(soon("the lock", waiting).await.unwrap().unwrap());
    soon("the report", client.close()).await;

    for builder in [
        Client::builder().timeout(Duration::ZERO),
        Client::builder().poll_interval(Duration::from_micros(999)),
    ] {
        let refused = builder.connect(&server.url()).await;
        assert!(matches!(refused, Err(ConnectError::TooShort { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn invalid_urls_are_rejected() {
    let error = Client::connect("http://127.0.0.1").await.unwrap_err();
    assert!(
        matches!(&error, ConnectError::Url(UrlError::UnknownScheme { scheme, .. }) if scheme == "http"),
        "{error}"
    );
    for (url, expected) in [
        ("", UrlError::NoScheme),
        ("127.0.0.1:6379", UrlError::NoScheme),
        ("redis://", UrlError::NoHost),
        ("redis://127.0.0.1:port", UrlError::BadPort),
        ("redis://127.0.0.1:0", UrlError::BadPort),
        ("redis://127.0.0.1/one", UrlError::BadDatabase),
        ("unix://", UrlError::NoPath),
    ] {
        match Client::connect(url).await {
            Err(ConnectError::Url(error)) => assert_eq!(error, expected, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
    }
    #[cfg(not(any(feature = "tls-ring", feature = "tls-aws-lc")))]
    for url in ["rediss://127.0.0.1", "valkeys-sentinel://127.0.0.1/service", "rediss-cluster://127.0.0.1"] {
        let outcome = Client::connect(url).await;
        assert!(matches!(outcome, Err(ConnectError::Url(UrlError::NotBuiltIn { .. }))), "{url}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_database_other_than_the_first_is_used() {
    let server = RedisServer::start();
    let client = Client::connect(&format!("{}/3", server.url())).await.unwrap();
    let _guard = client.lock("job").lock().await.unwrap();
    assert_eq!(server.cli(&["-n", "3", "EXISTS", "job"]), "1");
    assert!(is_free(&server, "job"));
}

async fn errors_name_their_own_layer_in_lower_case_without_a_full_stop(server: Fixture) {
    let client = connect(&server).await;
    run_command(&server, &["SET", "text", "precious"]);
    let errors: Vec<leasehold::Error> = vec![
        client.lock("").lock().await.unwrap_err().into(),
        client.lock("text").lock().await.unwrap_err().into(),
        client.lock("job").lease(ms(1)).lock().await.unwrap_err().into(),
        client.lock("text").is_locked().await.unwrap_err().into(),
        Client::connect("http://x").await.unwrap_err().into(),
    ];
    for error in errors {
        let mut layer: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = layer {
            let text = error.to_string();
            assert!(!text.ends_with('.') && !text.starts_with(char::is_uppercase), "{text}");
            layer = error.source();
            if let Some(below) = layer {
                assert!(!text.contains(&below.to_string()), "{text} repeats what is below it");
            }
        }
    }
}

#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
#[tokio::test]
async fn settings_of_tls_and_a_url_without_encryption_are_refused() {
    let server = RedisServer::start();
    let at = server.url().replace("redis://", "");
    let socket = "unix:///nowhere/socket".to_owned();
    for url in [
        format!("redis://:{at}@{at}"),
        format!("redis+sentinel://{at}/m"),
        format!("redis+cluster://{at}"),
        socket,
    ] {
        let tls = || leasehold::Tls::new().ca_file("/etc/redis/ca.pem");
        for builder in [Client::builder().tls(tls()), Client::builder().tls(tls()).lazy()] {
            let refused = builder.connect(&url).await.unwrap_err();
            assert!(refused.to_string().contains("is not encrypted"), "{url}: {refused}");
            assert!(!refused.to_string().contains(&format!(":{at}@")), "{refused}");
            assert!(!refused.is_retryable() && !refused.is_unavailable(), "{refused}");
        }
    }
    // No bytes travel to a server of this process.
    assert!(Client::builder().tls(leasehold::Tls::new()).connect("memory://").await.is_ok());
}
