//! Private Redis or Valkey servers, even one per test, since a start takes a few milliseconds.
//!
//! Invariant: a returned [`RedisServer`] answers on its port, and the answers come from its own process.
//!
//! See [`Proxy`](crate::proxy::Proxy) for network faults.

mod binary;
mod cluster;
mod encryption;
mod monitor;
mod port;
mod process;
mod reply;
mod server;
#[cfg(feature = "tls")]
mod tls_server;
mod watcher;
mod wire;

pub use encryption::Encryption;
pub use monitor::Monitor;
pub(crate) use process::Form;
pub use reply::Reply;
pub use server::{RedisServer, ask};
#[cfg(feature = "tls")]
pub use tls_server::TlsServer;
