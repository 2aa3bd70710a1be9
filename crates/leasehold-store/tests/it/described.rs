//! Descriptions of every kind of object, on a real server and on the embedded one.

use std::time::Duration;

use leasehold_proto::engine::Subject;
use leasehold_proto::operate::{
    Content, Described, Kind, Mode, Release, describe, expire_value, read_described, read_expired,
};
use leasehold_proto::recipe::expirable::{self, EXPIRABLE_SEMAPHORE};
use leasehold_proto::recipe::fair::FAIR;
use leasehold_proto::recipe::fenced::{self, Tokens};
use leasehold_proto::recipe::latch;
use leasehold_proto::recipe::plain::{self, PLAIN};
use leasehold_proto::recipe::read_write::{PREFERRED, READ_LOCK, WRITE_LOCK};
use leasehold_proto::recipe::reentrant::REENTRANT;
use leasehold_proto::recipe::semaphore::{self, FIFO_SEMAPHORE};
use leasehold_proto::{CallArgs, Channel, ClientId, Lease, Name, PermitId, Recipe, Remaining, WireOwner};
use leasehold_store::Store;
use leasehold_store::embedded::Embedded;
use leasehold_store::redis::{ConnectOptions, Redis};
use leasehold_testkit::contract::Admin;
use leasehold_testkit::servers::RedisServer;
use tokio::sync::mpsc::unbounded_channel;

use crate::contract::{EmbeddedAdmin, unix_ms};
use crate::rights::operation;

const LIMIT: Duration = Duration::from_secs(20);

fn owner(number: u64) -> WireOwner {
    WireOwner::new(ClientId::from_random([7; 16]), number)
}

async fn acquire(store: &impl Store, name: &str, recipe: &'static Recipe, number: u64) {
    let subject = Subject::new(&Name::new(name).unwrap(), recipe);
    let args = CallArgs::new(&subject, owner(number), Lease::new(Duration::from_secs(30)).unwrap());
    store.run((recipe.acquire)(&args), LIMIT).await.unwrap();
}

async fn described(store: &impl Store, name: &str) -> Described {
    let reply = store.run(describe(&Name::new(name).unwrap()), LIMIT).await.unwrap();
    read_described(&reply).unwrap_or_else(|| panic!("{reply:?}"))
}

async fn kind(store: &impl Store, name: &str) -> Option<Kind> {
    described(store, name).await.kind(None)
}

fn owners(described: &Described) -> Vec<(&str, u32)> {
    match &described.content {
        Content::Lock { holds, .. } => holds.iter().map(|hold| (hold.owner.as_str(), hold.count)).collect(),
        other => panic!("{other:?}"),
    }
}

/// The locks.
async fn locks(store: &impl Store, admin: &impl Admin) {
    acquire(store, "plain", &REENTRANT, 1).await;
    let plain = described(store, "plain").await;
    assert_eq!((owners(&plain), plain.kind(None)), (vec![(&*owner(1).to_string(), 1)], Some(Kind::Lock)));
    assert!(matches!(plain.left, Some(Remaining::For(left)) if left <= Duration::from_secs(30)));
    assert_eq!(admin.run_command(&["PERSIST", "plain"]), "1");
    assert_eq!(described(store, "plain").await.left, Some(Remaining::NoExpiry));

    acquire(store, "numbered", fenced::with_tokens(Tokens::Counter), 1).await;
    let numbered = described(store, "numbered").await;
    assert_eq!((numbered.kind(None), numbered.token), (Some(Kind::Fenced), Some(1)));

    for number in 1..=103 {
        acquire(store, "fair", &FAIR, number).await;
    }
    let fair = described(store, "fair").await;
    assert_eq!((fair.kind(None), fair.queue.length, fair.queue.first.len()), (Some(Kind::Fair), 102, 100));
    let second = &fair.queue.first[1];
    assert_eq!((second.owner.as_str(), second.is_dead), (&*owner(3).to_string(), false));
    assert!(second.silent.is_some());

    for number in 1..=2 {
        acquire(store, "sides", &READ_LOCK, number).await;
    }
    acquire(store, "sides", &PREFERRED, 3).await;
    let sides = described(store, "sides").await;
    assert_eq!(
        (sides.kind(None), sides.writer.as_deref()),
        (Some(Kind::ReadWrite), Some(&*owner(3).to_string()))
    );
    let Content::Lock { mode: Some(Mode::Read), holds, .. } = &sides.content else { panic!("{sides:?}") };
    assert!(holds.len() == 2 && holds.iter().all(|hold| hold.lease > Some(Duration::from_secs(1))));
    acquire(store, "written", &WRITE_LOCK, 1).await;
    let written = described(store, "written").await;
    assert_eq!(
        (owners(&written), written.kind(None)),
        (vec![(&*owner(1).to_string(), 1)], Some(Kind::ReadWrite))
    );
}

