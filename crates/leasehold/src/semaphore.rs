//! Semaphores: so many at a time, over all processes.
//!
//! Invariant: a semaphore is a name and terms, nothing more; what is taken is known by guards and by the server.
//! Called by: the client, which makes semaphores; users.

mod counting;
mod expirable;
mod permits;

pub use counting::Semaphore;
pub use expirable::ExpirableSemaphore;
pub use permits::Permits;
