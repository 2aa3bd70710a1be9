//! Encrypted connections.
//!
//! Invariant: each connection reads the files of the options anew, so a certificate that was renewed needs no restart.

mod any_certificate;
mod encrypted;
mod material;
mod named;
mod options;
mod pem;

pub(crate) use self::encrypted::Encrypted;
pub use self::options::{SentinelTls, Tls, TlsProvider};
