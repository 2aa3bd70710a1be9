//! Waiting: acquires, their queues and attempts, and how waiters sleep, wake and leave.

pub(in crate::engine) mod acquire;
pub(in crate::engine) mod answers;
pub(in crate::engine) mod attempt;
pub(in crate::engine) mod calls;
pub(in crate::engine) mod event;
mod granting;
pub(in crate::engine) mod keep_alive;
mod leaving;
mod machine;
pub(in crate::engine) mod queue;
pub(in crate::engine) mod server_queue;
pub(in crate::engine) mod tries;
pub(in crate::engine) mod turns;
pub(in crate::engine) mod waiting;
pub(in crate::engine) mod withdrawals;
mod yielding;

pub(in crate::engine) use machine::Waits;
