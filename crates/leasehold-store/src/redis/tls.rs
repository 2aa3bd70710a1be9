//! Encrypted connections.
//!
//! Invariant: each connection reads the files of the options anew, so a certificate that was renewed needs no restart.

mod encrypted;
mod material;
mod options;
mod pem;
mod verifier;

pub(crate) use self::encrypted::Encrypted;
pub use self::options::{SentinelTls, Tls, TlsProvider};
