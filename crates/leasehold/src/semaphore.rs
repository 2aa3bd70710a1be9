//! Semaphores: a number of permits that all processes share.

// Invariant: a semaphore consists of a name and terms only. Guards and the server know the acquired permits.

mod counting;
mod expirable;
mod permits;
pub(crate) mod section;

pub use counting::Semaphore;
pub use expirable::ExpirableSemaphore;
pub use leasehold_proto::PermitId;
pub use leasehold_proto::recipe::expirable::PERMITS_MAX;
pub use permits::Permits;
