//! The byte stream below TLS.
//!
//! Invariant: the stream can move to another runtime while it is in use, although its owner never moves. So an
//! encrypted stream can move too.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Empty, ReadBuf, empty};
use tokio::net::{TcpStream, UnixStream};
use tokio::runtime::Handle;

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> ByteStream for S {}

/// A stream of bytes, as the network or a dialer gives it.
pub(super) enum Transport {
    Tcp(ResetOnDrop),
    Unix(UnixStream),
    /// A stream that belongs to no runtime.
    Other(Pin<Box<dyn ByteStream>>),
    /// What a move that failed has left.
    Closed(Empty),
}

/// A TCP stream whose drop resets the connection, whoever else has its descriptor.
///
/// A closed descriptor resets nothing while a child of this process, forked without an exec, has a copy of it: the bytes of
/// an abandoned acquire then still reach the server. Disconnecting the socket resets the connection itself.
pub(super) struct ResetOnDrop {
    /// The stream, which only a move to another runtime takes.
    stream: Option<TcpStream>,
    /// The process that has opened it. A forked child must not reset the connection of its parent.
    process: u32,
}

impl ResetOnDrop {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self { stream: Some(stream), process: std::process::id() }
    }

    pub(super) fn get(&self) -> &TcpStream {
        self.stream.as_ref().expect("only a move takes the stream, with its owner")
    }

    fn get_mut(&mut self) -> &mut TcpStream {
        self.stream.as_mut().expect("only a move takes the stream, with its owner")
    }

    fn into_std(mut self) -> io::Result<std::net::TcpStream> {
        self.stream.take().expect("only a move takes the stream, with its owner").into_std()
    }
}

impl Drop for ResetOnDrop {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(stream) = self.stream.take().filter(|_| self.process == std::process::id()) {
            // Where the system refuses this, the close that follows is a reset too, unless the descriptor was copied.
            let _ = rustix::net::connect_unspec(&stream);
        }
    }
}

impl Transport {
    fn stream(&mut self) -> Pin<&mut dyn ByteStream> {
        match self {
            Self::Tcp(stream) => Pin::<&mut TcpStream>::new(stream.get_mut()),
            Self::Unix(stream) => Pin::<&mut UnixStream>::new(stream),
            Self::Other(stream) => stream.as_mut(),
            Self::Closed(stream) => Pin::<&mut Empty>::new(stream),
        }
    }

    /// Moves the stream to another runtime, which reports from then on when the stream is ready. The stream has ended if
    /// this fails.
    pub(super) fn move_to(&mut self, runtime: &Handle) -> io::Result<()> {
        let _entered = runtime.enter();
        *self = match std::mem::replace(self, Self::Closed(empty())) {
            Self::Tcp(stream) => Self::Tcp(ResetOnDrop::new(TcpStream::from_std(stream.into_std()?)?)),
            Self::Unix(stream) => Self::Unix(UnixStream::from_std(stream.into_std()?)?),
            other => other,
        };
        Ok(())
    }

    /// Returns true if the stream may have bytes that nobody has read, or has ended.
    pub(super) fn has_bytes(&self) -> bool {
        let socket = match self {
            Self::Tcp(stream) => SockRef::from(stream.get()),
            Self::Unix(stream) => SockRef::from(stream),
            Self::Other(_) | Self::Closed(_) => return true,
        };
        let peeked = socket.peek(&mut [MaybeUninit::uninit()]);
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Transport {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}
