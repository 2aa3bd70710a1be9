//! Scripts of a user who lacks a right. A script makes all of its changes, or none.
//!
//! Invariant: each call of the table is run once for each command in its script's header, without that command. The
//! embedded store has no users, so these tests need redis-server.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_proto::engine::{Id, Settings, Subject};
use leasehold_proto::marker::Operation;
use leasehold_proto::recipe::expirable::{self, EXPIRABLE_SEMAPHORE};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::multi::MULTI;
use leasehold_proto::recipe::plain::{self, PLAIN};
use leasehold_proto::recipe::read_write::{PREFERRED, READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::redlock::REDLOCK;
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::{self, FIFO_SEMAPHORE, SEMAPHORE};
use leasehold_proto::recipe::spin::SPIN;
use leasehold_proto::recipe::upgrade::UPGRADE;
use leasehold_proto::recipe::{CallContext, latch};
use leasehold_proto::{
    Call, CallArgs, ClientId, KeepAliveArgs, Lease, Name, PermitId, Recipe, StoreErrorKind, WireOwner,
};
use leasehold_store::Store;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::servers::RedisServer;

const LIMIT: Duration = Duration::from_secs(20);

/// A script that returns all keys with their values, and whether each key has an expiry. It omits removed answers,
/// which are empty and expire at once. It sorts the members of a sorted set, because their scores are times, and two
/// times may be equal.
pub(crate) const STATE: &str = "
    local lines = {}
    for _, key in ipairs(redis.call('keys', '*')) do
        local kind = redis.call('type', key).ok
        local held = kind == 'string' and { redis.call('get', key) } or kind == 'hash' and redis.call('hgetall', key)
            or kind == 'list' and redis.call('lrange', key, 0, -1) or redis.call('zrange', key, 0, -1)
        if kind ~= 'string' or held[1] ~= '' then
            if kind == 'hash' then
                local fields = {}
                for at = 1, #held, 2 do fields[#fields + 1] = held[at] .. '=' .. held[at + 1] end
                table.sort(fields)
                held = fields
            end
            if kind == 'zset' then table.sort(held) end
            for at, value in ipairs(held) do
                held[at] = string.gsub(string.gsub(value, '[^%w:=-]', '.'), '%d%d%d%d%d%d%d%d%d%d%d%d%d+', 'time')
            end
            local expiry = redis.call('pttl', key) >= 0 and 'expires' or 'stays'
            lines[#lines + 1] = key .. ' ' .. expiry .. ' ' .. table.concat(held, ' ')
        end
    end
    table.sort(lines)
    return table.concat(lines, '\\n')";

/// The condition that must hold after a refusal.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Guarantee {
    /// The state equals the state before, or the state after a successful call.
    AllOrNothing,
    /// The state is as for `AllOrNothing`, or every key of the state expires.
    OnlyExpiringKeys,
}
use Guarantee::{AllOrNothing, OnlyExpiringKeys};

/// A call, and the calls that prepare the server for it.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) before: Vec<Call>,
    pub(crate) call: Call,
    leaves: Guarantee,
}

fn name() -> Name {
    Name::with_hash_tag("rights", ":job").unwrap()
}

pub(crate) fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

pub(crate) fn operation(number: u64) -> Operation {
    Operation::new(ClientId::from_random([7; 16]), Id(number), &Settings::default())
}

