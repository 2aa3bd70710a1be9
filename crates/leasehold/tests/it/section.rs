//! Sections: the length of the wait, the effect of a loss on the body, the effect of its end on the hold, and
//! re-entry.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use leasehold::error::{AcquireErrorKind, NameError, NotInstalled};
use leasehold::{Client, LostReason, MultiLock, OnFinish, OnLost, RunError, owner};
use tokio::sync::oneshot;

use crate::support::{Fixture, connect, count, eventually, is_free, ms, on_both, pttl, run_command, soon};

on_both! {
    async {
        a_run_is_busy_when_its_wait_ends,
        a_run_without_a_wait_limit_is_served_after_the_release,
        a_zero_wait_makes_one_attempt,
        a_body_with_on_lost_cancel_is_dropped_after_a_loss,
        a_body_with_on_lost_finish_completes_after_a_loss,
        a_body_that_ends_after_the_loss_returns_no_value,
        no_body_starts_after_a_loss,
        a_hold_is_detached_after_the_body_on_request,
        callees_of_the_body_re_enter_at_any_depth,
        branches_of_a_body_exclude_each_other,
        tasks_spawned_by_the_body_wait,
        tasks_that_the_bodys_own_task_polls_wait,
        tasks_of_another_executor_wait_when_they_are_independent,
        outer_and_inner_scopes_change_nothing,
        another_client_is_another_owner,
        a_multi_lock_in_the_body_re_enters_the_lock_of_the_body,
        a_section_guard_releases_on_drop,
        permits_limit_concurrent_bodies,
        an_invalid_name_is_reported,
        a_section_guard_can_be_spawned,
        a_run_that_nobody_polls_drops_its_body_under_the_lock,
        a_run_of_a_lock_that_nobody_keeps_can_be_spawned,
        a_spawned_section_guard_leaves_its_outer_bodies_and_scope,
    }
}

async fn a_run_is_busy_when_its_wait_ends(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let outcome = client.lock("job").section().wait(ms(300)).run(async |_| unreachable!("it is held")).await;
    assert!(matches!(outcome, Err(RunError::Busy { wait, .. }) if wait == ms(300)));
    drop(guard);
    let outcome = soon("it to be free", client.lock("job").section().wait(ms(9_000)).run(async |_| 7));
    assert_eq!(outcome.await, Ok(7));
}

async fn a_run_without_a_wait_limit_is_served_after_the_release(server: Fixture) {
    let client = connect(&server).await;
    let guard = client.lock("job").lock().await.unwrap();
    let lock = client.lock("job");
    let waiting = tokio::spawn(async move { lock.section().run(async |guard| guard.is_held()).await });
    guard.release().await.unwrap();
    assert_eq!(soon("the run", waiting).await.unwrap(), Ok(true));
    eventually("the release", || is_free(&server, "job")).await;
}

async fn a_zero_wait_makes_one_attempt(server: Fixture) {
    let client = connect(&server).await;
    let _guard = client.lock("job").lock().await.unwrap();
    let before = crate::support::scripts_run(&server);
    let outcome = client.lock("job").section().wait(Duration::ZERO).run(async |_| ()).await;
    assert!(matches!(outcome, Err(RunError::Busy { wait: Duration::ZERO, .. })));
    assert_eq!(crate::support::scripts_run(&server), before + 1);
}

