//! Locks: the handle [`Lock`], its kinds, and sections.

// Invariant: each kind has a file of its own, and no kind uses another.

// These are first, because rustdoc lists the methods of `Lock` in the order of modules.
pub(crate) mod handle;
pub(crate) mod holding;

mod run;

pub(crate) mod acquire;
mod fair;
mod fenced;
mod foreign;
pub(crate) mod guard;
mod inspect;
pub(crate) mod kind;
pub(crate) mod plain;
mod plain_format;
mod read_write;
mod reentrant;
pub(crate) mod section;
mod spin;
mod travel;

pub use leasehold_proto::WireOwner;
pub use leasehold_proto::recipe::fenced::Tokens;
pub use leasehold_proto::recipe::{Holder, Remaining};

pub use crate::semaphore::section::OnePermit;
pub use fair::Fair;
pub use fenced::{Fenced, FencedGuard};
pub use guard::{Asker, Guard, ReleaseOutcome};
pub use handle::Lock;
pub use kind::{HoldGuard, Kind};
pub use plain::{FencedPlain, Plain};
pub use plain_format::{Endless, PlainFormat};
pub use read_write::{Read, RwLock, Write};
pub use reentrant::Reentrant;
pub use section::{Acquirable, OnFinish, OnLost, Section, SectionGuard};
pub use spin::Spin;
pub use travel::{Ticket, TicketTextError};
