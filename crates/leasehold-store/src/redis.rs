//! A Redis or Valkey server as a store.
//!
//! One call is one command on one connection. The store never sends a command again after the server may have executed
//! it.
//!
//! # How it works
//! A store has two connections. Commands travel on one (`connection`, behind `standalone`, which replaces a broken
//! connection), and messages on the other (`pubsub`), because a connection that carries both can hand replies to the
//! wrong caller. `connect` opens the connections, over `socket`s or over the replacement of a simulator ([`Dial`]). The
//! first connection finds out by which `channels` wake-ups travel. The bytes of a server pass the `bounds` before they
//! are parsed. Every close is a reset, so that bytes which the server has not received are gone.

mod backoff;
mod bounds;
mod channels;
mod connect;
mod connection;
mod error;
mod eval;
mod pubsub;
mod reader;
mod socket;
mod standalone;
mod url;

pub use connect::ConnectOptions;
pub use socket::{Dial, Socket};
pub use standalone::Redis;
pub use url::{Address, ServerUrl, UrlError};
