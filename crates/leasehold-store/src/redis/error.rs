//! The failures of a connection, and the error replies of its server.
//!
//! Invariant: a failure says [`Applied::No`] only if the server cannot have executed the script, or refused its first
//! write.

use std::error::Error;
use std::io;
use std::sync::Arc;

use leasehold_proto::{Applied, StoreError, StoreErrorKind, Verb};

use super::breach::Breach;
use super::credentials_provider::CredentialsFault;
use super::tls_fault::TlsFault;
use crate::server_error::{ServerText, classify};
use Applied::No;
use StoreErrorKind as Kind;

/// The number of slots of a cluster, which Redis fixes.
pub(super) const SLOTS: u16 = 16_384;

/// A failure that is not yet attributed to a call.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) applied: Applied,
    cause: Option<Cause>,
    /// The server that serves the slot of the call, if this one has named it.
    redirection: Option<Box<Redirection>>,
}

/// A reply of a node of a cluster that directs a call to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirection {
    /// True if this call alone goes to the other node (`ASK`), and false if the slot has moved (`MOVED`).
    pub(super) asks: bool,
    pub(super) slot: u16,
    /// The host, which is empty if it is the replying node's.
    pub(super) host: String,
    pub(super) port: u16,
}

impl Redirection {
    /// Returns the address of the other server, as text.
    pub(super) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }

    /// Reads `MOVED 866 127.0.0.1:7001`, `ASK 866 [::1]:7001`, or `MOVED 866 :7001`.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let asks = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(Self { asks, slot, host: host.to_owned(), port: port.parse().ok().filter(|port| *port > 0)? })
    }
}

/// The most characters of server-sent addresses in an error, because a stranger may have written them.
const ADDRESSES_MAX: usize = 300;

/// The cause of a failure. It never holds a login of the URL, nor a reply that might repeat it.
#[derive(Clone, Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    ServerText(ServerText),
    #[error("{}", io_text(.0))]
    Io(Arc<io::Error>),
    #[error(transparent)]
    Breach(Breach),
    #[error("the server is one of {0} masters of a cluster; use a URL that begins with `redis+cluster://`")]
    Masters(u32),
    #[error(
        "the keys {0:?} and {1:?} are in two slots of the cluster; give the names the same hash tag, as in \
         `Name::with_hash_tag(\"order:42\", \":stock\")`, or lock them one by one"
    )]
    TwoSlots(String, String),
    #[error(
        "a proxy may route the keys {0:?} and {1:?} to two servers; lock the names one by one, or connect to one \
         server without the proxy"
    )]
    SeveralServers(String, String),
    #[error(
        "a proxy might route the keys {0:?} and {1:?} to two servers, and without `INFO` the client cannot tell; let \
         the user run `INFO`, or lock the names one by one"
    )]
    UnknownServers(String, String),
    #[error("the nodes kept redirecting the call, to {0:?}; check that they agree who serves its slot")]
    Redirections(String),
    #[error("no sentinel knows the service {0:?}; check its name")]
    Service(String),
    #[error("{acknowledged} of {wanted} replicas acknowledged the call, so a failover can undo it")]
    Unconfirmed { acknowledged: u32, wanted: u32 },
    #[error("the server refused to wait for its replicas: {0}")]
    NotCounted(ServerText),
    #[error("the server did not write the call to its disk in time, so a power loss can undo it")]
    NotOnDisk,
    #[error("{0}")]
    Lacks(&'static str),
}

/// Returns the text of an I/O error, without the system's number: `connection refused`.
fn io_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        // The standard library writes "entity not found". Only the path of a socket can be missing here.
        Some(_) if error.kind() == io::ErrorKind::NotFound => "no such file".to_owned(),
        Some(number) => match error.kind().to_string() {
            // The standard library has no kind for the limit of open files and for others. The system has words for each.
            nothing if nothing == "uncategorized error" => {
                let text = error.to_string();
                text.trim_end_matches(&format!(" (os error {number})")).to_lowercase()
            }
            kind => kind,
        },
        None => error.to_string(),
    }
}

impl Failure {
    pub(super) const fn new(kind: Kind, applied: Applied) -> Self {
        Self { kind, applied, cause: None, redirection: None }
    }

    /// Returns the failure of a call that was taken back before it was sent, because its caller waits no longer.
    pub(super) fn unsent(is_connected: bool) -> Self {
        let (kind, text) = match is_connected {
            true => (Kind::Timeout, "the wait ended before the call was sent"),
            false => (Kind::Unreachable, "the wait ended before a connection was made"),
        };
        Self { cause: Some(Cause::Io(Arc::new(io::Error::other(text)))), ..Self::new(kind, No) }
    }

    /// Returns the failure of an attempt that made no connection.
    pub(super) fn unreachable(error: io::Error) -> Self {
        let kind = match TlsFault::inside(&error) {
            Some(fault) => fault.kind(),
            None if CredentialsFault::is_inside(&error) => Kind::Credentials,
            None => Kind::Unreachable,
        };
        Self { cause: Some(Cause::Io(Arc::new(error))), ..Self::new(kind, No) }
    }

    /// Returns the failure of a server that sent bytes that no Redis sends.
    pub(super) fn breach(breach: Breach) -> Self {
        Self { cause: Some(Cause::Breach(breach)), ..Self::new(Kind::Malformed, Applied::Unknown) }
    }

    /// Returns the failure of a server that is one of several masters of a cluster.
    pub(super) fn of_cluster(masters: u32) -> Self {
        Self { cause: Some(Cause::Masters(masters)), ..Self::new(Kind::WrongNode, No) }
    }

