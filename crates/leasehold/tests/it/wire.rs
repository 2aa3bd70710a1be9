//! The wire: the state on the server and the messages on channels, as Redisson writes and reads them.
//!
//! The vector is A1 of docs/protocol.md#22-golden-vectors, as far as leasehold's scripts have the same inputs. Where
//! they set an absolute count in place of an increment, the state that follows is the same.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::lock::WireOwner;
use leasehold::{Client, Name, ReleaseOutcome};
use leasehold_proto::engine::Subject;
use leasehold_proto::recipe::reentrant::{LOCK_CALLS, REENTRANT};
use leasehold_proto::{CallArgs, ClientId, Lease};
use leasehold_testkit::servers::{self, RedisServer};

use crate::support::{
    Fixture, Monitor, Subscriber, TestServer, channel, connect, eventually, fields, hold_as_redisson,
    is_free, listeners, ms, on_both, pttl, run_call, run_command, sent, soon,
};

const CHANNEL: &str = "redisson_lock__channel:{lk}";

/// The wire owner with this number, of one fixed client.
fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

/// The inputs of a script call, for the lock `lk`.
struct Asked {
    subject: Subject,
    owner: WireOwner,
    lease: Lease,
}

impl Asked {
    fn by(number: u64) -> Self {
        Self {
            subject: Subject::new(&Name::new("lk").unwrap(), &REENTRANT),
            owner: owner(number),
            lease: Lease::new(Duration::from_secs(30)).unwrap(),
        }
    }

    fn ask(&self, count: u32) -> CallArgs<'_> {
        CallArgs::new(&self.subject, self.owner, self.lease).count(count)
    }

    fn acquire(&self, server: &impl TestServer) -> String {
        run_call(server, &(REENTRANT.acquire)(&self.ask(1)))
    }

    /// A re-entry, which is a renewal that sets the count.
    fn enter(&self, server: &impl TestServer, count: u32) -> String {
        run_call(server, &(REENTRANT.renew)(&self.ask(count)))
    }

    fn renew(&self, server: &impl TestServer) -> String {
        run_call(server, &(REENTRANT.renew)(&self.ask(0)))
    }

    fn release(&self, server: &impl TestServer, left: u32) -> String {
        run_call(server, &(REENTRANT.release)(&self.ask(left)))
    }
}

/// The hash with one holder.
fn held_by(number: u64, count: u32) -> BTreeMap<String, String> {
    BTreeMap::from([(owner(number).to_string(), count.to_string())])
}

on_both! {
    async {
        a_hold_is_a_hash_with_one_field_of_uuid_and_number_and_an_expiry,
        a_plain_subscriber_receives_a_release,
        a_partial_release_publishes_nothing,
        a_redisson_hold_excludes_leasehold_until_its_release,
        a_leasehold_hold_refuses_an_acquire_of_redisson,
        names_with_a_hash_tag_have_the_channel_that_redisson_gives_them,
        names_and_owners_are_only_ever_keys_and_arguments,
    }
    sync {
        the_plain_vector_of_the_protocol_page_holds,
        an_acquire_run_twice_equals_one,
        a_re_entry_run_twice_equals_one,
        neither_an_acquire_nor_a_re_entry_shortens_the_lease_on_the_server,
        a_re_entry_of_a_missing_hold_acquires_nothing,
        a_renewal_run_twice_equals_one_and_never_shortens,
        a_foreign_renewal_or_one_without_a_hold_changes_nothing,
        a_late_duplicate_of_any_call_does_not_affect_a_newer_owner,
        invalid_arguments_are_rejected_before_the_first_write,
        a_forced_release_wakes_waiters_at_any_hold_count,
        an_inspection_changes_nothing,
    }
}

