//! The call of the engine that acquires a hold.

use std::sync::Arc;

use leasehold_proto::engine::{Event, Outcome, Request};

use super::guard::Guard;
use crate::error::{AcquireErrorKind, SubjectKind};
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;

/// Sends the request and waits for the outcome, which is `None` if another owner holds the lock.
pub(crate) async fn acquire(
    handle: &Arc<Handle>,
    request: Request,
    kind: SubjectKind,
) -> Result<Option<Guard>, AcquireErrorKind> {
    let name = request.subject.name.clone();
    let ticket = Ticket::new(handle, |id| Event::Acquire(id, request));
    let hold = ticket.id();
    match ticket.await? {
        Outcome::Acquired(Ok(grant)) => Ok(Some(Guard::new(handle, hold, (kind, name), grant))),
        Outcome::Acquired(Err(failure)) => AcquireErrorKind::from_failure(failure).map_or(Ok(None), Err),
        other => unreachable!("an acquire completed as {other:?}"),
    }
}
