//! What a client tells the program around it: facts about its locks.
//!
//! A client decides when a lock is held, waited for, lost or freed. An [`Observer`] is told each of these decisions as a
//! [`Fact`]. Metrics, logs and audit trails are observers. A client without one makes no facts.
//!
//! # Where an observer runs
//! A fact that follows from a call of your own code, such as the release of a guard, is told on your thread once the call
//! has had its effect, like a log line of your own. A fact that the client's thread finds out, such as a loss, goes through
//! a queue to the thread `leasehold-observe`, so an observer that blocks delays no renewal. The queue holds
//! [`QUEUE_MAX`] facts. Later ones are dropped, and counted in [`Fact::dropped`]. So facts about one lock can arrive out of
//! order: its release on your thread, for example, before the end of a wait that came first.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! use leasehold::observe::{Fact, Observer, What};
//!
//! #[derive(Default)]
//! struct Losses(AtomicU64);
//!
//! impl Observer for Losses {
//!     fn fact(&self, fact: &Fact<'_>) {
//!         if let What::Lost { reason, .. } = fact.what {
//!             eprintln!("{} lost: {reason}", fact.name.unwrap_or_default());
//!             self.0.fetch_add(1, Ordering::Relaxed);
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! let losses = Arc::new(Losses::default());
//! let builder = leasehold::Client::builder().observer(Arc::clone(&losses));
//! let client = builder.connect("memory://").await?;
//! # Ok(())
//! # }
//! ```

// Invariant: an observer changes nothing that the client does, and no secret is in any fact. Only this folder names
// `tracing` and `metrics`.

mod delivery;
mod fact;
pub(crate) mod group;
mod groups;
#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
mod metrics;
mod observers;
mod spans;

pub use delivery::QUEUE_MAX;
pub(crate) use delivery::facts_buffer;
#[cfg(feature = "redis")]
pub(crate) use delivery::{ConnectionChange, ConnectionEvent};
pub use fact::{Connection, Fact, Names, Observer, Outcome, What};
pub use groups::of_name as group_of;
pub use leasehold_proto::engine::GrantedBy;
#[cfg(feature = "metrics")]
pub use metrics::BUCKETS;
pub(crate) use observers::{Observers, Setup, has_holders};
pub(crate) use spans::{Scene, acquiring, in_section};
