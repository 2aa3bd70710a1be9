//! A Redis or Valkey server as a store.
//!
//! Invariant: one call is one command on one connection; nothing here sends a command again after it may have been
//! executed.
//! Called by: the client, which connects; the driver, which runs and subscribes.
//!
//! # How it works
//! Two connections: commands travel on one (`link`, behind `standalone`, which replaces it when it broke), messages on
//! the other (`pubsub`), because a connection that carries both can hand replies to the wrong caller. `connect` opens
//! them, over `socket`s or over what a simulator puts in their place ([`Dial`]); the first of them finds out by which
//! `channels` wake-ups travel. What a server sends passes the `bounds` before it is parsed. Every close is a reset, so that bytes which the server has not received are gone.

mod backoff;
mod bounds;
mod channels;
mod connect;
mod error;
mod eval;
mod link;
mod pubsub;
mod socket;
mod standalone;
mod url;

pub use connect::ConnectOptions;
pub use socket::{Dial, Socket};
pub use standalone::Redis;
pub use url::{Address, ServerUrl, UrlError};
