//! Transports of the user's own, and translated addresses.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::{Address, Client, Dial, Socket};
use leasehold_testkit::fleets::Cluster;
use leasehold_testkit::servers::RedisServer;
use tokio::net::{TcpStream, UnixStream};

type Dialed<'a> = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>>;

/// A transport through a unix socket, whatever the address.
#[derive(Debug)]
struct Tunnel {
    path: PathBuf,
    dials: Arc<AtomicUsize>,
}

impl Dial for Tunnel {
    fn dial<'a>(&'a self, address: &'a Address, _: Duration) -> Dialed<'a> {
        assert_eq!(address.to_string(), "no-such-host.invalid:6379");
        self.dials.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Socket::new(UnixStream::connect(&self.path).await?)) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_work_through_a_tunnel() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("redis.sock");
    let server = RedisServer::with(&["--unixsocket", path.to_str().unwrap()]);
    let dials = Arc::new(AtomicUsize::new(0));
    let tunnel = || Tunnel { path: path.clone(), dials: Arc::clone(&dials) };
    let url = "redis://no-such-host.invalid";
    let one = Client::builder().dialer(tunnel()).connect(url).await.unwrap();
    let other = Client::builder().dialer(tunnel()).lazy().connect(url).await.unwrap();
    assert_eq!(dials.load(Ordering::Relaxed), 1, "a lazy client has not dialed");
    let guard = one.lock("job").lock().await.unwrap();
    let waiter = tokio::spawn(async move { other.lock("job").lock().await });
    leasehold_testkit::wait::eventually(Duration::from_secs(20), "the waiter listens", || {
        server.cli(&["PUBSUB", "NUMSUB", "redisson_lock__channel:{job}"]).ends_with('1')
    });
    guard.release().await.unwrap();
    drop(waiter.await.unwrap().unwrap());
    assert!((3..=4).contains(&dials.load(Ordering::Relaxed)), "two connections of each client at most");
}

/// A transport that is never there.
#[derive(Debug)]
struct Broken;

impl Dial for Broken {
    fn dial<'a>(&'a self, _: &'a Address, _: Duration) -> Dialed<'a> {
        Box::pin(async { Err(io::Error::other("the tunnel is down")) })
    }
}

#[tokio::test]
async fn the_error_of_a_dialer_is_that_of_the_connect() {
    let error = Client::builder().dialer(Broken).connect("redis://nowhere.invalid").await.unwrap_err();
    let leasehold::ConnectError::Store { source, .. } = &error else { panic!("{error}") };
    assert!(source.reason().to_string().contains("the tunnel is down"), "{}", source.reason());
}

/// A transport that knows the nodes of a cluster by names that no resolver has.
#[derive(Debug)]
struct ByName;

impl Dial for ByName {
    fn dial<'a>(&'a self, address: &'a Address, _: Duration) -> Dialed<'a> {
        Box::pin(async move {
            let Address::Tcp { host, port } = address else { return Err(io::ErrorKind::Unsupported.into()) };
            assert_eq!(host, "node.invalid");
            Ok(Socket::new(TcpStream::connect(("127.0.0.1", *port)).await?))
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn announced_addresses_are_translated() {
    let cluster = Cluster::start(3, 0);
    let builder = Client::builder().dialer(ByName).address_map(|announced| match announced {
        Address::Tcp { port, .. } => Address::Tcp { host: "node.invalid".to_owned(), port },
        other => other,
    });
    let client = builder.connect(&cluster.url().replace("127.0.0.1", "node.invalid")).await.unwrap();
    for number in 0..12 {
        client.lock(format!("job:{number}")).lock().await.unwrap().release().await.unwrap();
    }
}
