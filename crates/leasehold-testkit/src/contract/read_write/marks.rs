//! The marks of waiters on the server: the mark of a reader that waits to upgrade, and the mark of a preferred writer.
//!
//! Invariant: the assertions state the behavior of redis-server. Owners are numbers. An owner of both sides has two
//! numbers.
#![deny(dead_code)]

use std::time::Duration;

use leasehold_proto::recipe::CallContext;
use leasehold_proto::recipe::read_write::{MARK_LASTS, PREFERRED, READ_LOCK, WRITE_LOCK, YIELDING};
use leasehold_proto::recipe::upgrade::UPGRADE;
use leasehold_proto::{CallArgs, Reply};

use super::super::{Harness, until};
use super::harness::{LONG, Rw, owner, refused};

behaviors! {
    the_only_reader_can_upgrade,
    a_waiting_upgrade_keeps_new_readers_out,
    a_second_upgrade_gets_the_conflict_reply,
    an_expired_reader_cannot_upgrade_and_blocks_no_client,
    an_abandoned_upgrade_admits_readers_again,
    a_preferred_writer_goes_before_yielding_readers,
    a_preferred_writer_removes_only_its_own_mark,
    a_mark_expires,
}

async fn the_only_reader_can_upgrade(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, 10_000).await;
    rw.renew(&READ_LOCK, 1, 10_000, 2).await;
    assert_eq!(rw.acquire_beside(&UPGRADE, 2, 1).await, Reply::Nil);
    assert!(rw.is(&[("mode", "write"), ("1", "2"), ("2:write", "1")]));
    assert!(rw.remaining() > 20_000);
    assert!(!rw.has(&rw.upgrade_mark()));
    assert!(refused(&rw.acquire_beside(&UPGRADE, 3, 1).await, LONG), "there is one writer");
    assert!(refused(&rw.acquire(&READ_LOCK, 4, LONG).await, LONG));
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Int(0));
    assert_eq!(rw.release(&WRITE_LOCK, 2, 0).await, Reply::Int(1));
    assert!(!rw.has(rw.name.as_str()));
}

async fn a_waiting_upgrade_keeps_new_readers_out(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    for reader in [1, 2, 3] {
        rw.acquire(&READ_LOCK, reader, LONG).await;
    }
    assert!(refused(&rw.acquire_beside(&UPGRADE, 4, 1).await, LONG));
    assert!(rw.is(&[("mode", "read"), ("1", "1"), ("2", "1"), ("3", "1")]));
    let mark = rw.pttl(&rw.upgrade_mark());
    assert!((1..=3_000).contains(&mark), "{mark}");
    assert!(refused(&rw.acquire(&READ_LOCK, 5, LONG).await, 3_000));
    assert_eq!(rw.renew(&READ_LOCK, 2, LONG, 2).await, Reply::Int(1), "who reads may read again");
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&READ_LOCK, 2, 0).await, Reply::Int(0));
    assert_eq!(rw.messages(&mut heard).await, "0", "the one who waits is told of every reader that goes");
    rw.release(&READ_LOCK, 3, 0).await;
    assert_eq!(rw.acquire_beside(&UPGRADE, 4, 1).await, Reply::Nil);
    assert!(!rw.has(&rw.upgrade_mark()));
}

async fn a_second_upgrade_gets_the_conflict_reply(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    // The first number is a prefix of the second, so a comparison of texts could confuse the two.
    for reader in [12, 1] {
        rw.acquire(&READ_LOCK, reader, LONG).await;
    }
    assert!(refused(&rw.acquire_beside(&UPGRADE, 2, 12).await, LONG));
    assert_eq!(rw.acquire_beside(&UPGRADE, 3, 1).await, Reply::Int(-3));
    assert!(refused(&rw.acquire_beside(&UPGRADE, 4, 12).await, LONG), "an owner is not in its own way");
    assert_eq!(rw.acquire_beside(&UPGRADE, 3, 1).await, Reply::Int(-3));
    assert_eq!(rw.release(&READ_LOCK, 1, 0).await, Reply::Int(0));
    assert_eq!(rw.acquire_beside(&UPGRADE, 2, 12).await, Reply::Nil);
}

