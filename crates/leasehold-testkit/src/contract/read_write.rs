//! The read-write lock's scripts, as its recipes send them.
//!
//! Invariant: the assertions state the behavior of redis-server. Owners are numbers. An owner of both sides has two
//! numbers.
#![deny(dead_code)]

mod harness;
pub mod marks;

use leasehold_proto::recipe::read_write::{PREFERRED, READ_LOCK, WRITE_LOCK, YIELDING};
use leasehold_proto::recipe::upgrade::UPGRADE;
use leasehold_proto::recipe::{self, read, reentrant, write};
use leasehold_proto::{Applied, Call, CallArgs, LockCalls, Recipe, Reply, StoreErrorKind, Verb};

use super::Harness;
use harness::{LONG, Rw, owner, refused};

behaviors! {
    readers_are_granted_together_with_separate_leases,
    readers_are_refused_while_a_writer_holds_the_lock,
    writers_are_refused_while_a_reader_or_writer_holds_the_lock,
    a_duplicate_acquire_finds_its_own_hold,
    only_the_writer_may_read,
    a_reader_that_requests_the_write_lock_gets_the_deadlock_reply,
    a_reader_renewal_never_shortens_and_restores_missing_leases,
    a_reader_re_entry_adds_a_lease_and_a_partial_release_removes_it,
    writer_renewals_do_not_add_up,
    a_renewal_without_a_hold_changes_nothing,
    the_lock_lives_as_long_as_its_longest_reader,
    a_dead_reader_is_removed_with_the_last_live_one,
    a_dead_reader_is_removed_while_others_read,
    a_readers_release_does_not_change_the_writers_lease,
    a_writer_that_downgrades_admits_and_wakes_readers,
    a_writer_frees_the_lock_when_only_a_dead_reader_is_left,
    a_foreign_or_duplicate_release_changes_nothing,
    a_forced_release_affects_only_the_side_that_holds_the_lock,
    each_side_is_inspected_separately,
    arguments_are_checked_before_the_first_write,
    keys_of_other_types_are_rejected_unchanged,
    a_plain_lock_rejects_a_read_write_lock,
}

async fn readers_are_granted_together_with_separate_leases(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    assert_eq!(rw.acquire(&READ_LOCK, 1, 60_000).await, Reply::Nil);
    assert_eq!(rw.acquire(&READ_LOCK, 2, LONG).await, Reply::Nil);
    assert!(rw.is(&[("mode", "read"), ("1", "1"), ("2", "1")]), "{:?}", rw.fields());
    assert!(rw.remaining() > 50_000, "the second one does not shorten the first");
    assert_eq!(harness.run_command(&["GET", &rw.timeout(1, 1)]), "1");
    assert!((50_001..=60_000).contains(&rw.pttl(&rw.timeout(1, 1))));
    assert!((20_001..=30_000).contains(&rw.pttl(&rw.timeout(2, 1))));
}

async fn readers_are_refused_while_a_writer_holds_the_lock(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    assert_eq!(rw.acquire(&WRITE_LOCK, 1, LONG).await, Reply::Nil);
    assert!(rw.is(&[("mode", "write"), ("1:write", "1")]), "{:?}", rw.fields());
    for reader in [&READ_LOCK, &YIELDING] {
        assert!(refused(&rw.acquire(reader, 2, 60_000).await, LONG));
    }
    assert!(!rw.has(&rw.timeout(2, 1)));
    assert!(rw.remaining() <= 30_000);
}

async fn writers_are_refused_while_a_reader_or_writer_holds_the_lock(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    assert!(refused(&rw.acquire(&WRITE_LOCK, 2, 60_000).await, LONG));
    assert!(rw.is(&[("mode", "read"), ("1", "1")]));
    rw.release(&READ_LOCK, 1, 0).await;
    rw.acquire(&WRITE_LOCK, 3, LONG).await;
    assert!(refused(&rw.acquire(&WRITE_LOCK, 2, 60_000).await, LONG));
    assert!(rw.is(&[("mode", "write"), ("3:write", "1")]));
}

