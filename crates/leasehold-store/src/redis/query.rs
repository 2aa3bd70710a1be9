//! Questions to one server, for tools that look at a deployment. No lock uses them.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;

use leasehold_proto::{Applied, StoreError, StoreErrorKind, Verb};
use tokio::io::ReadBuf;

use super::connect::ConnectOptions;
use super::error::Failure;
use super::peer::Peer;
use super::socket::{RealSockets, Socket};
use super::url::{Address, Credentials, ServerUrl};
use super::wire::{Answer, Conversation};
use crate::tokio_runtime::within;

/// The size of a read.
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
    (peer, address): (Peer, &Address),
    commands: &[&[&str]],
    options: &ConnectOptions,
) -> Result<Vec<Answer>, StoreError> {
    #[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
    if peer == Peer::Server && options.trusts_names_in_plain_text(url) {
        let failure = Failure::lacks(
            "sentinels in plain text would choose the name in its certificate; set `server_name` or `ca_file`, or encrypt \
             the sentinels",
        );
        return Err(failure.during(Verb::Connect, "".into()));
    }
    let of_connect = |failure: Failure| failure.of_unsent().during(Verb::Connect, "".into());
    let asking = async {
        let login = login(url, peer, options).await.map_err(Failure::unreachable)?;
        let socket = dial(url, address, options, peer).await.map_err(Failure::unreachable)?;
        converse(socket, Conversation::begin(login.as_ref(), commands), !url.tls()).await
    };
    let timed_out = || Failure::new(StoreErrorKind::Timeout, Applied::No);
    within(options.timeout, asking).await.unwrap_or_else(|| Err(timed_out())).map_err(of_connect)
}

/// Returns the login at a server, or at a sentinel.
async fn login(url: &ServerUrl, peer: Peer, options: &ConnectOptions) -> io::Result<Option<Credentials>> {
    match options.login_source(peer) {
        Some(source) => source.ask(options.timeout).await.map(Some),
        None => Ok(url.login_of(peer).cloned()),
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

/// Writes the commands and reads the answers.
async fn converse(
    mut socket: Socket,
    mut conversation: Conversation,
    is_plain: bool,
) -> Result<Vec<Answer>, Failure> {
    let mut written = 0;
    while written < conversation.bytes().len() {
        let write = poll_fn(|cx| socket.stream().poll_write(cx, &conversation.bytes()[written..]));
        match write.await.map_err(Failure::unreachable)? {
            0 => return Err(Failure::unreachable(io::ErrorKind::WriteZero.into())),
            count => written += count,
        }
    }
    poll_fn(|cx| socket.stream().poll_flush(cx)).await.map_err(Failure::unreachable)?;
    let mut buffer = [0; READ];
    let mut is_mute = true;
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        match poll_fn(|cx| socket.stream().poll_read(cx, &mut read)).await {
            Ok(()) if read.filled().is_empty() && is_mute => return Err(Failure::hung_up(is_plain)),
            Ok(()) if read.filled().is_empty() => {
                return Err(Failure::unreachable(io::ErrorKind::UnexpectedEof.into()));
            }
            Err(error) if is_mute && error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(Failure::hung_up(is_plain));
            }
            Err(error) => return Err(Failure::unreachable(error)),
            Ok(()) => is_mute = false,
        }
        if let Some(answers) = conversation.receive(read.filled())? {
            return Ok(answers);
        }
    }
}
