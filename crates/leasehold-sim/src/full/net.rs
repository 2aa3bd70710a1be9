//! The streams of a process, which are streams of the simulated network behind the barriers of the process.
//!
//! Invariant: a paused process neither reads, writes nor dials. A closed stream has been reset, so bytes that the
//! server's machine has not received by then are lost, even if the network still carries them.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold_store::redis::{Address, Dial, Socket};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use turmoil::net::TcpStream;

use super::hosts::{HOST, PORT};
use super::process::Process;

/// Dials for one process.
#[derive(Debug)]
pub(super) struct Dialer(pub(super) Arc<Process>);

impl Dial for Dialer {
    fn dial<'a>(&'a self, address: &'a Address, _limit: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        debug_assert_eq!(*address, Address::Tcp { host: HOST.into(), port: PORT });
        self.dial_server().boxed()
    }

    fn jitter(&self, span: Duration) -> Duration {
        self.0.draw(|rng| span.mul_f64(0.5 + rng.f64() / 2.0))
    }
}

impl Dialer {
    pub(super) async fn dial_server(&self) -> io::Result<Socket> {
        self.0.running.passed().await;
        self.0.requests.passed().await;
        let stream = TcpStream::connect((HOST, PORT)).await?;
        let (process, resets) = (Arc::clone(&self.0), self.0.resets());
        Ok(Box::pin(Wire { address: stream.local_addr()?, stream: Some(stream), process, resets }))
    }
}

/// A stream of a process.
struct Wire {
    address: SocketAddr,
    /// The stream, taken when it is closed.
    stream: Option<TcpStream>,
    process: Arc<Process>,
    /// The number of resets of the process's streams at the time of the connect.
    resets: u64,
}

impl Wire {
    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.stream.as_mut().expect("a stream is closed by its drop"))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.process.cuts.add(self.address);
        self.stream.take().into_iter().for_each(|stream| self.process.close(stream));
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.process.running.poll_open(cx));
        if self.process.watch_resets(cx.waker()) != self.resets {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        ready!(self.process.replies.poll_open(cx));
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.process.running.poll_open(cx));
        if self.process.resets() != self.resets {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        ready!(self.process.requests.poll_open(cx));
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.process.running.poll_open(cx));
        self.stream().poll_shutdown(cx)
    }
}
