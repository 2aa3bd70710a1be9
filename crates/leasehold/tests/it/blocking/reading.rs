//! Who reads the replies of a blocking client: one of the threads that wait, and the client's own thread if none does.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::Duration;

use leasehold::blocking::Client;
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