/// Deletes the lock under a body that never ends. Returns the result of the run, and whether the section dropped the
/// body.
async fn a_loss_under(server: &Fixture, on_lost: OnLost) -> (Result<u32, RunError>, bool) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let client = connect(server).await;
    let (begun, has_begun) = oneshot::channel();
    let (go_on, may_go_on) = oneshot::channel::<()>();
    let dropped = Arc::new(AtomicBool::new(false));
    let in_body = Dropped(Arc::clone(&dropped));
    let section = client.lock("job").watchdog(ms(300)).section().on_lost(on_lost);
    let running = tokio::spawn(section.run(async move |guard: &leasehold::Guard| {
        let _in_body = in_body;
        begun.send(()).unwrap();
        guard.lost().await;
        // Runs forever after a loss, unless the test ends the wait.
        let _ = may_go_on.await;
        5
    }));
    soon("the body", has_begun).await.unwrap();
    run_command(server, &["DEL", "job"]);
    if on_lost == OnLost::Finish {
        go_on.send(()).unwrap();
    }
    let outcome = soon("the end", running).await.unwrap();
    (outcome, dropped.load(Ordering::SeqCst))
}

async fn a_body_with_on_lost_cancel_is_dropped_after_a_loss(server: Fixture) {
    let (outcome, dropped) = a_loss_under(&server, OnLost::Cancel).await;
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    assert!(dropped);
}

async fn a_body_with_on_lost_finish_completes_after_a_loss(server: Fixture) {
    let (outcome, _) = a_loss_under(&server, OnLost::Finish).await;
    assert_eq!(outcome, Ok(5));
}

async fn a_body_that_ends_after_the_loss_returns_no_value(server: Fixture) {
    let client = connect(&server).await;
    // The client learns of the loss only at the release, because a fixed lease has no renewals.
    let lock = client.lock("job").lease(Duration::from_secs(60));
    let outcome = lock.run(async |_| run_command(&server, &["DEL", "job"])).await;
    assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    let section = lock.section().on_lost(OnLost::Finish);
    let outcome = section.run(async |_| run_command(&server, &["DEL", "job"])).await;
    assert_eq!(outcome, Ok(()));
}

async fn no_body_starts_after_a_loss(server: Fixture) {
    let client = connect(&server).await;
    for on_lost in [OnLost::Cancel, OnLost::Finish] {
        let section = client.lock("job").watchdog(ms(300)).section().on_lost(on_lost);
        let entered = section.enter().await.unwrap();
        run_command(&server, &["DEL", "job"]);
        assert_eq!(soon("the loss", entered.guard().lost()).await, LostReason::Deleted);
        let outcome = entered.run(async { unreachable!("the lock is free") }).await;
        assert!(matches!(outcome, Err(RunError::Lost { reason: LostReason::Deleted, .. })));
    }
}

async fn a_hold_is_detached_after_the_body_on_request(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job").lease(Duration::from_secs(60));
    assert_eq!(lock.section().on_finish(OnFinish::Detach).run(async |_| 3).await, Ok(3));
    assert!((50_000..=60_000).contains(&pttl(&server, "job")));
    assert!(lock.try_lock().await.unwrap().is_none(), "its own process included");
    let watched = client.lock("watched").watchdog(ms(150));
    assert_eq!(watched.section().on_finish(OnFinish::Detach).run(async |_| 3).await, Ok(3));
    eventually("the last lease to run out", || is_free(&server, "watched")).await;
}

async fn callees_of_the_body_re_enter_at_any_depth(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let depths = soon(
        "three holds of one owner",
        lock.run(async |_| {
            let other = client.fair_lock("other");
            let inner = other.run(async |_| {
                let innermost = lock.run(async |_| count(&server, "job")).await.unwrap();
                let guard = lock.lock().await.unwrap();
                (innermost, guard.release().await.is_ok())
            });
            (inner.await.unwrap(), count(&server, "job"))
        }),
    );
    assert_eq!(depths.await, Ok(((2, true), 1)));
    eventually("the release", || is_free(&server, "job")).await;
}

/// Makes several round trips. Every earlier request of this client, on its one connection, has its answer by then.
async fn flush_earlier_requests(client: &Client) {
    for _ in 0..5 {
        client.lock("somewhere else").is_locked().await.unwrap();
    }
}

