//! The login, the transport and the addresses of a blocking client.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold::blocking::Client;
use leasehold::{Address, Credentials, Dial, Socket};
use leasehold_testkit::fleets::Cluster;
use leasehold_testkit::servers::RedisServer;
use tokio::net::TcpStream;

/// A transport to one port, whatever the address.
#[derive(Debug)]
struct ToPort(u16);

impl Dial for ToPort {
    fn dial<'a>(
        &'a self,
        _: &'a Address,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        Box::pin(async { Ok(Socket::new(TcpStream::connect(("127.0.0.1", self.0)).await?)) })
    }
}

#[test]
fn a_blocking_client_has_a_login_and_a_transport_of_the_users_own() {
    let server = RedisServer::start();
    assert_eq!(server.cli(&["ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all"]), "OK");
    let builder = Client::builder().credentials(Credentials::new("app", "secret"));
    let client = builder.dialer(ToPort(server.port())).connect("redis://no-such-host.invalid").unwrap();
    let guard = client.lock("job").lock().unwrap();
    assert!(server.cli(&["CLIENT", "LIST"]).contains(" user=app "));
    guard.release().unwrap();
}

#[test]
fn a_blocking_client_translates_the_addresses_that_a_cluster_announces() {
    let cluster = Cluster::start(3, 0);
    let translated = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&translated);
    let builder = Client::builder().address_map(move |address| {
        count.fetch_add(1, Ordering::Relaxed);
        address
    });
    let client = builder.connect(&cluster.url()).unwrap();
    client.lock("job").lock().unwrap().release().unwrap();
    assert!(translated.load(Ordering::Relaxed) >= 3, "each master has an address");
}
