//! The read-write lock: upgrades of readers, and writers that go first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::error::AcquireErrorKind;
use leasehold::{Client, Guard, LostReason, ReleaseOutcome, RwLock, UpgradeError};
use tokio::task::JoinHandle;

use crate::support::{
    Fixture, TestServer, connect, eventually, fields, is_free, keys, ms, on_both, poll_times,
    poll_without_wake_ups, run_command, soon,
};

const LONG: Duration = Duration::from_secs(600);
const UPGRADE: &str = "leasehold_rw_upgrade:{job}";
const WRITER: &str = "leasehold_rw_writer:{job}";

on_both! {
    async {
        the_only_reader_upgrades_and_then_keeps_reading,
        an_upgrade_outlives_its_read_hold,
        a_reader_without_an_owner_of_its_own_is_upgraded_too,
        an_upgrade_waits_for_the_other_readers_and_is_woken_by_the_last,
        an_upgrade_tries_once_or_for_a_while,
        a_second_upgrade_fails_at_once,
        a_second_reader_releases_and_writes_after_the_first,
        a_waiting_upgrade_excludes_new_readers_until_it_times_out,
        an_upgrade_by_the_current_writer_re_enters,
        an_owner_can_request_an_upgrade_twice,
        only_a_read_guard_of_this_lock_and_client_is_upgraded,
        a_reader_that_is_lost_is_not_upgraded,
        a_reader_lost_while_waiting_for_an_upgrade_gets_an_error,
        readers_starve_a_writer_unless_it_is_preferred,
        a_preferred_writer_that_times_out_admits_readers_again,
        a_dead_preferred_writer_excludes_readers_for_seconds,
        a_reader_re_enters_before_a_preferred_writer,
        waits_dropped_at_any_moment_leave_no_mark_and_no_key,
    }
}

/// A client whose waiters retry only after a wake-up.
async fn lazy(server: &impl TestServer) -> Client {
    Client::builder().visible(false).poll_interval(LONG).connect(&server.url()).await.unwrap()
}

/// Upgrades in a task of its own, which returns both guards.
fn upgrading(lock: &RwLock, reader: Guard) -> JoinHandle<(Result<Guard, UpgradeError>, Guard)> {
    let lock = lock.clone();
    tokio::spawn(async move { (lock.upgrade(&reader).await, reader) })
}

fn writing(lock: &RwLock) -> JoinHandle<Guard> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.write().await.unwrap() })
}

/// Waits until a waiter has left its mark.
async fn marked(server: &impl TestServer, mark: &str) {
    eventually("a mark", || !is_free(server, mark)).await;
}

async fn the_only_reader_upgrades_and_then_keeps_reading(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let reader = lock.read().await.unwrap();
    let writer = soon("the upgrade", lock.upgrade(&reader)).await.unwrap();
    assert!(reader.is_held() && writer.is_held());
    let expected = [("mode", "write"), (&reader.wire_owner().to_string(), "1")];
    assert!(expected.iter().all(|(field, value)| fields(&server, "job")[*field] == *value));
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::Released));
    assert!(reader.is_held());
    other.rw_lock("job").try_read().await.unwrap().unwrap().release().await.unwrap();
    let again = lock.try_upgrade(&reader).await.unwrap().unwrap();
    drop(again);
    assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    eventually("the releases", || keys(&server) == 0).await;
}

async fn an_upgrade_outlives_its_read_hold(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let reader = lock.read().await.unwrap();
    let writer = lock.upgrade(&reader).await.unwrap();
    assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    assert!(writer.is_held());
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::Released));
    assert_eq!(keys(&server), 0);
}

async fn a_reader_without_an_owner_of_its_own_is_upgraded_too(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job");
    let reader = lock.read_lock().lock().await.unwrap();
    leasehold::owner::scope(async {
        // The owner of the read hold counts, not the owner of the scope.
        let writer = lock.upgrade(&reader).await.unwrap();
        assert!(lock.try_read().await.unwrap().is_none());
        writer.release().await.unwrap();
    })
    .await;
    assert!(reader.is_held());
}

