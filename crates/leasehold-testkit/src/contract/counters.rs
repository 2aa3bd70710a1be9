//! A test bench for semaphores and latches: it sends the calls of their recipes, and reads the state on the server.
//!
//! Invariant: owners and operations are numbers. The server gets only calls that clients send.

use std::time::Duration;

use leasehold_proto::engine::{Id, Settings, Subject};
use leasehold_proto::marker::Operation;
use leasehold_proto::recipe::CallContext;
use leasehold_proto::{
    Applied, Call, CallArgs, Channel, ClientId, Lease, Name, PermitId, Recipe, Reply, StoreErrorKind,
    WireOwner,
};
use leasehold_store::{Heard, Subscription};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Harness, next};

/// The first attempt of a caller that waits.
pub(super) const FRESH: CallContext =
    CallContext { once: false, expired: false, uncertain: false, marks: false, polls: false, quiet: false };
/// The only attempt of a caller that does not wait.
pub(super) const ONCE: CallContext = CallContext { once: true, ..FRESH };
/// A release whose marker can have expired.
pub(super) const EXPIRED: CallContext = CallContext { expired: true, ..FRESH };
/// A call after an earlier call that may still arrive.
pub(super) const UNCERTAIN: CallContext = CallContext { uncertain: true, ..FRESH };

/// A bench, and the name of its counter.
pub(super) struct Counter<'a> {
    pub(super) harness: &'a Harness<'a>,
    pub(super) name: Name,
}

fn client() -> ClientId {
    ClientId::from_random([7; 16])
}

/// Returns the operation with this number.
pub(super) fn operation(number: u64) -> Operation {
    Operation::new(client(), Id(number), &Settings::default())
}

/// Returns the id of the first permit of the acquisition with this number.
pub(super) fn id(number: u64) -> PermitId {
    PermitId::of(WireOwner::new(client(), number), 1).next().expect("there is one")
}

impl<'a> Counter<'a> {
    /// Creates a counter whose name has a hash tag, except for the latch, which cannot have a hash tag.
    pub(super) fn new(harness: &'a Harness<'a>, kind: &str) -> Self {
        let tag = harness.lock.trim_matches(['{', '}']);
        let name = match kind {
            "latch" => Name::new(&format!("{tag}:latch")),
            _ => Name::with_hash_tag(tag, &format!(":{kind}")),
        };
        Self { harness, name: name.expect("a behavior's name is a tag") }
    }

    fn call(
        &self,
        recipe: &'static Recipe,
        (number, units): (u64, u32),
        lease_ms: u64,
        context: CallContext,
        write: impl FnOnce(&CallArgs<'_>) -> Call,
    ) -> Call {
        let subject = Subject::new(&self.name, recipe);
        let lease = Lease::new(Duration::from_millis(lease_ms)).expect("it is a lease");
        write(&CallArgs {
            context,
            ..CallArgs::new(&subject, WireOwner::new(client(), number), lease).units(units)
        })
    }

    /// Acquires this number of units as the owner with this number.
    pub(super) async fn acquire(
        &self,
        recipe: &'static Recipe,
        who: (u64, u32),
        context: CallContext,
    ) -> Reply {
        self.acquire_for(recipe, who, 30_000, context).await
    }

    pub(super) async fn acquire_for(
        &self,
        recipe: &'static Recipe,
        who: (u64, u32),
        lease_ms: u64,
        context: CallContext,
    ) -> Reply {
        self.harness
            .execute(self.call(recipe, who, lease_ms, context, |execute| (recipe.acquire)(execute)))
            .await
    }

    pub(super) async fn renew(&self, recipe: &'static Recipe, who: (u64, u32), lease_ms: u64) -> Reply {
        self.harness.execute(self.renew_call(recipe, who, lease_ms)).await
    }

    pub(super) fn renew_call(&self, recipe: &'static Recipe, who: (u64, u32), lease_ms: u64) -> Call {
        self.call(recipe, who, lease_ms, FRESH, |execute| (recipe.renew)(execute))
    }

    pub(super) async fn release(
        &self,
        recipe: &'static Recipe,
        who: (u64, u32),
        context: CallContext,
    ) -> Reply {
        self.harness
            .execute(self.call(recipe, who, 30_000, context, |execute| (recipe.release)(execute)))
            .await
    }

    /// Returns the calls of an acquire, and of the release after its grant.
    pub(super) fn acquire_and_release(&self, recipe: &'static Recipe, who: (u64, u32)) -> (Call, Call) {
        let acquire = self.call(recipe, who, 30_000, FRESH, |execute| (recipe.acquire)(execute));
        (acquire, self.call(recipe, who, 30_000, FRESH, |execute| (recipe.release)(execute)))
    }

    /// Returns the number under the counter's own key, empty without the key.
    pub(super) fn value(&self) -> String {
        self.harness.run_command(&["GET", self.name.as_str()])
    }

    pub(super) fn set(&self, value: &str) {
        self.harness.run_command(&["SET", self.name.as_str(), value]);
    }

    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.harness.run_command(&["PTTL", key]).parse().expect("it is a number")
    }