fn the_plain_vector_of_the_protocol_page_holds(server: Fixture) {
    let (one, two) = (Asked::by(1), Asked::by(2));
    let mut heard = Subscriber::start(&server, CHANNEL);

    assert_eq!(one.acquire(&server), "");
    assert_eq!(fields(&server, "lk"), held_by(1, 1));
    assert!((29_000..=30_000).contains(&pttl(&server, "lk")));

    let refused: i64 = two.acquire(&server).parse().unwrap();
    assert!((29_000..=30_000).contains(&refused), "a refusal is the time to live");

    assert_eq!(one.enter(&server, 2), "1");
    assert_eq!(fields(&server, "lk"), held_by(1, 2));

    assert_eq!(one.release(&server, 1), "0");
    assert_eq!(fields(&server, "lk"), held_by(1, 1));
    assert_eq!(one.release(&server, 1), "0", "once more is the same");
    assert_eq!(fields(&server, "lk"), held_by(1, 1));

    assert_eq!(one.release(&server, 0), "2", "1, and one listener");
    assert!(is_free(&server, "lk"));
    assert_eq!(heard.message(), "0", "the first message: nothing was published before");

    assert_eq!(one.release(&server, 0), "", "nil: not its holder");
    assert_eq!(run_call(&server, &(LOCK_CALLS.force_release)(&one.subject.name)), "0");
    run_command(&server, &["PUBLISH", CHANNEL, "marker"]);
    assert_eq!(heard.message(), "marker", "nothing was published since");
    assert_eq!(crate::support::keys(&server), 0, "no helper keys");
}

fn an_acquire_run_twice_equals_one(server: Fixture) {
    let one = Asked::by(1);
    for _ in 0..2 {
        assert_eq!(one.acquire(&server), "");
        assert_eq!(fields(&server, "lk"), held_by(1, 1));
        assert!((29_000..=30_000).contains(&pttl(&server, "lk")));
    }
}

fn a_re_entry_run_twice_equals_one(server: Fixture) {
    let one = Asked::by(1);
    one.acquire(&server);
    for count in [2, 5] {
        for _ in 0..2 {
            assert_eq!(one.enter(&server, count), "1");
            assert_eq!(fields(&server, "lk"), held_by(1, count));
        }
    }
}

fn neither_an_acquire_nor_a_re_entry_shortens_the_lease_on_the_server(server: Fixture) {
    let (long, mut short) = (Asked::by(1), Asked::by(1));
    short.lease = Lease::new(Duration::from_secs(1)).unwrap();
    long.acquire(&server);
    assert_eq!(short.enter(&server, 2), "1");
    assert!(pttl(&server, "lk") > 20_000);
    assert_eq!(short.acquire(&server), "");
    assert!(pttl(&server, "lk") > 20_000);
}

fn a_re_entry_of_a_missing_hold_acquires_nothing(server: Fixture) {
    for count in [1, 2] {
        assert_eq!(Asked::by(1).enter(&server, count), "0");
        assert!(is_free(&server, "lk"));
    }
    assert_eq!(Asked::by(2).acquire(&server), "");
    assert_eq!(Asked::by(1).enter(&server, 1), "-1");
    assert_eq!(fields(&server, "lk"), held_by(2, 1));
}

fn a_renewal_run_twice_equals_one_and_never_shortens(server: Fixture) {
    let one = Asked::by(1);
    one.acquire(&server);
    run_command(&server, &["PEXPIRE", "lk", "1000"]);
    for _ in 0..2 {
        assert_eq!(one.renew(&server), "1");
        assert!((29_000..=30_000).contains(&pttl(&server, "lk")));
    }
    run_command(&server, &["PEXPIRE", "lk", "90000"]);
    assert_eq!(one.renew(&server), "1");
    assert!(pttl(&server, "lk") > 80_000);
    assert_eq!(fields(&server, "lk"), held_by(1, 1));
}

fn a_foreign_renewal_or_one_without_a_hold_changes_nothing(server: Fixture) {
    assert_eq!(Asked::by(1).renew(&server), "0");
    assert!(is_free(&server, "lk"));
    Asked::by(2).acquire(&server);
    run_command(&server, &["PEXPIRE", "lk", "5000"]);
    assert_eq!(Asked::by(1).renew(&server), "-1");
    assert!(pttl(&server, "lk") <= 5000);
    assert_eq!(fields(&server, "lk"), held_by(2, 1));
}

fn a_late_duplicate_of_any_call_does_not_affect_a_newer_owner(server: Fixture) {
    let (old, new) = (Asked::by(1), Asked::by(2));
    old.acquire(&server);
    old.release(&server, 0);
    new.acquire(&server);
    run_command(&server, &["PEXPIRE", "lk", "5000"]);
    let mut heard = Subscriber::start(&server, CHANNEL);
    assert_eq!(old.release(&server, 0), "");
    assert_eq!(old.release(&server, 1), "");
    assert_eq!(old.renew(&server), "-1");
    assert!(old.acquire(&server).parse::<i64>().unwrap() > 0);
    assert_eq!(fields(&server, "lk"), held_by(2, 1));
    assert!(pttl(&server, "lk") <= 5000);
    run_command(&server, &["PUBLISH", CHANNEL, "marker"]);
    assert_eq!(heard.message(), "marker", "no waiter was woken");
}