async fn a_duplicate_acquire_finds_its_own_hold(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    for _ in 0..2 {
        assert_eq!(rw.acquire(&READ_LOCK, 1, LONG).await, Reply::Nil);
        assert!(rw.is(&[("mode", "read"), ("1", "1")]));
        assert!(!rw.has(&rw.timeout(1, 2)));
    }
    for _ in 0..2 {
        assert_eq!(rw.acquire_beside(&UPGRADE, 2, 1).await, Reply::Nil);
        assert!(rw.is(&[("mode", "write"), ("1", "1"), ("2:write", "1")]));
    }
    rw.release(&WRITE_LOCK, 2, 0).await;
    rw.release(&READ_LOCK, 1, 0).await;
    for _ in 0..2 {
        assert_eq!(rw.acquire(&WRITE_LOCK, 3, LONG).await, Reply::Nil);
        assert!(rw.is(&[("mode", "write"), ("3:write", "1")]));
        assert!((20_001..=30_000).contains(&rw.remaining()), "leases do not add up");
    }
    for _ in 0..2 {
        assert_eq!(rw.acquire_beside(&READ_LOCK, 4, 3).await, Reply::Nil);
        assert!(rw.is(&[("mode", "write"), ("3:write", "1"), ("4", "1")]));
    }
    // A late duplicate of an acquire, after a re-entry or a longer renewal, changes neither count nor leases.
    rw.renew(&READ_LOCK, 4, 90_000, 2).await;
    rw.acquire_beside(&READ_LOCK, 4, 3).await;
    rw.acquire(&WRITE_LOCK, 3, LONG).await;
    assert!(rw.is(&[("mode", "write"), ("3:write", "1"), ("4", "2")]));
    assert!(rw.remaining() > 60_000 && rw.pttl(&rw.timeout(4, 1)) > 60_000);
}

async fn only_the_writer_may_read(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, LONG).await;
    assert!(refused(&rw.acquire_beside(&READ_LOCK, 3, 2).await, LONG));
    assert!(
        refused(&rw.acquire_beside(&READ_LOCK, 1, 2).await, LONG),
        "the same number is not the same owner"
    );
    assert_eq!(rw.acquire_beside(&READ_LOCK, 2, 1).await, Reply::Nil);
    assert!(rw.is(&[("mode", "write"), ("1:write", "1"), ("2", "1")]));
}

async fn a_reader_that_requests_the_write_lock_gets_the_deadlock_reply(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    assert_eq!(rw.acquire_beside(&WRITE_LOCK, 2, 1).await, Reply::Int(-3));
    assert_eq!(rw.acquire_beside(&PREFERRED, 2, 1).await, Reply::Int(-3));
    assert!(!rw.has(&rw.writer_mark()));
    assert!(refused(&rw.acquire_beside(&WRITE_LOCK, 2, 9).await, LONG), "its own hold is gone");
}

async fn a_reader_renewal_never_shortens_and_restores_missing_leases(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    rw.acquire(&READ_LOCK, 2, 10_000).await;
    assert_eq!(rw.renew(&READ_LOCK, 1, 90_000, 0).await, Reply::Int(1));
    assert_eq!(rw.renew(&READ_LOCK, 1, 10, 0).await, Reply::Int(1));
    assert!(rw.remaining() > 60_000 && rw.pttl(&rw.timeout(1, 1)) > 60_000);
    assert!(rw.pttl(&rw.timeout(2, 1)) <= 10_000, "others renew their own");
    harness.run_command(&["DEL", &rw.timeout(1, 1)]);
    harness.run_command(&["PERSIST", &rw.timeout(2, 1)]);
    for reader in [1, 2] {
        assert_eq!(rw.renew(&READ_LOCK, reader, LONG, 0).await, Reply::Int(1));
        assert!((20_001..=30_000).contains(&rw.pttl(&rw.timeout(reader, 1))), "{reader}");
    }
}

