//! The sockets of a client: streams of the simulated network.
//!
//! Invariant: a socket is read in the pieces that the seed decides, and its drop is a reset.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use leasehold_store::redis::{Dial, Socket};
use leasehold_store::url::Address;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fleet::node_of;
use super::net::Net;
use super::stream::{Happened, StreamId};

/// The transport of a client of one process.
pub(super) struct SimDialer {
    /// The network of each server, in the order of their numbers.
    pub(super) nets: Arc<[Net]>,
    pub(super) process: usize,
    /// Decides the jitter of the client, and the pieces in which it reads.
    pub(super) rng: Mutex<Rng>,
}

impl SimDialer {
    fn rng(&self) -> Rng {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).fork()
    }
}

impl Dial for SimDialer {
    fn dial<'a>(&'a self, address: &'a Address, _limit: Duration) -> BoxFuture<'a, io::Result<Socket>> {
        async {
            let net = self.nets[node_in(address)].clone();
            let id = net.dial(self.process);
            let stream = SimStream { net, process: self.process, id, unread: Vec::new(), rng: self.rng() };
            stream.connected().await?;
            Ok(Socket::new(stream))
        }
        .boxed()
    }

    fn seed(&self) -> u64 {
        self.rng().u64(..)
    }
}

impl fmt::Debug for SimDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimDialer")
    }
}

/// Returns the number of the server at an address.
fn node_in(address: &Address) -> usize {
    match address {
        Address::Tcp { host, .. } => node_of(host).expect("the world names its servers"),
        Address::Unix { .. } => unreachable!("no server of a world has a path"),
    }
}

/// A process's end of a stream.
struct SimStream {
    net: Net,
    process: usize,
    id: StreamId,
    /// The bytes that have arrived and that the client has not read.
    unread: Vec<u8>,
    rng: Rng,
}

impl SimStream {
    async fn connected(&self) -> io::Result<()> {
        let happened = poll_fn(|cx| self.net.poll_happened(self.id, cx.waker())).await;
        match happened {
            Happened::Connected => Ok(()),
            Happened::Refused => Err(io::ErrorKind::ConnectionRefused.into()),
            Happened::Bytes(_) | Happened::Closed => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl AsyncRead for SimStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut most = buffer.remaining();
        if self.unread.is_empty() {
            match self.net.poll_happened(self.id, cx.waker()) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Happened::Bytes(bytes)) => self.unread = bytes,
                Poll::Ready(_) => return Poll::Ready(Ok(())),
            }
            self.net.server.hear(self.process);
            if self.rng.u8(0..8) == 0 {
                let length = self.unread.len();
                most = most.min(self.rng.usize(1..=length));
            }
        }
        let length = self.unread.len().min(most);
        buffer.put_slice(&self.unread[..length]);
        self.unread.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for SimStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.net.write(self.id, bytes) {
            0 => {
                self.net.wake_later(self.id, cx.waker());
                Poll::Pending
            }
            count => Poll::Ready(Ok(count)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Drop for SimStream {
    fn drop(&mut self) {
        self.net.hang_up(self.id);
    }
}
