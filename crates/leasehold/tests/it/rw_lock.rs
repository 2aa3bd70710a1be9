//! The read-write lock: many readers or one writer, one owner on both sides, and the sides that wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::error::{AcquireErrorKind, Verb};
use leasehold::{Client, LostReason, ReleaseOutcome, owner};
use leasehold_testkit::servers::RedisServer;

use crate::support::{
    Fixture, Monitor, TestServer, connect, eventually, fields, keys, listening, ms, on_both, pttl, sent, soon,
};

const CHANNEL: &str = "redisson_rwlock:{job}";
const LONG: Duration = Duration::from_secs(600);

on_both! {
    async {
        readers_share_the_lock,
        a_writer_holds_the_lock_exclusively,
        a_try_makes_one_attempt_without_a_subscription,
        each_side_is_re_entered_by_its_owner,
        within_a_scope_the_writer_can_read,
        a_writer_reads_at_once_before_waiting_readers_of_its_client,
        an_owner_granted_write_while_waiting_to_read_holds_both,
        a_read_holder_that_requests_write_fails_at_once,
        a_waiting_writer_that_acquires_a_read_hold_gets_an_error,
        after_a_downgrade_the_owner_reads_alone_or_with_others,
        a_downgrade_admits_no_writer,
        the_release_of_a_writer_admits_all_readers_at_once,
        the_release_of_the_last_reader_admits_a_waiting_writer,
        the_inspect_methods_distinguish_the_sides,
        a_forced_release_affects_only_the_side_that_holds_the_lock,
        a_body_runs_on_either_side,
        a_close_releases_both_sides,
    }
}

/// A client whose waiters retry only after a wake-up.
async fn lazy(server: &impl TestServer) -> Client {
    Client::builder().visible(false).poll_interval(LONG).connect(&server.url()).await.unwrap()
}

fn mode(server: &impl TestServer) -> String {
    server.cli(&["HGET", "job", "mode"])
}

async fn readers_share_the_lock(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let readers = [
        one.rw_lock("job").read().await.unwrap(),
        one.rw_lock("job").try_read().await.unwrap().unwrap(),
        other.rw_lock("job").try_read_for(ms(300)).await.unwrap().unwrap(),
    ];
    assert_eq!((mode(&server).as_str(), fields(&server, "job").len()), ("read", 4));
    assert_eq!(keys(&server), 4, "the lock, and a lease for each");
    for client in [&one, &other] {
        assert!(client.rw_lock("job").try_write().await.unwrap().is_none());
        assert!(client.rw_lock("job").try_write_for(ms(300)).await.unwrap().is_none());
    }
    for reader in readers {
        assert!(reader.is_held());
        assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    }
    assert_eq!(keys(&server), 0);
}

async fn a_writer_holds_the_lock_exclusively(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let writer = one.rw_lock("job").write().await.unwrap();
    assert_eq!(mode(&server), "write");
    assert!(fields(&server, "job").contains_key(&format!("{}:write", writer.wire_owner())));
    for client in [&one, &other] {
        let lock = client.rw_lock("job");
        assert!(lock.try_read().await.unwrap().is_none(), "no owner is shared by accident");
        assert!(lock.try_read_for(ms(300)).await.unwrap().is_none());
        assert!(lock.try_write().await.unwrap().is_none());
        assert!(lock.try_write_for(ms(300)).await.unwrap().is_none());
    }
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(keys(&server), 0);
}

#[tokio::test]
async fn an_uncontended_acquire_and_its_release_are_one_command_each_on_either_side() {
    let server = RedisServer::start();
    let lock = connect(&server).await.rw_lock("job");
    for _ in 0..2 {
        let monitor = Monitor::start(&server);
        lock.read().await.unwrap().release().await.unwrap();
        lock.write().await.unwrap().release().await.unwrap();
        let reader = lock.read().await.unwrap();
        lock.upgrade(&reader).await.unwrap().release().await.unwrap();
        reader.release().await.unwrap();
        let expected = [Verb::Acquire, Verb::Release, Verb::Acquire, Verb::Release].map(Ok);
        let upgraded = [Verb::Acquire, Verb::Acquire, Verb::Release, Verb::Release].map(Ok);
        assert_eq!(sent(&monitor), [expected, upgraded].concat());
    }
}

