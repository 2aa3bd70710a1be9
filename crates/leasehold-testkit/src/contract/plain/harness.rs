//! Sends the calls of a plain lock, for its contract.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::format::Format;
use leasehold_proto::recipe::plain::{self, MULTI, PLAIN};
use leasehold_proto::recipe::{CallContext, Recipe};
use leasehold_proto::{Call, CallArgs, Lease, Reply};
use leasehold_store::{Heard, Subscription};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::contract::counters::FRESH;
use crate::contract::lock_harness::{LONG, LockHarness, owner};
use crate::contract::{Harness, next};

/// A caller that listens.
pub(super) const LISTENS: CallContext = CallContext { marks: true, ..FRESH };
/// A caller whose earlier attempt has no answer.
pub(super) const UNCERTAIN: CallContext = CallContext { uncertain: true, ..FRESH };
/// A holder that knows of no waiter.
pub(super) const QUIET: CallContext = CallContext { quiet: true, ..FRESH };

/// A plain lock of a format, with its harness.
pub(super) struct Plain<'a> {
    pub(super) lock: LockHarness<'a>,
}

impl<'a> Plain<'a> {
    pub(super) fn new(harness: &'a Harness<'a>) -> Self {
        Self::of(harness, &PLAIN, Format::default())
    }

    pub(super) fn of(harness: &'a Harness<'a>, recipe: &'static Recipe, format: Format) -> Self {
        let LockHarness { harness, subject } = LockHarness::new(harness, recipe);
        Self { lock: LockHarness { harness, subject: subject.formatted(format) } }
    }

    pub(super) fn several(harness: &'a Harness<'a>) -> Self {
        Self { lock: LockHarness::many(harness, &MULTI) }
    }

    pub(super) fn subject(&self) -> &Subject {
        &self.lock.subject
    }

    pub(super) fn args(&self, number: u64, context: CallContext) -> CallArgs<'_> {
        let lease = Lease::new(Duration::from_millis(LONG)).expect("it is a lease");
        CallArgs { context, ..CallArgs::new(self.subject(), owner(number), lease) }
    }

    pub(super) async fn acquire(&self, number: u64, context: CallContext) -> Reply {
        self.execute((self.subject().recipe.acquire)(&self.args(number, context))).await
    }

    /// Acquires with twice the lease.
    pub(super) async fn acquire_for_longer(&self, number: u64, context: CallContext) -> Reply {
        let lease = Lease::new(Duration::from_millis(2 * LONG)).expect("it is a lease");
        let args = CallArgs { lease, ..self.args(number, context) };
        self.execute((self.subject().recipe.acquire)(&args)).await
    }

    pub(super) async fn release(&self, number: u64, context: CallContext) -> Reply {
        self.execute((self.subject().recipe.release)(&self.args(number, context).count(0))).await
    }

    pub(super) async fn execute(&self, call: Call) -> Reply {
        self.lock.harness.execute(call).await
    }

    pub(super) async fn force_release(&self) -> Reply {
        let format = self.subject().format.as_deref().cloned().unwrap_or_default();
        self.execute(plain::force_release(&self.subject().name, &format)).await
    }

    pub(super) async fn inspect(&self, number: u64) -> Reply {
        self.execute(plain::inspect(&self.subject().name, &Format::default(), Some(owner(number)))).await
    }

    /// Returns the value of an owner's hold.
    pub(super) fn value(number: u64, is_marked: bool) -> String {
        let values = plain::values(&Format::default(), owner(number));
        String::from_utf8(values[usize::from(is_marked)].clone()).expect("a value is a text")
    }

    pub(super) fn held(&self) -> String {
        self.run_command(&["GET", self.key()])
    }

    pub(super) fn key(&self) -> &str {
        self.lock.key()
    }

    pub(super) fn pttl(&self) -> i64 {
        self.lock.pttl(self.key())
    }

    pub(super) fn run_command(&self, words: &[&str]) -> String {
        self.lock.harness.run_command(words)
    }

    /// Returns the keys of a lock of several names.
    pub(super) fn keys(&self) -> Vec<String> {
        let Subject { name, others, .. } = self.subject();
        std::iter::once(name).chain(&**others).map(ToString::to_string).collect()
    }

    pub(super) fn all_held(&self) -> Vec<String> {
        self.keys().iter().map(|key| self.run_command(&["GET", key])).collect()
    }

    /// Listens to the channels of the waiters, and waits for the confirmations.
    pub(super) async fn listen(&self) -> (Vec<Subscription>, UnboundedReceiver<Heard>) {
        let (sender, mut heard) = unbounded_channel();
        let channels = self.subject().channels(owner(1));
        let subscribe = |channel: &leasehold_proto::Channel| {
            self.lock.harness.store.subscribe(channel.clone(), sender.clone())
        };
        let listening: Vec<_> = channels.iter().map(subscribe).collect();
        for _ in &channels {
            assert!(matches!(next(&mut heard).await, Heard::Listening(_)));
        }
        (listening, heard)
    }

    /// Checks that nothing was published before a message of the test itself.
    pub(super) async fn hears_nothing(&self, heard: &mut UnboundedReceiver<Heard>) {
        let channel = self.subject().channels(owner(1))[0].clone();
        self.run_command(&["PUBLISH", &channel.to_string(), "now"]);
        assert_eq!(next(heard).await, Heard::Message(channel, b"now".to_vec()));
    }
}
