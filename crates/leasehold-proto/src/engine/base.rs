//! The ground of the engine: ids, containers, timers, terms and the context that all parts share.

pub(in crate::engine) mod certain;
pub(in crate::engine) mod context;
pub(in crate::engine) mod few;
pub(in crate::engine) mod keys;
pub(in crate::engine) mod name_state;
pub(in crate::engine) mod outcomes;
pub(in crate::engine) mod subscriptions;
pub(in crate::engine) mod table;
pub(in crate::engine) mod terms;
pub(in crate::engine) mod timers;
pub(in crate::engine) mod waiters;
