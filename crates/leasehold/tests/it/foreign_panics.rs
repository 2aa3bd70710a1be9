//! Panics of the application's code on the client's threads: its dialers, their streams, and its wakers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold::{Address, Client, Dial, Socket};
use leasehold_testkit::servers::RedisServer;
use leasehold_testkit::wait::eventually;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(20);

type Dialed<'a> = Pin<Box<dyn Future<Output = io::Result<Socket>> + Send + 'a>>;

/// A transport over TCP that panics when it is told to.
#[derive(Clone, Debug, Default)]
struct Panics {
    /// The number of further dials that panic, on the call and then in its future in turn.
    dials: Arc<AtomicUsize>,
    /// True if the next read panics.
    reads: Arc<AtomicBool>,
}

impl Dial for Panics {
    fn dial<'a>(&'a self, address: &'a Address, _: Duration) -> Dialed<'a> {
        let left = self.dials.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err() || left.is_ok_and(|left| left % 2 == 0), "a bug of the dialer");
        Box::pin(async move {
            assert!(left.is_err(), "a bug in the dialer's future");
            let stream = TcpStream::connect(address.to_string()).await?;
            Ok(Socket::new(Grenade { stream, reads: Arc::clone(&self.reads) }))
        })
    }
}

/// A stream that panics when it is told to.
struct Grenade {
    stream: TcpStream,
    reads: Arc<AtomicBool>,
}

impl AsyncRead for Grenade {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        assert!(!self.reads.swap(false, Ordering::Relaxed), "a bug of the stream");
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Grenade {
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

/// Waits for a lock, which needs a connection.
async fn works(client: &Client) {
    let lock = client.lock("works");
    let granted = lock.try_lock_for(LIMIT).await.expect("the client lives");
    granted.expect("the lock is free").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_dialer_or_a_stream_ends_one_attempt_and_not_the_client() {
    let server = RedisServer::start();
    let panics = Panics::default();
    let client = Client::builder().dialer(panics.clone()).connect(&server.url()).await.unwrap();
    let kept = client.lock("kept").lock().await.unwrap();
    works(&client).await;
    panics.dials.store(4, Ordering::Relaxed);
    let _ = server.cli(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    eventually(LIMIT, "each dial to panic", || panics.dials.load(Ordering::Relaxed) == 0);
    works(&client).await;
    panics.reads.store(true, Ordering::Relaxed);
    works(&client).await;
    assert!(!panics.reads.load(Ordering::Relaxed) && kept.is_held());
    kept.release().await.unwrap();
}

/// A waker that panics.
struct Bomb(Arc<AtomicUsize>);

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        panic!("a bug of the executor");
    }
}

#[test]
fn a_panic_of_a_waker_ends_no_client() {
    let server = RedisServer::start();
    let connecting = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The runtime of the connect ends, so that the client's own thread wakes the callers.
    let client = connecting().block_on(Client::connect(&server.url())).unwrap();
    let bombs = Arc::new(AtomicUsize::new(0));
    let waker = Waker::from(Arc::new(Bomb(Arc::clone(&bombs))));
    let (lock, asked) = (client.lock("bomb"), client.lock("asked"));
    let mut acquire = Box::pin(lock.try_lock());
    let mut question = Box::pin(asked.is_locked());
    assert!(acquire.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    eventually(LIMIT, "the grant to wake its caller", || bombs.load(Ordering::Relaxed) == 1);
    assert!(question.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    eventually(LIMIT, "the answer to wake its caller", || bombs.load(Ordering::Relaxed) == 2);
    connecting().block_on(works(&client));
    let granted = acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(granted, Poll::Ready(Ok(Some(_)))), "{granted:?}");
}