async fn a_try_makes_one_attempt_without_a_subscription(server: Fixture) {
    let (one, other) = (connect(&server).await, connect(&server).await);
    let _writer = one.rw_lock("job").write().await.unwrap();
    let monitor = Monitor::start(&server);
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert!(other.rw_lock("job").prefer_writers().try_write().await.unwrap().is_none());
    assert_eq!(sent(&monitor), [Ok(Verb::Acquire), Ok(Verb::Acquire)]);
    assert_eq!(keys(&server), 1, "who does not wait leaves no mark");
}

async fn each_side_is_re_entered_by_its_owner(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.rw_lock("job").owned_by(&owner);
    let (outer, inner) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert_eq!(outer.wire_owner(), inner.wire_owner());
    assert_eq!(lock.read_lock().hold_count(&owner).await.unwrap(), 2);
    assert_eq!(keys(&server), 3, "each hold has a lease of its own");
    outer.release().await.unwrap();
    assert_eq!(keys(&server), 2);
    inner.release().await.unwrap();

    let (outer, inner) = (lock.write().await.unwrap(), lock.try_write().await.unwrap().unwrap());
    assert_eq!(lock.write_lock().hold_count(&owner).await.unwrap(), 2);
    assert!(pttl(&server, "job") <= 30_000, "leases do not add up");
    inner.release().await.unwrap();
    assert!(client.rw_lock("job").try_read().await.unwrap().is_none(), "others see one hold");
    outer.release().await.unwrap();
    assert_eq!(keys(&server), 0);
}

async fn within_a_scope_the_writer_can_read(server: Fixture) {
    let client = connect(&server).await;
    owner::scope(async {
        let writer = client.rw_lock("job").write().await.unwrap();
        let reader = soon("its own read", client.rw_lock("job").read()).await.unwrap();
        assert_ne!(writer.wire_owner(), reader.wire_owner(), "a wire owner is one acquisition");
        let again = client.rw_lock("job").read().await.unwrap();
        assert_eq!(again.wire_owner(), reader.wire_owner());
    })
    .await;
    eventually("the releases", || keys(&server) == 0).await;
}

async fn a_writer_reads_at_once_before_waiting_readers_of_its_client(server: Fixture) {
    let client = lazy(&server).await;
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let writer = lock.write().await.unwrap();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let lock = client.rw_lock("job");
            tokio::spawn(async move { lock.read().await.unwrap() })
        })
        .collect();
    eventually("them to wait", || listening(&server, CHANNEL) == 1).await;
    let reader = soon("its own read", lock.read()).await.unwrap();
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    writer.release().await.unwrap();
    for waiting in waiting {
        assert!(soon("its turn", waiting).await.unwrap().is_held());
    }
    assert!(reader.is_held());
}

async fn an_owner_granted_write_while_waiting_to_read_holds_both(server: Fixture) {
    let (holder, client) = (connect(&server).await, lazy(&server).await);
    for _ in 0..10 {
        let first = holder.rw_lock("job").write().await.unwrap();
        // Another reader of the same client is ahead in the wait queue.
        let before = tokio::spawn({
            let lock = client.rw_lock("job");
            async move { lock.read().await.unwrap() }
        });
        eventually("it to wait", || listening(&server, CHANNEL) == 1).await;
        let lock = client.rw_lock("job").owned_by(&client.owner());
        let both = tokio::spawn(async move {
            // Either call may win. If the read wins, the write would wait for its own owner.
            match tokio::join!(lock.write(), lock.read()) {
                (Ok(writer), reader) => assert!(writer.is_held() && reader.unwrap().is_held()),
                (Err(error), reader) => {
                    assert_eq!(error, AcquireErrorKind::Deadlock);
                    assert!(reader.unwrap().is_held());
                }
            }
        });
        first.release().await.unwrap();
        soon("both", both).await.unwrap();
        drop(soon("the one before", before).await.unwrap());
        eventually("the releases", || keys(&server) == 0).await;
        eventually("no subscriber to be left", || listening(&server, CHANNEL) == 0).await;
    }
}

async fn a_read_holder_that_requests_write_fails_at_once(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let reader = lock.read().await.unwrap();
    assert_eq!(soon("the answer", lock.write()).await.unwrap_err(), AcquireErrorKind::Deadlock);
    assert_eq!(lock.try_write().await.unwrap_err(), AcquireErrorKind::Deadlock);
    assert_eq!(lock.try_write_for(LONG).await.unwrap_err(), AcquireErrorKind::Deadlock);
    assert!(reader.is_held());
    reader.release().await.unwrap();
    lock.write().await.unwrap().release().await.unwrap();
}

