//! Asks one server a few questions, for tools such as `leasehold doctor`. No lock uses this.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leasehold_proto::{Applied, StoreError, StoreErrorKind, Verb};
use tokio::io::ReadBuf;

use super::connect::ConnectOptions;
use super::error::Failure;
use super::peer::Peer;
use super::socket::{RealSockets, Socket};
use super::wire::{Answer, Conversation};
use crate::tokio_runtime::within;
use crate::url::{Address, Credentials, ServerUrl};

/// The bytes of one read. The answers of these questions are mostly shorter.
const READ: usize = 4 << 10;

/// Asks a server these commands over a connection of their own, and closes it. The answers are in the order of the
/// commands. A command that the server refuses has an [`Answer::Error`].
///
/// The connection is encrypted as the URL says, with the certificates and rules of the options. It logs in with the
/// credentials of the options, or else of the URL. A sentinel has the encryption and the login of the sentinels.
///
/// # Errors
/// Fails if the server cannot be reached, refuses the login, or does not answer within the timeout of the options.
pub async fn query(
    url: &ServerUrl,
    peer: (Peer, &Address),
    commands: &[&[&str]],
    options: &ConnectOptions,
) -> Result<Vec<Answer>, StoreError> {
    let asking = async { Inquiry::dialed(url, peer, options).await?.converse(commands).await };
    bounded(options.timeout, asking).await
}

/// A connection for many questions to one server, for tools that look at all of it.
pub struct Inquiry {
    socket: Socket,
    conversation: Conversation,
    is_plain: bool,
    /// True until the server has said something.
    is_mute: bool,
    timeout: Duration,
}

impl fmt::Debug for Inquiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inquiry").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}

impl Inquiry {
    /// Connects to a server as [`query`] does. The login travels with the first question.
    ///
    /// # Errors
    /// Fails if the server cannot be reached within the timeout of the options.
    pub async fn open(
        url: &ServerUrl,
        peer: (Peer, &Address),
        options: &ConnectOptions,
    ) -> Result<Self, StoreError> {
        bounded(options.timeout, Self::dialed(url, peer, options)).await
    }

    /// Asks the server these commands.
    ///
    /// # Errors
    /// Fails if the server refuses the login, or does not answer within the timeout of the options. The connection is of no
    /// use then.
    pub async fn ask(&mut self, commands: &[&[&str]]) -> Result<Vec<Answer>, StoreError> {
        bounded(self.timeout, self.converse(commands)).await
    }

    async fn dialed(
        url: &ServerUrl,
        (peer, address): (Peer, &Address),
        options: &ConnectOptions,
    ) -> Result<Self, Failure> {
        #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
        if peer == Peer::Server && options.trusts_names_in_plain_text(url) {
            return Err(Failure::lacks(
                "an attacker could answer for plain-text sentinels and name another server; set `server_name` or \
                 `ca_file`, or encrypt the sentinels",
            ));
        }
        let login = login(url, peer, options).await.map_err(Failure::unreachable)?;
        let socket = dial(url, address, options, peer).await.map_err(Failure::unreachable)?;
        let conversation = Conversation::begin(login.as_ref());
        Ok(Self { socket, conversation, is_plain: !url.tls(), is_mute: true, timeout: options.timeout })
    }
}

/// Bounds the work by the timeout.
async fn bounded<T>(
    timeout: Duration,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, StoreError> {
    let timed_out = || Failure::new(StoreErrorKind::Timeout, Applied::No);
    let done = within(timeout, work).await.unwrap_or_else(|| Err(timed_out()));
    done.map_err(|failure| failure.of_unsent().during(Verb::Connect, "".into()))
}

/// Returns the login at a server, or at a sentinel.
async fn login(url: &ServerUrl, peer: Peer, options: &ConnectOptions) -> io::Result<Option<Credentials>> {
    match options.login_source(peer) {
        Some(source) => source.ask(options.timeout).await.map(Some),
        None => Ok(peer.login(url).cloned()),
    }
}

/// Opens a stream, encrypted if the URL or the options say so, because the first command may be the password.
async fn dial(
    url: &ServerUrl,
    address: &Address,
    options: &ConnectOptions,
    peer: Peer,
) -> io::Result<Socket> {
    url.served().map_err(io::Error::other)?;
    options.secured(Arc::new(RealSockets), url, peer).dial(address, options.timeout).await
}

impl Inquiry {
    /// Writes the commands and reads the answers.
    async fn converse(&mut self, commands: &[&[&str]]) -> Result<Vec<Answer>, Failure> {
        let Self { socket, conversation, is_plain, is_mute, .. } = self;
        conversation.ask(commands);
        let mut written = 0;
        while written < conversation.bytes().len() {
            let write = poll_fn(|cx| socket.stream().poll_write(cx, &conversation.bytes()[written..]));
            match write.await.map_err(Failure::unreachable)? {
                0 => return Err(Failure::unreachable(io::ErrorKind::WriteZero.into())),
                count => written += count,
            }
        }
        conversation.written();
        poll_fn(|cx| socket.stream().poll_flush(cx)).await.map_err(Failure::unreachable)?;
        let mut buffer = [0; READ];
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            match poll_fn(|cx| socket.stream().poll_read(cx, &mut read)).await {
                Ok(()) if read.filled().is_empty() && *is_mute => return Err(Failure::hung_up(*is_plain)),
                Ok(()) if read.filled().is_empty() => {
                    return Err(Failure::unreachable(io::ErrorKind::UnexpectedEof.into()));
                }
                Err(error) if *is_mute && error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(Failure::hung_up(*is_plain));
                }
                Err(error) => return Err(Failure::unreachable(error)),
                Ok(()) => *is_mute = false,
            }
            if let Some(answers) = conversation.receive(read.filled())? {
                return Ok(answers);
            }
        }
    }
}
