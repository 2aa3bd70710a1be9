//! The options of a store's connections. The client builder fills them in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::credentials_provider::{CredentialsProvider, CredentialsSource};
use super::foreign::guarded_value;
use super::notices::{ConnectionNotice, MissingNotice, PlainTextNotice};
use super::peer::Peer;
use super::socket::{Dial, RealSockets};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use super::tls::{Encrypted, SentinelTls, Tls};
use crate::confirm::Confirmation;
use crate::sharding::ShardedPubsub;
use crate::url::{Address, ServerUrl};

/// The most calls in one batch. A batch of this size keeps the server from other clients for about 0.1 ms.
const BATCH_ROWS: usize = 64;
/// The commands in flight behind which calls gather. With two, each side slept while the other worked, and 8 tasks in a
/// virtual machine lost a third of their rate.
const AT_ONCE: usize = 8;

/// The options of a connection to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The longest duration of one attempt to connect: name lookup, dialing and login together. The default is five
    /// seconds.
    pub timeout: Duration,
    /// The channels that carry wake-ups in a cluster.
    pub sharded_pubsub: ShardedPubsub,
    /// The name of the connections in `CLIENT LIST`, in printable ASCII without spaces, or `None`, the default.
    pub client_name: Option<Arc<str>>,
    /// True if connections speak RESP3 with a server that offers it, the default, and RESP2 with other servers.
    pub resp3: bool,
    /// The most calls that travel as one command, by default 64. They have at most two scripts. With 1 each call is a
    /// command.
    pub batch_rows: usize,
    /// The number of commands in flight behind which calls gather until the next reply, to share commands, by default 8.
    /// Behind fewer, a call is written at once. If the server is near, 4 to 7 commands are enough for calls to gather.
    pub at_once: usize,
    /// The tokio runtime of the callers, or `None`, the default. It reads the replies to their calls while it is in time,
    /// which saves a switch of threads. A reply that it leaves for 20 ms is read by the store's own runtime. A runtime
    /// without I/O panics in a task of its own, which is caught, and then reads nothing.
    pub callers: Option<Handle>,
    /// The replicas that must acknowledge acquires, renewals and fenced writes. The default is none, except for calls with
    /// a policy of their own.
    pub confirmation: Confirmation,
    /// The translation of the addresses that sentinels and clusters announce, or `None`, the default.
    pub address_map: Option<AddressMap>,
    /// The source of the login, or `None`, the default, for the URL's.
    pub credentials: Option<CredentialsSource>,
    /// The source of the login at the sentinels, or `None`, the default, for the URL's.
    pub sentinel_credentials: Option<CredentialsSource>,
    /// The notice of a password in plain text, or `None`, the default. A dialer of the user's own says which of its streams
    /// are plain text, by [`Socket::in_plain_text_to`](super::Socket::in_plain_text_to).
    pub plain_text_notice: Option<PlainTextNotice>,
    /// The notice that the first replicas are missing, or `None`, the default.
    pub missing_notice: Option<MissingNotice>,
    /// The notice of connections that open and end, or `None`, the default.
    pub connection_notice: Option<ConnectionNotice>,
    /// The transport, or `None`, the default, for the sockets of the operating system.
    pub dialer: Option<Arc<dyn Dial>>,
    /// The certificates and rules of encrypted connections, which a URL with `rediss` asks for.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub tls: Tls,
    /// The encryption of connections to sentinels, by default the same as of connections to servers.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub sentinel_tls: SentinelTls,
}

/// A translation of the addresses that servers announce into those under which the client reaches them.
#[derive(Clone)]
pub struct AddressMap(Arc<dyn Fn(Address) -> Address + Send + Sync>);

impl AddressMap {
    /// Creates a translation. It is called under the lock of the store, so it must neither block nor call the store. An
    /// address for which it panics stays as it is.
    pub fn new(map: impl Fn(Address) -> Address + Send + Sync + 'static) -> Self {
        Self(Arc::new(map))
    }
}

impl fmt::Debug for AddressMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressMap")
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            sharded_pubsub: ShardedPubsub::Auto,
            client_name: None,
            resp3: true,
            batch_rows: BATCH_ROWS,
            at_once: AT_ONCE,
            callers: None,
            confirmation: Confirmation::default(),
            address_map: None,
            credentials: None,
            sentinel_credentials: None,
            plain_text_notice: None,
            missing_notice: None,
            connection_notice: None,
            dialer: None,
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            tls: Tls::new(),
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            sentinel_tls: SentinelTls::AsServers,
        }
    }
}

impl ConnectOptions {
    /// Returns the address under which the client reaches the server of an announced address.
    pub(super) fn mapped(&self, address: Address) -> Address {
        match &self.address_map {
            // An announced address belongs to the right server, even if the client cannot reach it.
            Some(AddressMap(map)) => guarded_value(|| map(address.clone())).unwrap_or(address),
            None => address,
        }
    }

