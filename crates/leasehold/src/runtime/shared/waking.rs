//! Tests of the wakers that an effect wakes. A listener's last waker counts, a ticket sees its own effects at once, and
//! no waker runs under the lock.
//!
//! Invariant: no driver and no server takes part, and the test brings every event.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::FutureExt;
use leasehold_proto::engine::{
    Action, Event, Grant, Id, LostReason, Outcome, Request, Settings, Subject, Wait,
};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{ClientId, Engine, Lease, Moment, Name, Owner, Reply, WireOwner};

use super::{Command, Effects, Handle, Shared};
use crate::error::SubjectKind;
use crate::lock::guard::Guard;
use crate::runtime::process::Process;
use crate::runtime::signal::Signal;
use crate::runtime::ticket::Ticket;

/// The longest real time of a test's wait, which only a failure reaches.
const SOON: Duration = Duration::from_secs(20);

/// A task that counts its wake-ups.
#[derive(Default)]
pub(super) struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    pub(super) fn woken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

fn client() -> Arc<Shared> {
    client_with(Settings::default())
}

fn client_with(settings: Settings) -> Arc<Shared> {
    let engine = Engine::new(ClientId::from_random([7; 16]), settings);
    Arc::new(Shared::new(engine, Process::current(), Moment::default))
}

fn request() -> Request {
    let name = Name::new("job").expect("it is a name");
    let lease = Lease::new(Duration::from_secs(30)).expect("it is a lease");
    Request::new(Subject::new(&name, &REENTRANT), Owner::unique(), lease, Wait::Forever)
}

/// Answers the one call in flight.
fn answer(shared: &Shared, reply: Reply) {
    let (commands, _) = shared.take_commands().expect("the client lives");
    let calls = commands.iter().filter_map(|command| match command {
        Command::Act(Action::Run(id, ..)) => Some(*id),
        _ => None,
    });
    let [call] = calls.collect::<Vec<_>>()[..] else { panic!("one call is on its way") };
    shared.step_awake(Event::Replied(call, Ok(reply)));
}

/// Runs the test's work on a thread, and fails when the work hangs.
#[expect(clippy::disallowed_methods, reason = "a test that fails instead of hanging")]
fn must_end(work: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        tell.send(()).expect("the test waits");
    });
    told.recv_timeout(SOON).expect("the work ends, and nothing waits for the lock");
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
    answer(&shared, Reply::Nil);
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
        let signal = Arc::new(Signal::default());
        shared.read_as((Id(id), Id(listener)), &signal, &waker, |_, _| ()).expect("it is this process");
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
    let mut effects = Effects { polled: Some((Id(1), Arc::default())), ..Effects::default() };
    let mut state = shared.lock();
    state.apply(Action::Wake(Id(2)), &mut effects);
    assert!(!effects.poll_again, "the effect is on another ticket");
    state.apply(Action::Wake(Id(1)), &mut effects);
    assert!(effects.poll_again);
}

#[test]
fn an_uncontended_pair_takes_four_steps() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut cx = Context::from_waker(Waker::noop());
    let locks = || shared.locks.load(Ordering::Relaxed);
    let mut locked = 0;
    let mut pair = |event: &dyn Fn(Id) -> Event, reply| {
        let mut ticket = pin!(Ticket::new(&handle, event));
        let before = locks();
        assert!(ticket.as_mut().poll(&mut cx).is_pending());
        locked += locks() - before;
        answer(&shared, reply);
        let before = locks();
        assert!(ticket.as_mut().poll(&mut cx).is_ready());
        locked += locks() - before;
        ticket.hold().0
    };
    let hold = pair(&|id| Event::Acquire(id, request()), Reply::Nil);
    pair(&|id| Event::Release { hold, report: Some(id) }, Reply::Int(1));
    assert_eq!(shared.lock().steps, 4, "neither the grant nor the outcome of the release needs a claim");
    assert_eq!(locked, 2, "the caller locks the engine for each of its two calls, and for no answer");
}

