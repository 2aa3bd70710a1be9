//! A model of the reentrant scripts, and replies that no script gives.
//!
//! Invariant: the expiry of a hold uses the engine's clock, so a hold that the engine trusts must exist here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use leasehold_proto::{Applied, Call, Channel, Moment, Reply, StoreError, StoreErrorKind, Verb};

/// The holds of the honest server, by key.
#[derive(Debug, Default)]
pub(super) struct Server(BTreeMap<Arc<str>, Hold>);

#[derive(Debug)]
struct Hold {
    owner: String,
    count: u32,
    expires_at: Moment,
}

impl Server {
    /// Returns true if this wire owner holds the key.
    pub(super) fn is_held_by(&self, key: &str, owner: &str, now: Moment) -> bool {
        self.0.get(key).is_some_and(|hold| hold.owner == owner && hold.expires_at > now)
    }

    /// Returns the keys that are still held.
    pub(super) fn held(&self, now: Moment) -> Vec<&str> {
        self.0.iter().filter(|(_, hold)| hold.expires_at > now).map(|(key, _)| &**key).collect()
    }

    /// Takes a key for another client, if it is free.
    pub(super) fn take(&mut self, key: &str, lease: Duration, now: Moment) {
        self.0.retain(|_, hold| hold.expires_at > now);
        let stranger = Hold { owner: "another client".to_owned(), count: 1, expires_at: now + lease };
        self.0.entry(key.into()).or_insert(stranger);
    }

    /// Executes a script while the client listens to these channels. Also returns true if it was a release that
    /// publishes a wake-up.
    pub(super) fn run(&mut self, call: &Call, now: Moment, heard: &BTreeSet<Channel>) -> (Reply, bool) {
        self.0.retain(|_, hold| hold.expires_at > now);
        let key = call.subject();
        let text = |name| call.argument(name).expect("the script has this argument");
        let number = |name| text(name).parse::<u64>().expect("the argument is a number");
        let expires_at = |now: Moment| now + Duration::from_millis(number("lease_ms"));
        let owner = text("owner").to_owned();
        let mine = self.0.get(&key).is_some_and(|hold| hold.owner == owner);
        let reply = match (call.verb(), self.0.get_mut(&key)) {
            (Verb::Acquire, Some(hold)) if mine => {
                hold.expires_at = hold.expires_at.max(expires_at(now));
                Reply::Nil
            }
            (Verb::Acquire, Some(hold)) => {
                Reply::Int(i64::try_from(hold.expires_at.since(now).as_millis()).unwrap_or(i64::MAX))
            }
            (Verb::Acquire, None) => {
                self.0.insert(key, Hold { owner, count: 1, expires_at: expires_at(now) });
                Reply::Nil
            }
            (Verb::Renew, Some(hold)) if mine => {
                hold.expires_at = hold.expires_at.max(expires_at(now));
                let count = u32::try_from(number("count")).expect("a count is small");
                hold.count = if count == 0 { hold.count } else { count };
                Reply::Int(1)
            }
            (Verb::HandOff, Some(hold)) if mine => {
                hold.expires_at = hold.expires_at.max(expires_at(now));
                let listeners = heard.iter().filter(|channel| channel.to_string() == text("channel")).count();
                Reply::Int(2 + i64::try_from(listeners).expect("a client listens once"))
            }
            (Verb::Renew | Verb::HandOff, held) => Reply::Int(if held.is_some() { -1 } else { 0 }),
            (Verb::Release, Some(hold)) if mine => {
                hold.count = u32::try_from(number("remaining")).expect("a count is small");
                if hold.count > 0 {
                    return (Reply::Int(0), false);
                }
                self.0.remove(&key);
                return (Reply::Int(1), true);
            }
            (Verb::Release, _) => Reply::Nil,
            (other, _) => panic!("the engine has no business with {other}"),
        };
        (reply, false)
    }
}

/// Chooses a reply of any shape.
pub(super) fn any_reply(u: &mut Unstructured<'_>) -> Result<Reply> {
    Ok(match u.int_in_range(0..=6)? {
        0 | 1 => Reply::Nil,
        2 | 3 => Reply::Int(u.int_in_range(-3..=3)?),
        4 => Reply::Int(u.arbitrary()?),
        5 => Reply::Text(u.arbitrary()?),
        _ => Reply::Array(vec![Reply::Nil; u.int_in_range(0..=2)?]),
    })
}

/// Chooses a failure of any kind.
pub(super) fn any_error(u: &mut Unstructured<'_>, call: &Call, applied: Applied) -> Result<StoreError> {
    const KINDS: [StoreErrorKind; 8] = [
        StoreErrorKind::Timeout,
        StoreErrorKind::Unreachable,
        StoreErrorKind::ConnectionLost,
        StoreErrorKind::Busy,
        StoreErrorKind::OutOfMemory,
        StoreErrorKind::Malformed,
        StoreErrorKind::Server,
        StoreErrorKind::Closed,
    ];
    Ok(StoreError::new(*u.choose(&KINDS)?, call.verb(), call.subject(), applied))
}
