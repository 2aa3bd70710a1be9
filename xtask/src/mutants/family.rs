//! Mutants of the other primitives.

const FAIR: &str = "crates/leasehold-proto/src/recipe/fair.rs";
const FAIR_ACQUIRE: &str = "crates/leasehold-proto/scripts/fair/acquire.lua";
const FAIR_QUEUE: &str = "crates/leasehold-proto/scripts/fair/queue.lua";
const FAIR_RELEASE: &str = "crates/leasehold-proto/scripts/fair/release.lua";
const FENCED: &str = "crates/leasehold-proto/scripts/fenced/acquire.lua";
const READ_ACQUIRE: &str = "crates/leasehold-proto/scripts/read/acquire.lua";
const READ_RENEW: &str = "crates/leasehold-proto/scripts/read/renew.lua";
const READ_RELEASE: &str = "crates/leasehold-proto/scripts/read/release.lua";
const WRITE_RELEASE: &str = "crates/leasehold-proto/scripts/write/release.lua";
const MARKER: &str = "crates/leasehold-proto/scripts/semaphore/marker.lua";
const PERMIT_RELEASE: &str = "crates/leasehold-proto/scripts/expirable/release.lua";
const COUNT_DOWN: &str = "crates/leasehold-proto/scripts/latch/count_down.lua";
const LATCH_WAIT: &str = "crates/leasehold-proto/scripts/latch/wait.lua";
const MULTI: &str = "crates/leasehold/src/multi.rs";
const SERVER_HOLD: &str = "crates/leasehold-proto/src/engine/server_hold.rs";
const MIN_HOLD: &str = "crates/leasehold-proto/src/engine/min_hold.rs";
const WAKEUP: &str = "crates/leasehold-proto/src/engine/wakeup.rs";
const REDLOCK: &str = "crates/leasehold-proto/scripts/redlock/acquire.lua";
const QUORUM: &str = "crates/leasehold/src/redlock/lock.rs";
const NODE_HOLDS: &str = "crates/leasehold/src/redlock/guard.rs";

mutants! {
    "fair: a timeout removes the head too":
        FAIR_RELEASE, "if not mine then leave(q, owner) end" => "if not mine then leave(q, owner) leave(q, redis.call('lindex', queue, 0) or '') end"
    "fair: a waiter never leaves the queue":
        FAIR_RELEASE, "if not mine then leave(q, owner) end" => ""
    "fair: waiters who live are taken out":
        FAIR_QUEUE, "local GONE_AFTER = 5000" => "local GONE_AFTER = 1000"
    "fair: waiters do not show themselves":
        FAIR, "seen_every: Some(SEEN_EVERY)" => "seen_every: None"
    "fair: one who does not wait goes before the queue":
        FAIR_ACQUIRE, "(free and (not head or head == owner))" => "(free and (once == 1 or not head or head == owner))"
    "fair: who is granted stays in the queue":
        FAIR_ACQUIRE, "if head then leave(q, owner) keep(q) end" => ""
    "least time: a release before it is sent at once":
        SERVER_HOLD, "(server_hold.min_hold_until > now)" => "(server_hold.min_hold_until == Moment::NEVER)"
    "least time: a lease that is too short is not extended":
        MIN_HOLD, "self.expires_at >= self.until" => "self.expires_at <= self.until || self.expires_at >= self.until"
    "fenced: a grant takes no new token":
        FENCED, "local next = given or (tonumber(last or 0) or -1) + 1" => "local next = given or math.max(tonumber(last or 0) or -1, 1)"
    "fenced: asking twice takes another token":
        FENCED, "local given = mine and tonumber(last)" => "local given = false"
    "read-write: a reader joins a writer":
        READ_ACQUIRE, "mode == 'write' and redis.call('pttl', lock) or mode" => "mode == 'write' and -2 or mode"
    "read-write: the last reader frees what is written":
        READ_RELEASE, "if remaining > 0 or redis.call('hget', lock, 'mode') == 'write' then return 0 end" => "if remaining > 0 then return 0 end"
    "read-write: a renewal forgets the reader's leases":
        READ_RENEW, "if redis.call('pttl', timeout .. hold) < lease_ms then" => "if lease_ms < 0 then"
    "read-write: a writer who leaves frees what is read":
        WRITE_RELEASE, "if longest == 0 then" => "if longest >= 0 then"
    "read-write: a write hold that ran out lives on":
        SERVER_HOLD, "let lives_on = may_live_on ||" => "let lives_on ="
    "semaphore: an acquire leaves no marker":
        MARKER, "    redis.call('set', marker, doubtful == 1 and -permits or permits, 'PX', MARKER_MS)" => ""
    "semaphore: a release forgets the marker":
        MARKER, "    redis.call('del', marker)" => ""
    "permits: a late release adds":
        PERMIT_RELEASE, "if #taken > 0 then" => "taken = all\nif #taken > 0 then"
    "latch: a count-down leaves no marker":
        COUNT_DOWN, "redis.call('set', done, left, 'PX', done_ms)" => ""
    "latch: a wait ends before zero":
        LATCH_WAIT, "if count <= 0 then" => "if count <= 1 then"
    "multi: what was taken first is kept when the rest cannot be had":
        MULTI, "                None => return Ok(None)," => "                None => { guards.into_iter().for_each(Guard::detach); return Ok(None) }"
    "multi: each client takes the members in its own order":
        MULTI, "        members.sort_by_key(|member| member.0.rank());" => "        members.rotate_left(0);"
    "a waiter that joins a subscription does not retry":
        WAKEUP, "        if joins {" => "        if joins && self.listeners.by_listener.is_empty() {"
    "redlock: a young node counts":
        REDLOCK, "if uptime_ms > 0 then" => "if uptime_ms < 0 then"
    "redlock: less than a majority is enough":
        QUORUM, "self.nodes.len() / 2 + 1" => "self.nodes.len() / 2"
    "redlock: the best part is trusted, not the quorum-th":
        NODE_HOLDS, "all.get(quorum - 1)" => "all.first()"
}
