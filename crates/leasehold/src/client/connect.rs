//! The connection of a client, from a URL to a running driver.
//!
//! Invariant: only this file names a store. A client whose driver has ended, even by a panic, is closed.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::Settings;
#[cfg(feature = "redis")]
use leasehold_proto::operate::Audience;
use leasehold_proto::{ClientId, Engine};
#[cfg(feature = "embedded")]
pub(crate) use leasehold_store::embedded::{BoxFuture, Embedded, Frame};
#[cfg(feature = "redis")]
use leasehold_store::redis::{self, Redis};
#[cfg(feature = "redis")]
pub(crate) use leasehold_store::redis::{AddressMap, CredentialsSource};
#[cfg(feature = "redis")]
pub use leasehold_store::redis::{
    ByteStream, CredentialsFile, CredentialsProvider, Dial, ProviderError, Socket,
};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use leasehold_store::redis::{SentinelTls, Tls, TlsProvider};
#[cfg(any(feature = "redis", feature = "embedded", test))]
use leasehold_store::tokio_runtime::TokioRuntime;
use leasehold_store::url::Server;
#[cfg(feature = "redis")]
use leasehold_store::url::ServerUrl;
#[cfg(feature = "redis")]
pub use leasehold_store::url::{Address, Credentials};
use leasehold_store::{Confirm, Confirmation, OnMissing, Runtime, ShardedPubsub, Store};
use tokio::sync::oneshot;

use crate::client::visibility::Visibility;
use crate::defaults::Defaults;
use crate::error::ConnectError;
#[cfg(feature = "redis")]
use crate::observe::{Connection, ConnectionChange, ConnectionEvent};
use crate::observe::{Observers, Setup};
use crate::runtime::driver::drive;
use crate::runtime::identity::Identity;
use crate::runtime::process::Process;
use crate::runtime::shared::{Handle, Shared};

/// The replicas that confirm, and the time that they have, as the user has set them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replicas {
    pub(crate) policy: Confirm,
    pub(crate) within: Option<Duration>,
    pub(crate) on_missing: OnMissing,
    pub(crate) fsync: bool,
}

impl Default for Replicas {
    fn default() -> Self {
        Self { policy: Confirm::None, within: None, on_missing: OnMissing::Fail, fsync: false }
    }
}

impl Replicas {
    /// Returns the policy of the calls without one of their own.
    const fn policy(self) -> Confirm {
        match self.policy {
            // Without replicas, the disk of the server alone counts.
            Confirm::None if self.fsync => Confirm::AtLeast(0),
            policy => policy,
        }
    }

    /// Returns the confirmation for calls with this timeout.
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a server has replicas"))]
    pub(crate) fn confirmation(self, timeout: Duration) -> Confirmation {
        let confirmation = Confirmation::new(self.policy(), self.within.unwrap_or(timeout / 3));
        confirmation.on_missing(self.on_missing).fsync(self.fsync)
    }
}

/// The connect options.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectOptions {
    pub(crate) settings: Settings,
    pub(crate) sharded_pubsub: ShardedPubsub,
    pub(crate) replicas: Replicas,
    /// True if the client connects with its first call instead of at once.
    pub(crate) lazy: bool,
    /// The name of the connections in `CLIENT LIST`.
    pub(crate) client_name: Option<Arc<str>>,
    /// The certificates and rules of encrypted connections.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(crate) tls: Option<Tls>,
    /// The encryption of the connections to sentinels.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(crate) sentinel_tls: SentinelTls,
    /// The source of the login.
    #[cfg(feature = "redis")]
    pub(crate) credentials: Option<CredentialsSource>,
    /// The source of the login at the sentinels.
    #[cfg(feature = "redis")]
    pub(crate) sentinel_credentials: Option<CredentialsSource>,
    /// The transport.
    #[cfg(feature = "redis")]
    pub(crate) dialer: Option<Arc<dyn Dial>>,
    /// The translation of announced addresses.
    #[cfg(feature = "redis")]
    pub(crate) address_map: Option<AddressMap>,
    pub(crate) defaults: Defaults,
    pub(crate) observe: Setup,
    /// What operators see of the client.
    pub(crate) visibility: Visibility,
}

impl ConnectOptions {
    /// Returns the observers of a client of this server, if it has any.
    fn observers(&self, server: &str) -> Option<Arc<Observers>> {
        Observers::new(&self.observe, server, self.replicas.policy(), &self.defaults)
    }
}

/// Connects, and starts the driver.
#[cfg_attr(
    not(any(feature = "redis", feature = "embedded")),
    expect(unused_variables, reason = "without a store nothing can be connected to")
)]
pub(crate) async fn connect(server: &Server, options: ConnectOptions) -> Result<Arc<Handle>, ConnectError> {
    match server {
        // A program that sets certificates expects encryption, so plain text would be a silent surprise.
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        Server::Redis(url) if options.tls.is_some() && !url.tls() => {
            Err(ConnectError::NotEncrypted { server: url.to_string() })
        }
        #[cfg(feature = "redis")]
        Server::Redis(url) => to_redis(url.clone(), options).await,
        #[cfg(feature = "embedded")]
        Server::Memory(name) => to_memory(server.to_string(), name.as_deref(), options).await,
        #[allow(unreachable_patterns, reason = "a server without its store is refused when its URL is read")]
        other => unreachable!("{other} has no store in this build"),
    }
}

