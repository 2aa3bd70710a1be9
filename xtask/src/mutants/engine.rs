//! Mutants of the engine and of the reentrant lock.

const ACQUIRE: &str = "crates/leasehold-proto/scripts/reentrant/acquire.lua";
const RENEW: &str = "crates/leasehold-proto/scripts/reentrant/renew.lua";
const RELEASE: &str = "crates/leasehold-proto/scripts/reentrant/release.lua";
const LEASE: &str = "crates/leasehold-proto/src/lease.rs";
const ENGINE: &str = "crates/leasehold-proto/src/engine.rs";
const QUEUE: &str = "crates/leasehold-proto/src/engine/queue.rs";
const RENEWAL: &str = "crates/leasehold-proto/src/engine/renewal.rs";
const SERVER_HOLD: &str = "crates/leasehold-proto/src/engine/server_hold.rs";
const TICKET: &str = "crates/leasehold-proto/src/engine/ticket.rs";
const UNDO: &str = "crates/leasehold-proto/src/engine/release.rs";
const WAKEUP: &str = "crates/leasehold-proto/src/engine/wakeup.rs";

mutants! {
    "validity counts from the reply":
        QUEUE, "grant, attempt.lease, attempt.sent_at);" => "grant, attempt.lease, now);";
        RENEWAL, "self.confirm(wire, sent.sent_at, sent.lease);" => "self.confirm(wire, now, sent.lease);"
    "no drift is taken off":
        LEASE, "self.duration().saturating_sub(self.drift())" => "self.duration()"
    "a wire owner is used again":
        ENGINE, "let first = self.last_owner + 1;" => "let first = 1;"
    "an owner is not burnt by a late grant":
        QUEUE, "            waiter.wire = None;\n            waiter.unknown_until = None;" => "            waiter.unknown_until = None;"
    "a release does not check the owner":
        RELEASE, "if redis.call('hexists', lock, owner) == 0 then" => "if redis.call('exists', lock) == 0 then"
    "a renewal does not check the owner":
        RENEW, "if redis.call('hexists', lock, owner) == 0 then" => "if redis.call('exists', lock) == 0 then"
    "an acquire takes what is held":
        ACQUIRE, "if redis.call('exists', lock) == 1 then" => "if redis.call('exists', lock) == 2 then"
    "an acquire increments instead of setting":
        ACQUIRE, "  if redis.call('pttl', lock) < lease_ms then" => "  redis.call('hincrby', lock, owner, 1)\n  if redis.call('pttl', lock) < lease_ms then"
    "an acquire sets no lease":
        ACQUIRE, "local expires = redis.pcall('pexpire', lock, ARGV[1])" => "local expires = 1"
    "a renewal may shorten the lease":
        RENEW, "if redis.call('pttl', lock) < lease_ms then" => "if lease_ms then"
    "a renewal creates the hold anew":
        RENEW, "  return -redis.call('exists', lock)" => "  if redis.call('exists', lock) == 1 then return -1 end\n  redis.call('hset', lock, owner, '1')"
    "renewal goes on after the release":
        SERVER_HOLD, "if let Some(server_hold) = self.forget(wire) {" => "if let Some(server_hold) = self.server_holds.get(&wire).cloned() {";
        RENEWAL, "self.holds.values().any(Hold::is_watched)" => "(self.holds.is_empty() || self.holds.values().any(Hold::is_watched))"
    "renewal begins before the claim":
        SERVER_HOLD, "self.claimed && self.watchdog" => "self.watchdog";
        SERVER_HOLD, "        self.grant(now, id, wire);" => "        self.grant(now, id, wire);\n        self.plan_renewal(wire);"
    "an unclaimed grant is kept":
        TICKET, "self.timers.set(Timer::Unclaimed(id), now + claim_within);" => "let _ = claim_within;"
    "a grant past its validity is accepted":
        QUEUE, "if now >= attempt.lease.valid_until(attempt.sent_at)" => "if now < attempt.sent_at";
        SERVER_HOLD, "let lost = self.server_holds.get(&wire).is_none_or(|server_hold| server_hold.lost.is_some());" => "let lost = false;"
    "a lost grant is claimed, however late":
        TICKET, "self.timers.set(Timer::Unclaimed(id), now + claim_within);" => "let _ = claim_within;";
        SERVER_HOLD, "let lost = self.server_holds.get(&wire).is_none_or(|server_hold| server_hold.lost.is_some());" => "let lost = false;"
    "a wait has no deadline":
        QUEUE, "            self.timers.set(Timer::Deadline(id), deadline);" => "            let _ = deadline;"
    "no attempt after subscribing":
        WAKEUP, "pub(super) fn listening(&mut self, now: Moment, channel: &Channel) {" => "pub(super) fn listening(&mut self, now: Moment, channel: &Channel) {\n        if now >= Moment::default() { return; }"
    "no polling":
        QUEUE, "self.settings.poll_interval.min(seen_every);" => "seen_every;"
    "no wake-up by messages":
        WAKEUP, "pub(super) fn message(&mut self, now: Moment, channel: &Channel) {" => "pub(super) fn message(&mut self, now: Moment, channel: &Channel) {\n        if now >= Moment::default() { return; }"
    "the watchdog stops at an error":
        RENEWAL, "        self.fail_ensuring(ensuring, &EnsureFailure::Unconfirmed { remaining, error: error.clone() });\n        self.plan_renewal(wire);" => "        self.fail_ensuring(ensuring, &EnsureFailure::Unconfirmed { remaining, error: error.clone() });"
    "the watchdog renews too late":
        RENEWAL, "server_hold.lease().duration() / 3;" => "server_hold.lease().duration() * 4 / 5;"
    "an unanswered renewal extends the validity":
        RENEWAL, "        let remaining = server_hold.remaining(now);\n        let ensuring" => "        server_hold.valid_until = server_hold.lease().valid_until(now);\n        let remaining = server_hold.remaining(now);\n        let ensuring"
    "the grant of a dropped future is not undone":
        QUEUE, "Ok(Answer::Granted { .. }) => Cause::UnseenGrant," => "Ok(Answer::Granted { .. }) => return,"
    "an unknown acquire is not undone":
        QUEUE, "Err(error) if error.applied == Applied::Unknown => Cause::UnknownAcquire," => "Err(error) if error.applied == Applied::Unknown => return,";
        QUEUE, "            self.begin_release(now, wire, &request.subject, undo);" => "            drop(undo);"
    "a failed release is not tried again":
        UNDO, "        self.timers.set(Timer::Release(wire), now + pause);" => "        let _ = (now, pause);"
    "no holder learns of a loss":
        SERVER_HOLD, "        for id in holds {\n            self.wake(id);\n        }" => "        drop(holds);"
    "a release frees what others of its owner hold":
        SERVER_HOLD, "        } else if unused {" => "        } else if unused || !detached {"
}
