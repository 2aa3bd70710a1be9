//! The keys whose next change the server announces on one connection (`CLIENT TRACKING`).
//!
//! Invariant: each call that asks for a key gets one announcement of it, and only over RESP3. Without RESP3 the caller
//! polls.
//!
//! # How it works
//! `CLIENT TRACKING` with `OPTIN` lets the server remember the keys that the command after `CLIENT CACHING YES` reads. The
//! change of such a key, its expiry included, comes as a push of the kind `invalidate`. With `NOLOOP` the client's own
//! writes over the same connection send none.

use std::collections::HashMap;

use bytes::Bytes;
use leasehold_proto::{Call, Channel};

use super::value::Value;

/// The most keys that one connection remembers. Waiters for further keys only poll, so the memory has a bound.
const KEYS_MAX: usize = 4_096;
/// The command that begins it.
pub(super) const BEGIN: [&str; 5] = ["CLIENT", "TRACKING", "ON", "OPTIN", "NOLOOP"];
/// The command in front of the call that reads the key.
pub(super) const NEXT: [&str; 3] = ["CLIENT", "CACHING", "YES"];

/// The tracked keys of one connection.
#[derive(Debug, Default)]
pub(super) struct Tracking {
    state: State,
    /// The channels of the waiters of each key.
    channels: HashMap<Bytes, Vec<Channel>>,
    changed: Vec<Channel>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Off,
    Begun,
    Refused,
}

impl Tracking {
    /// Notes a call that reads its key. Returns true if the server tells of the next change, and true if it first has to be
    /// asked to do so.
    pub(super) fn expect(&mut self, call: &Call) -> (bool, bool) {
        if self.state == State::Refused || self.channels.len() >= KEYS_MAX {
            return (false, false);
        }
        let Some(key) = call.keys().next() else { return (false, false) };
        self.channels.insert(Bytes::copy_from_slice(key.as_bytes()), call.channels());
        let begins = self.state == State::Off;
        self.state = State::Begun;
        (true, begins)
    }

    /// Takes the answer to [`BEGIN`].
    pub(super) fn answered(&mut self, answer: &Value) {
        if !answer.is_text("OK") {
            self.state = State::Refused;
            self.channels.clear();
        }
    }

    /// Takes a push. One without keys says that all have changed.
    pub(super) fn pushed(&mut self, push: &[Value]) {
        let [kind, keys] = push else { return };
        if !kind.is_text("invalidate") {
            return;
        }
        match keys {
            Value::Array(keys) => {
                let keys =
                    keys.iter().filter_map(|key| if let Value::Text(key) = key { Some(key) } else { None });
                self.changed.extend(keys.filter_map(|key| self.channels.remove(key)).flatten());
            }
            _ => self.changed.extend(self.channels.drain().flat_map(|(_, channels)| channels)),
        }
    }

    /// Takes the channels of the keys that have changed.
    pub(super) fn take_changed(&mut self) -> Vec<Channel> {
        std::mem::take(&mut self.changed)
    }
}

#[cfg(test)]
mod tests {
    use leasehold_proto::engine::Subject;
    use leasehold_proto::recipe::plain::PLAIN;
    use leasehold_proto::{ClientId, Name, Script, Verb, WireOwner};

    use super::*;

    static READ: Script = Script::new(Verb::Acquire, "return redis.call('get', KEYS[1])");

    fn call(key: &str) -> Call {
        let subject = Subject::new(&Name::new(key).unwrap(), &PLAIN);
        Call::with(&READ, [key], [""; 0])
            .woken_by(&subject, WireOwner::new(ClientId::from_random([0; 16]), 1))
    }

    fn text(text: &'static str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn a_changed_key_wakes_its_channel_once() {
        let mut tracking = Tracking::default();
        assert_eq!(tracking.expect(&call("a")), (true, true));
        tracking.answered(&text("OK"));
        assert_eq!(tracking.expect(&call("b")), (true, false));
        let push = [text("invalidate"), Value::Array(vec![text("a"), text("other")])];
        tracking.pushed(&push);
        tracking.pushed(&push);
        assert_eq!(tracking.take_changed(), [Channel::new("leasehold_plain:{a}")]);
        tracking.pushed(&[text("invalidate"), Value::Nil]);
        assert_eq!(tracking.take_changed(), [Channel::new("leasehold_plain:{b}")], "all keys are gone");
        assert_eq!(tracking.take_changed(), []);
    }

    #[test]
    fn a_server_that_refuses_is_not_asked_again() {
        let mut tracking = Tracking::default();
        tracking.expect(&call("a"));
        tracking.answered(&Value::Error("NOPERM this user has no permissions".into()));
        assert_eq!(tracking.expect(&call("a")), (false, false));
    }

    #[test]
    fn more_keys_than_the_most_are_polled() {
        let mut tracking = Tracking::default();
        for key in 0..KEYS_MAX {
            assert!(tracking.expect(&call(&format!("key {key}"))).0);
        }
        assert_eq!(tracking.expect(&call("one more")), (false, false));
    }
}
