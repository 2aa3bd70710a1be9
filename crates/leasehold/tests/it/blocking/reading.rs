//! Who reads the replies of a blocking client: one of the threads that wait, and the client's own thread if none does.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::Duration;

use leasehold::blocking::Client;
use leasehold::observe::{Fact, Observer};
use leasehold::{Address, Dial, Socket};
use leasehold_testkit::servers::RedisServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::{elsewhere, eventually};

/// The threads that have read something, in order.
type Readers = Arc<Mutex<Vec<ThreadId>>>;

/// A transport that notes who reads.
#[derive(Debug)]
struct Noting {
    port: u16,
    readers: Readers,
}

impl Dial for Noting {
    fn dial<'a>(
        &'a self,
        _: &'a Address,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        Box::pin(async {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
            Ok(Socket::new(Noted { stream, readers: Arc::clone(&self.readers) }))
        })
    }
}

/// A stream that notes who reads.
#[derive(Debug)]
struct Noted {
    stream: TcpStream,
    readers: Readers,
}

impl AsyncRead for Noted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.readers.lock().unwrap().push(thread::current().id());
        }
        read
    }
}

impl AsyncWrite for Noted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn client_of(server: &RedisServer) -> (Client, Readers) {
    let readers = Readers::default();
    let transport = Noting { port: server.port(), readers: Arc::clone(&readers) };
    (Client::builder().dialer(transport).connect("redis://no-such-host.invalid").unwrap(), readers)
}

/// Acquires and releases, and returns the threads that read meanwhile.
fn pair(client: &Client, readers: &Readers) -> Vec<ThreadId> {
    readers.lock().unwrap().clear();
    client.lock("job").lock().unwrap().release().unwrap();
    readers.lock().unwrap().clone()
}

#[test]
fn a_thread_that_waits_reads_its_own_reply() {
    let server = RedisServer::start();
    let (client, readers) = client_of(&server);
    let here = thread::current().id();
    let reads_itself = || pair(&client, &readers).iter().all(|reader| *reader == here);
    eventually("the caller's thread to read", reads_itself);
    // A reply for which nobody waits is read by the client's own thread, and the next wait reads for itself again.
    drop(client.lock("dropped").lock().unwrap());
    eventually("the release", || server.cli(&["EXISTS", "dropped"]) == "0");
    eventually("the caller's thread to read again", reads_itself);
}

#[test]
fn a_thread_that_waits_reads_for_the_others_until_it_leaves() {
    let server = RedisServer::start();
    let (client, readers) = client_of(&server);
    let other = Client::connect(&server.url()).unwrap();
    let held = other.lock("held").lock().unwrap();
    let waiting = {
        let client = client.clone();
        thread::spawn(move || client.lock("held").lock().unwrap().release().unwrap())
    };
    let waiter = waiting.thread().id();
    eventually("the waiter to read for this thread", || pair(&client, &readers).contains(&waiter));
    held.release().unwrap();
    elsewhere(move || waiting.join().unwrap());
    let here = thread::current().id();
    eventually("this thread to read again", || pair(&client, &readers).iter().all(|reader| *reader == here));
}

/// An observer that waits for something on a runtime of its own, as a synchronous database client does.
#[derive(Default)]
struct Stores(AtomicUsize);

impl Observer for Stores {
    fn fact(&self, _: &Fact<'_>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {});
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn an_observer_of_a_thread_may_block_on_a_runtime_of_its_own() {
    let server = RedisServer::start();
    let stores = Arc::new(Stores::default());
    let client = Client::builder().observer(Arc::clone(&stores)).connect(&server.url()).unwrap();
    for _ in 0..20 {
        client.lock("job").lock().unwrap().release().unwrap();
    }
    // A panic of the observer would have ended what it is told.
    eventually("the facts", || stores.0.load(Ordering::SeqCst) >= 40);
}

/// A transport with something of the user's in it.
#[derive(Debug)]
struct Keeps(u16, #[expect(dead_code, reason = "its drop is what counts")] Arc<()>);

impl Dial for Keeps {
    fn dial<'a>(
        &'a self,
        _: &'a Address,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>> {
        Box::pin(async { Ok(Socket::new(TcpStream::connect(("127.0.0.1", self.0)).await?)) })
    }
}

#[test]
fn a_client_that_is_gone_keeps_nothing_of_the_user() {
    let server = RedisServer::start();
    let kept = Arc::new(());
    let transport = Keeps(server.port(), Arc::clone(&kept));
    let client = Client::builder().dialer(transport).connect("redis://no-such-host.invalid").unwrap();
    client.lock("job").lock().unwrap().release().unwrap();
    drop(client);
    // Nobody waits any more, so nobody drives the runtime of the readers.
    eventually("the end of the client", || Arc::strong_count(&kept) == 1);
}
