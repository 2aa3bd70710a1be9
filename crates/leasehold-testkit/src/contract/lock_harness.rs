//! Sends the calls of a lock's recipe, for the contract of every lock.
//!
//! Invariant: owners are numbers. The server gets only calls that clients send.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::{CallContext, LockCalls};
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Name, Recipe, Reply, StoreError, WireOwner};

use super::Harness;

/// The lease of a hold whose lease does not matter, in milliseconds.
pub(super) const LONG: u64 = 30_000;

/// A lock's bench, and its recipe.
pub(super) struct LockHarness<'a> {
    pub(super) harness: &'a Harness<'a>,
    pub(super) subject: Subject,
}

/// Returns the wire owner with this number.
pub(super) fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

impl<'a> LockHarness<'a> {
    pub(super) fn new(harness: &'a Harness<'a>, recipe: &'static Recipe) -> Self {
        Self { harness, subject: Subject::new(&name(harness, ":1"), recipe) }
    }

    /// Returns a lock of several names.
    pub(super) fn many(harness: &'a Harness<'a>, recipe: &'static Recipe) -> Self {
        let others = [name(harness, ":2"), name(harness, ":3")].into();
        Self { harness, subject: Subject { others, ..Subject::new(&name(harness, ":1"), recipe) } }
    }

    pub(super) fn key(&self) -> &str {
        self.subject.name.as_str()
    }

    fn call_args(&self, number: u64, lease_ms: u64) -> CallArgs<'_> {
        let lease = Lease::new(Duration::from_millis(lease_ms)).expect("it is a lease");
        CallArgs::new(&self.subject, owner(number), lease)
    }

    pub(super) async fn acquire(&self, number: u64, lease_ms: u64) -> Reply {
        self.try_acquire(number, lease_ms).await.expect("the call succeeds")
    }

    pub(super) async fn try_acquire(&self, number: u64, lease_ms: u64) -> Result<Reply, StoreError> {
        self.harness.run((self.subject.recipe.acquire)(&self.call_args(number, lease_ms))).await
    }

    pub(super) fn acquire_call(&self, number: u64) -> Call {
        (self.subject.recipe.acquire)(&self.call_args(number, LONG))
    }

    pub(super) fn adopt_call(&self, recipe: &'static Recipe, number: u64, giver: u64, lease_ms: u64) -> Call {
        (recipe.acquire)(&CallArgs { giver: Some(owner(giver)), ..self.call_args(number, lease_ms) })
    }

    /// Sends the acquire of a caller that does not wait.
    pub(super) async fn once(&self, number: u64) -> Reply {
        let context = CallContext { once: true, ..CallContext::default() };
        self.harness
            .execute((self.subject.recipe.acquire)(&CallArgs { context, ..self.call_args(number, LONG) }))
            .await
    }

    /// Sends an acquire that reserves so many fencing tokens.
    pub(super) async fn acquire_with_tokens(&self, number: u64, tokens: u32) -> Result<Reply, StoreError> {
        let args = CallArgs { tokens, ..self.call_args(number, LONG) };
        self.harness.run((self.subject.recipe.acquire)(&args)).await
    }

    /// Sends the acquire of a caller that requires this uptime of the server.
    pub(super) async fn acquire_with_uptime(&self, number: u64, uptime: Duration) -> Reply {
        self.harness
            .execute((self.subject.recipe.acquire)(&CallArgs { uptime, ..self.call_args(number, LONG) }))
            .await
    }

    pub(super) async fn renew(&self, number: u64, lease_ms: u64, count: u32) -> Reply {
        self.harness
            .execute((self.subject.recipe.renew)(&self.call_args(number, lease_ms).count(count)))
            .await
    }

    pub(super) async fn release(&self, number: u64, left: u32) -> Reply {
        self.harness.execute((self.subject.recipe.release)(&self.call_args(number, LONG).count(left))).await
    }

    pub(super) async fn force(&self, calls: &LockCalls) -> Reply {
        self.harness.execute((calls.force_release)(&self.subject.name)).await
    }

    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.harness.run_command(&["PTTL", key]).parse().expect("it is a number")
    }

    /// Returns the holders and their hold counts.
    pub(super) fn fields(&self, key: &str) -> String {
        self.numbers(&self.harness.run_command(&["HGETALL", key]))
    }

    /// Returns the server's answer in one line, with owners as their numbers.
    pub(super) fn numbers(&self, said: &str) -> String {
        let client = format!("{}:", ClientId::from_random([7; 16]));
        said.replace(&client, "").lines().collect::<Vec<_>>().join(" ")
    }
}

/// Returns a name of the behavior.
pub(super) fn name(harness: &Harness<'_>, rest: &str) -> Name {
    Name::with_hash_tag(harness.lock.trim_matches(['{', '}']), rest).expect("a behavior's name is a tag")
}
