//! The failures of a connection, and the error replies of its server.
//!
//! Invariant: a failure has [`Applied::No`] only when the server cannot have executed the script, or refused its first
//! write.

use std::error::Error;
use std::io;
use std::sync::Arc;

use leasehold_proto::{Applied, StoreError, StoreErrorKind, Verb};

use super::breach::Breach;
use crate::server_error::{ServerText, classify};
use Applied::No;
use StoreErrorKind as Kind;

/// A failure that is not yet attributed to a call.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) kind: Kind,
    pub(super) applied: Applied,
    cause: Option<Cause>,
}

/// The cause of a failure. It never holds a part of the URL, nor a reply that might repeat the URL.
#[derive(Clone, Debug, thiserror::Error)]
enum Cause {
    #[error(transparent)]
    ServerText(ServerText),
    #[error("{}", io_text(.0))]
    Io(Arc<io::Error>),
    #[error(transparent)]
    Breach(Breach),
    #[error("the server is one of {0} masters of a cluster, and clusters are not supported yet")]
    Masters(u32),
}

/// Returns the text of an I/O error, without the system's number and wording: `connection refused`.
fn io_text(error: &io::Error) -> String {
    match error.raw_os_error() {
        // The standard library writes "entity not found". Only the path of a socket can be missing here.
        Some(_) if error.kind() == io::ErrorKind::NotFound => "no such file".to_owned(),
        Some(_) => error.kind().to_string(),
        None => error.to_string(),
    }
}

impl Failure {
    pub(super) const fn new(kind: Kind, applied: Applied) -> Self {
        Self { kind, applied, cause: None }
    }

    /// Returns the failure of an attempt that made no connection.
    pub(super) fn unreachable(error: io::Error) -> Self {
        Self { cause: Some(Cause::Io(Arc::new(error))), ..Self::new(Kind::Unreachable, No) }
    }

    /// Returns the failure of a server that sent bytes that no Redis sends.
    pub(super) fn breach(breach: Breach) -> Self {
        Self { cause: Some(Cause::Breach(breach)), ..Self::new(Kind::Malformed, Applied::Unknown) }
    }

    /// Returns the failure of a server that is one of several masters of a cluster.
    pub(super) fn of_cluster(masters: u32) -> Self {
        Self { cause: Some(Cause::Masters(masters)), ..Self::new(Kind::WrongNode, No) }
    }

    /// Returns the failure that an error reply means.
    pub(super) fn server_error(text: &str) -> Self {
        let (kind, applied) = classify(text);
        Self { cause: Some(Cause::ServerText(ServerText::new(text))), ..Self::new(kind, applied) }
    }

    /// Turns the failure into that of a connect, where no script was sent. Drops the server's text, which may repeat
    /// the password (the answer to an unknown command does), unless the text is known not to.
    pub(super) fn of_connect(mut self) -> Self {
        self.applied = No;
        if let Some(Cause::ServerText(text)) = &self.cause
            && !text.is_known()
        {
            self.cause = None;
        }
        self
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
    fn connect_errors_quote_only_known_server_errors() {
        let unknown = "ERR unknown command 'AUTH', with args beginning with: 'hunter2' ";
        let error = Failure::server_error(unknown).of_connect().during(Verb::Connect, "".into());
        assert_eq!((error.kind, error.applied), (Kind::Server, No));
        assert!(error.source().is_none());
        let known = Failure::server_error("ERR DB index is out of range").of_connect();
        assert!(known.during(Verb::Connect, "".into()).source().is_some());
    }

    #[test]
    fn server_messages_are_escaped_and_truncated() {
        let failure = Failure::server_error(&format!("ERR \x1b[31m{}", "x".repeat(10_000)));
        let error = failure.during(Verb::Acquire, "k".into());
        let source = error.source().unwrap().to_string();
        assert!(source.starts_with("server reply \"ERR \\u{1b}[31mxxx"), "{source}");
        assert!(source.len() < 350);
    }

    proptest! {
        #[test]
        fn classifying_any_text_never_panics(text in ".{0,400}") {
            let _ = Failure::server_error(&text).of_connect().during(Verb::Connect, "".into());
        }
    }
}
