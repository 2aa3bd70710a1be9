//! A cache of steps. The same engine with the same event, and the same server with the same call, give the same result.
//!
//! Invariant: a cached result was computed by the real code. Its key is a pair of 64-bit hashes, like the hashes of the
//! checker's states.
//!
//! # How it works
//! Most orders of events differ in the actions of other clients in between, so most steps were made before. Each thread
//! of a checker remembers its steps, and states share their equal parts.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use leasehold_proto::engine::{Action, CallId, Event, Id, Outcome};
use leasehold_proto::{Call, Channel, Engine, Moment};

use super::server::{BrokenVariant, Executed, Form, Server};

/// A value that most steps leave unchanged, cheap to clone and to hash.
#[derive(Debug)]
pub(crate) struct Shared<T>(Arc<T>, u64);

/// An effect that an engine requests.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    Run(CallId, Shared<Call>),
    Wake(Id),
    Complete(Outcome),
    Subscribe(Channel),
    Unsubscribe(Channel),
}

type Stepped = (Shared<Engine>, Arc<[Effect]>);
type Answered = (Server, Executed);

thread_local! {
    static STEPS: RefCell<HashMap<(u64, u64), Stepped>> = RefCell::default();
    static CALLS: RefCell<HashMap<(u64, u64), Answered>> = RefCell::default();
}

impl<T: Hash> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        let print = print_of(&value);
        Self(Arc::new(value), print)
    }
}

impl Shared<Engine> {
    /// Steps the engine with one event.
    pub(crate) fn step(&mut self, now: Moment, event: Event) -> Arc<[Effect]> {
        let key = (self.1, print_of(&(now, &event)));
        let known = STEPS.with_borrow(|steps| steps.get(&key).cloned());
        let (engine, effects) = known.unwrap_or_else(|| {
            let mut engine = (*self.0).clone();
            let mut actions = engine.step(now, event);
            let withdrawn: Vec<_> = actions.iter().filter_map(withdrawn).collect();
            for id in withdrawn {
                actions.extend(engine.step(now, Event::Kept(id)));
            }
            let stepped: Stepped = (Self::new(engine), actions.into_iter().filter_map(effect).collect());
            STEPS.with_borrow_mut(|steps| steps.insert(key, stepped.clone()));
            stepped
        });
        *self = engine;
        effects
    }
}

/// Returns the call that the action takes back. No network of a model keeps one back.
const fn withdrawn(action: &Action) -> Option<CallId> {
    match action {
        Action::Withdraw(id) => Some(*id),
        _ => None,
    }
}

fn effect(action: Action) -> Option<Effect> {
    match action {
        Action::Run(id, call, _) => Some(Effect::Run(id, Shared::new(call))),
        Action::Wake(id) => Some(Effect::Wake(id)),
        Action::Complete(_, outcome) => Some(Effect::Complete(outcome)),
        Action::Subscribe(channel) => Some(Effect::Subscribe(channel)),
        Action::Unsubscribe(channel) => Some(Effect::Unsubscribe(channel)),
        Action::Withdraw(_) | Action::Trusted(..) => None,
    }
}

impl Server {
    /// Executes a call.
    pub(crate) fn run(
        &mut self,
        call: &Shared<Call>,
        now_ms: u64,
        (form, variant): (Form, Option<BrokenVariant>),
    ) -> Executed {
        let key = (print_of(&*self), print_of(&(now_ms, call, form, variant)));
        let known = CALLS.with_borrow(|calls| calls.get(&key).cloned());
        let (server, executed) = known.unwrap_or_else(|| {
            let mut server = self.clone();
            let executed = server.execute(call, now_ms, (form, variant));
            CALLS.with_borrow_mut(|calls| calls.insert(key, (server.clone(), executed.clone())));
            (server, executed)
        });
        *self = server;
        executed
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0), self.1)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl<T> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1);
    }
}

fn print_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
