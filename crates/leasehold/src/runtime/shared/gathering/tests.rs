//! Requests that callers leave: they are brought in their order, with a turn or before any other event.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::task::{Context, Poll, Waker};

use futures_util::FutureExt;
use leasehold_proto::engine::{AcquireFailure, Id, Outcome, Request, Settings, Subject};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Applied, Call, ClientId, Engine, Lease, Name, Owner, StoreErrorKind, Verb};
use leasehold_store::{Outcomes, Submit};

use super::super::waking::Task;
use super::*;
use crate::runtime::process::Process;
use crate::runtime::shared::Handle;
use crate::runtime::ticket::Ticket;

/// A store that takes calls and answers none.
#[derive(Default)]
struct Taking(StdMutex<Vec<(CallId, String)>>);

impl Submit for Taking {
    fn submit(&self, id: CallId, call: Call, _: Duration) -> Result<(), StoreError> {
        self.0.lock().unwrap().push((id, call.subject().to_string()));
        Ok(())
    }
}

impl Taking {
    /// Takes the calls that have come since the last question.
    fn ids(&self) -> Vec<CallId> {
        std::mem::take(&mut *self.0.lock().unwrap()).into_iter().map(|(id, _)| id).collect()
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().unwrap().iter().map(|(_, name)| name.clone()).collect()
    }
}

struct Scene {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    store: Arc<Taking>,
}

impl Scene {
    fn new() -> Self {
        let engine = Engine::new(ClientId::from_random([7; 16]), Settings::default());
        let shared = Arc::new(Shared::new(engine, Process::current(), Moment::default));
        let store = Arc::new(Taking::default());
        shared.enter_by(Arc::clone(&store) as Arc<dyn Submit>);
        Self { handle: Handle::new(Arc::clone(&shared)), shared, store }
    }

    /// Grants locks to a crowd, whose answers open the inbox. Its tickets are not polled again.
    fn with_crowd(count: usize) -> (Self, Vec<Pin<Box<Ticket>>>, bool) {
        let scene = Self::new();
        let crowd =
            (0..count).map(|number| scene.polled(&format!("crowd {number}"), Wait::Forever)).collect();
        let answers = scene.store.ids().into_iter().map(|id| (id, Ok(Reply::Nil))).collect();
        let opened = scene.shared.gather(answers);
        (scene, crowd, opened)
    }

    /// Returns a ticket for a lock, polled once.
    fn polled(&self, name: &str, wait: Wait) -> Pin<Box<Ticket>> {
        let mut ticket = Box::pin(Ticket::new(&self.handle, |id| Event::Acquire(id, request(name, wait))));
        assert!(ticket.as_mut().now_or_never().is_none());
        ticket
    }
}

fn request(name: &str, wait: Wait) -> Request {
    let subject = Subject::new(&Name::new(name).unwrap(), &REENTRANT);
    Request::new(subject, Owner::unique(), Lease::new(Duration::from_secs(30)).unwrap(), wait)
}

#[test]
fn what_a_crowd_leaves_goes_out_with_the_next_turn_and_then_nothing_is_left() {
    let (scene, _crowd, opened) = Scene::with_crowd(CROWD);
    assert!(opened);
    let names: Vec<String> = (0..CROWD).map(|number| format!("left {number}")).collect();
    let left: Vec<_> = names.iter().map(|name| scene.polled(name, Wait::Forever)).collect();
    assert!(scene.store.names().is_empty(), "nobody has brought them");
    assert!(scene.shared.gather(Vec::new()), "as many may come again");
    assert_eq!(scene.store.names(), names);
    assert!(!scene.shared.gather(Vec::new()), "nobody came");
    let _direct = scene.polled("direct", Wait::Forever);
    assert_eq!(scene.store.names().last().unwrap(), "direct");
    drop(left);
}

#[test]
fn a_store_that_does_not_come_back_closes_the_inbox() {
    let (scene, _crowd, opened) = Scene::with_crowd(CROWD);
    assert!(opened);
    let _left = scene.polled("left", Wait::Forever);
    scene.shared.take(Vec::new());
    let _direct = scene.polled("direct", Wait::Forever);
    assert_eq!(scene.store.names(), ["left", "direct"]);
}

#[test]
fn few_answers_open_no_inbox_and_a_short_wait_is_not_left() {
    let (scene, _crowd, opened) = Scene::with_crowd(CROWD - 1);
    assert!(!opened);
    let _direct = scene.polled("direct", Wait::Forever);
    assert_eq!(scene.store.names(), ["direct"]);
    let (scene, _crowd, _) = Scene::with_crowd(CROWD);
    let _short = scene.polled("short", Wait::Until(Moment::default() + WAIT_MIN / 2));
    assert_eq!(scene.store.names(), ["short"]);
}

#[test]
fn no_event_overtakes_a_request_that_was_left() {
    let (scene, _crowd, _) = Scene::with_crowd(CROWD);
    let _left = scene.polled("left", Wait::Forever);
    scene.shared.step(Event::Acquire(Id(999), request("later", Wait::Forever))).unwrap();
    assert_eq!(scene.store.names(), ["left", "later"]);
}

#[test]
fn a_request_that_is_left_and_given_up_leaves_no_hold() {
    let (scene, _crowd, _) = Scene::with_crowd(CROWD);
    drop(scene.polled("left", Wait::Forever));
    assert_eq!(scene.store.names(), ["left"], "it is known");
    let acquire = scene.store.ids()[0];
    assert!(!scene.shared.gather(vec![(acquire, Ok(Reply::Nil))]));
    assert_eq!(scene.store.names(), ["left"], "the grant is returned");
    let state = scene.shared.lock();
    assert!(state.left.is_empty() && state.listeners.keys().all(|(id, _)| id.0 <= CROWD as u64));
}

#[test]
fn the_end_of_the_client_answers_what_was_left_and_opens_nothing_again() {
    let (scene, _crowd, _) = Scene::with_crowd(CROWD);
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let event = |id| Event::Acquire(id, request("left", Wait::Forever));
    let mut left = Box::pin(Ticket::new(&scene.handle, event));
    assert!(left.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
    scene.shared.end();
    assert_eq!(task.woken(), 1);
    let Poll::Ready(Ok(Outcome::Acquired(Err(AcquireFailure::Closed | AcquireFailure::Failed(_))))) =
        left.poll_unpin(&mut Context::from_waker(&waker))
    else {
        panic!("the request has ended")
    };
    let error = || StoreError::new(StoreErrorKind::Closed, Verb::Acquire, "left".into(), Applied::No);
    let late = scene.store.ids().into_iter().map(|id| (id, Err(error()))).collect();
    assert!(!scene.shared.gather(late), "nobody leaves a request to a client that has ended");
}
