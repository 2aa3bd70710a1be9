//! A server in the process: the same Lua files on data in memory.
//!
//! Invariant: what a script answers, changes and publishes here is what it answers, changes and publishes on
//! redis-server 7.0.15; a differential test holds it to that.
//! Called by: the client, for `memory://`; simulators and tests.
//!
//! # How it works
//! [`Database`] is a server as a value: commands in, replies and messages out, the time passed in. `commands` has its
//! commands, `lua` runs its scripts on a virtual machine of the thread that calls.

mod audience;
mod commands;
mod condition;
mod database;
mod frame;
mod glob;
mod keyspace;
mod lua;
mod machine;
mod number;
mod reply;
mod value;

pub use audience::Ear;
pub use condition::Condition;
pub use database::{Database, Executed};
pub use frame::Frame;
pub use keyspace::Entry;
pub use machine::Message;
pub use reply::read_reply;
pub use value::{Fields, SortedSet, Value};
