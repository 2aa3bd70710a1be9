//! The stores of leasehold: the [`Store`] and [`Runtime`] traits and their implementations.
//!
//! Users depend on the crate `leasehold`. This crate is for stores and simulators. A store runs each call at most
//! once, or reports that the outcome is unknown. It never retries, because the client above it decides that.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod confirm;
#[cfg(feature = "embedded")]
pub mod embedded;
#[cfg(feature = "redis")]
pub mod redis;
pub mod runtime;
#[cfg(any(feature = "redis", feature = "embedded"))]
mod server_error;
mod sharding;
pub mod store;
#[cfg(feature = "redis")]
mod sync;
pub mod tokio_runtime;
pub mod url;

pub use confirm::{Confirmation, OnMissing};
pub use leasehold_proto::Confirm;
pub use runtime::{Alarm, Runtime, Watch};
pub use sharding::ShardedPubsub;
pub use store::{Heard, Outcomes, Store, Submit, Subscription};
pub use tokio_runtime::{TokioAlarm, TokioRuntime, reading_runtime};