/// Returns a call that a recipe writes for a request of the owner with this number.
pub(crate) fn call_for(
    recipe: &'static Recipe,
    number: u64,
    write: impl FnOnce(&CallArgs<'_>) -> Call,
) -> Call {
    let others = ["2", "3"].map(|rest| Name::with_hash_tag("rights", rest).unwrap());
    let others =
        if [MULTI.kind, plain::MULTI.kind].contains(&recipe.kind) { others.into() } else { [].into() };
    let subject = Subject { others, ..Subject::new(&name(), recipe) };
    let lease = Lease::new(Duration::from_secs(30)).unwrap();
    write(&CallArgs::new(&subject, owner(number), lease))
}

fn acquire(recipe: &'static Recipe, number: u64) -> Call {
    call_for(recipe, number, |ask| (recipe.acquire)(ask))
}

fn release(recipe: &'static Recipe, number: u64) -> Call {
    let context = CallContext { expired: true, ..CallContext::default() };
    call_for(recipe, number, |ask| (recipe.release)(&CallArgs { context, ..ask.count(0) }))
}

fn keep_alive(recipe: &'static Recipe) -> Call {
    let (name, client) = (name(), ClientId::from_random([7; 16]));
    (recipe.keep_alive.unwrap())(&KeepAliveArgs { name: &name, client, from: 0 })
}

fn beside(recipe: &'static Recipe, number: u64, other: u64) -> Call {
    call_for(recipe, number, |ask| (recipe.acquire)(&CallArgs { companion: Some(owner(other)), ..*ask }))
}

/// Returns rows that acquire and release every kind of hold.
pub(crate) fn holds() -> Vec<Row> {
    let fenced = [Tokens::Counter, Tokens::HybridCollected].map(|tokens| {
        let recipe: &'static Recipe = fenced::with_tokens(tokens);
        recipe
    });
    let locks: [&'static Recipe; 12] = [
        &REENTRANT,
        &FAIR,
        &SPIN,
        &REDLOCK,
        &MULTI,
        &WRITE_LOCK,
        &PREFERRED,
        fenced[0],
        fenced[1],
        &PLAIN,
        &plain::REDLOCK,
        &plain::MULTI,
    ];
    let mut rows = Vec::new();
    let mut row = |what, before, call, leaves| rows.push(Row { what, before, call, leaves });
    for lock in locks {
        row(lock.kind, vec![], acquire(lock, 1), AllOrNothing);
        row(lock.kind, vec![acquire(lock, 1)], acquire(lock, 2), AllOrNothing);
        row(lock.kind, vec![acquire(lock, 1), acquire(lock, 2)], release(lock, 1), AllOrNothing);
    }
    row(
        "fair, the head",
        vec![acquire(&FAIR, 1), acquire(&FAIR, 2), release(&FAIR, 1)],
        acquire(&FAIR, 2),
        OnlyExpiringKeys,
    );
    row(
        "fair, a waiter leaves",
        vec![acquire(&FAIR, 1), acquire(&FAIR, 2)],
        release(&FAIR, 2),
        OnlyExpiringKeys,
    );
    row(
        "fair, waiters alive",
        vec![acquire(&FAIR, 1), acquire(&FAIR, 2), acquire(&FAIR, 3)],
        keep_alive(&FAIR),
        OnlyExpiringKeys,
    );
    let marked = CallContext { marks: true, ..CallContext::default() };
    let waits = call_for(&PLAIN, 2, |ask| (PLAIN.acquire)(&CallArgs { context: marked, ..*ask }));
    row("plain, waiting", vec![acquire(&PLAIN, 1)], waits.clone(), AllOrNothing);
    row("plain, waited for", vec![acquire(&PLAIN, 1), waits], release(&PLAIN, 1), AllOrNothing);
    row(
        "plain, one hold of several",
        vec![acquire(&PLAIN, 1)],
        call_for(&PLAIN, 1, |ask| (PLAIN.release)(&ask.count(1))),
        AllOrNothing,
    );
    let reads = [1, 2].map(|reader| acquire(&READ_LOCK, reader));
    let [first, second] = reads.clone();
    row("read", vec![], first.clone(), AllOrNothing);
    row("read, joining", vec![first.clone()], second, AllOrNothing);
    row("read, the last one leaves", vec![first.clone()], release(&READ_LOCK, 1), OnlyExpiringKeys);
    row("read, one of two leaves", reads.to_vec(), release(&READ_LOCK, 1), OnlyExpiringKeys);
    row("read, within a write", vec![acquire(&WRITE_LOCK, 3)], beside(&READ_LOCK, 4, 3), AllOrNothing);
    row("upgrade", vec![first.clone()], beside(&UPGRADE, 2, 1), AllOrNothing);
    row("write, reading on", vec![first, beside(&UPGRADE, 2, 1)], release(&WRITE_LOCK, 2), OnlyExpiringKeys);
    rows
}

/// Returns rows for every call that changes a counter.
pub(crate) fn counters() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |what, before, call| rows.push(Row { what, before, call, leaves: AllOrNothing });
    let set = || semaphore::try_set(&name(), &operation(90), 2, None);
    let while_it_lasts = semaphore::try_set(&name(), &operation(90), 2, Some(Duration::from_secs(60)));
    let kinds: [&'static Recipe; 3] = [&SEMAPHORE, &FIFO_SEMAPHORE, &EXPIRABLE_SEMAPHORE];
    for kind in kinds {
        row(kind.kind, vec![set()], acquire(kind, 1));
        row(kind.kind, vec![set(), acquire(kind, 1)], release(kind, 1));
        row(kind.kind, vec![set(), acquire(kind, 1), acquire(kind, 2)], acquire(kind, 3));
        row(kind.kind, vec![while_it_lasts.clone()], acquire(kind, 1));
    }
    let queued = [1, 2, 3].map(|number| acquire(&FIFO_SEMAPHORE, number));
    row("fifo semaphore, waiters alive", queued.to_vec(), keep_alive(&FIFO_SEMAPHORE));
    let uncertain = CallContext { uncertain: true, ..CallContext::default() };
    let ask = |write: fn(&CallArgs<'_>) -> Call| {
        call_for(&SEMAPHORE, 1, |ask| write(&CallArgs { context: uncertain, ..ask.count(0) }))
    };
    row("semaphore, in doubt", vec![set()], ask(|ask| (SEMAPHORE.acquire)(ask)));
    row("semaphore, in doubt", vec![set(), acquire(&SEMAPHORE, 1)], ask(|ask| (SEMAPHORE.release)(ask)));
    row("try_set", vec![], set());
    row("try_set for a while", vec![], while_it_lasts);
    row("add", vec![set()], semaphore::add(&name(), &operation(1), 3));
    row("drain", vec![set()], semaphore::drain(&name(), &operation(1)));
    row("put_back", vec![set()], semaphore::return_permits(&name(), &operation(1), 1));
    let taken = || vec![set(), acquire(&EXPIRABLE_SEMAPHORE, 1)];
    let ids: Vec<PermitId> = PermitId::of(owner(1), 1).collect();
    row("expirable, release_ids", taken(), expirable::release_ids(&name(), &operation(1), &ids));
    row("expirable, add", taken(), expirable::add(&name(), &operation(1), 3));
    row("expirable, set", taken(), expirable::set(&name(), &operation(1), 5));
    let lease = Lease::new(Duration::from_secs(5)).unwrap();
    row("expirable, update_lease", taken(), expirable::update_lease(&name(), &operation(1), ids[0], lease));
    let latch_name = Name::new("rights").unwrap();
    let set_latch = latch::try_set(&latch_name, &operation(90), 2);
    let down = |number| latch::count_down(&latch_name, &operation(number));
    row("latch, try_set", vec![], set_latch.clone());
    row("latch, down", vec![set_latch.clone()], down(1));
    row("latch, to zero", vec![set_latch.clone(), down(1)], down(2));
    row("latch, delete", vec![set_latch], latch::delete(&latch_name, &operation(1)));
    rows
}

/// Returns the commands in the headers of a script, including the commands of its libraries.
fn calls(call: &Call) -> BTreeSet<String> {
    let lines = call.script().source().lines().filter_map(|line| line.strip_prefix("-- calls "));
    let words = lines.flat_map(|line| line.split_whitespace());
    words.map(|word| word.trim_end_matches("|spublish").to_owned()).collect()
}

/// A server with two clients, one with all rights, and one whose user lacks the right of the case.
struct Harness {
    server: RedisServer,
    admin: Redis,
    weak: Redis,
}

impl Harness {
    async fn start() -> Self {
        let server = RedisServer::start();
        assert_eq!(server.cli(&["ACL", "SETUSER", "weak", "on", ">word", "~*", "&*", "+@all"]), "OK");
        let connect =
            async |url: &str| Redis::connect(&url.parse().unwrap(), ConnectOptions::default()).await.unwrap();
        let weak = connect(&format!("redis://weak:word@127.0.0.1:{}", server.port())).await;
        Self { admin: connect(&server.url()).await, weak, server }
    }

    fn rule(&self, rules: &[&str]) {
        assert_eq!(self.server.cli(&[&["ACL", "SETUSER", "weak"], rules].concat()), "OK");
    }

    fn state(&self) -> String {
        self.server.cli(&["EVAL", STATE, "0"])
    }

    async fn prepare(&self, row: &Row) -> String {
        assert_eq!(self.server.cli(&["FLUSHALL"]), "OK");
        for call in &row.before {
            self.admin.run(call.clone(), LIMIT).await.unwrap();
        }
        self.state()
    }

    /// Runs the row's call by a user who lacks a right, and returns whether the server refused it, or the violated
    /// condition.
    async fn try_without(
        &self,
        row: &Row,
        lacks: &str,
        take: &[&str],
        give: &[&str],
    ) -> Result<bool, String> {
        self.prepare(row).await;
        self.admin.run(row.call.clone(), LIMIT).await.unwrap();
        let done = self.state();
        let before = self.prepare(row).await;
        self.rule(take);
        let outcome = self.weak.run(row.call.clone(), LIMIT).await;
        self.rule(give);
        let after = self.state();
        let at = format!("{} without {lacks}: {outcome:?}", row.what);
        let Err(error) = outcome else {
            let fine = after == done;
            return if fine { Ok(false) } else { Err(format!("{at}\nexpected:\n{done}\nafter:\n{after}")) };
        };
        let expires = after.lines().all(|line| line.split(' ').nth(1) == Some("expires"));
        let fine = after == before || after == done || (row.leaves == OnlyExpiringKeys && expires);
        if fine && error.kind == StoreErrorKind::PermissionDenied {
            return Ok(true);
        }
        Err(format!("{at}\nbefore:\n{before}\nafter:\n{after}"))
    }
}

async fn every_right_is_needed_for_all_or_for_nothing(rows: Vec<Row>) {
    let harness = Harness::start().await;
    let (mut refusals, mut wrong) = (0, Vec::new());
    for row in rows {
        for command in calls(&row.call) {
            let [without, with] = ["-", "+"].map(|sign| format!("{sign}{command}"));
            match harness.try_without(&row, &command, &[&without], &[&with]).await {
                Ok(refused) => refusals += usize::from(refused),
                Err(what) => wrong.push(what),
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n\n"));
    assert!(refusals > 50, "only {refusals} of the calls were refused");
}

#[tokio::test]
async fn a_missing_permission_leaves_no_hold_and_no_key_without_expiry() {
    every_right_is_needed_for_all_or_for_nothing(holds()).await;
}

#[tokio::test]
async fn a_missing_permission_leaves_the_permit_count_unchanged() {
    every_right_is_needed_for_all_or_for_nothing(counters()).await;
}
