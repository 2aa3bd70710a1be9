//! The read-write lock on the wire: the state on the server and the messages on its channel, as Redisson writes and
//! reads them.
//!
//! The vectors are A6 to A9 of docs/protocol.md#22-golden-vectors. Where they say `u:1` for both sides of one owner,
//! leasehold has a wire owner for each side. Where leasehold sets an absolute count in place of an increment, the state
//! that follows is the same. Comments mark intended differences.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::error::AcquireErrorKind;
use leasehold::lock::WireOwner;
use leasehold::{AcquireError, Client, Name};
use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::read_write::{READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::{Call, CallArgs, ClientId, Lease, Recipe};

use crate::support::{
    Fixture, Subscriber, TestServer, assert_failed, connect, eventually, fields, is_free, keys, on_both,
    pttl, run_call, run_command, soon,
};

const CHANNEL: &str = "redisson_rwlock:{rw}";
const JAVA: &str = "6f3b2c1e-0d4a-4b7e-9c55-1a2b3c4d5e6f:42";

on_both! {
    async {
        names_with_a_hash_tag_have_the_keys_and_the_channel_that_redisson_gives_them,
        a_reader_unlock_of_either_side_counts_readers_of_both,
        a_java_writer_is_waited_for_and_wakes_leasehold,
        java_and_leasehold_holds_refuse_each_other,
        a_dead_java_reader_blocks_for_at_most_its_lease,
        a_plain_lock_and_a_read_write_lock_of_one_name_refuse_each_other,
    }
    sync {
        the_vector_of_a_writer_that_reads_holds,
        the_vector_of_two_leases_holds,
        the_vector_of_a_zombie_holds,
        the_vector_of_mixed_kinds_is_refused,
    }
}

/// The wire owner with this number, of one fixed client.
fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

/// One side of an owner, and the calls it makes for the lock `rw`.
struct Side {
    recipe: &'static Recipe,
    number: u64,
    companion: Option<u64>,
    lease_ms: u64,
}

impl Side {
    const fn reader(number: u64, lease_ms: u64) -> Self {
        Self { recipe: &READ_LOCK, number, companion: None, lease_ms }
    }

    const fn writer(number: u64) -> Self {
        Self { recipe: &WRITE_LOCK, number, companion: None, lease_ms: 30_000 }
    }

    /// The same side of an owner that holds the other side under this number.
    const fn beside(self, other: u64) -> Self {
        Self { companion: Some(other), ..self }
    }

    fn run(&self, server: &impl TestServer, write: impl FnOnce(&Recipe, CallArgs<'_>) -> Call) -> String {
        let subject = Subject::new(&Name::new("rw").unwrap(), self.recipe);
        let lease = Lease::new(Duration::from_millis(self.lease_ms)).unwrap();
        let ask = CallArgs::new(&subject, owner(self.number), lease);
        run_call(server, &write(self.recipe, CallArgs { companion: self.companion.map(owner), ..ask }))
    }

    fn acquire(&self, server: &impl TestServer) -> String {
        self.run(server, |recipe, ask| (recipe.acquire)(&ask))
    }

    /// A re-entry, which is a renewal that sets the count.
    fn enter(&self, server: &impl TestServer, count: u32) -> String {
        self.run(server, |recipe, ask| (recipe.renew)(&ask.count(count)))
    }

    fn release(&self, server: &impl TestServer, left: u32) -> String {
        self.run(server, |recipe, ask| (recipe.release)(&ask.count(left)))
    }

    /// The key of a read hold's lease.
    fn lease(&self, hold: u32) -> String {
        format!("{{rw}}:{}:rwlock_timeout:{hold}", owner(self.number))
    }
}

/// A hash of these fields.
fn hash(fields: &[(&str, &str)]) -> BTreeMap<String, String> {
    fields.iter().map(|&(field, value)| (field.to_owned(), value.to_owned())).collect()
}

/// Redisson's unlock of its read lock (docs/protocol.md#94-read-release), without the latch.
const JAVA_READ_UNLOCK: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
    local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
    if left == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
    redis.call('del', KEYS[3] .. ':' .. ARGV[1] .. ':rwlock_timeout:' .. (left + 1))
    if redis.call('hlen', KEYS[1]) > 1 then
        local longest = -3
        for _, field in ipairs(redis.call('hkeys', KEYS[1])) do
            local holds = tonumber(redis.call('hget', KEYS[1], field))
            for hold = holds or 0, 1, -1 do
                longest = math.max(longest, redis.call('pttl', KEYS[3] .. ':' .. field .. ':rwlock_timeout:' .. hold))
            end
        end
        if longest > 0 then redis.call('pexpire', KEYS[1], longest) return 0 end
        if redis.call('hget', KEYS[1], 'mode') == 'write' then return 0 end
    end
    redis.call('del', KEYS[1])
    redis.call('publish', KEYS[2], '0')
    return 1";

fn java_unlocks_read(server: &impl TestServer) -> String {
    server.cli(&["EVAL", JAVA_READ_UNLOCK, "3", "rw", CHANNEL, "{rw}", JAVA])
}

/// Redisson's acquire of a free read lock (docs/protocol.md#92-read-acquire).
fn java_reads(server: &impl TestServer, lease_ms: u64) {
    let lease = lease_ms.to_string();
    run_command(server, &["HSET", "rw", "mode", "read"]);
    run_command(server, &["HINCRBY", "rw", JAVA, "1"]);
    let hold = server.cli(&["HGET", "rw", JAVA]);
    run_command(server, &["SET", &format!("{{rw}}:{JAVA}:rwlock_timeout:{hold}"), "1", "PX", &lease]);
    if pttl(server, "rw") < i64::try_from(lease_ms).unwrap() {
        run_command(server, &["PEXPIRE", "rw", &lease]);
    }
}

fn the_vector_of_a_writer_that_reads_holds(server: Fixture) {
    let (writer, reader) = (Side::writer(1), Side::reader(2, 10_000).beside(1));
    let (write, read) = (format!("{}:write", owner(1)), owner(2).to_string());
    let mut heard = Subscriber::start(&server, CHANNEL);

    assert_eq!(writer.acquire(&server), "");
    assert_eq!(fields(&server, "rw"), hash(&[("mode", "write"), (&write, "1")]));
    assert_eq!(writer.enter(&server, 2), "1");
    assert_eq!(fields(&server, "rw"), hash(&[("mode", "write"), (&write, "2")]));
    assert!((29_000..=30_000).contains(&pttl(&server, "rw")), "60000 there: W8");
    assert_eq!(writer.release(&server, 1), "0");
    assert!((29_000..=30_000).contains(&pttl(&server, "rw")));

    assert_eq!(reader.acquire(&server), "");
    assert_eq!(reader.enter(&server, 2), "1");
    assert_eq!(fields(&server, "rw"), hash(&[("mode", "write"), (&write, "1"), (&read, "2")]));
    for hold in [1, 2] {
        assert_eq!(server.cli(&["GET", &reader.lease(hold)]), "1");
        assert!((9_000..=10_000).contains(&pttl(&server, &reader.lease(hold))));
    }
    assert_eq!(reader.release(&server, 1), "0");
    assert_eq!(pttl(&server, &reader.lease(2)), -2);
    assert!((29_000..=30_000).contains(&pttl(&server, "rw")), "9950 there: it cuts the writer's lease");

    assert_eq!(writer.release(&server, 0), "2", "1, and one listener");
    assert_eq!(fields(&server, "rw"), hash(&[("mode", "read"), (&read, "1")]));
    assert_eq!(heard.message(), "1", "nothing there: who waits to read is not told");
    let other = Side::reader(3, 30_000);
    assert_eq!(other.acquire(&server), "");
    assert!((29_000..=30_000).contains(&pttl(&server, "rw")));
    let refused: i64 = Side::writer(4).acquire(&server).parse().unwrap();
    assert!((29_000..=30_000).contains(&refused), "a refusal is the time to live");

    assert_eq!(reader.release(&server, 0), "0");
    assert_eq!(other.release(&server, 0), "1");
    assert_eq!(heard.message(), "0", "the next message: nothing was published before");
    assert_eq!(other.release(&server, 0), "");
    assert_eq!(writer.release(&server, 0), "");
    run_command(&server, &["PUBLISH", CHANNEL, "marker"]);
    assert_eq!(heard.message(), "marker", "a message there, of a lock that was not held");
    assert_eq!(keys(&server), 0, "no helper keys");
}

fn the_vector_of_two_leases_holds(server: Fixture) {
    let (short, long) = (Side::reader(1, 5_000), Side::reader(2, 20_000));
    short.acquire(&server);
    long.acquire(&server);
    assert!((19_000..=20_000).contains(&pttl(&server, "rw")));
    assert_eq!(long.release(&server, 0), "0");
    assert!((4_000..=5_000).contains(&pttl(&server, "rw")));
    assert_eq!(short.release(&server, 0), "1");
    // Java has the vector's two holds of one owner. In leasehold they share one validity, and so one lease.
    java_reads(&server, 5_000);
    java_reads(&server, 20_000);
    long.acquire(&server);
    assert_eq!(java_unlocks_read(&server), "0");
    assert!((19_000..=20_000).contains(&pttl(&server, "rw")), "ours");
    assert_eq!(long.release(&server, 0), "0");
    assert!((4_000..=5_000).contains(&pttl(&server, "rw")), "what is left of Java's");
    assert_eq!(java_unlocks_read(&server), "1");
    assert_eq!(keys(&server), 0);
}

fn the_vector_of_a_zombie_holds(server: Fixture) {
    let (dead, living) = (Side::reader(1, 30_000), Side::reader(2, 30_000));
    dead.acquire(&server);
    living.acquire(&server);
    run_command(&server, &["DEL", &dead.lease(1)]);
    assert_eq!(living.release(&server, 0), "1");
    assert!(is_free(&server, "rw"), "though the dead one's field was there");
}

fn the_vector_of_mixed_kinds_is_refused(server: Fixture) {
    let plain = Subject::new(&Name::new("rw").unwrap(), &REENTRANT);
    let lease = Lease::new(Duration::from_secs(30)).unwrap();
    let acquire = || run_call(&server, &(REENTRANT.acquire)(&CallArgs::new(&plain, owner(1), lease)));
    assert_eq!(acquire(), "");
    for side in [Side::reader(2, 30_000), Side::writer(2)] {
        let answer = side.acquire(&server);
        assert!(answer.contains("WRONGTYPE"), "granted there: {answer}");
    }
    assert_eq!(fields(&server, "rw"), hash(&[(&owner(1).to_string(), "1")]));
    run_command(&server, &["DEL", "rw"]);
    Side::reader(2, 30_000).acquire(&server);
    let answer = acquire();
    assert!(answer.contains("WRONGTYPE"), "refused there as another kind of object: {answer}");
}

async fn names_with_a_hash_tag_have_the_keys_and_the_channel_that_redisson_gives_them(server: Fixture) {
    let client = connect(&server).await;
    let mut heard = Subscriber::start(&server, "redisson_rwlock:{test}:abc:key");
    let lock = client.rw_lock(Name::raw_redisson("{test}:abc:key").unwrap());
    let reader = lock.read().await.unwrap();
    let lease = format!("{{test}}:abc:key:{}:rwlock_timeout:1", reader.wire_owner());
    assert_eq!(server.cli(&["GET", &lease]), "1");
    assert_eq!(keys(&server), 2);
    reader.release().await.unwrap();
    assert_eq!(heard.message(), "0");
    lock.write().await.unwrap().release().await.unwrap();
    assert_eq!(heard.message(), "1");
    assert_eq!(keys(&server), 0);
}

async fn a_reader_unlock_of_either_side_counts_readers_of_both(server: Fixture) {
    let client = connect(&server).await;
    java_reads(&server, 60_000);
    let reader = client.rw_lock("rw").lease(Duration::from_secs(20)).read().await.unwrap();
    assert!(pttl(&server, "rw") > 50_000);
    assert_eq!(java_unlocks_read(&server), "0");
    assert!((10_001..=20_000).contains(&pttl(&server, "rw")), "the lock is as long as our lease");
    assert!(reader.is_held());
    java_reads(&server, 60_000);
    reader.release().await.unwrap();
    assert!(pttl(&server, "rw") > 50_000);
    assert_eq!(fields(&server, "rw"), hash(&[("mode", "read"), (JAVA, "1")]));
    assert_eq!(java_unlocks_read(&server), "1");
    assert_eq!(keys(&server), 0);
}

async fn a_java_writer_is_waited_for_and_wakes_leasehold(server: Fixture) {
    let lazy =
        Client::builder().poll_interval(Duration::from_secs(600)).connect(&server.url()).await.unwrap();
    let writer = format!("{JAVA}:write");
    run_command(&server, &["HSET", "rw", "mode", "write", &writer, "1"]);
    run_command(&server, &["PEXPIRE", "rw", "600000"]);
    let lock = lazy.rw_lock("rw");
    assert!(lock.try_read().await.unwrap().is_none());
    assert!(lock.try_write().await.unwrap().is_none());
    assert!(lock.write_lock().is_locked().await.unwrap());
    assert!(!lock.read_lock().is_locked().await.unwrap());
    let waiting = tokio::spawn(async move { lock.read().await });
    let listeners = || server.cli(&["PUBSUB", "NUMSUB", CHANNEL]).ends_with('1');
    eventually("us to listen", listeners).await;
    run_command(&server, &["DEL", "rw"]);
    run_command(&server, &["PUBLISH", CHANNEL, "1"]);
    drop(soon("the wake-up", waiting).await.unwrap().unwrap());
}

async fn java_and_leasehold_holds_refuse_each_other(server: Fixture) {
    let client = connect(&server).await;
    let writes = "local mode = redis.call('hget', KEYS[1], 'mode') \
                  if mode == false then return 'granted' end return redis.call('pttl', KEYS[1])";
    let reads = "local mode = redis.call('hget', KEYS[1], 'mode') \
                 if mode == false or mode == 'read' or mode == 'write' and \
                 redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then return 'granted' end \
                 return redis.call('pttl', KEYS[1])";
    let java = |script| server.cli(&["EVAL", script, "1", "rw", JAVA]);
    let writer = client.rw_lock("rw").write().await.unwrap();
    assert!(java(writes).parse::<i64>().unwrap() > 0);
    assert!(java(reads).parse::<i64>().unwrap() > 0);
    writer.release().await.unwrap();
    let reader = client.rw_lock("rw").read().await.unwrap();
    assert!(java(writes).parse::<i64>().unwrap() > 0);
    assert_eq!(java(reads), "granted");
    java_reads(&server, 30_000);
    reader.release().await.unwrap();
    assert!(client.rw_lock("rw").try_write().await.unwrap().is_none());
    let reader = client.rw_lock("rw").try_read().await.unwrap().unwrap();
    assert!(client.rw_lock("rw").try_upgrade(&reader).await.unwrap().is_none(), "Java reads");
    java_unlocks_read(&server);
    assert!(client.rw_lock("rw").try_upgrade(&reader).await.unwrap().is_some());
}

async fn a_dead_java_reader_blocks_for_at_most_its_lease(server: Fixture) {
    let client = connect(&server).await;
    let reader = client.rw_lock("rw").read().await.unwrap();
    java_reads(&server, 300);
    let lock = client.rw_lock("rw");
    assert!(lock.try_upgrade(&reader).await.unwrap().is_none());
    let writer = soon("its lease to end", lock.upgrade(&reader)).await.unwrap();
    assert!(!fields(&server, "rw").contains_key(JAVA), "its field is gone too");
    assert_eq!(java_unlocks_read(&server), "", "it finds that it holds nothing");
    assert!(writer.is_held() && reader.is_held());
}

async fn a_plain_lock_and_a_read_write_lock_of_one_name_refuse_each_other(server: Fixture) {
    let client = connect(&server).await;
    let plain = client.lock("rw").lock().await.unwrap();
    let lock = client.rw_lock("rw");
    for refused in [lock.try_read().await, lock.try_write().await] {
        assert_failed!(refused, AcquireErrorKind::OtherKind(_));
    }
    assert!(
        matches!(lock.read().await, Err(AcquireError { kind: AcquireErrorKind::OtherKind(_), .. })),
        "which no wait would end"
    );
    plain.release().await.unwrap();
    for writes in [false, true] {
        let guard = if writes { lock.write().await.unwrap() } else { lock.read().await.unwrap() };
        let refused = client.lock("rw").lock().await;
        assert_failed!(refused, AcquireErrorKind::OtherKind(_));
        guard.release().await.unwrap();
    }
}
