//! Tests of the wakers that an effect wakes. A listener's last waker counts, and a ticket sees its own effects at once.
//!
//! Invariant: no thread and no server takes part, and the test brings every event.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use leasehold_proto::engine::{Action, Event, Id, Outcome, Request, Settings, Subject, Wait};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{ClientId, Engine, Lease, Moment, Name, Owner, Reply};

use super::{Command, Effects, Handle, Shared};
use crate::runtime::ticket::Ticket;

/// A task that counts its wake-ups.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn woken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn client() -> Arc<Shared> {
    let engine = Engine::new(ClientId::from_random([7; 16]), Settings::default());
    Arc::new(Shared::new(engine, std::process::id(), Moment::default))
}

fn request() -> Request {
    let name = Name::new("job").expect("it is a name");
    let lease = Lease::new(Duration::from_secs(30)).expect("it is a lease");
    Request::new(Subject::new(&name, &REENTRANT), Owner::unique(), lease, Wait::Forever)
}

/// Answers the one call in flight with a grant.
fn grant(shared: &Shared) {
    let (commands, _) = shared.take_commands().expect("the client lives");
    let calls = commands.iter().filter_map(|command| match command {
        Command::Act(Action::Run(id, ..)) => Some(*id),
        _ => None,
    });
    let [call] = calls.collect::<Vec<_>>()[..] else { panic!("one call is on its way") };
    shared.step_awake(Event::Replied(call, Ok(Reply::Nil)));
}

#[test]
fn a_ticket_moved_to_another_task_wakes_that_task() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut ticket = pin!(Ticket::new(&handle, |id| Event::Acquire(id, request())));
    let tasks = [Arc::new(Task::default()), Arc::new(Task::default())];
    for task in &tasks {
        let waker = Waker::from(Arc::clone(task));
        assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    grant(&shared);
    assert_eq!(tasks.each_ref().map(|task| task.woken()), [0, 1]);
    let outcome = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(outcome, Poll::Ready(Ok(Outcome::Acquired(Ok(_))))));
}

#[test]
fn every_listener_of_one_id_is_woken_and_no_other() {
    let shared = client();
    let tasks: Vec<_> = (0..4).map(|_| Arc::new(Task::default())).collect();
    for (task, (id, listener)) in tasks.iter().zip([(1, 1), (1, 2), (1, 3), (2, 4)]) {
        let waker = Waker::from(Arc::clone(task));
        shared.read_as(Id(id), Id(listener), &waker, |_, _| ()).expect("it is this process");
    }
    let mut effects = Effects::default();
    let mut state = shared.lock();
    state.apply(Action::Wake(Id(1)), &mut effects);
    shared.leave(state, effects);
    let woken: Vec<_> = tasks.iter().map(|task| task.woken()).collect();
    assert_eq!(woken, [1, 1, 1, 0]);
}

#[test]
fn effects_on_the_polled_ticket_make_it_poll_again() {
    let shared = client();
    let mut effects = Effects { polled: Some(Id(1)), ..Effects::default() };
    let mut state = shared.lock();
    state.apply(Action::Wake(Id(2)), &mut effects);
    assert!(!effects.poll_again, "the effect is on another ticket");
    state.apply(Action::Wake(Id(1)), &mut effects);
    assert!(effects.poll_again);
}
