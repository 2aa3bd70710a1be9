//! Errors: one small type per operation, and [`Error`](crate::Error) for `?`.
//!
//! An error of an acquire or a hold says which is true: the lock was not acquired; the outcome is unknown, and the
//! lock is free again by a stated time; or the lock was held and is lost, with the reason. Every error of an operation
//! has a `subject` (a primitive and its name) and a `kind` (what went wrong). Its message is one line with the cause
//! in it:
//!
//! ```text
//! lock "order:42" not acquired: the server cannot be reached (connection refused)
//! lock "order:42" may or may not be acquired: no reply within the timeout; any effect of this attempt is gone within 33.3s
//! the body did not run: lock "order:42" was busy for the whole wait of 5s
//! lock "order:42" was lost while the body ran: it was deleted on the server; any result of the body is dropped
//! ```
//!
//! `{}` is enough for a log. [`source`](std::error::Error::source) is `None`, because the message has the cause in it.
//! `kind` has the cause as a value. `{:?}` prints the message too, for a `main` that returns an error. `{:#?}` prints
//! the fields.
//!
//! # Choose an HTTP status
//!
//! A lock that another owner holds is not an error of `try_lock`, which returns `None`. Every error has the same four
//! methods:
//!
//! | method | true if | HTTP |
//! |---|---|---|
//! | `is_busy` | another owner holds the lock: [`RunError::Busy`] | 409 Conflict |
//! | `is_unavailable` | the server failed, refused or was silent, or the client is closed | 503 Service Unavailable |
//! | `is_lost` | the hold of the caller or of its token is gone, and its work may be half done | 503, or 409 if stale |
//! | none of these | a mistake: a name, a lease, a key of another kind, a deadlock of two holds | 500 |
//!
//! `is_retryable` is independent of the other three. It is true if the same call may succeed a little later, and a
//! repeat has no second effect, so a `Retry-After` makes sense.
//!
//! ```
//! # use leasehold::RunError;
//! fn status(error: &RunError) -> u16 {
//!     if error.is_busy() {
//!         409
//!     } else if error.is_unavailable() || error.is_lost() {
//!         503
//!     } else {
//!         500
//!     }
//! }
//! ```
//!
//! # Match on the kind
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), leasehold::Error> {
//! # let client = leasehold::Client::connect("memory://").await?;
//! use leasehold::error::AcquireErrorKind;
//!
//! match client.lock("order:42").lock().await {
//!     Ok(guard) => drop(guard),
//!     Err(error) => match &error.kind {
//!         AcquireErrorKind::Unknown { free_within, .. } => println!("ask again {free_within}"),
//!         AcquireErrorKind::Name(_) => unreachable!("the name is a constant"),
//!         _ => return Err(error.into()),
//!     },
//! }
//! # Ok(())
//! # }
//! ```

mod acquire;
pub(crate) mod answers;
mod connect;
mod hold;
mod installed;
pub(crate) mod message;
mod operation;
mod permits;
mod quorum;
mod run;
mod subject;
mod ticket;
mod transfer;
mod upgrade;

pub use acquire::{AcquireError, AcquireErrorKind};
pub use connect::ConnectError;
pub use hold::{EnsureError, EnsureErrorKind, ReleaseError, ReleaseErrorKind};
pub use installed::{AlreadyInstalled, NotInstalled};
pub use leasehold_proto::{
    Applied, FreeWithin, LeaseError, NameError, PermitIdError, StoreError, StoreErrorKind, Verb,
};
pub use leasehold_store::url::UrlError;
pub use operation::{
    FencedWriteError, InspectError, InspectErrorKind, OperationError, OperationErrorKind, WaitError,
    WaitErrorKind,
};
pub use permits::PermitsError;
pub use quorum::{NodeAnswer, NodeError, QuorumError};
pub use run::RunError;
pub(crate) use subject::{About, BadName, Cause, Forked};
pub use subject::{Subject, SubjectKind};
pub use ticket::{TicketError, TicketErrorKind};
pub use transfer::{TransferError, TransferErrorKind};
pub use upgrade::UpgradeError;