fn invalid_arguments_are_rejected_before_the_first_write(server: Fixture) {
    let one = Asked::by(1);
    let field = one.owner.to_string();
    let (acquire, renew) = ((REENTRANT.acquire)(&one.ask(1)), (REENTRANT.renew)(&one.ask(1)));
    let (acquire, renew) = (acquire.script().source(), renew.script().source());
    for lease in ["0", "-1", "1.5", "9223372036854775807", "", "nan", "inf"] {
        for script in [acquire, renew] {
            let answer = server.cli(&["EVAL", script, "1", "lk", lease, &field, "1"]);
            assert!(answer.contains("LOCKERR"), "{lease}: {answer}");
            assert!(is_free(&server, "lk"), "an immortal lock after {lease}");
        }
    }
    one.acquire(&server);
    for count in ["", "-1", "1.5", "nan"] {
        let answer = server.cli(&["EVAL", renew, "1", "lk", "30000", &field, count]);
        assert!(answer.contains("LOCKERR"), "{count}: {answer}");
        assert_eq!(fields(&server, "lk"), held_by(1, 1));
    }
}

fn a_forced_release_wakes_waiters_at_any_hold_count(server: Fixture) {
    let one = Asked::by(1);
    one.acquire(&server);
    one.enter(&server, 7);
    let mut heard = Subscriber::start(&server, CHANNEL);
    assert_eq!(run_call(&server, &(LOCK_CALLS.force_release)(&one.subject.name)), "1");
    assert_eq!(heard.message(), "0");
    assert!(is_free(&server, "lk"));
}

fn an_inspection_changes_nothing(server: Fixture) {
    let one = Asked::by(1);
    assert_eq!(run_call(&server, &(LOCK_CALLS.inspect)(&one.subject.name, None)), "-2\n0");
    one.acquire(&server);
    one.enter(&server, 3);
    let seen = run_call(&server, &(LOCK_CALLS.inspect)(&one.subject.name, Some(one.owner)));
    assert!(seen.ends_with("\n3"), "{seen}");
    assert!(run_call(&server, &(LOCK_CALLS.inspect)(&one.subject.name, Some(owner(2)))).ends_with("\n0"));
    assert_eq!(fields(&server, "lk"), held_by(1, 3));
}

async fn a_hold_is_a_hash_with_one_field_of_uuid_and_number_and_an_expiry(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("lk").lock().await.unwrap();
    assert_eq!(server.cli(&["TYPE", "lk"]), "hash");
    let hash = fields(&server, "lk");
    let (field, count) = hash.iter().next().unwrap();
    let (uuid, number) = field.split_once(':').unwrap();
    assert_eq!(hash.len(), 1);
    assert_eq!(count, "1");
    assert_eq!(uuid.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
    assert!(uuid.chars().all(|c| c == '-' || c.is_ascii_digit() || c.is_ascii_lowercase()));
    assert_eq!(&uuid[14..15], "4", "a version 4 uuid, as Redisson's");
    assert!(number.parse::<i64>().is_ok(), "{number}");
    assert!(format!("{client:?}").contains(uuid));
    assert!(pttl(&server, "lk") > 0);
    assert_eq!(crate::support::keys(&server), 1, "no helper keys");
    drop(guard);
}

async fn a_plain_subscriber_receives_a_release(server: Fixture) {
    let client = connect(&server).await;
    let mut heard = Subscriber::start(&server, CHANNEL);
    client.lock("lk").lock().await.unwrap().release().await.unwrap();
    assert_eq!(heard.message(), "0");
    drop(client.lock("lk").lock().await.unwrap());
    assert_eq!(heard.message(), "0", "a dropped guard says it too");
    let guard = client.lock("lk").lock().await.unwrap();
    client.lock("lk").force_unlock().await.unwrap();
    assert_eq!(heard.message(), "0");
    drop(guard);
}

async fn a_partial_release_publishes_nothing(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("lk").owned_by(&client.owner());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    let mut heard = Subscriber::start(&server, CHANNEL);
    inner.release().await.unwrap();
    run_command(&server, &["PUBLISH", CHANNEL, "marker"]);
    assert_eq!(heard.message(), "marker");
    outer.release().await.unwrap();
    assert_eq!(heard.message(), "0");
}

async fn a_redisson_hold_excludes_leasehold_until_its_release(server: Fixture) {
    let client = Client::builder().poll_interval(Duration::from_secs(600));
    let client = client.connect(&server.url()).await.unwrap();
    hold_as_redisson(&server, "lk", Duration::from_secs(30));
    // A second hold of the same thread, as Redisson counts it.
    hold_as_redisson(&server, "lk", Duration::from_secs(30));
    let lock = client.lock("lk");
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.is_locked().await.unwrap());
    let waiting = tokio::spawn(async move { lock.lock().await });
    eventually("us to listen", || listeners(&server, "lk") == 1).await;

    let unlock = "local left = redis.call('hincrby', KEYS[1], ARGV[1], -1) \
                  if left > 0 then redis.call('pexpire', KEYS[1], ARGV[2]) return 0 end \
                  redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1";
    let holder = fields(&server, "lk").into_keys().next().unwrap();
    let unlock = || server.cli(&["EVAL", unlock, "2", "lk", CHANNEL, &holder, "30000"]);
    assert_eq!(unlock(), "0");
    assert!(!waiting.is_finished());
    assert_eq!(unlock(), "1");
    let guard = soon("the wake-up", waiting).await.unwrap().unwrap();
    assert_eq!(guard.release().await, Ok(ReleaseOutcome::Released));
}

