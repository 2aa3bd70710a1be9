//! A server in the process: the same Lua files on data in memory.
//!
//! The replies, changes and messages of a script equal those of redis-server 7.0.15; a differential test checks that.
//!
//! # How it works
//! [`Database`] is a server as a value: it takes commands and the current time, and returns replies and messages.
//! `commands` has its commands, `lua` runs its scripts on a virtual machine of the calling thread. [`Server`] is a
//! database with several connections and their subscriptions; [`Embedded`] makes a store of it, and the `listener`
//! serves it over a stream.

mod audience;
mod command;
mod commands;
mod condition;
mod database;
mod dispatch;
mod fault;
mod frame;
mod glob;
mod keyspace;
mod line;
#[cfg(feature = "listener")]
mod listener;
mod lua;
mod machine;
mod number;
mod reply;
mod script_calls;
mod script_hash;
mod scripting;
mod server;
mod store;
mod value;

pub use audience::Ear;
pub use condition::Condition;
pub use database::{Database, Executed};
pub use frame::Frame;
pub use keyspace::Entry;
pub use line::BoxFuture;
#[cfg(feature = "listener")]
pub use listener::{Watch, serve, serve_watched};
pub use machine::Message;
pub use reply::read_reply;
pub use server::Server;
pub use store::Embedded;
pub use value::{Fields, SortedSet, Value};