async fn a_waiting_writer_that_acquires_a_read_hold_gets_an_error(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let reader = other.rw_lock("job").read().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock.clone();
        async move { lock.write().await.map(drop) }
    });
    eventually("it to wait", || listening(&server, CHANNEL) == 1).await;
    let own = lock.read().await.unwrap();
    assert_eq!(
        soon("the answer", waiting).await.unwrap().map_err(|error| error.kind),
        Err(AcquireErrorKind::Deadlock)
    );
    assert!(own.is_held() && reader.is_held());
}

async fn after_a_downgrade_the_owner_reads_alone_or_with_others(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let writer = lock.write().await.unwrap();
    let reader = lock.read().await.unwrap();
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(mode(&server), "read");
    assert!(other.rw_lock("job").try_write().await.unwrap().is_none());
    other.rw_lock("job").try_read().await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(lock.try_write().await.unwrap_err(), AcquireErrorKind::Deadlock, "there is no plain way up");
    assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(keys(&server), 0);

    // The reverse order, in which the write hold outlasts the read hold.
    let writer = lock.write().await.unwrap();
    lock.read().await.unwrap().release().await.unwrap();
    assert_eq!(mode(&server), "write");
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(keys(&server), 0);
}

async fn a_downgrade_admits_no_writer(server: Fixture) {
    let (client, rival) = (connect(&server).await, connect(&server).await);
    let (inside, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let intruder = tokio::spawn({
        let (inside, over, lock) = (Arc::clone(&inside), Arc::clone(&over), rival.rw_lock("job"));
        async move {
            let mut asked = 0;
            while !over.load(Ordering::SeqCst) {
                if let Some(writer) = lock.try_write().await.unwrap() {
                    assert!(!inside.load(Ordering::SeqCst), "a writer got in");
                    writer.release().await.unwrap();
                }
                asked += 1;
            }
            asked
        }
    });
    let lock = client.rw_lock("job").owned_by(&client.owner());
    for _ in 0..50 {
        let writer = soon("its turn", lock.write()).await.unwrap();
        inside.store(true, Ordering::SeqCst);
        let reader = lock.read().await.unwrap();
        writer.release().await.unwrap();
        reader.ensure(ms(1)).await.unwrap();
        tokio::task::yield_now().await;
        inside.store(false, Ordering::SeqCst);
        reader.release().await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    assert!(intruder.await.unwrap() > 50);
}

async fn the_release_of_a_writer_admits_all_readers_at_once(server: Fixture) {
    let (holder, one, other) = (connect(&server).await, lazy(&server).await, lazy(&server).await);
    let lock = holder.rw_lock("job").owned_by(&holder.owner());
    for downgrades in [false, true] {
        let writer = lock.write().await.unwrap();
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let lock = if number % 2 == 0 { one.rw_lock("job") } else { other.rw_lock("job") };
                tokio::spawn(async move { lock.read().await.unwrap() })
            })
            .collect();
        eventually("them to wait", || listening(&server, CHANNEL) == 2).await;
        let kept = if downgrades { Some(lock.read().await.unwrap()) } else { None };
        writer.release().await.unwrap();
        let mut readers = Vec::new();
        for reader in waiting {
            readers.push(soon("a reader's turn", reader).await.unwrap());
        }
        assert!(readers.iter().all(leasehold::Guard::is_held), "all at once");
        drop((readers, kept));
        eventually("the releases", || keys(&server) == 0).await;
        eventually("no subscriber to be left", || listening(&server, CHANNEL) == 0).await;
    }
}

async fn the_release_of_the_last_reader_admits_a_waiting_writer(server: Fixture) {
    let (holder, waiter) = (connect(&server).await, lazy(&server).await);
    let readers = [holder.rw_lock("job").read().await.unwrap(), holder.rw_lock("job").read().await.unwrap()];
    let waiting = tokio::spawn({
        let lock = waiter.rw_lock("job");
        async move { lock.write().await.unwrap() }
    });
    eventually("it to wait", || listening(&server, CHANNEL) == 1).await;
    for reader in readers {
        assert!(!waiting.is_finished());
        reader.release().await.unwrap();
    }
    let writer = soon("its turn", waiting).await.unwrap();
    assert!(writer.is_held());
}

