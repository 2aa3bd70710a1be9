//! Logins that change while locks are held, on real servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold::error::{ConnectError, StoreErrorKind};
use leasehold::{Client, ClientBuilder, Credentials, CredentialsFile, CredentialsProvider, ProviderError};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;

const LIMIT: Duration = Duration::from_secs(30);
/// A lease that passes several times within a test.
const LEASE: Duration = Duration::from_millis(600);

/// Sets the password of the user `app`, and ends its connections if asked to.
fn set_password(server: &RedisServer, password: &str) {
    let password = format!(">{password}");
    let rule = ["ACL", "SETUSER", "app", "reset", "on", "~*", "&*", "+@all", &password];
    assert_eq!(server.cli(&rule), "OK");
}

/// Ends all connections of the user `app`, as a server does after a change of its password.
fn cut(server: &RedisServer) {
    let _ = server.cli(&["CLIENT", "KILL", "USER", "app"]);
}

fn builder() -> ClientBuilder {
    Client::builder().visible(false).timeout(Duration::from_secs(2)).watchdog(LEASE)
}

/// Returns the connections of the user `app`, by their ids.
fn connections(server: &RedisServer) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    let own = list.lines().filter(|line| line.contains(" user=app "));
    own.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

/// Returns the number of times that the server has extended a lease.
fn renewals(server: &RedisServer) -> u64 {
    server.commandstats().get("pexpire").copied().unwrap_or_default()
}

/// Waits until the lease of the lock has been renewed several times.
fn renewed(server: &RedisServer) {
    let before = renewals(server);
    eventually(LIMIT, "the lock is renewed", || renewals(server) >= before + 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_in_a_file_rotates_under_a_held_lock() {
    let server = RedisServer::start();
    set_password(&server, "one");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "one\n").unwrap();
    let login = CredentialsFile::new(file.path()).user("app");
    let client = builder().credentials(login).connect(&server.url()).await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    for password in ["two", "three"] {
        std::fs::write(file.path(), password).unwrap();
        set_password(&server, password);
        cut(&server);
        renewed(&server);
        assert!(guard.is_held(), "{password}");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_source_without_credentials_is_named() {
    struct Broken;
    impl CredentialsProvider for Broken {
        async fn credentials(&self) -> Result<Credentials, ProviderError> {
            Err("the role has no token".into())
        }
    }
    let server = RedisServer::start();
    let missing = builder().credentials(CredentialsFile::new("/no/such/file"));
    for (builder, says) in [(builder().credentials(Broken), "no token"), (missing, "/no/such/file")] {
        let error = builder.connect(&server.url()).await.unwrap_err();
        let ConnectError::Store { source, .. } = &error else { panic!("{error}") };
        assert_eq!(source.kind, StoreErrorKind::Credentials);
        assert!(source.reason().to_string().contains(says), "{}", source.reason());
    }
}

#[tokio::test]
async fn a_fixed_login_replaces_that_of_the_url_and_is_never_shown() {
    let server = RedisServer::start();
    set_password(&server, "hunter2");
    let url = server.url().replace("redis://", "redis://app:wrong@");
    let builder = builder().credentials(Credentials::new("app", "hunter2"));
    assert!(!format!("{builder:?}").contains("hunter2"));
    let client = builder.connect(&url).await.unwrap();
    drop(client.lock("job").lock().await.unwrap());
    let refused = Client::builder().credentials(Credentials::new("app", "hunter3")).connect(&url).await;
    let error = refused.unwrap_err();
    assert!(!format!("{error:?} {error}").contains("hunter3"), "{error}");
    let ConnectError::Store { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.kind, StoreErrorKind::AuthenticationFailed);
}

/// A provider whose tokens live for a second. The server knows the last one alone.
struct Tokens {
    server: Arc<RedisServer>,
    given: Arc<AtomicU64>,
}

impl CredentialsProvider for Tokens {
    async fn credentials(&self) -> Result<Credentials, ProviderError> {
        let token = format!("token-{}", self.given.fetch_add(1, Ordering::Relaxed));
        set_password(&self.server, &token);
        Ok(Credentials::new("app", token).expires_in(Duration::from_secs(1)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_replaced_before_it_expires_on_the_same_connections() {
    let (server, given) = (Arc::new(RedisServer::start()), Arc::new(AtomicU64::new(0)));
    let tokens = Tokens { server: Arc::clone(&server), given: Arc::clone(&given) };
    let client = builder().credentials(tokens).connect(&server.url()).await.unwrap();
    let guard = client.lock("job").lock().await.unwrap();
    // A waiter of another client, whose wake-ups come over a connection with subscriptions.
    let other = Tokens { server: Arc::clone(&server), given: Arc::clone(&given) };
    let other = builder().credentials(other).connect(&server.url()).await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("job").lock().await });
    eventually(LIMIT, "the waiter listens", || connections(&server).len() >= 3);
    let before = connections(&server);
    server.reset_stats();
    let of_before = given.load(Ordering::Relaxed);
    eventually(LIMIT, "tokens are replaced", || given.load(Ordering::Relaxed) >= of_before + 6);
    assert!(guard.is_held());
    assert_eq!(connections(&server), before, "no connection was made anew");
    let logins = server.commandstats().get("auth").copied().unwrap_or_default();
    assert!(logins >= 6, "{logins} logins on open connections");
    guard.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
}