async fn an_upgrade_waits_for_the_other_readers_and_is_woken_by_the_last(server: Fixture) {
    let (client, other) = (lazy(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let others = [other.rw_lock("job").read().await.unwrap(), other.rw_lock("job").read().await.unwrap()];
    let waiting = upgrading(&lock, lock.read().await.unwrap());
    marked(&server, UPGRADE).await;
    for reader in others {
        assert!(!waiting.is_finished());
        assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    }
    let (writer, reader) = soon("its turn", waiting).await.unwrap();
    assert!(writer.unwrap().is_held() && reader.is_held());
}

async fn an_upgrade_tries_once_or_for_a_while(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let (mine, others) = (lock.read().await.unwrap(), other.rw_lock("job").read().await.unwrap());
    assert!(lock.try_upgrade(&mine).await.unwrap().is_none());
    assert!(is_free(&server, UPGRADE), "a single attempt keeps no other owner out");
    assert!(lock.try_upgrade_for(&mine, ms(300)).await.unwrap().is_none());
    eventually("the mark to go", || is_free(&server, UPGRADE)).await;
    assert!(mine.is_held());
    others.release().await.unwrap();
    assert!(lock.try_upgrade_for(&mine, ms(5_000)).await.unwrap().is_some());
}

async fn a_second_upgrade_fails_at_once(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let (lock, far) = (client.rw_lock("job"), other.rw_lock("job"));
    let (near_reader, far_reader) = (lock.read().await.unwrap(), far.read().await.unwrap());
    let waiting = upgrading(&lock, lock.read().await.unwrap());
    marked(&server, UPGRADE).await;
    for _ in 0..2 {
        assert_eq!(
            soon("the answer", lock.upgrade(&near_reader)).await.unwrap_err(),
            AcquireErrorKind::Deadlock
        );
        assert_eq!(
            soon("the answer", far.upgrade(&far_reader)).await.unwrap_err(),
            AcquireErrorKind::Deadlock
        );
    }
    assert_eq!(far.try_upgrade(&far_reader).await.unwrap_err(), AcquireErrorKind::Deadlock);
    assert!(near_reader.is_held() && far_reader.is_held());
    drop((near_reader, far_reader));
    let (writer, reader) = soon("its turn", waiting).await.unwrap();
    assert!(writer.unwrap().is_held() && reader.is_held());
}

async fn a_second_reader_releases_and_writes_after_the_first(server: Fixture) {
    let client = connect(&server).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let lock = client.rw_lock("job");
        tasks.push(tokio::spawn(async move {
            let mut deadlocks = 0;
            for _ in 0..5 {
                let reader = lock.read().await.unwrap();
                match lock.upgrade(&reader).await {
                    Ok(writer) => drop(writer),
                    Err(error) if error == AcquireErrorKind::Deadlock => {
                        deadlocks += 1;
                        reader.release().await.unwrap();
                        lock.write().await.unwrap().release().await.unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            deadlocks
        }));
    }
    for task in tasks {
        soon("everybody to have written", task).await.unwrap();
    }
    eventually("every key to go", || keys(&server) == 0).await;
}

async fn a_waiting_upgrade_excludes_new_readers_until_it_times_out(server: Fixture) {
    let (client, other) = (connect(&server).await, lazy(&server).await);
    let lock = client.rw_lock("job");
    let (mine, others) = (lock.read().await.unwrap(), other.rw_lock("job").read().await.unwrap());
    let mut upgrade = Box::pin(lock.upgrade(&mine));
    let upgrading = async {
        loop {
            assert!(poll_times(1, upgrade.as_mut()).await.is_none());
            if !is_free(&server, UPGRADE) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    soon("the mark", upgrading).await;
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let lock = other.rw_lock("job");
        async move { lock.read().await.unwrap() }
    });
    eventually("it to wait", || server.cli(&["PUBSUB", "NUMSUB", "redisson_rwlock:{job}"]).ends_with('2'))
        .await;
    drop(upgrade);
    let joined = soon("its turn", waiting).await.unwrap();
    assert!(mine.is_held() && others.is_held() && joined.is_held());
    assert!(is_free(&server, UPGRADE));
}

async fn an_upgrade_by_the_current_writer_re_enters(server: Fixture) {
    let client = connect(&server).await;
    let owner = client.owner();
    let lock = client.rw_lock("job").owned_by(&owner);
    let writer = lock.write().await.unwrap();
    let reader = lock.read().await.unwrap();
    let again = lock.upgrade(&reader).await.unwrap();
    assert_eq!(again.wire_owner(), writer.wire_owner());
    assert_eq!(lock.write_lock().hold_count(&owner).await.unwrap(), 2);
    drop(writer);
    assert!(again.is_held());
    let third = lock.write().await.unwrap();
    assert_eq!(third.wire_owner(), again.wire_owner(), "a plain write enters it too");
    drop((third, again, reader));
    eventually("the releases", || keys(&server) == 0).await;
}

async fn an_owner_can_request_an_upgrade_twice(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let others = other.rw_lock("job").read().await.unwrap();
    let waiting =
        [upgrading(&lock, lock.read().await.unwrap()), upgrading(&lock, lock.read().await.unwrap())];
    marked(&server, UPGRADE).await;
    others.release().await.unwrap();
    let mut writers = Vec::new();
    for waiting in waiting {
        writers.push(soon("its turn", waiting).await.unwrap());
    }
    let wires: Vec<_> = writers.iter().map(|(writer, _)| writer.as_ref().unwrap().wire_owner()).collect();
    assert_eq!(wires[0], wires[1], "one write hold with a count of two");
    drop(writers);
    eventually("the releases", || keys(&server) == 0).await;
}

async fn only_a_read_guard_of_this_lock_and_client_is_upgraded(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let wrong = [
        client.rw_lock("another").read().await.unwrap(),
        client.lock("plain").lock().await.unwrap(),
        other.rw_lock("job").read().await.unwrap(),
    ];
    for guard in wrong {
        assert!(matches!(lock.upgrade(&guard).await.unwrap_err(), UpgradeError::WrongGuard { .. }));
        assert!(matches!(lock.try_upgrade(&guard).await.unwrap_err(), UpgradeError::WrongGuard { .. }));
        assert!(matches!(
            lock.try_upgrade_for(&guard, LONG).await.unwrap_err(),
            UpgradeError::WrongGuard { .. }
        ));
        guard.release().await.unwrap();
    }
    let writer = lock.write().await.unwrap();
    assert!(matches!(lock.upgrade(&writer).await.unwrap_err(), UpgradeError::WrongGuard { .. }));
    drop(writer);
    let reader = client.clone().rw_lock("job").prefer_writers().read().await.unwrap();
    assert!(lock.upgrade(&reader).await.is_ok(), "a reader is a reader, and a client's clone is that client");
}

async fn a_reader_that_is_lost_is_not_upgraded(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job");
    let expired = lock.clone().lease(ms(300)).read().await.unwrap();
    let reason = soon("the end", expired.lost()).await;
    assert_eq!(lock.upgrade(&expired).await.unwrap_err(), AcquireErrorKind::Lost(reason));
    drop(expired);
    let reader = lock.read().await.unwrap();
    run_command(&server, &["DEL", "job"]);
    let lost = AcquireErrorKind::Lost(LostReason::Deleted);
    assert_eq!(lock.upgrade(&reader).await.unwrap_err(), lost, "the server knows before the guard does");
    assert!(is_free(&server, "job"));
}

async fn a_reader_lost_while_waiting_for_an_upgrade_gets_an_error(server: Fixture) {
    let (client, other) = (lazy(&server).await, connect(&server).await);
    let lock = client.rw_lock("job");
    let others = other.rw_lock("job").read().await.unwrap();
    let waiting = upgrading(&lock, lock.clone().lease(ms(300)).read().await.unwrap());
    let (outcome, reader) = soon("the answer", waiting).await.unwrap();
    assert_eq!(outcome.unwrap_err(), AcquireErrorKind::Lost(LostReason::Expired));
    drop(reader);
    assert!(others.is_held());
    eventually("the mark to go", || is_free(&server, UPGRADE)).await;
    others.release().await.unwrap();
    eventually("every key to go", || keys(&server) == 0).await;
}

/// Readers that overlap, so that the lock always has a reader, until the flag stops them.
fn stream_of_readers(lock: &RwLock, over: &Arc<AtomicBool>) -> JoinHandle<u64> {
    let (lock, over) = (lock.clone(), Arc::clone(over));
    tokio::spawn(async move {
        let (mut last, mut turns) = (lock.read().await.unwrap(), 0);
        while !over.load(Ordering::SeqCst) {
            // The next reader joins before the last reader leaves.
            if let Some(next) = lock.try_read().await.unwrap() {
                drop(std::mem::replace(&mut last, next));
                turns += 1;
            } else {
                drop(last);
                last = lock.read().await.unwrap();
            }
        }
        turns
    })
}

async fn readers_starve_a_writer_unless_it_is_preferred(server: Fixture) {
    let (readers, writer) = (connect(&server).await, connect(&server).await);
    let over = Arc::new(AtomicBool::new(false));
    let yielding = readers.rw_lock("job").prefer_writers();
    let stream = stream_of_readers(&yielding, &over);
    eventually("a reader", || !is_free(&server, "job")).await;
    assert!(writer.rw_lock("job").try_write_for(ms(200)).await.unwrap().is_none(), "one that is not waits");
    for _ in 0..3 {
        let guard = soon("its turn", writer.rw_lock("job").prefer_writers().write()).await.unwrap();
        assert!(is_free(&server, WRITER), "the mark goes with the grant");
        guard.release().await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    assert!(soon("the readers' end", stream).await.unwrap() > 0);
    eventually("every key to go", || keys(&server) == 0).await;
}

async fn a_preferred_writer_that_times_out_admits_readers_again(server: Fixture) {
    let (client, other) = (connect(&server).await, lazy(&server).await);
    let (lock, far) = (client.rw_lock("job").prefer_writers(), other.rw_lock("job").prefer_writers());
    let reader = client.rw_lock("job").read().await.unwrap();
    let waiting = writing(&lock);
    marked(&server, WRITER).await;
    assert!(far.try_read().await.unwrap().is_none());
    assert!(client.rw_lock("job").try_read().await.unwrap().is_some(), "who has not said so joins as ever");
    let kept_out = tokio::spawn(async move { far.read().await.unwrap() });
    waiting.abort();
    let joined = soon("its turn", kept_out).await.unwrap();
    assert!(reader.is_held() && joined.is_held());
    assert!(is_free(&server, WRITER));
    assert!(lock.try_write_for(ms(300)).await.unwrap().is_none());
    eventually("the mark to go with a wait that ends", || is_free(&server, WRITER)).await;
}

async fn a_dead_preferred_writer_excludes_readers_for_seconds(server: Fixture) {
    let client = lazy(&server).await;
    run_command(&server, &["SET", WRITER, "6f3b2c1e-0d4a-4b7e-9c55-1a2b3c4d5e6f:42", "PX", "700"]);
    let lock = client.rw_lock("job").prefer_writers();
    assert!(lock.try_read().await.unwrap().is_none());
    soon("the mark's end, which no message announces", lock.read()).await.unwrap().release().await.unwrap();
}

async fn a_reader_re_enters_before_a_preferred_writer(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job").prefer_writers();
    let mine = lock.clone().owned_by(&client.owner());
    let outer = mine.read().await.unwrap();
    let waiting = writing(&lock);
    marked(&server, WRITER).await;
    let inner = soon("the re-entry", mine.read()).await.unwrap();
    inner.release().await.unwrap();
    outer.release().await.unwrap();
    let writer = soon("its turn", waiting).await.unwrap();
    writer.release().await.unwrap();
    assert_eq!(keys(&server), 0);
}

async fn waits_dropped_at_any_moment_leave_no_mark_and_no_key(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").prefer_writers();
    for polls in 0..120 {
        let (mine, others) = (lock.read().await.unwrap(), other.rw_lock("job").read().await.unwrap());
        assert!(poll_without_wake_ups(polls, lock.upgrade(&mine)).await.is_none());
        assert!(poll_without_wake_ups(polls, lock.write()).await.is_none());
        assert!(poll_without_wake_ups(polls, lock.try_write_for(LONG)).await.is_none());
        assert!(mine.is_held() && others.is_held());
        mine.release().await.unwrap();
        others.release().await.unwrap();
    }
    eventually("every key to go", || keys(&server) == 0).await;
    drop(soon("the lock", lock.write()).await.unwrap());
    eventually("the release", || keys(&server) == 0).await;
}
