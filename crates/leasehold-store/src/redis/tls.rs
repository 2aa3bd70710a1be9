//! Encrypted connections.
//!
//! Invariant: each new connection reads the configured files again, so a renewed certificate needs no restart.

mod encrypted;
mod material;
mod options;
mod pem;
mod verifier;

pub(crate) use self::encrypted::Encrypted;
pub use self::options::{SentinelTls, Tls, TlsProvider};