async fn branches_of_a_body_exclude_each_other(server: Fixture) {
    let client = connect(&server).await;
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let branch = async || {
        let critical = async |_: &leasehold::Guard| {
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            flush_earlier_requests(&client).await;
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        client.lock("item").run(critical).await.unwrap();
    };
    let all = client.lock("batch").section().run(async |_| tokio::join!(branch(), branch(), branch()));
    soon("all branches", all).await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

async fn tasks_spawned_by_the_body_wait(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let outcome = lock.run(async |_| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.try_lock().await.unwrap().is_none() }).await.unwrap()
    });
    assert_eq!(outcome.await, Ok(true));
}

/// A `LocalSet` polls its tasks within the task that awaits it.
async fn tasks_that_the_bodys_own_task_polls_wait(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let tasks = tokio::task::LocalSet::new();
    let is_kept_out = || {
        let lock = lock.clone();
        tasks.spawn_local(async move { lock.try_lock().await.unwrap().is_none() })
    };
    let spawned = is_kept_out();
    let outcome = lock.run(async |_| tasks.run_until(async { spawned.await.unwrap() }).await);
    assert_eq!(outcome.await, Ok(true), "of a body");
    let spawned = is_kept_out();
    let outcome = owner::scope(async {
        let _guard = lock.lock().await.unwrap();
        tasks.run_until(async { spawned.await.unwrap() }).await
    });
    assert!(outcome.await, "of a scope");
}

/// Tokio reports the id of the body's task here too, so only the caller can tell these tasks from the body's
/// branches.
async fn tasks_of_another_executor_wait_when_they_are_independent(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let is_kept_out = async || lock.try_lock().await.unwrap().is_none();
    let drives = async || {
        let callee = futures_executor::block_on(is_kept_out());
        (callee, futures_executor::block_on(owner::independent(is_kept_out())))
    };
    assert_eq!(lock.run(async |_| drives().await).await, Ok((false, true)), "of a body");
    let of_scope = owner::scope(async {
        let _guard = lock.lock().await.unwrap();
        drives().await
    });
    assert_eq!(of_scope.await, (false, true), "of a scope");
    let inside = lock.run(async |_| owner::independent(owner::scope(async { owner::ambient() })).await).await;
    assert!(inside.unwrap().is_some(), "it may have a scope of its own");
}

async fn outer_and_inner_scopes_change_nothing(server: Fixture) {
    let client = connect(&server).await;
    let lock = client.lock("job");
    let counted = owner::scope(async {
        let guard = lock.lock().await.unwrap();
        let inner = lock.run(async |_| count(&server, "job")).await;
        guard.release().await.unwrap();
        inner
    });
    assert_eq!(soon("the scope's owner to re-enter", counted).await, Ok(2));
    let counted = lock.run(async |_| {
        owner::scope(async {
            let _guard = lock.lock().await.unwrap();
            let _other = client.lock("other").lock().await.unwrap();
            let _once_more = client.lock("other").lock().await.unwrap();
            (count(&server, "job"), count(&server, "other"))
        })
        .await
    });
    assert_eq!(soon("the body's owner to re-enter", counted).await, Ok((2, 2)));
}

async fn another_client_is_another_owner(server: Fixture) {
    let (client, other) = (connect(&server).await, connect(&server).await);
    let outcome =
        client.lock("job").section().run(async |_| other.lock("job").try_lock().await.unwrap().is_none());
    assert_eq!(outcome.await, Ok(true));
}

async fn a_multi_lock_in_the_body_re_enters_the_lock_of_the_body(server: Fixture) {
    let client = connect(&server).await;
    let both = MultiLock::of([client.lock("job").into(), client.lock("other").into()]);
    let counted = client.lock("job").section().run(async |_| {
        let _guard = both.lock().await.unwrap();
        (count(&server, "job"), count(&server, "other"))
    });
    assert_eq!(soon("both", counted).await, Ok((2, 1)));
}