async fn a_reader_re_entry_adds_a_lease_and_a_partial_release_removes_it(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let leases = || (1..=4).filter(|hold| rw.has(&rw.timeout(1, *hold))).count();
    rw.acquire(&READ_LOCK, 1, LONG).await;
    for count in [3, 2] {
        for _ in 0..2 {
            assert_eq!(rw.renew(&READ_LOCK, 1, 60_000, count).await, Reply::Int(1));
            assert!(rw.is(&[("mode", "read"), ("1", &count.to_string())]));
            assert_eq!(leases(), count as usize);
        }
    }
    assert!(rw.pttl(&rw.timeout(1, 1)) > 50_000, "one validity for all of an owner's holds");
    let (_listening, mut heard) = rw.listen().await;
    for _ in 0..2 {
        assert_eq!(rw.release(&READ_LOCK, 1, 1).await, Reply::Int(0));
        assert!(rw.is(&[("mode", "read"), ("1", "1")]));
        assert_eq!(leases(), 1);
    }
    assert!(rw.remaining() > 50_000);
    assert_eq!(rw.messages(&mut heard).await, "now", "a partial release says nothing");
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Int(1));
    assert_eq!((leases(), rw.has(rw.name.as_str())), (0, false));
    assert_eq!(rw.messages(&mut heard).await, "0");
}

async fn writer_renewals_do_not_add_up(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, LONG).await;
    for _ in 0..2 {
        assert_eq!(rw.renew(&WRITE_LOCK, 1, LONG, 2).await, Reply::Int(1));
        assert!(rw.is(&[("mode", "write"), ("1:write", "2")]));
        assert!(rw.remaining() <= 30_000);
    }
    assert_eq!(rw.renew(&WRITE_LOCK, 1, 10, 0).await, Reply::Int(1));
    assert!(rw.remaining() > 20_000);
    assert_eq!(rw.release(&WRITE_LOCK, 1, 1).await, Reply::Int(0));
    assert!(rw.is(&[("mode", "write"), ("1:write", "1")]));
    assert!(rw.remaining() > 20_000);
}

async fn a_renewal_without_a_hold_changes_nothing(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let recipes: [&Recipe; 2] = [&READ_LOCK, &WRITE_LOCK];
    for recipe in recipes {
        for count in [0, 1] {
            assert_eq!(rw.renew(recipe, 1, LONG, count).await, Reply::Int(0));
        }
        assert!(!rw.has(rw.name.as_str()) && !rw.has(&rw.timeout(1, 1)));
    }
    rw.acquire(&READ_LOCK, 2, 10_000).await;
    for recipe in recipes {
        assert_eq!(rw.renew(recipe, 1, LONG, 1).await, Reply::Int(-1));
    }
    assert_eq!(rw.renew(&WRITE_LOCK, 2, LONG, 1).await, Reply::Int(-1), "who reads does not write");
    assert!(rw.is(&[("mode", "read"), ("2", "1")]) && rw.remaining() <= 10_000);
}

async fn the_lock_lives_as_long_as_its_longest_reader(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let (_listening, mut heard) = rw.listen().await;
    rw.acquire(&READ_LOCK, 1, 5_000).await;
    rw.acquire(&READ_LOCK, 2, 20_000).await;
    rw.acquire(&READ_LOCK, 3, 365 * 86_400_000).await;
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Int(0));
    assert!(rw.remaining() > 364 * 86_400_000, "a year is a number too");
    assert_eq!(rw.release(&READ_LOCK, 3, 0).await, Reply::Int(0));
    assert!((10_001..=20_000).contains(&rw.remaining()));
    rw.renew(&READ_LOCK, 2, 20_000, 3).await;
    rw.acquire(&READ_LOCK, 4, LONG).await;
    // The longest lease counts of a reader with several holds, whichever hold has it.
    harness.run_command(&["PEXPIRE", &rw.timeout(2, 1), "1000"]);
    harness.run_command(&["PEXPIRE", &rw.timeout(2, 2), "9000"]);
    harness.run_command(&["DEL", &rw.timeout(2, 3)]);
    assert_eq!(rw.release(&READ_LOCK, 4, 0).await, Reply::Int(0));
    assert!((5_001..=9_000).contains(&rw.remaining()));
    assert_eq!(rw.messages(&mut heard).await, "now", "no waiter is told while a reader holds");
}

