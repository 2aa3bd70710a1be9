//! The opening of a connection: dial, log in, choose the database, ping, and on the first connection identify the
//! server.
//!
//! Invariant: a connection that this file returns has logged in and selected its database, and opening it ends within
//! the timeout whatever the other end sends.
//!
//! # How it works
//! The handshake runs on the bare stream, before any task owns it. So an error that the server volunteers, such as its
//! limit of clients, is read as the answer to the first command, and is not lost.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_proto::{Applied, StoreErrorKind};
use redis::Value;
use tokio::io::AsyncWriteExt;

use super::bounds::Bounded;
use super::channels::{Channels, ServerFacts, requests};
use super::error::Failure;
use super::eval::{malformed, server_error};
use super::reader::Reader;
use super::socket::Dial;
use super::url::ServerUrl;
use crate::sharding::ShardedPubsub;
use crate::tokio_runtime::within;

/// The options of a connection to a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// The longest duration of one attempt to connect: name lookup, dialing and login together. The default is five
    /// seconds.
    pub timeout: Duration,
    /// The channels that carry wake-ups in a cluster.
    pub sharded_pubsub: ShardedPubsub,
    /// The name of the connections in `CLIENT LIST`, in printable ASCII without spaces, or `None`, the default.
    pub client_name: Option<Arc<str>>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), sharded_pubsub: ShardedPubsub::Auto, client_name: None }
    }
}

impl ConnectOptions {
    /// Sets the timeout of one attempt.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the channels that carry wake-ups in a cluster.
    #[must_use]
    pub const fn sharded_pubsub(mut self, sharded_pubsub: ShardedPubsub) -> Self {
        self.sharded_pubsub = sharded_pubsub;
        self
    }

    /// Sets a name for the connections. The store uses a server that refuses the name all the same.
    #[must_use]
    pub fn client_name(mut self, name: Option<Arc<str>>) -> Self {
        self.client_name = name;
        self
    }
}

/// The address of a store's connections, their options and their dialer.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) url: ServerUrl,
    pub(super) options: ConnectOptions,
    pub(super) dialer: Arc<dyn Dial>,
    /// The facts about the server, empty until a connection has found them out.
    facts: OnceLock<ServerFacts>,
}

impl Server {
    pub(super) fn new(url: ServerUrl, options: ConnectOptions, dialer: Arc<dyn Dial>) -> Self {
        Self { url, options, dialer, facts: OnceLock::new() }
    }

    /// Returns the channels that carry wake-ups.
    pub(super) fn channels(&self) -> Channels {
        let set = Channels::of_setting(self.options.sharded_pubsub);
        self.facts.get().map(|facts| facts.channels).or(set).unwrap_or(Channels::Plain)
    }

    /// Returns true if the user may lack the right to a lock's channels.
    pub(super) fn doubts_channels(&self) -> bool {
        self.facts.get().is_some_and(|facts| facts.doubts_channels)
    }
}

/// A connection that is ready for commands.
pub(super) struct Opened {
    pub(super) socket: Bounded,
    pub(super) reader: Reader,
    /// The reason why the server cannot serve at the moment, for example because it is loading its data. Each call
    /// receives that error itself, so the connection stays usable.
    pub(super) greeting: Result<(), Failure>,
}

/// Opens a connection.
pub(super) async fn open(server: &Server) -> Result<Opened, Failure> {
    let limit = server.options.timeout;
    let mut dialled = false;
    let attempt = async {
        let dial = server.dialer.dial(&server.url.address, limit);
        let socket = dial.await.map_err(Failure::unreachable)?;
        dialled = true;
        greet(Bounded::over(socket), server).await.map_err(Failure::of_connect)
    };
    match within(limit, attempt).await {
        Some(outcome) => outcome,
        None if dialled => Err(Failure::new(StoreErrorKind::Timeout, Applied::No)),
        None => Err(Failure::unreachable(std::io::ErrorKind::TimedOut.into())),
    }
}

async fn greet(mut socket: Bounded, server: &Server) -> Result<Opened, Failure> {
    let url = &server.url;
    let is_first = server.facts.get().is_none();
    let mut asked = Vec::new();
    if let Some(login) = &url.credentials {
        asked.extend(redis::cmd("AUTH").arg(&login.user).arg(&login.password).get_packed_command());
    }
    if url.db != 0 {
        asked.extend(redis::cmd("SELECT").arg(url.db).get_packed_command());
    }
    asked.extend(redis::cmd("PING").get_packed_command());
    if let Some(name) = &server.options.client_name {
        asked.extend(redis::cmd("CLIENT").arg("SETNAME").arg(&**name).get_packed_command());
    }
    if is_first {
        asked.extend(requests());
    }
    // A server that refused us may have closed already, but its last reply is still there to be read.
    let _ = socket.write_all(&asked).await;

    let mut reader = Reader::of(&socket);
    let demands = usize::from(url.credentials.is_some()) + usize::from(url.db != 0);
    for _ in 0..demands {
        match reader.next(&mut socket).await? {
            Value::Okay => {}
            Value::ServerError(error) => return Err(server_error(&error)),
            _ => return Err(malformed()),
        }
    }
    let greeting = match reader.next(&mut socket).await? {
        Value::SimpleString(text) if text == "PONG" => Ok(()),
        Value::ServerError(error) => read_excuse(server_error(&error).of_connect())?,
        _ => return Err(malformed()),
    };
    if server.options.client_name.is_some() {
        // The name's reply comes behind that of PING, which decides about the login. The name serves `CLIENT LIST`, and
        // locks work without it.
        reader.next(&mut socket).await?;
    }
    if is_first {
        let answers = [
            reader.next(&mut socket).await?,
            reader.next(&mut socket).await?,
            reader.next(&mut socket).await?,
        ];
        // A server that cannot serve at the moment identifies itself on the next connection.
        if greeting.is_ok() {
            let setting = server.options.sharded_pubsub;
            let facts = ServerFacts::decide(&answers, setting, &mut socket, &mut reader).await?;
            server.facts.get_or_init(|| facts);
        }
    }
    Ok(Opened { socket, reader, greeting })
}

/// Accepts an error reply to PING that comes from a Redis after a successful login.
fn read_excuse(failure: Failure) -> Result<Result<(), Failure>, Failure> {
    match failure.kind {
        // The login worked, but the user may not ping. Locks need no more than their own commands.
        StoreErrorKind::PermissionDenied => Ok(Ok(())),
        StoreErrorKind::Loading
        | StoreErrorKind::Busy
        | StoreErrorKind::MasterDown
        | StoreErrorKind::Misconfigured => Ok(Err(failure)),
        _ => Err(failure),
    }
}
