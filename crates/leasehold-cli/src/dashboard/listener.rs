//! The listener, on loopback or on a Unix socket.
//!
//! Invariant: an open connection without a request, or a viewer that reads nothing, ends by itself.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_io_timeout::TimeoutStream;

use super::site::Site;
use crate::clock::{after, reached};
use crate::listen::Listen;

/// The time that a browser has for the head of a request.
const HEAD: Duration = Duration::from_secs(5);
/// The time for which a viewer may read nothing of what is sent to it.
const STALLED: Duration = Duration::from_secs(30);
/// The most connections at a time, of 50 viewers with a second one each.
const CONNECTIONS: usize = 128;

/// An open listener.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) async fn open(listen: &Listen) -> io::Result<Self> {
        match listen {
            Listen::Tcp(address) => Ok(Self::Tcp(TcpListener::bind(address).await?)),
            Listen::Unix(path) => {
                remove_socket(path)?;
                let listener = UnixListener::bind(path)?;
                fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
                Ok(Self::Unix(listener, path.clone()))
            }
        }
    }

    /// Returns the port, if there is one.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Unix(..) => None,
        }
    }

    /// Serves until it is dropped. The connections are served on the caller's task.
    pub(super) async fn serve(&self, site: &Site) {
        let mut connections = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.accept(), if connections.len() < CONNECTIONS => match accepted {
                    Ok(stream) => connections.push(converse(stream, site)),
                    // Mostly the limit of open files, which another connection's end lifts.
                    Err(_) => reached(Some(after(Duration::from_millis(100)))).await,
                },
                Some(()) = connections.next() => {}
            }
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => Box::new(listener.accept().await?.0),
            Self::Unix(listener, _) => Box::new(listener.accept().await?.0),
        })
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes the socket that an earlier start has left, and nothing else.
fn remove_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Serves one connection.
async fn converse(stream: Box<dyn Stream>, site: &Site) {
    let service = service_fn(async |request| Ok::<_, Infallible>(site.answer(request).await));
    let mut builder = http1::Builder::new();
    let builder = builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_headers(64);
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(STALLED));
    // The end of a connection, by either side, is no news.
    drop(builder.serve_connection(TokioIo::new(Box::pin(stream)), service).await);
}
