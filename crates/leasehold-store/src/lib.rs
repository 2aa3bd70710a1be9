//! Where leasehold's scripts run: the [`Store`] and [`Runtime`] traits and their implementations.
//!
//! Users depend on the crate `leasehold`; this one is for back ends and simulators.

#[cfg(feature = "redis")]
pub mod redis;
pub mod runtime;
pub mod store;
pub mod tokio_runtime;

pub use runtime::{Alarm, Runtime};
pub use store::{Heard, Store, Subscription};
pub use tokio_runtime::{TokioAlarm, TokioRuntime};
