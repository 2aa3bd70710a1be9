//! Sections on the calling thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use leasehold::blocking::owner;
use leasehold::{LostReason, OnFinish, OnLost, RunError};

use crate::blocking::{elsewhere, eventually, server_and_client};
use crate::support::{count, is_free, ms, run_command};

#[test]
fn a_body_runs_under_the_lock_and_its_callees_re_enter() {
    let (server, client) = server_and_client();
    let value = client.lock("job").run(|guard| {
        assert!(guard.is_held());
        let inner = client.lock("job").lock().unwrap();
        assert_eq!(count(&server, "job"), 2);
        inner.release().unwrap();
        let elsewhere_too = client.lock("job");
        assert!(elsewhere(move || elsewhere_too.try_lock().unwrap().is_none()));
        42
    });
    assert_eq!(value, Ok(42));
    assert!(is_free(&server, "job"));
}

#[test]
fn a_body_of_a_named_owner_re_enters_as_that_owner() {
    let (server, client) = server_and_client();
    let mine = client.owner();
    client
        .lock("job")
        .owned_by(&mine)
        .run(|_| {
            let inner = client.lock("job").lock().unwrap();
            assert_eq!(client.lock("job").hold_count(&mine).unwrap(), 2);
            inner.release().unwrap();
            let other = client.lock("other").lock().unwrap();
            assert!(client.lock("other").is_held_by(&owner()).unwrap(), "all else is the thread's");
            other.release().unwrap();
        })
        .unwrap();
    assert!(is_free(&server, "job"));
}

#[test]
fn a_body_that_panics_releases() {
    let (server, client) = server_and_client();
    let lock = client.lock("job");
    for section in [false, true] {
        let panicking = AssertUnwindSafe(|| {
            let body = || panic!("a test's body panics");
            if section { lock.section().enter().unwrap().run(body) } else { lock.run(|_| body()) }
        });
        assert!(catch_unwind(panicking).is_err());
        eventually("the release", || is_free(&server, "job"));
    }
    assert_eq!(lock.run(|_| owner() == owner()), Ok(true), "and the thread is as it was");
}

#[test]
fn a_body_whose_hold_is_lost_runs_to_its_end_and_its_result_is_dropped() {
    let (_server, client) = server_and_client();
    let lock = client.lock("job").lease(ms(300));
    let mut ended = false;
    let outcome = lock.run(|guard| {
        assert_eq!(guard.lost(), LostReason::Expired);
        ended = true;
    });
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Expired, .. })));
    assert!(ended);
    let finish = lock.section().on_lost(OnLost::Finish);
    assert_eq!(finish.run(|guard| guard.lost()), Ok(LostReason::Expired), "where it may finish");
}

#[test]
fn a_deleted_hold_is_detected_at_the_end_of_the_body() {
    let (server, client) = server_and_client();
    let outcome = client.lock("job").run(|_| run_command(&server, &["DEL", "job"]));
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
}

#[test]
fn a_section_waits_detaches_and_reports_busy() {
    let (server, client) = server_and_client();
    let lock = client.lock("job").lease(Duration::from_secs(600));
    let section = lock.section().wait(Duration::ZERO).on_finish(OnFinish::Detach);
    assert_eq!(section.clone().run(|guard| guard.name().to_owned()).unwrap(), "job");
    assert_eq!(count(&server, "job"), 1, "it is kept");
    let busy = elsewhere(move || section.wait(ms(300)).run(|_| ()));
    assert!(matches!(busy, Err(RunError::Busy { wait, .. }) if wait == ms(300)));
}

#[test]
fn a_section_guard_runs_a_body_later_on_another_thread() {
    let (server, client) = server_and_client();
    let entered = client.fenced_lock("job").section().enter().unwrap();
    let token = entered.guard().token();
    assert_eq!(count(&server, "job"), 1);
    let mine = owner();
    let (value, inside) = elsewhere(move || {
        let inside = || (client.fenced_lock("job").try_lock().unwrap().is_some(), owner());
        entered.run(inside).unwrap()
    });
    assert!(token > 0 && value, "it re-enters the hold that it runs under");
    assert_ne!(inside, mine, "and is its thread's in all else");
    eventually("the release", || is_free(&server, "job"));
}

#[test]
fn no_body_starts_after_a_loss() {
    let (_server, client) = server_and_client();
    let section = client.lock("job").lease(ms(300)).section();
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        let entered = section.clone().on_lost(on_lost).enter().unwrap();
        entered.guard().lost();
        let outcome = entered.run(|| unreachable!("the lock is free"));
        assert!(matches!(outcome, Err::<(), _>(RunError::Lost { .. })), "{outcome:?}");
    }
}

#[test]
fn a_body_runs_with_a_permit() {
    let (_server, client) = server_and_client();
    let seats = client.expirable_semaphore("seats");
    let left = seats.section(3).run(|permits| {
        assert_eq!(permits.count(), 1);
        seats.available().unwrap()
    });
    assert_eq!(left, Ok(2));
    assert_eq!(seats.available(), Ok(3));
}

#[test]
fn a_section_guard_does_not_carry_its_outer_bodies_to_another_thread() {
    let (_server, client) = server_and_client();
    let outcome = client.lock("batch").run(|_| {
        let entered = client.lock("item").section().enter().unwrap();
        let batch = client.lock("batch");
        elsewhere(move || entered.run(|| batch.try_lock().unwrap().is_none()))
    });
    assert_eq!(outcome, Ok(Ok(true)), "what another thread runs waits for the body's lock");
}

#[test]
fn a_body_in_block_on_shares_its_lock_with_awaits_but_not_with_tasks() {
    let (server, client) = server_and_client();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let lock = client.as_async().lock("job");
    let spawned = {
        let lock = lock.clone();
        runtime.spawn(async move { lock.try_lock().await.unwrap().is_none() })
    };
    let outcome = client.lock("job").run(|_| {
        runtime.block_on(async {
            let inner = lock.lock().await.unwrap();
            (count(&server, "job"), inner.release().await.is_ok(), spawned.await.unwrap())
        })
    });
    assert_eq!(outcome, Ok((2, true, true)));
}