#[cfg(feature = "redis")]
async fn to_redis(url: ServerUrl, options: ConnectOptions) -> Result<Arc<Handle>, ConnectError> {
    let lazy = options.lazy;
    let client = ClientId::from_random(TokioRuntime.random());
    let audience = Audience::new(&options.defaults.key_prefix, url.database());
    let identity = options.visibility.identity(client, options.client_name.as_deref(), audience);
    let client_name = match &identity {
        Some(identity) => Some(identity.connection_name().into()),
        None => options.client_name.clone(),
    };
    let server = url.to_string();
    let mut redis_options = redis::ConnectOptions::default()
        .timeout(options.settings.timeout)
        .sharded_pubsub(options.sharded_pubsub)
        .confirmation(options.replicas.confirmation(options.settings.timeout))
        .client_name(client_name)
        .address_map(options.address_map.clone())
        .callers(TokioRuntime.callers());
    let observers = options.observers(&server);
    if let Some(observers) = observers.clone() {
        let told = Arc::clone(&observers);
        redis_options.plain_text_notice =
            Some(redis::PlainTextNotice::new(move |server| told.plain_text(server.to_string())));
        let told = Arc::clone(&observers);
        redis_options.missing_notice = Some(redis::MissingNotice::new(move |connected, wanted| {
            told.missing_replicas(connected, wanted);
        }));
        redis_options.connection_notice = Some(redis::ConnectionNotice::new(move |serving, change| {
            observers.connection(connection_change(serving, change));
        }));
    }
    redis_options.credentials = options.credentials.clone();
    redis_options.sentinel_credentials = options.sentinel_credentials.clone();
    redis_options.dialer = options.dialer.clone();
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    let redis_options =
        redis_options.tls(options.tls.clone().unwrap_or_default()).sentinel_tls(options.sentinel_tls.clone());
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    if redis_options.trusts_names_in_plain_text(&url) {
        return Err(ConnectError::UnverifiedServer { server });
    }
    let open = async move || match lazy {
        true => Redis::lazy(&url, redis_options),
        false => Redis::connect(&url, redis_options).await,
    };
    let start = Start { client, server, observers, identity };
    start_as(&TokioRuntime, options, start, open).await
}

#[cfg(feature = "redis")]
fn connection_change(serving: &redis::Serving, change: redis::Change) -> ConnectionChange {
    let server = match &serving.server {
        Address::Tcp { host, port } => (host.clone(), Some(*port)),
        other => (other.to_string(), None),
    };
    let connection = match serving.carried {
        redis::Carried::Commands => Connection::Commands,
        redis::Carried::Confirmed => Connection::Confirmed,
        redis::Carried::Subscriptions => Connection::Subscriptions,
    };
    let kind = match change {
        redis::Change::Opened => ConnectionEvent::Opened { again: serving.again, moved: serving.moved },
        redis::Change::Ended => ConnectionEvent::Ended { by_server: true },
        redis::Change::GivenUp => ConnectionEvent::Ended { by_server: false },
    };
    ConnectionChange { server, connection, kind }
}

/// Returns a new store for a URL without a name, or the shared store of the name.
#[cfg(feature = "embedded")]
async fn to_memory(
    server: String,
    name: Option<&str>,
    options: ConnectOptions,
) -> Result<Arc<Handle>, ConnectError> {
    let store = name.map_or_else(|| Embedded::new(uptime_ms), |name| Embedded::named(name, uptime_ms));
    start(&TokioRuntime, options, server, async move || Ok(store)).await
}

/// Returns the time of in-memory servers, which is the monotonic clock by which clients trust their holds, so a change
/// of the wall clock expires no lock.
#[cfg(feature = "embedded")]
fn uptime_ms() -> u64 {
    TokioRuntime.now().as_nanos() / 1_000_000
}

/// Starts a driver where the runtime places it. The driver opens the store there. This function returns when the store
/// is open.
#[cfg(any(feature = "embedded", feature = "unstable-store", test))]
pub(crate) async fn start<R, S, O>(
    runtime: &R,
    options: ConnectOptions,
    server: String,
    open: O,
) -> Result<Arc<Handle>, ConnectError>
where
    R: Runtime + Clone,
    S: Store,
    O: AsyncFnOnce() -> Result<S, leasehold_proto::StoreError> + Send + 'static,
{
    let (client, observers) = (ClientId::from_random(runtime.random()), options.observers(&server));
    start_as(runtime, options, Start { client, server, observers, identity: None }, open).await
}

/// What a client knows of itself before it connects.
struct Start {
    client: ClientId,
    server: String,
    /// The observers, which the store may know already.
    observers: Option<Arc<Observers>>,
    /// Who the client says that it is, if operators may see it.
    identity: Option<Identity>,
}

