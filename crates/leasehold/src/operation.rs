//! Operations: what changes a semaphore or a latch without holding it.
//!
//! Invariant: an operation is applied at most once, however often it is sent: its marker on the server has the answer.
//! Called by: the semaphores and latches.

use std::sync::Arc;

use leasehold_proto::engine::{Event, OperationFailure, Outcome};
use leasehold_proto::marker::Operation;
use leasehold_proto::{Applied, Call, Name, Reply, StoreError, StoreErrorKind};

use crate::error::{About, OperationError, OperationErrorKind, SubjectKind};
use crate::name::Named;
use crate::shared::Handle;
use crate::ticket::Ticket;

/// Has the call made that `call` builds for the operation, until it is answered or the client's timeout is over.
pub(crate) async fn perform<T>(
    handle: &Arc<Handle>,
    call: impl FnOnce(&Operation) -> Call,
    read: impl FnOnce(&Reply) -> Option<T>,
) -> Result<T, OperationErrorKind> {
    let client = handle.client();
    let settings = handle.read(|engine, _| *engine.settings())?;
    let mut about = None;
    let ticket = Ticket::new(handle, |id| {
        let call = call(&Operation::new(client, id, &settings));
        about = Some((call.verb(), call.subject()));
        Event::Perform(id, call)
    });
    let reply = match ticket.await? {
        Outcome::Performed(Ok(reply)) => reply,
        Outcome::Performed(Err(OperationFailure::Closed)) => return Err(OperationErrorKind::Closed),
        Outcome::Performed(Err(OperationFailure::Failed(error))) => return Err(error.into()),
        other => unreachable!("an operation settled as {other:?}"),
    };
    let (verb, key) = about.expect("the ticket was made");
    let malformed = || StoreError::new(StoreErrorKind::Malformed, verb, key, Applied::Unknown);
    read(&reply).ok_or_else(|| OperationErrorKind::Unknown(malformed()))
}

/// The same for a named object: its error says which.
pub(crate) async fn change<T>(
    handle: &Arc<Handle>,
    kind: SubjectKind,
    name: &Named,
    call: impl FnOnce(&Name, &Operation) -> Call,
    read: impl FnOnce(&Reply) -> Option<T>,
) -> Result<T, OperationError> {
    let changed = async {
        let name = name.as_ref().map_err(|bad| OperationErrorKind::from(bad.clone()))?;
        perform(handle, |operation| call(name, operation), read).await
    };
    changed.await.about(|| handle.subject(kind, name))
}