    /// Returns the failure of a call whose keys no server has together.
    pub(super) fn of_two_slots(one: &str, other: &str) -> Self {
        let cause = Cause::TwoSlots(one.to_owned(), other.to_owned());
        Self { cause: Some(cause), ..Self::new(Kind::CrossSlot, No) }
    }

    /// Returns the failure of a call whose keys a proxy may lead to two servers.
    pub(super) fn of_several_servers(one: &str, other: &str) -> Self {
        let cause = Cause::SeveralServers(one.to_owned(), other.to_owned());
        Self { cause: Some(cause), ..Self::new(Kind::CrossSlot, No) }
    }

    /// Returns the failure of a call whose keys may be on two servers, of which the client knows nothing.
    pub(super) fn of_unknown_servers(one: &str, other: &str) -> Self {
        let cause = Cause::UnknownServers(one.to_owned(), other.to_owned());
        Self { cause: Some(cause), ..Self::new(Kind::CrossSlot, No) }
    }

    /// Returns the same failure of a call that servers directed on too often, to these addresses.
    pub(super) fn of_redirections(self, addresses: &[String]) -> Self {
        Self {
            cause: Some(Cause::Redirections(addresses.join(", ").chars().take(ADDRESSES_MAX).collect())),
            ..self
        }
    }

    /// Returns the failure of a fleet that no sentinel watches.
    pub(super) fn of_service(service: &str) -> Self {
        Self { cause: Some(Cause::Service(service.to_owned())), ..Self::new(Kind::Unreachable, No) }
    }

    /// Returns the failure of a call that was executed, and that too few replicas have acknowledged.
    pub(super) fn unconfirmed(acknowledged: u32, wanted: u32) -> Self {
        let cause = Cause::Unconfirmed { acknowledged, wanted };
        Self { cause: Some(cause), ..Self::new(Kind::Unconfirmed, Applied::Unknown) }
    }

    /// Returns the failure of a call that was executed, and for which the server refused to wait with this error.
    pub(super) fn not_counted(text: &str) -> Self {
        let cause = Cause::NotCounted(ServerText::new(text));
        Self { cause: Some(cause), ..Self::new(Kind::Unconfirmed, Applied::Unknown) }
    }

    /// Returns the failure of a call that was executed, and that the server has not written to its disk.
    pub(super) fn not_on_disk() -> Self {
        Self { cause: Some(Cause::NotOnDisk), ..Self::new(Kind::Unconfirmed, Applied::Unknown) }
    }

    /// Returns the failure of a server that closed a connection without an answer, as a port for TLS does to plain text.
    pub(super) fn hung_up(is_plain: bool) -> Self {
        let cause = match is_plain {
            true => {
                "the server closed the connection before its first answer; if the port is its TLS port, use a URL that \
                 begins with `rediss`"
            }
            false => "the server closed the connection before its first answer",
        };
        Self { cause: Some(Cause::Lacks(cause)), ..Self::new(Kind::ConnectionLost, No) }
    }

    /// Returns the failure of a server that lacks what the client's settings need.
    pub(super) fn lacks(what: &'static str) -> Self {
        Self { cause: Some(Cause::Lacks(what)), ..Self::new(Kind::Server, No) }
    }

    /// Returns the failure that an error reply means.
    pub(super) fn server_error(text: &str) -> Self {
        let (kind, applied) = classify(text);
        let redirection = if kind == Kind::WrongNode { Redirection::read(text).map(Box::new) } else { None };
        Self {
            cause: Some(Cause::ServerText(ServerText::new(text))),
            redirection,
            ..Self::new(kind, applied)
        }
    }

    /// Turns the failure of another command, or of a connect, into the failure of an unsent call.
    pub(super) const fn of_unsent(mut self) -> Self {
        self.applied = No;
        self
    }

    /// Turns the failure into the failure of an executed call.
    pub(super) const fn of_executed(mut self) -> Self {
        self.applied = Applied::Unknown;
        self
    }

    /// Returns the server to which this one directs the call.
    pub(super) fn redirection(&self) -> Option<&Redirection> {
        self.redirection.as_deref()
    }

    /// Returns true if the connection that the failure came from must not be used again.
    pub(super) const fn spoils_connection(&self) -> bool {
        matches!(
            self.kind,
            Kind::ReadOnly
                | Kind::MasterDown
                | Kind::AuthenticationFailed
                | Kind::AuthenticationRequired
                | Kind::ConnectionLost
                | Kind::Malformed
        )
    }

    /// Returns the public error of the failed call.
    pub(super) fn during(self, verb: Verb, key: Arc<str>) -> StoreError {
        let error = StoreError::new(self.kind, verb, key, self.applied);
        match self.cause {
            Some(cause) => error.with_source(Box::<dyn Error + Send + Sync>::from(cause)),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn server_messages_are_escaped_and_truncated() {
        let failure = Failure::server_error(&format!("ERR \x1b[31m{}", "x".repeat(10_000)));
        let error = failure.during(Verb::Acquire, "k".into());
        let source = error.source().unwrap().to_string();
        assert!(source.starts_with("server reply \"ERR \\u{1b}[31mxxx"), "{source}");
        assert!(source.len() < 350);
    }

    #[test]
    fn an_io_error_without_a_kind_has_the_words_of_the_system() {
        let text = |error: rustix::io::Errno| io_text(&error.into());
        assert_eq!(text(rustix::io::Errno::MFILE), "too many open files");
        assert_eq!(text(rustix::io::Errno::CONNREFUSED), "connection refused");
        assert_eq!(text(rustix::io::Errno::NOENT), "no such file");
    }

    proptest! {
        #[test]
        fn classifying_any_text_never_panics(text in ".{0,400}") {
            let _ = Failure::server_error(&text).of_unsent().during(Verb::Connect, "".into());
        }
    }
}