#[test]
fn the_outcome_of_a_release_is_delivered_once_and_leaves_no_listener() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut cx = Context::from_waker(Waker::noop());
    let mut acquire = pin!(Ticket::new(&handle, |id| Event::Acquire(id, request())));
    assert!(acquire.as_mut().poll(&mut cx).is_pending());
    answer(&shared, Reply::Nil);
    assert!(acquire.as_mut().poll(&mut cx).is_ready());
    let hold = acquire.hold().0;
    let mut release = Ticket::new(&handle, |id| Event::Release { hold, report: Some(id) });
    let (id, signal) = release.hold();
    assert!(Pin::new(&mut release).poll(&mut cx).is_pending());
    answer(&shared, Reply::Int(1));
    let steps = shared.lock().steps;
    // As a poll does that looked for the outcome just before its delivery.
    let outcome = shared.claim(id, None, &signal, Waker::noop());
    assert!(matches!(outcome, Ok(Some(Outcome::Released(Ok(true))))), "{outcome:?}");
    assert!(shared.lock().listeners.is_empty());
    assert_eq!(shared.lock().steps, steps + 1);
    let outcome = Pin::new(&mut release).poll(&mut cx);
    assert!(matches!(outcome, Poll::Ready(Ok(Outcome::Released(Ok(true))))), "{outcome:?}");
    assert_eq!(shared.lock().steps, steps + 1, "a poll finds it without the lock");
}

#[test]
fn an_outcome_that_is_known_at_once_is_claimed_at_the_first_poll() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut ticket = pin!(Ticket::new(&handle, |id| Event::Release { hold: Id(99), report: Some(id) }));
    let outcome = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(outcome, Poll::Ready(Ok(Outcome::Released(Ok(false))))));
}

/// A task that calls its client whenever its waker is woken or dropped.
struct Caller(Arc<Shared>);

impl Wake for Caller {
    fn wake(self: Arc<Self>) {
        self.0.read(|_, _| ()).expect("it is this process");
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.0.read(|_, _| ()).expect("it is this process");
    }
}

#[test]
fn a_waker_may_call_the_client_when_it_is_woken_or_dropped() {
    must_end(|| {
        let shared = client();
        let handle = Handle::new(Arc::clone(&shared));
        let waker = || Waker::from(Arc::new(Caller(Arc::clone(&shared))));
        let mut ticket = Box::pin(Ticket::new(&handle, |id| Event::Acquire(id, request())));
        // The second poll replaces the waker of the first.
        for waker in [waker(), waker()] {
            assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        answer(&shared, Reply::Nil);
        assert!(ticket.as_mut().poll(&mut Context::from_waker(&waker())).is_ready());
        let guard = guard_of(&handle, &ticket);
        let mut lost = Box::pin(guard.watch());
        assert!(lost.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        // The hold ends, and the other ticket is given up.
        drop(guard);
        let mut given_up = Box::pin(Ticket::new(&handle, |id| Event::Acquire(id, request())));
        assert!(given_up.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        drop((given_up, lost));
        // The end of the driver wakes what waits then.
        let mut waiting = Box::pin(Ticket::new(&handle, |id| Event::Acquire(id, request())));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker())).is_pending());
        shared.end();
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker())).is_ready());
    });
}

fn guard_of(handle: &Arc<Handle>, ticket: &Ticket) -> Guard {
    let name = Name::new("job").expect("it is a name");
    let grant = Grant { wire: WireOwner::new(handle.client(), 1), token: None };
    Guard::new(handle, ticket.hold(), (SubjectKind::Lock, name), grant)
}

