//! Tickets: the requests of callers until they claim the outcome, operations, and the close.

pub(in crate::engine) mod claim;
pub(in crate::engine) mod close;
pub(in crate::engine) mod operation;
pub(in crate::engine) mod ticket;
