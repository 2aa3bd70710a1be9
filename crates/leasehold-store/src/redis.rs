//! A Redis or Valkey server as a store.
//!
//! One call is one command on one connection. The store never sends a command again after the server may have executed
//! it.
//!
//! # How it works
//! A store is a [`wire`](mod@wire), which decides, and a `driver`, which owns streams, over `socket`s or over the
//! replacement of a simulator ([`Dial`]). Commands travel on one connection, and messages on another, because a
//! connection that carries both can hand replies to the wrong caller. Every close is a reset, so that bytes which the
//! server has not received are gone.

mod breach;
mod channels;
mod connect;
mod credentials_provider;
mod driver;
mod error;
mod executor;
mod foreign;
#[cfg(all(test, shuttle))]
mod interleavings;
mod notices;
mod peer;
mod query;
mod reach;
mod socket;
mod standalone;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod tls;
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
mod tls_alert;
mod tls_fault;
mod transport;
pub mod wire;

pub use connect::{AddressMap, ConnectOptions};
pub use credentials_provider::{CredentialsFile, CredentialsProvider, CredentialsSource, ProviderError};
pub use executor::Executor;
pub use notices::{Carried, Change, ConnectionNotice, MissingNotice, PlainTextNotice, Serving};
pub use peer::Peer;
pub use query::{Inquiry, query};
pub use reach::Reach;
pub use socket::{Dial, Socket};
pub use standalone::{Redis, Runtimes};
#[cfg(any(feature = "tls-ring", feature = "tls-aws-lc"))]
pub use tls::{SentinelTls, Tls, TlsProvider};
pub use transport::ByteStream;

pub use crate::tokio_runtime::Task;
