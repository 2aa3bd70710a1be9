//! Finds out which other kind of object has a lock's name, so that the error can say so.
//!
//! Invariant: only an acquire that has failed asks, so no other call pays for it.

use std::sync::Arc;

use leasehold_proto::recipe::foreign::{kind, read_kind, read_kind_beside_strings};
use leasehold_proto::{Applied, Name, StoreError, StoreErrorKind, Verb};

use crate::error::{AcquireErrorKind, SubjectKind};
use crate::runtime::shared::Handle;

/// Names the object if the error comes from a foreign one. A server that does not tell, for example because its user may not
/// ask for a type, leaves the error as it is.
pub(super) async fn named(
    handle: &Arc<Handle>,
    (of, name): (SubjectKind, &Name),
    error: AcquireErrorKind,
) -> AcquireErrorKind {
    let may_be_foreign = matches!(error, AcquireErrorKind::OtherKind(_) | AcquireErrorKind::NoExpiry);
    // Of the names of a multi-lock it is not known which one the error is about.
    if !may_be_foreign || of == SubjectKind::MultiLock {
        return error;
    }
    // A string without an expiry is a plain lock, which its format calls a fault.
    let is_plain = of == SubjectKind::PlainLock;
    let read = if is_plain { read_kind_beside_strings } else { read_kind };
    let Ok(Some(foreign)) = handle.query(kind(name), read).await else { return error };
    let is_no_lock = foreign.looks_like_a_lock() || matches!(error, AcquireErrorKind::OtherKind(_));
    if !is_no_lock {
        return error;
    }
    let key = name.as_str().into();
    let source = StoreError::new(StoreErrorKind::WrongType, Verb::Acquire, key, Applied::No);
    AcquireErrorKind::OtherKind(source.with_source(foreign))
}