    /// Returns the marker of the acquisition with this number.
    pub(super) fn marker(&self, number: u64) -> String {
        format!("{}:{}", self.name.prefixed("leasehold_permit"), WireOwner::new(client(), number))
    }

    /// Returns the key of an expirable semaphore's permit ids.
    pub(super) fn ids(&self) -> String {
        format!("{}:timeout", self.name.tagged())
    }

    /// Returns a helper key with this prefix.
    pub(super) fn key(&self, prefix: &str) -> String {
        self.name.prefixed(prefix).to_string()
    }

    pub(super) async fn listen(&self, channel: Channel) -> Listener<'a> {
        let (sender, mut heard) = unbounded_channel();
        let subscription = self.harness.store.subscribe(channel.clone(), sender);
        assert_eq!(next(&mut heard).await, Heard::Listening(channel.clone()));
        Listener { harness: self.harness, channel, heard, _subscription: subscription }
    }

    pub(super) fn channel(&self) -> Channel {
        self.name.prefixed("redisson_sc")
    }

    /// Checks that calls change no key of another type, and no key whose value is not a number.
    pub(super) async fn rejects_other_types(&self, calls: impl Fn(&Self) -> Vec<Call>) {
        let key = self.name.as_str();
        for prepare in [["HSET", key, "field", "1"].as_slice(), &["SET", key, "mine"]] {
            self.harness.run_command(&["DEL", key]);
            self.harness.run_command(prepare);
            let before = self.harness.run_command(&["DUMP", key]);
            for call in calls(self) {
                let refused = self.harness.run(call.clone()).await.expect_err("the key is something else");
                assert_eq!(refused.kind, StoreErrorKind::WrongType, "{call:?}");
            }
            assert_eq!(self.harness.run_command(&["DUMP", key]), before);
        }
    }

    /// Checks that a call rejects an argument that is not a number before its first write.
    pub(super) async fn refuses(&self, call: &Call, argument: &str, values: &[&str]) {
        let mut count = vec!["EXISTS"];
        count.extend(call.keys());
        let before = self.harness.run_command(&count);
        for value in values {
            let mut call = call.clone();
            assert!(call.set_arg(argument, *value), "{call:?} has no {argument}");
            let refused = self.harness.run(call.clone()).await.expect_err("an argument is wrong");
            assert_eq!((refused.kind, refused.applied), (StoreErrorKind::Server, Applied::No), "{call:?}");
        }
        assert_eq!(self.harness.run_command(&count), before, "{call:?}");
    }
}

/// A subscriber of the counter's channel.
pub(super) struct Listener<'a> {
    harness: &'a Harness<'a>,
    channel: Channel,
    heard: UnboundedReceiver<Heard>,
    _subscription: Subscription,
}

impl Listener<'_> {
    /// Checks that the next message is this message.
    pub(super) async fn receives(&mut self, message: &str) {
        assert_eq!(next(&mut self.heard).await, Heard::Message(self.channel.clone(), message.into()));
    }

    /// Checks that the channel had no message since the last message read. Publishes a message, which must arrive
    /// first.
    pub(super) async fn receives_nothing(&mut self) {
        self.harness.run_command(&["PUBLISH", self.channel.as_str(), "now"]);
        self.receives("now").await;
    }
}
