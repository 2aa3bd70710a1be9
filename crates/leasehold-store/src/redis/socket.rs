//! The byte streams under a store's connections, and the dialers that open them.
//!
//! Invariant: a real stream is closed with a reset, so the network never delivers bytes that the server's machine has
//! not received by then. (A unix socket has no such gap, because a written byte is received.)

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::runtime::Handle;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
use tokio_rustls::client::TlsStream;

use super::transport::{ByteStream, ResetOnDrop, Transport};
use crate::tokio_runtime::{random, within};
use crate::url::Address;

/// The silence after which the system probes the other side. With the probes below, a vanished server breaks its
/// connection within 19 s instead of the system's two hours.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
/// The time between two probes, and the number of unanswered probes after which the connection counts as broken.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;
/// The time for which sent bytes may stay unacknowledged before the connection counts as broken.
#[cfg(any(target_os = "linux", target_os = "android"))]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// A byte stream to a server.
pub struct Socket {
    kind: Kind,
    /// The address at which the stream leaves this machine as it is, if that is known.
    in_plain_text_to: Option<IpAddr>,
}

enum Kind {
    Plain(Transport),
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    Tls(Box<TlsStream<Transport>>),
}

impl Socket {
    /// Makes a socket of a stream that works on every runtime.
    pub fn new(stream: impl ByteStream + 'static) -> Self {
        Self::of(Kind::Plain(Transport::Other(Box::pin(stream))))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, in_plain_text_to: None }
    }

    /// States that the network carries the bytes of the stream to this address as they are, as the client's own transport
    /// does. A client with a password then warns once if the address is neither of this machine nor private, unless the
    /// URL begins with `rediss`. Warnings need the feature `tracing`.
    ///
    /// # Examples
    /// ```
    /// use std::io;
    ///
    /// use leasehold_store::redis::Socket;
    /// use tokio::net::TcpStream;
    ///
    /// async fn open(server: &str) -> io::Result<Socket> {
    ///     let stream = TcpStream::connect(server).await?;
    ///     let peer = stream.peer_addr()?;
    ///     Ok(Socket::new(stream).in_plain_text_to(peer.ip()))
    /// }
    /// ```
    #[must_use]
    pub const fn in_plain_text_to(mut self, address: IpAddr) -> Self {
        self.in_plain_text_to = Some(address);
        self
    }

    /// Returns the address to which the network carries the stream as it is.
    pub(super) const fn plain_peer(&self) -> Option<IpAddr> {
        self.in_plain_text_to
    }

    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(super) fn encrypted(stream: TlsStream<Transport>) -> Self {
        Self::of(Kind::Tls(Box::new(stream)))
    }

    /// Returns the stream of the socket, to be encrypted.
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    pub(super) fn into_transport(self) -> Transport {
        match self.kind {
            Kind::Plain(transport) => transport,
            Kind::Tls(stream) => Transport::Other(Box::pin(stream)),
        }
    }

    pub(super) fn stream(&mut self) -> Pin<&mut dyn ByteStream> {
        match &mut self.kind {
            Kind::Plain(transport) => Pin::<&mut Transport>::new(transport),
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            Kind::Tls(stream) => Pin::<&mut TlsStream<Transport>>::new(stream),
        }
    }

    /// Moves the stream to another runtime, as [`Transport::move_to`] does. The state of the encryption stays.
    pub(super) fn move_to(&mut self, runtime: &Handle) -> io::Result<()> {
        match &mut self.kind {
            Kind::Plain(transport) => transport.move_to(runtime),
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            Kind::Tls(stream) => stream.get_mut().0.move_to(runtime),
        }
    }

    /// Returns true if the stream may have bytes that nobody has read, or has ended. A stream that was read to its end
    /// has no bytes that are decrypted and not read.
    pub(super) fn has_bytes(&self) -> bool {
        match &self.kind {
            Kind::Plain(transport) => transport.has_bytes(),
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            Kind::Tls(stream) => stream.get_ref().0.has_bytes(),
        }
    }

    /// Explains the first error of a stream that has brought no byte, if it means that the server refuses the client.
    #[cfg_attr(
        not(any(feature = "tls-ring", feature = "tls-aws-lc")),
        expect(unused_variables, reason = "a plain stream has no such error")
    )]
    pub(super) fn refusal(&self, error: &io::Error) -> Option<io::Error> {
        match &self.kind {
            Kind::Plain(_) => None,
            #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
            Kind::Tls(_) => super::tls_alert::refusal(error),
        }
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Socket")
    }
}