async fn a_leasehold_hold_refuses_an_acquire_of_redisson(server: Fixture) {
    let guard = connect(&server).await.lock("lk").lock().await.unwrap();
    let acquire = "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then \
                   redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil \
                   end return redis.call('pttl', KEYS[1])";
    let acquire = || server.cli(&["EVAL", acquire, "1", "lk", "30000", "java:1"]);
    assert!(acquire().parse::<i64>().unwrap() > 0);
    guard.release().await.unwrap();
    assert_eq!(acquire(), "");
    assert_eq!(fields(&server, "lk"), BTreeMap::from([("java:1".into(), "1".into())]));
}

async fn names_with_a_hash_tag_have_the_channel_that_redisson_gives_them(server: Fixture) {
    let client = connect(&server).await;
    let mut heard = Subscriber::start(&server, "redisson_lock__channel:{orders}:42");
    let name = Name::raw_redisson("{orders}:42").unwrap();
    client.lock(name).lock().await.unwrap().release().await.unwrap();
    assert_eq!(heard.message(), "0");
}

async fn names_and_owners_are_only_ever_keys_and_arguments(server: Fixture) {
    let client = connect(&server).await;
    let name = "x'] redis.call('flushall') --[[";
    run_command(&server, &["SET", "precious", "1"]);
    let monitor = Monitor::start(&server);
    client.lock(name).lock().await.unwrap().release().await.unwrap();
    assert_eq!(server.cli(&["GET", "precious"]), "1");
    for words in monitor.commands().iter().filter(|words| words[0].eq_ignore_ascii_case("eval")) {
        assert!(!words[1].contains(name));
        assert_eq!(words[3], name);
    }
    assert_eq!(sent(&monitor).iter().filter(|one| one.is_ok()).count(), 2);
}

#[tokio::test]
async fn only_the_key_of_the_lock_is_written() {
    let server = RedisServer::start();
    let (one, other) = (connect(&server).await, connect(&server).await);
    let monitor = servers::Monitor::start(&server);
    let owner = one.owner();
    let lock = one.lock("lk").owned_by(&owner).watchdog(ms(300));
    let guards = [lock.lock().await.unwrap(), lock.lock().await.unwrap()];
    assert!(other.lock("lk").try_lock_for(ms(300)).await.unwrap().is_none());
    crate::support::a_lease_passes(&server, ms(250)).await;
    for guard in guards {
        guard.release().await.unwrap();
    }
    drop(other.lock("lk").lock().await.unwrap());
    eventually("the release", || is_free(&server, "lk")).await;
    let lines = monitor.lines();
    let by_scripts: Vec<&String> = lines.iter().filter(|line| line.contains(" lua] ")).collect();
    assert!(by_scripts.len() > 10);
    for line in by_scripts {
        let mut words = line.split(' ').skip_while(|word| !word.starts_with('"'));
        let (command, first) = (words.next().unwrap(), words.next().unwrap());
        let expected = match command.trim_matches('"').to_ascii_lowercase().as_str() {
            "publish" => format!("\"{}\"", channel("lk")),
            _ => "\"lk\"".to_owned(),
        };
        assert_eq!(first, expected, "{line}");
    }
}
