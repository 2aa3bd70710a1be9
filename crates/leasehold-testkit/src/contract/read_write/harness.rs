//! A test bench for the read-write lock: it sends the calls of its recipes, and reads the state on the server.
//!
//! Invariant: owners are numbers. The server gets only calls that clients send.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::read_write::READ_LOCK;
use leasehold_proto::{Call, CallArgs, Channel, ClientId, Lease, Name, Recipe, Reply, WireOwner};
use leasehold_store::{Heard, Subscription};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::super::{Harness, next};

/// The lease of a hold whose lease does not matter, in milliseconds.
pub(super) const LONG: u64 = 30_000;

/// A lock's bench, and the calls of its recipes.
pub(super) struct Rw<'a> {
    pub(super) harness: &'a Harness<'a>,
    pub(super) name: Name,
}

/// Returns the wire owner with this number.
pub(super) fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

impl<'a> Rw<'a> {
    pub(super) fn new(harness: &'a Harness<'a>) -> Self {
        let tag = harness.lock.trim_matches(['{', '}']);
        Self { harness, name: Name::with_hash_tag(tag, ":rw").expect("a behavior's name is a tag") }
    }

    /// Returns the call that `write` builds from the arguments of this owner.
    pub(super) fn call(&self, number: u64, lease_ms: u64, write: impl FnOnce(CallArgs<'_>) -> Call) -> Call {
        let subject = Subject::new(&self.name, &READ_LOCK);
        let lease = Lease::new(Duration::from_millis(lease_ms)).expect("it is a lease");
        write(CallArgs::new(&subject, owner(number), lease))
    }

    pub(super) async fn acquire(&self, recipe: &Recipe, number: u64, lease_ms: u64) -> Reply {
        self.harness.execute(self.call(number, lease_ms, |execute| (recipe.acquire)(&execute))).await
    }

    /// Acquires as an owner that holds the other side under the number `companion`.
    pub(super) async fn acquire_beside(&self, recipe: &Recipe, number: u64, companion: u64) -> Reply {
        let call = self.call(number, LONG, |execute| {
            (recipe.acquire)(&CallArgs { companion: Some(owner(companion)), ..execute })
        });
        self.harness.execute(call).await
    }

    pub(super) async fn renew(&self, recipe: &Recipe, number: u64, lease_ms: u64, count: u32) -> Reply {
        self.harness
            .execute(self.call(number, lease_ms, |execute| (recipe.renew)(&execute.count(count))))
            .await
    }

    pub(super) async fn release(&self, recipe: &Recipe, number: u64, left: u32) -> Reply {
        self.harness.execute(self.call(number, LONG, |execute| (recipe.release)(&execute.count(left)))).await
    }

    /// Returns the lock's hash, with owners as their numbers.
    pub(super) fn fields(&self) -> BTreeMap<String, String> {
        let printed = self.harness.run_command(&["HGETALL", self.name.as_str()]);
        let lines: Vec<&str> = printed.lines().filter(|line| !line.is_empty()).collect();
        let number = |field: &str| field.replace(&format!("{}:", ClientId::from_random([7; 16])), "");
        lines.chunks(2).map(|pair| (number(pair[0]), pair[1].to_owned())).collect()
    }

    pub(super) fn is(&self, fields: &[(&str, &str)]) -> bool {
        self.fields() == fields.iter().map(|&(field, value)| (field.to_owned(), value.to_owned())).collect()
    }

    /// Returns the key of a read hold's lease.
    pub(super) fn timeout(&self, number: u64, hold: u32) -> String {
        format!("{}:{}:rwlock_timeout:{hold}", self.name.tagged(), owner(number))
    }

    pub(super) fn pttl(&self, key: &str) -> i64 {
        self.harness.run_command(&["PTTL", key]).parse().expect("it is a number")
    }

    pub(super) fn remaining(&self) -> i64 {
        self.pttl(self.name.as_str())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.harness.run_command(&["EXISTS", key]) == "1"
    }

    pub(super) fn channel(&self) -> Channel {
        self.name.prefixed("redisson_rwlock")
    }

    pub(super) fn upgrade_mark(&self) -> String {
        self.name.prefixed("leasehold_rw_upgrade").to_string()
    }

    pub(super) fn writer_mark(&self) -> String {
        self.name.prefixed("leasehold_rw_writer").to_string()
    }

    pub(super) async fn listen(&self) -> (Subscription, UnboundedReceiver<Heard>) {
        let (sender, mut heard) = unbounded_channel();
        let subscription = self.harness.store.subscribe(self.channel(), sender);
        assert_eq!(next(&mut heard).await, Heard::Listening(self.channel()));
        (subscription, heard)
    }

    /// Returns the next message, or the message that this function publishes itself if there is no other.
    pub(super) async fn messages(&self, heard: &mut UnboundedReceiver<Heard>) -> String {
        self.harness.run_command(&["PUBLISH", self.channel().as_str(), "now"]);
        let Heard::Message(_, message) = next(heard).await else {
            panic!("a message is heard");
        };
        let message = String::from_utf8(message).expect("it is text");
        if message != "now" {
            assert_eq!(
                next(heard).await,
                Heard::Message(self.channel(), b"now".to_vec()),
                "and nothing else"
            );
        }
        message
    }
}

/// Returns true if the reply says that other owners hold the lock for at most this many milliseconds.
pub(super) fn refused(reply: &Reply, most: u64) -> bool {
    matches!(reply, Reply::Int(ms) if *ms > 0 && ms.unsigned_abs() <= most)
}
