//! The server's end of a stream, behind the server's barrier.
//!
//! Invariant: bytes that arrive count as received, even while the server is frozen. A stream that breaks withdraws no
//! received bytes, so the server executes them, even if its reply reaches no client.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::barrier::Barrier;
use super::cuts::Cuts;

/// The server's end of a stream.
pub(super) struct ServerSocket<S> {
    stream: S,
    /// The address of the other end.
    peer: SocketAddr,
    cuts: Cuts,
    /// Closed while the server is frozen.
    barrier: Barrier,
    received: Vec<u8>,
    ended: bool,
}

impl<S: AsyncRead + Unpin> ServerSocket<S> {
    pub(super) const fn new(stream: S, peer: SocketAddr, cuts: Cuts, barrier: Barrier) -> Self {
        Self { stream, peer, cuts, barrier, received: Vec::new(), ended: false }
    }

    /// Takes the bytes that have arrived. Reads and writes of the listener both call it, and the listener wakes when
    /// more bytes arrive.
    fn receive(&mut self, cx: &mut Context<'_>) {
        let mut space = [0; 4096];
        while !self.ended {
            if self.cuts.has(self.peer) {
                self.ended = true;
                return;
            }
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return,
                Poll::Ready(read) => self.ended = read.is_err() || buffer.filled().is_empty(),
            }
            self.received.extend_from_slice(buffer.filled());
        }
    }
}

impl<S> Drop for ServerSocket<S> {
    fn drop(&mut self) {
        self.cuts.remove(self.peer);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ServerSocket<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.receive(cx);
        ready!(self.barrier.poll_open(cx));
        if self.received.is_empty() && !self.ended {
            return Poll::Pending;
        }
        let length = self.received.len().min(buffer.remaining());
        buffer.put_slice(&self.received[..length]);
        self.received.drain(..length);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ServerSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.receive(cx);
        ready!(self.barrier.poll_open(cx));
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        // The peer has gone. The server still executes all requests that it has received.
        Poll::Ready(Ok(written.unwrap_or(bytes.len())))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.barrier.poll_open(cx));
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[test]
    fn input_that_arrived_at_a_closed_barrier_is_read_after_a_broken_stream() {
        let (mut near, far) = duplex(64);
        let (barrier, cuts) = (Barrier::default(), Cuts::default());
        let peer = SocketAddr::from(([10, 0, 0, 1], 1));
        let mut server_socket = ServerSocket::new(far, peer, cuts.clone(), barrier.clone());
        let mut heard = Vec::new();
        barrier.close();
        near.write_all(b"before").now_or_never().unwrap().unwrap();
        assert!(server_socket.write_all(b"reply").now_or_never().is_none(), "nothing is answered");
        near.write_all(b"after").now_or_never().unwrap().unwrap();
        cuts.add(peer);
        assert!(server_socket.read_to_end(&mut heard).now_or_never().is_none(), "nothing is read");
        drop(near);
        barrier.open();
        server_socket.write_all(b"reply").now_or_never().unwrap().unwrap();
        server_socket.read_to_end(&mut heard).now_or_never().unwrap().unwrap();
        assert_eq!(heard, b"before", "what had not been received is lost");
    }
}
