//! The read-write lock and time: leases of readers and writers, the watchdog, and holds that are lost by the clock.

use std::time::{Duration, Instant};

use leasehold::error::Verb;
use leasehold::{LostReason, ReleaseOutcome};

use crate::support::{
    Fixture, Monitor, connect, eventually, fields, is_free, keys, ms, on_both, pttl, run_command, soon,
    times_sent,
};

/// Short enough for many leases in a test, long enough for a busy machine to renew in time.
const LEASE: Duration = ms(300);

on_both! {
    async {
        the_lock_lives_as_long_as_its_longest_reader,
        a_reader_with_a_short_lease_does_not_cut_another_short,
        a_dead_reader_blocks_for_at_most_one_lease,
        a_dead_reader_beside_a_renewed_one_blocks_for_at_most_one_lease,
        a_dead_writer_blocks_for_one_lease,
        the_watchdog_renews_fifty_readers,
        the_watchdog_renews_lock_and_leases_through_a_downgrade,
        each_side_of_an_owner_is_renewed_separately,
        a_readers_release_does_not_cut_the_writers_lease,
        an_expired_write_hold_beside_a_read_hold_admits_other_readers,
        an_expired_read_hold_beside_a_write_hold_ends_with_it,
        a_late_release_reports_not_held,
        a_detached_reader_leaves_the_lock_to_its_lease,
        each_side_can_have_its_own_terms,
    }
}

async fn the_lock_lives_as_long_as_its_longest_reader(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = |secs| client.rw_lock("job").lease(Duration::from_secs(secs));
    let readers = [lock(10).read().await.unwrap(), lock(60).read().await.unwrap()];
    let [short, long] = readers;
    assert!(pttl(&server, "job") > 50_000);
    let short_too = other.rw_lock("job").lease(Duration::from_secs(20)).read().await.unwrap();
    assert!(pttl(&server, "job") > 50_000);
    long.release().await.unwrap();
    assert!((10_001..=20_000).contains(&pttl(&server, "job")));
    short_too.release().await.unwrap();
    assert!((1..=10_000).contains(&pttl(&server, "job")));
    assert!(short.is_held());
    short.release().await.unwrap();
    assert_eq!(keys(&server), 0);
}

async fn a_reader_with_a_short_lease_does_not_cut_another_short(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let long = client.rw_lock("job").lease(ms(900)).read().await.unwrap();
    let short = other.rw_lock("job").lease(ms(100)).read().await.unwrap();
    let started = Instant::now();
    assert_eq!(soon("the end", short.lost()).await, LostReason::Expired);
    assert_eq!(short.release().await, Ok(ReleaseOutcome::NotHeld));
    let writer = soon("the longest reader's end", other.rw_lock("job").write()).await.unwrap();
    assert!(!long.is_held(), "never while the other one may be trusted");
    assert!(started.elapsed() > ms(700), "{:?}", started.elapsed());
    writer.release().await.unwrap();
}

async fn a_dead_reader_blocks_for_at_most_one_lease(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.rw_lock("job").watchdog(LEASE).read().await.unwrap().detach();
    let started = Instant::now();
    soon("its end", other.rw_lock("job").write()).await.unwrap().release().await.unwrap();
    // The waiter tries again at the end of the reported lease. The rest of the limit allows for a busy machine.
    assert!(started.elapsed() < LEASE + ms(8_000), "{:?}", started.elapsed());
    // A server counts an expired key until it removes the key.
    eventually("what has run out to go", || keys(&server) == 0).await;
}

async fn a_dead_reader_beside_a_renewed_one_blocks_for_at_most_one_lease(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let dead = client.rw_lock("job").lease(LEASE).read().await.unwrap();
    let living = client.rw_lock("job").watchdog(ms(5_000)).read().await.unwrap();
    dead.detach();
    eventually("its lease to end", || keys(&server) == 2).await;
    assert_eq!(fields(&server, "job").len(), 3, "its field is still there");
    living.release().await.unwrap();
    assert!(is_free(&server, "job"));
    other.rw_lock("job").try_write().await.unwrap().unwrap().release().await.unwrap();
}

async fn a_dead_writer_blocks_for_one_lease(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    client.rw_lock("job").lease(LEASE).write().await.unwrap().detach();
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    soon("its end", other.rw_lock("job").read()).await.unwrap().release().await.unwrap();
    // A server counts an expired key until it removes the key.
    eventually("what has run out to go", || keys(&server) == 0).await;
}

async fn the_watchdog_renews_fifty_readers(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let mut readers = Vec::new();
    for number in 0..50 {
        let client = if number % 2 == 0 { &client } else { &other };
        readers.push(client.rw_lock("job").watchdog(ms(900)).read().await.unwrap());
    }
    let (started, mut pace) = (Instant::now(), crate::support::pace(ms(20)));
    while started.elapsed() < 4 * ms(900) {
        assert!(readers.iter().all(leasehold::Guard::is_held));
        assert!(other.rw_lock("job").try_write().await.unwrap().is_none());
        pace.tick().await;
    }
    assert_eq!(keys(&server), 51);
    for reader in readers {
        assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    }
    assert_eq!(keys(&server), 0);
}

