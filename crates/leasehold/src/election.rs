//! Leader election: one leader among many processes, told in time when it has to stop, with a term that resources can
//! check.
//!
//! [`Client::election`](crate::Client::election) names an election. [`Election::lead`] campaigns, runs a body as the
//! leader, and campaigns again. [`Election::campaign`] gives one [`Term`] by hand, and [`Election::observe`] follows who
//! leads. An election is a [fenced lock](crate::Client::fenced_lock) with hybrid tokens, and the token is the term, so
//! Java clients of Redisson can campaign, look and force.
//!
//! **A leader that is paused works on after its term has ended**, because nothing can stop a process that does not run.
//! [`Term::is_valid`] is the check before a step, and [`Term::token`] is the check that the resource makes: it refuses a
//! token below the highest that it has seen. [`Client::fenced`](crate::Client::fenced) writes to Redis with it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = leasehold::Client::connect("memory://").await?;
//! let election = client.election("scheduler").candidate("host-a:4711").info("1.4.2 eu-west");
//! let led = election
//!     .lead(async |term| {
//!         println!("leading term {}", term.token());
//!         // .. work until `term.asked()` resolves; a loss of the lease drops this body ..
//!         Ok::<(), std::io::Error>(())
//!     })
//!     .await?;
//! assert_eq!(led.terms, 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`Election::lead`] says how a term ends.

mod handle;
mod hub;
mod lead;
mod level;
mod observer;
mod policy;
mod term;

pub use handle::Election;
#[cfg(feature = "blocking")]
pub(crate) use lead::{End, Terms};
pub use observer::{Leader, Observer, State};
pub use policy::{Asked, Gate, LeadError, Led, OnLost, Stopper};
pub use term::{Term, Validity};
