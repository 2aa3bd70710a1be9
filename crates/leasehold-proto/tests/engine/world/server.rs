//! A model of the effects on one key of the scripts of a reentrant lock and of a plain one. Other tests run the Lua on a real server.

use std::time::Duration;

use leasehold_proto::{Call, Moment, Reply, Verb};

use super::Variant;

/// The state of one key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    hold: Option<Hold>,
    variant: Variant,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Hold {
    owner: String,
    count: u32,
    /// True if a waiter has marked the value of a plain lock.
    is_marked: bool,
    expires_at: Moment,
}

impl Server {
    pub(crate) fn new(variant: Variant) -> Self {
        Self { hold: None, variant }
    }

    pub(crate) fn is_locked(&self, now: Moment) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.expires_at > now)
    }

    pub(crate) fn is_held_by(&self, owner: &str, now: Moment) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.expires_at > now && hold.owner == owner)
    }

    /// Returns the time until the hold of an owner ends.
    pub(crate) fn left(&self, owner: &str, now: Moment) -> Duration {
        let hold = self.hold.as_ref().filter(|hold| hold.owner == owner);
        hold.map_or(Duration::ZERO, |hold| hold.expires_at.since(now))
    }

    pub(crate) fn delete(&mut self) {
        self.hold = None;
    }

    /// Executes a script.
    pub(crate) fn run(&mut self, call: &Call, now: Moment) -> Reply {
        self.hold.take_if(|hold| hold.expires_at <= now);
        if call.argument("value").is_some() {
            return self.run_plain(call, now);
        }
        let owner = call.argument("owner").unwrap().to_owned();
        let number = |name| call.argument(name).unwrap().parse::<u64>().unwrap();
        let mine = self.hold.as_ref().is_some_and(|hold| hold.owner == owner);
        match call.verb() {
            Verb::Acquire => {
                let expires_at = now + Duration::from_millis(number("lease_ms"));
                let overwrites = self.variant == Variant::AcquireOverwrites;
                match &mut self.hold {
                    Some(hold) if mine => hold.expires_at = hold.expires_at.max(expires_at),
                    Some(hold) if !overwrites => return remaining(hold, now),
                    _ => self.hold = Some(Hold { owner, count: 1, is_marked: false, expires_at }),
                }
                Reply::Nil
            }
            Verb::Renew => match &mut self.hold {
                Some(hold) if mine => {
                    hold.expires_at = hold.expires_at.max(now + Duration::from_millis(number("lease_ms")));
                    if number("count") > 0 {
                        hold.count = u32::try_from(number("count")).unwrap();
                    }
                    Reply::Int(1)
                }
                Some(_) => Reply::Int(-1),
                None => Reply::Int(0),
            },
            Verb::HandOff => match &mut self.hold {
                Some(hold) if mine => {
                    hold.expires_at = hold.expires_at.max(now + Duration::from_millis(number("lease_ms")));
                    Reply::Int(2)
                }
                Some(_) => Reply::Int(-1),
                None => Reply::Int(0),
            },
            Verb::Release => match &mut self.hold {
                Some(hold) if mine || self.variant == Variant::ReleaseIgnoresOwner => {
                    match u32::try_from(number("remaining")).unwrap() {
                        0 => {
                            self.hold = None;
                            Reply::Int(1)
                        }
                        count => {
                            hold.count = count;
                            Reply::Int(0)
                        }
                    }
                }
                _ => Reply::Nil,
            },
            other => panic!("the reentrant lock does not send {other}"),
        }
    }

    /// Executes a script of a plain lock.
    fn run_plain(&mut self, call: &Call, now: Moment) -> Reply {
        let owner = owner_of(call).to_owned();
        let lease_ms = call.argument("lease_ms").map(|ms| Duration::from_millis(ms.parse().unwrap()));
        let expires_at = now + lease_ms.unwrap_or_default();
        let Some(hold) = &mut self.hold else {
            return match call.verb() {
                Verb::Acquire => {
                    self.hold = Some(Hold { owner, count: 1, is_marked: false, expires_at });
                    Reply::Nil
                }
                Verb::Release => Reply::Nil,
                _ => Reply::Int(0),
            };
        };
        let mine = hold.owner == owner;
        match call.verb() {
            // The first attempt, which tells no more than the value.
            Verb::Acquire if call.argument("marks").is_none() => Reply::Text(hold.owner.clone().into()),
            Verb::Acquire if !mine => {
                hold.is_marked |= call.argument("marks") == Some("1");
                remaining(hold, now)
            }
            Verb::Acquire => {
                hold.expires_at = hold.expires_at.max(expires_at);
                Reply::Nil
            }
            Verb::Renew | Verb::HandOff if !mine => Reply::Int(-1),
            Verb::Renew | Verb::HandOff => {
                hold.expires_at = hold.expires_at.max(expires_at);
                Reply::Int(if hold.is_marked { 4 } else { 2 })
            }
            Verb::Release if !mine => Reply::Nil,
            Verb::Release if keeps(call) => Reply::Int(0),
            Verb::Release => {
                let is_marked = hold.is_marked;
                self.hold = None;
                Reply::Int(i64::from(is_marked))
            }
            other => panic!("the plain lock does not send {other}"),
        }
    }
}

/// Returns the owner of a call, which a plain lock has as its value.
pub(super) fn owner_of(call: &Call) -> &str {
    call.argument("owner").or(call.argument("value")).unwrap()
}

/// Returns true if a release leaves the hold to other guards.
pub(super) fn keeps(call: &Call) -> bool {
    match call.argument("remaining") {
        Some(remaining) => remaining != "0",
        // The script only looks.
        None => call.script().header().calls == ["get"],
    }
}

fn remaining(hold: &Hold, now: Moment) -> Reply {
    Reply::Int(i64::try_from(hold.expires_at.since(now).as_millis()).unwrap())
}
