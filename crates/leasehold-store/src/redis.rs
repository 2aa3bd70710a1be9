//! A Redis or Valkey server as a store.
//!
//! One call is one command on one connection; the store never sends a command again after the server may have executed
//! it.
//!
//! # How it works
//! A store has two connections: commands travel on one (`connection`, behind `standalone`, which replaces a broken one),
//! messages on the other (`pubsub`), because a connection that carries both can hand replies to the wrong caller.
//! `connect` opens them, over `socket`s or over the replacement of a simulator ([`Dial`]); the first connection finds
//! out by which `channels` wake-ups travel. The bytes of a server pass the `bounds` before they are parsed. Every close
//! is a reset, so that bytes which the server has not received are gone.

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