/// The plain lock: its value names its holder, whoever has marked it.
async fn plain_locks(store: &impl Store, admin: &impl Admin) {
    acquire(store, "string", &PLAIN, 1).await;
    let held = described(store, "string").await;
    let Content::Text { bytes, is_whole: true, .. } = &held.content else { panic!("{held:?}") };
    let value = plain::Value::read(bytes).unwrap();
    assert_eq!((value.number_of(owner(1).client()), value.is_marked), (Some(1), false));
    assert_eq!(held.kind(None), Some(Kind::Plain));
    admin.run_command(&["SETRANGE", "string", "27", "1"]);
    let marked = described(store, "string").await;
    let Content::Text { bytes: marked, .. } = marked.content else { panic!("{marked:?}") };
    assert!(plain::Value::read(&marked).unwrap().is_marked);

    // A release by the value that was seen, before or after the mark, and of no other value.
    let name = Name::new("string").unwrap();
    acquire(store, "other", &PLAIN, 2).await;
    let other = Release::of_value(&Name::new("other").unwrap(), bytes);
    assert_eq!(other.read(&store.run(other.call(), LIMIT).await.unwrap()), Some(false));
    let own = Release::of_value(&name, bytes);
    assert_eq!(own.read(&store.run(own.call(), LIMIT).await.unwrap()), Some(true));
    assert_eq!(kind(store, "string").await, None);

    // A lease for what has none, unless it is another one.
    let lease = Duration::from_secs(30);
    admin.run_command(&["SET", "string", "of-redis-py"]);
    for (value, is_same) in [(&b"of-redsync"[..], false), (b"of-redis-py", true), (b"of-redis-py", false)] {
        let reply = store.run(expire_value(&name, value, lease), LIMIT).await.unwrap();
        assert_eq!(read_expired(&reply), Some(is_same));
    }
    assert!(matches!(described(store, "string").await.left, Some(Remaining::For(left)) if left <= lease));
}

/// The counters.
async fn counters(store: &impl Store) {
    let name = |name| Name::new(name).unwrap();
    let mut operations = (100..).map(operation);
    let mut operation = || operations.next().unwrap();
    store.run(semaphore::try_set(&name("seats"), &operation(), 1, None), LIMIT).await.unwrap();
    assert_eq!(kind(store, "seats").await, Some(Kind::Counter), "nobody says what it is");
    acquire(store, "seats", &FIFO_SEMAPHORE, 1).await;
    acquire(store, "seats", &FIFO_SEMAPHORE, 2).await;
    let seats = described(store, "seats").await;
    assert_eq!((seats.kind(None), &seats.content), (Some(Kind::Semaphore), &Content::Number(0)));
    assert_eq!(seats.fifo.first[0].owner, owner(2).to_string());

    store.run(expirable::set(&name("slots"), &operation(), 3), LIMIT).await.unwrap();
    acquire(store, "slots", &EXPIRABLE_SEMAPHORE, 5).await;
    let slots = described(store, "slots").await;
    assert_eq!((slots.kind(None), slots.permits.taken), (Some(Kind::Expirable), 1));
    let (id, left) = slots.permits.first[0];
    assert_eq!(Some(id), PermitId::of(owner(5), 1).next());
    assert!(left > Duration::from_secs(1) && left <= Duration::from_secs(30), "{left:?}");

    store.run(latch::try_set(&name("gate"), &operation(), 2), LIMIT).await.unwrap();
    assert_eq!(described(store, "gate").await.kind(Some(Kind::Latch)), Some(Kind::Latch));
}