async fn an_expired_reader_cannot_upgrade_and_blocks_no_client(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    assert_eq!(rw.acquire_beside(&UPGRADE, 2, 1).await, Reply::Int(-2), "nothing is held");
    for reader in [1, 3] {
        rw.acquire(&READ_LOCK, reader, LONG).await;
    }
    harness.run_command(&["DEL", &rw.timeout(1, 1)]);
    assert_eq!(rw.acquire_beside(&UPGRADE, 2, 1).await, Reply::Int(-2));
    assert_eq!(rw.acquire_beside(&UPGRADE, 4, 3).await, Reply::Nil);
    assert!(rw.is(&[("mode", "write"), ("3", "1"), ("4:write", "1")]), "the dead one is taken out");
    assert_eq!(rw.renew(&READ_LOCK, 1, LONG, 0).await, Reply::Int(-1), "and stays out");
}

async fn an_abandoned_upgrade_admits_readers_again(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    for reader in [1, 2] {
        rw.acquire(&READ_LOCK, reader, LONG).await;
    }
    let once = rw.call(3, LONG, |execute| {
        let context = CallContext { once: true, ..CallContext::default() };
        (UPGRADE.acquire)(&CallArgs { companion: Some(owner(1)), context, ..execute })
    });
    assert!(refused(&harness.execute(once).await, LONG));
    assert!(!rw.has(&rw.upgrade_mark()), "a single attempt keeps no other owner out");
    rw.acquire_beside(&UPGRADE, 4, 1).await;
    assert_eq!(rw.release(&UPGRADE, 3, 0).await, Reply::Nil);
    assert!(rw.has(&rw.upgrade_mark()), "it is another's");
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&UPGRADE, 4, 0).await, Reply::Nil);
    assert!(!rw.has(&rw.upgrade_mark()));
    assert_eq!(rw.messages(&mut heard).await, "1");
    assert_eq!(rw.acquire(&READ_LOCK, 5, LONG).await, Reply::Nil);
    assert!(rw.is(&[("mode", "read"), ("1", "1"), ("2", "1"), ("5", "1")]));
}

async fn a_preferred_writer_goes_before_yielding_readers(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    assert!(refused(&rw.acquire(&PREFERRED, 2, LONG).await, LONG));
    assert!(refused(&rw.acquire(&YIELDING, 3, LONG).await, 3_000), "for as long as the mark stands");
    assert_eq!(rw.acquire(&YIELDING, 1, LONG).await, Reply::Nil, "who reads already is not kept out");
    assert_eq!(rw.acquire(&READ_LOCK, 4, LONG).await, Reply::Nil, "nor is who does not yield");
    for reader in [1, 4] {
        rw.release(&READ_LOCK, reader, 0).await;
    }
    assert!(refused(&rw.acquire(&YIELDING, 3, LONG).await, 3_000), "a free lock is the writer's");
    assert_eq!(rw.acquire(&PREFERRED, 2, LONG).await, Reply::Nil);
    assert!(!rw.has(&rw.writer_mark()));
    assert_eq!(rw.acquire_beside(&YIELDING, 5, 2).await, Reply::Nil, "who writes may read");
}

async fn a_preferred_writer_removes_only_its_own_mark(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&WRITE_LOCK, 1, LONG).await;
    rw.acquire(&PREFERRED, 2, LONG).await;
    rw.release(&WRITE_LOCK, 1, 0).await;
    assert_eq!(rw.acquire(&PREFERRED, 3, LONG).await, Reply::Nil, "writers have no order");
    assert_eq!(harness.run_command(&["GET", &rw.writer_mark()]), owner(2).to_string());
    assert_eq!(rw.release(&PREFERRED, 3, 0).await, Reply::Int(1));
    assert!(rw.has(&rw.writer_mark()));
    let (_listening, mut heard) = rw.listen().await;
    assert_eq!(rw.release(&PREFERRED, 2, 0).await, Reply::Nil);
    assert!(!rw.has(&rw.writer_mark()));
    assert_eq!(rw.messages(&mut heard).await, "1", "readers may come in");
    assert_eq!(rw.acquire(&YIELDING, 4, LONG).await, Reply::Nil);
}

async fn a_mark_expires(harness: &Harness<'_>) {
    let rw = Rw::new(harness);
    rw.acquire(&READ_LOCK, 1, LONG).await;
    rw.acquire(&PREFERRED, 2, LONG).await;
    let marked = u64::try_from(rw.pttl(&rw.writer_mark())).expect("it ends");
    assert!(Duration::from_millis(marked) <= MARK_LASTS);
    harness.run_command(&["PEXPIRE", &rw.writer_mark(), "3"]);
    until("the mark to go", async || (rw.acquire(&YIELDING, 3, LONG).await == Reply::Nil).then_some(()))
        .await;
}
