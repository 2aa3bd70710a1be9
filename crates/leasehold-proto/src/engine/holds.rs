//! Holding: what the client has on the server, from a grant until it is gone.

pub(in crate::engine) mod begin_end;
pub(in crate::engine) mod calls;
pub(in crate::engine) mod hold;
pub(in crate::engine) mod index;
pub(in crate::engine) mod listener_probe;
mod machine;
pub(in crate::engine) mod min_hold;
mod noting;
pub(in crate::engine) mod reentry;
pub(in crate::engine) mod release;
pub(in crate::engine) mod renewal;
pub(in crate::engine) mod tokens;
pub(in crate::engine) mod undone;

pub(in crate::engine) use machine::Holds;
