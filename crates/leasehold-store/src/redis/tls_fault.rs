//! The reasons why a connection could not be encrypted.
//!
//! Invariant: a failure says what to check, and repeats no key, no part of the URL and no byte of the peer. It travels
//! inside an `io::Error`, the only error type that dialers and streams have.

use std::io;
use std::path::PathBuf;

use leasehold_proto::StoreErrorKind as Kind;

/// The reason why a connection could not be encrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    not(any(feature = "tls-ring", feature = "tls-aws-lc")),
    expect(dead_code, reason = "a build without TLS makes none")
)]
pub(super) enum TlsFault {
    /// A file that cannot be used.
    #[error("the {what} {} cannot be used: {problem}", path.display())]
    File { what: &'static str, path: PathBuf, problem: String },
    /// A text in PEM that cannot be used.
    #[error("the {what} cannot be used: {problem}")]
    Pem { what: &'static str, problem: String },
    /// The certificates of the system cannot be used.
    #[error(
        "the operating system has no trusted certificates; set `ca_file` to the certificate of the server's CA: {0}"
    )]
    System(String),
    /// The server's certificate.
    #[error("the server's certificate is refused: {0}")]
    Server(&'static str),
    /// The client's certificate.
    #[error("the server refuses the client's certificate: {0}")]
    Client(&'static str),
    /// The peer sent bytes that are not TLS.
    #[error(
        "the server does not speak TLS on this port; use its TLS port, or write `redis` in place of `rediss`"
    )]
    Plain,
    /// The peer sent nothing.
    #[error("no answer to the TLS handshake; check that the server speaks TLS on this port")]
    Silent,
    /// The name to verify cannot be in a certificate.
    #[error("no certificate can contain this host as a name; set `server_name`")]
    Name,
    /// Any other failure, in the words of the TLS library.
    #[error("the TLS handshake failed: {0}")]
    Handshake(String),
}

impl TlsFault {
    /// Returns the kind of the failure of a connection.
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Plain | Self::Handshake(_) => Kind::Malformed,
            Self::Silent => Kind::Unreachable,
            Self::File { .. }
            | Self::Pem { .. }
            | Self::System(_)
            | Self::Server(_)
            | Self::Client(_)
            | Self::Name => Kind::Certificate,
        }
    }

    /// Returns the failure inside an error, if there is one.
    pub(super) fn inside(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<TlsFault> for io::Error {
    fn from(fault: TlsFault) -> Self {
        Self::other(fault)
    }
}
