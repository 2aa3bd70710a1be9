//! A server in the process: the same Lua files on data in memory.
//!
//! Invariant: what a script answers, changes and publishes here is what it answers, changes and publishes on
//! redis-server 7.0.15; a differential test holds it to that.
//! Called by: the client, for `memory://`; simulators and tests.
//!
//! # How it works
//! [`Database`] is a server as a value: commands in, replies and messages out, the time passed in. `commands` has its
//! commands, `lua` runs its scripts on a virtual machine of the thread that calls. [`Server`] is a database that several
//! share, with their subscriptions; [`Embedded`] makes a store of it, and the `listener` serves it over a stream.

mod audience;
mod commands;
mod condition;
mod database;
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