async fn the_watchdog_renews_lock_and_leases_through_a_downgrade(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").watchdog(ms(900)).owned_by(&client.owner());
    let writer = lock.write().await.unwrap();
    let readers = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    let lease = |hold| format!("{{job}}:{}:rwlock_timeout:{hold}", readers[0].wire_owner());
    let stays = async || {
        let (started, mut pace) = (Instant::now(), crate::support::pace(ms(5)));
        while started.elapsed() < 3 * ms(900) {
            let left = [pttl(&server, "job"), pttl(&server, &lease(1)), pttl(&server, &lease(2))];
            assert!(left.iter().all(|left| *left > 0), "{left:?}");
            assert!(other.rw_lock("job").try_write().await.unwrap().is_none());
            pace.tick().await;
        }
    };
    stays().await;
    assert!(writer.is_held());
    writer.release().await.unwrap();
    stays().await;
    for reader in readers {
        assert_eq!(reader.release().await, Ok(ReleaseOutcome::Released));
    }
    assert_eq!(keys(&server), 0);
}

async fn each_side_of_an_owner_is_renewed_separately(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job").watchdog(ms(600)).owned_by(&client.owner());
    let (writer, reader) = (lock.write().await.unwrap(), lock.read().await.unwrap());
    reader.release().await.unwrap();
    let monitor = Monitor::start(&server);
    let started = Instant::now();
    eventually("nine renewals", || times_sent(&monitor, Verb::Renew) >= 9).await;
    let took = started.elapsed();
    assert!(writer.is_held(), "the end of the reads does not end the writer's watchdog");
    assert!(took > ms(1_550), "nine renewals, a third of 600 ms apart, in {took:?}");
    writer.release().await.unwrap();
}

async fn a_readers_release_does_not_cut_the_writers_lease(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let owner = client.owner();
    let write = client.rw_lock("job").owned_by(&owner).lease(ms(1_000));
    let read = client.rw_lock("job").owned_by(&owner).lease(ms(100));
    let writer = write.write().await.unwrap();
    for _ in 0..3 {
        read.read().await.unwrap().release().await.unwrap();
    }
    let rival = other.rw_lock("job");
    let next = soon("the writer's end", rival.write()).await.unwrap();
    assert!(!writer.is_held(), "never while it may be trusted");
    next.release().await.unwrap();
}

async fn an_expired_write_hold_beside_a_read_hold_admits_other_readers(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let owner = client.owner();
    let lock = client.rw_lock("job").owned_by(&owner);
    let writer = lock.clone().lease(LEASE).write().await.unwrap();
    let reader = lock.read().await.unwrap();
    assert!(other.rw_lock("job").try_read().await.unwrap().is_none());
    assert_eq!(soon("the end", writer.lost()).await, LostReason::Expired);
    let joined = soon("its turn", other.rw_lock("job").read()).await.unwrap();
    assert!(reader.is_held() && joined.is_held());
    assert_eq!(server.cli(&["HGET", "job", "mode"]), "read");
    assert_eq!(writer.release().await, Ok(ReleaseOutcome::NotHeld));
    assert!(reader.is_held());
}

async fn an_expired_read_hold_beside_a_write_hold_ends_with_it(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").owned_by(&client.owner());
    let writer = lock.write().await.unwrap();
    let reader = lock.clone().lease(LEASE).read().await.unwrap();
    assert_eq!(soon("the end", reader.lost()).await, LostReason::Expired);
    eventually("its lease to end", || keys(&server) == 1).await;
    writer.release().await.unwrap();
    assert!(is_free(&server, "job"));
    other.rw_lock("job").try_write().await.unwrap().unwrap().release().await.unwrap();
}

async fn a_late_release_reports_not_held(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let lock = client.rw_lock("job").lease(LEASE);
    let reader = lock.read().await.unwrap();
    let writer = soon("its turn", other.rw_lock("job").write()).await.unwrap();
    assert_eq!(reader.release().await, Ok(ReleaseOutcome::NotHeld));
    assert!(writer.is_held());
    writer.release().await.unwrap();
    let late = lock.write().await.unwrap();
    let reader = soon("its turn", other.rw_lock("job").read()).await.unwrap();
    assert_eq!(late.release().await, Ok(ReleaseOutcome::NotHeld));
    assert!(reader.is_held());
    assert_eq!(fields(&server, "job").len(), 2);
}

async fn a_detached_reader_leaves_the_lock_to_its_lease(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job").lease(Duration::from_secs(20)).owned_by(&client.owner());
    let (kept, released) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    kept.detach();
    released.release().await.unwrap();
    assert!((10_001..=20_000).contains(&pttl(&server, "job")));
    assert!(client.rw_lock("job").try_write().await.unwrap().is_none());
    run_command(&server, &["FLUSHALL"]);
}

async fn each_side_can_have_its_own_terms(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.rw_lock("job");
    let reader = lock.read_lock().lease(Duration::from_secs(50)).lock().await.unwrap();
    assert!(pttl(&server, "job") > 40_000);
    reader.release().await.unwrap();
    let bounded = lock.clone().max_hold(ms(200)).write().await.unwrap();
    assert!(pttl(&server, "job") <= 200);
    assert_eq!(soon("its bound", bounded.lost()).await, LostReason::MaxHold);
    let counted = lock.watchdog(LEASE).max_renewals(1).read().await.unwrap();
    assert_eq!(soon("the last renewal's end", counted.lost()).await, LostReason::MaxRenewals);
}
