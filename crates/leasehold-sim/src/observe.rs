//! A store that records its calls and their outcomes.
//!
//! Invariant: the behavior of the wrapped store is not changed.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use leasehold_proto::engine::CallId;
use leasehold_proto::{Applied, Call, Channel, Reply, Scope, StoreError, Verb};
use leasehold_store::{Heard, Outcomes, Store, Submit, Subscription};
use tokio::sync::mpsc::UnboundedSender;

use crate::environment::Environment;
use crate::history::Event;
use crate::recorder::Recorder;
use crate::wire::subject_of;

/// A store under observation.
pub(crate) struct Observed<S> {
    pub(crate) store: S,
    pub(crate) book: Book,
}

/// The record of the calls of one process.
#[derive(Clone)]
pub(crate) struct Book {
    pub(crate) process: usize,
    pub(crate) recorder: Recorder,
    pub(crate) environment: Arc<dyn Environment>,
}

impl<S: Store> Store for Observed<S> {
    fn run(
        &self,
        call: Call,
        timeout: Duration,
    ) -> impl Future<Output = Result<Reply, StoreError>> + Send + 'static {
        let book = self.book.clone();
        let number = book.sends(&call);
        let run = self.store.run(call, timeout);
        async move {
            let result = run.await;
            book.returns(number, &result);
            result
        }
    }

    fn subscribe(&self, channel: Channel, heard: UnboundedSender<Heard>) -> Subscription {
        self.store.subscribe(channel, heard)
    }

    fn entrance(&self, outcomes: Weak<dyn Outcomes>) -> Option<Arc<dyn Submit>> {
        let pending = Arc::new(Pending { book: self.book.clone(), numbers: Mutex::default(), outcomes });
        let observed: Arc<dyn Outcomes> = pending.clone();
        let submit = self.store.entrance(Arc::downgrade(&observed))?;
        Some(Arc::new(Entrance { submit, pending }))
    }
}

impl Book {
    /// Records that a call is sent, and returns its number.
    fn sends(&self, call: &Call) -> u64 {
        let number = self.recorder.next_call();
        let count = call.argument("count").or(call.argument("remaining"));
        // A plain lock has no counts on the server: a call that only reads stands for the end of one hold of several.
        let is_partial = call.verb() == Verb::Release && call.script().header().calls == ["get"];
        let sent = Event::Sent {
            process: self.process,
            call: number,
            verb: call.verb(),
            name: call.subject(),
            wire: subject_of(call),
            count: count.map_or(Some(u32::from(is_partial)), |count| count.parse().ok()),
            lease: call.argument("lease_ms").and_then(|ms| ms.parse().ok()).map(Duration::from_millis),
        };
        self.recorder.record(self.environment.now(), sent);
        number
    }

    /// Records the outcome of a call.
    fn returns(&self, number: u64, outcome: &Result<Reply, StoreError>) {
        let applied: Option<Applied> = outcome.as_ref().err().map(|error| error.applied);
        let returned = Event::Returned { process: self.process, call: number, applied };
        self.recorder.record(self.environment.now(), returned);
    }
}

/// The entrance of a store under observation.
struct Entrance {
    submit: Arc<dyn Submit>,
    pending: Arc<Pending>,
}

impl Submit for Entrance {
    fn submit(&self, id: CallId, call: Call, timeout: Duration) -> Result<(), StoreError> {
        let Pending { book, numbers, .. } = &*self.pending;
        let number = book.sends(&call);
        numbers.lock().unwrap_or_else(PoisonError::into_inner).push((id, number));
        let submitted = self.submit.submit(id, call, timeout);
        if let Err(error) = &submitted {
            self.pending.number_of(id);
            book.returns(number, &Err(error.clone()));
        }
        submitted
    }

    fn submit_all(&self, calls: Vec<(CallId, Call, Duration)>) -> Vec<(CallId, StoreError)> {
        let Pending { book, numbers, .. } = &*self.pending;
        for (id, call, _) in &calls {
            let number = book.sends(call);
            numbers.lock().unwrap_or_else(PoisonError::into_inner).push((*id, number));
        }
        let refused = self.submit.submit_all(calls);
        for (id, error) in &refused {
            if let Some(number) = self.pending.number_of(*id) {
                book.returns(number, &Err(error.clone()));
            }
        }
        refused
    }

    fn withdraw(&self, id: CallId) -> Option<StoreError> {
        let error = self.submit.withdraw(id)?;
        if let Some(number) = self.pending.number_of(id) {
            self.pending.book.returns(number, &Err(error.clone()));
        }
        Some(error)
    }
}

/// The submitted calls without an outcome, and the recipient of their outcomes.
struct Pending {
    book: Book,
    numbers: Mutex<Vec<(CallId, u64)>>,
    outcomes: Weak<dyn Outcomes>,
}

impl Pending {
    /// Takes the number of a call.
    fn number_of(&self, id: CallId) -> Option<u64> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let index = numbers.iter().position(|(known, _)| *known == id)?;
        Some(numbers.swap_remove(index).1)
    }

    /// Books the outcomes of calls.
    fn note(&self, outcomes: &[(CallId, Result<Reply, StoreError>)]) {
        for (id, outcome) in outcomes {
            let number = self.number_of(*id).expect("only submitted calls have outcomes");
            self.book.returns(number, outcome);
        }
    }
}

impl Outcomes for Pending {
    fn take(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>) {
        self.note(&outcomes);
        if let Some(recipient) = self.outcomes.upgrade() {
            recipient.take(outcomes);
        }
    }

    fn gather(&self, outcomes: Vec<(CallId, Result<Reply, StoreError>)>) -> bool {
        self.note(&outcomes);
        self.outcomes.upgrade().is_some_and(|recipient| recipient.gather(outcomes))
    }

    fn replaced(&self, scope: Scope) {
        if let Some(recipient) = self.outcomes.upgrade() {
            recipient.replaced(scope);
        }
    }
}
