//! The runtime of a client: the engine behind its mutex, the thread that drives it, and the futures that wait for it.
//!
//! Invariant: nothing here is public, and nothing here imports a primitive.

pub(crate) mod driver;
pub(crate) mod identity;
mod inbox;
mod news;
pub(crate) mod operation;
pub(crate) mod process;
mod pulse;
pub(crate) mod shared;
pub(crate) mod signal;
pub(crate) mod sync;
pub(crate) mod ticket;
pub(crate) mod visible;
