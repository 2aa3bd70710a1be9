//! Operations: changes of a semaphore or latch that hold nothing.
//!
//! Invariant: an operation is applied at most once, however often it is sent, because its marker on the server keeps
//! the reply.

use std::sync::Arc;

use leasehold_proto::engine::{Event, OperationFailure, Outcome};
use leasehold_proto::marker::Operation;
use leasehold_proto::{Applied, Call, Name, Reply, StoreError, StoreErrorKind};

use crate::error::{About, OperationError, OperationErrorKind, SubjectKind};
use crate::name::Named;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;

/// Performs the call that `call` builds, until the server answers or the client's timeout is over.
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
        other => unreachable!("an operation completed as {other:?}"),
    };
    let (verb, key) = about.expect("the ticket was made");
    let malformed = || StoreError::new(StoreErrorKind::Malformed, verb, key, Applied::Unknown);
    read(&reply).ok_or_else(|| OperationErrorKind::Unknown(malformed()))
}

/// Performs an operation on a named object, which its error names.
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