async fn a_dead_reader_is_removed_while_others_read(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    for reader in [1, 2, 3] {
        rw.acquire(&READ_LOCK, reader, LONG).await;
    }
    rw.acquire(&READ_LOCK, 4, 60_000).await;
    harness.run_command(&["DEL", &rw.timeout(1, 1)]);
    assert_eq!(rw.release(&READ_LOCK, 2, 0).await, Reply::Int(0));
    assert!(rw.remaining() > 50_000, "the longest one reads on");
    assert_eq!(rw.release(&READ_LOCK, 4, 0).await, Reply::Int(0));
    assert!(rw.is(&[("mode", "read"), ("3", "1")]), "{:?}", rw.fields());
    assert!((1..=30_000).contains(&rw.remaining()));
    // The release of a writer also removes dead readers, here the writer's own expired read hold.
    rw.acquire(&READ_LOCK, 5, LONG).await;
    rw.acquire_beside(&UPGRADE, 6, 3).await;
    assert_eq!(rw.release(&READ_LOCK, 5, 0).await, Reply::Int(0));
    assert_eq!(rw.acquire_beside(&UPGRADE, 6, 3).await, Reply::Nil);
    assert_eq!(rw.acquire_beside(&READ_LOCK, 7, 6).await, Reply::Nil);
    harness.run_command(&["DEL", &rw.timeout(7, 1)]);
    assert_eq!(rw.release(&WRITE_LOCK, 6, 0).await, Reply::Int(1));
    assert!(rw.is(&[("mode", "read"), ("3", "1")]), "{:?}", rw.fields());
}

async fn a_dead_reader_is_removed_with_the_last_live_one(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    rw.acquire(&READ_LOCK, 2, LONG).await;
    harness.run_command(&["DEL", &rw.timeout(1, 1)]);
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&READ_LOCK, 2, 0).await, Reply::Int(1));
    assert!(!rw.has(rw.name.as_str()));
    assert_eq!(rw.messages(&mut heard).await, "0");
    // A lease without an expiry counts as none, as in Redisson.
    rw.acquire(&READ_LOCK, 3, LONG).await;
    rw.acquire(&READ_LOCK, 4, LONG).await;
    harness.run_command(&["PERSIST", &rw.timeout(3, 1)]);
    assert_eq!(rw.release(&READ_LOCK, 4, 0).await, Reply::Int(1));
    harness.run_command(&["DEL", &rw.timeout(3, 1)]);
}

async fn a_readers_release_does_not_change_the_writers_lease(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, 60_000).await;
    rw.acquire_beside(&READ_LOCK, 2, 1).await;
    rw.renew(&READ_LOCK, 2, LONG, 2).await;
    let (_listening, mut heard) = rw.listen().await;
    for left in [1, 0] {
        assert_eq!(rw.release(&READ_LOCK, 2, left).await, Reply::Int(0));
        assert!(rw.remaining() > 50_000, "{left}");
    }
    assert!(rw.is(&[("mode", "write"), ("1:write", "1")]));
    assert!(!rw.has(&rw.timeout(2, 1)));
    assert_eq!(rw.messages(&mut heard).await, "now", "no waiter may acquire yet");
}

async fn a_writer_that_downgrades_admits_and_wakes_readers(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, 60_000).await;
    rw.acquire_beside(&READ_LOCK, 2, 1).await;
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&WRITE_LOCK, 1, 0).await, Reply::Int(2), "one connection listens");
    assert!(rw.is(&[("mode", "read"), ("2", "1")]));
    assert!((20_001..=30_000).contains(&rw.remaining()), "the lease is the reader's now");
    assert_eq!(rw.messages(&mut heard).await, "1");
    assert!(refused(&rw.acquire(&WRITE_LOCK, 3, LONG).await, LONG));
    assert_eq!(rw.acquire(&READ_LOCK, 4, LONG).await, Reply::Nil);
}

async fn a_writer_frees_the_lock_when_only_a_dead_reader_is_left(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, LONG).await;
    rw.acquire_beside(&READ_LOCK, 2, 1).await;
    harness.run_command(&["DEL", &rw.timeout(2, 1)]);
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&WRITE_LOCK, 1, 0).await, Reply::Int(2), "one connection listens");
    assert!(!rw.has(rw.name.as_str()));
    assert_eq!(rw.messages(&mut heard).await, "1");
}