/// A transport: it opens a stream of bytes to the address of a server, for example through a tunnel, to a vsock, or by the
/// connector of a cloud. Encryption, the login and everything else are above it.
///
/// The client opens two streams for each server, one for commands and one for subscriptions, and short ones to find the
/// servers of a fleet. It shares them with nobody, because a call that runs out of time closes its stream.
///
/// # Closing
/// The client closes a stream by dropping it. Over TCP, the client's own transport sends a reset, so that bytes which the
/// server's machine has not received are gone. A transport without a reset may deliver them later: an acquire that timed
/// out can then take the lock after its caller has left. The client asks the server to undo that acquire, but over
/// another stream, so the late call can arrive after its undo. The lock is then taken until its lease ends, though
/// nobody holds it. No lock is granted twice by that. So let the drop end the stream at once, and discard what was not
/// delivered. Also let a stream whose peer is silent end with an error, as TCP's keepalive does. Otherwise only a call that
/// runs out of time ends it.
///
/// # Plain text
/// The client cannot know how a transport protects the bytes. A transport that does not may say so with
/// [`Socket::in_plain_text_to`], so that the client warns of a password.
///
/// # Determinism
/// Simulators and fuzzers bring a dialer too, which makes a run repeatable, because the store's only other source of
/// nondeterminism is the clock of its tokio runtime.
///
/// # Examples
/// ```
/// use std::future::Future;
/// use std::io;
/// use std::pin::Pin;
/// use std::time::Duration;
///
/// use leasehold_store::redis::{Dial, Socket};
/// use leasehold_store::url::Address;
///
/// /// All servers are behind one socket of a tunnel.
/// #[derive(Debug)]
/// struct Tunnel;
///
/// impl Dial for Tunnel {
///     fn dial<'a>(
///         &'a self,
///         address: &'a Address,
///         _limit: Duration,
///     ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
///         Box::pin(async move {
///             println!("to {address}");
///             Ok(Socket::new(tokio::net::UnixStream::connect("/run/tunnel.sock").await?))
///         })
///     }
/// }
/// ```
pub trait Dial: fmt::Debug + Send + Sync + 'static {
    /// Opens a stream. The caller gives up after `limit` by dropping the future. It runs on the thread of the client,
    /// which has a tokio runtime and renews the locks, so it must not block.
    ///
    /// # Errors
    /// The attempt to connect has failed, and the client tries again after a pause of up to half a second, as long as
    /// calls want the server.
    fn dial<'a>(&'a self, address: &'a Address, limit: Duration) -> BoxFuture<'a, io::Result<Socket>>;

    /// Returns a random number, which decides the jitter of the store's pauses, so that clients that failed together do
    /// not come back together.
    fn seed(&self) -> u64 {
        random()
    }
}

/// The operating system's sockets and random numbers.
#[derive(Clone, Debug)]
pub(super) struct RealSockets;

impl Dial for RealSockets {
    fn dial<'a>(&'a self, address: &'a Address, limit: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        dial(address, limit).boxed()
    }
}

/// Opens a stream. It resolves a host name again each time and tries all its addresses, each for an equal share of
/// `limit`, so that an address that swallows packets does not hide the others.
async fn dial(address: &Address, limit: Duration) -> io::Result<Socket> {
    let (host, port) = match address {
        Address::Tcp { host, port } => (host.as_str(), *port),
        Address::Unix { path } => {
            return Ok(Socket::of(Kind::Plain(Transport::Unix(UnixStream::connect(path).await?))));
        }
    };
    let addresses: Vec<SocketAddr> = lookup_host((host, port)).await?.collect();
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for resolved in addresses {
        match within(share, TcpStream::connect(resolved)).await {
            Some(Ok(stream)) => {
                configure(&stream)?;
                let socket = Socket::of(Kind::Plain(Transport::Tcp(ResetOnDrop::new(stream))));
                return Ok(socket.in_plain_text_to(resolved.ip()));
            }
            Some(Err(error)) => failure = error,
            None => failure = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failure)
}

fn configure(stream: &TcpStream) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    // A linger of zero makes closing send a reset and drop the unsent bytes without blocking.
    socket.set_linger(Some(Duration::ZERO))?;
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_RETRIES);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED_MAX))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::net::TcpListener;

    use super::super::{ConnectOptions, Redis};
    use super::*;
    use crate::url::ServerUrl;

    /// A stream whose other end has already sent a PONG. The dialer keeps the other end.
    #[derive(Debug, Default)]
    struct Duplex(Arc<Mutex<Option<DuplexStream>>>);

    impl Dial for Duplex {
        fn dial<'a>(&'a self, _: &'a Address, _: Duration) -> BoxFuture<'a, io::Result<Socket>> {
            async {
                let (here, mut there) = duplex(1 << 14);
                there.write_all(b"+PONG\r\n-ERR unknown command\r\n:0\r\n:1\r\n").await?;
                *self.0.lock().unwrap() = Some(there);
                Ok(Socket::new(here))
            }
            .boxed()
        }

        fn seed(&self) -> u64 {
            7
        }
    }

    #[tokio::test]
    async fn a_store_connects_through_the_given_connector() {
        let url = ServerUrl::parse("redis://no-such-host.invalid").unwrap();
        assert!(
            Redis::connect_through(&url, ConnectOptions::default(), Arc::new(Duplex::default()))
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn a_stream_resets_on_close_and_detects_a_dead_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        configure(&stream).unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.tcp_nodelay().unwrap());
        assert_eq!(socket.linger().unwrap(), Some(Duration::ZERO));
        assert!(socket.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(UNACKNOWLEDGED_MAX));
    }

    #[tokio::test]
    async fn a_stream_resets_on_close_although_another_process_has_its_descriptor() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let Ok(SocketAddr::V4(to)) = listener.local_addr() else { panic!("an IPv4 address") };
        let address = Address::Tcp { host: to.ip().to_string(), port: to.port() };
        let socket = dial(&address, Duration::from_secs(20)).await.unwrap();
        let (mut server, _) = listener.accept().await.unwrap();
        let Kind::Plain(Transport::Tcp(stream)) = &socket.kind else { panic!("a TCP stream") };
        // The copy that a forked child has of each descriptor.
        let copy = SockRef::from(stream.get()).try_clone().unwrap();
        drop(socket);
        let mut byte = [0];
        let read = within(Duration::from_secs(20), server.read(&mut byte));
        let error = read.await.expect("a reset arrives while the copy lives").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        drop(copy);
    }

    #[tokio::test]
    async fn a_refused_address_does_not_hide_the_next() {
        // The name has an IPv6 and an IPv4 address on most machines. Only the IPv4 address listens.
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let localhost = Address::Tcp { host: "localhost".into(), port };
        let socket = dial(&localhost, Duration::from_secs(20)).await.unwrap();
        assert_eq!(socket.plain_peer(), Some([127, 0, 0, 1].into()));
        drop(listener);
        let refused = dial(&localhost, Duration::from_secs(20)).await.map(drop);
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