/// What is no lock of ours, and names without anything.
async fn others(store: &impl Store, admin: &impl Admin) {
    admin.run_command(&["SET", "text", &"x".repeat(1000), "PX", "60000"]);
    let text = described(store, "text").await;
    let Content::Text { bytes, is_whole, .. } = &text.content else { panic!("{text:?}") };
    assert_eq!((text.kind(None), bytes.len(), is_whole), (Some(Kind::Text), 256, &false));
    admin.run_command(&["HSET", "user", "name", "Anna", "age", "7"]);
    admin.run_command(&["HSET", "blob", &owner(1).to_string(), &"1".repeat(100_000)]);
    admin.run_command(&["RPUSH", "list", "a"]);
    for foreign in ["user", "blob", "list"] {
        assert_eq!(kind(store, foreign).await, Some(Kind::Foreign), "{foreign}");
    }
    assert_eq!(kind(store, "nothing").await, None);
    // Helper keys of other types are as good as none.
    admin.run_command(&["SET", "redisson_lock_queue:{nothing}", "a"]);
    admin.run_command(&["HSET", "redisson_lock_token:{nothing}", "a", "b"]);
    admin.run_command(&["RPUSH", "{nothing}:timeout", "a"]);
    assert_eq!(kind(store, "nothing").await, None);
}

/// A listener that waits for a free name.
async fn listeners(store: &impl Store) {
    for (name, channel, expected) in [
        ("awaited", "redisson_rwlock:{awaited}", Kind::ReadWrite),
        ("string:awaited", "leasehold_plain:{string:awaited}", Kind::Plain),
    ] {
        let (heard, _events) = unbounded_channel();
        let _listening = store.subscribe(Channel::new(channel), heard);
        let mut seen = None;
        for _ in 0..2_000 {
            seen = kind(store, name).await;
            if seen.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(seen, Some(expected));
    }
}

async fn all(store: &impl Store, admin: &impl Admin) {
    locks(store, admin).await;
    plain_locks(store, admin).await;
    counters(store).await;
    others(store, admin).await;
    listeners(store).await;
}

#[tokio::test]
async fn every_kind_of_object_is_described_on_a_real_server() {
    let server = RedisServer::start();
    let store = Redis::connect(&server.url().parse().unwrap(), ConnectOptions::default()).await.unwrap();
    all(&store, &server).await;
}

#[tokio::test]
async fn every_kind_of_object_is_described_on_the_embedded_server() {
    let embedded = Embedded::new(unix_ms);
    all(&embedded.clone(), &EmbeddedAdmin(embedded)).await;
}

#[tokio::test]
async fn a_large_hash_is_described_without_reading_all_of_it() {
    let server = RedisServer::start();
    let store = Redis::connect(&server.url().parse().unwrap(), ConnectOptions::default()).await.unwrap();
    let fill = "for at = 1, 200000 do redis.call('hset', KEYS[1], ARGV[1] .. at, 1) end";
    let _ = server.cli(&["EVAL", fill, "1", "large", "7f2a9c1e-0000-4000-8000-000000000001:"]);
    let large = described(&store, "large").await;
    let Content::Lock { fields, holds, .. } = &large.content else { panic!("{large:?}") };
    assert_eq!((*fields, large.left), (200_000, Some(Remaining::NoExpiry)));
    assert!((50..=100).contains(&holds.len()), "{}", holds.len());
}

#[tokio::test]
async fn a_release_frees_the_hold_that_it_names_or_none_in_a_thousand_races() {
    let server = RedisServer::start();
    let store = Redis::connect(&server.url().parse().unwrap(), ConnectOptions::default()).await.unwrap();
    let name = Name::new("raced").unwrap();
    let subject = Subject::new(&name, &REENTRANT);
    let (mut released, mut late) = (0, 0);
    for number in 1..=1000 {
        let args =
            |number| CallArgs::new(&subject, owner(number), Lease::new(Duration::from_secs(30)).unwrap());
        let (old, new) = (args(2 * number), args(2 * number + 1));
        store.run((REENTRANT.acquire)(&old), LIMIT).await.unwrap();
        let release = Release::new(&name, Kind::Lock, None, &old.owner.to_string()).unwrap();
        let changes_hands = async {
            store.run((REENTRANT.release)(&old.count(0)), LIMIT).await.unwrap();
            store.run((REENTRANT.acquire)(&new), LIMIT).await.unwrap();
        };
        // The operator comes before, between and behind the two calls.
        let by_operator = async {
            for _ in 0..number % 4 {
                tokio::task::yield_now().await;
            }
            store.run(release.call(), LIMIT).await.unwrap()
        };
        let (reply, ()) = tokio::join!(by_operator, changes_hands);
        if release.read(&reply).unwrap() {
            released += 1;
        } else {
            late += 1;
        }
        let after = described(&store, "raced").await;
        assert_eq!(owners(&after), [(&*new.owner.to_string(), 1)], "the new hold is untouched");
        store.run((REENTRANT.release)(&new.count(0)), LIMIT).await.unwrap();
    }
    println!("{released} released, {late} were too late");
    assert!(released > 0, "some came in time");
}
