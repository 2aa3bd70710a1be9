//! Tests of a client that another process made, as in a forked child.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::{CloseReport, Grant, Id, LostReason, Settings};
use leasehold_proto::{ClientId, Engine, Moment, Name, Owner, WireOwner};

use super::sleeping::sleep as pause;
use super::{Handle, Shared};
use crate::client::Client;
use crate::error::{
    AcquireErrorKind, EnsureErrorKind, InspectErrorKind, ReleaseErrorKind, RunError, SubjectKind,
};
use crate::lock::guard::Guard;
use crate::lock::section::SectionOptions;
use crate::runtime::process::Process;
use crate::runtime::signal::Signal;

const SOON: Duration = Duration::from_secs(20);

/// Returns the output of a future that must not wait.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("a forked process is refused at the first poll")
}

fn walk(handle: &Arc<Handle>) {
    let client = Client::new(Arc::clone(handle));
    assert!(format!("{client:?}").starts_with("Client("));
    assert_eq!(at_once(client.close()), CloseReport::default());

    drop(pause(handle, SOON));

    let lock = client.lock("job");
    assert_eq!(at_once(lock.lock()).unwrap_err(), AcquireErrorKind::Forked);
    assert_eq!(at_once(lock.try_lock()).unwrap_err(), AcquireErrorKind::Forked);
    assert_eq!(at_once(lock.try_lock_for(SOON)).unwrap_err(), AcquireErrorKind::Forked);
    let run = at_once(lock.run(async |_guard| unreachable!("the body does not run")));
    let Err::<(), _>(RunError::Acquire(error)) = run else { panic!("{run:?}") };
    assert_eq!(error, AcquireErrorKind::Forked);
    assert_eq!(at_once(lock.force_unlock()).map_err(|error| error.kind), Err(InspectErrorKind::Forked));
    assert_eq!(at_once(lock.is_locked()).map_err(|error| error.kind), Err(InspectErrorKind::Forked));
    assert_eq!(at_once(lock.remaining()).map_err(|error| error.kind), Err(InspectErrorKind::Forked));
    assert_eq!(
        at_once(lock.is_held_by(&Owner::unique())).map_err(|error| error.kind),
        Err(InspectErrorKind::Forked)
    );
    assert_eq!(
        at_once(lock.hold_count(&Owner::unique())).map_err(|error| error.kind),
        Err(InspectErrorKind::Forked)
    );

    let guard = || {
        let wire = WireOwner::new(handle.client(), 1);
        let name = Name::new("job").expect("it is a name");
        // The parent trusts the hold.
        let signal = Arc::new(Signal::default());
        signal.trust_until(Moment::NEVER);
        Guard::new(handle, (Id(1), signal), (SubjectKind::Lock, name), Grant { wire, token: None })
    };
    let held = guard();
    assert!(!held.is_held());
    assert_eq!(held.remaining(), Duration::ZERO);
    assert_eq!(at_once(held.lost()), LostReason::Closed);
    assert_eq!(at_once(held.ensure(SOON)).map_err(|error| error.kind), Err(EnsureErrorKind::Forked));
    assert_eq!(at_once(held.release()).map_err(|error| error.kind), Err(ReleaseErrorKind::Forked));
    // A section whose body ran when the process forked.
    let ended = at_once(SectionOptions::default().end(guard(), 5));
    assert!(matches!(ended, Err(RunError::Lost { reason: LostReason::Closed, .. })), "{ended:?}");
    guard().detach();
    drop(guard());
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
fn a_client_in_a_forked_process_fails_every_call_without_blocking() {
    let engine = Engine::new(ClientId::from_random([7; 16]), Settings::default());
    let shared = Arc::new(Shared::new(engine, Process::Parent, Moment::default));
    // Holds the lock, as if the parent forked inside a step.
    let held = shared.lock();
    let (tell, told) = mpsc::channel();
    let handle = Handle::new(Arc::clone(&shared));
    std::thread::spawn(move || {
        walk(&handle);
        drop(handle);
        tell.send(()).expect("the test waits");
    });
    told.recv_timeout(SOON).expect("nothing fails and nothing waits for the lock");
    drop(held);
}
