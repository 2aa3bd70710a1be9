//! A server inside the process, for `memory://` and tests. It runs the same Lua scripts on data in memory.
//!
//! The replies, changes and messages of a script equal those of redis-server 7.0.15, as a differential test checks.
//!
//! # How it works
//! [`Database`] is a server as a value. It takes commands and the current time, and returns replies and messages.
//! `commands` has its commands, `lua` runs its scripts on a virtual machine of the calling thread. [`Server`] is a
//! database with several connections and their subscriptions. [`Embedded`] makes a store of a server, and the
//! `listener` serves a server over a stream.

mod client_connection;
mod command;
mod command_context;
mod commands;
mod condition;
mod database;
mod dispatch;
mod fault;
mod frame;
mod glob;
mod greeting;
mod keyspace;
#[cfg(feature = "listener")]
mod listener;
mod lua;
mod number;
mod reply;
mod script_calls;
mod script_hash;
mod scripting;
mod server;
mod store;
mod subscribers;
mod value;

pub use client_connection::BoxFuture;
pub use command_context::Message;
pub use condition::Condition;
pub use database::{Database, Executed};
pub use frame::Frame;
pub use keyspace::Entry;
#[cfg(feature = "listener")]
pub use listener::{ConnectionHook, Session, serve, serve_watched};
pub use reply::read_reply;
pub use server::Server;
pub use store::Embedded;
pub use subscribers::SubscriptionKind;
pub use value::{Fields, SortedSet, Value};
