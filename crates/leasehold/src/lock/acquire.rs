//! Sends an acquire to the engine and awaits its guard. Every kind of lock and permit ends up here.

use std::sync::Arc;

use leasehold_proto::Name;
use leasehold_proto::engine::{AcquireFailure, Event, Outcome, Request};

use super::foreign;
use super::guard::Guard;
use crate::error::{AcquireErrorKind, Forked, NodeError, SubjectKind};
use crate::observe::acquiring;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;

/// Sends the request and waits for the outcome, which is `None` if another owner holds the lock.
pub(crate) async fn acquire(
    handle: &Arc<Handle>,
    request: Request,
    kind: SubjectKind,
) -> Result<Option<Guard>, AcquireErrorKind> {
    let (failure, name) = match call(handle, request, kind).await? {
        Ok(guard) => return Ok(Some(guard)),
        Err(failed) => failed,
    };
    match AcquireErrorKind::from_failure(failure) {
        Some(error) => Err(foreign::named(handle, (kind, &name), error).await),
        None => Ok(None),
    }
}

/// Acquires as [`acquire`] does, at one node of a quorum.
pub(crate) async fn acquire_at_node(
    handle: &Arc<Handle>,
    request: Request,
    kind: SubjectKind,
) -> Result<Option<Guard>, NodeError> {
    match call(handle, request, kind).await? {
        Ok(guard) => Ok(Some(guard)),
        Err((failure, _)) => NodeError::from_failure(failure).map_or(Ok(None), Err),
    }
}

async fn call(
    handle: &Arc<Handle>,
    request: Request,
    kind: SubjectKind,
) -> Result<Result<Guard, (AcquireFailure, Name)>, Forked> {
    let name = request.subject.name.clone();
    let (label, group) = (request.subject.recipe.kind, request.subject.group);
    let ticket = Ticket::new(handle, |id| Event::Acquire(id, request));
    let hold = ticket.hold();
    let outcome = acquiring((label, &handle.shown(&name, group)), ticket).await?;
    match outcome {
        Outcome::Acquired(Ok(grant)) => Ok(Ok(Guard::new(handle, hold, (kind, name), grant))),
        Outcome::Acquired(Err(failure)) => Ok(Err((failure, name))),
        other => unreachable!("an acquire completed as {other:?}"),
    }
}