async fn a_section_guard_releases_on_drop(server: Fixture) {
    let client = connect(&server).await;
    let entered = client.lock("job").section().enter().await.unwrap();
    assert!(entered.guard().is_held());
    assert_eq!(count(&server, "job"), 1);
    drop(entered);
    eventually("the release", || is_free(&server, "job")).await;
}

async fn permits_limit_concurrent_bodies(server: Fixture) {
    let client = connect(&server).await;
    let (inside, most) = (AtomicU32::new(0), AtomicU32::new(0));
    let body = async || {
        let section = client.expirable_semaphore("seats").section(2);
        let critical = async |permits: &leasehold::Permits| {
            assert_eq!(permits.count(), 1);
            most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            eventually("a second one", || most.load(Ordering::SeqCst) >= 2).await;
            flush_earlier_requests(&client).await;
            inside.fetch_sub(1, Ordering::SeqCst);
        };
        section.run(critical).await.unwrap();
    };
    soon("all bodies", async { tokio::join!(body(), body(), body(), body(), body()) }).await;
    assert_eq!(most.load(Ordering::SeqCst), 2);
    let busy = client.expirable_semaphore("seats");
    let (_one, _other) = (busy.acquire().await.unwrap(), busy.acquire().await.unwrap());
    let outcome = busy.section(2).wait(ms(300)).run(async |_| ()).await;
    assert!(matches!(outcome, Err(RunError::Busy { wait, .. }) if wait == ms(300)), "{outcome:?}");
}

async fn an_invalid_name_is_reported(server: Fixture) {
    let client = connect(&server).await;
    let outcome = client.lock("").run(async |_| ()).await;
    let Err(RunError::Acquire(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error, AcquireErrorKind::Name(NameError::Empty));
    assert_eq!(leasehold::installed().unwrap_err(), NotInstalled, "no client is installed in this process");
}

async fn a_section_guard_can_be_spawned(server: Fixture) {
    let client = connect(&server).await;
    let task = async move {
        let text = String::from("moved in");
        let entered = client.fenced_lock("job").section().enter().await?;
        let token = entered.guard().token();
        entered.run(async move { (token, text.len()) }).await
    };
    assert_eq!(soon("the task", tokio::spawn(task)).await.unwrap(), Ok((1, 8)));
}

async fn a_spawned_section_guard_leaves_its_outer_bodies_and_scope(server: Fixture) {
    let client = connect(&server).await;
    let batch = client.lock("batch");
    let is_kept_out = async || {
        let (entered, batch) = (client.lock("item").section().enter().await.unwrap(), batch.clone());
        tokio::spawn(entered.run(async move { batch.try_lock().await.unwrap().is_none() })).await.unwrap()
    };
    assert_eq!(batch.run(async |_| is_kept_out().await).await, Ok(Ok(true)), "of the body that spawns it");
    let outcome = owner::scope(async {
        let _guard = batch.lock().await.unwrap();
        is_kept_out().await
    });
    assert_eq!(outcome.await, Ok(true), "of the scope that spawns it");
}

async fn a_run_that_nobody_polls_drops_its_body_under_the_lock(server: Fixture) {
    struct Noted<'a>(&'a Fixture, &'a AtomicU32);
    impl Drop for Noted<'_> {
        fn drop(&mut self) {
            self.1.store(u32::from(!is_free(self.0, "job")), Ordering::SeqCst);
        }
    }
    let (client, seen) = (connect(&server).await, AtomicU32::new(0));
    let section = client.lock("job").section().enter().await.unwrap();
    let noted = Noted(&server, &seen);
    drop(section.run(async move { drop(noted) }));
    assert_eq!(seen.load(Ordering::SeqCst), 1);
    eventually("the release", || is_free(&server, "job")).await;
}

async fn a_run_of_a_lock_that_nobody_keeps_can_be_spawned(server: Fixture) {
    let client = connect(&server).await;
    let running = tokio::spawn(client.lock("job").run(async |guard| guard.is_held()));
    assert_eq!(soon("the run", running).await.unwrap(), Ok(true));
}
