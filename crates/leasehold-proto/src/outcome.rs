//! The errors of a store.
//!
//! Every failure says whether the script may have run ([`Applied`]), which decides whether a lock may have to be
//! undone.

#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

use std::error::Error;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use crate::moment::Moment;
use crate::span::Rounded;

/// The effect that a failed call may have had on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "no third answer: what is not certain is unknown")]
pub enum Applied {
    /// The call certainly did not run.
    No,
    /// The call may have run, or may still run, because bytes were written and no answer came.
    Unknown,
}

/// The time within which a key or permit is free on the server, counted from the error that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a time or none")]
pub enum FreeWithin {
    /// Free after at most this time, even if nothing else reaches the server.
    Time(Duration),
    /// Free only once the server has answered. A hold without a lease does not end by itself, and neither does the write
    /// hold of an owner that reads: the renewals of its read hold keep the key of both.
    Unbounded,
}

impl FreeWithin {
    /// Creates the time from `now` until `until`. A moment that never comes is no bound.
    #[must_use]
    pub fn until(until: Moment, now: Moment) -> Self {
        if until == Moment::NEVER { Self::Unbounded } else { Self::Time(until.since(now)) }
    }

    /// Returns the time, if there is one.
    #[must_use]
    pub const fn bound(self) -> Option<Duration> {
        match self {
            Self::Time(time) => Some(time),
            Self::Unbounded => None,
        }
    }
}

/// Writes `within 27.3s`, or `when the server has replied`.
impl fmt::Display for FreeWithin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(time) => write!(f, "within {}", Rounded::up(*time)),
            Self::Unbounded => f.write_str("when the server has replied"),
        }
    }
}

/// The purpose of a call, one of the verbs on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Acquires, or re-enters.
    Acquire,
    /// Extends the lease.
    Renew,
    /// Extends the lease of a hold that passes on inside its client, and counts the listeners.
    HandOff,
    /// Releases one hold, or all.
    Release,
    /// Shows that the client's queued waiters are alive.
    KeepAlive,
    /// Removes any holder.
    ForceRelease,
    /// Changes the number of permits or the count of a latch, without a hold.
    Adjust,
    /// Reads without a change.
    Inspect,
    /// Tells operators about the client.
    Report,
    /// Subscribes to wake-ups.
    Subscribe,
    /// Opens a connection.
    Connect,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::HandOff => "hand off",
            Self::Release => "release",
            Self::KeepAlive => "keep alive",
            Self::ForceRelease => "force release",
            Self::Adjust => "adjust",
            Self::Inspect => "inspect",
            Self::Report => "report",
            Self::Subscribe => "subscribe",
            Self::Connect => "connect",
        })
    }
}

/// The kind of a store's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The connection could not be made: refused, unresolved, or no answer to the connect.
    Unreachable,
    /// The connection broke with the answer outstanding.
    ConnectionLost,
    /// The answer did not come within the call's timeout.
    Timeout,
    /// `BUSY`: the server runs another client's endless script.
    Busy,
    /// `LOADING`: the server reads its data from disk.
    Loading,
    /// `MASTERDOWN`: a replica without its master.
    MasterDown,
    /// `READONLY`: a replica.
    ReadOnly,
    /// `NOREPLICAS`: fewer good replicas than the server's configuration demands.
    NoReplicas,
    /// `OOM`: the server's memory limit is reached.
    OutOfMemory,
    /// `MISCONF`: the server cannot persist and therefore refuses writes.
    Misconfigured,
    /// `CLUSTERDOWN`: the cluster has lost a slot.
    ClusterDown,
    /// `MOVED` or `ASK`: the server is a cluster node and the URL does not say so.
    WrongNode,
    /// `CROSSSLOT`, or what a client knows to be one: the keys of the call are in several slots, or on several servers.
    CrossSlot,
    /// The call ran, and too few replicas acknowledged it, so a failover can undo it.
    Unconfirmed,
    /// `TRYAGAIN`: the keys are moving between nodes.
    TryAgain,
    /// `NOPERM`, or a script's command that the user may not run.
    PermissionDenied,
    /// `WRONGPASS`: the server refused the user or password.
    AuthenticationFailed,
    /// `NOAUTH`: the server requires a password, and the client has none.
    AuthenticationRequired,
    /// The certificate of the server or of the client is not valid for the other side, or cannot be read.
    Certificate,
    /// The file or the provider of the client's credentials gave none.
    Credentials,
    /// The server takes no more clients.
    TooManyClients,
    /// `WRONGTYPE`: a key of another type has the lock's name. The key was not touched.
    WrongType,
    /// The script cannot give this answer, or the answer is not of the Redis protocol.
    Malformed,
    /// An error text that is not in the table.
    Server,
    /// The store was closed.
    Closed,
}

