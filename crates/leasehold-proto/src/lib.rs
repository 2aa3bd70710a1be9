//! The pure part of leasehold: names, owners, leases, scripts, recipes, and the engine that decides.
//!
//! Users depend on the crate `leasehold`. This crate is for stores, simulators and model checkers. Nothing here does
//! I/O, reads a clock or draws a random number. The caller passes in time and random bytes.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod backoff;
mod bulks;
pub mod call;
mod confirm;
pub mod engine;
mod id;
pub mod lease;
pub mod map_entry;
pub mod marker;
pub mod moment;
pub mod name;
pub mod native;
pub mod operate;
pub mod outcome;
pub mod owner;
pub mod permit;
pub mod quorum;
pub mod recipe;
mod reply;
mod scope;
pub mod script;
mod settings;
pub mod span;
mod subject;
mod text;

pub use call::Call;
pub use confirm::Confirm;
pub use engine::Engine;
pub use lease::{LEASE_MAX, LEASE_MIN, Lease, LeaseError, RENEWAL_WAITS_MIN};
pub use map_entry::MapEntry;
pub use moment::Moment;
pub use name::{Channel, NAME_BYTES_MAX, Name, NameError, RAW_NAME_BYTES_MAX};
pub use outcome::{Applied, FreeWithin, StoreError, StoreErrorKind, Verb};
pub use owner::{ClientId, Owner, OwnerError, WireOwner};
pub use permit::{PermitId, PermitIdError};
pub use recipe::{
    Answer, CallArgs, CallContext, Holding, Inspection, KEEP_ALIVE_WINDOW, KeepAliveArgs, KeptAlive,
    LockCalls, Recipe, ReleaseAnswer, Remaining, Renewal, Waiters,
};
pub use reply::Reply;
pub use scope::Scope;
pub use script::Script;
pub use script::batch::{BATCH_ARGS_MAX, Batch, BatchPart};
pub use span::{Rounded, SpanError, parse_span};
pub use text::Text;