async fn a_foreign_or_duplicate_release_changes_nothing(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    let (_listening, mut heard) = rw.listen().await;
    let recipes: [&Recipe; 4] = [&READ_LOCK, &WRITE_LOCK, &PREFERRED, &UPGRADE];
    for recipe in recipes {
        for left in [0, 1] {
            assert_eq!(rw.release(recipe, 2, left).await, Reply::Nil);
        }
    }
    assert_eq!(rw.release(&WRITE_LOCK, 1, 0).await, Reply::Nil, "who reads does not write");
    assert!(rw.is(&[("mode", "read"), ("1", "1")]));
    assert_eq!(rw.messages(&mut heard).await, "now");
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Int(1));
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Nil);
    assert_eq!(rw.messages(&mut heard).await, "0", "once");
}

async fn a_forced_release_affects_only_the_side_that_holds_the_lock(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let (_listening, mut heard) = rw.listen().await;
    let force = async |calls: &LockCalls| rw.harness.execute((calls.force_release)(&rw.name)).await;
    assert_eq!(
        (force(&read::LOCK_CALLS).await, force(&write::LOCK_CALLS).await),
        (Reply::Int(0), Reply::Int(0))
    );
    rw.acquire(&READ_LOCK, 1, LONG).await;
    rw.renew(&READ_LOCK, 1, LONG, 3).await;
    assert_eq!(force(&write::LOCK_CALLS).await, Reply::Int(0));
    assert_eq!(rw.messages(&mut heard).await, "now");
    assert_eq!(force(&read::LOCK_CALLS).await, Reply::Int(1));
    assert!(!rw.has(rw.name.as_str()));
    assert!((1..=3).all(|hold| !rw.has(&rw.timeout(1, hold))), "no lease is left");
    assert_eq!(rw.messages(&mut heard).await, "0");
    rw.acquire(&WRITE_LOCK, 2, LONG).await;
    rw.acquire_beside(&READ_LOCK, 3, 2).await;
    assert_eq!(force(&read::LOCK_CALLS).await, Reply::Int(0));
    assert_eq!(force(&write::LOCK_CALLS).await, Reply::Int(1));
    assert!(!rw.has(rw.name.as_str()) && !rw.has(&rw.timeout(3, 1)));
    assert_eq!(rw.messages(&mut heard).await, "1");
}

async fn each_side_is_inspected_separately(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let look = async |calls: &LockCalls, number: Option<u64>| {
        let reply = rw.harness.execute((calls.inspect)(&rw.name, number.map(owner))).await;
        let Reply::Array(items) = reply else {
            panic!("an inspection answers with an array");
        };
        let [Reply::Int(remaining), Reply::Int(count)] = items[..] else {
            panic!("an inspection answers with two numbers: {items:?}");
        };
        (remaining, count)
    };
    assert_eq!(
        (look(&read::LOCK_CALLS, None).await, look(&write::LOCK_CALLS, None).await),
        ((-2, 0), (-2, 0))
    );
    rw.acquire(&WRITE_LOCK, 1, LONG).await;
    assert_eq!(look(&read::LOCK_CALLS, Some(1)).await, (-2, 0), "who writes does not read");
    assert!(matches!(look(&write::LOCK_CALLS, Some(1)).await, (1..=30_000, 1)));
    assert!(matches!(look(&write::LOCK_CALLS, Some(2)).await, (1..=30_000, 0)));
    rw.acquire_beside(&READ_LOCK, 2, 1).await;
    rw.renew(&READ_LOCK, 2, LONG, 2).await;
    assert!(matches!(look(&read::LOCK_CALLS, Some(2)).await, (1..=30_000, 2)), "unless it does");
    rw.release(&WRITE_LOCK, 1, 0).await;
    assert_eq!(look(&write::LOCK_CALLS, Some(1)).await, (-2, 0));
    assert!(matches!(look(&read::LOCK_CALLS, None).await, (1..=30_000, 0)));
    harness.run_command(&["PERSIST", rw.name.as_str()]);
    assert_eq!(look(&read::LOCK_CALLS, Some(2)).await, (-1, 2));
}