    /// Sets the replicas that must acknowledge acquires, renewals and fenced writes.
    #[must_use]
    pub const fn confirmation(mut self, confirmation: Confirmation) -> Self {
        self.confirmation = confirmation;
        self
    }

    /// Translates the addresses that sentinels and clusters announce.
    #[must_use]
    pub fn address_map(mut self, map: Option<AddressMap>) -> Self {
        self.address_map = map;
        self
    }

    /// Returns the transport.
    pub(super) fn dialer(&mut self) -> Arc<dyn Dial> {
        self.dialer.take().unwrap_or_else(|| Arc::new(RealSockets))
    }

    /// Returns the transport to the servers of a URL, or to its sentinels, encrypted if the URL or these options say so.
    #[cfg_attr(
        not(any(feature = "tls-ring", feature = "tls-aws-lc")),
        expect(unused_variables, reason = "such a build encrypts nothing")
    )]
    pub(super) fn secured(&self, dialer: Arc<dyn Dial>, url: &ServerUrl, peer: Peer) -> Arc<dyn Dial> {
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        if let Some(tls) = self.tls_to(url, peer) {
            return Arc::new(Encrypted::new(dialer, tls.clone()));
        }
        dialer
    }

    /// Returns the certificates and rules of the connections to such a peer of a URL, if they are encrypted.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn tls_to(&self, url: &ServerUrl, peer: Peer) -> Option<&Tls> {
        match (peer, &self.sentinel_tls) {
            (Peer::Sentinel, SentinelTls::PlainText) => None,
            (Peer::Sentinel, SentinelTls::Own(tls)) => Some(tls),
            _ => url.tls().then_some(&self.tls),
        }
    }

    /// Returns true if whoever answers for a sentinel chooses the name that the certificate of a server must have: the
    /// sentinels are asked in plain text, and what the operating system trusts has a certificate for any name.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn trusts_names_in_plain_text(&self, url: &ServerUrl) -> bool {
        url.is_sentinel()
            && self.tls_to(url, Peer::Sentinel).is_none()
            && self.tls_to(url, Peer::Server).is_some_and(Tls::accepts_any_name)
    }

    /// Returns true if the connections to such a peer of a URL log in.
    #[must_use]
    pub fn logs_in(&self, url: &ServerUrl, peer: Peer) -> bool {
        self.login_source(peer).is_some() || peer.login(url).is_some()
    }

    /// Returns the source of the login, if it is not in the URL.
    pub(super) const fn login_source(&self, peer: Peer) -> Option<&CredentialsSource> {
        match peer {
            Peer::Server => self.credentials.as_ref(),
            Peer::Sentinel => self.sentinel_credentials.as_ref(),
        }
    }

    /// Returns the notice of a password in plain text, if there is a password for this peer.
    pub(super) fn notice_of_login(&self, url: &ServerUrl, peer: Peer) -> Option<PlainTextNotice> {
        self.plain_text_notice.clone().filter(|_| self.logs_in(url, peer))
    }

    /// Sets the notice of a password in plain text.
    #[must_use]
    pub fn plain_text_notice(mut self, notice: Option<PlainTextNotice>) -> Self {
        self.plain_text_notice = notice;
        self
    }

    /// Sets the source of the login, which replaces the URL's.
    #[must_use]
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.credentials = Some(CredentialsSource::new(provider));
        self
    }

    /// Sets the source of the login at the sentinels, which replaces the URL's.
    #[must_use]
    pub fn sentinel_credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.sentinel_credentials = Some(CredentialsSource::new(provider));
        self
    }

    /// Sets the timeout of one attempt.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the channels that carry wake-ups in a cluster.
    #[must_use]
    pub const fn sharded_pubsub(mut self, sharded_pubsub: ShardedPubsub) -> Self {
        self.sharded_pubsub = sharded_pubsub;
        self
    }

    /// Sets a name for the connections. The store uses a server that refuses the name all the same.
    #[must_use]
    pub fn client_name(mut self, name: Option<Arc<str>>) -> Self {
        self.client_name = name;
        self
    }

    /// Chooses between RESP3, where the server offers it, and RESP2 on all connections.
    #[must_use]
    pub const fn resp3(mut self, resp3: bool) -> Self {
        self.resp3 = resp3;
        self
    }

    /// Sets the most calls that travel as one command.
    #[must_use]
    pub const fn batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// Sets the number of commands in flight behind which calls gather.
    #[must_use]
    pub const fn at_once(mut self, commands: usize) -> Self {
        self.at_once = commands;
        self
    }

    /// Sets the certificates and rules of encrypted connections.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sets the encryption of the connections to sentinels.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    #[must_use]
    pub fn sentinel_tls(mut self, tls: SentinelTls) -> Self {
        self.sentinel_tls = tls;
        self
    }

    /// Sets the tokio runtime of the callers.
    #[must_use]
    pub fn callers(mut self, runtime: Option<Handle>) -> Self {
        self.callers = runtime;
        self
    }
}