impl StoreErrorKind {
    /// Returns true if the same call may succeed a little later without any change by an operator.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Unreachable
                | Self::ConnectionLost
                | Self::Timeout
                | Self::Busy
                | Self::Loading
                | Self::MasterDown
                | Self::ReadOnly
                | Self::NoReplicas
                | Self::Unconfirmed
                | Self::ClusterDown
                | Self::TryAgain
                | Self::TooManyClients
        )
    }

    const fn text(self) -> &'static str {
        match self {
            Self::Unreachable => "the server cannot be reached",
            Self::ConnectionLost => "the connection was lost before the reply",
            Self::Timeout => "no reply within the timeout",
            Self::Busy => "the server is busy running a script",
            Self::Loading => "the server is loading its data",
            Self::MasterDown => "the server is a replica that has lost its master",
            Self::ReadOnly => "the server is a read-only replica",
            Self::NoReplicas => "the server has too few good replicas and refuses writes",
            Self::Unconfirmed => "the call ran, but too few replicas acknowledged it",
            Self::OutOfMemory => "the server is out of memory",
            Self::Misconfigured => "the server cannot persist its data and refuses writes",
            Self::ClusterDown => "the cluster is down",
            Self::WrongNode => "the server is a cluster node that does not serve this key",
            Self::CrossSlot => "the keys of this call can be on different servers",
            Self::TryAgain => "the keys are moving between cluster nodes",
            Self::PermissionDenied => "the user has no permission for this call",
            Self::AuthenticationFailed => "the server refused the user or password",
            Self::AuthenticationRequired => "the server requires a password",
            Self::Certificate => "a TLS certificate was refused or cannot be used",
            Self::Credentials => "the client could not get its credentials for the server",
            Self::TooManyClients => "the server has reached its maximum number of clients",
            Self::WrongType => "a key of another type has this name; that key is unchanged",
            Self::Malformed => "the reply has an unexpected form",
            Self::Server => "the server replied with an error",
            Self::Closed => "the client has closed its connections; connect a new client",
        }
    }
}

impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A failed call.
///
/// Equality and hashing ignore the wait and the source, which are there for people to read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoreError {
    /// The kind of the failure.
    pub kind: StoreErrorKind,
    /// The purpose of the call.
    pub during: Verb,
    /// The key that the call was about, or an empty text when it was about no key.
    pub key: Arc<str>,
    /// The effect that the call may have had on the server.
    pub applied: Applied,
    /// The wait that ended before the timeout of the call, in milliseconds, because the engine keeps many errors.
    wait_ms: Option<u32>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates a failure without a deeper cause.
    #[must_use]
    pub const fn new(kind: StoreErrorKind, during: Verb, key: Arc<str>, applied: Applied) -> Self {
        Self { kind, during, key, applied, wait_ms: None, source: None }
    }

    /// Returns the failure and its cause in one line without the purpose of the call, for a message that names the call
    /// itself, such as `lock "order:42" not acquired: the server cannot be reached (connection refused)`.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        Reason(self)
    }

    /// Writes the text of the failure. After a connect, an answer outside the Redis protocol has a text of its own.
    fn write_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (StoreErrorKind::Timeout, Some(wait_ms)) = (self.kind, self.wait_ms) {
            let wait = Duration::from_millis(wait_ms.into());
            return write!(f, "no reply within the wait of {}", Rounded::down(wait));
        }
        f.write_str(match (self.kind, self.during) {
            (StoreErrorKind::Malformed, Verb::Connect) => "the server is neither Redis nor Valkey",
            (StoreErrorKind::WrongNode, Verb::Connect) => "the server serves only some of a cluster's keys",
            (kind, _) => kind.text(),
        })
    }

    /// Returns the same failure for a caller whose wait ended before the timeout of the call.
    #[must_use]
    pub fn within_wait(self, wait: Option<Duration>) -> Self {
        // The request reaches the engine a little after its caller has counted the end of the wait.
        let wait_ms = wait.map(|wait| wait.as_nanos().div_ceil(1_000_000).try_into().unwrap_or(u32::MAX));
        Self { wait_ms, ..self }
    }

    /// Returns the same failure for a caller whose own call was not sent.
    #[must_use]
    pub fn not_applied(self) -> Self {
        self.with_applied(Applied::No)
    }

    /// Returns the same failure for a caller that knows better whether the call was applied.
    #[must_use]
    pub fn with_applied(self, applied: Applied) -> Self {
        Self { applied, ..self }
    }

    /// Returns the same failure with the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.during)?;
        if !self.key.is_empty() {
            write!(f, " of {:?}", self.key)?;
        }
        f.write_str(": ")?;
        self.write_text(f)
    }
}

/// The text of [`StoreError::reason`].
struct Reason<'a>(&'a StoreError);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write_text(f)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        (self.kind, self.during, &self.key, self.applied)
            == (other.kind, other.during, &other.key, other.applied)
    }
}

impl Eq for StoreError {}

impl Hash for StoreError {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.kind, self.during, &self.key, self.applied).hash(state);
    }
}