/// Returns a ticket whose request is granted, and that has not been polled since.
fn granted(shared: &Shared, handle: &Arc<Handle>) -> Pin<Box<Ticket>> {
    let mut ticket = Box::pin(Ticket::new(handle, |id| Event::Acquire(id, request())));
    assert!(ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    answer(shared, Reply::Nil);
    ticket
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a thread that polls while another holds the lock")]
fn a_waker_is_cloned_before_the_lock_is_taken() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let task = Arc::new(Task::default());
    let waker = Waker::from(Arc::clone(&task));
    let held = shared.lock();
    let poll = std::thread::spawn(move || {
        let mut ticket = pin!(Ticket::new(&handle, |id| Event::Acquire(id, request())));
        ticket.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
    });
    must_end(move || {
        // The task, its waker, and the registered clone.
        while Arc::strong_count(&task) < 3 {
            std::thread::yield_now();
        }
    });
    drop(held);
    assert!(poll.join().expect("the poll ends"));
}

#[test]
fn the_validity_of_a_guard_needs_no_lock() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut ticket = granted(&shared, &handle);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(ticket.as_mut().poll(&mut cx).is_ready());
    let guard = Arc::new(guard_of(&handle, &ticket));
    let (held, read) = (shared.lock(), Arc::clone(&guard));
    must_end(move || {
        assert!(read.is_held());
        assert_eq!(read.remaining(), request().lease.validity());
    });
    drop(held);
    shared.end();
    assert_eq!((guard.is_held(), guard.remaining()), (false, Duration::ZERO), "the client has ended");
    assert_eq!(guard.lost().now_or_never(), Some(LostReason::Closed));
}

#[test]
fn an_offer_that_nobody_takes_is_recalled_and_claimed_by_a_later_poll() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut ticket = granted(&shared, &handle);
    let mut cx = Context::from_waker(Waker::noop());
    let signal = ticket.hold().1;
    assert!(signal.has_offer());
    // Another request for the name asks whether the offer is taken.
    let mut second = Box::pin(Ticket::new(&handle, |id| Event::Acquire(id, request())));
    assert!(second.as_mut().poll(&mut cx).is_pending());
    assert!(!signal.has_offer() && shared.lock().holds.is_empty());
    assert!(ticket.as_mut().poll(&mut cx).is_ready(), "it claims as without an offer");
    assert_eq!(shared.lock().holds.len(), 1);
}

#[test]
fn a_dropped_future_returns_its_offer() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    drop(granted(&shared, &handle));
    answer(&shared, Reply::Int(1));
    assert!(shared.lock().listeners.is_empty());
}

#[test]
fn a_taken_offer_is_among_the_holds() {
    let shared = client();
    let handle = Handle::new(Arc::clone(&shared));
    let mut ticket = granted(&shared, &handle);
    let mut cx = Context::from_waker(Waker::noop());
    assert!(shared.holds_after(Id(0)).0.is_empty(), "nobody has taken it");
    assert!(ticket.as_mut().poll(&mut cx).is_ready());
    let guard = guard_of(&handle, &ticket);
    guard.note("a word");
    let (holds, _) = shared.holds_after(Id(0));
    assert_eq!(holds.iter().map(|hold| hold.note.as_deref()).collect::<Vec<_>>(), [Some("a word")]);
    drop(guard);
    assert!(shared.holds_after(Id(0)).0.is_empty() && shared.lock().holds.is_empty());
}

#[test]
fn the_end_of_the_driver_ends_an_endless_timeout() {
    must_end(|| {
        let shared = client_with(Settings { timeout: Duration::MAX, ..Settings::default() });
        let handle = Handle::new(Arc::clone(&shared));
        let mut cx = Context::from_waker(Waker::noop());
        let mut acquire = pin!(Ticket::new(&handle, |id| Event::Acquire(id, request())));
        assert!(acquire.as_mut().poll(&mut cx).is_pending());
        // The driver has taken the call, so its outcome is unknown, and only an answer ends the undo.
        assert_eq!(shared.take_commands().map(|(commands, _)| commands.len()), Some(1));
        shared.end();
        assert!(acquire.as_mut().poll(&mut cx).is_ready());
        assert!(shared.take_commands().is_none(), "nothing is left to do");
    });
}