async fn the_inspect_methods_distinguish_the_sides(server: Fixture) {
    let client = connect(&server).await;
    let (owner, stranger) = (client.owner(), client.owner());
    let lock = client.rw_lock("job").owned_by(&owner);
    let (read, write) = (lock.read_lock(), lock.write_lock());
    let locked = async || (read.is_locked().await.unwrap(), write.is_locked().await.unwrap());
    let counts = async || (read.hold_count(&owner).await.unwrap(), write.hold_count(&owner).await.unwrap());
    assert_eq!((locked().await, counts().await), ((false, false), (0, 0)));
    assert_eq!(read.remaining().await.unwrap(), None);

    let writer = lock.write().await.unwrap();
    assert_eq!((locked().await, counts().await), ((false, true), (0, 1)), "who writes does not read");
    assert_eq!(read.remaining().await.unwrap(), None);
    assert!(write.remaining().await.unwrap().unwrap() > ms(20_000));
    assert!(!write.is_held_by(&stranger).await.unwrap());

    let reader = lock.read().await.unwrap();
    assert_eq!((locked().await, counts().await), ((true, true), (1, 1)), "unless it does");
    writer.release().await.unwrap();
    assert_eq!((locked().await, counts().await), ((true, false), (1, 0)));
    assert!(read.is_held_by(&owner).await.unwrap() && !write.is_held_by(&owner).await.unwrap());
    reader.release().await.unwrap();
    assert_eq!((locked().await, counts().await), ((false, false), (0, 0)));
}

async fn a_forced_release_affects_only_the_side_that_holds_the_lock(server: Fixture) {
    let (holder, waiter) = (connect(&server).await, lazy(&server).await);
    let lock = holder.rw_lock("job").watchdog(ms(600));
    let other = waiter.rw_lock("job");
    assert!(!other.read_lock().force_unlock().await.unwrap());
    assert!(!other.write_lock().force_unlock().await.unwrap());

    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    assert!(!other.write_lock().force_unlock().await.unwrap());
    assert!(readers.iter().all(leasehold::Guard::is_held));
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { other.write().await.unwrap() }
    });
    eventually("it to wait", || listening(&server, CHANNEL) == 1).await;
    assert!(other.read_lock().force_unlock().await.unwrap());
    let writer = soon("the wake-up", waiting).await.unwrap();
    for reader in readers {
        let reason = soon("the loss", reader.lost()).await;
        assert!(matches!(reason, LostReason::TakenOver | LostReason::Deleted), "{reason:?}");
        assert_eq!(reader.release().await, Ok(ReleaseOutcome::NotHeld));
    }

    assert!(!other.read_lock().force_unlock().await.unwrap(), "another owner writes");
    assert!(writer.is_held());
    assert!(other.write_lock().force_unlock().await.unwrap());
    assert_eq!(keys(&server), 0);
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::NotHeld));
}

async fn a_body_runs_on_either_side(server: Fixture) {
    let lock = connect(&server).await.rw_lock("job");
    let seen = lock.read_lock().run(async |_| mode(&server)).await.unwrap();
    assert_eq!(seen, "read");
    let seen = lock.write_lock().run(async |_| mode(&server)).await.unwrap();
    assert_eq!(seen, "write");
    assert_eq!(keys(&server), 0);
}

async fn a_close_releases_both_sides(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let reader = lock.read().await.unwrap();
    let writer = lock.upgrade(&reader).await.unwrap();
    let report = client.close().await;
    assert_eq!((report.released, report.unconfirmed), (2, 0));
    assert_eq!(keys(&server), 0);
    assert!(!writer.is_held() && !reader.is_held());
    assert_eq!(lock.upgrade(&reader).await.unwrap_err(), AcquireErrorKind::Lost(LostReason::Closed));
}

/// Writers of several clients change two cells, and readers must never see them differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_no_partial_write_and_no_write_is_lost() {
    const CLIENTS: u64 = 4;
    const ROUNDS: u64 = 40;
    let server = RedisServer::start();
    let cells = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let mut tasks = Vec::new();
    for number in 0..CLIENTS * 2 {
        let lock = connect(&server).await.rw_lock("job");
        let cells = Arc::clone(&cells);
        let writes = number % 2 == 0;
        tasks.push(tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let guard = if writes { lock.write().await } else { lock.read().await }.unwrap();
                let [one, other] = [&cells[0], &cells[1]].map(|cell| cell.load(Ordering::SeqCst));
                assert_eq!(one, other, "a write is seen half done");
                if writes {
                    cells[0].store(one + 1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    cells[1].store(other + 1, Ordering::SeqCst);
                }
                guard.release().await.unwrap();
            }
        }));
    }
    for task in tasks {
        soon("a task to end", task).await.unwrap();
    }
    assert_eq!(cells[0].load(Ordering::SeqCst), CLIENTS * ROUNDS, "every write counts");
    assert_eq!(keys(&server), 0);
}