async fn arguments_are_checked_before_the_first_write(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    let before = rw.fields();
    let recipes: [&Recipe; 3] = [&READ_LOCK, &WRITE_LOCK, &UPGRADE];
    for recipe in recipes {
        let by_reader = |write: &dyn Fn(&CallArgs<'_>) -> Call| {
            rw.call(1, LONG, |execute| write(&CallArgs { companion: Some(owner(1)), ..execute }))
        };
        let acquire = by_reader(&|execute| (recipe.acquire)(execute));
        let renew = by_reader(&|execute| (recipe.renew)(execute));
        let release = by_reader(&|execute| (recipe.release)(execute));
        let wrong: [(&Call, &str, &[&str]); 5] = [
            (&acquire, "lease_ms", &["0", "-1", "1.5", "abc", "", "9007199254740992", "nan"]),
            (&acquire, "mark_ms", &["-1", "0.5", "x", ""]),
            (&renew, "lease_ms", &["0", "-1", "1.5", "", "inf"]),
            (&renew, "count", &["-1", "0.5", "x", "nan"]),
            (&release, "remaining", &["-1", "0.5", "x", ""]),
        ];
        for (call, argument, values) in wrong {
            for value in values {
                let mut call = call.clone();
                if !call.set_arg(argument, *value) {
                    continue;
                }
                let refused = harness.run(call).await.expect_err("an argument is wrong");
                let what = (refused.kind, refused.applied);
                assert_eq!(what, (StoreErrorKind::Server, Applied::No), "{argument} {value}");
            }
        }
    }
    let mut endless = rw.call(1, LONG, |execute| (READ_LOCK.renew)(&execute));
    endless.set_arg("count", "4294967296");
    assert!(harness.run(endless).await.is_err(), "no loop without an end");
    assert_eq!(rw.fields(), before);
}

async fn keys_of_other_types_are_rejected_unchanged(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let recipes: [(&Recipe, &LockCalls); 3] =
        [(&READ_LOCK, &read::LOCK_CALLS), (&WRITE_LOCK, &write::LOCK_CALLS), (&UPGRADE, &write::LOCK_CALLS)];
    harness.run_command(&["SET", rw.name.as_str(), "mine"]);
    for (recipe, lock) in recipes {
        let beside =
            rw.call(1, LONG, |execute| (recipe.acquire)(&CallArgs { companion: Some(owner(2)), ..execute }));
        let renew = rw.call(1, LONG, |execute| (recipe.renew)(&execute));
        let release = rw.call(1, LONG, |execute| (recipe.release)(&execute.count(0)));
        let calls = [beside, renew, release, (lock.force_release)(&rw.name), (lock.inspect)(&rw.name, None)];
        for call in calls {
            let refused = harness.run(call).await.expect_err("the key is a string");
            assert_eq!(refused.kind, StoreErrorKind::WrongType);
        }
    }
    assert_eq!(harness.run_command(&["GET", rw.name.as_str()]), "mine");
    for field in ["u:1", "mode"] {
        harness.run_command(&["DEL", rw.name.as_str()]);
        harness.run_command(&["HSET", rw.name.as_str(), field, "1"]);
        for (recipe, lock) in recipes.into_iter().take(2) {
            let acquire = rw.call(1, LONG, |execute| (recipe.acquire)(&execute));
            let refused = harness.run(acquire).await.expect_err("the hash belongs to another program");
            assert_eq!(refused.kind, StoreErrorKind::WrongType, "{field}");
            assert_eq!(harness.execute((lock.force_release)(&rw.name)).await, Reply::Int(0));
        }
        assert!(rw.is(&[(field, "1")]));
    }
}

async fn a_plain_lock_rejects_a_read_write_lock(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    let known = |script: &&leasehold_proto::Script| {
        script.verb == Verb::Acquire && reentrant::SCRIPTS.iter().any(|one| one.source() == script.source())
    };
    let plain = recipe::scripts().find(known).expect("there is a plain lock");
    let plain = || Call::of(plain).key("lock", &rw.name).arg("lease_ms", LONG).arg("owner", "u:1");
    for recipe in [&READ_LOCK as &Recipe, &WRITE_LOCK] {
        rw.acquire(recipe, 1, LONG).await;
        let refused = harness.run(plain()).await.expect_err("the name is a read-write lock's");
        assert_eq!(refused.kind, StoreErrorKind::WrongType);
        assert_eq!(rw.release(recipe, 1, 0).await, Reply::Int(1), "which is as it was");
    }
    assert_eq!(harness.execute(plain()).await, Reply::Nil);
}
