//! What the server's error texts mean.
//!
//! Invariant: a failure says [`Applied::No`] only when the server cannot have executed the script, or refused its
//! first write.
//! Called by: everything in this folder that reads a reply.

use std::error::Error;
use std::io;
use std::sync::Arc;

use leasehold_proto::{Applied, StoreError, StoreErrorKind, Verb};

/// The longest error text that is kept, in characters.
const TEXT_MAX: usize = 300;

use Applied::{No, Unknown};
use StoreErrorKind as Kind;

/// Error codes, the first word of the text. In a script, `WRONGTYPE` may come after other writes; the rest come before
/// the script or instead of its first write.
const CODES: [(&str, Kind, Applied); 20] = [
    ("NOSCRIPT", Kind::Server, No),
    ("BUSY", Kind::Busy, No),
    ("LOADING", Kind::Loading, No),
    ("MASTERDOWN", Kind::MasterDown, No),
    ("READONLY", Kind::ReadOnly, No),
    ("NOREPLICAS", Kind::NoReplicas, No),
    ("OOM", Kind::OutOfMemory, No),
    ("MISCONF", Kind::Misconfigured, No),
    ("CLUSTERDOWN", Kind::ClusterDown, No),
    ("MOVED", Kind::WrongNode, No),
    ("ASK", Kind::WrongNode, No),
    ("CROSSSLOT", Kind::WrongNode, No),
    ("TRYAGAIN", Kind::TryAgain, No),
    ("NOPERM", Kind::PermissionDenied, No),
    ("DENIED", Kind::PermissionDenied, No),
    ("NOAUTH", Kind::AuthenticationFailed, No),
    ("WRONGPASS", Kind::AuthenticationFailed, No),
    ("WRONGTYPE", Kind::WrongType, Unknown),
    // Our scripts' own check of their arguments, before the first write.
    ("LOCKERR", Kind::Server, No),
    ("NOTBUSY", Kind::Server, No),
];

/// Errors without a code of their own, by the beginning of what follows `ERR `.
const TEXTS: [(&str, Kind, Applied); 10] = [
    ("max number of clients reached", Kind::TooManyClients, No),
    ("invalid password", Kind::AuthenticationFailed, No),
    (
        "AUTH <password> called without any password configured",
        Kind::AuthenticationFailed,
        No,
    ),
    (
        "Client sent AUTH, but no password is set",
        Kind::AuthenticationFailed,
        No,
    ),
    // In a script, so the writes before it stay.
    (
        "The user executing the script can't run this command",
        Kind::PermissionDenied,
        Unknown,
    ),
    (
        "The user executing the script can't access at least one of the keys",
        Kind::PermissionDenied,
        Unknown,
    ),
    ("ACL failure in script", Kind::PermissionDenied, Unknown),
    (
        "Script attempted to access a non local key",
        Kind::WrongNode,
        Unknown,
    ),
    ("hash value is not an integer", Kind::WrongType, Unknown),
    ("increment or decrement would overflow", Kind::WrongType, Unknown),
];

/// A failure that does not know yet which call it belongs to.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) applied: Applied,
    cause: Option<Cause>,
}

/// What lies below a failure. It never holds a part of the URL, nor a reply that might repeat one.
#[derive(Clone, Debug, thiserror::Error)]
enum Cause {
    #[error("the server said {0:?}")]
    Said(String),
    #[error("{0}")]
    Io(Arc<io::Error>),
}

impl Failure {
    pub(super) const fn new(kind: Kind, applied: Applied) -> Self {
        Self {
            kind,
            applied,
            cause: None,
        }
    }

    /// No connection was made.
    pub(super) fn unreachable(error: io::Error) -> Self {
        Self {
            cause: Some(Cause::Io(Arc::new(error))),
            ..Self::new(Kind::Unreachable, No)
        }
    }

    /// The server answered with an error.
    pub(super) fn said(text: &str) -> Self {
        let (kind, applied) = classify(text);
        let text = text.chars().take(TEXT_MAX).collect();
        Self {
            cause: Some(Cause::Said(text)),
            ..Self::new(kind, applied)
        }
    }

    /// The same failure as one of a connect, where no script was sent. The server's words are left out when they
    /// repeat `secret`, as Redis does when it does not know a command.
    pub(super) fn of_connect(mut self, secret: Option<&str>) -> Self {
        self.applied = No;
        if let (Some(Cause::Said(text)), Some(secret)) = (&self.cause, secret)
            && text.contains(secret)
        {
            self.cause = None;
        }
        self
    }

    /// Whether the connection that it came from must not be used again.
    pub(super) const fn spoils_connection(&self) -> bool {
        matches!(
            self.kind,
            Kind::ReadOnly
                | Kind::MasterDown
                | Kind::AuthenticationFailed
                | Kind::ConnectionLost
                | Kind::Malformed
        )
    }

    /// The public error of the call that failed.
    pub(super) fn during(self, verb: Verb, key: Arc<str>) -> StoreError {
        let error = StoreError::new(self.kind, verb, key, self.applied);
        match self.cause {
            Some(cause) => error.with_source(Box::<dyn Error + Send + Sync>::from(cause)),
            None => error,
        }
    }
}

fn classify(text: &str) -> (Kind, Applied) {
    let (code, rest) = text.split_once(' ').unwrap_or((text, ""));
    let row = match code {
        "ERR" => TEXTS.iter().find(|(beginning, ..)| rest.starts_with(beginning)),
        _ => CODES.iter().find(|(known, ..)| *known == code),
    };
    row.map_or((Kind::Server, Unknown), |&(_, kind, applied)| (kind, applied))
}