/// Starts a driver as [`start`] does.
async fn start_as<R, S, O>(
    runtime: &R,
    options: ConnectOptions,
    Start { client, server, observers, identity }: Start,
    open: O,
) -> Result<Arc<Handle>, ConnectError>
where
    R: Runtime + Clone,
    S: Store,
    O: AsyncFnOnce() -> Result<S, leasehold_proto::StoreError> + Send + 'static,
{
    let clock = runtime.clone();
    let timeout = options.settings.timeout;
    let engine = Engine::new(client, options.settings);
    let shared = Shared::new(engine, Process::current(), move || clock.now());
    // The locks of a client that confirms nothing have no policy, so that their calls cost nothing more.
    let replicas = Some(options.replicas.policy()).filter(|policy| *policy != Confirm::None);
    let defaults = Defaults { replicas, ..options.defaults };
    let shared = shared.of_server(&server).with(defaults).watched_by(runtime.watch()).observed_by(observers);
    let shared = shared.seen_as(identity);
    let shared = Arc::new(shared);
    let (mut tell, told) = oneshot::channel();
    let (driven, alarms) = (shared, runtime.clone());
    let driver = move || async move {
        let opened = match alarms.alarm() {
            Ok(alarm) => tokio::select! {
                biased;
                opened = open() => match opened {
                    Ok(store) => Ok((store, alarm)),
                    Err(source) => Err(ConnectError::Store { server, source }),
                },
                // The caller dropped its future, so no client is needed.
                () = tell.closed() => return,
            },
            Err(error) => Err(ConnectError::Thread(error)),
        };
        match opened {
            Ok((store, alarm)) => {
                let driving = drive(Arc::clone(&driven), store, alarm, timeout);
                // The handle travels in the answer. If the caller is gone, the handle is dropped with the answer, which
                // ends the client.
                drop(tell.send(Ok(Handle::new(Arc::clone(&driven)))));
                // The panic hook has reported a panic. The client must still end, so that no caller waits for a driver
                // that is gone.
                drop(AssertUnwindSafe(driving).catch_unwind().await);
                driven.end();
            }
            Err(error) => drop(tell.send(Err(error))),
        }
    };
    runtime.start(driver).map_err(ConnectError::Thread)?;
    match told.await {
        Ok(result) => result,
        Err(_) => Err(ConnectError::Thread(std::io::Error::other("the client's thread ended early"))),
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::time::Duration;

    use futures_util::future::join3;
    use leasehold_proto::engine::LostReason;
    use leasehold_proto::{Call, Channel, Reply, StoreError, Verb};
    use leasehold_store::{Heard, Subscription};
    use tokio::sync::mpsc::UnboundedSender;

    use super::*;
    use crate::client::Client;
    use crate::error::{AcquireErrorKind, InspectErrorKind};

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn replicas_have_a_third_of_the_timeout_of_a_call_unless_their_time_is_set() {
        let replicas = Replicas { policy: Confirm::AtLeast(1), ..Replicas::default() };
        let within = |replicas: Replicas| replicas.confirmation(Duration::from_secs(6)).within;
        assert_eq!(within(replicas), Duration::from_secs(2));
        let own = Duration::from_millis(100);
        assert_eq!(within(Replicas { within: Some(own), ..replicas }), own);
    }

    /// A store that grants `held`, panics at an inspect and answers no other call.
    struct Panicking;

    impl Store for Panicking {
        fn run(
            &self,
            call: Call,
            _timeout: Duration,
        ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
            let (verb, key) = (call.verb(), call.subject());
            async move {
                assert_ne!(verb, Verb::Inspect, "a test's store panics");
                if verb == Verb::Acquire && &*key == "held" { Ok(Reply::Nil) } else { pending().await }
            }
        }

        fn subscribe(&self, _channel: Channel, _heard: UnboundedSender<Heard>) -> Subscription {
            Subscription::new(|| {})
        }
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
    async fn a_panicking_driver_closes_the_client_and_ends_every_wait() {
        let started =
            start(&TokioRuntime, ConnectOptions::default(), String::new(), async || Ok(Panicking)).await;
        let client = Client::new(started.unwrap());
        let guard = client.lock("held").lock().await.unwrap();
        let silent = client.lock("silent");
        let all = join3(guard.lost(), silent.lock(), silent.is_locked());
        let (lost, acquired, inspected) =
            tokio::time::timeout(SOON, all).await.expect("no call waits forever");
        assert_eq!(lost, LostReason::Closed);
        assert_eq!(acquired.unwrap_err(), AcquireErrorKind::Closed);
        assert_eq!(inspected.map_err(|error| error.kind), Err(InspectErrorKind::Closed));

        // Later calls fail too.
        assert!(!guard.is_held());
        assert_eq!(silent.try_lock().await.unwrap_err(), AcquireErrorKind::Closed);
        assert_eq!(silent.is_locked().await.map_err(|error| error.kind), Err(InspectErrorKind::Closed));
        assert!(guard.release().await.is_ok_and(|released| released == crate::ReleaseOutcome::NotHeld));
        client.close().await;
    }
}
