//! Hands calls to the store on the threads of their callers, and takes back the outcomes.
//!
//! Invariant: calls leave in the order of their steps. A thread that submits holds `submitting` from before it takes the
//! calls until the store has them, and nothing else is locked while the store writes.

use std::sync::{Arc, PoisonError};

use leasehold_proto::engine::{CallId, Event};
use leasehold_proto::{Reply, Scope, StoreError};
use leasehold_store::{Outcomes, Submit};

use super::{Effects, Shared, State};
use crate::runtime::sync::MutexGuard;

/// A step with fewer calls submits them one by one. With two rows a batch costs the server more than commands for each
/// call, and with four less (decision 0032).
const BATCH_MIN: usize = 4;

impl Shared {
    /// Lets callers run their calls at the store's entrance.
    pub(crate) fn enter_by(&self, entrance: Arc<dyn Submit>) {
        self.lock().has_entrance = self.entrance.set(entrance).is_ok();
    }

    /// Unlocks the state and submits the calls of all steps so far. Returns true if the driver has to be notified.
    pub(super) fn submit(&self, state: MutexGuard<'_, State>, effects: &mut Effects) -> bool {
        let Some(entrance) = self.entrance.get() else { return false };
        let mut notify = false;
        // Another thread that submits may have taken these calls when it is this thread's turn.
        let (mut state, _submitting) = match self.submitting.try_lock() {
            Ok(submitting) => (state, submitting),
            Err(_) => {
                drop(state);
                let submitting = self.submitting.lock().unwrap_or_else(PoisonError::into_inner);
                (self.lock(), submitting)
            }
        };
        loop {
            let calls = std::mem::take(&mut state.calls_to_submit);
            let withdrawn = std::mem::take(&mut state.calls_to_withdraw);
            drop(state);
            let refused = if calls.len() < BATCH_MIN {
                let submit = |(id, call, limit)| Some((id, entrance.submit(id, call, limit).err()?));
                calls.into_iter().filter_map(submit).collect()
            } else {
                entrance.submit_all(calls)
            };
            let mut answers: Vec<Event> =
                refused.into_iter().map(|(id, error)| Event::Replied(id, Err(error))).collect();
            answers.extend(withdrawn.into_iter().map(|id| match entrance.withdraw(id) {
                Some(error) => Event::Replied(id, Err(error)),
                None => Event::Kept(id),
            }));
            if answers.is_empty() {
                return notify;
            }
            state = self.lock();
            let now = self.now();
            for answer in answers {
                state.step(now, answer, effects);
            }
            notify |= state.wakes_driver();
        }
    }
}

impl Outcomes for Shared {
    fn take(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>) {
        self.turn(outcomes, false);
    }

    fn gather(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>) -> bool {
        self.turn(outcomes, true)
    }

    fn replaced(&self, scope: Scope) {
        let (mut state, mut effects) = (self.lock(), Effects { by_driver: true, ..Effects::default() });
        state.step(self.now(), Event::Replaced(scope), &mut effects);
        self.leave(state, effects);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::sync::{Mutex, OnceLock, Weak};
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;

    use leasehold_proto::engine::{AcquireFailure, Id, Outcome, Request, Settings, Subject, Wait};
    use leasehold_proto::recipe::reentrant::REENTRANT;
    use leasehold_proto::{
        Applied, Call, ClientId, Engine, Lease, Moment, Name, Owner, StoreErrorKind, Verb,
    };

    use super::super::waking::Task;
    use super::*;
    use crate::runtime::process::Process;

    /// The time for which another thread gets the chance to break the order.
    const A_WHILE: Duration = Duration::from_millis(100);

    fn shared() -> Arc<Shared> {
        let engine = Engine::new(ClientId::from_random([7; 16]), Settings::default());
        Arc::new(Shared::new(engine, Process::current(), Moment::default))
    }

    fn request(owner: u64, name: &str) -> Request {
        let subject = Subject::new(&Name::new(name).unwrap(), &REENTRANT);
        let lease = Lease::new(Duration::from_secs(30)).unwrap();
        Request::new(subject, Owner::from_number(owner), lease, Wait::Forever)
    }

    fn acquire(shared: &Shared, id: u64, name: &str) {
        shared.step(Event::Acquire(Id(id), request(id, name))).unwrap();
    }

    /// A store that is slow to take the first call, while another thread acquires.
    struct Slow {
        shared: OnceLock<Weak<Shared>>,
        took: Mutex<Sender<String>>,
        seen: Mutex<Receiver<String>>,
    }

    impl Submit for Slow {
        #[expect(clippy::disallowed_methods, reason = "a thread that tries to overtake")]
        fn submit(&self, _: CallId, call: Call, _: Duration) -> Result<(), StoreError> {
            let key = call.subject().to_string();
            if key == "first" {
                let shared = self.shared.get().and_then(Weak::upgrade).unwrap();
                thread::spawn(move || acquire(&shared, 2, "second"));
                let overtaken = self.seen.lock().unwrap().recv_timeout(A_WHILE);
                assert!(overtaken.is_err(), "{overtaken:?} overtook the first call");
            }
            self.took.lock().unwrap().send(key).unwrap();
            Ok(())
        }
    }

    #[test]
    fn calls_leave_in_the_order_of_their_steps() {
        let shared = shared();
        let (took, seen) = channel();
        let slow = Arc::new(Slow { shared: OnceLock::new(), took: Mutex::new(took), seen: Mutex::new(seen) });
        slow.shared.set(Arc::downgrade(&shared)).unwrap();
        shared.enter_by(Arc::clone(&slow) as Arc<dyn Submit>);
        acquire(&shared, 1, "first");
        let order =
            [(); 2].map(|()| slow.seen.lock().unwrap().recv_timeout(Duration::from_secs(20)).unwrap());
        assert_eq!(order, ["first", "second"]);
    }

    /// A store that refuses each call.
    struct Refusing;

    impl Submit for Refusing {
        fn submit(&self, _: CallId, call: Call, _: Duration) -> Result<(), StoreError> {
            Err(StoreError::new(StoreErrorKind::Closed, call.verb(), call.subject(), Applied::No))
        }
    }

    #[test]
    fn a_call_that_is_refused_in_the_poll_that_makes_it_wakes_its_task() {
        let shared = shared();
        shared.enter_by(Arc::new(Refusing));
        let (task, signal) = (Arc::new(Task::default()), Arc::default());
        let (id, waker) = (shared.next_id(), Waker::from(Arc::clone(&task)));
        let first = Event::Acquire(id, request(id.0, "job"));
        assert_eq!(shared.claim(id, Some(first), &signal, &waker).unwrap(), None);
        assert_eq!(task.woken(), 1, "nothing else ends this wait");
        let outcome = shared.claim(id, None, &signal, &waker).unwrap();
        assert!(matches!(outcome, Some(Outcome::Acquired(Err(AcquireFailure::Failed(_))))), "{outcome:?}");
    }

    #[test]
    fn a_refused_call_is_answered() {
        let shared = shared();
        shared.enter_by(Arc::new(Refusing));
        acquire(&shared, 1, "job");
        let mut state = shared.lock();
        let mut effects = Effects::default();
        state.step(Moment::default(), Event::Claim(Id(1)), &mut effects);
        let Some(Outcome::Acquired(Err(AcquireFailure::Failed(error)))) = effects.outcome else {
            panic!("{:?}", effects.outcome)
        };
        assert_eq!((error.kind, error.during), (StoreErrorKind::Closed, Verb::Acquire));
    }
}
